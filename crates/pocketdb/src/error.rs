//! Errors of the pocket database.

use alloc::string::String;

use crate::pager::error::{Error as PagerError, SecureStoreError};
use crate::pager::flash::FlashError;

/// The reason why an operation failed; the committed state is unchanged in every case.
///
/// The variants are grouped by who must act: the author of the statement, whoever provides memory
/// and flash, the holder of the database's files, the program that uses the engine, and the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    // The author of the statement or of the row.
    /// A statement is malformed, or uses something that this engine does not support.
    Sql {
        /// Byte offset in the statement, if it is known.
        at: usize,
        /// The reason.
        what: String,
    },
    /// A table does not exist; the text names it.
    Name(String),
    /// A value does not fit its column; the text names both.
    Value(String),
    /// There is no such row; the text names it.
    Key(String),
    /// An operation that this engine does not support; the text names it.
    Refused(String),
    /// A fixed limit of the engine was exceeded; the text names it.
    Limit(&'static str),
    /// A statement needs more than its share of the memory.
    Share {
        /// Bytes needed by the statement.
        needed: usize,
        /// Bytes available to it.
        given: usize,
    },

    // Whoever provides memory and flash.
    /// The memory given at the start is not sufficient.
    Memory {
        /// Bytes needed in total.
        needed: usize,
        /// Bytes given at the start.
        given: usize,
    },
    /// The flash device is full.
    DeviceFull,
    /// The flash device failed.
    Flash(FlashError),
    /// The secure store failed.
    SecureStore,

    // The holder of the database's files.
    /// A page failed authentication.
    Tampered {
        /// Number of the physical page.
        page: u32,
        /// The expected content of the page.
        what: &'static str,
    },
    /// The secure store is damaged, or belongs to another image.
    Root(&'static str),
    /// The secure store has a format that this engine does not read.
    ForeignRoot(&'static str),
    /// The image was written by a newer engine; the number is its format.
    NewerFormat(u16),

    // The program that uses the engine.
    /// An earlier failure made this handle unusable; open the database again.
    Poisoned,
    /// The receiver of the rows stopped the statement.
    Receiver,
    /// The allowed operations are used up; the current task is started again later.
    Stopped,

    // The engine itself.
    /// An invariant of the engine does not hold; the text names it. Nothing was shown or written
    /// that depends on it.
    Defect(&'static str),
}

impl Error {
    /// Returns whether an operation was refused for lack of room, without damage.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Limit(_) | Self::DeviceFull | Self::Memory { .. } | Self::Share { .. }
        )
    }
}

/// The engine's result.
pub type Result<T> = core::result::Result<T, Error>;

impl From<PagerError> for Error {
    fn from(error: PagerError) -> Self {
        match error {
            PagerError::Share { needed, given } => Self::Share { needed, given },
            PagerError::Limit(what) => Self::Limit(what),
            PagerError::Combination(what) => Self::Value(what.into()),
            PagerError::DeviceFull => Self::DeviceFull,
            PagerError::Tampered { page, what } => Self::Tampered { page, what },
            PagerError::Root(what) => Self::Root(what),
            PagerError::ForeignRoot(what) => Self::ForeignRoot(what),
            PagerError::NewerFormat(format) => Self::NewerFormat(format),
            PagerError::Poisoned => Self::Poisoned,
            PagerError::Defect(what) => Self::Defect(what),
            PagerError::Flash(cause) => Self::Flash(cause),
            PagerError::SecureStore => Self::SecureStore,
            PagerError::Stopped => Self::Stopped,
        }
    }
}

impl From<SecureStoreError> for Error {
    fn from(error: SecureStoreError) -> Self {
        PagerError::from(error).into()
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Sql { at, what } => write!(f, "{what} at byte {at} of the statement"),
            Self::Name(what) => f.write_str(what),
            Self::Value(what) => f.write_str(what),
            Self::Key(what) => f.write_str(what),
            Self::Memory { needed, given } => {
                write!(f, "{needed} bytes of memory are needed, {given} were given")
            }
            Self::Share { needed, given } => write!(
                f,
                "this takes {needed} bytes of the working memory, of which {given} are there for it"
            ),
            Self::Refused(what) => write!(f, "{what} is not possible"),
            Self::Limit(what) => write!(f, "{what} exceeds the limit"),
            Self::DeviceFull => f.write_str("the flash device is full"),
            Self::Tampered { page, what } => {
                write!(f, "flash page {page} is not the {what} that was written")
            }
            Self::Root(what) | Self::ForeignRoot(what) => write!(f, "the secure store {what}"),
            Self::NewerFormat(version) => {
                write!(f, "the image has format {version}, newer than this program")
            }
            Self::Poisoned => f.write_str("an earlier failure requires opening the database again"),
            Self::Defect(what) => write!(f, "the engine is at fault: {what}"),
            Self::Flash(_) => f.write_str("the flash device failed"),
            Self::Stopped => f.write_str("the operations allowed are used up"),
            Self::Receiver => f.write_str("the receiver of the rows ended the statement"),
            Self::SecureStore => f.write_str("the secure store cannot be read or written"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Flash(cause) => Some(cause),
            _ => None,
        }
    }
}
