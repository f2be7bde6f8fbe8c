//! The file as redb sees it: pages in clear; on the disk every page but the header is sealed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use crate::block_set::BlockSet;
use crate::live::HEAD_BYTES as HEAD_READ_BYTES;
use crate::seal::{BLOCK_BYTES, BlockError, SEALED_BYTES, Sealer};

/// Bytes at the beginning that stay in clear. redb overwrites them in place at each commit and
/// expects to find them torn in certain ways only. They hold numbers and checksums of pages, and no
/// stored data.
const HEAD_BYTES: u64 = BLOCK_BYTES as u64;
const BLOCK: u64 = BLOCK_BYTES as u64;
const SEALED: u64 = SEALED_BYTES as u64;

/// Place of the state in which redb left the file, with two of its bits (redb's file format 3). One
/// says that the file was not closed, the other that the last commit was synced before it was
/// named.
const STATE_PLACE: u64 = 9;
const NOT_CLOSED: u8 = 2;
const TWO_PHASES: u8 = 4;

/// A sealed file, shared by the database and the thread that wipes free blocks.
#[derive(Debug, Clone)]
pub(crate) struct SealedFile(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: File,
    sealer: Sealer,
    recovery: Recovery,
    written: Mutex<Written>,
}

/// Blocks that may hold data, locked while blocks are written or wiped.
#[derive(Debug, Default)]
struct Written {
    /// Written since they were last wiped.
    ever: BlockSet,
    /// Written since the file was last synced.
    unsynced: BlockSet,
    /// Blocks written since before the synced commit whose free blocks are being wiped; none while
    /// nothing is wiped.
    guarded: Option<BlockSet>,
}

impl Written {
    fn insert(&mut self, number: u64) {
        self.ever.insert(number);
        self.unsynced.insert(number);
        if let Some(guarded) = &mut self.guarded {
            guarded.insert(number);
        }
    }
}

/// The repair of a file of an older format after a crash. Its commits could count before their blocks were synced, so that a
/// page that does not open may be a torn one, which redb's own checksums tell. At any other time it is damage.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovery(Arc<Repair>);

#[derive(Debug, Default)]
struct Repair {
    is_under_way: AtomicBool,
    /// Blocks that did not open.
    unopened: Mutex<BTreeSet<u64>>,
}

impl Recovery {
    /// Reads the state from the header of a file.
    pub(crate) fn of(file: &File) -> Result<Self, io::Error> {
        let mut state = [0];
        if file.metadata()?.len() > HEAD_BYTES {
            file.read_exact_at(&mut state, STATE_PLACE)?;
        }
        let [state] = state;
        let is_torn = state & NOT_CLOSED != 0 && state & TWO_PHASES == 0;
        Ok(Self(Arc::new(Repair {
            is_under_way: AtomicBool::new(is_torn),
            unopened: Mutex::default(),
        })))
    }

    /// Ends the repair: the database is open. Returns how many blocks did not open.
    pub(crate) fn end(&self) -> usize {
        self.0.is_under_way.store(false, Ordering::Release);
        self.unopened().len()
    }

    fn is_under_way(&self) -> bool {
        self.0.is_under_way.load(Ordering::Acquire)
    }

    fn unopened(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        let unopened = self.0.unopened.lock();
        unopened.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of one block.
struct Part {
    number: u64,
    /// The place in the block at which the part begins.
    skipped: usize,
    length: usize,
}

impl SealedFile {
    /// Takes a file of unknown blocks: each may hold removed data.
    pub(crate) fn new(file: File, sealer: Sealer, recovery: Recovery) -> io::Result<Self> {
        let written = Written {
            ever: BlockSet::up_to(blocks(&file)?),
            ..Written::default()
        };
        Ok(Self(Arc::new(Shared {
            file,
            sealer,
            recovery,
            written: Mutex::new(written),
        })))
    }

    /// Returns the file itself, which is overwritten once it is closed.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.0.file.try_clone()
    }

    /// The header as the last sync left it. Blocks that are written from that sync on are kept from [`Self::wipe`], until
    /// [`Self::end_wiping`].
    pub(crate) fn begin_wiping(&self) -> io::Result<[u8; HEAD_READ_BYTES]> {
        let mut written = self.written();
        written.guarded = Some(written.unsynced.clone());
        self.head()
    }

    /// Overwrites the blocks of `numbers` that are not in `live` and may hold something.
    pub(crate) fn wipe(&self, numbers: Range<u64>, live: &BlockSet) -> io::Result<()> {
        let mut written = self.written();
        let end = blocks(&self.0.file)?.min(numbers.end);
        for number in numbers.start..end {
            let is_guarded = |guarded: &BlockSet| guarded.contains(number);
            if live.contains(number)
                || !written.ever.contains(number)
                || written.guarded.as_ref().is_none_or(is_guarded)
            {
                continue;
            }
            self.clear(number)?;
            written.ever.remove(number);
        }
        Ok(())
    }

    /// Overwrites a block with zeros. Where nothing was ever written the disk may have no room yet, and none is taken: a
    /// disk that is full must not keep removed data.
    fn clear(&self, number: u64) -> io::Result<()> {
        const ZEROS: [u8; SEALED_BYTES] = [0; SEALED_BYTES];
        let mut found = ZEROS;
        let (start, end) = (physical(number), physical(number + 1));
        self.0.file.read_exact_at(&mut found, start)?;
        let mut at = start;
        // The disk has room by pages of the file, in which blocks do not begin.
        while at < end {
            let next = end.min((at / BLOCK + 1) * BLOCK);
            let part = usize::try_from(at - start).unwrap_or_default()
                ..usize::try_from(next - start).unwrap_or_default();
            let holds = found.get(part.clone()).unwrap_or_default();
            if holds.iter().any(|byte| *byte != 0) {
                let zeros = ZEROS.get(part).ok_or_else(refused)?;
                self.0.file.write_all_at(zeros, at)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Makes the wiping durable.
    pub(crate) fn end_wiping(&self) -> io::Result<()> {
        self.written().guarded = None;
        self.0.file.sync_data()
    }

    /// Notes that every free block may hold something again.
    pub(crate) fn forget_wiping(&self) -> io::Result<()> {
        let mut written = self.written();
        written.ever = BlockSet::up_to(blocks(&self.0.file)?);
        Ok(())
    }

    /// Returns the header as it lies in the file.
    pub(crate) fn head(&self) -> io::Result<[u8; HEAD_READ_BYTES]> {
        let mut head = [0; HEAD_READ_BYTES];
        self.0.file.read_exact_at(&mut head, 0)?;
        Ok(head)
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> io::Result<u64> {
        blocks(&self.0.file)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        let written = self.0.written.lock();
        written.unwrap_or_else(PoisonError::into_inner)
    }

    /// The block at `number`, where part of it is to be changed.
    fn block(&self, number: u64) -> Result<Vec<u8>, io::Error> {
        let (mut sealed, mut block) = (vec![0; SEALED_BYTES], vec![0; BLOCK_BYTES]);
        self.0.file.read_exact_at(&mut sealed, physical(number))?;
        self.open(number, &sealed, &mut block)?;
        Ok(block)
    }

    fn open(&self, number: u64, sealed: &[u8], block: &mut [u8]) -> Result<(), io::Error> {
        match self.0.sealer.open(number, sealed, block) {
            Ok(()) => Ok(()),
            Err(BlockError::Refused) => Err(refused()),
            Err(not_opened) if self.0.recovery.is_under_way() => {
                if not_opened == BlockError::Damaged {
                    self.0.recovery.unopened().insert(number);
                }
                block.fill(0);
                Ok(())
            }
            Err(_damaged) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("block {number} of the store was changed, or sealed with another key"),
            )),
        }
    }
}

impl StorageBackend for SealedFile {
    fn len(&self) -> Result<u64, io::Error> {
        let bytes = self.0.file.metadata()?.len();
        Ok(match bytes.checked_sub(HEAD_BYTES) {
            None => bytes,
            Some(rest) => HEAD_BYTES + rest / SEALED * BLOCK,
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let (head, rest) = split(offset, out.len());
        let (in_head, in_blocks) = out.split_at_mut(head);
        self.0.file.read_exact_at(in_head, offset)?;
        let (start, mut left) = (offset + head as u64, in_blocks);
        let Some(first) = parts(start, rest).next() else {
            return Ok(());
        };
        let mut sealed = vec![0; parts(start, rest).count() * SEALED_BYTES];
        self.0
            .file
            .read_exact_at(&mut sealed, physical(first.number))?;
        for (part, sealed) in parts(start, rest).zip(sealed.chunks_exact(SEALED_BYTES)) {
            let (to, after) = left.split_at_mut(part.length);
            if part.length == BLOCK_BYTES {
                self.open(part.number, sealed, to)?;
            } else {
                let mut block = vec![0; BLOCK_BYTES];
                self.open(part.number, sealed, &mut block)?;
                let from = block.get(part.skipped..part.skipped + part.length);
                to.copy_from_slice(from.ok_or_else(refused)?);
            }
            left = after;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let kept = len.saturating_sub(HEAD_BYTES).div_ceil(BLOCK);
        let mut written = self.written();
        // Blocks that are cut off are free, and the file system may keep their bytes.
        let mut is_wiped = false;
        for number in kept..blocks(&self.0.file)? {
            if written.ever.contains(number) {
                self.clear(number)?;
                written.ever.remove(number);
                is_wiped = true;
            }
        }
        if is_wiped {
            self.0.file.sync_data()?;
        }
        self.0.file.set_len(len.min(HEAD_BYTES) + kept * SEALED)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut written = self.written();
        self.0.file.sync_data()?;
        written.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let (head, rest) = split(offset, data.len());
        let (in_head, mut left) = data.split_at(head);
        let mut written = self.written();
        self.0.file.write_all_at(in_head, offset)?;
        let mut sealed = Vec::with_capacity((rest / BLOCK_BYTES + 2) * SEALED_BYTES);
        let mut first = None;
        for part in parts(offset + head as u64, rest) {
            let (from, after) = left.split_at(part.length);
            first.get_or_insert(part.number);
            written.insert(part.number);
            if part.length == BLOCK_BYTES {
                self.0.sealer.seal(part.number, from, &mut sealed)
            } else {
                let mut block = self.block(part.number)?;
                let to = block.get_mut(part.skipped..part.skipped + part.length);
                to.ok_or_else(refused)?.copy_from_slice(from);
                self.0.sealer.seal(part.number, &block, &mut sealed)
            }
            .map_err(|_refused| refused())?;
            left = after;
        }
        match first {
            Some(first) => self.0.file.write_all_at(&sealed, physical(first)),
            None => Ok(()),
        }
    }
}

fn refused() -> io::Error {
    io::Error::other("a block of the store cannot be sealed")
}

/// Returns the number of blocks of a file.
fn blocks(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len().saturating_sub(HEAD_BYTES) / SEALED)
}

/// Returns the number of a range's bytes in the header, and behind it.
fn split(offset: u64, length: usize) -> (usize, usize) {
    let room = usize::try_from(HEAD_BYTES.saturating_sub(offset)).unwrap_or(usize::MAX);
    let head = length.min(room);
    (head, length - head)
}

/// The blocks of a range behind the header, the first and the last perhaps in part.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = Part> {
    let (mut at, mut left) = (offset.saturating_sub(HEAD_BYTES), length);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let skipped = usize::try_from(at % BLOCK).unwrap_or_default();
        let part = Part {
            number: at / BLOCK,
            skipped,
            length: left.min(BLOCK_BYTES - skipped),
        };
        at += part.length as u64;
        left -= part.length;
        Some(part)
    })
}

/// Returns the place of a block on the disk.
const fn physical(number: u64) -> u64 {
    HEAD_BYTES + number * SEALED
}

#[cfg(test)]
mod tests {
    use probity_format::keys::Secret;

    use super::*;

    fn file(recovery: bool) -> (SealedFile, Recovery) {
        let sealer = Sealer::new(Secret::new([7; 32])).unwrap();
        let recovery = Recovery(Arc::new(Repair {
            is_under_way: AtomicBool::new(recovery),
            unopened: Mutex::default(),
        }));
        let file = tempfile::tempfile().unwrap();
        (
            SealedFile::new(file, sealer, recovery.clone()).unwrap(),
            recovery,
        )
    }

    #[test]
    fn any_range_is_read_as_it_was_written() {
        let (file, _recovery) = file(true);
        file.set_len(10 * BLOCK).unwrap();
        assert_eq!(file.len().unwrap(), 10 * BLOCK);
        let mut model = vec![0; 10 * BLOCK_BYTES];
        let ranges = [
            (0, 320),
            (4096, 8192),
            (100, 9000),
            (20_000, 1),
            (36_863, 4097),
        ];
        for (round, (offset, length)) in ranges.into_iter().enumerate() {
            let data = vec![u8::try_from(round + 1).unwrap(); length];
            file.write(offset as u64, &data).unwrap();
            model[offset..offset + length].copy_from_slice(&data);
            let mut read = vec![0; model.len()];
            file.read(0, &mut read).unwrap();
            assert_eq!(read, model, "{offset} {length}");
        }
        file.set_len(2 * BLOCK).unwrap();
        assert_eq!(file.len().unwrap(), 2 * BLOCK);
        assert!(file.read(BLOCK, &mut [0; 2 * BLOCK_BYTES]).is_err());
    }

    /// A block lies in two pages of the file. Of one that a full disk had cut off, the wiping took room for the other.
    #[test]
    fn a_wiping_takes_no_room_on_the_disk() {
        use std::os::unix::fs::MetadataExt as _;

        let (file, _recovery) = file(false);
        file.set_len(20 * BLOCK).unwrap();
        let part = vec![1; 100];
        file.0.file.write_all_at(&part, physical(8)).unwrap();
        file.0.file.sync_all().unwrap();
        let room = || file.0.file.metadata().unwrap().blocks();
        let before = room();
        file.forget_wiping().unwrap();
        file.begin_wiping().unwrap();
        file.wipe(0..20, &BlockSet::default()).unwrap();
        file.end_wiping().unwrap();
        assert_eq!(room(), before);
        let mut found = [1; 100];
        file.0.file.read_exact_at(&mut found, physical(8)).unwrap();
        assert_eq!(found, [0; 100]);
    }

    #[test]
    fn a_block_that_does_not_open_is_torn_while_redb_repairs_and_damage_otherwise() {
        let (file, recovery) = file(true);
        file.set_len(3 * BLOCK).unwrap();
        file.write(BLOCK, &[1; 2 * BLOCK_BYTES]).unwrap();
        file.0.file.write_all_at(b"x", physical(1) + 100).unwrap();
        let mut read = [9; BLOCK_BYTES];
        file.read(2 * BLOCK, &mut read).unwrap();
        assert_eq!(read, [0; BLOCK_BYTES]);
        assert_eq!(recovery.end(), 1);
        assert!(file.read(2 * BLOCK, &mut read).is_err());
        file.read(BLOCK, &mut read).unwrap();
        assert_eq!(read, [1; BLOCK_BYTES]);
    }
}
