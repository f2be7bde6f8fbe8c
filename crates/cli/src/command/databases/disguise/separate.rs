//! `separate` makes another database of a copy, and `begin-log` notes the log of one that had none.

use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::recorder::{Recorded, Recorder};
use super::{refused, stored};
use crate::args::{BeginLog, Separate};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::Output;

#[derive(Serialize)]
struct SeparatedForm {
    separated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct BegunForm {
    begun: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn begin_log(args: &BeginLog, environment: &Environment) -> Result<Status, Failure> {
    if args.entry.log.log.is_none() {
        return Err(
            Failure::usage("nothing says which log tells of the database from now on")
                .remedy("name it with --log DIR"),
        );
    }
    let mut engine = stored(&args.database, environment)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let outcome = engine.begin_log(SystemClock::new().now());
    let ((), entry, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json {
        let begun = true;
        output.json(&BegunForm { begun, entry })?;
    } else {
        output.line("this log records the operations on this database from now on")?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}

pub(super) fn separate(args: &Separate, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let outcome = engine.separate(SystemClock::new().now());
    let ((), entry, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json {
        let separated = true;
        output.json(&SeparatedForm { separated, entry })?;
    } else {
        output.line("this is now a separate database: back it up now; earlier backups belong to the original")?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}
