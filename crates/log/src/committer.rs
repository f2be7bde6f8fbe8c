//! The thread that makes written frames durable, completes receipts, and publishes checkpoints.

use std::sync::atomic::{AtomicU64, Ordering};
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

/// How long a wait for a sync sleeps between looks; commits wake it earlier.
const SYNC_WAIT: Duration = Duration::from_millis(100);

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

/// The requests that a round found, each with how many were answered before.
struct Asked {
    sync: (u64, u64),
    publish: (u64, u64),
}

impl Asked {
    fn of(core: &Core) -> Self {
        // Acquire: pairs with `Core::wait_done`; what was done before a request is part of the round.
        let look = |wanted: &AtomicU64, done: &AtomicU64| {
            (wanted.load(Ordering::Acquire), done.load(Ordering::Acquire))
        };
        Self {
            sync: look(&core.sync_wanted, &core.sync_done),
            publish: look(&core.publish_wanted, &core.publish_done),
        }
    }

    const fn sync(&self) -> bool {
        self.sync.0 > self.sync.1
    }

    const fn publish(&self) -> bool {
        self.publish.0 > self.publish.1
    }

    /// The round is done; after the last one every request is answered before it is made.
    fn answer(&self, core: &Core, last: bool) {
        let number = |(wanted, _)| if last { u64::MAX } else { wanted };
        // Release: whoever sees the number sees the work.
        core.sync_done.store(number(self.sync), Ordering::Release);
        core.publish_done
            .store(number(self.publish), Ordering::Release);
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
        let asked = Asked::of(core);
        let publish = asked.publish() || closed;
        let hurry = core.hurry.swap(false, Ordering::AcqRel);
        let group_due = self
            .dirty_since
            .is_some_and(|since| now.saturating_sub(since) >= core.options.group_interval);
        let commit_now = match core.options.durability {
            Durability::Strict => dirty,
            Durability::Group | Durability::Relaxed => group_due && dirty,
        };
        if hurry || publish || asked.sync() || commit_now {
            let sync =
                hurry || publish || asked.sync() || core.options.durability != Durability::Relaxed;
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
            self.unpublished_since = None;
        }
        asked.answer(core, closed);
        if publish || hurry || asked.sync() {
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
    /// Waits until everything handed over before is durable and integrated.
    pub(crate) fn wait_flushed(&self) -> Result<(), LogError> {
        let departed = self.flight.departed();
        loop {
            let generation = self.committed.generation();
            self.check_poison()?;
            if self.flight.has_arrived(departed) {
                return self.wait_synced();
            }
            self.hurry_up();
            self.committed.wait_after(generation, SYNC_WAIT);
        }
    }

    /// Waits until everything written before is durable and integrated.
    pub(crate) fn wait_synced(&self) -> Result<(), LogError> {
        self.wait_done(&self.sync_wanted, &self.sync_done)
    }

    /// Waits until everything integrated before is published.
    pub(crate) fn wait_published(&self) -> Result<(), LogError> {
        self.wait_done(&self.publish_wanted, &self.publish_done)
    }

    fn wait_done(&self, wanted: &AtomicU64, done: &AtomicU64) -> Result<(), LogError> {
        // AcqRel: what the caller did before is visible to the round that counts the request as done.
        let number = wanted.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        self.commit.raise();
        loop {
            let generation = self.committed.generation();
            self.check_poison()?;
            // Acquire: pairs with the committing thread, which stores it when the work is done.
            if done.load(Ordering::Acquire) >= number {
                return Ok(());
            }
            self.committed.wait_after(generation, SYNC_WAIT);
        }
    }

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
