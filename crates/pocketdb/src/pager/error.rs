//! Errors of the pager, which knows pages, records and memory, and nothing of tables or statements.

use crate::pager::flash::FlashError;

/// The reason why the pager failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// An operation needs more than its share of the memory.
    Share {
        /// Bytes needed by the operation.
        needed: usize,
        /// Bytes available to it.
        given: usize,
    },
    /// A fixed limit was exceeded; the text names it.
    Limit(&'static str),
    /// Records that a sort combines have no result; the text of the combination says why.
    Combination(&'static str),
    /// The flash device is full.
    DeviceFull,
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
    /// An earlier failure made the pager unusable.
    Poisoned,
    /// An invariant does not hold; the text names it.
    Defect(&'static str),
    /// The flash device failed.
    Flash(FlashError),
    /// The secure store failed.
    SecureStore,
    /// The allowed operations are used up.
    Stopped,
}

/// The pager's result.
pub(crate) type Result<T> = core::result::Result<T, Error>;

impl From<FlashError> for Error {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
    }
}

impl From<SecureStoreError> for Error {
    fn from(SecureStoreError: SecureStoreError) -> Self {
        Self::SecureStore
    }
}

/// The failure of a secure store, which is asked for its cause itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecureStoreError;

impl core::fmt::Display for SecureStoreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the secure store cannot be read or written")
    }
}

impl core::error::Error for SecureStoreError {}
