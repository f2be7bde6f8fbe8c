//! `pocket exec`: statements that change the database.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use probity_pocketdb::{Error, Heading, Outcome, Row, Sink, Statements};
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
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}",
            counted(self.statements, "statement", "statements"),
            counted(self.tables_created, "table created", "tables created"),
            counted(self.rows_changed, "row changed", "rows changed"),
        )
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
    // Rows changed before the transaction that is open.
    let mut before = 0;
    for (at, statement) in Statements::new(script) {
        done.statements += 1;
        match vault.execute(statement, &[], &mut NoRows) {
            Ok(Outcome::Created) => done.tables_created += 1,
            Ok(Outcome::Changed(rows)) => done.rows_changed += rows,
            Ok(Outcome::Transaction) if is_rollback(statement) => {
                done.rows_changed = before;
            }
            Ok(Outcome::Transaction) => before = done.rows_changed,
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
    Ok(done)
}

fn is_rollback(statement: &str) -> bool {
    let word = statement.split(|letter: char| !letter.is_ascii_alphabetic());
    word.take(1)
        .any(|word| word.eq_ignore_ascii_case("ROLLBACK"))
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
