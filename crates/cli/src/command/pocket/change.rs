//! `pocket exec`: statements that change the database.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use probity_pocketdb::{Error, Heading, Outcome, Row, Sink, Statements, Value};
use serde::Serialize;

use super::{Place, Vault};
use crate::args::PocketExec;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};

/// The counts of a script's effects.
#[derive(Debug, Default, Serialize)]
pub(super) struct Done {
    pub(super) statements: u64,
    pub(super) tables_created: u64,
    pub(super) rows_changed: u64,
    /// Rows that went because they referred to deleted ones.
    pub(super) rows_gone_along: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}",
            counted(self.statements, "statement", "statements"),
            counted(self.tables_created, "table created", "tables created"),
            counted(self.rows_changed, "row changed", "rows changed"),
        )?;
        if self.rows_gone_along > 0 {
            let rows = counted(self.rows_gone_along, "row", "rows");
            write!(f, ", {rows} went along that referred to deleted rows")?;
        }
        Ok(())
    }
}

pub(super) fn run(args: &PocketExec, environment: &Environment) -> Result<Status, Failure> {
    let script = match (&args.sql, &args.script) {
        (Some(sql), _) => sql.clone(),
        (None, Some(path)) => read_script(path)?,
        (None, None) => String::new(),
    };
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let ran = run_script(&place, &mut vault, &script);
    let done = place.close_after(vault, ran, Done::to_string)?;
    let mut output = Output::new();
    if args.json {
        output.json(&done)?;
    } else {
        output.line(&done.to_string())?;
    }
    output.flush()?;
    Ok(Status::Done)
}

pub(super) fn read_script(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::file("read", path, error))
}

/// Runs every statement of a script.
pub(super) fn run_script(place: &Place, vault: &mut Vault, script: &str) -> Result<Done, Failure> {
    let mut done = Done::default();
    let deletes = Statements::new(script).any(|(_, statement)| is_verb(statement, "DELETE"));
    let count = |vault: &mut Vault| rows(vault).map_err(|error| place.refused(error));
    // A deletion is told by its own rows; how many rows refer to them, only counting tells.
    let there = if deletes { count(vault)? } else { 0 };
    let mut kept = Balance::default();
    // The rows changed before the transaction that is open.
    let mut before = kept;
    for (at, statement) in Statements::new(script) {
        done.statements += 1;
        match vault.execute(statement, &[], &mut NoRows) {
            Ok(Outcome::Created) => done.tables_created += 1,
            Ok(Outcome::Changed(rows)) => kept.add(statement, rows),
            Ok(Outcome::Transaction) if is_verb(statement, "ROLLBACK") => kept = before,
            Ok(Outcome::Transaction) => before = kept,
            Ok(_) => {}
            Err(error) => {
                let number = done.statements;
                let failure = match error {
                    Error::Receiver => Failure::new("it shows rows and changes nothing")
                        .remedy("ask with: probity pocket query FILE SELECT"),
                    error => place.refused(error),
                };
                return Err(
                    failure.after(&format!("statement {number}, at byte {at}, was reached"))
                );
            }
        }
    }
    if vault.execute("ROLLBACK", &[], &mut NoRows).is_ok() {
        return Err(
            Failure::new("the statements end inside a transaction, which was rolled back")
                .remedy("end it with COMMIT"),
        );
    }
    done.rows_changed = kept.changed;
    if deletes {
        let named = there
            .saturating_add(kept.inserted)
            .saturating_sub(kept.deleted);
        done.rows_gone_along = named.saturating_sub(count(vault)?);
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
fn rows(vault: &mut Vault) -> probity_pocketdb::Result<u64> {
    let tables = vault.tables().map(|(_, name)| name.to_owned());
    let tables: Vec<String> = tables.collect();
    let mut all = Rows(0);
    for table in tables {
        let sql = format!("SELECT COUNT(*) FROM \"{table}\"");
        vault.execute(&sql, &[], &mut all)?;
    }
    Ok(all.0)
}

/// A sink that adds up the counts it is shown.
struct Rows(u64);

impl Sink for Rows {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> probity_pocketdb::Result<()> {
        if let Value::Integer(count) = row.value(0) {
            self.0 = self.0.saturating_add(u64::try_from(count).unwrap_or(0));
        }
        Ok(())
    }
}

/// A sink that refuses rows.
pub(super) struct NoRows;

impl Sink for NoRows {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        Err(Error::Receiver)
    }

    fn row(&mut self, _row: &Row<'_>) -> probity_pocketdb::Result<()> {
        Err(Error::Receiver)
    }
}
