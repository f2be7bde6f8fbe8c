//! `dismiss`: ends missed operations on the list of a replay that nobody wants done again.

use probity_disguise::{Error, ReplayRequest};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::hold::{authority, entry};
use super::look::parameters;
use super::recorder::{Recorded, Recorder};
use super::refused;
use super::replay::{opened_with_log, specifications};
use crate::args::{Description, Dismiss};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};

#[derive(Serialize)]
struct Dismissed<'a> {
    dismissed: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn dismiss(args: &Dismiss, environment: &Environment) -> Result<Status, Failure> {
    let description = &Description::default();
    let database = (&args.database, description);
    let (mut engine, told) = opened_with_log(database, &args.log, environment)?;
    let specs = specifications(&args.applied.spec)?;
    let authority = authority(&args.authority);
    let request = ReplayRequest {
        told: &told.operations,
        specs: &specs,
        parameters: parameters(&args.applied.set),
        time: authority.time,
    };
    let said = entry(&args.log, &args.authority);
    let recorder = Recorder::open(&said, environment, &mut engine)?;
    let outcome = engine
        .missed()
        .dismiss(&request, &args.operations, &authority);
    let outcome = outcome.map_err(|error| match error {
        Error::Value { .. } => refused(error)
            .remedy("see what is listed with the same options: probity disguise replay --dry-run"),
        error => refused(error),
    });
    let ((), entry, log) = recorded(engine, recorder, outcome)?;
    let count = counted(args.operations.len() as u64, "operation", "operations");
    let mut output = Output::after(format!("{count} dismissed"));
    if args.json {
        let dismissed = &args.operations;
        output.json(&Dismissed { dismissed, entry })?;
    } else {
        output.line(&format!("{count} dismissed"))?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}
