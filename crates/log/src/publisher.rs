//! The thread that publishes checkpoints: apart from commits, so that no receipt waits for a
//! signature.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use probity_format::checkpoint::Checkpoint;
use probity_format::note::SigningKey;
use probity_format::stream::StreamName;

use crate::ending::Stage;
use crate::error::LogError;
use crate::heads::Heads;
use crate::log_state::LogState;
use crate::requests::Requests;
use crate::rotation::Signed;
use crate::signal::{Signal, due_wait};
use crate::startup::LOCK;
use crate::storage::{Lock, Storage};
use crate::stream::{Stream, lock};

/// The part of the log's state that publishing needs.
pub(crate) struct Publisher {
    /// Raised when the thread may have something to do.
    woken: Signal,
    /// Requests to the thread.
    requests: Requests,
    /// The second copies of the heads.
    pub(crate) heads: Heads,
    /// Signs the journal's checkpoints beside the signing key.
    witness: SigningKey,
    /// The lock of the log, held until it is closed.
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Publisher {
    pub(crate) fn new(heads: Heads, witness: SigningKey, lock: Box<dyn Lock>) -> Self {
        Self {
            woken: Signal::default(),
            requests: Requests::default(),
            heads,
            witness,
            lock: Mutex::new(Some(lock)),
        }
    }

    pub(crate) fn wake(&self) {
        self.woken.raise();
    }

    /// Releases the lock of the log: nothing is signed any more.
    pub(crate) fn release(&self) {
        drop(lock(&self.lock).take());
    }
}

/// Runs until the log is closed and everything is published, or the log is poisoned.
pub(crate) fn run(core: &LogState) {
    let mut state = State::default();
    core.work_in_rounds(|| state.step(core));
}

#[derive(Default)]
struct State {
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when unpublished frames were noticed.
    since: Option<Duration>,
    /// The signatures of the present key.
    signed: Signed,
}

impl State {
    /// One round: publishes if that is due, then waits. Returns false when all is done.
    fn step(&mut self, core: &LogState) -> Result<bool, LogError> {
        let generation = core.publisher.woken.generation();
        let now = core.clock.elapsed();
        let last = core.ending.has_reached(Stage::Drained);
        let asked = core.publisher.requests.asked();
        if self.since.is_none() && core.progress.needs_publication() {
            self.since = Some(now);
        }
        let interval = core.options.checkpoint_interval;
        let due = self
            .since
            .is_some_and(|since| now.saturating_sub(since) >= interval);
        let is_due = asked.any() || due || last;
        if is_due {
            self.since = None;
            core.progress.offer();
            if core.publish_streams()? {
                self.signed.add(now);
            }
        }
        if !last && self.signed.is_enough(&core.options, now) {
            core.move_key_on()?;
            self.signed = Signed::default();
        }
        if is_due {
            core.publisher.requests.answer(&asked, last);
            core.progress.changed().raise();
        }
        if last {
            return Ok(false);
        }
        core.publisher
            .woken
            .wait_after(generation, due_wait(self.since, interval, now));
        Ok(true)
    }
}

impl LogState {
    /// Waits until everything integrated before is published.
    pub(crate) fn wait_published(&self) -> Result<(), LogError> {
        self.wait_answered(&self.publisher.woken, &self.publisher.requests)
    }

    /// Publishes every stream that grew, and anchors their heads. Returns whether any but the log's
    /// own grew.
    pub(crate) fn publish_streams(&self) -> Result<bool, LogError> {
        let mut has_grown = false;
        for stream in self.streams.content() {
            let head = if stream.config.erasable {
                self.publish_after(&stream, &|| self.sign_slots())?
            } else {
                self.publish_stream(&stream)?
            };
            has_grown |= head.is_some_and(|head| head.size() > 0);
        }
        let journal = self.streams.journal();
        let stream = Arc::clone(journal.stream());
        drop(journal);
        self.publish_stream(&stream)?;
        self.anchor_heads()?;
        Ok(has_grown)
    }

    /// Anchors the published heads of all other streams in the stream `heads`, and publishes it.
    pub(crate) fn anchor_heads(&self) -> Result<(), LogError> {
        let mut anchors = self.streams.heads();
        let own = anchors.stream().name.clone();
        let streams = self.streams.all();
        let others = streams.iter().filter(|stream| stream.name != own);
        let published = others.filter_map(|stream| stream.published_head());
        anchors.anchor(self, published.collect())?;
        self.publish_stream(anchors.stream()).map(drop)
    }

    /// Fails where another writer may be at work: signatures of both would be a fork.
    fn check_lock(&self) -> Result<(), LogError> {
        let lock = lock(&self.publisher.lock);
        let is_held = |_: &dyn Storage| lock.as_ref().map_or(Ok(true), |lock| lock.is_held());
        if self.files.attempt("look at", LOCK, is_held)? {
            return Ok(());
        }
        Err(LogError::Broken {
            place: LOCK.into(),
            reason: "it, or the folder of the log, was moved, removed or replaced under this writer: another one may be writing".into(),
        })
    }

    /// Publishes the journal with the number of slots of subjects, if that grew.
    fn sign_slots(&self) -> Result<(), LogError> {
        let mut journal = self.streams.journal();
        if journal.append_slots(self)? {
            self.publish_stream(journal.stream())?;
        }
        Ok(())
    }

    /// Publishes `stream` if it grew.
    pub(crate) fn publish_stream(&self, stream: &Stream) -> Result<Option<Checkpoint>, LogError> {
        self.publish_after(stream, &|| Ok(()))
    }

    fn publish_after(
        &self,
        stream: &Stream,
        before_signing: &dyn Fn() -> Result<(), LogError>,
    ) -> Result<Option<Checkpoint>, LogError> {
        self.check_lock()?;
        let signer = {
            let keys = lock(&self.keys);
            keys.signer(&stream.origin)?
        };
        let is_journal = stream.name.as_str() == StreamName::JOURNAL;
        let witness = is_journal.then_some(&self.publisher.witness);
        stream.publish(
            &self.files,
            &self.publisher.heads,
            &signer,
            witness,
            before_signing,
        )
    }
}
