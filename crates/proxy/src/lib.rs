//! How Redis traffic meets the policy and the log.

#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod resp;
pub mod session;
