//! `decay`: people who have been inactive, page by page.

use std::collections::BTreeSet;
use std::time::Duration;

use probity_disguise::{DecayRequest, Decayed, Error};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{after, print_entry, recorded};
use super::look::{Ready, ready};
use super::recorder::{Recorded, Recorder};
use super::{AnyEngine, at_share, unfit};
use crate::args::Decay;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted, note};

const MINUTE: Duration = Duration::from_mins(1);

#[derive(Default, Serialize)]
struct DecayedForm {
    dry_run: bool,
    people: u64,
    unregistered: u64,
    held: u64,
    before: u64,
    refused: u64,
    disguises: Vec<String>,
    #[serde(skip)]
    reasons: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

impl DecayedForm {
    fn add(&mut self, page: &Decayed) {
        let count = |more: usize| u64::try_from(more).unwrap_or(u64::MAX);
        self.people = self.people.saturating_add(page.people);
        self.unregistered = self.unregistered.saturating_add(page.unregistered);
        self.held = self.held.saturating_add(page.held);
        self.before = self.before.saturating_add(page.before);
        self.refused = self.refused.saturating_add(count(page.refused.len()));
        let applied = page.applied.iter().map(|it| it.id.to_string());
        self.disguises.extend(applied);
        self.reasons
            .extend(page.refused.iter().map(Error::with_cause));
    }
}

pub(super) fn decay(args: &Decay, environment: &Environment) -> Result<Status, Failure> {
    let Ready {
        mut engine,
        file,
        parameters,
    } = ready(&args.spec, &args.database, environment)?;
    let inactive = args.inactive.as_deref().or(file.inactive.as_deref());
    let inactive = inactive.ok_or_else(|| {
        Failure::usage("nothing says who is inactive")
            .remedy("give --inactive CONDITION, or write inactive = \"...\" into the specification")
    })?;
    let time = SystemClock::new().now();
    at_share(&mut engine, args.pace.share);
    let recorder = Recorder::open_unless(args.dry_run, &args.entry, environment, &mut engine)?;
    engine.install().map_err(unfit(&args.spec.spec))?;
    let request = DecayRequest {
        spec: &file.spec,
        inactive,
        parameters,
        expires: args.expires.map(|span| after(time, span)).transpose()?,
        after: None,
        page: page(args),
        time,
    };
    let outcome = pages(args, &mut engine, request);
    let (mut form, entry, log) = recorded(engine, recorder, outcome)?;
    form.entry = entry;
    let mut output = Output::new();
    if !args.dry_run {
        output.set_done("the accounts have decayed");
    }
    if args.json {
        output.json(&form)?;
    } else {
        print(&form, &mut output)?;
    }
    output.flush()?;
    log.after(if form.refused > 0 {
        Status::Partial
    } else {
        Status::Done
    })
}

/// Returns the page size; with a limit per minute, at most a minute's worth.
fn page(args: &Decay) -> u32 {
    args.per_minute
        .map_or(args.page, |limit| args.page.min(limit))
}

fn pages(
    args: &Decay,
    engine: &mut AnyEngine,
    mut request: DecayRequest<'_>,
) -> Result<DecayedForm, Failure> {
    let clock = SystemClock::new();
    let mut form = DecayedForm {
        dry_run: args.dry_run,
        ..DecayedForm::default()
    };
    loop {
        request.time = clock.now();
        let started = clock.elapsed();
        let page = if args.dry_run {
            engine.decay().inactive(&request)
        } else {
            engine.decay().apply(&request)
        };
        let page = page.map_err(|error| match error {
            Error::Spec(error) if args.inactive.is_some() && error.is_of_inactivity() => {
                Failure::new("--inactive does not fit the database")
                    .because(error)
                    .remedy("correct the condition; nobody was disguised")
            }
            error => unfit(&args.spec.spec)(error),
        })?;
        form.add(&page);
        let Some(next) = page.next else {
            return Ok(form);
        };
        pace(
            args,
            page.applied.len(),
            clock.elapsed().saturating_sub(started),
        );
        request.after = Some(next);
    }
}

/// Sleeps until the people of a page have used their share of a minute.
fn pace(args: &Decay, people: usize, spent: Duration) {
    let (Some(limit), Ok(people)) = (args.per_minute, u32::try_from(people)) else {
        return;
    };
    let share = MINUTE.checked_div(limit).unwrap_or(MINUTE);
    let share = share.saturating_mul(people);
    #[expect(
        clippy::disallowed_methods,
        reason = "the rate of a command that does nothing else meanwhile"
    )]
    std::thread::sleep(share.saturating_sub(spent));
}

fn print(form: &DecayedForm, output: &mut Output) -> Result<(), Failure> {
    let done = if form.dry_run {
        "would be disguised"
    } else {
        "chosen"
    };
    for id in &form.disguises {
        output.line(&format!("disguise {id}"))?;
    }
    let people = |count| counted(count, "person", "people");
    output.line(&format!("{} {done}", people(form.people)))?;
    for (count, why) in [
        (
            form.before,
            "left out: disguised before and not active since",
        ),
        (
            form.unregistered,
            "left out: without a key, so that nobody could bring them back",
        ),
        (form.held, "left out: held"),
    ] {
        if count > 0 {
            output.line(&format!("{} {why}", people(count)))?;
        }
    }
    for reason in &form.reasons {
        note(&format!("refused for some: {reason}"));
    }
    print_entry(form.entry.as_ref(), output)
}
