#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod config;
mod keeper;
mod kept;
mod log_sink;
mod missed;
mod missed_file;
mod password;
pub mod resp;
mod server;
pub mod session;
mod sink;

pub use config::{Backend, Listen, OnLogFailure, ProxyConfig, Release, Upstream};
pub use keeper::{Ending, Keeper, Keeping, REOPEN_INTERVAL_MAX, REOPEN_INTERVAL_MIN, Reopen};
pub use log_sink::{LogSink, LogSource, LogTicket};
pub use missed::Missed;
pub use missed_file::{MissedFile, Settled, settle};
pub use password::Password;
pub use server::{Proxy, ProxyError, Support, serve};
pub use sink::{EntrySink, SinkError, SinkSource};
