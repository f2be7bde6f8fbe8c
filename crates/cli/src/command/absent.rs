//! The commands about people in databases, in a program that was built without them.

use std::path::PathBuf;

use crate::args::DatabasesCommand;
use crate::config::Environment;
use crate::failure::{Failure, Status};

/// Refuses the command.
pub(super) fn run(
    command: DatabasesCommand,
    _environment: &Environment,
) -> Result<Status, Failure> {
    let (name, _arguments) = match command {
        DatabasesCommand::Disguise(absent) => ("disguise", absent.arguments),
        DatabasesCommand::Pocket(absent) => ("pocket", absent.arguments),
        DatabasesCommand::Subject(absent) => ("subject", absent.arguments),
        DatabasesCommand::Serve(absent) => ("serve", absent.arguments),
    };
    let what = format!("this program was built without the command {name}");
    let remedy = "build all of it: cargo build --release --locked --package probity-cli";
    Err(Failure::usage(what).remedy(remedy))
}

/// Returns no option: nothing is read.
pub(super) const fn root_key_option(_command: &DatabasesCommand) -> Option<&'static str> {
    None
}

/// Returns false: nothing is read.
pub(super) const fn is_reader(_command: &DatabasesCommand) -> bool {
    false
}

/// Returns no log: nothing is read.
pub(super) const fn log_of(_command: &DatabasesCommand) -> Option<(&PathBuf, &Option<PathBuf>)> {
    None
}
