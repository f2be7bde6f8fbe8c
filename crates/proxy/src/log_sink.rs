//! The log as the place where the proxy's entries go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use probity_format::Entry;
use probity_log::{AppendError, Appender, Log, LogError, StreamName, Ticket};

use crate::config::OnLogFailure;
use crate::missed::Missed;
use crate::sink::{EntrySink, SinkError, SinkSource};

type Callback = Arc<dyn Fn() + Send + Sync>;

/// A stream of an open log, and the counts of entries that were handed in and of others.
pub struct LogSource {
    pub(crate) account: Arc<LogAccount>,
}

/// The account that the sinks of one proxy share.
pub(crate) struct LogAccount {
    pub(crate) stream: StreamName,
    opened: RwLock<Opened>,
    /// Entries handed in since the log was opened.
    handed: AtomicU64,
    let_go: AtomicU64,
    withheld: AtomicU64,
    /// Entries that are in neither count while their `gap` is being recorded.
    attempted: Mutex<Missed>,
    callbacks: Mutex<Vec<Callback>>,
}

/// The log as it is open now.
pub(crate) struct Opened {
    pub(crate) log: Log,
    /// The number of earlier openings.
    generation: u64,
    /// The stream's next index then.
    pub(crate) start: u64,
    /// Nothing is handed in any more.
    retired: bool,
}

impl LogSource {
    /// Returns whether the log takes nothing more. A [`Keeper`](crate::Keeper) that may open it
    /// again can end that.
    pub fn has_failed(&self) -> bool {
        self.account.is_failed()
    }

    /// The stream `stream` of `log`.
    ///
    /// # Errors
    /// [`LogError::NoStream`].
    pub fn new(log: Log, stream: StreamName) -> Result<Self, LogError> {
        let start = log.next_index(&stream)?;
        let opened = Opened {
            log,
            generation: 0,
            start,
            retired: false,
        };
        let account = LogAccount {
            stream,
            opened: RwLock::new(opened),
            handed: AtomicU64::new(0),
            let_go: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            attempted: Mutex::default(),
            callbacks: Mutex::default(),
        };
        Ok(Self {
            account: Arc::new(account),
        })
    }
}

impl LogAccount {
    pub(crate) fn opened(&self) -> RwLockReadGuard<'_, Opened> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entries handed in since the log was opened; the last word once it is retired.
    pub(crate) fn handed(&self) -> u64 {
        self.handed.load(Ordering::SeqCst)
    }

    /// Counts entries that were handed in.
    pub(crate) fn hand(&self, entries: u64) {
        self.handed.fetch_add(entries, Ordering::SeqCst);
    }

    /// Entries that were not handed in.
    pub(crate) fn missed(&self) -> Missed {
        Missed {
            let_go: self.let_go.load(Ordering::SeqCst),
            withheld: self.withheld.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn miss(&self, missed: Missed) {
        self.let_go.fetch_add(missed.let_go, Ordering::SeqCst);
        self.withheld.fetch_add(missed.withheld, Ordering::SeqCst);
    }

    /// Subtracts the missing entries that a `gap` records.
    pub(crate) fn recorded(&self, missed: Missed) {
        self.let_go.fetch_sub(missed.let_go, Ordering::SeqCst);
        self.withheld.fetch_sub(missed.withheld, Ordering::SeqCst);
    }

    /// The missing entries whose `gap` is being recorded.
    pub(crate) fn attempted(&self) -> Missed {
        *self
            .attempted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attempt(&self, missed: Missed) {
        let attempted = self.attempted.lock();
        *attempted.unwrap_or_else(PoisonError::into_inner) = missed;
    }

    /// Returns whether the open log takes nothing more.
    pub(crate) fn is_failed(&self) -> bool {
        let opened = self.opened();
        opened.retired || opened.log.is_poisoned()
    }

    /// Ends the handing in: the entries so far are counted.
    pub(crate) fn retire(&self) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.retired = true;
    }

    /// Goes on with `log`, whose stream goes on at `start`.
    pub(crate) fn renew(&self, log: Log, start: u64) {
        let callbacks = self
            .callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for callback in callbacks.iter() {
            let callback = Arc::clone(callback);
            log.on_commit(Box::new(move || callback()));
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        *opened = Opened {
            log,
            generation: opened.generation.wrapping_add(1),
            start,
            retired: false,
        };
        self.handed.store(0, Ordering::SeqCst);
    }
}

/// One worker's appender.
pub struct LogSink {
    account: Arc<LogAccount>,
    appender: Appender,
    generation: u64,
    /// The submitter that the appender records now.
    submitter: String,
    log: Log,
}

/// The promise of an append to the log as it was open then.
#[derive(Debug, Clone, Copy)]
pub struct LogTicket {
    generation: u64,
    ticket: Ticket,
}

impl SinkSource for LogSource {
    type Sink = LogSink;

    fn open(&self) -> Result<LogSink, SinkError> {
        let opened = self.account.opened();
        Ok(LogSink {
            account: Arc::clone(&self.account),
            appender: appender_of(&opened, &self.account.stream)?,
            generation: opened.generation,
            submitter: String::new(),
            log: opened.log.clone(),
        })
    }

    fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        let callback: Callback = Arc::from(callback);
        let mut callbacks = self
            .account
            .callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        callbacks.push(Arc::clone(&callback));
        drop(callbacks);
        let opened = self.account.opened();
        opened.log.on_commit(Box::new(move || callback()));
    }

    fn flush(&self) -> Result<(), SinkError> {
        let log = self.account.opened().log.clone();
        log.flush().map_err(|error| SinkError::Failed(error.into()))
    }
}

impl LogSink {
    /// Goes on with the log as it is open now.
    fn follow(&mut self, opened: &Opened) -> Result<(), SinkError> {
        if opened.retired {
            return Err(retired());
        }
        if opened.generation != self.generation {
            self.appender = appender_of(opened, &self.account.stream)?;
            self.generation = opened.generation;
            self.submitter.clear();
            self.log = opened.log.clone();
        }
        Ok(())
    }

    fn hand_in(&mut self, entries: &[Entry<'_>]) -> Result<Option<Ticket>, (usize, SinkError)> {
        let mut last = None;
        for (taken, entry) in entries.iter().enumerate() {
            self.appender.set_claimed(entry.claimed);
            if entry.submitter != self.submitter {
                let set = self.appender.set_submitter(entry.submitter);
                set.map_err(|error| (taken, SinkError::Failed(Box::new(error))))?;
                entry.submitter.clone_into(&mut self.submitter);
            }
            let ticket = self.appender.try_append(entry);
            last = Some(ticket.map_err(|error| (taken, sink_error(error)))?);
        }
        Ok(last)
    }
}

impl EntrySink for LogSink {
    type Ticket = LogTicket;

    fn append(&mut self, entries: &[Entry<'_>]) -> Result<Option<LogTicket>, (usize, SinkError)> {
        let account = Arc::clone(&self.account);
        // Held while entries are handed in and counted: once the log is retired the count is the last word.
        let opened = account.opened();
        self.follow(&opened).map_err(|error| (0, error))?;
        let outcome = self.hand_in(entries);
        let taken = outcome
            .as_ref()
            .map_or_else(|(taken, _)| *taken, |_| entries.len());
        account.hand(u64::try_from(taken).unwrap_or(u64::MAX));
        let generation = self.generation;
        let ticket = |ticket| LogTicket { generation, ticket };
        outcome.map(|last| last.map(ticket))
    }

    fn is_durable(&mut self, ticket: LogTicket) -> Result<bool, SinkError> {
        if ticket.generation != self.generation {
            return Err(retired());
        }
        let receipt = self.appender.receipt(ticket.ticket);
        receipt.map(|receipt| receipt.is_some()).map_err(sink_error)
    }

    fn push(&mut self) {
        self.appender.push();
        self.log.commit_now();
    }

    fn is_failed(&self) -> bool {
        self.account.is_failed()
    }

    fn miss(&mut self, entries: u64, replies: OnLogFailure) {
        self.account.miss(Missed::of(replies, entries));
    }
}

fn appender_of(opened: &Opened, stream: &StreamName) -> Result<Appender, SinkError> {
    let appender = opened.log.appender(stream);
    appender.map_err(|error| SinkError::Failed(Box::new(error)))
}

fn retired() -> SinkError {
    SinkError::Failed("the log failed and has not been opened again".into())
}

fn sink_error(error: AppendError) -> SinkError {
    match error {
        AppendError::Full => SinkError::Full,
        other => SinkError::Failed(Box::new(other)),
    }
}
