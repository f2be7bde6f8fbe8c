//! The lock of a folder, and the folder itself as long as it is locked.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::Lock;

/// The folder that is locked, if one is. Whoever holds the lock writes into it wherever it is moved,
/// and makes nothing at the path that it had.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned {
    folder: Arc<Mutex<Option<OwnedFd>>>,
}

impl Pinned {
    /// The folder, opened anew; nothing where none is locked.
    pub(super) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |folder: &OwnedFd| {
            retry_on_intr(|| rustix::fs::openat(folder, ".", flags, Mode::empty()))
        };
        let Some(folder) = folder.as_ref().map(open).transpose()? else {
            return Ok(None);
        };
        // It opens even then. It must not be made again at its path, and nothing in it is missing.
        if rustix::fs::fstat(&folder)?.st_nlink == 0 {
            return Err(io::Error::other("the folder was removed"));
        }
        Ok(Some(folder))
    }

    /// Stays with `folder` until [`Pinned::release`].
    pub(super) fn pin(&self, folder: &OwnedFd) -> io::Result<()> {
        let folder = folder.as_fd().try_clone_to_owned()?;
        let mut pinned = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        *pinned = Some(folder);
        Ok(())
    }

    fn release(&self) {
        let mut pinned = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        *pinned = None;
    }
}

/// Takes the lock of `opened`; false where another holder has it.
pub(super) fn try_lock(opened: BorrowedFd<'_>) -> io::Result<bool> {
    match retry_on_intr(|| rustix::fs::flock(opened, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn cannot_lock_folders(error: &io::Error) -> bool {
    let refusals = [Errno::BADF, Errno::INVAL, Errno::NOLCK, Errno::OPNOTSUPP];
    refusals
        .iter()
        .any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// The kernel releases it when the process ends, however it does.
#[derive(Debug)]
pub(super) struct HeldLock {
    /// The folder as it was opened.
    pub(super) path: PathBuf,
    pub(super) file_name: String,
    pub(super) folder: OwnedFd,
    pub(super) file: fs::File,
    /// The root of the storage as long as it is locked.
    pub(super) pinned: Pinned,
}

impl Lock for HeldLock {
    fn is_held(&self) -> io::Result<bool> {
        let is_same = |found: Result<Stat, Errno>, held: Stat| match found {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(io::Error::from(error)),
        };
        let folder = retry_on_intr(|| rustix::fs::stat(&self.path));
        let name = self.file_name.as_str();
        let file =
            retry_on_intr(|| rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW));
        Ok(is_same(folder, rustix::fs::fstat(&self.folder)?)?
            && is_same(file, rustix::fs::fstat(&self.file)?)?)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.pinned.release();
        // Closing alone would leave the lock to a child that was forked and has not yet executed.
        // An error changes nothing: then closing releases it.
        let _closing_releases_it_too = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        let _and_this_one = rustix::fs::flock(&self.folder, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A removed folder opened like an empty one.
    #[test]
    fn a_folder_that_was_removed_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("folder");
        fs::create_dir(&path).unwrap();
        let pinned = Pinned::default();
        assert!(pinned.open().unwrap().is_none());
        let opened = OwnedFd::from(fs::File::open(&path).unwrap());
        pinned.pin(&opened).unwrap();
        assert!(pinned.open().unwrap().is_some());
        fs::remove_dir(&path).unwrap();
        let refused = pinned.open().unwrap_err();
        assert!(refused.to_string().contains("was removed"), "{refused}");
    }
}
