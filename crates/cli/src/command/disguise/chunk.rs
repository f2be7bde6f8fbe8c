//! Disguises in chunks: `apply --chunk-rows` and `resume`.

use probity_disguise::Error;
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{AppliedForm, begun, print_applied, print_entry, recorded};
use super::credential::Brought;
use super::recorder::{Recorded, Recorder};
use super::{at_share, refused, stored};
use crate::args::Resume;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::Output;

#[derive(Serialize)]
struct ResumedForm<'a> {
    disguises: Vec<AppliedForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
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
    let recorder = Recorder::open(&args.log, &args.attribution, environment, &mut engine)?;
    let clock = SystemClock::new();
    let mut done = Vec::new();
    let mut outcome = Ok(());
    for id in ids {
        match engine
            .chunks()
            .finish_over(id, over.as_ref(), args.chunk_rows, || clock.now())
        {
            Ok(applied) => done.push(applied),
            // One that needs its credential does not hold up the others.
            Err(error @ Error::NoSuchDisguise) => outcome = outcome.and(Err(refused(error))),
            Err(error) => outcome = outcome.and(Err(begun(Some(id), refused(error)))),
        }
    }
    let ((), entry) = recorded(engine, recorder, outcome)?;
    let mut output = Output::new();
    if args.json {
        let disguises = done.iter().map(|it| AppliedForm::new(it, None)).collect();
        output.json(&ResumedForm { disguises, entry })?;
    } else {
        for applied in &done {
            print_applied(applied, &mut output)?;
        }
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}
