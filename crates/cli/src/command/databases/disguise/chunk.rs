//! Disguises in chunks: `apply --chunk-rows` and `resume`.

use probity_disguise::{Applied, ApplyRequest, Credential, DisguiseId, Error, Progress};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::advice::Advice;
use super::change::{AppliedForm, print_applied, print_entry, recorded};
use super::credential::Brought;
use super::recorder::{Recorded, Recorder};
use super::{AnyEngine, at_share, refused, stored};
use crate::args::Resume;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::output::Output;

#[derive(Serialize)]
struct ResumedForm<'a> {
    disguises: Vec<AppliedForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

/// The reason why chunks are left.
enum Stop {
    /// A signal asked to stop.
    Asked,
    Failed(Error),
}

/// Begins a disguise and applies its chunks, until all are done or a signal asks to stop.
pub(super) fn apply(
    engine: &mut AnyEngine,
    request: &ApplyRequest<'_>,
    (rows, advice): (u32, &Advice<'_>),
    unfit: &impl Fn(Error) -> Failure,
) -> Result<Applied, Failure> {
    interruption::end_gracefully()?;
    let clock = SystemClock::new();
    let started = engine.chunks().start(request, rows, || clock.now());
    let (id, progress) = started.map_err(|halted| advice.halted(halted, unfit))?;
    if let Progress::Done(applied) = progress {
        return Ok(applied);
    }
    let applied = finish(engine, (id, true), request.over.as_ref(), rows);
    applied.map_err(|stop| match stop {
        Stop::Asked => advice.begun(id, asked()),
        Stop::Failed(cause @ Error::EndedByAnother { .. }) => unfit(cause),
        Stop::Failed(cause) => advice.begun(id, unfit(cause)),
    })
}

/// Applies the chunks that are left of a disguise, until all are done or a signal asks to stop. Where it
/// `is_there`, and is no more, another run ended it.
fn finish(
    engine: &mut AnyEngine,
    (id, mut is_there): (DisguiseId, bool),
    over: Option<&Credential<'_>>,
    rows: u32,
) -> Result<Applied, Stop> {
    let clock = SystemClock::new();
    loop {
        if interruption::is_stopped() {
            return Err(Stop::Asked);
        }
        let progress = engine.chunks().proceed_over(id, over, rows, clock.now());
        let progress = progress.map_err(|error| match error {
            Error::NoSuchDisguise if is_there => Error::EndedByAnother { disguise: id },
            error => error,
        });
        if let Progress::Done(applied) = progress.map_err(Stop::Failed)? {
            return Ok(applied);
        }
        is_there = true;
    }
}

fn asked() -> Failure {
    Failure::new("a signal asked to stop; the chunks that were done stay")
}

pub(super) fn resume(args: &Resume, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let ids = match args.id {
        Some(id) => vec![id],
        None => engine.chunks().unfinished().map_err(refused)?,
    };
    let over = (!args.over.is_empty()).then(|| Brought::read(&args.over));
    let over = over.transpose()?;
    let over = over.as_ref().map(Brought::credential);
    at_share(&mut engine, args.pace.share);
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    interruption::end_gracefully()?;
    let advice = Advice::of_resume(args, environment);
    let mut done = Vec::new();
    let mut outcome = Ok(());
    for id in ids {
        let known = (id, args.id.is_none());
        match finish(&mut engine, known, over.as_ref(), args.chunk_rows) {
            Ok(applied) => done.push(applied),
            Err(Stop::Asked) => {
                outcome = outcome.and(Err(advice.begun(id, asked())));
                break;
            }
            // One that needs its credential does not hold up the others. No command goes on with one in a
            // log that is not the database's.
            Err(Stop::Failed(
                error @ (Error::NoSuchDisguise
                | Error::EndedByAnother { .. }
                | Error::Unrecorded { .. }
                | Error::OtherLog
                | Error::LogNeeded
                | Error::UnsaidLog),
            )) => {
                outcome = outcome.and(Err(match error {
                    Error::NoSuchDisguise => Failure::new(format!("no disguise {id} goes on here"))
                        .remedy("see what waits or goes on with: probity disguise scheduled"),
                    other => refused(other),
                }));
            }
            Err(Stop::Failed(error @ Error::OverNeeded)) => {
                let advice = Advice::of_resume(args, environment).with_over();
                outcome = outcome.and(Err(advice.begun(id, refused(error))));
            }
            Err(Stop::Failed(error)) => {
                outcome = outcome.and(Err(advice.begun(id, refused(error))));
            }
        }
    }
    let ((), entry, log) = recorded(engine, recorder, outcome)?;
    let mut output = Output::after("the disguises were applied");
    if args.json {
        let disguises = done.iter().map(|it| AppliedForm::new(it, None)).collect();
        output.json(&ResumedForm { disguises, entry })?;
    } else {
        if done.is_empty() {
            output.line("no disguise in chunks waits to be gone on with")?;
        }
        for applied in &done {
            print_applied(applied, &mut output)?;
        }
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}
