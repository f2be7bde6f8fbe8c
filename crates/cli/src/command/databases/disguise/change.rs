//! Commands that change the database: `apply`, `reveal`, `forget`.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    Applied, ApplyRequest, DisguiseId, Error, Kept, KeptReason, RevealRequest, Revealed, Rows,
    Value,
};
use probity_format::Timestamp;
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::advice::Advice;
use super::credential::Brought;
use super::look::{ready, user_of};
use super::receipt::{OF_RECORDS, Outgoing};
use super::recorder::{LogEnd, Recorded, Recorder};
use super::{AnyEngine, at_share, chunk, refused, stored, unfit};
use crate::args::{Apply, Forget, Reveal, Span};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted, note};

#[derive(Serialize)]
pub(super) struct AppliedForm<'a> {
    id: String,
    rows: &'a BTreeMap<String, u64>,
    placeholders: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    under_placeholders: &'a BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    of_nobody: &'a BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

impl<'a> AppliedForm<'a> {
    pub(super) fn new(applied: &'a Applied, entry: Option<Recorded>) -> Self {
        Self {
            id: applied.id.to_string(),
            rows: &applied.rows,
            placeholders: applied.pseudoprincipals,
            under_placeholders: &applied.under_placeholders,
            of_nobody: &applied.of_nobody,
            ended: applied.ended.iter().map(ToString::to_string).collect(),
            entry,
        }
    }
}

#[derive(Serialize)]
struct ScheduledForm {
    id: String,
    due: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct RevealedForm<'a> {
    complete: bool,
    found: bool,
    restored: &'a BTreeMap<String, u64>,
    values: &'a BTreeMap<String, u64>,
    deleted: &'a BTreeMap<String, u64>,
    retained: &'a BTreeMap<String, u64>,
    kept: Vec<KeptForm<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct KeptForm<'a> {
    table: &'a str,
    identity: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<&'a str>,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<&'a str>,
}

#[derive(Serialize)]
struct ForgottenForm {
    forgotten: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

/// Closes the log and returns the entry, and the end of the log, which is told of last: the
/// operation is done whatever becomes of that. A failure of the operation comes before one of the
/// log.
pub(super) fn recorded<T>(
    engine: AnyEngine,
    recorder: Option<Recorder>,
    outcome: Result<T, Failure>,
) -> Result<(T, Option<Recorded>, LogEnd), Failure> {
    drop(engine);
    let (entry, end) = recorder.map_or_else(|| (None, LogEnd::default()), Recorder::close);
    Ok((outcome?, entry, end))
}

pub(super) fn apply(args: &Apply, environment: &Environment) -> Result<Status, Failure> {
    let mut ready = ready(&args.spec, &args.database, environment)?;
    let user = user_of(&mut ready.engine, args.user.as_deref(), &args.spec.spec)?;
    let over = (!args.over.is_empty()).then(|| Brought::read(&args.over));
    let over = over.transpose()?;
    let recorder = Recorder::open(&args.entry, environment, &mut ready.engine)?;
    let unfit = unfit(&args.spec.spec);
    ready.engine.install().map_err(&unfit)?;
    let time = SystemClock::new().now();
    let expires = args.expires.map(|span| after(time, span)).transpose()?;
    let request = ApplyRequest {
        spec: &ready.file.spec,
        user,
        over: over.as_ref().map(Brought::credential),
        parameters: ready.parameters,
        expires,
        time,
    };
    if let Some(grace) = args.grace {
        let due = after(time, grace)?;
        let outcome = ready.engine.schedule().add(&request, due).map_err(&unfit);
        if outcome.is_ok() {
            let (spec, said) = (&ready.file.spec, &request.parameters);
            let told = ready
                .engine
                .preview()
                .foretell(spec, request.user.as_ref(), said);
            for it in told.map_err(&unfit)? {
                note(&format!(
                    "warning: it would be refused if it were due now: {it}"
                ));
            }
        }
        let (id, entry, log) = recorded(ready.engine, recorder, outcome)?;
        tell_scheduled(args.json, id, due, entry)?;
        return log.after(Status::Done);
    }
    if let Some(id) = ready
        .engine
        .chunks()
        .unfinished_like(&request)
        .map_err(&unfit)?
    {
        return Err(Advice::of_apply(args, environment).begun_before(id));
    }
    let outcome = match args.chunk_rows {
        None => ready.engine.apply(&request).map_err(&unfit),
        Some(rows) => {
            at_share(&mut ready.engine, args.share);
            let advice = Advice::of_apply(args, environment);
            in_chunks(&mut ready.engine, &request, (rows, &advice), &unfit)
        }
    };
    let (applied, entry, log) = recorded(ready.engine, recorder, outcome)?;
    let mut output = Output::after(format!("disguise {} was applied", applied.id));
    if args.json {
        let form = AppliedForm::new(&applied, entry);
        output.json(&form)?;
    } else {
        print_applied(&applied, &mut output)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}

/// Applies a disguise in chunks, which ends the ones that waited for the same as soon as it is begun.
fn in_chunks(
    engine: &mut AnyEngine,
    request: &ApplyRequest<'_>,
    how: (u32, &Advice<'_>),
    unfit: &impl Fn(Error) -> Failure,
) -> Result<Applied, Failure> {
    let waiting = engine.schedule().like(request).map_err(unfit)?;
    match chunk::apply(engine, request, how, unfit) {
        Ok(mut applied) => {
            applied.ended = waiting;
            Ok(applied)
        }
        Err(failure) => {
            tell_ended(engine, request, &waiting);
            Err(failure)
        }
    }
}

/// Notes those of the disguises that waited for the same which ended with one that was only begun.
fn tell_ended(engine: &mut AnyEngine, request: &ApplyRequest<'_>, waiting: &[DisguiseId]) {
    // What cannot be read now is no news beside the error.
    let Ok(now) = engine.schedule().like(request) else {
        return;
    };
    for id in waiting.iter().filter(|id| !now.contains(id)) {
        note(&format!(
            "disguise {id}, scheduled for the same, has ended with this one and is not applied any more"
        ));
    }
}

pub(super) fn print_applied(applied: &Applied, output: &mut Output) -> Result<(), Failure> {
    output.line(&format!("disguise {}", applied.id))?;
    if applied.pseudoprincipals == 0 && applied.rows.values().all(|rows| *rows == 0) {
        output.line("  nothing was found that it would hide")?;
    } else {
        print_rows(&applied.rows, output)?;
        let made = counted(
            applied.pseudoprincipals,
            "placeholder made",
            "placeholders made",
        );
        output.line(&format!("  {made}"))?;
    }
    for (table, rows) in &applied.under_placeholders {
        let rows = counted(*rows, "row or value", "rows and values");
        output.line(&format!(
            "  {table}: {rows} under placeholders: only the person behind one can reveal them, and nobody if that person had everything forgotten"
        ))?;
    }
    for (table, rows) in &applied.of_nobody {
        let rows = counted(*rows, "row or value", "rows and values");
        output.line(&format!(
            "  {table}: {rows} left as before, for nobody named there is registered or has an account"
        ))?;
    }
    for id in &applied.ended {
        output.line(&format!(
            "  disguise {id}, scheduled for the same, has ended with this one and is not applied any more"
        ))?;
    }
    Ok(())
}

/// Returns the time `span` after `time`.
pub(super) fn after(time: Timestamp, span: Span) -> Result<Timestamp, Failure> {
    let end = time.nanoseconds().saturating_add(span.nanoseconds);
    Timestamp::from_nanoseconds(end)
        .map_err(|error| Failure::usage("the span of time is too long").because(error))
}

fn tell_scheduled(
    json: bool,
    id: DisguiseId,
    due: Timestamp,
    entry: Option<Recorded>,
) -> Result<(), Failure> {
    let (id, due) = (id.to_string(), format_time(due));
    let mut output = Output::after(format!("disguise {id} was scheduled"));
    if json {
        output.json(&ScheduledForm { id, due, entry })?;
    } else {
        output.line(&format!("disguise {id} is due {due}"))?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()
}

fn print_rows(rows: &BTreeMap<String, u64>, output: &mut Output) -> Result<(), Failure> {
    for (table, count) in rows {
        output.line(&format!("  {table}: {}", counted(*count, "row", "rows")))?;
    }
    Ok(())
}

pub(super) fn print_entry(entry: Option<&Recorded>, output: &mut Output) -> Result<(), Failure> {
    match entry {
        Some(Recorded { log, stream, index }) => {
            output.line(&format!("  entry {index} of stream {stream} in {log}"))
        }
        None => Ok(()),
    }
}

pub(super) fn reveal(args: &Reveal, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.credential)?;
    let user = match (args.user.as_str(), &brought) {
        ("", Brought::Key(_)) => Value::Null,
        ("", _) => {
            return Err(Failure::usage("a password or a token needs its user")
                .remedy("name the user with --user U"));
        }
        (text, _) => engine.user(text).map_err(refused)?,
    };
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let rows = if args.whole_rows {
        Rows::Whole
    } else {
        Rows::PerColumn
    };
    let outcome = engine.reveal(&RevealRequest {
        user,
        credential: brought.credential(),
        id: args.id,
        references: args.references.into(),
        rows,
        time: SystemClock::new().now(),
    });
    let outcome = outcome.map_err(refused).and_then(|revealed| {
        let waiting = waiting(&mut engine, args)?;
        Ok((revealed, waiting))
    });
    let ((revealed, waiting), entry, log) = recorded(engine, recorder, outcome)?;
    tell_revealed(args, &revealed, entry)?;
    for it in waiting {
        note(&it);
    }
    log.after(if revealed.is_complete() {
        Status::Done
    } else {
        Status::Partial
    })
}

/// Returns a caution for each disguise that waits for the end of a grace period: the reveal leaves it.
fn waiting(engine: &mut AnyEngine, args: &Reveal) -> Result<Vec<String>, Failure> {
    if args.user.is_empty() {
        return Ok(Vec::new());
    }
    let user = engine.user(&args.user).map_err(refused)?;
    let all = engine.schedule().list(Some(&user)).map_err(refused)?;
    let caution = |it: &probity_disguise::Scheduled| {
        let due = it.due.map_or_else(|| "later".to_owned(), format_time);
        let id = it.id;
        format!(
            "disguise {id} is scheduled for this user still, and hides them again when it is due, {due}; to stop it: probity disguise cancel --id {id}"
        )
    };
    Ok(all.iter().map(caution).collect())
}

fn tell_revealed(
    args: &Reveal,
    revealed: &Revealed,
    entry: Option<Recorded>,
) -> Result<(), Failure> {
    let mut output = Output::after(format!("disguise {} was revealed", args.id));
    if args.json {
        let kept = revealed.kept.iter().map(|it| KeptForm {
            table: &it.table,
            identity: &it.identity,
            column: it.column.as_deref(),
            reason: it.reason.as_str(),
            said: it.said.as_deref(),
        });
        output.json(&RevealedForm {
            complete: revealed.is_complete(),
            found: revealed.found,
            restored: &revealed.restored,
            values: &revealed.values,
            deleted: &revealed.deleted,
            retained: &revealed.retained,
            kept: kept.collect(),
            ended: revealed.ended.iter().map(ToString::to_string).collect(),
            entry,
        })?;
        return output.flush();
    }
    if !revealed.found {
        output.line(&format!(
            "nothing of this person is hidden by disguise {}: it was revealed before, hid nothing of theirs, or has no records any more",
            args.id
        ))?;
    } else if revealed.restored.is_empty() && revealed.values.is_empty() {
        output.line("nothing was put back")?;
    } else {
        output.line("put back")?;
        print_back(revealed, &mut output)?;
    }
    print_counts("deleted, as made meanwhile", &revealed.deleted, &mut output)?;
    let stay = "left under placeholders for good, as the policy says";
    print_counts(stay, &revealed.retained, &mut output)?;
    print_kept(&revealed.kept, &mut output)?;
    for id in &revealed.ended {
        output.line(&format!(
            "disguise {id}, due while the account was away, has ended and is not applied any more"
        ))?;
    }
    print_entry(entry.as_ref(), &mut output)?;
    output.flush()
}

/// Prints numbers of rows, table by table, if there are any.
fn print_counts(
    head: &str,
    tables: &BTreeMap<String, u64>,
    output: &mut Output,
) -> Result<(), Failure> {
    if tables.is_empty() {
        return Ok(());
    }
    output.line(head)?;
    for (table, rows) in tables {
        let rows = counted(*rows, "row", "rows");
        output.line(&format!("  {table}: {rows}"))?;
    }
    Ok(())
}

/// Prints the restored rows and values, table by table.
fn print_back(revealed: &Revealed, output: &mut Output) -> Result<(), Failure> {
    let (rows, values) = (&revealed.restored, &revealed.values);
    let tables: BTreeSet<&String> = rows.keys().chain(values.keys()).collect();
    for table in tables {
        let rows = rows.get(table).map(|it| counted(*it, "row", "rows"));
        let values = values.get(table).map(|it| counted(*it, "value", "values"));
        let parts: Vec<String> = rows.into_iter().chain(values).collect();
        output.line(&format!("  {table}: {}", parts.join(", ")))?;
    }
    Ok(())
}

/// The most rows that are named for one reason to stay.
const KEPT_NAMED: usize = 3;

/// Prints the rows that stay disguised, grouped by reason: first those with a reason of their own,
/// then those that wait for other rows.
fn print_kept(kept: &[Kept], output: &mut Output) -> Result<(), Failure> {
    if kept.is_empty() {
        return Ok(());
    }
    output.line("still disguised")?;
    let mut groups: Vec<(bool, &Kept, Vec<&str>)> = Vec::new();
    for it in kept {
        let waits = matches!(
            it.reason,
            KeptReason::OwnerMissing | KeptReason::ParentMissing
        );
        let same = |(_, other, _): &&mut (bool, &Kept, Vec<&str>)| {
            let of = |it: &Kept| {
                (
                    it.table.clone(),
                    it.column.clone(),
                    it.reason,
                    it.said.clone(),
                )
            };
            of(other) == of(it)
        };
        match groups.iter_mut().find(same) {
            Some((_, _, rows)) => rows.push(&it.identity),
            None => groups.push((waits, it, vec![&it.identity])),
        }
    }
    groups.sort_by_key(|(waits, _, _)| *waits);
    for (_, it, rows) in groups {
        let column = it
            .column
            .as_ref()
            .map_or_else(String::new, |it| format!(".{it}"));
        let named: Vec<&str> = rows.iter().copied().take(KEPT_NAMED).collect();
        let more = match rows.len().saturating_sub(KEPT_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let said = it
            .said
            .as_ref()
            .map_or_else(String::new, |it| format!(": {it}"));
        output.line(&format!(
            "  {}{column} {}{more}: {}{said}",
            it.table,
            named.join("; "),
            it.reason.as_str()
        ))?;
    }
    Ok(())
}

const FORGOTTEN: &str = "it was forgotten for good";

pub(super) fn forget(args: &Forget, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let outgoing = Outgoing::open(args.receipt.as_deref(), args.receipt_key.as_deref())?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let (credential, time) = (brought.credential(), SystemClock::new().now());
    let (forgotten, outcome) = match args.id {
        Some(id) => (id.to_string(), engine.forget(&user, &credential, id, time)),
        None => (
            "everything".to_owned(),
            engine.forget_everything(&user, &credential, time),
        ),
    };
    let outcome = outcome.map_err(refused);
    // The receipt is written whatever becomes of the log.
    let written = match (&outcome, outgoing) {
        (Ok(receipt), Some(outgoing)) => outgoing.write(receipt),
        _ => Ok(()),
    };
    let recorded = recorded(engine, recorder, outcome);
    written.map_err(|failure| failure.after(FORGOTTEN))?;
    let (_, entry, log) = recorded?;
    let mut output = Output::after(FORGOTTEN);
    if args.json {
        let receipt = args.receipt.as_ref().map(|path| path.display().to_string());
        output.json(&ForgottenForm {
            forgotten,
            receipt,
            entry,
        })?;
    } else {
        output.line(&format!("forgotten for good: {forgotten}"))?;
        output.line(OF_RECORDS)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}
