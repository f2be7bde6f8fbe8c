//! `export`: the rows that disguises hide of a person, for that person.

use probity_disguise::{DisguiseId, Hidden};
use probity_http::hidden::{row_json, row_text};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::credential::Brought;
use super::people::unreadable_status;
use super::recorder::{Recorded, Recorder};
use super::{refused, stored};
use crate::args::ExportHidden;
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::Output;

/// The form that `pocket create --disguises` takes.
#[derive(Serialize)]
struct ExportedForm {
    rows: Vec<serde_json::Value>,
    /// The disguises of which a record cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn export(args: &ExportHidden, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let recorder = Recorder::open(&args.log, &args.attribution, environment, &mut engine)?;
    let time = SystemClock::new().now();
    let outcome = engine.export(&user, &brought.credential(), args.id, time);
    let (exported, entry) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json {
        let ids = exported.unreadable.iter();
        output.json(&ExportedForm {
            rows: exported.hidden.iter().map(row_json).collect(),
            unreadable: ids.map(ToString::to_string).collect(),
            entry,
        })?;
    } else {
        print(&exported.hidden, &mut output)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    Ok(unreadable_status(&exported.unreadable))
}

fn print(hidden: &[Hidden], output: &mut Output) -> Result<(), Failure> {
    let mut last: Option<DisguiseId> = None;
    for it in hidden {
        if last != Some(it.disguise) {
            last = Some(it.disguise);
            let time = it.time.map_or_else(|| "-".to_owned(), format_time);
            output.line(&format!("disguise {}  {time}", it.disguise))?;
        }
        output.line(&format!("  {}", row_text(it)))?;
    }
    Ok(())
}
