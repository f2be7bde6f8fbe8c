//! Errors of the queues; a value that was refused comes back inside the error.

use std::error::Error;
use std::fmt;

use crate::pool::CHUNK_BYTES_MAX;

/// The reason why a queue accepts no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room, or there was none within the timeout.
    Full,
    /// One side closed the channel, or all receivers are gone.
    Closed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the channel is full",
            Self::Closed => "the channel is closed",
        })
    }
}

impl Error for Refusal {}

/// The reason why a value was not sent, with the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// There is no room, or there was none within the timeout.
    Full(T),
    /// One side closed the channel, or all receivers are gone.
    Closed(T),
}

impl<T> SendError<T> {
    /// Returns the value that was not sent.
    pub fn into_value(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }

    /// Returns the reason.
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Full(_) => Refusal::Full,
            Self::Closed(_) => Refusal::Closed,
        }
    }

    pub(crate) fn new(refusal: Refusal, value: T) -> Self {
        match refusal {
            Refusal::Full => Self::Full(value),
            Refusal::Closed => Self::Closed(value),
        }
    }
}

// A value may be secret, so only the reason is shown.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendError").field(&self.refusal()).finish()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}

impl<T> Error for SendError<T> {}

/// The reason why no value was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvError {
    /// There is no value, or none came within the timeout.
    Empty,
    /// The channel is closed and every value sent was received.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => "the channel is closed and drained",
        })
    }
}

impl Error for RecvError {}

/// The reason why a record is not in the chunk; append it to another chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendRefused {
    /// The record does not fit into the rest of the chunk, or the chunk has the greatest number of
    /// records.
    NoRoom,
    /// The chunk was closed before the record was committed.
    Closed,
}

impl fmt::Display for AppendRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "the chunk has no room for the record",
            Self::Closed => "the chunk is closed",
        })
    }
}

impl Error for AppendRefused {}

/// A chunk size outside 1..=[`CHUNK_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkSizeError {
    /// The requested size, in bytes.
    pub bytes: usize,
}

impl fmt::Display for ChunkSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "chunks of {} bytes asked for, the bounds are 1 and {CHUNK_BYTES_MAX}",
            self.bytes
        )
    }
}

impl Error for ChunkSizeError {}
