//! The command line of the benchmarks: arguments, their help, and errors.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use probity_log::{Compression, Durability, LogError, Proofs};

use crate::disguise::{ConcurrencyArguments, DisguiseArguments};
use crate::ingest::{Setting, run};
use crate::output::{self, Output};
use crate::pocketdb::Part;
use crate::workload::Shape;
use crate::{latency, pocketdb, presets, proxy, verify};

/// The reason why a benchmark failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The log returned an error.
    #[error("the log failed")]
    Log(#[from] LogError),
    /// An append failed.
    #[error("an append failed")]
    Append(#[from] probity_log::AppendError),
    /// A disguise failed.
    #[error("a disguise failed")]
    Disguise(#[from] probity_disguise::Error),
    /// A description or a specification is invalid.
    #[error("a specification is refused")]
    Spec(#[from] probity_disguise::SpecError),
    /// A database returned an error.
    #[error("the database failed")]
    Database(#[from] probity_disguise::DatabaseError),
    /// A file could not be written or read.
    #[error("the benchmark's files cannot be written")]
    Io(#[from] std::io::Error),
    /// A requested output file could not be written.
    #[error("cannot write {}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Any other failure; one clause.
    #[error("{0}")]
    Failed(String),
}

/// Measure the log and disguises on this machine.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Append as fast as possible; example: probity-bench ingest --preset table
    Ingest(IngestArguments),
    /// Verify a log made for the purpose; example: probity-bench verify --entries 10000000
    Verify(VerifyArguments),
    /// Measure each append at half the peak rate, and durable appends of many threads
    Latency(LatencyArguments),
    /// Requests of many clients at a Redis server, at it through the proxy, and at the embedded store
    Proxy(ProxyArguments),
    /// Count what the pocket database costs; example: probity-bench pocketdb --rows 100000 --plot queries.svg
    Pocketdb(PocketArguments),
    /// Hide and reveal users of three applications, beside the same by hand
    Disguise(DisguiseArguments),
    /// Requests of an application while people leave and return beside them
    Concurrency(ConcurrencyArguments),
}

/// Named sets of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// The seed's main benchmark: 16 producers, 4 KiB entries, level 1
    Main,
    /// Producers = writers = 1..N
    Scaling,
    /// Writers x batch x entry size x encryption x level, repeats averaged
    Performance,
    /// Sizes x levels x encryption
    Compression,
    /// Main, 256 B, 32 B and no payload, each also with entry proofs, on 2 producers and 2 writers
    Table,
}

/// Arguments of `ingest`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct IngestArguments {
    /// A set of parameters; the flags below change single ones
    #[arg(long, value_enum)]
    pub(crate) preset: Option<Preset>,
    /// Threads that append
    #[arg(long)]
    producers: Option<usize>,
    /// Threads that seal and write
    #[arg(long)]
    writers: Option<usize>,
    /// Entries each producer appends
    #[arg(long)]
    entries: Option<u64>,
    /// Bytes of payload
    #[arg(long)]
    payload: Option<usize>,
    /// Most entries in a frame
    #[arg(long)]
    writer_batch: Option<u32>,
    /// Entries appended to one destination before the next
    #[arg(long)]
    producer_batch: Option<usize>,
    /// Bytes of memory for entries that are not sealed yet
    #[arg(long)]
    queue_bytes: Option<usize>,
    /// Size at which a segment is closed
    #[arg(long)]
    segment_bytes: Option<u64>,
    /// zstd:N, none or a level 0..=19
    #[arg(long, value_parser = compression)]
    compression: Option<Compression>,
    /// on or off
    #[arg(long, value_parser = on_off)]
    encryption: Option<bool>,
    /// entry or section
    #[arg(long, value_parser = proofs)]
    proofs: Option<Proofs>,
    /// Seal keys and payloads under keys of their subjects
    #[arg(long)]
    erasable: bool,
    /// strict, group or relaxed
    #[arg(long, value_parser = durability)]
    durability: Option<Durability>,
    /// Streams to spread entries over
    #[arg(long)]
    destinations: Option<usize>,
    /// Keys by Zipf 0.99 and half-compressible payloads
    #[arg(long)]
    mixed: bool,
    /// Seed of the generator
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of each setting; the median counts
    #[arg(long)]
    repeats: Option<usize>,
    /// Divide the entries of presets by this
    #[arg(long, default_value_t = 1)]
    pub(crate) scale: u64,
    /// Tiny sizes, for tests
    #[arg(long)]
    pub(crate) small: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// Destinations of results.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Folder for the logs made; default: a temporary one
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a new CSV file
    #[arg(long)]
    pub(crate) csv: Option<PathBuf>,
    /// Write a new SVG plot
    #[arg(long)]
    pub(crate) plot: Option<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Entries in the log
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) entries: u64,
    /// Bytes of payload
    #[arg(long, default_value_t = 0)]
    pub(crate) payload: usize,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    pub(crate) jobs: usize,
    /// Runs; the median counts
    #[arg(long, default_value_t = 5)]
    pub(crate) repeats: usize,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Arguments of `latency`.
#[derive(Debug, Args)]
pub struct LatencyArguments {
    /// Entries for the peak and for the latency run
    #[arg(long, default_value_t = 2_000_000)]
    pub(crate) entries: u64,
    /// Threads that append durably one by one
    #[arg(long, default_value_t = 64)]
    pub(crate) threads: usize,
    /// Durable appends of each of them
    #[arg(long, default_value_t = 2_000)]
    pub(crate) durable: u64,
    /// Bytes of payload
    #[arg(long, default_value_t = 32)]
    pub(crate) payload: usize,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Arguments of `proxy`.
#[derive(Debug, Args)]
pub struct ProxyArguments {
    /// URL of the server to compare with; default: one started for the purpose
    #[arg(long)]
    pub(crate) upstream: Option<String>,
    /// Requests of each run; in the pipelined runs, pipelines
    #[arg(long, default_value_t = 20_000)]
    pub(crate) requests: u64,
    /// Clients at the same time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) clients: u64,
    /// Requests sent before their replies are read, in the pipelined runs
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) pipeline: u64,
    /// Keys, chosen evenly
    #[arg(long, default_value_t = 10_000)]
    pub(crate) keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 64)]
    pub(crate) payload: usize,
    /// Runs of each setting; the median counts
    #[arg(long, default_value_t = 5)]
    pub(crate) repeats: usize,
    /// Tiny sizes, for tests
    #[arg(long)]
    pub(crate) small: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Arguments of `pocketdb`.
#[derive(Debug, Args)]
pub struct PocketArguments {
    /// Rows of the largest table; the paper has 1000000, the other tables follow
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..))]
    pub(crate) rows: u32,
    /// Bytes of memory of the engine
    #[arg(long, default_value_t = 65_536)]
    pub(crate) ram: usize,
    /// Deletes, and updates, before the queries are asked again
    #[arg(long, default_value_t = 3_000)]
    pub(crate) changes: u32,
    /// Reorganise a second database after so many rows of the largest table, to see what a row costs in its life; 0: no
    #[arg(long, default_value_t = 1_000)]
    pub(crate) lifetime_limit: u32,
    /// Only this part; may be given several times
    #[arg(long, value_enum)]
    pub(crate) part: Vec<Part>,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Compare with `SQLCipher` too, whose shell is this program
    #[arg(long)]
    pub(crate) sqlcipher: Option<PathBuf>,
    /// Write figure7.svg to figure10.svg, new files in the form of the paper's figures, to this folder
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

impl BenchCommand {
    const fn output(&self) -> &OutputArguments {
        match self {
            Self::Ingest(arguments) => &arguments.output,
            Self::Verify(arguments) => &arguments.output,
            Self::Latency(arguments) => &arguments.output,
            Self::Proxy(arguments) => &arguments.output,
            Self::Pocketdb(arguments) => &arguments.output,
            Self::Disguise(arguments) => &arguments.output,
            Self::Concurrency(arguments) => &arguments.output,
        }
    }

    /// Runs the benchmark and writes its results to `out` and the requested files.
    ///
    /// # Errors
    /// See [`BenchError`].
    pub fn run(&self, out: &mut dyn std::io::Write) -> Result<(), BenchError> {
        let output = self.output();
        for path in [&output.csv, &output.plot].into_iter().flatten() {
            output::check_new(path)?;
        }
        match self {
            Self::Ingest(arguments) => arguments.run(out),
            Self::Verify(arguments) => verify::run(arguments, out),
            Self::Latency(arguments) => latency::run(arguments, out),
            Self::Proxy(arguments) => proxy::run(arguments, out),
            Self::Pocketdb(arguments) => pocketdb::run(arguments, out),
            Self::Disguise(arguments) => arguments.run(out),
            Self::Concurrency(arguments) => arguments.run(out),
        }
    }
}

impl IngestArguments {
    fn run(&self, out: &mut dyn std::io::Write) -> Result<(), BenchError> {
        let mut settings = presets::settings(self);
        for setting in &mut settings {
            self.change(setting);
        }
        let folder = self.output.folder()?;
        let mut results = Vec::new();
        for setting in &settings {
            results.push(run(setting, folder.path())?);
        }
        output::write(
            &Output {
                results: &results,
                preset: self.preset,
            },
            &self.output,
            out,
        )
    }

    /// Applies the given flags to `setting`.
    fn change(&self, setting: &mut Setting) {
        fn put<T: Copy>(place: &mut T, value: Option<T>) {
            *place = value.unwrap_or(*place);
        }
        put(&mut setting.producers, self.producers);
        put(&mut setting.writers, self.writers);
        put(&mut setting.entries_per_producer, self.entries);
        put(&mut setting.payload_bytes, self.payload);
        put(&mut setting.writer_batch, self.writer_batch);
        put(&mut setting.producer_batch, self.producer_batch);
        put(&mut setting.queue_bytes, self.queue_bytes);
        put(&mut setting.segment_bytes, self.segment_bytes);
        put(&mut setting.compression, self.compression);
        put(&mut setting.encrypt, self.encryption);
        put(&mut setting.proofs, self.proofs);
        put(&mut setting.durability, self.durability);
        put(&mut setting.streams, self.destinations);
        put(&mut setting.seed, self.seed);
        put(&mut setting.repeats, self.repeats);
        setting.erasable |= self.erasable;
        if self.mixed {
            setting.shape = Shape::Mixed;
        }
    }
}

impl OutputArguments {
    /// Creates a temporary folder for logs, which is removed when the value is dropped.
    pub(crate) fn folder(&self) -> Result<tempfile::TempDir, BenchError> {
        Ok(match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        })
    }
}

fn compression(word: &str) -> Result<Compression, String> {
    Compression::from_word(word).ok_or_else(|| "use zstd:1 to zstd:19 or none".into())
}

fn on_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".into()),
    }
}

fn proofs(word: &str) -> Result<Proofs, String> {
    Proofs::from_word(word).ok_or_else(|| "use entry or section".into())
}

fn durability(word: &str) -> Result<Durability, String> {
    [Durability::Strict, Durability::Group, Durability::Relaxed]
        .into_iter()
        .find(|durability| durability.as_str() == word)
        .ok_or_else(|| "use strict, group or relaxed".into())
}
