//! Legal holds: `hold`, `lift`, `holds`.

use probity_disguise::{Authority, DisguiseId, Error, HoldId, Holding, Value};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::change::{print_entry, recorded};
use super::recorder::{Recorded, Recorder};
use super::{AnyEngine, refused, stored};
use crate::args::{Attribution, AuthorityChoice, EntryChoice, Hold, Holds, Lift, LogChoice};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::Output;

#[derive(Serialize)]
struct Placed {
    hold: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

#[derive(Serialize)]
struct HoldForm<'a> {
    hold: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    actor: &'a str,
    basis: &'a str,
}

#[derive(Serialize)]
struct HoldForms<'a> {
    holds: Vec<HoldForm<'a>>,
}

pub(super) fn authority(said: &AuthorityChoice) -> Authority<'_> {
    Authority {
        actor: &said.actor,
        basis: &said.basis,
        time: SystemClock::new().now(),
    }
}

/// Returns the entry's log, and its attribution without actor and basis, which the authority gives.
pub(super) fn entry(log: &LogChoice, said: &AuthorityChoice) -> EntryChoice {
    let attribution = Attribution {
        purpose: said.purpose.clone(),
        ..Attribution::default()
    };
    EntryChoice {
        log: log.clone(),
        attribution,
    }
}

/// Returns the user of a command line, in the form of the users table.
fn person(engine: &mut AnyEngine, user: Option<&str>) -> Result<Option<Value>, Failure> {
    let person = user.map(|user| engine.user(user)).transpose();
    person.map_err(refused)
}

fn meant(person: Option<&Value>, id: Option<DisguiseId>) -> Option<Holding<'_>> {
    person
        .map(Holding::Person)
        .or_else(|| id.map(Holding::Disguise))
}

pub(super) fn hold(args: &Hold, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let person = person(&mut engine, args.held.user.as_deref())?;
    let what = match meant(person.as_ref(), args.held.id) {
        Some(Holding::Person(user)) if args.away => Holding::Away(user),
        Some(what) => what,
        None => return Err(Failure::usage("nothing to hold is named")),
    };
    let said = entry(&args.log, &args.authority);
    let recorder = Recorder::open(&said, environment, &mut engine)?;
    let outcome = engine.holds().place(what, &authority(&args.authority));
    let outcome = outcome.map_err(|error| match error {
        Error::NoSuchUser { .. } => refused(error).remedy(
            "name the user as the users table does; one who has left is held with --away under the id that they had there",
        ),
        Error::Value { ref what } if args.away && what.ends_with("has a row of this user") => {
            refused(error).remedy("leave out --away: it is for a user whose row a disguise removed")
        }
        error => refused(error),
    });
    let (id, entry, log) = recorded(engine, recorder, outcome)?;
    tell(args.json, (id, "was placed"), entry)?;
    log.after(Status::Done)
}

pub(super) fn lift(args: &Lift, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let said = entry(&args.log, &args.authority);
    let recorder = Recorder::open(&said, environment, &mut engine)?;
    let outcome = engine.holds().lift(args.hold, &authority(&args.authority));
    let ((), entry, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    tell(args.json, (args.hold, "was lifted"), entry)?;
    log.after(Status::Done)
}

fn tell(json: bool, (hold, done): (HoldId, &str), entry: Option<Recorded>) -> Result<(), Failure> {
    let hold = hold.to_string();
    let mut output = Output::after(format!("hold {hold} {done}"));
    if json {
        output.json(&Placed { hold, entry })?;
    } else {
        output.line(&hold)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()
}

pub(super) fn holds(args: &Holds, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let person = person(&mut engine, args.user.as_deref())?;
    let found = engine
        .holds()
        .list(meant(person.as_ref(), args.id))
        .map_err(refused)?;
    let mut output = Output::new();
    let form = |hold: &probity_disguise::Hold| hold.since.map(format_time);
    if args.json {
        let forms = found.iter().map(|it| HoldForm {
            hold: it.id.to_string(),
            since: form(it),
            actor: &it.actor,
            basis: &it.basis,
        });
        output.json(&HoldForms {
            holds: forms.collect(),
        })?;
    } else if found.is_empty() {
        output.line("no holds are in force")?;
    } else {
        for it in &found {
            let since = form(it).unwrap_or_else(|| "-".to_owned());
            output.line(&format!("{}  {since}  {}  {}", it.id, it.actor, it.basis))?;
        }
    }
    output.flush()?;
    Ok(Status::Done)
}
