//! `replay`: repeats what a restored backup has missed.

use std::path::{Path, PathBuf};

use probity_disguise::{
    Engine, Error, LoggedOperation, MissingOperation, Operations, ReplayRequest, Spec, SpecFile,
};
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::reader::Filter;
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::look::parameters;
use super::recorder::{LogEnd, Recorded, Recorder};
use super::{AnyEngine, at_share, described, of_tenant, open, read, refused};
use crate::args::{DatabaseChoice, Description, LogChoice, Replay};
use crate::command::copies::{reading_places, warn_of_none};
use crate::command::databases::subject_key;
use crate::command::open_reader;
use crate::command::reading::{LostForm, tell_losses, tell_unsigned};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};
use crate::progress::Progress;

#[derive(Serialize)]
struct ReplayedForm<'a> {
    dry_run: bool,
    missed: Vec<MissedForm<'a>>,
    /// The number of operations, where all are of other databases; 0 where there are none, and nothing
    /// says that the log is that of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_other_databases: Option<usize>,
    #[serde(skip_serializing_if = "is_zero")]
    untold: usize,
    /// The number of operations that other tenants of the database have missed.
    #[serde(skip_serializing_if = "is_zero")]
    of_other_tenants: usize,
    /// Disguises that go on in chunks: how far they were is not in the log.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unfinished: &'a [String],
    /// Places of the log whose loss was accepted: what they told of is not known.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lost: &'a [LostForm],
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

/// The outlook of what a replay cannot do.
const NOT_DONE: &str = "not done";

/// The operations of the log.
pub(super) struct Told {
    pub(super) operations: Vec<LoggedOperation>,
    lost: Vec<LostForm>,
}

#[derive(Serialize)]
struct MissedForm<'a> {
    action: &'a str,
    key: &'a str,
    /// The name of the operation, by which it can be dismissed.
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    time: String,
    outlook: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub(super) fn replay(args: &Replay, environment: &Environment) -> Result<Status, Failure> {
    let log = &args.entry.log;
    let (mut engine, told) =
        opened_with_log((&args.database, &args.description), log, environment)?;
    at_share(&mut engine, args.pace.share);
    let specs = specifications(&args.applied.spec)?;
    let request = ReplayRequest {
        told: &told.operations,
        specs: &specs,
        parameters: parameters(&args.applied.set),
        time: SystemClock::new().now(),
    };
    let mut of_others = engine.missed();
    let mut unknown = Unknown {
        unfinished: Vec::new(),
        strangers: of_others.strangers(request.told).map_err(refused)?,
        untold: of_others.untold(request.told).map_err(refused)?,
        of_other_tenants: of_others.of_other_tenants(request.told).map_err(refused)?,
        lost: told.lost,
    };
    let (missed, entry, log) = if args.dry_run {
        let listed = engine.missed().list(&request).map_err(refused)?;
        unknown.unfinished = unfinished(&mut engine, &listed)?;
        (listed, None, LogEnd::default())
    } else {
        let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
        let outcome = engine.missed().replay(&request).map_err(refused);
        let outcome = outcome.and_then(|missed| {
            unknown.unfinished = unfinished(&mut engine, &missed)?;
            Ok(missed)
        });
        recorded(engine, recorder, outcome)?
    };
    tell(args, &missed, &unknown, entry)?;
    let is_done = missed.iter().all(|it| it.outlook.reason().is_none());
    log.after(if is_done && unknown.is_nothing() {
        Status::Done
    } else {
        Status::Partial
    })
}

/// Opens the database, and reads the operations of its log. The whole log is read first: an operation left
/// out of it would look as if it had never been.
pub(super) fn opened_with_log(
    (database, description): (&DatabaseChoice, &Description),
    log: &LogChoice,
    environment: &Environment,
) -> Result<(AnyEngine, Told), Failure> {
    let Some(dir) = log.log.as_deref() else {
        return Err(Failure::usage("nothing says what was done")
            .remedy("name the log of this database with --log DIR"));
    };
    let mut engine = opened((database, description), environment)?;
    engine.set_subject_key(subject_key(dir, log.key.as_deref(), environment)?);
    let told = told(log, dir, environment).map_err(|failure| match failure.status() {
        Status::Broken => failure.remedy(format!(
            "nothing was done again; see what is damaged with: probity verify {}",
            dir.display()
        )),
        _ => failure,
    })?;
    Ok((engine, told))
}

/// Reads the specifications that were applied.
pub(super) fn specifications(paths: &[PathBuf]) -> Result<Vec<Spec>, Failure> {
    let mut specs: Vec<Spec> = Vec::new();
    for path in paths {
        specs.extend(read(Some(path), SpecFile::parse)?.map(|file| file.spec));
    }
    Ok(specs)
}

/// Returns the disguises that go on in chunks, but those that the list names.
fn unfinished(engine: &mut AnyEngine, missed: &[MissingOperation]) -> Result<Vec<String>, Failure> {
    let all = engine.chunks().unfinished().map_err(refused)?.into_iter();
    let all = all.map(|id| id.to_string());
    let is_left = |id: &String| !missed.iter().any(|it| it.key == *id);
    Ok(all.filter(is_left).collect())
}

/// Opens the database. One that is not prepared is older than everything that the log tells of it,
/// and to prepare it now would make another one of it.
fn opened(
    (database, description): (&DatabaseChoice, &Description),
    environment: &Environment,
) -> Result<AnyEngine, Failure> {
    let stored = Engine::stored(open(database, environment)?);
    match stored {
        Err(error @ Error::NotInstalled) => Err(refused(error).remedy(
            "a backup that is older than the first registration cannot be brought to where the log is: restore a later one. Register and apply nothing in this one before, \
             or the operations of the log are another database's for good",
        )),
        engine => {
            let stored = engine.map_err(refused)?;
            let is_given = description.schema.is_some() || description.pseudo.is_some();
            let given = if is_given {
                described(open(database, environment)?, None, description)?
            } else {
                None
            };
            of_tenant(given.unwrap_or(stored), database)
        }
    }
}

/// Reads the operations from every stream of the log; their content says that they belong to this
/// database.
fn told(log: &LogChoice, dir: &Path, environment: &Environment) -> Result<Told, Failure> {
    let reader = open_reader(dir, log.key.as_deref(), environment)?;
    warn_of_none(&reading_places(dir, None, environment)?)?;
    let filter = Filter::default();
    tell_unsigned(&reader, &filter)?;
    let lost = tell_losses(&reader, &filter);
    let mut told = Operations::default();
    let mut progress = Progress::new("entries read");
    let read = reader.read(&filter, &mut |found| -> Result<(), Failure> {
        progress.add_one();
        told.add(found.stream.as_str(), &found.entry, found.erased);
        Ok(())
    });
    progress.clear();
    // Operations lost from a damaged log would stay undone unnoticed.
    read.map_err(|failure| match failure.status() {
        Status::Broken => failure.so("nothing was done again, because the log is damaged"),
        _ => failure,
    })?;
    Ok(Told {
        operations: told.in_order(),
        lost,
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The parts of the past that this log does not tell of.
struct Unknown {
    unfinished: Vec<String>,
    strangers: Option<usize>,
    untold: usize,
    /// Nothing is unknown of them: each tenant has a replay of its own.
    of_other_tenants: usize,
    lost: Vec<LostForm>,
}

impl Unknown {
    const fn is_nothing(&self) -> bool {
        let is_told = self.strangers.is_none() && self.untold == 0;
        is_told && self.lost.is_empty() && self.unfinished.is_empty()
    }
}

fn tell(
    args: &Replay,
    missed: &[MissingOperation],
    unknown: &Unknown,
    entry: Option<Recorded>,
) -> Result<(), Failure> {
    let forms: Vec<MissedForm<'_>> = missed.iter().map(form).collect();
    let mut output = Output::new();
    if !args.dry_run {
        output.set_done("the replay is done");
    }
    if args.json {
        output.json(&ReplayedForm {
            dry_run: args.dry_run,
            missed: forms,
            of_other_databases: unknown.strangers,
            untold: unknown.untold,
            of_other_tenants: unknown.of_other_tenants,
            unfinished: &unknown.unfinished,
            lost: &unknown.lost,
            entry,
        })?;
        return output.flush();
    }
    if unknown.strangers == Some(0) {
        output.line(
            "the log has no operation of disguises, and the database notes no log: nothing says that this one is its own. Where another log has its operations, replay that one",
        )?;
    } else if let Some(others) = unknown.strangers {
        let others = counted(others as u64, "operation", "operations");
        output.line(&format!(
            "the log has {others} of other databases or tenants, and none of this one since it began or was separated, or another copy of the same database was \
             separated in it, too. This is another database, or its backup is older than its first registration or its separation: restore a later one then"
        ))?;
    } else if forms.is_empty() {
        let whose = match &args.database.tenant {
            Some(tenant) => format!("tenant {tenant}"),
            None => "the database".to_owned(),
        };
        output.line(&format!("{whose} lacks nothing that the log has"))?;
    }
    if unknown.of_other_tenants > 0 {
        let missed = counted(unknown.of_other_tenants as u64, "operation", "operations");
        output.line(&format!(
            "other tenants have missed {missed}: replay for each of them, with --tenant"
        ))?;
    }
    if unknown.untold > 0 {
        let untold = counted(unknown.untold as u64, "operation", "operations");
        output.line(&format!(
            "this log lacks {untold} that the database has: another log has them, or this one was made anew. A replay needs the log that has all of them; \
             what else the database lacks is not known"
        ))?;
    }
    if !unknown.lost.is_empty() {
        output.line("operations in the lost places of the log, named above, are not known: compare the database with another record of them")?;
    }
    for id in &unknown.unfinished {
        output.line(&format!(
            "disguise {id} goes on in chunks, and how far it was the log does not say: rows that were hidden since the backup are in clear until it is done; \
             go on with it, or end it: probity disguise resume --id {id}, cancel"
        ))?;
    }
    tell_each(&forms, &mut output)?;
    print_entry(entry.as_ref(), &mut output)?;
    output.flush()
}

/// Tells of each operation, and how those end on the list that nobody wants done again.
fn tell_each(forms: &[MissedForm<'_>], output: &mut Output) -> Result<(), Failure> {
    for it in forms {
        let key = if it.key.is_empty() { "-" } else { it.key };
        let named = it.operation.filter(|_| it.outlook == NOT_DONE);
        let named = named.map_or_else(String::new, |it| format!(" (operation {it})"));
        let reason = it.reason.map_or_else(String::new, |why| format!(": {why}"));
        let (time, action, outlook) = (&it.time, it.action, it.outlook);
        output.line(&format!(
            "{time}  {action}  {key}  {outlook}{reason}{named}"
        ))?;
    }
    let can_end = |it: &MissedForm<'_>| it.outlook == NOT_DONE && it.operation.is_some();
    if forms.iter().any(can_end) {
        output.line(
            "do what each line says; what nobody wants any more ends on this list with: probity disguise dismiss OPERATION --actor WHO --basis WHY, and the options of this replay",
        )?;
    }
    Ok(())
}

fn form(missed: &MissingOperation) -> MissedForm<'_> {
    MissedForm {
        action: &missed.action,
        key: &missed.key,
        operation: missed.operation.as_deref(),
        time: format_time(missed.time),
        outlook: missed.outlook.as_str(),
        reason: missed.outlook.reason(),
    }
}
