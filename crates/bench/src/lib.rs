//! The figures: workloads, ceilings measured in the same run, plots.
//!
//! Speed is only ever claimed from here. Each run measures also what the bare compressor and
//! cipher reach over the same bytes on the same cores, and says which share of it the log reached.

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
