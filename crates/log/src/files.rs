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
    open: Mutex<VecDeque<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    name: String,
    file: Arc<dyn File>,
    /// Whether it was written to since the last sync began.
    dirty: bool,
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
        mut call: impl FnMut(&dyn Storage) -> io::Result<T>,
    ) -> Result<T, LogError> {
        self.attempt_while(is_transient, action, name, || call(&*self.storage))
    }

    fn attempt_while<T>(
        &self,
        may_pass: fn(&io::Error) -> bool,
        action: &'static str,
        name: &str,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> Result<T, LogError> {
        let mut wait = self.retry_wait;
        let mut left = self.retries;
        loop {
            match call() {
                Err(error) if left > 0 && may_pass(&error) => {
                    left = left.saturating_sub(1);
                    std::thread::park_timeout(wait);
                    wait = wait.saturating_mul(2);
                }
                result => return result.map_err(|source| storage_error(action, name, source)),
            }
        }
    }

    /// The file `name`, open for writing; the one unused for longest is closed when there are too many.
    pub(crate) fn segment(&self, name: &str, create: bool) -> Result<Arc<dyn File>, LogError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|known| known.name == name)
            && let Some(entry) = open.remove(place)
        {
            let file = Arc::clone(&entry.file);
            open.push_back(entry);
            return Ok(file);
        }
        let file = self.attempt("open", name, |storage| storage.open(name, create))?;
        if open.len() >= self.open_max {
            self.close_one(&mut open)?;
        }
        open.push_back(OpenFile {
            name: name.to_owned(),
            file: Arc::clone(&file),
            dirty: false,
        });
        Ok(file)
    }

    /// Closes the file unused for longest, one that is synced if there is any.
    ///
    /// Others are synced first: once a file is closed, the system may forget that it could not write it.
    fn close_one(&self, open: &mut VecDeque<OpenFile>) -> Result<(), LogError> {
        let clean = open.iter().position(|known| !known.dirty);
        let Some(closed) = open.remove(clean.unwrap_or_default()) else {
            return Ok(());
        };
        if closed.dirty {
            return self.sync_file(&closed.name, &*closed.file);
        }
        Ok(())
    }

    pub(crate) fn write_at(&self, name: &str, bytes: &[u8], offset: u64) -> Result<(), LogError> {
        let file = self.segment(name, false)?;
        let kept = self.mark(name, true);
        self.attempt("write to", name, |_| file.write_at(bytes, offset))?;
        // Another thread may have closed it in between, for want of room.
        if kept {
            Ok(())
        } else {
            self.sync_file(name, &*file)
        }
    }

    pub(crate) fn sync(&self, name: &str) -> Result<(), LogError> {
        let file = self.segment(name, false)?;
        // Before the sync: what is written meanwhile may not be part of it.
        self.mark(name, false);
        self.sync_file(name, &*file)
    }

    /// Notes whether the file `name` is to be synced; gives whether it is open.
    fn mark(&self, name: &str, dirty: bool) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter_mut().find(|known| known.name == name);
        known.map(|known| known.dirty = dirty).is_some()
    }

    fn sync_file(&self, name: &str, file: &dyn File) -> Result<(), LogError> {
        // Interrupted means that nothing was tried. After any other failure the system may have dropped
        // what it could not write, and a second try would succeed without writing it.
        let untried = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        self.attempt_while(untried, "sync", name, || file.sync())
    }

    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), LogError> {
        self.attempt("replace", name, |storage| storage.replace(name, content))
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
            .retain(|known| known.name != name);
        let mut tried = false;
        self.attempt("remove", name, |storage| {
            let again = std::mem::replace(&mut tried, true);
            match storage.remove(name) {
                // The first attempt was carried out before it failed.
                Err(error) if again && error.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result,
            }
        })
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
