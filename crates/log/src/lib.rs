//! How an entry becomes evidence, and how it is read back.

#![forbid(unsafe_code)]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod ages;
mod anchored;
mod appender;
mod batcher;
mod certified;
pub mod clock;
mod committer;
mod config;
mod continuation;
mod core;
mod creation;
mod durable;
mod epochs;
mod erasure;
mod error;
mod files;
mod flight;
mod heads;
mod heads_entry;
mod heads_writer;
mod history;
mod journal;
mod journal_v2;
mod journal_writer;
mod keystore;
mod leaves;
mod log;
mod opener;
mod origin;
mod own_writer;
mod places;
pub mod prove;
mod publisher;
pub mod reader;
mod records;
mod recovery;
mod repairs;
mod requests;
mod rotation;
mod scan;
mod sealer;
mod set_aside;
mod slots;
mod startup;
pub mod storage;
mod stream;
mod subjects;
mod tail;
mod ticker;
pub mod verify;

pub use ages::Ages;
pub use appender::{Appender, RUNS_REMEMBERED, Receipt, Ticket};
pub use certified::key_chain;
pub use config::{Durability, Options};
pub use continuation::{Continued, Older};
pub use erasure::ErasureReceipt;
pub use error::{AppendError, LogError, Missing};
pub use leaves::{Leaf, StoredLeaves};
pub use log::Log;
pub use places::Places;
pub use probity_format::keys::RootKey;
pub use probity_format::stream::{
    Cipher, Compression, Proofs, StreamConfig, StreamName, StreamNameError,
};
