//! The storage engine of the pocket database, a database that runs in 64 KB of memory.
//!
//! Rows are written to flash strictly in order, encrypted and authenticated page by page. They are
//! committed by one small record in a secure store. `docs/pocketdb.md` describes every byte, and
//! lists unsupported features.

#![no_std]
#![forbid(unsafe_code)]

#[cfg_attr(any(feature = "std", test), macro_use)]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod arena;
mod blocks;
mod buffer;
mod bytes;
mod catalogue;
mod change;
mod directory;
pub mod error;
pub mod flash;
mod hashes;
mod index;
mod keys;
pub mod limits;
mod list;
mod log;
#[cfg(feature = "std")]
mod medium;
mod memory;
mod part;
mod query;
mod recovery;
mod reorganize;
mod ring;
pub mod root;
mod rows;
mod run;
mod scratch;
mod seal;
#[cfg(feature = "std")]
pub mod secure;
mod series;
mod sort;
mod sql;
mod store;
mod stretch;
mod unit;
mod usage;
mod value;
mod window;

pub use catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};
pub use error::{Error, Result};
pub use index::Search;
#[cfg(feature = "std")]
pub use medium::SystemFailure;
pub use query::select::{Heading, Row, Sink};
pub use reorganize::{Extent, Progress};
pub use root::SecureStore;
pub use seal::CipherCounters;
pub use sql::{Outcome, Statements};
pub use store::{Store, StoreCounters};
pub use usage::{Operations, Usage};
pub use value::{Value, ValueType};
