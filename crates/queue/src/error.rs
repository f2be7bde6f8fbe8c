//! What is refused and why; values refused come back inside the error.

use std::error::Error;
use std::fmt;

use crate::pool::CHUNK_BYTES_MAX;

/// Why a queue takes no value.
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

/// Why a value was not sent, with the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// There is no room, or there was none within the timeout.
    Full(T),
    /// One side closed the channel, or all receivers are gone.
    Closed(T),
}

impl<T> SendError<T> {
    /// The value that was not sent.
    pub fn into_value(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }

    /// Why it was not sent.
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

// Values may be anything, also secret: only the reason is shown.
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

/// Why nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvError {
    /// There is no value, or there was none within the timeout.
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

/// Why a record is not in the chunk; append it to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendRefused {
    /// The rest of the chunk is too short, or it holds as many records as it can count.
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
    /// The size asked for, in bytes.
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
