//! A log open for writing: creating, opening, closing, and what its doors ask of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use probity_format::column::Columns;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::{GEOMETRY_BYTES_MAX, Geometry, GeometryError};
use probity_format::keys::{RootKey, Secret};
use probity_format::limits::{
    CHECKPOINT_BYTES_MAX, ENTRY_BYTES_MAX, FORMAT_VERSION, FRAME_ENTRIES_MAX,
};
use probity_format::note::Signer as _;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_queue::{Pool, channel};

use crate::appender::Appender;
use crate::clock::{Clock, SystemClock};
use crate::config::Options;
use crate::core::{Callback, Core};
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::journal::{History, JournalEntry};
use crate::journal_writer::JournalWriter;
use crate::keystore::{KeyStore, random, signing_key};
use crate::recovery::Recovery;
use crate::scan::{End, Position, scan};
use crate::storage::{Directory, Storage};
use crate::stream::Stream;
use crate::subjects::SubjectStore;
use crate::{committer, sealer, ticker};

/// The geometry's file; written last when a log is created, so a log without it is none.
pub(crate) const GEOMETRY: &str = "probity.toml";
const LOCK: &str = "lock";
/// How long [`Log::flush`] sleeps between looks; commits wake it earlier.
const FLUSH_WAIT: Duration = Duration::from_millis(100);

/// A log open for writing. Clones share it; [`Log::close`] ends it for all, and so does dropping the last.
#[derive(Debug, Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    threads: Mutex<Threads>,
    repairs: Vec<String>,
}

#[derive(Debug, Default)]
struct Threads {
    sealers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

/// Where a log is and its second copy of the heads.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) log: Arc<dyn Storage>,
    pub(crate) heads: Arc<dyn Storage>,
    pub(crate) path: String,
}

impl Places {
    pub(crate) fn new(path: &Path, heads: Option<&PathBuf>) -> Self {
        let beside = || {
            let mut name = path.as_os_str().to_owned();
            name.push(".heads");
            PathBuf::from(name)
        };
        let heads = heads.cloned().unwrap_or_else(beside);
        Self {
            log: Arc::new(Directory::new(path)),
            heads: Arc::new(Directory::new(&heads)),
            path: path.display().to_string(),
        }
    }
}

impl Log {
    /// Creates a log at `path` with the streams `journal` and `default`, the latter with `config`.
    ///
    /// `origin` is the log's name in its checkpoints, like `example.com/audit`.
    ///
    /// # Errors
    /// [`LogError::Exists`], [`LogError::Storage`], [`LogError::Option`].
    pub fn create(
        path: &Path,
        origin: &str,
        root: &RootKey,
        config: StreamConfig,
        options: Options,
    ) -> Result<(), LogError> {
        let places = Places::new(path, options.heads.as_ref());
        let files = files(&places.log, &options);
        if files.read(GEOMETRY, 1 << 20)?.is_some() {
            return Err(LogError::Exists { path: places.path });
        }
        if !files.list("")?.is_empty() {
            return Err(LogError::NotALog { path: places.path });
        }
        let seed = Secret::new(random()?);
        let bad_origin = |reason: String| LogError::Option {
            name: "origin",
            reason,
        };
        let anchor = signing_key(origin, &seed)
            .map_err(|error| bad_origin(error.to_string()))?
            .verifier_key()
            .clone();
        let geometry = Geometry::new(origin, random()?, anchor)
            .map_err(|error| bad_origin(error.reason.to_owned()))?;
        KeyStore::create(&files, root, &geometry.fingerprint(), &seed)?;
        files.replace(GEOMETRY, geometry.encode().as_bytes())?;
        let log = Self::open(path, root, options)?;
        log.create_stream(&StreamName::default(), config)?;
        log.close()
    }

    /// Opens the log at `path` for writing, repairing what a crash left.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path, root: &RootKey, options: Options) -> Result<Self, LogError> {
        let places = Places::new(path, options.heads.as_ref());
        Self::open_in(&places, root, options, Arc::new(SystemClock::new()))
    }

    pub(crate) fn open_in(
        places: &Places,
        root: &RootKey,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LogError> {
        check_options(&options)?;
        let files = files(&places.log, &options);
        let geometry = read_geometry(&files, &places.path)?;
        let lock = files
            .attempt("lock", LOCK, |storage| storage.lock(LOCK))?
            .ok_or_else(|| LogError::Locked {
                path: places.path.clone(),
            })?;
        files.sweep()?;
        let mut keys = KeyStore::open(&files, root, &geometry.fingerprint())?;
        let heads = Heads::new(Files::new(
            Arc::clone(&places.heads),
            options.retries,
            options.retry_wait,
            1,
        ));
        let history = read_history(&files, &geometry)?;
        keys.resume(&files, geometry.origin(), history.last_key())?;
        let mut repairs = Vec::new();
        let streams = recover_streams(&files, &heads, &geometry, &history, &mut repairs)?;
        let journal = streams.get(&StreamName::journal()).map(Arc::clone);
        let journal = journal.ok_or_else(|| LogError::NotALog {
            path: places.path.clone(),
        })?;
        let is_new = journal.head().0 == 0;
        let subjects = SubjectStore::open(&files, &|token, wrapped| {
            keys.unwrap_subject(token, wrapped)
        })?;
        let chunks = options.queue_bytes / ENTRY_BYTES_MAX;
        let pool = Pool::new(chunks, ENTRY_BYTES_MAX).map_err(|error| LogError::Option {
            name: "queue_bytes",
            reason: error.to_string(),
        })?;
        let (sender, receiver) = channel(chunks);
        let journal = JournalWriter::new(journal)?;
        let core = Arc::new(Core::new(
            options,
            geometry,
            files,
            heads,
            keys,
            subjects,
            clock,
            (pool, sender, receiver),
            streams,
            journal,
            lock,
        ));
        begin_journal(&core, is_new, &repairs)?;
        let threads = Mutex::new(start(&core)?);
        Ok(Self {
            inner: Arc::new(Inner {
                core,
                threads,
                repairs,
            }),
        })
    }

    /// What recovery had to repair when the log was opened, one sentence each; empty after a clean close.
    pub fn repairs(&self) -> &[String] {
        &self.inner.repairs
    }

    /// Creates a stream; nothing happens when it exists with the same configuration.
    ///
    /// # Errors
    /// [`LogError::Stream`] when it exists with another; [`LogError::Reserved`]; [`LogError::Poisoned`].
    pub fn create_stream(&self, name: &StreamName, config: StreamConfig) -> Result<(), LogError> {
        let core = &self.inner.core;
        core.check_poison()?;
        let refused = |reason| LogError::Stream {
            name: name.to_string(),
            reason,
        };
        if name.as_str() == StreamName::JOURNAL {
            return Err(reserved(name));
        }
        let mut journal = core.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = core.stream(name) {
            if known.config == config {
                return Ok(());
            }
            return Err(refused("it exists with another configuration"));
        }
        journal.append(core, &[JournalEntry::stream_create(name, config)])?;
        let id = StreamId::new(&core.fingerprint, name, &config);
        let origin = core.geometry.stream_origin(name.as_str());
        let empty = Stream::empty(id, core.fingerprint);
        let stream = Arc::new(Stream::new(name.clone(), config, id, origin, empty));
        core.heads.load(name)?;
        core.streams
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone(), stream);
        Ok(())
    }

    /// The names and configurations of all streams, sorted by name.
    pub fn streams(&self) -> Vec<(StreamName, StreamConfig)> {
        let streams = self
            .inner
            .core
            .streams
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        streams
            .values()
            .map(|stream| (stream.name.clone(), stream.config))
            .collect()
    }

    /// The log's name in its checkpoints.
    pub fn origin(&self) -> &str {
        self.inner.core.geometry.origin()
    }

    /// How the log was opened.
    pub fn options(&self) -> &Options {
        &self.inner.core.options
    }

    /// A new producer of `stream`.
    ///
    /// # Errors
    /// [`LogError::NoStream`], [`LogError::Reserved`] for the journal, [`LogError::Poisoned`].
    pub fn appender(&self, stream: &StreamName) -> Result<Appender, LogError> {
        let core = &self.inner.core;
        core.check_poison()?;
        if stream.as_str() == StreamName::JOURNAL {
            return Err(reserved(stream));
        }
        let found = core.stream(stream);
        let stream = found.ok_or_else(|| LogError::NoStream {
            name: stream.to_string(),
        })?;
        Ok(Appender::new(Arc::clone(core), stream))
    }

    /// Calls `callback` after every commit, from the committing thread; it must return quickly.
    ///
    /// For doors that wait for receipts without blocking a thread. It is also called when the log
    /// is poisoned, so that nobody waits for ever.
    pub fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        let mut callbacks = self
            .inner
            .core
            .callbacks
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        callbacks.push(Callback(callback));
    }

    /// Asks for a commit at once instead of at the end of the group interval.
    pub fn hurry(&self) {
        self.inner.core.hurry_up();
    }

    /// Waits until everything appended before by any appender is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn flush(&self) -> Result<(), LogError> {
        let core = &self.inner.core;
        core.close_old_chunks(Duration::ZERO);
        loop {
            let generation = core.committed.generation();
            core.check_poison()?;
            // Acquire: a chunk counted out is written, and so visible as dirty.
            let nothing_queued = core.in_flight.load(Ordering::Acquire) == 0;
            let dirty = core
                .content_streams()
                .iter()
                .any(|stream| stream.is_dirty());
            if nothing_queued && !dirty && !core.committing.load(Ordering::Acquire) {
                return core.check_poison();
            }
            core.hurry_up();
            core.committed.wait_after(generation, FLUSH_WAIT);
        }
    }

    /// Signs and publishes checkpoints over everything appended before.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn publish(&self) -> Result<(), LogError> {
        self.flush()?;
        let core = &self.inner.core;
        let generation = core.committed.generation();
        core.publish_wanted.store(true, Ordering::Release);
        core.commit.raise();
        while core.publish_wanted.load(Ordering::Acquire) && core.poison().is_none() {
            core.committed.wait_after(generation, FLUSH_WAIT);
        }
        // The flag is taken before the work is done; the raise that follows says it is.
        core.committed.wait_after(generation, FLUSH_WAIT);
        core.check_poison()
    }

    /// Seals, syncs and publishes everything appended, then ends the log's threads.
    ///
    /// Appends after it fail with `Closed`. Closing again does nothing.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when not everything could be made durable.
    pub fn close(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

impl Inner {
    fn close(&self) -> Result<(), LogError> {
        let core = &self.core;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: appenders that see it find their chunks handed over below.
        core.closing.store(true, Ordering::Release);
        core.close_old_chunks(Duration::ZERO);
        core.sender.close();
        let mut panicked = false;
        for sealer in threads.sealers.drain(..) {
            panicked |= sealer.join().is_err();
        }
        core.closed.store(true, Ordering::Release);
        core.commit.raise();
        core.ticking.raise();
        for thread in threads.others.drain(..) {
            panicked |= thread.join().is_err();
        }
        if panicked {
            core.set_poison(LogError::Broken {
                place: "a thread of the log".into(),
                reason: "ended by a defect".into(),
            });
        }
        drop(
            core.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        core.check_poison()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever cares about the outcome calls `close` before.
        drop(self.close());
    }
}

fn reserved(stream: &StreamName) -> LogError {
    LogError::Reserved {
        name: stream.to_string(),
    }
}

pub(crate) fn files(storage: &Arc<dyn Storage>, options: &Options) -> Files {
    Files::new(
        Arc::clone(storage),
        options.retries,
        options.retry_wait,
        options.open_files_max,
    )
}

/// Reads the geometry of the log at `path`.
pub(crate) fn read_geometry(files: &Files, path: &str) -> Result<Geometry, LogError> {
    let not_a_log = || LogError::NotALog {
        path: path.to_owned(),
    };
    let max = u64::try_from(GEOMETRY_BYTES_MAX).unwrap_or(u64::MAX);
    let content = files.read(GEOMETRY, max)?.ok_or_else(not_a_log)?;
    let text = String::from_utf8(content).map_err(|_not_utf8| not_a_log())?;
    Geometry::parse(&text).map_err(|error| match error {
        GeometryError::Version { found } => LogError::Version {
            found,
            known: u64::from(FORMAT_VERSION),
        },
        GeometryError::Malformed(reason) => LogError::Broken {
            place: GEOMETRY.into(),
            reason: reason.into(),
        },
        _ => not_a_log(),
    })
}

/// The published checkpoint of `stream`, if there is one.
pub(crate) fn read_checkpoint(
    files: &Files,
    stream: &StreamName,
) -> Result<Option<String>, LogError> {
    let place = format!("streams/{stream}/checkpoint");
    let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    let Some(note) = files.read(&place, max)? else {
        return Ok(None);
    };
    String::from_utf8(note)
        .map(Some)
        .map_err(|_not_utf8| LogError::Broken {
            place,
            reason: "is not text".into(),
        })
}

/// Reads the whole journal as far as it is whole.
pub(crate) fn read_history(files: &Files, geometry: &Geometry) -> Result<History, LogError> {
    let fingerprint = geometry.fingerprint();
    let name = StreamName::journal();
    let id = StreamId::new(&fingerprint, &name, &StreamConfig::JOURNAL);
    let mut history = History::new(geometry.anchor().clone());
    let mut decompressor = Decompressor::default();
    let mut position = Position::start(id, fingerprint);
    let _end: End = scan(files, &name, &mut position, &mut |record, frame| {
        add_to_history(&mut history, record.frame, frame, &mut decompressor).map_err(|error| {
            LogError::Broken {
                place: "the journal".into(),
                reason: error.to_string(),
            }
        })
    })?;
    Ok(history)
}

/// Adds the entries of one journal frame to `history`.
pub(crate) fn add_to_history(
    history: &mut History,
    number: u64,
    frame: &Frame<'_>,
    decompressor: &mut Decompressor,
) -> Result<(), probity_format::DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = Columns::decode(&body.packed, &body.plain)?;
    for index in 0..columns.len() {
        history.add(&columns.entry(index)?, number)?;
    }
    Ok(())
}

fn recover_streams(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    history: &History,
    repairs: &mut Vec<String>,
) -> Result<BTreeMap<StreamName, Arc<Stream>>, LogError> {
    let fingerprint = geometry.fingerprint();
    let mut streams = BTreeMap::new();
    for (name, config) in &history.streams {
        let id = StreamId::new(&fingerprint, name, config);
        let origin = geometry.stream_origin(name.as_str());
        let keys = history.keys_named(&origin);
        let recovery = Recovery {
            files,
            heads,
            name,
            id,
            fingerprint,
            keys: &keys,
            repairs,
        };
        let found = recovery.run()?;
        let stream = Stream::new(name.clone(), *config, id, origin, found);
        streams.insert(name.clone(), Arc::new(stream));
    }
    Ok(streams)
}

/// Moves the signing key on and records what recovery did. A crash before the certificate is durable
/// changes nothing; after it, the next open finds the successor certified and takes it.
fn begin_journal(core: &Core, is_new: bool, repairs: &[String]) -> Result<(), LogError> {
    let mut journal = core.journal.lock().unwrap_or_else(PoisonError::into_inner);
    let mut entries = Vec::new();
    if is_new {
        entries.push(JournalEntry::log_create(core.geometry.origin()));
    }
    if !repairs.is_empty() {
        entries.push(JournalEntry::recover(repairs));
    }
    let origin = core.geometry.origin();
    let (size, root) = journal.stream().head();
    let keys = core.keys.lock().unwrap_or_else(PoisonError::into_inner);
    let successor = keys.prepare_successor(&core.files)?;
    let successor_key = signing_key(origin, &successor)?.verifier_key().clone();
    let certificate = JournalEntry::certificate(&keys.signer(origin)?, &successor_key, size, &root)
        .map_err(|error| LogError::Broken {
            place: "key certificate".into(),
            reason: error.to_string(),
        })?;
    drop(keys);
    entries.push(certificate);
    journal.append(core, &entries)?;
    let mut keys = core.keys.lock().unwrap_or_else(PoisonError::into_inner);
    keys.promote(&core.files, successor)?;
    drop(keys);
    let stream = Arc::clone(journal.stream());
    drop(journal);
    core.publish_stream(&stream).map(drop)
}

fn start(core: &Arc<Core>) -> Result<Threads, LogError> {
    let mut threads = Threads::default();
    for number in 0..core.options.sealers {
        threads
            .sealers
            .push(spawn(format!("sealer-{number}"), core, sealer::run)?);
    }
    threads
        .others
        .push(spawn("committer".into(), core, committer::run)?);
    threads
        .others
        .push(spawn("ticker".into(), core, ticker::run)?);
    Ok(threads)
}

fn spawn(name: String, core: &Arc<Core>, body: fn(&Core)) -> Result<JoinHandle<()>, LogError> {
    let core = Arc::clone(core);
    std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || body(&core))
        .map_err(|source| LogError::Storage {
            action: "start thread",
            name,
            source,
        })
}

fn check_options(options: &Options) -> Result<(), LogError> {
    let refuse = |name, reason: &str| {
        Err(LogError::Option {
            name,
            reason: reason.to_owned(),
        })
    };
    if options.sealers == 0 || options.sealers > 1024 {
        return refuse("sealers", "must be 1 to 1024");
    }
    if options.frame_entries_max == 0 || options.frame_entries_max > FRAME_ENTRIES_MAX {
        return refuse("frame_entries_max", "must be 1 to 65536");
    }
    if options.frame_rows_bytes == 0
        || options.frame_rows_bytes > probity_format::limits::FRAME_ROWS_BYTES_MAX
    {
        return refuse("frame_rows_bytes", "must be 1 to 8388608");
    }
    if options.queue_bytes < 2 * ENTRY_BYTES_MAX {
        return refuse("queue_bytes", "must be at least 2 MiB");
    }
    if options.segment_bytes_max < 4096 {
        return refuse("segment_bytes_max", "must be at least 4096");
    }
    Ok(())
}
