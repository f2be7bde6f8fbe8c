//! The second copies of signed heads, which turn a restored backup into a refusal instead of a
//! fork.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::stream::StreamName;
use probity_format::width::to_u64;

use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::head_origin::{log_of, named_in};

/// The last signed checkpoint of each stream, advanced by compare-and-set before it is published.
#[derive(Debug)]
pub(crate) struct Heads {
    files: Files,
    /// The head that this process wrote or found last: the value to compare with.
    known: Mutex<BTreeMap<StreamName, Option<Vec<u8>>>>,
}

impl Heads {
    pub(crate) fn new(files: Files) -> Self {
        Self {
            files,
            known: Mutex::default(),
        }
    }

    /// The heads in `files`, after half-written files of a killed writer were removed; only while
    /// the lock of the log is held. Where a folder below has content, nothing is removed: that may
    /// belong to another log, which is writing it now.
    pub(crate) fn swept(files: Files) -> Result<Self, LogError> {
        let leftovers = files.leftovers()?;
        if !leftovers.is_empty() && !leftovers.iter().any(|path| path.contains('/')) {
            files.sweep()?;
        }
        Ok(Self::new(files))
    }

    /// Returns the head kept for `stream`, and compares the next [`Heads::advance`] with it.
    pub(crate) fn load(&self, stream: &StreamName) -> Result<Option<Vec<u8>>, LogError> {
        let head = self.read(stream)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(stream.clone(), head.clone());
        Ok(head)
    }

    /// Replaces the head of `stream` by `note`; durable once it returns.
    ///
    /// # Errors
    /// When somebody else changed it since: then another writer signs for this log. When it is gone:
    /// the disk with the copies is.
    pub(crate) fn advance(&self, stream: &StreamName, note: &[u8]) -> Result<(), LogError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = known.get(stream).cloned().flatten();
        let found = self.read(stream)?;
        // The first copy of a stream would else begin the place anew that was moved away.
        let other = || known.iter().find(|(_, head)| head.is_some());
        let witness = match expected {
            Some(_) => Some(stream.clone()),
            None => other().map(|(name, _)| name.clone()),
        };
        if let Some(gone) = witness
            && found.is_none()
            && self.read(&gone)?.is_none()
        {
            return Err(LogError::HeadsGone {
                heads: self.files.place().to_owned(),
                stream: gone.to_string(),
            });
        }
        if found != expected {
            return Err(LogError::Broken {
                place: format!("second copy of the head of stream {stream}"),
                reason: "changed under this writer: another writer signs for this log, or the copy was edited".into(),
            });
        }
        self.files.replace(stream.as_str(), note)?;
        known.insert(stream.clone(), Some(note.to_vec()));
        Ok(())
    }

    /// Refuses a place whose copy of the head of `stream` says that it is of another log than that
    /// of `origin`, a stream's. Nothing but the name is believed of such a copy: it is refused, not
    /// used.
    ///
    /// # Errors
    /// [`LogError::HeadsOfAnother`]; errors of the storage.
    pub(crate) fn check_own(&self, stream: &StreamName, origin: &str) -> Result<(), LogError> {
        let note = unless_strange(self.read(stream))?;
        match note.and_then(|note| log_of(&note)) {
            Some(of) if Some(of.as_str()) != named_in(origin) => Err(LogError::HeadsOfAnother {
                heads: self.files.place().to_owned(),
                of,
            }),
            _ => Ok(()),
        }
    }

    fn read(&self, stream: &StreamName) -> Result<Option<Vec<u8>>, LogError> {
        self.files
            .read(stream.as_str(), to_u64(CHECKPOINT_BYTES_MAX))
    }
}
