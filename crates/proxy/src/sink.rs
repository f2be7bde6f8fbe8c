//! The seam to the log: where entries go, and how a worker learns that they are durable.

use probity_format::Entry;

use crate::config::OnLogFailure;

/// Why entries were not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// There is no room now; trying again may succeed.
    #[error("the log has no room")]
    Full,
    /// The log takes nothing.
    #[error("the log takes no entries")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// One producer of entries, owned by one worker thread.
///
/// An implementation must not block: where there is no room it answers [`SinkError::Full`].
pub trait EntrySink: 'static {
    /// The promise of an append.
    type Ticket: Copy + 'static;

    /// Takes entries in order; gives the ticket of the last, which covers those before.
    ///
    /// # Errors
    /// How many were taken, and why the next was not.
    fn append(&mut self, entries: &[Entry<'_>])
    -> Result<Option<Self::Ticket>, (usize, SinkError)>;

    /// Returns whether the entry of `ticket` is durable.
    ///
    /// # Errors
    /// When it never will be.
    fn is_durable(&mut self, ticket: Self::Ticket) -> Result<bool, SinkError>;

    /// Hurries appended entries along.
    fn push(&mut self);

    /// Counts `entries` that the log did not take, of operations that were done all the same; `replies` says whether their replies
    /// were shown. The log is to say how many they are as soon as it takes entries.
    fn miss(&mut self, entries: u64, replies: OnLogFailure);

    /// Returns whether the log takes nothing now. It takes entries again once it is opened again.
    fn is_failed(&self) -> bool;
}

/// The source of the workers' sinks; one for the whole proxy.
pub trait SinkSource: Send + Sync + 'static {
    /// The sink of one worker.
    type Sink: EntrySink;

    /// A new sink.
    ///
    /// # Errors
    /// When the log or the stream is not there.
    fn open(&self) -> Result<Self::Sink, SinkError>;

    /// Calls `callback` after every commit, from any thread.
    fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>);

    /// Makes everything appended durable; may block.
    ///
    /// # Errors
    /// When that is not possible any more.
    fn flush(&self) -> Result<(), SinkError>;
}
