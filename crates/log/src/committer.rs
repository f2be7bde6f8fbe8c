//! The thread that makes written frames durable and completes receipts.

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
    /// Set while a commit runs, also of nothing: small batches then wait for company.
    running: AtomicBool,
}

impl Committer {
    pub(crate) fn wake(&self) {
        self.woken.raise();
    }

    /// Asks for a commit of everything written, durable and now, and does not wait for it.
    pub(crate) fn hurry_up(&self) {
        // The thread that made the request raised too.
        if self.requests.ask_once() {
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
        let dirty = core.progress.needs_commit();
        if dirty && self.dirty_since.is_none() {
            self.dirty_since = Some(now);
        }
        let asked = core.committer.requests.asked();
        let group_due = self
            .dirty_since
            .is_some_and(|since| now.saturating_sub(since) >= core.options.group_interval);
        let due = match core.options.durability {
            Durability::Strict => dirty,
            Durability::Group | Durability::Relaxed => group_due && dirty,
        };
        let must_sync = asked.any() || last;
        if must_sync || due {
            core.commit_streams(must_sync || core.options.durability != Durability::Relaxed)?;
            self.dirty_since = None;
        }
        if must_sync {
            core.committer.requests.answer(&asked, last);
            core.progress.changed().raise();
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
            let generation = self.progress.changed().generation();
            self.check_poison()?;
            if self.queue.in_flight.has_arrived(departed) {
                return self.wait_synced();
            }
            self.committer.hurry_up();
            self.progress.changed().wait_after(generation, SYNC_WAIT);
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
            let generation = self.progress.changed().generation();
            self.check_poison()?;
            if requests.is_answered(number) {
                return Ok(());
            }
            self.progress.changed().wait_after(generation, SYNC_WAIT);
        }
    }

    /// Commits every stream that has something.
    fn commit_streams(&self, sync: bool) -> Result<(), LogError> {
        // Release: small batches that see it wait for the raise below.
        self.committer.running.store(true, Ordering::Release);
        let mut frames: u64 = 0;
        for stream in self.streams.content() {
            frames = frames.saturating_add(stream.commit(&self.files, sync)?);
        }
        let is_first = self.progress.integrate(frames);
        self.committer.running.store(false, Ordering::Release);
        self.progress.changed().raise();
        if frames == 0 {
            return Ok(());
        }
        if is_first {
            self.publisher.wake();
        }
        self.progress.call_back();
        Ok(())
    }
}
