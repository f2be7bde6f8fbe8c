//! The thread that makes written frames durable and completes receipts.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::config::Durability;
use crate::ending::Stage;
use crate::error::LogError;
use crate::log_state::LogState;
use crate::requests::Requests;
use crate::signal::{Signal, due_wait};

/// The longest sleep between looks while waiting for a sync; commits wake it earlier.
const SYNC_WAIT: Duration = Duration::from_millis(100);

/// The part of the log's state that the committing thread and its callers share.
#[derive(Debug, Default)]
pub(crate) struct Committer {
    /// Raised when the thread may have something to do.
    woken: Signal,
    /// Requests for a commit that makes everything durable.
    requests: Requests,
    /// Set by a caller that waits for durability; taken by the thread.
    commit_now: AtomicBool,
    /// Set while a commit runs: small batches then wait for company.
    running: AtomicBool,
}

impl Committer {
    pub(crate) fn wake(&self) {
        self.woken.raise();
    }

    /// Asks for a commit of everything written, durable and now.
    pub(crate) fn hurry_up(&self) {
        // AcqRel: the caller's earlier writes are visible to the commit that takes the flag. The
        // thread that set it raised too.
        if !self.commit_now.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Returns whether a commit runs.
    pub(crate) fn is_running(&self) -> bool {
        // Acquire: pairs with the store in `commit_streams`.
        self.running.load(Ordering::Acquire)
    }
}

/// Runs until the log is closed and everything is durable, or the log is poisoned.
pub(crate) fn run(core: &LogState) {
    let mut state = State::default();
    core.work_in_rounds(|| state.step(core));
}

/// The deadlines of the committing thread.
#[derive(Default)]
struct State {
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when the oldest uncommitted frame was
    /// noticed.
    dirty_since: Option<Duration>,
}

impl State {
    /// One round: commits the due frames, then waits. Returns false when all is done.
    fn step(&mut self, core: &LogState) -> Result<bool, LogError> {
        let generation = core.committer.woken.generation();
        let now = core.clock.elapsed();
        let last = core.ending.has_reached(Stage::Sealed);
        let dirty = core.uncommitted.load(Ordering::Acquire) > 0;
        if dirty && self.dirty_since.is_none() {
            self.dirty_since = Some(now);
        }
        let asked = core.committer.requests.asked();
        let commit_now = core.committer.commit_now.swap(false, Ordering::AcqRel);
        let group_due = self
            .dirty_since
            .is_some_and(|since| now.saturating_sub(since) >= core.options.group_interval);
        let due = match core.options.durability {
            Durability::Strict => dirty,
            Durability::Group | Durability::Relaxed => group_due && dirty,
        };
        let must_sync = commit_now || asked.any() || last;
        if must_sync || due {
            core.commit_streams(must_sync || core.options.durability != Durability::Relaxed)?;
            self.dirty_since = None;
        }
        if must_sync {
            core.committer.requests.answer(&asked, last);
            core.committed.raise();
        }
        if last {
            return Ok(false);
        }
        // Looked at again: a commit takes time.
        let (interval, now) = (core.options.group_interval, core.clock.elapsed());
        core.committer
            .woken
            .wait_after(generation, due_wait(self.dirty_since, interval, now));
        Ok(true)
    }
}

impl LogState {
    /// Waits until everything handed over before is durable and integrated.
    pub(crate) fn wait_flushed(&self) -> Result<(), LogError> {
        let departed = self.queue.in_flight.departed();
        loop {
            let generation = self.committed.generation();
            self.check_poison()?;
            if self.queue.in_flight.has_arrived(departed) {
                return self.wait_synced();
            }
            self.committer.hurry_up();
            self.committed.wait_after(generation, SYNC_WAIT);
        }
    }

    /// Waits until everything written before is durable and integrated.
    pub(crate) fn wait_synced(&self) -> Result<(), LogError> {
        self.wait_answered(&self.committer.woken, &self.committer.requests)
    }

    /// Asks the thread that `woken` wakes, and waits for its answer.
    pub(crate) fn wait_answered(
        &self,
        woken: &Signal,
        requests: &Requests,
    ) -> Result<(), LogError> {
        let number = requests.ask();
        woken.raise();
        loop {
            let generation = self.committed.generation();
            self.check_poison()?;
            if requests.is_answered(number) {
                return Ok(());
            }
            self.committed.wait_after(generation, SYNC_WAIT);
        }
    }

    /// Commits every stream that has something.
    fn commit_streams(&self, sync: bool) -> Result<(), LogError> {
        // Release: small batches that see it wait for the raise below.
        self.committer.running.store(true, Ordering::Release);
        let mut any = self.uncommitted.swap(0, Ordering::AcqRel) > 0;
        for stream in self.streams.content() {
            any |= stream.commit(&self.files, sync)?;
        }
        self.committer.running.store(false, Ordering::Release);
        self.committed.raise();
        if !any {
            return Ok(());
        }
        // AcqRel: the publishing thread that sees it sees everything integrated before.
        if !self.grown.swap(true, Ordering::AcqRel) {
            self.publisher.wake();
        }
        let callbacks = self
            .callbacks
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for callback in callbacks.iter() {
            (callback.0)();
        }
        Ok(())
    }
}
