//! What a signal that ends the program leaves: no part of a file, and for those who ask, time to finish.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Status;
use crate::output::note;

/// What the watching thread and the rest of the program share.
static STATE: Mutex<State> = Mutex::new(State {
    watching: false,
    then: Then::End,
    parts: BTreeSet::new(),
});
/// Set by the first signal while the command finishes by itself.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// What a signal does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It ends the program.
    End,
    /// The first sets [`is_stopped`], at which the command looks; the second ends the program.
    Ask,
    /// Nothing: the command waits for signals itself.
    Nothing,
}

struct State {
    watching: bool,
    then: Then,
    /// Files that are not whole, and folders of the program's own.
    parts: BTreeSet<PathBuf>,
}

/// Has the file or folder at `part` removed if a signal ends the program before [`keep`] is called.
pub(crate) fn remove_when_ended(part: &Path) -> io::Result<()> {
    watch()?;
    lock().parts.insert(part.to_owned());
    Ok(())
}

/// Leaves the file or folder at `part` where it is, or where it went.
pub(crate) fn keep(part: &Path) {
    lock().parts.remove(part);
}

/// Runs `put`, which brings what lies at `parts` to its place: no signal ends the program in the midst of it, and none removes
/// the parts once it has succeeded.
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

/// From now on the first signal only sets [`is_stopped`]; the second ends the program.
pub(crate) fn end_gracefully() -> io::Result<()> {
    watch()?;
    lock().then = Then::Ask;
    Ok(())
}

/// From now on the command waits for signals itself.
pub(crate) fn leave_signals() {
    lock().then = Then::Nothing;
}

/// Whether a signal asked the program to stop.
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

/// The signals of `kind`, unless whoever started the program had them ignored, as `nohup` does.
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

async fn received(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

/// Asks the command to end, or ends the program.
#[expect(clippy::exit, reason = "a signal ends the program wherever it is")]
fn stop() {
    // Held to the end: no other file is begun or put in its place meanwhile.
    let state = lock();
    match state.then {
        Then::Nothing => return,
        Then::Ask if !STOPPED.swap(true, Ordering::AcqRel) => return,
        Then::Ask | Then::End => {}
    }
    for part in &state.parts {
        // There is nobody left to do more about it.
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
