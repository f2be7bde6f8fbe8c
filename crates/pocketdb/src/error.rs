//! Why the pocket database refuses something.

use alloc::string::String;

use crate::flash::FlashError;

/// Why an operation was not done; the committed state is untouched in every case.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A statement cannot be understood, or says something that this engine does not do.
    Sql {
        /// Byte of the statement where that is plain.
        at: usize,
        /// What is wrong there.
        what: String,
    },
    /// A table is not known; the text names it.
    Name(String),
    /// A value does not fit its column; the text names both.
    Value(String),
    /// There is no such row; the text names it.
    Key(String),
    /// The memory given at the start does not suffice.
    Memory {
        /// Bytes this needs altogether.
        needed: usize,
        /// Bytes given at the start.
        given: usize,
    },
    /// A statement needs more than its share of the memory.
    Share {
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that there are for it.
        given: usize,
    },
    /// Something that this engine does not do; the text names it.
    Refused(String),
    /// A fixed limit of the engine is exceeded; the text names it.
    Limit(&'static str),
    /// The flash device is full.
    DeviceFull,
    /// Authenticated bytes are not what was written: the evidence names the page.
    Tampered {
        /// Physical page that failed.
        page: u32,
        /// What the page should have been.
        what: &'static str,
    },
    /// The secure store is damaged, or belongs to another image.
    Root(&'static str),
    /// The secure store is not one that this engine reads.
    ForeignRoot(&'static str),
    /// The image was written by a newer engine; holds its format number.
    NewerFormat(u16),
    /// An earlier failure left this handle unusable; open the database again.
    Poisoned,
    /// The flash device failed.
    Flash(FlashError),
    /// The secure store failed.
    SecureStore,
    /// The receiver of the rows ended the statement.
    Receiver,
    /// The operations allowed are used up; what was under way is begun anew later.
    Stopped,
}

impl Error {
    /// Whether an operation was refused for want of room, with nothing broken.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Limit(_) | Self::DeviceFull | Self::Memory { .. } | Self::Share { .. }
        )
    }
}

/// The engine's result.
pub type Result<T> = core::result::Result<T, Error>;

impl From<FlashError> for Error {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
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
