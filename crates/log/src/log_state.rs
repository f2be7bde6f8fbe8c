//! The state that the handles and threads of one open log share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use probity_format::Version;
use probity_format::geometry::Geometry;
use probity_format::note::SigningKey;
use probity_format::stream::{StreamConfig, StreamId, StreamName};

use crate::clock::Clock;
use crate::config::Options;
use crate::ending::Ending;
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::heads::Heads;
use crate::heads_writer::HeadsWriter;
use crate::journal_writer::JournalWriter;
use crate::keystore::KeyStore;
use crate::queue::Queue;
use crate::requests::Requests;
use crate::sealer::Sealing;
use crate::signal::Signal;
use crate::storage::Lock;
use crate::stream::Stream;
use crate::subjects::SubjectStore;
use crate::ticker::Ticker;

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
    pub(crate) queue: Queue,
    pub(crate) ticker: Ticker,
    pub(crate) sealing: Sealing,
    pub(crate) streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    pub(crate) journal: Mutex<JournalWriter>,
    /// The writer of anchored heads; locked after the journal where both are.
    pub(crate) anchors: Mutex<HeadsWriter>,
    pub(crate) commit: Signal,
    pub(crate) committed: Signal,
    /// Set by a caller that waits for durability; taken by the committing thread.
    pub(crate) commit_now: AtomicBool,
    /// Frames written and not yet committed.
    pub(crate) uncommitted: AtomicU64,
    /// Set while a commit runs: small batches then wait for company.
    pub(crate) committing: AtomicBool,
    /// Requests to the committing thread.
    pub(crate) syncs: Requests,
    /// Raised when the publishing thread may have something to do.
    pub(crate) publish: Signal,
    /// True when anything was committed since the last publication began.
    pub(crate) grown: AtomicBool,
    /// Requests to the publishing thread.
    pub(crate) publications: Requests,
    pub(crate) ending: Ending,
    pub(crate) callbacks: RwLock<Vec<Callback>>,
    /// Held until the log is closed.
    pub(crate) lock: Mutex<Option<Box<dyn Lock>>>,
}

impl std::fmt::Debug for LogState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogState").finish_non_exhaustive()
    }
}

/// Called after every commit.
pub(crate) struct Callback(pub(crate) Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl LogState {
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
            queue,
            ticker: Ticker::default(),
            sealing: Sealing::default(),
            streams: RwLock::new(streams),
            journal: Mutex::new(journal),
            anchors: Mutex::new(anchors),
            commit: Signal::default(),
            committed: Signal::default(),
            commit_now: AtomicBool::new(false),
            uncommitted: AtomicU64::new(0),
            committing: AtomicBool::new(false),
            syncs: Requests::default(),
            publish: Signal::default(),
            grown: AtomicBool::new(false),
            publications: Requests::default(),
            ending: Ending::default(),
            callbacks: RwLock::default(),
            lock: Mutex::new(Some(lock)),
        }
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
}
