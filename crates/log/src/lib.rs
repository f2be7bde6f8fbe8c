//! How an entry becomes evidence, and how it is read back.

#![forbid(unsafe_code)]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod appender;
mod config;
mod error;
mod log;
pub mod storage;

pub use appender::{Appender, Receipt, Ticket};
pub use config::{
    Cipher, Compression, Durability, Options, Proofs, StreamConfig, StreamName, StreamNameError,
};
pub use error::{AppendError, LogError};
pub use log::{Log, RootKey};
