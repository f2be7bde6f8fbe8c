//! The commands about people in databases: what hides them, what they carry, and the server for it.

mod disguise;
mod pocket;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use probity_disguise::SubjectKey;

use super::{read_geometry, read_root_of};
use crate::args::{DatabasesCommand, SubjectCommand};
use crate::config::Environment;
use crate::failure::{Failure, Status};

pub(super) fn run(command: DatabasesCommand, environment: &Environment) -> Result<Status, Failure> {
    match command {
        DatabasesCommand::Disguise(args) => disguise::run(&args.command, environment),
        DatabasesCommand::Pocket(args) => pocket::run(&args.command, environment),
        DatabasesCommand::Subject(args) => match args.command {
            SubjectCommand::Export(args) => pocket::create(&args.creation(), environment),
        },
        DatabasesCommand::Serve(args) => serve::run(&args, environment),
    }
}

/// Returns the option by which a command takes the root key, where it is not the usual one.
pub(super) const fn root_key_option(command: &DatabasesCommand) -> Option<&'static str> {
    match command {
        DatabasesCommand::Pocket(_) => Some("--log-key FILE or PROBITY_KEY_FILE"),
        DatabasesCommand::Serve(_) => {
            Some("key_file in the section log of the configuration, or PROBITY_KEY_FILE")
        }
        DatabasesCommand::Disguise(_) | DatabasesCommand::Subject(_) => None,
    }
}

/// Returns whether a command only reads logs.
pub(super) const fn is_reader(command: &DatabasesCommand) -> bool {
    matches!(
        command,
        DatabasesCommand::Pocket(_) | DatabasesCommand::Subject(_)
    )
}

/// Returns the log that a command was given, and the file of its root key, where that was given too.
pub(super) fn log_of(command: &DatabasesCommand) -> Option<(&PathBuf, &Option<PathBuf>)> {
    match command {
        DatabasesCommand::Subject(args) => match &args.command {
            SubjectCommand::Export(args) => Some((&args.dir, &args.key)),
        },
        DatabasesCommand::Disguise(args) => {
            let choice = disguise::log_of(&args.command)?;
            Some((choice.log.as_ref()?, &choice.key))
        }
        DatabasesCommand::Pocket(_) | DatabasesCommand::Serve(_) => None,
    }
}

/// Derives the key of the names by which entries of disguises in the log at `dir` speak of people.
fn subject_key(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
) -> Result<Arc<SubjectKey>, Failure> {
    let geometry = read_geometry(dir)?;
    let root = read_root_of(dir, key, environment)?;
    let key = SubjectKey::of_log(root.to_text().as_bytes());
    Ok(Arc::new(key.in_log(geometry.id())))
}
