//! What the operating system may do with this process: with its memory, which holds keys, and at its limits.

use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use tokio::signal::unix::{SignalKind, signal};

/// Has a write beyond the limit of a file's size fail, instead of ending the process: it is one error of storage among others.
///
/// # Errors
/// When the system refuses it.
pub fn survive_file_limits() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let entered = runtime.enter();
    // Nobody waits for it: a signal that is received ends nothing, from here to the end of the process.
    drop(signal(SignalKind::from_raw(
        rustix::process::Signal::XFSZ.as_raw(),
    ))?);
    drop(entered);
    Ok(())
}

/// Lets this process have as many files open as anybody may let it.
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

/// How many files this process may have open; nothing where there is no limit.
pub fn open_files_max() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Keeps the memory of this process out of core dumps, and away from other processes of the same user.
///
/// # Errors
/// When the system refuses one of the two; the other is asked for all the same.
pub fn withhold_memory() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // The limit is for dumps to files; a dump to a program asks whether the process may be dumped.
    let limited = setrlimit(Resource::Core, none);
    let withheld = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    Ok(limited.and(withheld)?)
}
