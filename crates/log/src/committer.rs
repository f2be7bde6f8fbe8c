//! The thread that makes written frames durable, completes receipts, and publishes checkpoints.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use probity_format::checkpoint::Checkpoint;

use crate::config::Durability;
use crate::core::Core;
use crate::error::LogError;
use crate::journal::JournalEntry;
use crate::stream::Stream;

/// How long the committing thread sleeps when nothing happens.
const IDLE_WAIT: Duration = Duration::from_millis(200);

/// Runs until the log is closed and everything is published, or the log is poisoned.
pub(crate) fn run(core: &Core) {
    let mut state = State::default();
    while core.poison().is_none() {
        match state.step(core) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => core.set_poison(error),
        }
    }
}

/// When what has to happen next.
#[derive(Default)]
struct State {
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when the oldest uncommitted frame was noticed.
    dirty_since: Option<Duration>,
    /// When the oldest unpublished commit happened.
    unpublished_since: Option<Duration>,
}

impl State {
    /// One round: commits and publishes what is due, then waits. Gives false when all is done.
    fn step(&mut self, core: &Core) -> Result<bool, LogError> {
        let generation = core.commit.generation();
        let now = core.clock.elapsed();
        // Acquire: pairs with `Log::close`, which sets it after the sealers ended.
        let closed = core.closed.load(Ordering::Acquire);
        let dirty = core.uncommitted.load(Ordering::Acquire) > 0;
        if dirty && self.dirty_since.is_none() {
            self.dirty_since = Some(now);
        }
        let wanted = core.publish_wanted.load(Ordering::Acquire);
        let publish = wanted > core.publish_done.load(Ordering::Acquire) || closed;
        let hurry = core.hurry.swap(false, Ordering::AcqRel);
        let group_due = self
            .dirty_since
            .is_some_and(|since| now.saturating_sub(since) >= core.options.group_interval);
        let commit_now = match core.options.durability {
            Durability::Strict => dirty,
            Durability::Group | Durability::Relaxed => group_due && dirty,
        };
        if hurry || publish || commit_now {
            let sync = hurry || publish || core.options.durability != Durability::Relaxed;
            if core.commit_streams(sync)? && self.unpublished_since.is_none() {
                self.unpublished_since = Some(now);
            }
            self.dirty_since = None;
        }
        let checkpoint_due = self
            .unpublished_since
            .is_some_and(|since| now.saturating_sub(since) >= core.options.checkpoint_interval);
        if publish || checkpoint_due {
            core.publish_streams()?;
            // Release: whoever sees it sees everything published.
            core.publish_done.store(wanted, Ordering::Release);
            self.unpublished_since = None;
        }
        if publish || hurry {
            core.committed.raise();
        }
        if closed {
            return Ok(false);
        }
        core.commit.wait_after(generation, self.wait(core));
        Ok(true)
    }

    /// How long until something falls due by itself.
    fn wait(&self, core: &Core) -> Duration {
        let now = core.clock.elapsed();
        let due = |since: Option<Duration>, interval: Duration| {
            since.map(|since| since.saturating_add(interval).saturating_sub(now))
        };
        [
            due(self.dirty_since, core.options.group_interval),
            due(self.unpublished_since, core.options.checkpoint_interval),
        ]
        .into_iter()
        .flatten()
        .fold(IDLE_WAIT, Duration::min)
        .max(Duration::from_micros(50))
    }
}

impl Core {
    /// Commits every stream that has something; gives whether any had.
    pub(crate) fn commit_streams(&self, sync: bool) -> Result<bool, LogError> {
        // Release: small batches that see it wait for the raise below.
        self.committing.store(true, Ordering::Release);
        let counted = self.uncommitted.swap(0, Ordering::AcqRel);
        let mut any = counted > 0;
        for stream in self.content_streams() {
            // On an error the flag stays: who waits for the commit is told of the poison that follows.
            any |= stream.commit(&self.files, sync)?;
        }
        self.committing.store(false, Ordering::Release);
        self.committed.raise();
        if any {
            let callbacks = self
                .callbacks
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            for callback in callbacks.iter() {
                (callback.0)();
            }
        }
        Ok(any)
    }

    /// Publishes every stream that grew, anchors their heads in the journal, and publishes that.
    pub(crate) fn publish_streams(&self) -> Result<(), LogError> {
        self.commit_streams(true)?;
        let mut heads = Vec::new();
        for stream in self.content_streams() {
            heads.extend(self.publish_stream(&stream)?);
        }
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        // An empty tree says nothing that could be altered.
        heads.retain(|head: &Checkpoint| head.size() > 0);
        if !heads.is_empty() {
            journal.append(self, &JournalEntry::heads(&heads))?;
        }
        let stream = Arc::clone(journal.stream());
        drop(journal);
        self.publish_stream(&stream).map(drop)
    }

    pub(crate) fn publish_stream(&self, stream: &Stream) -> Result<Option<Checkpoint>, LogError> {
        let signer = {
            let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.signer(&stream.origin)?
        };
        stream.publish(&self.files, &self.heads, &signer)
    }
}
