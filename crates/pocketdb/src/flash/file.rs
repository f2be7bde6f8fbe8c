//! A flash chip kept in one file, under the same discipline as the simulated one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::{BLOCK_PAGES, FlashCounters, FlashError, Nand, PAGE_BYTES, PageState, SECTOR_BYTES};

/// Bytes of one block in the file.
const BLOCK_BYTES: u64 = BLOCK_PAGES as u64 * PAGE_BYTES as u64;

/// A file of whole blocks; a page that holds only `0xFF` counts as erased.
///
/// The file grows with use: what lies beyond its end reads as erased.
#[derive(Debug)]
pub struct FileFlash {
    file: File,
    blocks: u32,
    counters: FlashCounters,
    failure: Option<io::Error>,
    /// Whether every program is followed by a wait for the medium.
    synchronous: bool,
}

impl FileFlash {
    /// Creates a new file for a chip of `blocks` blocks.
    ///
    /// # Errors
    /// The file exists already or cannot be written.
    pub fn create(path: &Path, blocks: u32, synchronous: bool) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Self {
            file,
            blocks,
            counters: FlashCounters::default(),
            failure: None,
            synchronous,
        })
    }

    /// Opens an existing file as a chip of `blocks` blocks.
    ///
    /// # Errors
    /// The file cannot be opened for reading and writing.
    pub fn open(path: &Path, blocks: u32, synchronous: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self {
            file,
            blocks,
            counters: FlashCounters::default(),
            failure: None,
            synchronous,
        })
    }

    /// The system's own error behind the last [`FlashError::Medium`].
    pub fn last_failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn medium(&mut self, cause: io::Error) -> FlashError {
        self.failure = Some(cause);
        FlashError::Medium
    }

    fn read_at(&mut self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..)
            && !rest.is_empty()
        {
            match self.file.read(rest)? {
                0 => {
                    rest.fill(0xFF);
                    break;
                }
                count => filled += count,
            }
        }
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = self.file.seek(SeekFrom::End(0))?;
        if end < at {
            // A hole would read as zeros, which no erased page holds.
            let mut gap = at - end;
            let blank = [0xFF; PAGE_BYTES];
            while gap > 0 {
                let count = usize::try_from(gap).unwrap_or(PAGE_BYTES).min(PAGE_BYTES);
                self.file.write_all(blank.get(..count).unwrap_or(&blank))?;
                gap -= count as u64;
            }
        }
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)?;
        if self.synchronous {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }

    fn blank(&mut self, page: u32) -> Result<bool, FlashError> {
        let mut bytes = [0u8; PAGE_BYTES];
        self.read_at(u64::from(page) * PAGE_BYTES as u64, &mut bytes)
            .map_err(|cause| self.medium(cause))?;
        Ok(bytes.iter().all(|&byte| byte == 0xFF))
    }

    fn in_range(&self, block: u32) -> Result<(), FlashError> {
        if block < self.blocks {
            Ok(())
        } else {
            Err(FlashError::OutOfRange)
        }
    }
}

impl Nand for FileFlash {
    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
        self.in_range(page / BLOCK_PAGES)?;
        let whole = offset.is_multiple_of(SECTOR_BYTES) && out.len().is_multiple_of(SECTOR_BYTES);
        if !whole || out.is_empty() || offset + out.len() > PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        let at = u64::from(page) * PAGE_BYTES as u64 + offset as u64;
        self.read_at(at, out).map_err(|cause| self.medium(cause))?;
        self.counters.page_reads += 1;
        self.counters.sector_reads += (out.len() / SECTOR_BYTES) as u64;
        let erased = out.iter().all(|&byte| byte == 0xFF);
        Ok(if erased {
            PageState::Erased
        } else {
            PageState::Programmed
        })
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.in_range(page / BLOCK_PAGES)?;
        if bytes.len() != PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        if !self.blank(page)? {
            return Err(FlashError::NotErased);
        }
        if !page.is_multiple_of(BLOCK_PAGES) && self.blank(page - 1)? {
            return Err(FlashError::OutOfOrder);
        }
        let at = u64::from(page) * PAGE_BYTES as u64;
        self.write_at(at, bytes)
            .map_err(|cause| self.medium(cause))?;
        self.counters.programs += 1;
        Ok(())
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        self.in_range(block)?;
        let at = u64::from(block) * BLOCK_BYTES;
        let end = self
            .file
            .seek(SeekFrom::End(0))
            .map_err(|cause| self.medium(cause))?;
        let blank = [0xFF; PAGE_BYTES];
        for page in (at..end.min(at + BLOCK_BYTES)).step_by(PAGE_BYTES) {
            self.write_at(page, &blank)
                .map_err(|cause| self.medium(cause))?;
        }
        self.counters.erases += 1;
        Ok(())
    }

    fn counters(&self) -> FlashCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_keeps_the_discipline_and_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let page = [9u8; PAGE_BYTES];
        let mut chip = FileFlash::create(&path, 4, false).unwrap();
        assert_eq!(chip.program(65, &page), Err(FlashError::OutOfOrder));
        chip.program(64, &page).unwrap();
        assert_eq!(chip.program(64, &page), Err(FlashError::NotErased));
        assert_eq!(chip.program(256, &page), Err(FlashError::OutOfRange));
        drop(chip);
        let mut chip = FileFlash::open(&path, 4, true).unwrap();
        let mut back = [0u8; PAGE_BYTES];
        assert_eq!(chip.read(64, 0, &mut back), Ok(PageState::Programmed));
        assert_eq!(back, page);
        assert_eq!(chip.read(3, 0, &mut back), Ok(PageState::Erased));
        chip.erase(1).unwrap();
        assert_eq!(chip.read(64, 0, &mut back), Ok(PageState::Erased));
    }
}
