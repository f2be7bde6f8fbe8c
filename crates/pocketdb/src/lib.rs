//! A database for a device with 64 KB of memory and a flash chip that an attacker may read and
//! rewrite.
//!
//! Rows are written to flash strictly in order, encrypted and authenticated page by page. They are
//! committed by one small record in a secure store. The technique is that of MILo-DB (Anciaux et
//! al., 2014); `docs/pocketdb-format.md` describes every byte and lists unsupported features.
//!
//! A [`Store`] needs a chip that implements [`flash::Nand`] and a store that implements
//! [`SecureStore`]. The feature `std` has both in files and in memory. Statements go through
//! [`Store::execute`], and their rows to a [`Sink`].
//!
//! ```
//! use probity_pocketdb::flash::Simulator;
//! use probity_pocketdb::secure::MemoryStore;
//! use probity_pocketdb::{Heading, Outcome, Result, Row, Sink, Store, Value};
//!
//! struct Printer;
//!
//! impl Sink for Printer {
//!     fn begin(&mut self, columns: &[Heading<'_>]) -> Result<()> {
//!         println!("{}", columns[0].name);
//!         Ok(())
//!     }
//!
//!     fn row(&mut self, row: &Row<'_>) -> Result<()> {
//!         println!("{}", row.value(0));
//!         Ok(())
//!     }
//! }
//!
//! let (chip, secure) = (Simulator::new(64), MemoryStore::new(128 * 1024));
//! let secret = [7; 32]; // Fresh randomness, except in an example.
//! let mut store = Store::create(chip, secure, &secret, 64 * 1024)?;
//! let table = "CREATE TABLE visits (id INTEGER PRIMARY KEY, day INTEGER INDEXED)";
//! store.execute(table, &[], &mut Printer)?;
//! let visit = "INSERT INTO visits (day) VALUES (?)";
//! store.execute(visit, &[Value::Integer(20_260_321)], &mut Printer)?;
//! let query = "SELECT day FROM visits WHERE day >= 20260101";
//! assert_eq!(store.execute(query, &[], &mut Printer)?, Outcome::Shown(1));
//! # Ok::<(), probity_pocketdb::Error>(())
//! ```
//!
//! # Rooms
//!
//! Each room uses those above it in this list, never one below.
//!
//! | room | files |
//! |---|---|
//! | `limits` | every bound |
//! | `pager` | `error`; `flash`, `secure` and `root`: the media; `seal`, `side`, `generations`: keys; `arena`: frames; `blocks`, `directory`, `directory_code`, `shape`: space; `log`, `sort`: logs of pages; `buffer`, `run`, `window`: waiting rows; `commit`, `ring`, `recovery`: commits |
//! | `error` | the reasons why an operation failed, by who must act |
//! | `tables` | `id`, `catalogue`, `value`; `base`, `rows`, `unit`, `part`: rows; `hashes`, `pair`, `index`, `keys`: indexes; `change`, `summary`, `stretch`: deletes and updates; `reorganize`; `memory`, `recovery`, `store` |
//! | `query` | `sql`: text to bound statements; `condition`, `select`: bound queries; `stream`, `chunk`, `sieve`, `rows`, `aggregate`, `pipeline`: operators |

#![no_std]
#![forbid(unsafe_code)]

#[cfg_attr(any(feature = "std", test), macro_use)]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod error;
pub mod limits;
mod pager;
mod query;
mod tables;

pub use error::{Error, Result};
pub use pager::error::SecureStoreError;
pub use pager::flash;
#[cfg(feature = "std")]
pub use pager::medium::SystemFailure;
pub use pager::root::{FORMAT, SecureStore};
pub use pager::seal::CipherCounters;
#[cfg(feature = "std")]
pub use pager::secure;
pub use pager::usage::{Operations, Usage};
pub use query::select::{Heading, Row, Sink};
pub use query::sql::{Outcome, Statements};
pub use tables::catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};
pub use tables::id::{ColumnId, RowId, TableId};
pub use tables::index::Search;
pub use tables::reorganize::{Extent, Progress};
pub use tables::store::{Store, StoreCounters};
pub use tables::value::{Value, ValueType};
