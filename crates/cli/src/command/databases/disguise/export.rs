//! `export`: the rows that disguises hide of a person, for that person.

use std::io::{self, Write as _};
use std::path::Path;

use probity_disguise::{DisguiseId, Exported, Hidden};
use probity_http::hidden::{PersonForm, row_json, row_text};
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
use crate::envelope::enveloped;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};
use crate::output_file::{Existing, OutputFile};

/// The form that `pocket create --disguises` takes.
#[derive(Serialize)]
struct ExportedForm {
    form: u32,
    /// The person, so that a copy of somebody else takes none of the rows.
    person: PersonForm,
    rows: Vec<serde_json::Value>,
    /// The disguises of which a record cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

/// The document of an export whose rows are in a file.
#[derive(Serialize)]
struct WrittenForm<'a> {
    file: &'a Path,
    rows: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unreadable: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<&'a Recorded>,
}

pub(super) fn export(args: &ExportHidden, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    // The place is there before anything is decrypted and recorded.
    let place = args.output.as_deref().map(Outgoing::begin).transpose()?;
    let time = SystemClock::new().now();
    let outcome = engine.export(&user, &brought.credential(), args.id, time);
    let (exported, entry, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json || place.is_some() {
        let ids = exported.unreadable.iter();
        let form = ExportedForm {
            form: Exported::FORM,
            person: exported.person.into(),
            rows: exported.hidden.iter().map(row_json).collect(),
            unreadable: ids.map(ToString::to_string).collect(),
            entry,
        };
        match place {
            Some(place) => {
                let path = place.path;
                let said = place.finish(&form)?;
                if args.json {
                    output.json(&WrittenForm {
                        file: path,
                        rows: form.rows.len(),
                        unreadable: &form.unreadable,
                        entry: form.entry.as_ref(),
                    })?;
                } else {
                    output.line(&said)?;
                    print_entry(form.entry.as_ref(), &mut output)?;
                }
            }
            None => output.json(&form)?,
        }
    } else {
        print(&exported.hidden, &mut output)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(unreadable_status(&exported.unreadable))
}

/// A file for the rows, which nobody but its owner may read.
struct Outgoing<'a> {
    file: OutputFile,
    path: &'a Path,
}

impl<'a> Outgoing<'a> {
    fn begin(path: &'a Path) -> Result<Self, Failure> {
        let file = OutputFile::begin(path, Existing::Keep);
        let file = file.map_err(|error| Failure::file("create", path, error))?;
        Ok(Self { file, path })
    }

    /// Writes the rows, and returns how many are where.
    fn finish(mut self, form: &ExportedForm) -> Result<String, Failure> {
        let failed = |error| Failure::file("write", self.path, error);
        let written = serde_json::to_writer(&mut self.file, &enveloped(form));
        written
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.finish())
            .map_err(failed)?;
        let rows = u64::try_from(form.rows.len()).unwrap_or(u64::MAX);
        let rows = counted(rows, "row", "rows");
        Ok(format!("{rows} in {}", self.path.display()))
    }
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
