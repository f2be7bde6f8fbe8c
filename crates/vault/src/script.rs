//! Statements that change a pocket database.

use probity_pocketdb::flash::Nand;
use probity_pocketdb::{
    Error, Heading, Outcome, Result as PocketResult, Row, SecureStore, Sink, Statements, Store,
    Value,
};

use crate::error::{Reached, VaultError};

/// The counts of a script's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Done {
    /// Statements that were run.
    pub statements: u64,
    /// Tables that were created.
    pub tables_created: u64,
    /// Rows that statements named and inserted, changed or deleted, without those of a transaction
    /// that was rolled back.
    pub rows_changed: u64,
    /// Rows that went because they referred to deleted ones.
    pub rows_gone_along: u64,
}

/// Runs every statement of `script`, with semicolons between them. Each is final when it is done,
/// unless `BEGIN` and `COMMIT` say otherwise.
///
/// # Errors
/// [`VaultError::Reached`] with the statement that was refused, or that shows rows;
/// [`VaultError::Unended`] where a transaction is open at the end, which is rolled back. What was
/// committed before stays.
pub fn run_script<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    script: &str,
) -> Result<Done, VaultError> {
    let mut done = Done::default();
    let deletes = Statements::new(script).any(|(_, statement)| is_verb(statement, "DELETE"));
    // A deletion is told by its own rows; how many rows refer to them, only counting tells.
    let there = if deletes { rows(store)? } else { 0 };
    let mut kept = Balance::default();
    // The rows changed before the transaction that is open.
    let mut before = kept;
    for (at, statement) in Statements::new(script) {
        done.statements += 1;
        match store.execute(statement, &[], &mut NoRows) {
            Ok(Outcome::Created) => done.tables_created += 1,
            Ok(Outcome::Changed(rows)) => kept.add(statement, rows),
            Ok(Outcome::Transaction) if is_verb(statement, "ROLLBACK") => kept = before,
            Ok(Outcome::Transaction) => before = kept,
            Ok(_) => {}
            Err(error) => {
                let refused = match error {
                    Error::Receiver => VaultError::Shows,
                    error => error.into(),
                };
                let number = done.statements;
                return Err(refused.at(Reached::Statement { number, at }));
            }
        }
    }
    if store.execute("ROLLBACK", &[], &mut NoRows).is_ok() {
        return Err(VaultError::Unended);
    }
    done.rows_changed = kept.changed;
    if deletes {
        let named = there
            .saturating_add(kept.inserted)
            .saturating_sub(kept.deleted);
        done.rows_gone_along = named.saturating_sub(rows(store)?);
    }
    Ok(done)
}

/// The rows that statements named.
#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    changed: u64,
    inserted: u64,
    deleted: u64,
}

impl Balance {
    fn add(&mut self, statement: &str, rows: u64) {
        self.changed = self.changed.saturating_add(rows);
        if is_verb(statement, "INSERT") {
            self.inserted = self.inserted.saturating_add(rows);
        } else if is_verb(statement, "DELETE") {
            self.deleted = self.deleted.saturating_add(rows);
        }
    }
}

/// Returns whether a statement begins with `verb`.
fn is_verb(statement: &str, verb: &str) -> bool {
    let mut words = statement.split(|letter: char| !letter.is_ascii_alphabetic());
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(verb))
}

/// Counts the rows of all tables.
fn rows<F: Nand, S: SecureStore>(store: &mut Store<F, S>) -> PocketResult<u64> {
    let tables = store.tables().map(|(_, name)| name.to_owned());
    let tables: Vec<String> = tables.collect();
    let mut all = Rows(0);
    for table in tables {
        let sql = format!("SELECT COUNT(*) FROM \"{table}\"");
        store.execute(&sql, &[], &mut all)?;
    }
    Ok(all.0)
}

/// A sink that adds up the counts it is shown.
struct Rows(u64);

impl Sink for Rows {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> PocketResult<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> PocketResult<()> {
        // COUNT(*) is a number of rows: never negative, and nothing else.
        if let Value::Integer(count) = row.value(0) {
            self.0 = self.0.saturating_add(u64::try_from(count).unwrap_or(0));
        }
        Ok(())
    }
}

/// A sink that refuses rows.
pub(crate) struct NoRows;

impl Sink for NoRows {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> PocketResult<()> {
        Err(Error::Receiver)
    }

    fn row(&mut self, _row: &Row<'_>) -> PocketResult<()> {
        Err(Error::Receiver)
    }
}

/// Returns `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
