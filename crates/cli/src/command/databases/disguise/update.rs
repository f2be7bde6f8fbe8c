//! `update`: changes of rows while they are disguised.

use probity_disguise::{Mapping, SpecFile};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::recorder::{Recorded, Recorder};
use super::{described, of_all_tenants, open, read, refused};
use crate::args::Update;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::Output;

#[derive(Serialize)]
struct UpdatesForm<'a> {
    updates: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn update(args: &Update, environment: &Environment) -> Result<Status, Failure> {
    of_all_tenants(&args.database)?;
    let mut mappings = Vec::new();
    for path in &args.file {
        let some = read(Some(path), Mapping::parse)?;
        mappings.extend(some.into_iter().flatten());
    }
    let file = read(args.spec.as_deref(), SpecFile::parse)?;
    let database = open(&args.database, environment)?;
    let engine = described(database, file.as_ref(), &args.description)?;
    let Some(mut engine) = engine else {
        return Err(refused(probity_disguise::Error::NotInstalled));
    };
    let recorder =
        Recorder::open_unless(mappings.is_empty(), &args.entry, environment, &mut engine)?;
    let time = SystemClock::new().now();
    // The tables may have new names by now, so the description is stored again.
    let installed = engine.install();
    let done = installed.and_then(|()| {
        if args.replace {
            let mut all = mappings.iter();
            all.try_for_each(|mapping| engine.updates().replace(mapping, time))?;
        } else if !mappings.is_empty() {
            engine.updates().record(&mappings, time)?;
        }
        engine.updates().names()
    });
    let (updates, entry, log) = recorded(engine, recorder, done.map_err(refused))?;
    let mut output = Output::new();
    if !mappings.is_empty() {
        output.set_done("the updates were recorded");
    }
    if args.json {
        let updates = updates.as_slice();
        output.json(&UpdatesForm { updates, entry })?;
    } else {
        for name in &updates {
            output.line(name)?;
        }
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}
