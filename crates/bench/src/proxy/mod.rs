//! The proxy benchmark: the same clients at a bare server, at the server through the proxy, and at
//! the embedded store.

mod load;
mod server;
mod stage;

use std::io::Write;

use serde_json::{Value, json};

use self::load::{Load, Verb};
use self::server::Server;
use self::stage::{Run, STAGES, Stage};
use crate::command::{BenchError, ProxyArguments};
use crate::output::{Document, write_document};
use crate::plot::{Bar, Legend};

/// Limits for tests: requests per run, and keys.
const SMALL_REQUESTS: u64 = 100;
const SMALL_KEYS: u64 = 20;

/// One line of the results.
struct Row {
    stage: Stage,
    load: Load,
    /// Medians over the repeats.
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Entries and bytes of the log; 0 without a log.
    entries: u64,
    stored_bytes: u64,
    /// Requests per second of the bare server in the same run.
    direct: f64,
}

/// Runs every stage with every load. The stages take turns, so that each meets the machine as the
/// others do.
pub(crate) fn run(arguments: &ProxyArguments, out: &mut dyn Write) -> Result<(), BenchError> {
    let server = Server::start(arguments.upstream.as_deref())?;
    let folder = arguments.output.folder()?;
    let mut by_load = Vec::new();
    for load in loads(arguments) {
        by_load.push(measure(load, arguments, &server, folder.path())?.into_iter());
    }
    let mut rows: Vec<Row> = Vec::new();
    for _ in STAGES {
        rows.extend(by_load.iter_mut().filter_map(Iterator::next));
    }
    let lines: Vec<Value> = rows.iter().map(Row::json).collect();
    let bars: Vec<Bar> = rows.iter().map(Row::bar).collect();
    let document = Document {
        rows: &lines,
        bars: &bars,
        title: "Requests through the proxy",
        legend: Legend {
            unit: "thousand requests a second",
            value: "measured",
            ceiling: Some("the bare server"),
        },
    };
    write_document(&document, &arguments.output, out, &|out| table(&rows, out))
}

/// Returns each command unpipelined and pipelined.
fn loads(arguments: &ProxyArguments) -> Vec<Load> {
    let (requests, keys) = if arguments.small {
        (SMALL_REQUESTS, SMALL_KEYS)
    } else {
        (arguments.requests, arguments.keys)
    };
    let mut loads = Vec::new();
    for pipeline in [1, arguments.pipeline.max(1)] {
        for verb in [Verb::Set, Verb::Get] {
            loads.push(Load {
                verb,
                pipeline,
                clients: arguments.clients.max(1),
                requests,
                keys: keys.max(1),
                payload_bytes: arguments.payload,
            });
        }
    }
    loads
}

/// Returns a row for each stage, in their order.
fn measure(
    load: Load,
    arguments: &ProxyArguments,
    server: &Server,
    folder: &std::path::Path,
) -> Result<Vec<Row>, BenchError> {
    let repeats = if arguments.small {
        1
    } else {
        arguments.repeats
    };
    let mut runs = STAGES.map(|_| Vec::new());
    for _ in 0..repeats.max(1) {
        for (stage, runs) in STAGES.into_iter().zip(&mut runs) {
            runs.push(stage.run(&load, server, folder)?);
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (stage, runs) in STAGES.into_iter().zip(runs) {
        let run = median(runs)?;
        let requests_per_second = run.pace.requests_per_second();
        rows.push(Row {
            stage,
            load,
            requests_per_second,
            p50_us: run.pace.percentile(0.5),
            p99_us: run.pace.percentile(0.99),
            entries: run.entries,
            stored_bytes: run.stored_bytes,
            direct: rows
                .first()
                .map_or(requests_per_second, |direct| direct.requests_per_second),
        });
    }
    Ok(rows)
}

fn median(mut runs: Vec<Run>) -> Result<Run, BenchError> {
    runs.sort_by(|a, b| a.pace.seconds.total_cmp(&b.pace.seconds));
    let middle = runs.len() / 2;
    let run = runs.into_iter().nth(middle);
    run.ok_or_else(|| BenchError::Failed("nothing was run".into()))
}

impl Row {
    fn name(&self) -> String {
        let Load { verb, pipeline, .. } = &self.load;
        format!(
            "{}, {}, pipeline {pipeline}",
            self.stage.name(),
            verb.name()
        )
    }

    fn share(&self) -> f64 {
        self.requests_per_second / self.direct
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name(),
            "stage": self.stage.name(),
            "command": self.load.verb.name(),
            "pipeline": self.load.pipeline,
            "clients": self.load.clients,
            "requests": self.load.requests_said(),
            "keys": self.load.keys,
            "payload_bytes": self.load.payload_bytes,
            "requests_per_second": self.requests_per_second,
            "share_of_server": self.share(),
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "entries": self.entries,
            "stored_bytes": self.stored_bytes,
        })
    }

    fn bar(&self) -> Bar {
        Bar {
            label: self.name(),
            value: self.requests_per_second / 1e3,
            ceiling: self.direct / 1e3,
        }
    }
}

fn table(rows: &[Row], out: &mut dyn Write) -> Result<(), BenchError> {
    writeln!(
        out,
        "| behind the clients | command | pipeline | requests/s | of the server | p50 us | p99 us | entries |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        writeln!(
            out,
            "| {} | {} | {} | {:.0} | {:.2} | {:.0} | {:.0} | {} |",
            row.stage.name(),
            row.load.verb.name(),
            row.load.pipeline,
            row.requests_per_second,
            row.share(),
            row.p50_us,
            row.p99_us,
            row.entries,
        )?;
    }
    Ok(())
}
