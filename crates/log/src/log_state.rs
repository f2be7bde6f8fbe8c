//! The state that the handles and threads of one open log share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use probity_format::Version;
use probity_format::geometry::Geometry;
use probity_format::note::SigningKey;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_queue::{Chunk, Pool, Receiver, SealedChunk, Sender};

use crate::ages::AgeCounts;
use crate::batcher::Batcher;
use crate::clock::Clock;
use crate::config::Options;
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::heads::Heads;
use crate::heads_writer::HeadsWriter;
use crate::in_flight::InFlight;
use crate::journal_writer::JournalWriter;
use crate::keystore::KeyStore;
use crate::requests::Requests;
use crate::storage::Lock;
use crate::stream::{Run, Stream};
use crate::subjects::SubjectStore;

/// The longest sleep of an idle thread of the log.
pub(crate) const IDLE_WAIT: Duration = Duration::from_millis(200);

/// Shortest sleep of a thread for which something falls due.
const DUE_WAIT_MIN: Duration = Duration::from_micros(50);

/// The wait from `now` until work that began at `since`, if any did, is `interval` old.
pub(crate) fn due_wait(since: Option<Duration>, interval: Duration, now: Duration) -> Duration {
    since
        .map_or(IDLE_WAIT, |since| {
            since.saturating_add(interval).saturating_sub(now)
        })
        .max(DUE_WAIT_MIN)
}

/// A closed chunk on its way to the sealers.
#[derive(Debug)]
pub(crate) struct ClosedChunk {
    /// Its number in [`LogState::flight`].
    pub(crate) number: u64,
    pub(crate) chunk: SealedChunk,
    pub(crate) run: Arc<Run>,
    pub(crate) stream: Arc<Stream>,
    /// [`Clock::elapsed`] when it was opened: no entry in it is older.
    pub(crate) since: Duration,
}

/// The pool of chunks, and the two ends of the channel that hands them over.
pub(crate) type Queue = (Pool, Sender<ClosedChunk>, Receiver<ClosedChunk>);

/// An appender's open chunk as the ticking thread sees it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) open: Mutex<Option<OpenChunk>>,
}

#[derive(Debug)]
pub(crate) struct OpenChunk {
    pub(crate) chunk: Chunk,
    pub(crate) run: Arc<Run>,
    pub(crate) stream: Arc<Stream>,
    /// [`Clock::elapsed`] when it was opened.
    pub(crate) since: Duration,
}

/// The state of one log open for writing.
pub(crate) struct LogState {
    pub(crate) options: Options,
    pub(crate) geometry: Geometry,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) files: Files,
    pub(crate) heads: Heads,
    pub(crate) keys: Mutex<KeyStore>,
    /// Signs the journal's checkpoints beside the signing key.
    pub(crate) witness: SigningKey,
    pub(crate) subjects: SubjectStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pool: Pool,
    pub(crate) sender: Sender<ClosedChunk>,
    pub(crate) receiver: Receiver<ClosedChunk>,
    pub(crate) batcher: Mutex<Batcher>,
    pub(crate) streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    pub(crate) journal: Mutex<JournalWriter>,
    /// The writer of anchored heads; locked after the journal where both are.
    pub(crate) anchors: Mutex<HeadsWriter>,
    pub(crate) slots: Mutex<Vec<Weak<Slot>>>,
    /// Raised when the ticking thread, idle until then, has something to watch.
    pub(crate) ticking: Signal,
    pub(crate) ticker_idle: AtomicBool,
    pub(crate) commit: Signal,
    pub(crate) committed: Signal,
    /// Set by a caller that waits for durability; taken by the committing thread.
    pub(crate) commit_now: AtomicBool,
    /// Frames written and not yet committed.
    pub(crate) uncommitted: AtomicU64,
    /// Set while a commit runs: small batches then wait for company.
    pub(crate) committing: AtomicBool,
    /// Chunks handed over and not yet written.
    pub(crate) flight: InFlight,
    /// Requests to the committing thread.
    pub(crate) syncs: Requests,
    /// Raised when the publishing thread may have something to do.
    pub(crate) publish: Signal,
    /// True when anything was committed since the last publication began.
    pub(crate) grown: AtomicBool,
    /// Requests to the publishing thread.
    pub(crate) publications: Requests,
    pub(crate) closing: AtomicBool,
    /// Set when the sealers ended: no more frames will be written.
    pub(crate) closed: AtomicBool,
    /// Set when the committing thread ended: no more frames will be integrated.
    pub(crate) drained: AtomicBool,
    /// The age of each frame's oldest entry when the frame was sealed.
    pub(crate) sealing_ages: AgeCounts,
    poison: OnceLock<Arc<LogError>>,
    pub(crate) callbacks: RwLock<Vec<Callback>>,
    /// Held until the log is closed.
    pub(crate) lock: Mutex<Option<Box<dyn Lock>>>,
}

impl std::fmt::Debug for LogState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

/// Called after every commit.
pub(crate) struct Callback(pub(crate) Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

/// Wakes threads that wait for a change; waits may end without a cause.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    generation: u64,
    /// Threads that wait; a wake without waiters would still cost a system call.
    waiting: usize,
}

impl Signal {
    /// Wakes every waiter.
    pub(crate) fn raise(&self) {
        let mut state = self.lock();
        state.generation = state.generation.wrapping_add(1);
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.condition.notify_all();
        }
    }

    /// The present generation: give it to [`Signal::wait_after`] so that no raise is missed.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Waits until raised after `generation` was current, at most for `timeout`.
    pub(crate) fn wait_after(&self, generation: u64, timeout: Duration) {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_add(1);
        let (mut state, _) = self
            .condition
            .wait_timeout_while(state, timeout, |state| state.generation == generation)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting = state.waiting.saturating_sub(1);
    }

    fn lock(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    /// Runs rounds of work until one returns false because all is done, or the log is poisoned,
    /// also by a round's error.
    pub(crate) fn work_in_rounds(&self, mut round: impl FnMut() -> Result<bool, LogError>) {
        while self.poison().is_none() {
            match round() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.set_poison(error),
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where a log's parts meet"
    )]
    pub(crate) fn new(
        options: Options,
        geometry: Geometry,
        files: Files,
        heads: Heads,
        (keys, witness): (KeyStore, SigningKey),
        subjects: SubjectStore,
        clock: Arc<dyn Clock>,
        queue: Queue,
        streams: BTreeMap<StreamName, Arc<Stream>>,
        (journal, anchors): (JournalWriter, HeadsWriter),
        lock: Box<dyn Lock>,
    ) -> Self {
        Self {
            options,
            fingerprint: geometry.fingerprint(),
            geometry,
            files,
            heads,
            keys: Mutex::new(keys),
            witness,
            subjects,
            clock,
            pool: queue.0,
            sender: queue.1,
            receiver: queue.2,
            batcher: Mutex::default(),
            streams: RwLock::new(streams),
            journal: Mutex::new(journal),
            anchors: Mutex::new(anchors),
            slots: Mutex::default(),
            ticking: Signal::default(),
            ticker_idle: AtomicBool::new(false),
            commit: Signal::default(),
            committed: Signal::default(),
            commit_now: AtomicBool::new(false),
            uncommitted: AtomicU64::new(0),
            committing: AtomicBool::new(false),
            flight: InFlight::default(),
            syncs: Requests::default(),
            publish: Signal::default(),
            grown: AtomicBool::new(false),
            publications: Requests::default(),
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            sealing_ages: AgeCounts::default(),
            poison: OnceLock::new(),
            callbacks: RwLock::default(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// The error that ended all writing, if one did.
    pub(crate) fn poison(&self) -> Option<&Arc<LogError>> {
        self.poison.get()
    }

    /// Ends all writing because of `error` and wakes all waiters; only the first error counts.
    pub(crate) fn set_poison(&self, error: LogError) {
        // A second error changes nothing: the first is the cause.
        drop(self.poison.set(Arc::new(error)));
        self.tell_poison();
    }

    fn tell_poison(&self) {
        self.sender.close();
        self.commit.raise();
        self.committed.raise();
        self.publish.raise();
        self.ticking.raise();
        for callback in self
            .callbacks
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            (callback.0)();
        }
    }

    /// Poisons the log like [`LogState::set_poison`], and returns the error for the caller.
    pub(crate) fn fail(&self, error: LogError) -> LogError {
        let error = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        self.tell_poison();
        LogError::Poisoned(error)
    }

    pub(crate) fn check_poison(&self) -> Result<(), LogError> {
        self.poison()
            .map_or(Ok(()), |error| Err(LogError::Poisoned(Arc::clone(error))))
    }

    /// Returns whether the log takes no more entries.
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with the store in `Log::close`.
        self.closing.load(Ordering::Acquire)
    }

    /// Asks the committing thread to make everything written durable now.
    pub(crate) fn hurry_up(&self) {
        // AcqRel: the caller's earlier writes are visible to the commit that takes the flag. The
        // thread that set it raised too.
        if !self.commit_now.swap(true, Ordering::AcqRel) {
            self.commit.raise();
        }
    }

    pub(crate) fn stream(&self, name: &StreamName) -> Option<Arc<Stream>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.get(name).map(Arc::clone)
    }

    /// A stream without entries, to be inserted once the journal records its creation.
    pub(crate) fn empty_stream(
        &self,
        name: &StreamName,
        config: StreamConfig,
    ) -> Result<Arc<Stream>, LogError> {
        let id = StreamId::new(&self.fingerprint, name, &config);
        let origin = self.geometry.stream_origin(name.as_str());
        let empty = Stream::empty();
        self.check_vacant(name)?;
        self.check_no_copy(name, &origin)?;
        // Streams are never removed: their count is the number of the next one.
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let ordinal = u64::try_from(streams.len()).unwrap_or(u64::MAX);
        let journal = streams.get(&StreamName::journal());
        let journal = journal.ok_or_else(|| LogError::NoStream {
            name: StreamName::JOURNAL.into(),
        })?;
        let note = journal.note_of(ordinal);
        let stream = Stream::new(name.clone(), config, id, origin, note, empty);
        Ok(Arc::new(stream))
    }

    /// Checks that nothing of a new stream exists. The journal creates a stream before anything of
    /// it is written, so existing files are foreign.
    fn check_vacant(&self, name: &StreamName) -> Result<(), LogError> {
        let place = format!("streams/{name}");
        match self.files.list(&place) {
            Ok(found) if found.is_empty() => Ok(()),
            Err(error) if !is_strange(&error) => Err(error),
            _ => Err(LogError::Broken {
                place,
                reason: "is there already, though the journal never created the stream; move it out of the log, and keep it".into(),
            }),
        }
    }

    /// Checks that no second copy of a new stream exists. One under its own name may be the only
    /// trace of an older journal or of a fork, and is to be kept.
    fn check_no_copy(&self, name: &StreamName, origin: &str) -> Result<(), LogError> {
        let Some(note) = self.heads.load(name)? else {
            return Ok(());
        };
        let is_own = note.split(|byte| *byte == b'\n').next() == Some(origin.as_bytes());
        let reason = if is_own {
            "is a head of this stream, though the journal never created it: the journal is an older one, \
             the log was written elsewhere too, or another log has its name; \
             keep the copy, and go on from the newest copy of the whole log"
        } else {
            "is there already, though the journal never created the stream, and is no head of it: \
             verify the log, then move the copy away"
        };
        Err(LogError::Broken {
            place: format!("second copy of the head of stream {name}"),
            reason: reason.into(),
        })
    }

    /// Notes the durable frames of every stream, where they are not noted.
    pub(crate) fn note_all_durable(&self) -> Result<(), LogError> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.values() {
            stream.note_durable(&self.files)?;
        }
        Ok(())
    }

    pub(crate) fn insert_stream(&self, stream: Arc<Stream>) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        streams.insert(stream.name.clone(), stream);
    }

    /// Every stream but those that the log itself appends to.
    pub(crate) fn content_streams(&self) -> Vec<Arc<Stream>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams
            .values()
            .filter(|stream| !stream.name.is_built_in(Version::NEWEST))
            .map(Arc::clone)
            .collect()
    }

    /// Closes the chunk in `slot` and hands it to the sealers, unless it was closed before.
    ///
    /// The slot stays locked meanwhile, so chunks of one appender are handed over in order.
    pub(crate) fn hand_over(&self, open: &mut Option<OpenChunk>) {
        let Some(taken) = open.take() else { return };
        if let Some(chunk) = taken.chunk.close()
            && !chunk.is_empty()
        {
            // A flush must see the chunk from before it is sent until it is written.
            let number = self.flight.depart();
            let handed = ClosedChunk {
                number,
                chunk,
                run: taken.run,
                stream: taken.stream,
                since: taken.since,
            };
            // The channel holds as many as there are chunks, so it is never full; it is closed
            // only when the log is poisoned or closed, and then everybody learns so.
            if self.sender.try_send(handed).is_err() {
                self.flight.arrive(&[number]);
            }
        }
    }
}
