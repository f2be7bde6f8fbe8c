//! `pocket exec`: statements that change the database.

use std::fs;
use std::io;
use std::path::Path;

use probity_vault::{Done, run_script};
use serde::Serialize;

use super::Place;
use crate::args::PocketExec;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};

/// The counts of a script's effects.
#[derive(Debug, Serialize)]
struct Executed {
    statements: u64,
    tables_created: u64,
    rows_changed: u64,
    /// Rows that went because they referred to deleted ones.
    rows_gone_along: u64,
}

pub(super) fn run(args: &PocketExec, environment: &Environment) -> Result<Status, Failure> {
    let script = match (&args.sql, &args.script) {
        (Some(sql), _) => sql.clone(),
        (None, Some(path)) => read_script(path)?,
        (None, None) => String::new(),
    };
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let ran = run_script(&mut vault, &script).map_err(|error| place.vault_refused(error));
    let done = place.close_after(vault, ran, said)?;
    show(args.json, &done).map_err(|failure| place.committed(&said(&done), failure))?;
    Ok(Status::Done)
}

fn show(json: bool, done: &Done) -> Result<(), Failure> {
    let mut output = Output::new();
    if json {
        output.json(&Executed {
            statements: done.statements,
            tables_created: done.tables_created,
            rows_changed: done.rows_changed,
            rows_gone_along: done.rows_gone_along,
        })?;
    } else {
        output.line(&said(done))?;
    }
    output.flush()
}

/// Returns the effects of a script as a clause.
fn said(done: &Done) -> String {
    let counts = format!(
        "{}: {}, {}",
        counted(done.statements, "statement", "statements"),
        counted(done.tables_created, "table created", "tables created"),
        counted(done.rows_changed, "row changed", "rows changed"),
    );
    if done.rows_gone_along == 0 {
        return counts;
    }
    let rows = counted(done.rows_gone_along, "row", "rows");
    format!("{counts}, {rows} went along that referred to deleted rows")
}

pub(super) fn read_script(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::file("read", path, error))
}
