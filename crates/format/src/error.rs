//! Errors about bytes or values handed to this crate.

use core::fmt;

/// An error about malformed input: the thing being read, the offset, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeError {
    /// The thing being read, in the words of `docs/format.md`.
    pub what: &'static str,
    /// Offset of the offending byte in the input given to the decoder.
    pub offset: usize,
    /// The reason for the refusal, one lower-case clause.
    pub reason: &'static str,
}

impl DecodeError {
    /// Creates an error about `what` at `offset`.
    pub const fn new(what: &'static str, offset: usize, reason: &'static str) -> Self {
        Self {
            what,
            offset,
            reason,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.what, self.offset, self.reason)
    }
}

impl core::error::Error for DecodeError {}

/// The reason why an entry may not be recorded: the field and the rule it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryError {
    /// The field is longer than its limit.
    TooLong {
        /// Name of the field as in the entry JSON.
        field: &'static str,
        /// Length given, in bytes.
        bytes: usize,
        /// Limit, in bytes (for `subject` lists: see
        /// [`SUBJECTS_MAX`](crate::limits::SUBJECTS_MAX)).
        bytes_max: usize,
    },
    /// The field must not be empty.
    Empty {
        /// Name of the field as in the entry JSON.
        field: &'static str,
    },
    /// The field holds a control character, which names may not.
    ControlCharacter {
        /// Name of the field as in the entry JSON.
        field: &'static str,
    },
    /// The entry has more subjects than allowed.
    TooManySubjects {
        /// Number given.
        count: usize,
    },
    /// The time is before 1970 or after 2199.
    TimeOutOfRange,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong {
                field,
                bytes,
                bytes_max,
            } => {
                write!(
                    f,
                    "field {field} has {bytes} bytes, the limit is {bytes_max}"
                )
            }
            Self::Empty { field } => write!(f, "field {field} is empty"),
            Self::ControlCharacter { field } => {
                write!(f, "field {field} holds a control character")
            }
            Self::TooManySubjects { count } => {
                write!(
                    f,
                    "{count} subjects given, the limit is {}",
                    crate::limits::SUBJECTS_MAX
                )
            }
            Self::TimeOutOfRange => f.write_str("time is before 1970 or after 2199"),
        }
    }
}

impl core::error::Error for EntryError {}
