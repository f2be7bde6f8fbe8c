//! Storage whose changes stay in memory: an older file that is converted is read and never changed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

/// Bytes of the pieces that are kept of changes.
const PIECE_BYTES: usize = 4096;
const PIECE: u64 = PIECE_BYTES as u64;

/// A storage below, and the changes over it.
///
/// Opening a file of redb and closing it write to it. An older file may be a backup's too, by
/// another hard link, so that its bytes must stay.
#[derive(Debug)]
pub(crate) struct Overlay<B> {
    below: B,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// Bytes below that still count: a shorter length in between hides the rest for good.
    valid: u64,
    pieces: BTreeMap<u64, Box<[u8; PIECE_BYTES]>>,
}

impl<B: StorageBackend> Overlay<B> {
    pub(crate) fn new(below: B) -> io::Result<Self> {
        let length = below.len()?;
        let changes = Changes {
            length,
            valid: length,
            pieces: BTreeMap::new(),
        };
        Ok(Self {
            below,
            changes: Mutex::new(changes),
        })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads bytes below into `out`; zeros where none count.
    fn read_below(&self, valid: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let count = valid.saturating_sub(offset).min(out.len() as u64);
        let (there, beyond) = out.split_at_mut(usize::try_from(count).unwrap_or(usize::MAX));
        beyond.fill(0);
        if there.is_empty() {
            return Ok(());
        }
        self.below.read(offset, there)
    }
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let changes = self.changes();
        if offset.saturating_add(out.len() as u64) > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_below(changes.valid, offset, out)?;
        for (piece, within, range) in parts(offset, out.len()) {
            let to = out.get_mut(range);
            if let (Some(bytes), Some(to)) = (changes.pieces.get(&piece), to) {
                let end = within + to.len();
                to.copy_from_slice(bytes.get(within..end).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        let mut changes = self.changes();
        changes.valid = changes.valid.min(length);
        changes.pieces.split_off(&length.div_ceil(PIECE));
        let last = usize::try_from(length % PIECE).unwrap_or_default();
        if last > 0
            && let Some(bytes) = changes.pieces.get_mut(&(length / PIECE))
        {
            bytes.get_mut(last..).unwrap_or_default().fill(0);
        }
        changes.length = length;
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut changes = self.changes();
        let valid = changes.valid;
        for (piece, within, range) in parts(offset, data.len()) {
            let from = data.get(range).unwrap_or_default();
            let bytes = match changes.pieces.entry(piece) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let mut bytes = Box::new([0; PIECE_BYTES]);
                    if from.len() < PIECE_BYTES {
                        self.read_below(valid, piece * PIECE, &mut *bytes)?;
                    }
                    place.insert(bytes)
                }
            };
            // Panics where the lengths differ, rather than lose the change.
            let to = bytes.get_mut(within..within + from.len());
            to.unwrap_or_default().copy_from_slice(from);
        }
        let end = offset.saturating_add(data.len() as u64);
        changes.length = changes.length.max(end);
        Ok(())
    }

    fn close(&self) -> Result<(), io::Error> {
        self.below.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.below.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.below.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.below.query_lock_range(start, end)
    }
}

/// The pieces that a range touches: number of the piece, place in it, and part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset + done as u64;
        let within = usize::try_from(at % PIECE).unwrap_or_default();
        let count = (PIECE_BYTES - within).min(length - done);
        let part = (at / PIECE, within, done..done + count);
        done += count;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    /// Writes, cuts and growths through the overlay read as those of a plain storage, and change
    /// nothing below.
    #[test]
    fn an_overlay_reads_as_what_was_written_and_changes_nothing_below() {
        let below = InMemoryBackend::new();
        let first: Vec<u8> = (0..20_000_u32).map(|it| it.to_be_bytes()[3]).collect();
        below.set_len(first.len() as u64).unwrap();
        below.write(0, &first).unwrap();
        let overlay = Overlay::new(below).unwrap();
        let mut model = first.clone();
        let mut seed = 42_u64;
        for _ in 0..2_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let draw = usize::try_from(seed >> 40).unwrap();
            if draw.is_multiple_of(10) {
                let length = 1 + draw % 30_000;
                overlay.set_len(length as u64).unwrap();
                model.resize(length, 0);
            } else {
                let start = draw % model.len();
                let count = (draw % 9_000).min(model.len() - start);
                let data = vec![seed.to_be_bytes()[1]; count];
                overlay.write(start as u64, &data).unwrap();
                model[start..start + count].copy_from_slice(&data);
            }
            let mut read = vec![0; model.len()];
            overlay.read(0, &mut read).unwrap();
            assert!(read == model);
        }
        let mut left = vec![0; first.len()];
        overlay.below.read(0, &mut left).unwrap();
        assert!(left == first);
    }
}
