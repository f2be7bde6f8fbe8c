//! Reads stored files of any kind: a folder, a link or a file of any length is a fault in the
//! report, and never stops a verification.

use std::sync::Arc;

use crate::error::LogError;
use crate::files::Files;
pub(super) use crate::files::{is_strange, is_there};
use crate::storage::File;

/// The content at the path of an expected file.
pub(super) enum Stored {
    /// Nothing.
    Nothing,
    /// Something that is no file, or a file too long to be the expected one.
    Strange,
    /// A file with this content.
    Content(Vec<u8>),
}

impl Stored {
    /// Reads the content at `path`, where a file of at most `bytes_max` is expected.
    pub(super) fn read(files: &Files, path: &str, bytes_max: u64) -> Result<Self, LogError> {
        match files.read(path, bytes_max) {
            Ok(Some(content)) => Ok(Self::Content(content)),
            Ok(None) => Ok(Self::Nothing),
            Err(error) if is_strange(&error) => Ok(Self::Strange),
            Err(error) => Err(error),
        }
    }

    /// The content; something strange counts as a file without any, which no form of the log has.
    pub(super) fn content(self) -> Option<Vec<u8>> {
        match self {
            Self::Nothing => None,
            Self::Strange => Some(Vec::new()),
            Self::Content(content) => Some(content),
        }
    }
}

/// The file at `path`, open for reading; none where there is nothing, or something that is no file.
pub(super) fn open(files: &Files, path: &str) -> Result<Option<Arc<dyn File>>, LogError> {
    match files.open_read(path) {
        Err(error) if is_strange(&error) => Ok(None),
        opened => opened,
    }
}

/// The names in `folder`; `None` where it is something else.
pub(super) fn names(files: &Files, folder: &str) -> Result<Option<Vec<String>>, LogError> {
    match files.list(folder) {
        Err(error) if is_strange(&error) => Ok(None),
        listed => listed.map(Some),
    }
}
