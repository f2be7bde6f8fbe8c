//! The storage as the log uses it: errors that name the action and the file, retries, few files
//! open at once.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::checked_certificates::CheckedCertificates;
use crate::config::Options;
use crate::error::LogError;
use crate::log_location::LogLocation;
use crate::storage::{File, Storage, is_transient};

/// Longest tile or bundle file read: 256 records with their lengths take a fifth of it.
pub(crate) const TILE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// A storage with retries, a limit of open files and descriptive errors.
#[derive(Debug)]
pub(crate) struct Files {
    storage: Arc<dyn Storage>,
    /// The prefix of file names in messages.
    place: String,
    retries: u32,
    retry_wait: Duration,
    open_max: usize,
    /// Most recently used last.
    open: Mutex<VecDeque<OpenFile>>,
    /// Held while a file is synced; the first sync that failed, and on which file.
    syncing: Mutex<Option<(String, io::Error)>>,
    checked_certificates: Arc<CheckedCertificates>,
}

#[derive(Debug)]
struct OpenFile {
    name: String,
    file: Arc<dyn File>,
    /// True when it was written to since the last sync began.
    dirty: bool,
}

impl Files {
    /// The files of the log at `places`.
    pub(crate) fn of_log(places: &LogLocation, options: &Options) -> Self {
        let files = Self::new(&places.log, &places.path, options, options.open_files_max);
        Self {
            checked_certificates: Arc::clone(&places.checked_certificates),
            ..files
        }
    }

    /// The second copies of its heads. Nobody reads or writes them in another way.
    ///
    /// # Errors
    /// [`LogError::HeadsInLog`], [`LogError::HeadsAreLog`].
    pub(crate) fn of_heads(places: &LogLocation, options: &Options) -> Result<Self, LogError> {
        places.check_apart()?;
        Ok(Self::new(&places.heads, &places.heads_path, options, 1))
    }

    fn new(storage: &Arc<dyn Storage>, place: &str, options: &Options, open_max: usize) -> Self {
        Self {
            storage: Arc::clone(storage),
            place: place.to_owned(),
            retries: options.retries,
            retry_wait: options.retry_wait,
            open_max: open_max.max(1),
            open: Mutex::default(),
            syncing: Mutex::default(),
            checked_certificates: Arc::default(),
        }
    }

    /// Returns the same files for another reader, with none open yet.
    pub(crate) fn for_reading(&self) -> Self {
        Self {
            storage: Arc::clone(&self.storage),
            place: self.place.clone(),
            retries: self.retries,
            retry_wait: self.retry_wait,
            open_max: 1,
            open: Mutex::default(),
            syncing: Mutex::default(),
            checked_certificates: Arc::clone(&self.checked_certificates),
        }
    }

    /// The certificates of the log that readers and writers of these files have checked.
    pub(crate) const fn checked_certificates(&self) -> &Arc<CheckedCertificates> {
        &self.checked_certificates
    }

    /// The name of the place in messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
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
                result => return result.map_err(|source| self.failed(action, name, source)),
            }
        }
    }

    /// Something else in the place of a file is damage, which neither a second attempt nor more
    /// disk space mends.
    fn failed(&self, action: &'static str, name: &str, source: io::Error) -> LogError {
        let name = self.shown(name);
        let reason = match source.kind() {
            io::ErrorKind::InvalidData => source.to_string(),
            io::ErrorKind::IsADirectory => "a folder is in the place of the file".into(),
            io::ErrorKind::NotADirectory => "something else is in the place of the folder".into(),
            _ => {
                return LogError::Storage {
                    action,
                    name,
                    source,
                };
            }
        };
        LogError::Broken {
            place: name,
            reason,
        }
    }

    fn shown(&self, name: &str) -> String {
        let name = shown(name);
        if name.is_empty() {
            return self.place.clone();
        }
        format!("{}/{name}", self.place)
    }

    /// The file `name`, open for writing; the one unused for longest is closed when there are too
    /// many.
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
    /// Others are synced first: once a file is closed, the system may forget a failed write.
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
        // Before the sync: later writes may not be part of it.
        self.mark(name, false);
        self.sync_file(name, &*file)
    }

    /// Marks whether the file `name` is to be synced; returns whether it is open.
    fn mark(&self, name: &str, dirty: bool) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter_mut().find(|known| known.name == name);
        known.map(|known| known.dirty = dirty).is_some()
    }

    fn sync_file(&self, name: &str, file: &dyn File) -> Result<(), LogError> {
        self.sync_one(name, || file.sync())
    }

    /// Syncs `file`, which the caller keeps open under the name `name`.
    pub(crate) fn sync_opened(&self, name: &str, file: &dyn File) -> Result<(), LogError> {
        self.sync_file(name, file)
    }

    /// Syncs one file after another, and none after a sync that failed. The system may have dropped
    /// the failed writes and report that only to the first caller. The next caller would believe
    /// that all was written.
    fn sync_one(&self, name: &str, call: impl FnMut() -> io::Result<()>) -> Result<(), LogError> {
        let mut failed = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.refuse_after(failed.as_ref())?;
        // Interrupted means that nothing was tried.
        let untried = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        let synced = self.attempt_while(untried, "sync", name, call);
        if let Err(LogError::Storage { source, .. }) = &synced {
            *failed = Some((name.to_owned(), again(source)));
        }
        synced
    }

    /// Fails if a sync failed: integrated frames may then not be durable.
    pub(crate) fn check_synced(&self) -> Result<(), LogError> {
        let failed = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.refuse_after(failed.as_ref())
    }

    fn refuse_after(&self, failed: Option<&(String, io::Error)>) -> Result<(), LogError> {
        failed.map_or(Ok(()), |(name, source)| {
            Err(LogError::Storage {
                action: "sync",
                name: self.shown(name),
                source: again(source),
            })
        })
    }

    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), LogError> {
        self.attempt("replace", name, |storage| storage.replace(name, content))
    }

    pub(crate) fn sync_folder(&self, folder: &str) -> Result<(), LogError> {
        self.sync_one(folder, || self.storage.sync_folder(folder))
    }

    /// Removes unfinished files of an earlier process; only while the lock is held.
    pub(crate) fn sweep(&self) -> Result<(), LogError> {
        self.attempt("remove leftovers in", "", |storage| storage.sweep())
            .map(drop)
    }

    /// Paths of unfinished files: leftovers of an earlier process, or files that another one is
    /// about to place.
    pub(crate) fn leftovers(&self) -> Result<Vec<String>, LogError> {
        self.attempt("list leftovers in", "", |storage| storage.leftovers())
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

    /// Moves the file, folder or link `name` to the name `to`, which is free.
    pub(crate) fn carry(&self, name: &str, to: &str) -> Result<(), LogError> {
        self.attempt("move", name, |storage| storage.carry(name, to))
    }

    /// Removes `folder`, which holds nothing needed. Leftovers after a failure do no harm.
    pub(crate) fn discard(&self, folder: &str) {
        let removed = self.attempt("remove", folder, |storage| storage.remove_folder(folder));
        drop(removed);
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

/// Returns a copy of `error`.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(
        || io::Error::new(error.kind(), error.to_string()),
        io::Error::from_raw_os_error,
    )
}

fn found<T>(result: Result<T, LogError>) -> Result<Option<T>, LogError> {
    match result {
        Err(LogError::Storage { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Returns `name` as reports show it. Anybody who can make a file chooses its name, and must not
/// forge lines of a report or send commands to a terminal. Control and other invisible characters
/// are escaped.
pub(crate) fn shown(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for char in name.chars() {
        if matches!(char, '\'' | '"' | '\\') {
            shown.push(char);
        } else {
            shown.extend(char.escape_debug());
        }
    }
    shown
}

/// Returns whether the error means that something else is in the place of the file, or that its
/// content is not the log's.
pub(crate) const fn is_strange(error: &LogError) -> bool {
    matches!(error, LogError::Broken { .. })
}

/// Returns the content that was read. A file that is too long, or is no file, holds nothing that
/// the writer wrote.
pub(crate) fn unless_strange(
    read: Result<Option<Vec<u8>>, LogError>,
) -> Result<Option<Vec<u8>>, LogError> {
    match read {
        Err(error) if is_strange(&error) => Ok(Some(Vec::new())),
        read => read,
    }
}

/// Returns whether there is anything at `path`, a file or not.
pub(crate) fn is_there(files: &Files, path: &str) -> Result<bool, LogError> {
    match files.open_read(path) {
        Err(error) if is_strange(&error) => Ok(true),
        // Without permission to look, nothing can be called missing.
        Err(LogError::Storage { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(true)
        }
        opened => opened.map(|file| file.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Call, Fault, FaultPlan, Faulty, Memory};

    #[test]
    fn after_a_sync_that_failed_no_other_is_tried_and_each_says_why() {
        let faulty = Arc::new(Faulty::new(Memory::new(), FaultPlan::none()));
        let places = LogLocation::on(Arc::clone(&faulty) as _, Arc::new(Memory::new()), "the log");
        let options = Options {
            open_files_max: 1,
            ..Options::default()
        };
        let files = Files::of_log(&places, &options);
        for name in ["one", "two"] {
            files.segment(name, true).unwrap();
            files.write_at(name, b"bytes", 0).unwrap();
        }
        files.check_synced().unwrap();
        faulty.arm(FaultPlan::nth(0, Fault::INPUT_OUTPUT).of(&[Call::Sync]));
        // To make room for it, the other is synced and closed.
        let refused = files.segment("one", false).unwrap_err();
        let tried = faulty.count(Call::Sync);
        for later in [
            refused,
            files.check_synced().unwrap_err(),
            files.sync("one").unwrap_err(),
            files.sync("two").unwrap_err(),
            files.sync_folder("").unwrap_err(),
        ] {
            assert_eq!(later.to_string(), "cannot sync the log/two");
            let source = std::error::Error::source(&later).unwrap().to_string();
            assert_eq!(source, Fault::INPUT_OUTPUT.error().to_string());
        }
        assert_eq!(faulty.count(Call::Sync), tried);
    }
}
