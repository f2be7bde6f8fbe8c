//! The file as redb sees it: pages in clear; on the disk every page but the header is sealed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

use crate::seal::{BLOCK_BYTES, BlockError, SEALED_BYTES, Sealer};

/// Bytes at the beginning that stay in clear: redb overwrites them in place at each commit and counts on their being torn
/// in no other way than it expects. They hold numbers and checksums of pages, and nothing that was stored.
const HEAD_BYTES: u64 = BLOCK_BYTES as u64;
const BLOCK: u64 = BLOCK_BYTES as u64;
const SEALED: u64 = SEALED_BYTES as u64;

/// Where redb says in what state it left the file, and two of the bits there (redb's file format 3): it was not closed, and
/// the last commit was synced before it was named.
const STATE_PLACE: u64 = 9;
const NOT_CLOSED: u8 = 2;
const TWO_PHASES: u8 = 4;

/// A sealed file.
#[derive(Debug)]
pub(crate) struct SealedFile {
    file: File,
    sealer: Sealer,
    recovery: Recovery,
}

/// Whether the file is being repaired after a crash: then a page that does not open may be one that was torn, which redb's
/// own checksums tell. At any other time it is damage.
#[derive(Debug, Clone)]
pub(crate) struct Recovery(Arc<AtomicBool>);

impl Recovery {
    /// What the header of a file says.
    pub(crate) fn of(file: &File) -> Result<Self, io::Error> {
        let mut state = [0];
        if file.metadata()?.len() > HEAD_BYTES {
            file.read_exact_at(&mut state, STATE_PLACE)?;
        }
        let [state] = state;
        let is_torn = state & NOT_CLOSED != 0 && state & TWO_PHASES == 0;
        Ok(Self(Arc::new(AtomicBool::new(is_torn))))
    }

    /// Says that the database is open.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A part of one block.
struct Part {
    number: u64,
    /// Where in the block it begins.
    skipped: usize,
    length: usize,
}

impl SealedFile {
    pub(crate) const fn new(file: File, sealer: Sealer, recovery: Recovery) -> Self {
        Self {
            file,
            sealer,
            recovery,
        }
    }

    /// The block at `number`, where part of it is to be changed.
    fn block(&self, number: u64) -> Result<Vec<u8>, io::Error> {
        let (mut sealed, mut block) = (vec![0; SEALED_BYTES], vec![0; BLOCK_BYTES]);
        self.file.read_exact_at(&mut sealed, physical(number))?;
        self.open(number, &sealed, &mut block)?;
        Ok(block)
    }

    fn open(&self, number: u64, sealed: &[u8], block: &mut [u8]) -> Result<(), io::Error> {
        match self.sealer.open(number, sealed, block) {
            Ok(()) => Ok(()),
            Err(BlockError::Refused) => Err(refused()),
            Err(_not_opened) if self.recovery.is_under_way() => {
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
        let bytes = self.file.metadata()?.len();
        Ok(match bytes.checked_sub(HEAD_BYTES) {
            None => bytes,
            Some(rest) => HEAD_BYTES + rest / SEALED * BLOCK,
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let (head, rest) = split(offset, out.len());
        let (in_head, in_blocks) = out.split_at_mut(head);
        self.file.read_exact_at(in_head, offset)?;
        let (start, mut left) = (offset + head as u64, in_blocks);
        let Some(first) = parts(start, rest).next() else {
            return Ok(());
        };
        let mut sealed = vec![0; parts(start, rest).count() * SEALED_BYTES];
        self.file
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
        let blocks = len.saturating_sub(HEAD_BYTES).div_ceil(BLOCK);
        self.file.set_len(len.min(HEAD_BYTES) + blocks * SEALED)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let (head, rest) = split(offset, data.len());
        let (in_head, mut left) = data.split_at(head);
        self.file.write_all_at(in_head, offset)?;
        let mut sealed = Vec::with_capacity((rest / BLOCK_BYTES + 2) * SEALED_BYTES);
        let mut first = None;
        for part in parts(offset + head as u64, rest) {
            let (from, after) = left.split_at(part.length);
            first.get_or_insert(part.number);
            if part.length == BLOCK_BYTES {
                self.sealer.seal(part.number, from, &mut sealed)
            } else {
                let mut block = self.block(part.number)?;
                let to = block.get_mut(part.skipped..part.skipped + part.length);
                to.ok_or_else(refused)?.copy_from_slice(from);
                self.sealer.seal(part.number, &block, &mut sealed)
            }
            .map_err(|_refused| refused())?;
            left = after;
        }
        match first {
            Some(first) => self.file.write_all_at(&sealed, physical(first)),
            None => Ok(()),
        }
    }
}

fn refused() -> io::Error {
    io::Error::other("a block of the store cannot be sealed")
}

/// How many bytes of a range lie in the header, and how many behind it.
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

/// Where a block lies on the disk.
const fn physical(number: u64) -> u64 {
    HEAD_BYTES + number * SEALED
}

#[cfg(test)]
mod tests {
    use probity_format::keys::Secret;

    use super::*;

    fn file(recovery: bool) -> (SealedFile, Recovery) {
        let sealer = Sealer::new(Secret::new([7; 32])).unwrap();
        let recovery = Recovery(Arc::new(AtomicBool::new(recovery)));
        let file = tempfile::tempfile().unwrap();
        (SealedFile::new(file, sealer, recovery.clone()), recovery)
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

    #[test]
    fn a_block_that_does_not_open_is_torn_while_redb_repairs_and_damage_otherwise() {
        let (file, recovery) = file(true);
        file.set_len(3 * BLOCK).unwrap();
        file.write(BLOCK, &[1; 2 * BLOCK_BYTES]).unwrap();
        file.file.write_all_at(b"x", physical(1) + 100).unwrap();
        let mut read = [9; BLOCK_BYTES];
        file.read(2 * BLOCK, &mut read).unwrap();
        assert_eq!(read, [0; BLOCK_BYTES]);
        recovery.end();
        assert!(file.read(2 * BLOCK, &mut read).is_err());
        file.read(BLOCK, &mut read).unwrap();
        assert_eq!(read, [1; BLOCK_BYTES]);
    }
}
