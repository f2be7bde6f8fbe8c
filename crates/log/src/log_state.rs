//! The state that the handles and threads of one open log share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use probity_format::geometry::Geometry;
use probity_format::note::SigningKey;

use crate::clock::Clock;
use crate::config::Options;
use crate::ending::Ending;
use crate::files::Files;
use crate::heads::Heads;
use crate::keystore::KeyStore;
use crate::queue::Queue;
use crate::requests::Requests;
use crate::sealer::Sealing;
use crate::signal::Signal;
use crate::storage::Lock;
use crate::streams::Streams;
use crate::subjects::SubjectStore;
use crate::ticker::Ticker;

/// The state of one log open for writing: each group is in the file of the stage that owns it.
///
/// Locks are taken in this order, where one is held while another is taken:
///
/// 1. `published` of a stream that others append to: only the publishing thread takes it once the
///    stream is known;
/// 2. the journal, then the stream `heads`, then `published` of either;
/// 3. the batcher, or the window of idempotency keys of a stream;
/// 4. the keys, then the subjects;
/// 5. the map of streams;
/// 6. of one stream: `committing`, then one of `writer`, `tree` and `next`.
///
/// The slot of an appender is locked before the chunks in flight, and neither with any of these.
/// Nothing is locked under a [`Signal`].
pub(crate) struct LogState {
    pub(crate) options: Options,
    pub(crate) geometry: Geometry,
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
    pub(crate) streams: Streams,
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
        streams: Streams,
        lock: Box<dyn Lock>,
    ) -> Self {
        Self {
            options,
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
            streams,
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
}
