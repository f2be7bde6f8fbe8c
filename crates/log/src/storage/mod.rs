//! The interface to the operating system: the file operations of the log, and the guarantees it may
//! assume.

mod directory;
mod held_lock;
mod memory;
mod name;
mod random;

#[cfg(any(test, feature = "testing"))]
mod faulty;
#[cfg(any(test, feature = "testing"))]
mod small_disk;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub use directory::Directory;
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Call, Fault, FaultPlan, Faulty, Traced};
pub use memory::Memory;
#[cfg(any(test, feature = "testing"))]
pub use small_disk::{SmallDisk, not_shown};

/// Named files under one root. Names are relative, `/`-separated, and never contain `..`; others,
/// and components that begin with `.tmp-`, are refused as `InvalidInput`.
///
/// Implementers must make every call safe from several threads. Callers may assume only the
/// durability that each method promises. Until then a crash may keep any part of the written bytes,
/// or none.
pub trait Storage: Debug + Send + Sync {
    /// Opens `name` for reading and writing, creating it empty when `create` is set.
    ///
    /// The name of a created file is durable only after [`Storage::sync_folder`] of its folder.
    /// Missing parent folders are created.
    ///
    /// # Errors
    /// `NotFound` when it does not exist and `create` is not set; `InvalidData` when it is no
    /// regular file; otherwise the system's error.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>>;

    /// Opens `name` for reading only; the medium may be read-only.
    ///
    /// # Errors
    /// `NotFound` when it does not exist; `InvalidData` when it is no regular file; otherwise the
    /// system's error.
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// The whole content of `name`, refused beyond `bytes_max`.
    ///
    /// # Errors
    /// `NotFound`; `InvalidData` when it is longer; otherwise the system's error.
    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Replaces `name` by `content` so that a reader sees the old or the new content, never a
    /// mixture.
    ///
    /// Durable, name included, once it returns. Missing parent folders are created.
    ///
    /// # Errors
    /// The system's error; then either content may be found afterwards.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Replaces `name` like [`Storage::replace`], but not durably: for files that can be derived
    /// again.
    ///
    /// A crash may leave the old file, none, or the new one with any part of its content. That
    /// holds even after [`Storage::sync_folder`], which makes the name durable and not the bytes.
    ///
    /// # Errors
    /// The system's error.
    fn place(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Removes `name`; durable after [`Storage::sync_folder`].
    ///
    /// # Errors
    /// `NotFound`; otherwise the system's error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Moves `name`, which may be a folder, link or pipe, to `to`, a free name; durable after
    /// [`Storage::sync_folder`] of both folders. A missing parent folder of `to` is created.
    ///
    /// # Errors
    /// `Unsupported` where the storage holds files alone; `NotFound`; otherwise the system's error.
    fn carry(&self, name: &str, to: &str) -> io::Result<()> {
        let reason = format!("{name} cannot be moved to {to}: only files are here");
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    /// Removes the files in `folder`, and the folder where the system has empty ones. Durable after
    /// [`Storage::sync_folder`] of its parent. After an error some files are left.
    ///
    /// # Errors
    /// The system's error.
    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        for name in self.list(folder)? {
            self.remove(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    /// Names (not paths) of the files and folders in `folder`, sorted; empty when it does not
    /// exist.
    ///
    /// # Errors
    /// The system's error.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes creations, replacements and removals of names in `folder` durable, and the folder
    /// itself with those above it. It does not cover the files' bytes: see [`File::sync`].
    ///
    /// # Errors
    /// `NotFound` when the folder does not exist; otherwise the system's error.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// Paths of temporary files and folders, sorted: leftovers of crashes, and files that are being
    /// written now. [`Storage::list`] leaves them out.
    ///
    /// # Errors
    /// The system's error.
    fn leftovers(&self) -> io::Result<Vec<String>>;

    /// Removes the leftovers of calls that a crash cut short, and returns the number of files.
    ///
    /// Only the holder of the lock may call it: it would remove files that another writer is about
    /// to place.
    ///
    /// # Errors
    /// The system's error.
    fn sweep(&self) -> io::Result<u64>;

    /// Takes the lock `name` for this process, or `None` when another holder has it.
    ///
    /// Held until the value is dropped or the process ends in any way. Until then a storage in a
    /// folder uses the folder that it locked, also where that is moved. The file `name` then holds
    /// the process id in decimal digits and a line end, for messages only.
    ///
    /// # Errors
    /// The system's error.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;
}

/// An open file of a [`Storage`]; positions are absolute, so threads may share it.
pub trait File: Debug + Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before; otherwise the system's error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// The first place from `offset` on that may hold a non-zero byte, where there is one. Holes
    /// are skipped as far as the file system reports them.
    ///
    /// # Errors
    /// The system's error.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.length()?).then_some(offset))
    }

    /// Writes all of `bytes` at `offset`, extending the file as needed.
    ///
    /// # Errors
    /// The system's error; then any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or extends the file to `length`.
    ///
    /// # Errors
    /// The system's error.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes everything written before the call durable, the length included.
    ///
    /// # Errors
    /// The system's error; then nothing may be assumed durable, not even after a later success.
    fn sync(&self) -> io::Result<()>;
}

/// A held lock; dropping it releases it.
pub trait Lock: Debug + Send + Sync {
    /// Returns whether the lock's name still leads to the locked file; if not, another process
    /// could lock the new one.
    ///
    /// # Errors
    /// The system's error.
    fn is_held(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// Returns whether trying again can help: interrupted, would block, timed out.
pub fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        Interrupted | WouldBlock | TimedOut | ResourceBusy
    )
}

/// The error of [`Storage::read`] for a file longer than it may be.
fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the file is longer than it may be",
    )
}
