//! How Redis traffic meets the policy and the log.

#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod config;
mod log_sink;
mod password;
pub mod resp;
mod server;
pub mod session;
mod sink;

pub use config::{Backend, Listen, OnLogFailure, ProxyConfig, Release, Upstream};
pub use log_sink::{LogSink, LogSource};
pub use password::Password;
pub use server::{Proxy, ProxyError, Support, serve};
pub use sink::{EntrySink, SinkError, SinkSource};
