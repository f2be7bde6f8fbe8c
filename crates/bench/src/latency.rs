//! The latency benchmark: appends at half the peak rate, the time until an entry is sealed, and
//! durable appends of many threads.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use probity_log::{Durability, LatencyHistogram, Log, Options, StreamConfig, StreamName};
use serde_json::json;

use crate::command::{BenchError, LatencyArguments};
use crate::ingest::root_key;
use crate::output::write_files;
use crate::plot::{Line, lines};
use crate::workload::{Pool, Shape};

/// Runs the three measurements.
pub(crate) fn run(arguments: &LatencyArguments, out: &mut dyn Write) -> Result<(), BenchError> {
    let folder = arguments.output.folder()?;
    let pool = Pool::new(20_000, arguments.payload, Shape::Words, 1);
    let peak = peak_rate(&pool, arguments.entries, &folder.path().join("peak"))?;
    let half = half_rate(
        &pool,
        arguments.entries,
        peak / 2.0,
        &folder.path().join("half"),
    )?;
    let durable = durable_rate(&pool, arguments, &folder.path().join("durable"))?;
    let at = |share: f64| percentile(&half.appends, share);
    let sealed = |share: f64| half.sealed.percentile(share).as_micros();
    let value = json!({
        "peak_entries_per_second": peak,
        "append_p50_ns": at(0.5),
        "append_p99_ns": at(0.99),
        "append_p999_ns": at(0.999),
        "append_max_ns": at(1.0),
        "frames": half.sealed.frames(),
        "sealed_after_p50_us": sealed(0.5),
        "sealed_after_p99_us": sealed(0.99),
        "sealed_after_max_us": half.sealed.max().as_micros(),
        "durable_after_p50_ns": percentile(&half.durable_after, 0.5),
        "durable_after_max_ns": percentile(&half.durable_after, 1.0),
        "durable_threads": arguments.threads,
        "durable_appends_per_second": durable,
    });
    if arguments.output.json {
        writeln!(out, "{value}")?;
    } else {
        writeln!(
            out,
            "append at half the peak of {peak:.0}/s: p50 {} ns, p99 {} ns, p99.9 {} ns",
            at(0.5),
            at(0.99),
            at(0.999)
        )?;
        writeln!(
            out,
            "oldest entry of a frame when sealed: p50 {} us, p99 {} us, at most {} us",
            sealed(0.5),
            sealed(0.99),
            half.sealed.max().as_micros(),
        )?;
        writeln!(
            out,
            "durable unasked after: p50 {:.2} ms, at most {:.2} ms; {} threads append durably {durable:.0}/s",
            percentile(&half.durable_after, 0.5) / 1e6,
            percentile(&half.durable_after, 1.0) / 1e6,
            arguments.threads,
        )?;
    }
    write_files(&arguments.output, &[value], || plot(&half))
}

/// Draws the durations by how many appends there are to one that takes longer.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn plot(half: &HalfRate) -> Result<String, BenchError> {
    let line = |label: &str, sorted: &[f64]| {
        let least = TAILS.iter().filter(|tail| **tail <= sorted.len() as f64);
        let points = least.map(|tail| (*tail, percentile(sorted, 1.0 - 1.0 / tail)));
        Line {
            label: label.to_owned(),
            points: points.collect(),
        }
    };
    let drawn = [
        line("an append", &half.appends),
        line("until durable, unasked", &half.durable_after),
    ];
    let axes = ("appends for each one that takes longer", "nanoseconds");
    lines("Latency at half the peak rate", axes, &drawn)
}

/// The numbers of appends of which one takes longer than the duration drawn.
const TAILS: [f64; 7] = [2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// Tolerance by which an append may be early at half the peak rate.
const PACE: Duration = Duration::from_micros(100);

fn open(path: &Path) -> Result<Log, BenchError> {
    let config = StreamConfig::default();
    let (root, options) = (root_key(), Options::default());
    Ok(Log::create(
        path,
        "bench.example/log",
        &root,
        config,
        options,
    )?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn peak_rate(pool: &Pool, entries: u64, path: &Path) -> Result<f64, BenchError> {
    let log = open(path)?;
    let mut appender = log.appender(&StreamName::default())?;
    let started = Instant::now();
    pool.for_each(0, entries, |entry| appender.append(entry).map(drop))?;
    drop(appender);
    log.close()?;
    Ok(entries as f64 / started.elapsed().as_secs_f64())
}

/// The results of one run at half the peak rate.
struct HalfRate {
    /// Duration of each append in nanoseconds, sorted.
    appends: Vec<f64>,
    /// Time from append to durability of sampled entries in nanoseconds, sorted.
    durable_after: Vec<f64>,
    /// Age of each frame's oldest entry when the frame was sealed.
    sealed: LatencyHistogram,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn half_rate(pool: &Pool, entries: u64, rate: f64, path: &Path) -> Result<HalfRate, BenchError> {
    let log = open(path)?;
    let mut appender = log.appender(&StreamName::default())?;
    let mut appends = Vec::with_capacity(usize::try_from(entries).unwrap_or_default());
    let mut durable_after = Vec::new();
    let mut watched = None;
    let started = Instant::now();
    let mut number = 0_u64;
    pool.for_each(0, entries, |entry| {
        let due = Duration::from_secs_f64(number as f64 / rate);
        // Sleeps instead of spinning, to leave the core to the sealers.
        if let Some(early) = due.checked_sub(started.elapsed())
            && early >= PACE
        {
            std::thread::sleep(early);
        }
        let before = Instant::now();
        let ticket = appender.append(entry)?;
        appends.push(before.elapsed().as_nanos() as f64);
        number += 1;
        match watched {
            None => watched = Some((ticket, before)),
            Some((ticket, since))
                if number.is_multiple_of(64) && appender.receipt(ticket)?.is_some() =>
            {
                durable_after.push(since.elapsed().as_nanos() as f64);
                watched = None;
            }
            Some(_) => {}
        }
        Ok::<(), BenchError>(())
    })?;
    let sealed = log.sealing_ages();
    drop(appender);
    log.close()?;
    appends.sort_by(f64::total_cmp);
    durable_after.sort_by(f64::total_cmp);
    Ok(HalfRate {
        appends,
        durable_after,
        sealed,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn durable_rate(pool: &Pool, arguments: &LatencyArguments, path: &Path) -> Result<f64, BenchError> {
    let config = StreamConfig::default();
    let options = Options {
        durability: Durability::Strict,
        queue_bytes: Options::QUEUE_BYTES.max((arguments.threads + 8) << 20),
        ..Options::default()
    };
    let log = Log::create(path, "bench.example/log", &root_key(), config, options)?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for thread in 0..arguments.threads {
            let log = &log;
            running.push(scope.spawn(move || -> Result<(), BenchError> {
                let mut appender = log.appender(&StreamName::default())?;
                pool.for_each(thread, arguments.durable, |entry| {
                    appender
                        .append_durable(entry)
                        .map(drop)
                        .map_err(BenchError::from)
                })
            }));
        }
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_panicked| BenchError::Failed("a thread ended".into()))?
        })
    })?;
    let seconds = started.elapsed().as_secs_f64();
    log.close()?;
    Ok((arguments.durable * arguments.threads as u64) as f64 / seconds)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place within the samples"
)]
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}
