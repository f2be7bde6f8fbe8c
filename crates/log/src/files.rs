//! Storage as the log uses it: errors that say what was tried on which file, retries, few files open at once.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::LogError;
use crate::storage::{File, Storage, is_transient};

/// Longest tile or bundle file read: 256 records with their lengths take a fifth of it.
pub(crate) const TILE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// A storage with the log's manners.
#[derive(Debug)]
pub(crate) struct Files {
    storage: Arc<dyn Storage>,
    retries: u32,
    retry_wait: Duration,
    open_max: usize,
    /// Most recently used last.
    open: Mutex<VecDeque<(String, Arc<dyn File>)>>,
}

impl Files {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        retries: u32,
        retry_wait: Duration,
        open_max: usize,
    ) -> Self {
        Self {
            storage,
            retries,
            retry_wait,
            open_max: open_max.max(1),
            open: Mutex::default(),
        }
    }

    /// Runs `call`, again while it fails for a reason that may pass.
    pub(crate) fn attempt<T>(
        &self,
        action: &'static str,
        name: &str,
        call: impl Fn(&dyn Storage) -> io::Result<T>,
    ) -> Result<T, LogError> {
        let mut wait = self.retry_wait;
        for _ in 0..self.retries {
            match call(&*self.storage) {
                Err(error) if is_transient(&error) => {
                    std::thread::park_timeout(wait);
                    wait = wait.saturating_mul(2);
                }
                result => return result.map_err(|source| storage_error(action, name, source)),
            }
        }
        call(&*self.storage).map_err(|source| storage_error(action, name, source))
    }

    /// The file `name`, open for writing; the one unused for longest is closed when there are too many.
    pub(crate) fn segment(&self, name: &str, create: bool) -> Result<Arc<dyn File>, LogError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|(known, _)| known == name)
            && let Some(entry) = open.remove(place)
        {
            let file = Arc::clone(&entry.1);
            open.push_back(entry);
            return Ok(file);
        }
        let file = self.attempt("open", name, |storage| storage.open(name, create))?;
        if open.len() >= self.open_max {
            open.pop_front();
        }
        open.push_back((name.to_owned(), Arc::clone(&file)));
        Ok(file)
    }

    pub(crate) fn write_at(&self, name: &str, bytes: &[u8], offset: u64) -> Result<(), LogError> {
        let file = self.segment(name, false)?;
        self.attempt("write to", name, |_| file.write_at(bytes, offset))
    }

    pub(crate) fn sync(&self, name: &str) -> Result<(), LogError> {
        let file = self.segment(name, false)?;
        // A failed sync is never tried again: the system may have dropped what it could not write.
        file.sync()
            .map_err(|source| storage_error("sync", name, source))
    }

    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), LogError> {
        self.attempt("replace", name, |storage| storage.replace(name, content))
    }

    pub(crate) fn place(&self, name: &str, content: &[u8]) -> Result<(), LogError> {
        self.attempt("write", name, |storage| storage.place(name, content))
    }

    pub(crate) fn sync_folder(&self, folder: &str) -> Result<(), LogError> {
        self.attempt("sync", folder, |storage| storage.sync_folder(folder))
    }

    /// Removes what an earlier process left half done; only while the lock is held.
    pub(crate) fn sweep(&self) -> Result<(), LogError> {
        self.attempt("remove leftovers in", "the log", |storage| storage.sweep())
            .map(drop)
    }

    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>, LogError> {
        self.attempt("list", folder, |storage| storage.list(folder))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), LogError> {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != name);
        self.attempt("remove", name, |storage| storage.remove(name))
    }

    /// The content of `name`, or `None` when there is no such file.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, LogError> {
        found(self.attempt("read", name, |storage| storage.read(name, bytes_max)))
    }

    /// The file `name` for reading, or `None` when there is no such file.
    pub(crate) fn open_read(&self, name: &str) -> Result<Option<Arc<dyn File>>, LogError> {
        found(self.attempt("open", name, |storage| storage.open_read(name)))
    }
}

fn found<T>(result: Result<T, LogError>) -> Result<Option<T>, LogError> {
    match result {
        Err(LogError::Storage { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

pub(crate) fn storage_error(action: &'static str, name: &str, source: io::Error) -> LogError {
    LogError::Storage {
        action,
        name: name.to_owned(),
        source,
    }
}
