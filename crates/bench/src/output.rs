//! Results as a table for people, JSON and CSV for machines, and a plot.

use std::io::Write;

use serde_json::{Value, json};

use crate::command::{BenchError, OutputArguments, Preset};
use crate::ingest::Outcome;
use crate::plot::{Bar, bars};

/// What bars of ingestion are long for.
const UNIT: &str = "million entries a second; grey: the bare compressor and cipher";

/// What there is to show.
pub(crate) struct Output<'a> {
    pub(crate) results: &'a [Outcome],
    pub(crate) preset: Option<Preset>,
}

/// Writes `output` wherever `arguments` ask for it.
#[expect(
    clippy::disallowed_methods,
    reason = "plots and tables are files of the user's choice"
)]
pub(crate) fn write(
    output: &Output<'_>,
    arguments: &OutputArguments,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    if arguments.json {
        let rows: Vec<Value> = output.results.iter().map(row).collect();
        writeln!(out, "{}", json!({ "results": rows }))?;
    } else {
        table(output.results, out)?;
    }
    if let Some(path) = &arguments.csv {
        std::fs::write(path, csv(output.results))?;
    }
    if let Some(path) = &arguments.plot {
        let title = match output.preset {
            Some(preset) => format!("Ingestion, preset {preset:?}"),
            None => "Ingestion".to_owned(),
        };
        let shown: Vec<Bar> = output
            .results
            .iter()
            .map(|result| Bar {
                label: result.setting.name.clone(),
                value: result.entries_per_second() / 1e6,
                ceiling: result.ceiling_entries_per_second / 1e6,
            })
            .collect();
        std::fs::write(path, bars(&title, UNIT, &shown))?;
    }
    Ok(())
}

fn row(result: &Outcome) -> Value {
    let setting = &result.setting;
    json!({
        "name": setting.name,
        "producers": setting.producers,
        "writers": setting.writers,
        "payload_bytes": setting.payload_bytes,
        "writer_batch": setting.writer_batch,
        "compression": setting.compression.to_string(),
        "encrypted": setting.encrypt,
        "proofs": setting.proofs.as_str(),
        "durability": setting.durability.as_str(),
        "erasable": setting.erasable,
        "destinations": setting.streams,
        "repeats": setting.repeats,
        "seconds": result.seconds,
        "entries": result.entries,
        "entries_per_second": result.entries_per_second(),
        "input_bytes": result.input_bytes,
        "gib_per_second": result.gib_per_second(),
        "stored_bytes": result.stored_bytes,
        "stored_share": result.stored_share(),
        "stored_bytes_per_entry": result.stored_per_entry(),
        "ceiling_entries_per_second": result.ceiling_entries_per_second,
        "ceiling_share": result.ceiling_share(),
        "peak_memory_bytes": result.peak_bytes,
    })
}

fn table(results: &[Outcome], out: &mut dyn Write) -> Result<(), BenchError> {
    writeln!(
        out,
        "| setting | entries/s | GiB/s | stored/input | B/entry | ceiling entries/s | share | peak MiB |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for result in results {
        writeln!(
            out,
            "| {} | {:.0} | {:.3} | {:.4} | {:.1} | {:.0} | {:.2} | {} |",
            result.setting.name,
            result.entries_per_second(),
            result.gib_per_second(),
            result.stored_share(),
            result.stored_per_entry(),
            result.ceiling_entries_per_second,
            result.ceiling_share(),
            result.peak_bytes >> 20,
        )?;
    }
    Ok(())
}

fn csv(results: &[Outcome]) -> String {
    let mut text = String::new();
    for (number, result) in results.iter().enumerate() {
        let Value::Object(fields) = row(result) else {
            continue;
        };
        if number == 0 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            text.push_str(&names.join(","));
            text.push('\n');
        }
        let cells: Vec<String> = fields
            .values()
            .map(|value| match value {
                Value::String(word) => word.replace(',', ";"),
                other => other.to_string(),
            })
            .collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
