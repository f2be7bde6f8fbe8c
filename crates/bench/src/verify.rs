//! The verification benchmark: throughput over all stored bytes, as a share of bare SHA-256 on the
//! same cores.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, StreamName};
use serde_json::json;

use crate::ceiling;
use crate::command::{BenchError, VerifyArguments};
use crate::ingest::{Setting, config, options, peak_bytes, root_key, stored_bytes};
use crate::output::write_files;
use crate::plot::{Bar, Legend, bars};
use crate::workload::Pool;

/// Writes a log, verifies it several times, and reports the speed.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn run(arguments: &VerifyArguments, out: &mut dyn Write) -> Result<(), BenchError> {
    let folder = arguments.output.folder()?;
    let path = folder.path().join("log");
    make(arguments, &path)?;
    let before = peak_bytes();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if arguments.jobs == 0 {
        cores
    } else {
        arguments.jobs
    };
    let mut runs = Vec::new();
    for _ in 0..arguments.repeats.max(1) {
        let started = Instant::now();
        let check = VerifyOptions {
            jobs: arguments.jobs,
            ..VerifyOptions::default()
        };
        let report = verify(&path, &check)?;
        if !report.is_intact() {
            return Err(BenchError::Failed(
                "a log just written does not verify".into(),
            ));
        }
        runs.push(started.elapsed().as_secs_f64());
    }
    runs.sort_by(f64::total_cmp);
    let seconds = runs.get(runs.len() / 2).copied().unwrap_or(f64::NAN);
    let stored = stored_bytes(&path)?;
    let hash = ceiling::hash(threads)?;
    let speed = stored as f64 / seconds;
    let value = json!({
        "entries": arguments.entries,
        "stored_bytes": stored,
        "seconds": seconds,
        "entries_per_second": arguments.entries as f64 / seconds,
        "bytes_per_second": speed,
        "sha256_bytes_per_second": hash,
        "sha256_share": speed / hash,
        "peak_memory_bytes_before": before,
        "peak_memory_bytes": peak_bytes(),
    });
    if arguments.output.json {
        writeln!(out, "{value}")?;
    } else {
        writeln!(
            out,
            "verified {} entries ({} MiB stored) in {seconds:.3} s: {:.2} GiB/s, {:.2} of bare SHA-256 on {threads} threads",
            arguments.entries,
            stored >> 20,
            speed / f64::from(1 << 30),
            speed / hash,
        )?;
    }
    write_files(&arguments.output, &[value], || plot(speed, hash))
}

/// Draws the speed beside that of bare SHA-256.
fn plot(speed: f64, hash: f64) -> Result<String, BenchError> {
    let gib = f64::from(1 << 30);
    let bar = Bar {
        label: "verification".to_owned(),
        value: speed / gib,
        ceiling: hash / gib,
    };
    let legend = Legend {
        unit: "GiB of the log a second",
        value: "verification",
        ceiling: Some("bare SHA-256"),
    };
    bars("Verification", legend, &[bar])
}

/// Writes the log to be verified.
fn make(arguments: &VerifyArguments, path: &Path) -> Result<(), BenchError> {
    let setting = Setting {
        payload_bytes: arguments.payload,
        ..Setting::default()
    };
    let pool = Pool::new(50_000, arguments.payload, setting.shape, 1);
    let log = Log::create(
        path,
        "bench.example/log",
        &root_key(),
        config(&setting),
        options(&setting),
    )?;
    let mut appender = log.appender(&StreamName::default())?;
    pool.for_each(0, arguments.entries, |entry| {
        appender.append(entry).map(drop)
    })?;
    drop(appender);
    Ok(log.close()?)
}
