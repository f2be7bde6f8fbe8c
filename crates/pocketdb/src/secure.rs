//! Secure stores for machines that have none: in memory, and in a file beside the image.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::vec::Vec;

use crate::bytes::put;
use crate::error::{Error, Result};
use crate::root::SecureStore;

/// Permissions of a new file: it holds the key.
const OWNER_ONLY: u32 = 0o600;

/// A secure store in memory that can lose power in the middle of a write.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    bytes: Vec<u8>,
    /// Writes that still succeed, and how many bytes of the next one arrive.
    cut: Option<(u64, usize)>,
    writes: u64,
}

impl MemoryStore {
    /// A store of `capacity` bytes, never written.
    pub fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            cut: None,
            writes: 0,
        }
    }

    /// Lets the write after `writes` further ones keep only `kept` bytes and fail.
    pub fn plan_cut(&mut self, writes: u64, kept: usize) {
        self.cut = Some((writes, kept));
    }

    /// Restores the power and forgets a planned cut.
    pub fn restore_power(&mut self) {
        self.cut = None;
    }

    /// Writes done so far.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The raw bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl SecureStore for MemoryStore {
    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<()> {
        let found = offset
            .checked_add(out.len())
            .and_then(|end| self.bytes.get(offset..end));
        out.copy_from_slice(found.ok_or(Error::SecureStore)?);
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.bytes.len().saturating_sub(offset) {
            return Err(Error::SecureStore);
        }
        match &mut self.cut {
            Some((0, kept)) => {
                let kept = (*kept).min(bytes.len());
                put(&mut self.bytes, offset, bytes.get(..kept).unwrap_or(&[]));
                return Err(Error::SecureStore);
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        put(&mut self.bytes, offset, bytes);
        self.writes += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A secure store in a file; whoever reads the file reads the database.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    capacity: usize,
    failure: Option<io::Error>,
}

impl FileStore {
    /// Creates a new file of at most `capacity` bytes, for its owner alone.
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
        Ok(Self {
            file,
            capacity,
            failure: None,
        })
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// The file cannot be opened for reading and writing.
    pub fn open(path: &Path, capacity: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            file,
            capacity,
            failure: None,
        })
    }

    /// The system's own error behind the last [`Error::SecureStore`].
    pub fn last_failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn failed(&mut self, cause: io::Error) -> Error {
        self.failure = Some(cause);
        Error::SecureStore
    }

    fn read_at(&mut self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset as u64))?;
        out.fill(0);
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..)
            && !rest.is_empty()
        {
            match self.file.read(rest)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(())
    }

    fn write_at(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset as u64))?;
        self.file.write_all(bytes)
    }
}

impl SecureStore for FileStore {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.read_at(offset, out)
            .map_err(|cause| self.failed(cause))
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.capacity.saturating_sub(offset) {
            return Err(Error::SecureStore);
        }
        self.write_at(offset, bytes)
            .map_err(|cause| self.failed(cause))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|cause| self.failed(cause))
    }
}
