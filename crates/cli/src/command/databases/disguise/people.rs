//! Commands about one person: `register`, `speaks-for`, `list`, `subject-name`, `rekey`, `unregister`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use probity_disguise::{DisguiseId, Engine, Error, Protection, SpecFile, draft};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;
use zeroize::Zeroizing;

use super::advice::Advice;
use super::change::{print_entry, recorded};
use super::credential::{Brought, read_new_password};
use super::outlet::{Handing, Outlet};
use super::recorder::{Recorded, Recorder};
use super::{AnyEngine, described, of_tenant, open, read, refused, stored};
use crate::args::{List, Register, Rekey, SpeaksFor, SubjectName, Unregister};
use crate::command::databases::subject_key;
use crate::command::open_reader;
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::{Output, note};

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one disguise"
)]
#[derive(Serialize)]
struct ListedForm {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    pending: bool,
    /// True while its chunks are not all done.
    unfinished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// True where a part of its records is missing or damaged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
}

#[derive(Serialize)]
struct ListedForms<'a> {
    disguises: &'a [ListedForm],
}

#[derive(Serialize)]
struct SpokenFor<'a> {
    placeholders: &'a [String],
}

#[derive(Serialize)]
struct SubjectNames<'a> {
    names: &'a [String],
}

#[derive(Serialize)]
struct UnregisteredForm<'a> {
    unregistered: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn register(args: &Register, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = engine_of(args, environment)?;
    engine.options().suite = args.suite;
    let user = engine.user(&args.user).map_err(refused)?;
    engine.install().map_err(refused)?;
    let password = Password::read(args.password_file.as_deref())?;
    let protection = password.protection(&args.share_out);
    let files = (args.credential_out.as_deref(), args.share_out.as_slice());
    let outlet = Outlet::open(files, &args.user, args.json)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine);
    let (outlet, recorder) = outlet.unless_failed(recorder)?;
    let handing = Handing::over(outlet, &mut engine);
    let made = engine
        .people()
        .register(&user, protection, SystemClock::new().now());
    handing.finish(made, |made| recorded(engine, recorder, made))
}

/// The new password, if there is one.
struct Password(Option<Zeroizing<String>>);

impl Password {
    fn read(path: Option<&Path>) -> Result<Self, Failure> {
        path.map(read_new_password).transpose().map(Self)
    }

    fn protection(&self, shares: &[PathBuf]) -> Protection<'_> {
        match &self.0 {
            Some(password) => Protection::Password(password),
            None if shares.is_empty() => Protection::KeyAlone,
            None => Protection::Token,
        }
    }
}

fn engine_of(args: &Register, environment: &Environment) -> Result<AnyEngine, Failure> {
    let file = read(args.spec.as_deref(), SpecFile::parse)?;
    let database = open(&args.database, environment)?;
    if let Some(engine) = described(database, file.as_ref(), &args.description)? {
        return of_tenant(engine, &args.database);
    }
    let mut database = open(&args.database, environment)?;
    let guess = draft(&mut database, None).map_err(|error| {
        refused(error).remedy("say who the users are with --spec FILE or --pseudo FILE")
    })?;
    of_tenant(
        Engine::new(database, guess.schema, guess.pseudo),
        &args.database,
    )
}

pub(super) fn speaks_for(args: &SpeaksFor, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let recorder = Recorder::open_to_look(&args.entry, environment, &mut engine)?;
    let time = SystemClock::new().now();
    let outcome = engine.speaks_for(&user, &brought.credential(), time);
    let (ids, _, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let ids: Vec<String> = ids.iter().map(probity_disguise::Value::written).collect();
    let mut output = Output::new();
    if args.json {
        output.json(&SpokenFor { placeholders: &ids })?;
    } else {
        for id in &ids {
            output.line(id)?;
        }
    }
    output.flush()?;
    log.after(Status::Done)
}

pub(super) fn list(args: &List, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let recorder = Recorder::open_to_look(&args.entry, environment, &mut engine)?;
    let time = SystemClock::new().now();
    let outcome = engine.list(&user, &brought.credential(), time);
    let (listed, _, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let forms: Vec<ListedForm> = listed
        .iter()
        .map(|it| ListedForm {
            id: it.id.to_string(),
            time: it.time.map(format_time),
            pending: it.pending,
            unfinished: it.unfinished,
            expires: it.expires.map(format_time),
            unreadable: it.unreadable,
        })
        .collect();
    let mut output = Output::new();
    if args.json {
        output.json(&ListedForms { disguises: &forms })?;
    } else {
        for it in &forms {
            let time = it.time.as_deref().unwrap_or("-");
            let until = it.expires.as_deref();
            let until = until.map_or_else(String::new, |end| format!("  until {end}"));
            // A reveal may have put nothing back.
            let pending = if it.pending {
                "  a reveal left something hidden"
            } else {
                ""
            };
            let unfinished = if it.unfinished { "  not done yet" } else { "" };
            let unreadable = if it.unreadable {
                "  a record of it cannot be read"
            } else {
                ""
            };
            output.line(&format!(
                "{}  {time}{until}{pending}{unfinished}{unreadable}",
                it.id
            ))?;
        }
    }
    output.flush()?;
    if !args.json {
        let advice = Advice::of_list(args, environment);
        for it in listed.iter().filter(|it| it.unfinished) {
            note(&format!(
                "{} is not done yet: {}",
                it.id,
                advice.how_to_go_on(it.id)
            ));
        }
    }
    let unreadable = listed.iter().filter(|it| it.unreadable).map(|it| it.id);
    log.after(unreadable_status(&unreadable.collect()))
}

/// Warns of disguises of which a record cannot be read, and returns the status.
pub(super) fn unreadable_status(unreadable: &BTreeSet<DisguiseId>) -> Status {
    if unreadable.is_empty() {
        return Status::Done;
    }
    let ids: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
    let ids = ids.join(", ");
    note(&format!(
        "warning: a record of {ids} cannot be read, because a row of table probity_bags is missing or damaged: \
         insert the rows that are missing there from a backup, and keep those that are there; what is lost for good can be given up with: probity disguise forget --id"
    ));
    Status::Partial
}

pub(super) fn subject_name(
    args: &SubjectName,
    environment: &Environment,
) -> Result<Status, Failure> {
    let Some(dir) = args.entry.log.log.as_deref() else {
        return Err(Failure::usage("nothing says which log is meant")
            .remedy("name the log, whose key makes the names, with --log DIR"));
    };
    let mut engine = stored(&args.database, environment)?;
    let user = engine.user(&args.user).map_err(refused)?;
    let brought = (!args.credential.is_empty()).then(|| Brought::read(&args.credential));
    let brought = brought.transpose()?;
    let recorder = if brought.is_some() {
        Recorder::open(&args.entry, environment, &mut engine)?
    } else {
        // Opening the log checks that the key is its own; another key would give other names.
        let key = args.entry.log.key.as_deref();
        open_reader(dir, key, environment)?;
        engine.set_subject_key(subject_key(dir, key, environment)?);
        None
    };
    let credential = brought.as_ref().map(Brought::credential);
    let time = SystemClock::new().now();
    let outcome = engine
        .people()
        .subject_names(&user, credential.as_ref(), time);
    let (names, _, log) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json {
        output.json(&SubjectNames { names: &names })?;
    } else {
        for name in &names {
            output.line(name)?;
        }
    }
    output.flush()?;
    log.after(Status::Done)
}

pub(super) fn unregister(args: &Unregister, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let user = engine.user(&args.user).map_err(refused)?;
    let brought = (!args.credential.is_empty()).then(|| Brought::read(&args.credential));
    let brought = brought.transpose()?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine)?;
    let credential = brought.as_ref().map(Brought::credential);
    let outcome = engine
        .people()
        .unregister(&user, credential.as_ref(), SystemClock::new().now());
    let outcome = outcome.map_err(|error| match error {
        Error::Value { .. } => refused(error).remedy(
            "look at the id, and at the tenant if there are several; while the account is there, prove with --credential FILE that it is the person's own wish",
        ),
        other => refused(other),
    });
    let ((), entry, log) = recorded(engine, recorder, outcome)?;
    let mut output = Output::after(format!("{} is not registered any more", args.user));
    if args.json {
        let unregistered = &args.user;
        output.json(&UnregisteredForm {
            unregistered,
            entry,
        })?;
    } else {
        output.line(&format!("not registered any more: {}", args.user))?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    log.after(Status::Done)
}

/// Refuses a change that says nothing new. A new key is never the first advice: it voids all that the
/// person has.
fn check_is_new(args: &Rekey) -> Result<(), Failure> {
    if args.new_key || args.password_file.is_some() || !args.share_out.is_empty() {
        return Ok(());
    }
    Err(Failure::usage("nothing new is named for the credential").remedy(
        "name one or more of: --password-file FILE for a new password, --share-out FILE three times for new shares, \
         --new-key for a new private key, after which earlier keys, passwords, tokens and shares of the user no longer work",
    ))
}

pub(super) fn rekey(args: &Rekey, environment: &Environment) -> Result<Status, Failure> {
    check_is_new(args)?;
    let mut engine = stored(&args.database, environment)?;
    engine.options().suite = args.suite;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let password = Password::read(args.password_file.as_deref())?;
    let protection = password.protection(&args.share_out);
    let files = (args.credential_out.as_deref(), args.share_out.as_slice());
    let outlet = Outlet::open(files, &args.holder.user, args.json)?;
    let recorder = Recorder::open(&args.entry, environment, &mut engine);
    let (outlet, recorder) = outlet.unless_failed(recorder)?;
    let handing = Handing::over(outlet, &mut engine);
    let (credential, time) = (brought.credential(), SystemClock::new().now());
    let made = if args.new_key {
        engine
            .people()
            .change_key(&user, &credential, protection, time)
    } else {
        engine
            .people()
            .change_password(&user, &credential, protection, time)
    };
    let status = handing.finish(made, |made| recorded(engine, recorder, made))?;
    let ended = if args.new_key {
        "keys, passwords, tokens and shares"
    } else {
        "passwords, tokens and shares"
    };
    note(&format!(
        "earlier {ended} of {} no longer work",
        args.holder.user
    ));
    Ok(status)
}
