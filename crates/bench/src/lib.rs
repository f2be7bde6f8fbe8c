//! Benchmarks of Probity: workloads, ceilings measured in the same run, and plots.
//!
//! All published figures of speed come from this crate. Each run also measures the bare compressor
//! and cipher on the same bytes and cores, and reports the log's share of that.

#![forbid(unsafe_code)]

mod ceiling;
mod command;
mod disguise;
mod ingest;
mod latency;
mod output;
mod plot;
mod pocketdb;
mod presets;
mod proxy;
mod verify;
mod workload;

pub use command::{
    BenchCommand, BenchError, IngestArguments, LatencyArguments, OutputArguments, PocketArguments,
    ProxyArguments, VerifyArguments,
};
pub use disguise::{ConcurrencyArguments, DisguiseArguments};
