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

pub mod error;
pub mod limits;
mod pager;
mod query;
mod tables;

pub use error::{Error, Result};
#[cfg(feature = "std")]
pub use pager::medium::SystemFailure;
pub use pager::root::SecureStore;
pub use pager::seal::CipherCounters;
#[cfg(feature = "std")]
pub use pager::secure;
pub use pager::usage::{Operations, Usage};
pub use pager::{flash, root};
pub use query::select::{Heading, Row, Sink};
pub use query::sql::{Outcome, Statements};
pub use tables::catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};
pub use tables::index::Search;
pub use tables::reorganize::{Extent, Progress};
pub use tables::store::{Store, StoreCounters};
pub use tables::value::{Value, ValueType};
