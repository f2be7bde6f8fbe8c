//! Gets data about people into a pocket database, and signed evidence of it out.
//!
//! Each way in writes to a [`Store`](probity_pocketdb::Store) that the caller has opened:
//! [`run_script`] runs statements, an [`Import`] inserts the rows of a file, a [`Takeover`] copies
//! tables and rows of another database, and a [`Person`] collects what a log, a store and disguises
//! hold about one person.
//!
//! [`draft_extract`] and [`draft_digest`] sign rows and pages; [`Evidence`] checks them with a
//! verifier key alone.
//!
//! Nothing is dropped silently: what a pocket database cannot keep is refused with a
//! [`VaultError`], unless an option gives it up by name. Rows are committed in groups, and what was
//! committed before an error stays. An [`Observer`] is told of each row.
//!
//! ```
//! use probity_pocketdb::Store;
//! use probity_pocketdb::flash::Simulator;
//! use probity_pocketdb::secure::MemoryStore;
//! use probity_vault::{Import, RowsFormat, run_script};
//!
//! # fn main() -> Result<(), probity_vault::VaultError> {
//! let (chip, secure) = (Simulator::new(64), MemoryStore::new(128 * 1024));
//! let secret = [7; 32]; // Fresh randomness, except in an example.
//! let mut store = Store::create(chip, secure, &secret, 64 * 1024)?;
//! let table = "CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor TEXT(40), day INTEGER)";
//! run_script(&mut store, table)?;
//! let mut import = Import::new(&mut store, "visits", 64)?;
//! let rows = "doctor,day\nAda,20260321\nBea,20260502\n";
//! import.read(RowsFormat::Csv, rows.as_bytes(), &mut ())?;
//! assert_eq!(import.committed(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! | question | files |
//! |---|---|
//! | Which statements change it? | `script` |
//! | How do rows of a file become rows of a table? | `import`, `rows_file` |
//! | What of another database can be kept, and how? | `takeover/`: `keys`, `losses`, `column` |
//! | What is held about a person, and where does it go? | `person/`: `entries`, `items`, `hidden`, `exact_json` |
//! | What do others check without the key? | `evidence/`: `draft`, `signed`, `row_form` |
//! | Why did it not get in, and who must act? | `error` |
//! | Who watches? | `observer` |

#![forbid(unsafe_code)]

mod error;
mod evidence;
mod import;
mod number;
mod observer;
mod person;
mod rows_file;
mod script;
mod takeover;

pub use error::{ExportFault, Loss, Reached, VaultError};
pub use evidence::{
    Digest, Draft, Evidence, EvidenceFault, EvidenceKind, Extract, Moment, RowForm,
    check_statement, draft_digest, draft_extract, repeated, steady,
};
pub use import::{End, Import, RowsFormat};
pub use observer::Observer;
pub use person::{Attribution, Filled, Person};
pub use script::{Done, run_script};
pub use takeover::{CutKey, LeftOutHeir, Takeover, TakeoverOptions, Weakened};
