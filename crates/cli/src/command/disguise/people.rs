//! What concerns one person: `register`, `speaks-for`, `list`, `rekey`.

use std::path::Path;

use probity_disguise::{Engine, Registration, SpecFile, draft};
use serde::Serialize;

use super::credential::{Brought, CredentialFile, line_of, read_password};
use super::{AnyEngine, described, open, read, refused, stored};
use crate::args::{List, Register, Rekey, SpeaksFor};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::Output;

#[derive(Serialize)]
struct Registered<'a> {
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential_file: Option<String>,
}

#[derive(Serialize)]
struct ListedForm {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    pending: bool,
}

pub(super) fn register(args: &Register, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = engine_of(args, environment)?;
    let user = engine.user(&args.user).map_err(refused)?;
    engine.install().map_err(refused)?;
    let password = args.password_file.as_deref().map(read_password);
    let password = password.transpose()?;
    let password = password.as_ref().map(|password| password.as_str());
    hand_over(
        &args.user,
        args.credential_out.as_deref(),
        args.json,
        || engine.register(&user, password).map_err(refused),
    )
}

fn engine_of(args: &Register, environment: &Environment) -> Result<AnyEngine, Failure> {
    let file = read(args.spec.as_deref(), SpecFile::parse)?;
    let database = open(&args.database, environment)?;
    if let Some(engine) = described(database, file.as_ref(), &args.description)? {
        return Ok(engine);
    }
    let mut database = open(&args.database, environment)?;
    let guess = draft(&mut database, None).map_err(|error| {
        refused(error).remedy("say who the users are with --spec FILE or --pseudo FILE")
    })?;
    Ok(Engine::new(database, guess.schema, guess.pseudo))
}

/// Makes a credential and hands it to its owner: into a file that is there before, or to standard output.
fn hand_over(
    user: &str,
    path: Option<&Path>,
    json: bool,
    make: impl FnOnce() -> Result<Registration, Failure>,
) -> Result<Status, Failure> {
    let file = path.map(CredentialFile::create).transpose()?;
    let made = match make() {
        Ok(made) => made,
        Err(failure) => {
            if let Some(file) = file {
                file.give_up();
            }
            return Err(failure);
        }
    };
    let line = line_of(&made);
    let shown = file.is_none().then_some(line.as_str());
    if let Some(file) = file {
        file.finish(&line)?;
    }
    let mut output = Output::new();
    if json {
        output.json(&Registered {
            user,
            credential: shown,
            credential_file: path.map(|path| path.display().to_string()),
        })?;
    } else if let Some(line) = shown {
        output.line(line)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

pub(super) fn speaks_for(args: &SpeaksFor, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let ids = engine
        .speaks_for(&user, &brought.credential())
        .map_err(refused)?;
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut output = Output::new();
    if args.json {
        output.json(&ids)?;
    } else {
        for id in &ids {
            output.line(id)?;
        }
    }
    output.flush()?;
    Ok(Status::Done)
}

pub(super) fn list(args: &List, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let listed = engine.list(&user, &brought.credential()).map_err(refused)?;
    let forms: Vec<ListedForm> = listed
        .iter()
        .map(|it| ListedForm {
            id: it.id.to_string(),
            time: it.time.map(format_time),
            pending: it.pending,
        })
        .collect();
    let mut output = Output::new();
    if args.json {
        output.json(&forms)?;
    } else {
        for it in &forms {
            let time = it.time.as_deref().unwrap_or("-");
            let pending = if it.pending { "  revealed in part" } else { "" };
            output.line(&format!("{}  {time}{pending}", it.id))?;
        }
    }
    output.flush()?;
    Ok(Status::Done)
}

pub(super) fn rekey(args: &Rekey, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let password = args.password_file.as_deref().map(read_password);
    let password = password.transpose()?;
    let password = password.as_ref().map(|password| password.as_str());
    let out = args.credential_out.as_deref();
    hand_over(&args.holder.user, out, args.json, || {
        let credential = brought.credential();
        let made = match (args.new_key, password) {
            (false, Some(password)) => engine.change_password(&user, &credential, password),
            _ => engine.change_key(&user, &credential, password),
        };
        made.map_err(refused)
    })
}
