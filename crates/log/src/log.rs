//! A log open for writing: its operations until it is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use probity_format::Version;
use probity_format::stream::{StreamConfig, StreamName};

use crate::ages::LatencyHistogram;
use crate::appender::Appender;
use crate::authenticator::Authenticator;
use crate::config::Options;
use crate::ending::Stage;
use crate::error::LogError;
use crate::journal_entry::JournalEntry;
use crate::log_state::LogState;
use crate::repairs::Repair;

/// A log open for writing. Clones share it; [`Log::close`] ends it for all, and so does dropping
/// the last.
#[must_use = "the log is closed when it is dropped, and nobody learns whether that failed"]
#[derive(Debug, Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Arc<LogState>,
    threads: Mutex<Threads>,
    repairs: Vec<Repair>,
}

#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) sealers: Vec<JoinHandle<()>>,
    pub(crate) committer: Option<JoinHandle<()>>,
    pub(crate) publisher: Option<JoinHandle<()>>,
    pub(crate) ticker: Option<JoinHandle<()>>,
}

impl Log {
    pub(crate) fn new(core: Arc<LogState>, threads: Threads, repairs: Vec<Repair>) -> Self {
        let threads = Mutex::new(threads);
        Self {
            inner: Arc::new(Inner {
                core,
                threads,
                repairs,
            }),
        }
    }

    pub(crate) fn core(&self) -> &LogState {
        &self.inner.core
    }

    /// The repairs that recovery made when the log was opened; empty after a clean close.
    pub fn repairs(&self) -> &[Repair] {
        &self.inner.repairs
    }

    /// Creates a stream; nothing happens when it exists with the same configuration.
    ///
    /// # Errors
    /// [`LogError::Stream`] when it exists with another; [`LogError::Reserved`];
    /// [`LogError::Poisoned`].
    pub fn create_stream(&self, name: &StreamName, config: StreamConfig) -> Result<(), LogError> {
        let core = &self.inner.core;
        core.check_poison()?;
        let refused = |reason| LogError::Stream {
            name: name.to_string(),
            reason,
        };
        if name.is_built_in(Version::NEWEST) {
            return Err(reserved(name));
        }
        let mut journal = core.streams.journal();
        // The previous holder of the journal may have failed.
        core.check_poison()?;
        if let Some(known) = core.streams.find(name) {
            if known.config == config {
                return Ok(());
            }
            return Err(refused("it exists with another configuration"));
        }
        let stream = core.empty_stream(name, config)?;
        // Before the journal names the stream, so that every reader of the journal finds the
        // stream's note.
        stream
            .note_created(&core.files)
            .map_err(|error| core.fail(error))?;
        // A failure leaves a reserved place that is never filled: nothing can follow it.
        journal
            .append(core, vec![JournalEntry::stream_create(name, config)])
            .map_err(|error| core.fail(error))?;
        // The journal first, because a stream that no signed journal names is foreign.
        core.publish_stream(journal.stream())
            .map_err(|error| core.fail(error))?;
        core.publish_stream(&stream)
            .map_err(|error| core.fail(error))?;
        // From now on the publishing thread anchors the stream's heads. The journal is still
        // locked, so a concurrent creation of the same stream finds it.
        core.streams.insert(stream);
        Ok(())
    }

    /// The ages of entries when they were sealed, since the log was opened.
    pub fn sealing_ages(&self) -> LatencyHistogram {
        self.inner.core.sealing.ages.report()
    }

    /// The names and configurations of all streams, sorted by name.
    pub fn streams(&self) -> Vec<(StreamName, StreamConfig)> {
        let streams = self.inner.core.streams.all();
        streams
            .iter()
            .map(|stream| (stream.name.clone(), stream.config))
            .collect()
    }

    /// The log's name in its checkpoints.
    pub fn origin(&self) -> &str {
        self.inner.core.geometry.origin()
    }

    /// Returns an authenticator for data kept beside the log for the purpose `domain`, which no
    /// other part of the program uses.
    pub fn authenticator(&self, domain: &'static str) -> Authenticator {
        let keys = self.inner.core.keys.lock();
        let keys = keys.unwrap_or_else(PoisonError::into_inner);
        Authenticator::new(keys.master.note_key(), domain)
    }

    /// The options with which the log was opened.
    pub fn options(&self) -> &Options {
        &self.inner.core.options
    }

    /// A new producer of `stream`.
    ///
    /// # Errors
    /// [`LogError::NoStream`], [`LogError::Reserved`] for the log's own, [`LogError::Poisoned`].
    pub fn appender(&self, stream: &StreamName) -> Result<Appender, LogError> {
        let core = &self.inner.core;
        core.check_poison()?;
        if stream.is_built_in(Version::NEWEST) {
            return Err(reserved(stream));
        }
        let found = core.streams.find(stream);
        let stream = found.ok_or_else(|| LogError::NoStream {
            name: stream.to_string(),
        })?;
        Ok(Appender::new(Arc::clone(core), stream))
    }

    /// Index that the next entry of `stream` gets.
    ///
    /// # Errors
    /// [`LogError::NoStream`].
    pub fn next_index(&self, stream: &StreamName) -> Result<u64, LogError> {
        let found = self.inner.core.streams.find(stream);
        let stream = found.ok_or_else(|| LogError::NoStream {
            name: stream.to_string(),
        })?;
        Ok(stream.next_entry())
    }

    /// Index behind the last entry of `stream` that has a receipt, from any appender. Entries
    /// before it are in the log as the durability mode promises. Where the log is poisoned, the
    /// next opening may find entries behind it.
    ///
    /// # Errors
    /// [`LogError::NoStream`].
    pub fn receipted_index(&self, stream: &StreamName) -> Result<u64, LogError> {
        let found = self.inner.core.streams.find(stream);
        let stream = found.ok_or_else(|| LogError::NoStream {
            name: stream.to_string(),
        })?;
        Ok(stream.receipted_entries())
    }

    /// Calls `callback` after every commit, from the committing thread; it must return quickly.
    ///
    /// For callers that wait for receipts without blocking a thread. It is also called when the log
    /// is poisoned, so that no caller waits for ever.
    pub fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        self.inner.core.progress.on_commit(callback);
    }

    /// Returns whether a permanent storage error ended the log, which then accepts nothing more.
    ///
    /// Every other call returns that error.
    pub fn is_poisoned(&self) -> bool {
        self.inner.core.poison().is_some()
    }

    /// Asks for a commit at once instead of at the end of the group interval.
    pub fn commit_now(&self) {
        self.inner.core.committer.hurry_up();
    }

    /// Waits until everything appended before by any appender is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn flush(&self) -> Result<(), LogError> {
        let core = &self.inner.core;
        core.close_old_chunks(Duration::ZERO);
        core.wait_flushed()
    }

    /// Signs and publishes checkpoints over everything appended before.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn publish(&self) -> Result<(), LogError> {
        self.flush()?;
        self.inner.core.wait_published()
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
        // First: appenders that see it find their chunks handed over below.
        core.ending.reach(Stage::Closing);
        core.close_old_chunks(Duration::ZERO);
        core.queue.sender.close();
        // A thread that ended by a defect has poisoned the log.
        let join = |thread: Option<JoinHandle<()>>| drop(thread.map(JoinHandle::join));
        // Each thread ends when those before it have and its own work is done.
        for sealer in threads.sealers.drain(..) {
            join(Some(sealer));
        }
        core.ending.reach(Stage::Sealed);
        core.committer.wake();
        core.ticker.wake();
        join(threads.committer.take());
        core.ending.reach(Stage::Drained);
        core.publisher.wake();
        join(threads.publisher.take());
        join(threads.ticker.take());
        core.publisher.release();
        core.check_poison()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Callers that need the outcome call `close` before.
        drop(self.close());
    }
}

fn reserved(stream: &StreamName) -> LogError {
    LogError::Reserved {
        name: stream.to_string(),
    }
}
