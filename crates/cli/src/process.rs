//! Limits of this process, and the protection of its memory, which holds keys.

use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use tokio::signal::unix::{SignalKind, signal};

/// Makes a write beyond the limit of a file's size fail like any other, instead of ending the
/// process.
///
/// # Errors
/// When the system refuses it.
pub fn survive_file_limits() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let entered = runtime.enter();
    // No receiver is needed: from here on the signal is caught and ends nothing.
    drop(signal(SignalKind::from_raw(
        rustix::process::Signal::XFSZ.as_raw(),
    ))?);
    drop(entered);
    Ok(())
}

/// Raises the limit of open files as far as the system allows.
///
/// # Errors
/// When the system refuses it.
pub fn open_more_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// Returns the limit of open files; `None` where there is none.
pub fn open_files_max() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Keeps the memory of this process out of core dumps, and away from other processes of the same
/// user.
///
/// # Errors
/// When the system refuses one of the two; the other is still asked for.
pub fn withhold_memory() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // The limit covers dumps to files; a dump to a program asks whether the process may be dumped.
    let limited = setrlimit(Resource::Core, none);
    let withheld = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    Ok(limited.and(withheld)?)
}
