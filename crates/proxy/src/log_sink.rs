//! The log as the place where the proxy's entries go.

use probity_format::Entry;
use probity_log::{AppendError, Appender, Log, StreamName, Ticket};

use crate::sink::{EntrySink, SinkError, SinkSource};

/// A stream of an open log.
pub struct LogSource {
    log: Log,
    stream: StreamName,
}

impl LogSource {
    /// The stream `stream` of `log`.
    pub const fn new(log: Log, stream: StreamName) -> Self {
        Self { log, stream }
    }
}

/// One worker's appender.
pub struct LogSink {
    appender: Appender,
    /// The submitter that the appender records now.
    submitter: String,
    log: Log,
}

impl SinkSource for LogSource {
    type Sink = LogSink;

    fn open(&self) -> Result<LogSink, SinkError> {
        let appender = self.log.appender(&self.stream);
        let appender = appender.map_err(|error| SinkError::Failed(Box::new(error)))?;
        Ok(LogSink {
            appender,
            submitter: String::new(),
            log: self.log.clone(),
        })
    }

    fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        self.log.on_commit(callback);
    }

    fn flush(&self) -> Result<(), SinkError> {
        self.log
            .flush()
            .map_err(|error| SinkError::Failed(Box::new(error)))
    }
}

impl EntrySink for LogSink {
    type Ticket = Ticket;

    fn append(&mut self, entries: &[Entry<'_>]) -> Result<Option<Ticket>, (usize, SinkError)> {
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

    fn is_durable(&mut self, ticket: Ticket) -> Result<bool, SinkError> {
        self.appender
            .receipt(ticket)
            .map(|receipt| receipt.is_some())
            .map_err(sink_error)
    }

    fn push(&mut self) {
        self.appender.push();
        self.log.hurry();
    }

    fn is_failed(&self) -> bool {
        self.log.is_poisoned()
    }
}

fn sink_error(error: AppendError) -> SinkError {
    match error {
        AppendError::Full => SinkError::Full,
        other => SinkError::Failed(Box::new(other)),
    }
}
