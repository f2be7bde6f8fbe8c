//! The ingestion benchmark: producers append as fast as possible until all entries are durable and
//! published.

use std::path::Path;
use std::time::{Duration, Instant};

use probity_format::keys::{RootKey, Secret};
use probity_log::{
    Cipher, Compression, Durability, Log, LogError, Options, Proofs, StreamConfig, StreamName,
};

use crate::ceiling;
use crate::command::BenchError;
use crate::workload::{Pool, Shape};

/// The parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) producers: usize,
    pub(crate) writers: usize,
    pub(crate) entries_per_producer: u64,
    pub(crate) payload_bytes: usize,
    pub(crate) writer_batch: u32,
    pub(crate) producer_batch: usize,
    pub(crate) queue_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) compression: Compression,
    pub(crate) encrypt: bool,
    pub(crate) proofs: Proofs,
    pub(crate) erasable: bool,
    pub(crate) durability: Durability,
    pub(crate) streams: usize,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    pub(crate) repeats: usize,
    /// Duration of the ceiling's measurement.
    pub(crate) ceiling_time: Duration,
}

impl Default for Setting {
    /// Returns the main benchmark on two cores: two producers, two writers, 4 KiB.
    fn default() -> Self {
        Self {
            name: "main".into(),
            producers: 2,
            writers: 2,
            entries_per_producer: 400_000,
            payload_bytes: 4096,
            writer_batch: probity_format::limits::FRAME_ENTRIES_MAX,
            producer_batch: 4096,
            queue_bytes: Options::QUEUE_BYTES,
            segment_bytes: Options::SEGMENT_BYTES_MAX,
            compression: Compression::DEFAULT,
            encrypt: true,
            proofs: Proofs::Section,
            erasable: false,
            durability: Durability::Group,
            streams: 1,
            shape: Shape::Words,
            seed: 1,
            repeats: 1,
            ceiling_time: ceiling::DURATION,
        }
    }
}

/// The results of a run; medians over its repeats.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) setting: Setting,
    pub(crate) seconds: f64,
    pub(crate) entries: u64,
    pub(crate) input_bytes: u64,
    pub(crate) stored_bytes: u64,
    pub(crate) ceiling_entries_per_second: f64,
    pub(crate) peak_bytes: u64,
}

impl Outcome {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn entries_per_second(&self) -> f64 {
        self.entries as f64 / self.seconds
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn gib_per_second(&self) -> f64 {
        self.input_bytes as f64 / self.seconds / f64::from(1 << 30)
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn stored_share(&self) -> f64 {
        self.stored_bytes as f64 / self.input_bytes as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn stored_per_entry(&self) -> f64 {
        self.stored_bytes as f64 / self.entries as f64
    }

    pub(crate) fn ceiling_share(&self) -> f64 {
        self.entries_per_second() / self.ceiling_entries_per_second
    }
}

/// Returns the key of benchmark logs, which hold nothing secret.
pub(crate) fn root_key() -> RootKey {
    RootKey::new(Secret::new([0x42; 32]))
}

/// Runs `setting` in `folder`, which is emptied afterwards.
pub(crate) fn run(setting: &Setting, folder: &Path) -> Result<Outcome, BenchError> {
    let pool_entries = pool_entries(setting);
    let pools: Vec<Pool> = (0..setting.producers)
        .map(|producer| {
            let seed = setting.seed.wrapping_add(producer as u64);
            Pool::new(pool_entries, setting.payload_bytes, setting.shape, seed)
        })
        .collect();
    let first = pools
        .first()
        .ok_or_else(|| BenchError::Failed("no producers".into()))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ceiling = ceiling::seal(
        first,
        Options::FRAME_ROWS_BYTES,
        setting.writer_batch,
        setting.compression,
        setting.encrypt,
        cores.min(setting.producers + setting.writers),
        setting.ceiling_time,
    )?;
    let mut runs: Vec<(f64, u64)> = Vec::new();
    for repeat in 0..setting.repeats.max(1) {
        let path = folder.join(format!("log-{repeat}"));
        let seconds = once(setting, &pools, &path)?;
        runs.push((seconds, stored_bytes(&path)?));
        remove(&path)?;
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, stored_bytes) = runs.get(runs.len() / 2).copied().unwrap_or((f64::NAN, 0));
    let entries = setting.entries_per_producer * setting.producers as u64;
    Ok(Outcome {
        setting: setting.clone(),
        seconds,
        entries,
        input_bytes: pools
            .iter()
            .map(|pool| pool.input_bytes(setting.entries_per_producer))
            .sum(),
        stored_bytes,
        ceiling_entries_per_second: ceiling.entries_per_second,
        peak_bytes: peak_bytes(),
    })
}

/// Returns the number of distinct entries: enough for several frames, within about 64 MiB for all
/// producers.
fn pool_entries(setting: &Setting) -> usize {
    let each = setting.payload_bytes + 300;
    let in_memory = ((64 << 20) / each / setting.producers.max(1)).clamp(1000, 100_000);
    in_memory.min(usize::try_from(setting.entries_per_producer).unwrap_or(usize::MAX))
}

/// Returns the names of the streams: one, or one per destination.
fn stream_names(setting: &Setting) -> Result<Vec<StreamName>, BenchError> {
    if setting.streams <= 1 {
        return Ok(vec![StreamName::default()]);
    }
    (0..setting.streams)
        .map(|number| {
            StreamName::new(&format!("destination-{number}"))
                .map_err(|error| BenchError::Failed(error.to_string()))
        })
        .collect()
}

pub(crate) fn config(setting: &Setting) -> StreamConfig {
    StreamConfig {
        proofs: setting.proofs,
        cipher: if setting.encrypt {
            Cipher::Aes256Gcm
        } else {
            Cipher::DangerNone
        },
        erasable: setting.erasable,
        ..StreamConfig::default()
    }
}

pub(crate) fn options(setting: &Setting) -> Options {
    Options {
        durability: setting.durability,
        compression: setting.compression,
        sealers: setting.writers,
        frame_entries_max: setting.writer_batch,
        queue_bytes: setting.queue_bytes,
        segment_bytes_max: setting.segment_bytes,
        append_timeout: Duration::from_mins(2),
        ..Options::default()
    }
}

/// Runs the benchmark once: returns the seconds from the first append until the log is closed,
/// durable and published.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
fn once(setting: &Setting, pools: &[Pool], path: &Path) -> Result<f64, BenchError> {
    let log = Log::create(
        path,
        "bench.example/log",
        &root_key(),
        config(setting),
        options(setting),
    )?;
    let names = stream_names(setting)?;
    for name in &names {
        log.create_stream(name, config(setting))?;
    }
    let started = Instant::now();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (producer, pool) in pools.iter().enumerate() {
            let (log, names) = (&log, &names);
            running.push(scope.spawn(move || produce(setting, log, names, producer, pool)));
        }
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_panicked| BenchError::Failed("a producer ended".into()))?
        })
    })?;
    log.close()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Number of entries per call of `append_batch`.
const ENTRIES_AT_ONCE: usize = 64;

/// Appends in batches, each batch to the next destination, as the original benchmark's producers
/// do.
fn produce(
    setting: &Setting,
    log: &Log,
    names: &[StreamName],
    producer: usize,
    pool: &Pool,
) -> Result<(), BenchError> {
    let mut appenders = names
        .iter()
        .map(|name| log.appender(name))
        .collect::<Result<Vec<_>, LogError>>()?;
    let count = appenders.len();
    // Each call passes few entries, not the whole batch, so that they stay in the cache.
    let at_once = setting.producer_batch.clamp(1, ENTRIES_AT_ONCE);
    let mut number: usize = 0;
    pool.for_each_batch(producer, setting.entries_per_producer, at_once, |entries| {
        let place = number / setting.producer_batch.max(1) % count;
        number += entries.len();
        appenders
            .get_mut(place)
            .map_or(Ok(None), |appender| appender.append_batch(entries))
            .map(drop)
            .map_err(|(_, error)| BenchError::from(error))
    })
}

/// Returns the bytes of all files of the log at `path`.
pub(crate) fn stored_bytes(path: &Path) -> Result<u64, BenchError> {
    let mut total = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() {
            stored_bytes(&entry.path())?
        } else {
            meta.len()
        };
    }
    Ok(total)
}

pub(crate) fn remove(path: &Path) -> Result<(), BenchError> {
    std::fs::remove_dir_all(path)?;
    let mut heads = path.as_os_str().to_owned();
    heads.push(".heads");
    std::fs::remove_dir_all(heads)?;
    Ok(())
}

/// Returns the peak resident memory of the process, in bytes.
pub(crate) fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .unwrap_or_default()
        * 1024
}
