//! Signals that end the program: they leave no part of a file, and commands may finish first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Status};
use crate::output::note;

/// The state that the watching thread and the rest of the program share.
static STATE: Mutex<State> = Mutex::new(State {
    watching: false,
    then: Then::End,
    parts: BTreeSet::new(),
});
/// Set by the first signal while the command finishes by itself.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The effect of a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The signal ends the program.
    End,
    /// The first signal sets [`is_stopped`], which the command checks; the second ends the program.
    Ask,
}

struct State {
    watching: bool,
    then: Then,
    /// Incomplete files, and folders of the program's own.
    parts: BTreeSet<PathBuf>,
}

/// Removes the file or folder at `part` if a signal ends the program before [`keep`] is called.
pub(crate) fn remove_when_ended(part: &Path) -> io::Result<()> {
    watch()?;
    lock().parts.insert(part.to_owned());
    Ok(())
}

/// Cancels the removal of the file or folder at `part`, which may have been renamed.
pub(crate) fn keep(part: &Path) {
    lock().parts.remove(part);
}

/// Runs `put`, which moves the files at `parts` to their place. No signal ends the program
/// meanwhile, and none removes the parts once it has succeeded.
pub(crate) fn put_in_place(
    parts: &[&Path],
    put: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut state = lock();
    put()?;
    for part in parts {
        state.parts.remove(*part);
    }
    Ok(())
}

/// Makes the first signal only set [`is_stopped`]; the second ends the program.
pub(crate) fn end_gracefully() -> Result<(), Failure> {
    watch().map_err(unwatched)?;
    lock().then = Then::Ask;
    Ok(())
}

/// Makes the first signal only set [`is_stopped`] until the value is dropped.
pub(crate) fn ask_meanwhile() -> io::Result<Asked> {
    watch()?;
    let before = std::mem::replace(&mut lock().then, Then::Ask);
    Ok(Asked { before })
}

/// A time in which a signal asks instead of ending the program.
pub(crate) struct Asked {
    before: Then,
}

impl Drop for Asked {
    fn drop(&mut self) {
        lock().then = self.before;
    }
}

/// Returns the failure of a command that cannot wait for signals.
fn unwatched(error: io::Error) -> Failure {
    Failure::new("cannot wait for signals").because(error)
}

/// Returns whether a signal asked the program to stop.
pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire)
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to watch for signals, once.
fn watch() -> io::Result<()> {
    let mut state = lock();
    if state.watching {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let entered = runtime.enter();
    let mut interrupt = watched(SignalKind::interrupt())?;
    let mut terminate = watched(SignalKind::terminate())?;
    let mut hangup = watched(SignalKind::hangup())?;
    drop(entered);
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        () = received(&mut interrupt) => {}
                        () = received(&mut terminate) => {}
                        () = received(&mut hangup) => {}
                    }
                    stop();
                }
            });
        })?;
    state.watching = true;
    Ok(())
}

/// Listens for the signals of `kind`, unless they were ignored when the program started, as `nohup`
/// does.
fn watched(kind: SignalKind) -> io::Result<Option<Signal>> {
    if is_ignored(kind) {
        return Ok(None);
    }
    signal(kind).map(Some)
}

fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = kind
        .as_raw_value()
        .checked_sub(1)
        .and_then(|bit| u32::try_from(bit).ok());
    match (mask, bit) {
        (Some(mask), Some(bit)) => mask.checked_shr(bit).is_some_and(|rest| rest & 1 == 1),
        _ => false,
    }
}

/// Waits for the next of the signals; for ever where they are ignored.
async fn received(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

/// Asks the command to end, or ends the program.
#[expect(clippy::exit, reason = "a signal ends the program wherever it is")]
fn stop() {
    // Held to the end, so that no other file is begun or put in its place meanwhile.
    let state = lock();
    match state.then {
        Then::Ask if !STOPPED.swap(true, Ordering::AcqRel) => return,
        Then::Ask | Then::End => {}
    }
    for part in &state.parts {
        // Nothing more can be done about an error here.
        drop(fs::remove_file(part).or_else(|_is_folder| fs::remove_dir_all(part)));
    }
    let left = if state.parts.is_empty() {
        ""
    } else {
        "; the file under way was removed"
    };
    note(&format!("error: stopped by a signal{left}"));
    std::process::exit(i32::from(Status::Failed.code()));
}
