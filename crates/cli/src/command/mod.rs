//! The commands: each takes its arguments and calls the library.

mod append;
mod check_proof;
mod check_receipts;
mod copies;
#[cfg(feature = "databases")]
mod databases;
#[cfg(not(feature = "databases"))]
#[path = "absent.rs"]
mod databases;
mod demo;
mod export;
mod init;
mod input;
mod keys;
mod prove;
mod proxy;
mod reading;
mod receipt_line;
mod signals;
mod stop_time;
mod store;
mod stream;
mod trust;
mod upgrade;
mod verify;

use std::path::{Path, PathBuf};

use probity_format::geometry::Geometry;
use probity_log::reader::Reader;
use probity_log::{Durability, Log, LogLocation, Options, RepairKind, RootKey};
use probity_proxy::Settled;

pub(crate) use self::copies::check_is_folder;
use crate::args::{Args, Command, KeysCommand, StoreCommand, StreamCommand};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{counted, note};
use crate::output_guard::protect;
use crate::process;

/// Runs the command in `args`.
///
/// # Errors
/// When it could not do its work; damage that `verify` finds is a status, not an error.
pub fn run(args: Args, environment: &Environment) -> Result<Status, Failure> {
    let kept = environment.heads.iter().chain(&environment.key_file);
    // A key that does not exist yet is made by `init`.
    kept.filter(|path| path.exists())
        .for_each(|path| protect(path));
    let option = root_key_option(&args.command);
    let is_reader = is_reader(&args.command);
    let is_with_root = takes_root_key(&args.command);
    let log = log_of(&args.command).map(|(dir, given)| {
        let used = environment.key_path(given.as_deref(), &dir);
        let used = Some(used).filter(|path| is_with_root && path.is_file());
        (dir, given, used)
    });
    let ran = run_command(args.command, environment);
    let names_heads = environment.heads.is_some();
    ran.map_err(|failure| {
        let failure = failure.names_heads(names_heads);
        let failure = if is_reader {
            failure.of_reader()
        } else {
            failure
        };
        let failure = match &log {
            Some((dir, given, used)) => failure.of_log(dir, given.as_deref(), used.as_deref()),
            None => failure,
        };
        match option {
            Some(option) => failure.root_key_option(option),
            None => failure,
        }
    })
}

/// Returns the option by which a command takes the root key, where it is not the usual one.
const fn root_key_option(command: &Command) -> Option<&'static str> {
    match command {
        Command::Verify(_) => Some("--key FILE"),
        Command::Upgrade(_) => Some("--new-key FILE or PROBITY_KEY_FILE"),
        Command::Databases(command) => databases::root_key_option(command),
        _ => None,
    }
}

/// Returns whether a command on a log needs its root key.
const fn takes_root_key(command: &Command) -> bool {
    let is_chain =
        matches!(command, Command::Keys(args) if matches!(args.command, KeysCommand::Chain(_)));
    !is_chain && !matches!(command, Command::Verify(_) | Command::CheckReceipts(_))
}

/// Returns whether a command only reads logs.
const fn is_reader(command: &Command) -> bool {
    match command {
        Command::Stream(args) => matches!(args.command, StreamCommand::List(_)),
        Command::Verify(_)
        | Command::Export(_)
        | Command::Prove(_)
        | Command::CheckProof(_)
        | Command::CheckReceipts(_)
        | Command::Keys(_) => true,
        Command::Databases(command) => databases::is_reader(command),
        _ => false,
    }
}

/// Returns the log that a command was given, and the file of its root key, where that was given too.
fn log_of(command: &Command) -> Option<(PathBuf, Option<PathBuf>)> {
    let (dir, key) = match command {
        Command::Init(args) => (&args.dir, &args.key),
        Command::Append(args) => (&args.dir, &args.key),
        Command::Proxy(args) => (&args.log, &args.key),
        // The key of a verification need not be the root key.
        Command::Verify(args) => (&args.dir, &None),
        Command::Export(args) => (&args.dir, &args.key),
        Command::Prove(args) => (&args.dir, &args.key),
        // These take no root key.
        Command::CheckReceipts(args) => (&args.log, &None),
        Command::Keys(args) => match &args.command {
            KeysCommand::Status(args) => (&args.dir, &args.key),
            KeysCommand::Chain(args) => (&args.dir, &None),
        },
        Command::Stream(args) => match &args.command {
            StreamCommand::Create(args) => (&args.dir, &args.key),
            StreamCommand::List(args) => (&args.dir, &args.key),
        },
        Command::Databases(command) => databases::log_of(command)?,
        _ => return None,
    };
    Some((dir.clone(), key.clone()))
}

fn run_command(command: Command, environment: &Environment) -> Result<Status, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args, environment),
        Command::Init(args) => init::run(&args, environment),
        Command::Upgrade(args) => upgrade::run(&args, environment),
        Command::Append(args) => append::run(&args, environment),
        Command::Proxy(args) => proxy::run(&args, environment),
        Command::Verify(args) => verify::run(&args, environment),
        Command::Export(args) => {
            args.filter.check()?;
            export::run(&args, environment)
        }
        Command::Prove(args) => prove::run(&args, environment),
        Command::CheckProof(args) => check_proof::run(&args),
        Command::CheckReceipts(args) => check_receipts::run(&args, environment),
        Command::Databases(command) => databases::run(command, environment),
        Command::Store(args) => match args.command {
            StoreCommand::Rewrite(args) => store::rewrite(&args),
        },
        Command::Keys(args) => match args.command {
            KeysCommand::Status(args) => keys::status(&args, environment),
            KeysCommand::Chain(args) => keys::chain(&args, environment),
        },
        Command::Stream(args) => match args.command {
            StreamCommand::Create(args) => stream::create(&args, environment),
            StreamCommand::List(args) => stream::list(&args, environment),
        },
    }
}

/// Opens the log at `dir` for writing with the given key, or the default one.
fn open_log(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
    durability: Durability,
) -> Result<Log, Failure> {
    let options = Options {
        durability,
        ..environment.log_options()
    };
    open_log_with(dir, key, environment, options)
}

/// Opens a log with any options.
fn open_log_with(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
    options: Options,
) -> Result<Log, Failure> {
    // A missing log matters more than the missing key beside it.
    check_is_log(dir)?;
    environment.check_heads(dir)?;
    let path = environment.key_path(key, dir);
    let root = key_file::read_root(&path)?;
    let heads = LogLocation::new(dir, options.heads.as_ref());
    copies::check_reached(&heads)?;
    let log = Log::open(dir, &root, options)?;
    warn_of_absent_heads(&log, &heads);
    tell_of_repairs(&log);
    tell_of_missed(&log, dir)?;
    Ok(log)
}

/// Raises the limit of open files for a command that serves clients.
fn open_more_files() {
    if let Err(error) = process::open_more_files() {
        note(&format!(
            "warning: the limit of open files stays as it is: {error}"
        ));
    }
}

fn tell_of_repairs(log: &Log) {
    for repair in log.repairs() {
        note(&format!("repaired: {repair}"));
    }
}

/// Records, before everything else, what a proxy could not record before it ended.
fn tell_of_missed(log: &Log, dir: &Path) -> Result<(), Failure> {
    match probity_proxy::settle(log, dir) {
        Ok(None) => Ok(()),
        Ok(Some(Settled::Counted(missed))) => {
            note(&format!(
                "recorded: {} missing since the log failed under a proxy; an entry `gap` says so",
                counted(missed.total(), "entry is", "entries are")
            ));
            Ok(())
        }
        Ok(Some(Settled::Unknown)) => {
            note(&format!(
                "recorded: {} was not written with the keys of this log, or only in part: how many entries are missing since the log failed \
                 under a proxy is not known, if any; an entry `gap` says so",
                dir.join("missed").display()
            ));
            Ok(())
        }
        Ok(Some(Settled::NoFile)) => {
            note(&format!(
                "warning: {} is no file, and no proxy starts beside it; move it away",
                dir.join("missed").display()
            ));
            Ok(())
        }
        Err(error) => {
            let file = dir.join("missed");
            let what = format!("what {} says is not recorded", file.display());
            let failure = Failure::new(what).because(error);
            Err(failure
                .remedy("make room on the disk if it is full, then run the same command again"))
        }
    }
}

/// Warns where a log with signed heads had no second copy of them: they are in another folder, or
/// somebody removed them.
fn warn_of_absent_heads(log: &Log, places: &LogLocation) {
    let copies = log.repairs().iter();
    let copies = copies.filter(|repair| repair.kind == RepairKind::Copy);
    let Some(streams) = u64::try_from(copies.count())
        .ok()
        .filter(|count| *count > 0)
    else {
        return;
    };
    let streams = counted(streams, "stream of this log", "streams of this log");
    note(&format!(
        "warning: {} held no second copy of the signed heads of {streams}; new ones begin there. If this log keeps them in another folder, name \
         that with PROBITY_HEADS for every command that writes, and see the manual, \"which normal writing cannot produce\"; if it does not, somebody removed \
         them, and may have put an older copy of the log back",
        places.heads_path()
    ));
}

/// Opens the log at `dir` for reading, even while somebody writes to it.
fn open_reader(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
) -> Result<Reader, Failure> {
    reading::open(dir, key, environment, reading::OnDamage::Refuse)
}

/// Reads the given or default root key of the log at `dir`.
fn read_root_of(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
) -> Result<RootKey, Failure> {
    key_file::read_root(&environment.key_path(key, dir))
}

/// Refuses a folder without a log, and a log of which nothing readable says what it is.
fn check_is_log(dir: &Path) -> Result<(), Failure> {
    read_geometry(dir).map(drop)
}

/// Reads the properties that are fixed for the log at `dir`.
fn read_geometry(dir: &Path) -> Result<Geometry, Failure> {
    protect(dir);
    Ok(Log::geometry(dir)?)
}
