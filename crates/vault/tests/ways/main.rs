//! The ways into a pocket database, each with what it refuses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(test)]
mod evidence;
#[cfg(test)]
mod person;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod whose;

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Heading, Result, Row, Sink, Store};
use probity_vault::VaultError;

/// A database in memory.
pub(crate) type Pocket = Store<Simulator, MemoryStore>;

/// Creates an empty database.
pub(crate) fn pocket() -> Pocket {
    let (chip, secure) = (Simulator::new(64), MemoryStore::new(128 * 1024));
    Store::create(chip, secure, &[7; 32], 64 * 1024).unwrap()
}

/// Returns the rows of a query in the order of their texts, the values of each with bars between
/// them.
pub(crate) fn rows(store: &mut Pocket, query: &str) -> Vec<String> {
    struct Rows(Vec<String>);

    impl Sink for Rows {
        fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
            Ok(())
        }

        fn row(&mut self, row: &Row<'_>) -> Result<()> {
            let values = (0..row.len()).map(|number| row.value(number).to_string());
            self.0.push(values.collect::<Vec<_>>().join("|"));
            Ok(())
        }
    }

    let mut rows = Rows(Vec::new());
    store.execute(query, &[], &mut rows).unwrap();
    rows.0.sort();
    rows.0
}

/// Returns the text of an error and of all its causes.
pub(crate) fn said(error: &VaultError) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}
