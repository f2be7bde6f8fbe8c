//! Secure stores for machines without one: in memory, and in a file beside the image.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::vec::Vec;

use zeroize::Zeroizing;

use crate::pager::bytes::put;
use crate::pager::error::SecureStoreError;
use crate::pager::flash::{lock, unlock};
use crate::pager::medium::SystemFailure;
use crate::pager::ring::{RING_END, begins_full};
use crate::pager::root::SecureStore;

/// Permissions of a new file, because it contains the key.
const OWNER_ONLY: u32 = 0o600;

/// The system's source of random numbers.
const RANDOM: &str = "/dev/urandom";

/// A secure store in memory that can lose power during a write.
///
/// It can be copied to preserve an earlier state; each copy is overwritten when dropped.
#[derive(Clone)]
pub struct MemoryStore {
    bytes: Zeroizing<Vec<u8>>,
    /// Number of writes that still succeed, and number of bytes of the next one that are kept.
    cut: Option<(u64, usize)>,
    writes: u64,
}

impl MemoryStore {
    /// Creates a store of `capacity` bytes, never written.
    pub fn new(capacity: usize) -> Self {
        Self {
            bytes: Zeroizing::new(vec![0; capacity]),
            cut: None,
            writes: 0,
        }
    }

    /// Copies another store.
    ///
    /// # Errors
    /// The other one cannot be read.
    pub fn copy_of(other: &mut impl SecureStore) -> Result<Self, SecureStoreError> {
        let mut copy = Self::new(other.capacity());
        other.read(0, &mut copy.bytes)?;
        Ok(copy)
    }

    /// Makes the write after `writes` further ones keep only `kept` bytes and fail.
    pub fn plan_cut(&mut self, writes: u64, kept: usize) {
        self.cut = Some((writes, kept));
    }

    /// Restores the power and cancels a planned cut.
    pub fn restore_power(&mut self) {
        self.cut = None;
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns the raw bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl SecureStore for MemoryStore {
    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<(), SecureStoreError> {
        let found = offset
            .checked_add(out.len())
            .and_then(|end| self.bytes.get(offset..end));
        out.copy_from_slice(found.ok_or(SecureStoreError)?);
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), SecureStoreError> {
        if bytes.len() > self.bytes.len().saturating_sub(offset) {
            return Err(SecureStoreError);
        }
        match &mut self.cut {
            Some((0, kept)) => {
                let kept = (*kept).min(bytes.len());
                put(&mut self.bytes, offset, bytes.get(..kept).unwrap_or(&[]));
                return Err(SecureStoreError);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        put(&mut self.bytes, offset, bytes);
        self.writes += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SecureStoreError> {
        Ok(())
    }
}

/// A secure store in a file. Anybody who can read the file can read the database.
///
/// The file is small and read often, so it is cached in memory, which is overwritten when dropped.
pub struct FileStore {
    file: File,
    bytes: Zeroizing<Vec<u8>>,
    failure: SystemFailure,
}

impl FileStore {
    /// Creates a new file of at most `capacity` bytes, which only its owner can read.
    ///
    /// # Errors
    /// The file exists already or cannot be written.
    pub fn create(path: &Path, capacity: usize) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(path)?;
        lock(&file)?;
        Ok(Self {
            file,
            bytes: Zeroizing::new(vec![0; capacity]),
            failure: SystemFailure::default(),
        })
    }

    /// Opens an existing file, for this program alone.
    ///
    /// # Errors
    /// The file cannot be opened for reading and writing, is empty, was cut short, has more than `capacity`
    /// bytes, or another program has it open.
    pub fn open(path: &Path, capacity: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        lock(&file)?;
        let refused = |kind, what| Err(io::Error::new(kind, what));
        let len = file.metadata()?.len();
        match len {
            0 => return refused(io::ErrorKind::InvalidData, "it is empty"),
            _ if len > capacity as u64 => {
                let what = "it is too long for a secure store";
                return refused(io::ErrorKind::FileTooLarge, what);
            }
            _ => {}
        }
        // The buffer has its final size: growing it would leave copies of the secrets behind.
        let mut bytes = Zeroizing::new(vec![0; capacity]);
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, at as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A cut through the newest record looks like a loss of power while it was written.
        if begins_full(&bytes) && len < RING_END as u64 {
            return refused(io::ErrorKind::InvalidData, "it was cut short");
        }
        Ok(Self {
            file,
            bytes,
            failure: SystemFailure::default(),
        })
    }

    /// Returns the place of the operating system's error behind an [`SecureStoreError`].
    pub fn failure(&self) -> SystemFailure {
        self.failure.clone()
    }

    fn failed(&self, cause: io::Error) -> SecureStoreError {
        self.failure.note(cause);
        SecureStoreError
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").finish_non_exhaustive()
    }
}

impl SecureStore for FileStore {
    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<(), SecureStoreError> {
        let found = offset
            .checked_add(out.len())
            .and_then(|end| self.bytes.get(offset..end));
        out.copy_from_slice(found.ok_or(SecureStoreError)?);
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), SecureStoreError> {
        if bytes.len() > self.bytes.len().saturating_sub(offset) {
            return Err(SecureStoreError);
        }
        self.file
            .write_all_at(bytes, offset as u64)
            .map_err(|cause| self.failed(cause))?;
        put(&mut self.bytes, offset, bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SecureStoreError> {
        self.file.sync_data().map_err(|cause| self.failed(cause))
    }

    fn random(&mut self) -> Result<u32, SecureStoreError> {
        let mut bytes = [0; 4];
        let read = File::open(RANDOM).and_then(|mut source| source.read_exact(&mut bytes));
        read.map_err(|cause| self.failed(cause))?;
        Ok(u32::from_le_bytes(bytes))
    }
}
