//! Waiting and due operations: `scheduled`, `cancel`, `sweep`.

use probity_disguise::{DisguiseId, Error};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::recorder::{Recorded, Recorder};
use super::{at_share, refused, stored};
use crate::args::{Cancel, Scheduled, Sweep};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted, note};

#[derive(Serialize)]
struct ScheduledForm {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
}

#[derive(Serialize)]
struct ScheduledForms<'a> {
    scheduled: &'a [ScheduledForm],
}

#[derive(Serialize)]
struct CancelledForm {
    cancelled: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct SweptForm {
    applied: Vec<String>,
    /// Disguises that waited for the same as one that was applied, and ended with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    refused: Vec<RefusedForm>,
    records: u64,
    held: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct RefusedForm {
    id: String,
    reason: String,
}

impl RefusedForm {
    fn new((id, error): &(DisguiseId, Error)) -> Self {
        Self {
            id: id.to_string(),
            reason: error.with_cause(),
        }
    }
}

pub(super) fn scheduled(args: &Scheduled, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let user = args.user.as_deref().map(|user| engine.user(user));
    let user = user.transpose().map_err(refused)?;
    let found = engine.schedule().list(user.as_ref()).map_err(refused)?;
    let forms: Vec<ScheduledForm> = found
        .iter()
        .map(|it| ScheduledForm {
            id: it.id.to_string(),
            due: it.due.map(format_time),
        })
        .collect();
    let mut output = Output::new();
    if args.json {
        output.json(&ScheduledForms { scheduled: &forms })?;
    } else {
        for it in &forms {
            output.line(&format!("{}  {}", it.id, it.due.as_deref().unwrap_or("-")))?;
        }
    }
    output.flush()?;
    Ok(Status::Done)
}

pub(super) fn cancel(args: &Cancel, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let outcome = engine.schedule().cancel(args.id, SystemClock::new().now());
    let outcome = outcome.map_err(|error| match error {
        Error::NoSuchDisguise => Failure::new("no such disguise is scheduled")
            .remedy("see what is with: probity disguise scheduled"),
        other => refused(other),
    });
    let ((), entry, log) = recorded(engine, recorder, outcome)?;
    let cancelled = args.id.to_string();
    let mut output = Output::after(format!("disguise {cancelled} was cancelled"));
    if args.json {
        output.json(&CancelledForm { cancelled, entry })?;
    } else {
        output.line(&format!("cancelled {cancelled}"))?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}

pub(super) fn sweep(args: &Sweep, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    at_share(&mut engine, args.pace.share);
    let recorder = Recorder::open_unless(args.dry_run, &args.entry, environment, &mut engine)?;
    let time = SystemClock::new().now();
    let outcome = if args.dry_run {
        engine.schedule().due(time)
    } else {
        engine.schedule().sweep(time)
    };
    let (swept, entry, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut form = SweptForm {
        applied: swept.applied.iter().map(|it| it.id.to_string()).collect(),
        ended: swept
            .applied
            .iter()
            .flat_map(|it| &it.ended)
            .map(ToString::to_string)
            .collect(),
        refused: swept.refused.iter().map(RefusedForm::new).collect(),
        records: swept.records,
        held: swept.held,
        entry,
    };
    form.applied
        .extend(swept.due.iter().map(ToString::to_string));
    let status = if form.refused.is_empty() {
        Status::Done
    } else {
        Status::Partial
    };
    if let Some(told) = swept.rowless.caution() {
        note(&told);
    }
    let mut output = Output::new();
    if !args.dry_run {
        output.set_done("the sweep is done");
    }
    if args.json {
        output.json(&form)?;
    } else {
        print(args.dry_run, &form, &mut output)?;
    }
    output.flush()?;
    log.after(status)
}

fn print(dry: bool, form: &SweptForm, output: &mut Output) -> Result<(), Failure> {
    let (applied, destroyed) = if dry {
        ("due", "to destroy")
    } else {
        ("applied", "destroyed")
    };
    for id in &form.applied {
        output.line(&format!("{applied} {id}"))?;
    }
    for id in &form.ended {
        output.line(&format!(
            "ended {id}, which was scheduled for the same as one that was applied"
        ))?;
    }
    let records = counted(form.records, "record", "records");
    output.line(&format!("{records} {destroyed}"))?;
    if form.held > 0 {
        let one = "record that has ended stays, for it is held";
        let more = "records that have ended stay, for they are held";
        output.line(&counted(form.held, one, more))?;
    }
    for it in &form.refused {
        note(&format!(
            "{id} is refused and stays scheduled: {}; to stop it: probity disguise cancel --id {id}",
            it.reason,
            id = it.id
        ));
    }
    print_entry(form.entry.as_ref(), output)
}
