//! A flash chip in a file, with the same rules as the simulated one.

use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{BLOCK_PAGES, FlashCounters, FlashError, Nand, PAGE_BYTES, PageState, SECTOR_BYTES};
use crate::pager::medium::SystemFailure;

/// Permissions of a new file.
const OWNER_ONLY: u32 = 0o600;
/// First bytes of every file of this kind.
const MAGIC: &[u8; 8] = b"PRBFLASH";
/// Offset of the erase counts of the blocks.
const WEAR_AT: u64 = 64;
/// Number of blocks whose fill level is cached; more than the engine writes to alternately.
const FILLED_KNOWN: usize = 16;
/// Greatest number of blocks, so that page numbers fit 32 bits.
const BLOCKS_MAX: u32 = u32::MAX / BLOCK_PAGES;
/// Bytes of one block in the file.
const BLOCK_BYTES: u64 = BLOCK_PAGES as u64 * PAGE_BYTES as u64;

/// A file of whole blocks after a header; a page that contains only `0xFF` counts as erased.
///
/// The file grows with use: pages beyond its end read as erased. The header contains the number of
/// blocks and the erase count of each.
#[derive(Debug)]
pub struct FileFlash {
    file: File,
    blocks: u32,
    counters: FlashCounters,
    failure: SystemFailure,
    /// Cache of blocks with the number of programmed pages.
    filled: [Option<(u32, u8)>; FILLED_KNOWN],
    /// The entry of the cache that is replaced next.
    oldest: usize,
    /// `true` if every program of a durable page is followed by a sync of the file.
    synchronous: bool,
    /// Number of syncs so far.
    syncs: Cell<u64>,
}

impl FileFlash {
    /// Creates a new file for a chip of `blocks` blocks.
    ///
    /// # Errors
    /// The file exists already or cannot be written.
    pub fn create(path: &Path, blocks: u32, synchronous: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let file = options.mode(OWNER_ONLY).open(path)?;
        lock(&file)?;
        file.write_all_at(MAGIC, 0)?;
        file.write_all_at(&blocks.to_le_bytes(), MAGIC.len() as u64)?;
        file.set_len(head_bytes(blocks))?;
        Ok(Self::new(file, blocks, synchronous))
    }

    /// Opens an existing file, for this program alone.
    ///
    /// # Errors
    /// The file cannot be opened for reading and writing, is not of this kind, or is open in
    /// another program.
    pub fn open(path: &Path, synchronous: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        lock(&file)?;
        Self::of(file, synchronous)
    }

    /// Opens an existing file to read it alone, beside other programs that do the same: one that may
    /// lie where nobody can write. Programming and erasing fail.
    ///
    /// # Errors
    /// The file cannot be opened for reading, is not of this kind, or another program has it open
    /// for writing.
    pub fn open_to_read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        locked(file.try_lock_shared())?;
        Self::of(file, false)
    }

    /// Returns whether the file at `path` begins as one of this kind. It is neither locked nor opened
    /// further.
    pub fn is_at(path: &Path) -> bool {
        let mut magic = [0; MAGIC.len()];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0));
        read.is_ok() && &magic == MAGIC
    }

    /// Takes a file that is locked already.
    fn of(file: File, synchronous: bool) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        let mut blocks = [0; 4];
        let foreign = || io::Error::new(io::ErrorKind::InvalidData, "it is not a flash image");
        file.read_exact_at(&mut magic, 0)
            .map_err(|_short| foreign())?;
        file.read_exact_at(&mut blocks, MAGIC.len() as u64)
            .map_err(|_short| foreign())?;
        if &magic != MAGIC {
            return Err(foreign());
        }
        let blocks = u32::from_le_bytes(blocks);
        if blocks > BLOCKS_MAX || file.metadata()?.len() < head_bytes(blocks) {
            let what = format!("its head names {blocks} blocks, more than it has counts for");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self::new(file, blocks, synchronous))
    }

    fn new(file: File, blocks: u32, synchronous: bool) -> Self {
        Self {
            file,
            blocks,
            counters: FlashCounters::default(),
            failure: SystemFailure::default(),
            filled: [None; FILLED_KNOWN],
            oldest: 0,
            synchronous,
            syncs: Cell::new(0),
        }
    }

    /// Returns the number of syncs since this opening.
    pub fn syncs(&self) -> u64 {
        self.syncs.get()
    }

    /// Returns the place of the operating system's error behind a [`FlashError::Medium`].
    pub fn failure(&self) -> SystemFailure {
        self.failure.clone()
    }

    /// Returns the erase count of `block` since the file was created.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn wear(&self, block: u32) -> io::Result<u32> {
        let mut count = [0; 4];
        self.file
            .read_exact_at(&mut count, WEAR_AT + 4 * u64::from(block))?;
        Ok(u32::from_le_bytes(count))
    }

    fn medium(&self, cause: io::Error) -> FlashError {
        self.failure.note(cause);
        FlashError::Medium
    }

    fn place(&self, page: u32) -> u64 {
        head_bytes(self.blocks) + u64::from(page) * PAGE_BYTES as u64
    }

    fn read_at(&self, mut at: u64, out: &mut [u8]) -> io::Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            let count = self.file.read_at(rest, at)?;
            if count == 0 {
                rest.fill(0xFF);
                return Ok(());
            }
            rest = rest.get_mut(count..).unwrap_or(&mut []);
            at += count as u64;
        }
        Ok(())
    }

    /// Returns the number of programmed pages of `block`; they are the first ones, because of the
    /// order.
    fn filled(&mut self, block: u32) -> Result<u8, FlashError> {
        let mut known = self.filled.iter().flatten();
        if let Some((_, count)) = known.find(|(number, _)| *number == block) {
            return Ok(*count);
        }
        let mut count = 0;
        let mut bytes = [0; PAGE_BYTES];
        for number in (1..=BLOCK_PAGES).rev() {
            let place = self.place(block * BLOCK_PAGES + number - 1);
            self.read_at(place, &mut bytes)
                .map_err(|cause| self.medium(cause))?;
            if bytes.iter().any(|&byte| byte != 0xFF) {
                count = u8::try_from(number).unwrap_or(u8::MAX);
                break;
            }
        }
        self.note_filled(block, count);
        Ok(count)
    }

    fn note_filled(&mut self, block: u32, count: u8) {
        let mut places = self.filled.iter_mut().flatten();
        if let Some(place) = places.find(|(number, _)| *number == block) {
            place.1 = count;
        } else if let Some(place) = self.filled.get_mut(self.oldest) {
            *place = Some((block, count));
            self.oldest = (self.oldest + 1) % FILLED_KNOWN;
        }
    }

    fn write_page(&self, page: u32, bytes: &[u8]) -> io::Result<()> {
        let at = self.place(page);
        let end = self.file.metadata()?.len();
        // A hole in the file would read as zeros, unlike an erased page.
        let blank = [0xFF; PAGE_BYTES];
        for gap in (end..at).step_by(PAGE_BYTES) {
            self.file.write_all_at(&blank, gap)?;
        }
        self.file.write_all_at(bytes, at)
    }

    fn program_page(&mut self, page: u32, bytes: &[u8], durable: bool) -> Result<(), FlashError> {
        let block = page / BLOCK_PAGES;
        self.in_range(block)?;
        if bytes.len() != PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        let filled = u32::from(self.filled(block)?);
        match (page % BLOCK_PAGES).cmp(&filled) {
            core::cmp::Ordering::Less => return Err(FlashError::NotErased),
            core::cmp::Ordering::Greater => return Err(FlashError::OutOfOrder),
            core::cmp::Ordering::Equal => {}
        }
        self.write_page(page, bytes)
            .and_then(|()| if durable { self.sync() } else { Ok(()) })
            .map_err(|cause| self.medium(cause))?;
        self.note_filled(block, u8::try_from(filled + 1).unwrap_or(u8::MAX));
        self.counters.programs += 1;
        Ok(())
    }

    /// Waits until the file is durable.
    fn sync(&self) -> io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.file.sync_data()
    }

    fn erase_block(&self, block: u32) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let at = self.place(block * BLOCK_PAGES);
        let blank = [0xFF; PAGE_BYTES];
        for page in (at..end.min(at + BLOCK_BYTES)).step_by(PAGE_BYTES) {
            self.file.write_all_at(&blank, page)?;
        }
        let count = self.wear(block)?.saturating_add(1);
        self.file
            .write_all_at(&count.to_le_bytes(), WEAR_AT + 4 * u64::from(block))
    }

    fn in_range(&self, block: u32) -> Result<(), FlashError> {
        if block < self.blocks {
            Ok(())
        } else {
            Err(FlashError::OutOfRange)
        }
    }
}

/// Locks the file against other programs, until [`unlock`] or its closing.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    locked(file.try_lock())
}

fn locked(tried: Result<(), TryLockError>) -> io::Result<()> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another program has it open",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Ends the lock of a file that is about to be closed.
pub(crate) fn unlock(file: &File) {
    // Closing alone would leave the lock to a child that was forked and has not yet executed. An
    // error changes nothing: then closing releases it.
    let _closing_releases_it_too = file.unlock();
}

impl Drop for FileFlash {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

/// Returns the bytes before the first block, in whole pages.
fn head_bytes(blocks: u32) -> u64 {
    (WEAR_AT + 4 * u64::from(blocks)).next_multiple_of(PAGE_BYTES as u64)
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
        let at = self.place(page) + offset as u64;
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
        self.program_page(page, bytes, self.synchronous)
    }

    fn program_temporary(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.program_page(page, bytes, false)
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        self.in_range(block)?;
        self.erase_block(block)
            .map_err(|cause| self.medium(cause))?;
        self.note_filled(block, 0);
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

    /// A child process has a copy of every descriptor until it executes its program. A chip that was
    /// closed meanwhile could not be opened until then.
    #[test]
    fn the_lock_ends_with_the_chip_though_a_child_has_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let chip = FileFlash::create(&path, 4, false).unwrap();
        let _of_child = chip.file.try_clone().unwrap();
        drop(chip);
        drop(FileFlash::open(&path, true).unwrap());
    }

    /// A copy on a medium without writing could not be looked at, and each look locked others out.
    #[test]
    fn a_chip_that_is_only_read_may_be_read_by_several() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let mut chip = FileFlash::create(&path, 4, false).unwrap();
        chip.program(0, &[9; PAGE_BYTES]).unwrap();
        let kind = |opened: io::Result<FileFlash>| opened.map(drop).map_err(|error| error.kind());
        let busy = Err(io::ErrorKind::WouldBlock);
        assert_eq!(kind(FileFlash::open_to_read(&path)), busy);
        drop(chip);
        let mut one = FileFlash::open_to_read(&path).unwrap();
        let other = FileFlash::open_to_read(&path).unwrap();
        assert_eq!(kind(FileFlash::open(&path, false)), busy);
        let mut back = [0; PAGE_BYTES];
        assert_eq!(one.read(0, 0, &mut back), Ok(PageState::Programmed));
        assert_eq!(one.program(1, &back), Err(FlashError::Medium));
        drop((one, other));
        drop(FileFlash::open(&path, false).unwrap());
    }

    #[test]
    fn the_file_keeps_the_discipline_its_content_and_its_wear() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        let page = [9u8; PAGE_BYTES];
        let mut chip = FileFlash::create(&path, 4, false).unwrap();
        assert_eq!(chip.program(65, &page), Err(FlashError::OutOfOrder));
        chip.program(64, &page).unwrap();
        assert_eq!(chip.program(64, &page), Err(FlashError::NotErased));
        assert_eq!(chip.program(256, &page), Err(FlashError::OutOfRange));
        drop(chip);
        let mut chip = FileFlash::open(&path, true).unwrap();
        let second = FileFlash::open(&path, true).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        let mut back = [0u8; PAGE_BYTES];
        assert_eq!(chip.read(64, 0, &mut back), Ok(PageState::Programmed));
        assert_eq!(back, page);
        assert_eq!(chip.read(3, 0, &mut back), Ok(PageState::Erased));
        assert_eq!(chip.program(64, &page), Err(FlashError::NotErased));
        assert_eq!(chip.program(66, &page), Err(FlashError::OutOfOrder));
        chip.erase(1).unwrap();
        assert_eq!(chip.read(64, 0, &mut back), Ok(PageState::Erased));
        assert_eq!([0, 1].map(|block| chip.wear(block).unwrap()), [0, 1]);
        assert_eq!(chip.blocks(), 4);
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip");
        drop(FileFlash::create(&path, 1, false).unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"X", 0).unwrap();
        let refused = FileFlash::open(&path, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
