//! The directory in the secure store: where each unit of each table was written.
//!
//! It grows in chunks, each with an owner and a rank. Who owns which chunk is part of the structure,
//! so that an entry written for an attempt that never became final means nothing.

use crate::bytes::{put, take, u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::flash::Nand;
use crate::root::{
    DIRECTORY_AT, DIRECTORY_ENTRY_BYTES, STRUCTURE_BYTES, SecureStore, StructureState,
    write_structure,
};
use crate::store::{Pending, Store};

/// Entries that one owner takes at a time.
pub(crate) const CHUNK_ENTRIES: u32 = 64;
/// Bytes of one chunk.
pub(crate) const CHUNK_BYTES: usize = CHUNK_ENTRIES as usize * DIRECTORY_ENTRY_BYTES;

/// Bytes of the structure for each chunk: its owner, and which of the owner's chunks it is.
pub(crate) const CHUNK_STATE_BYTES: usize = 2;
/// Bits of them for the rank among the owner's chunks.
const RANK_BITS: u32 = 11;
/// Chunks of one owner.
const RANKS: u32 = 1 << RANK_BITS;

/// The owner of nothing: a chunk to be used again.
const NOBODY: u8 = 31;
/// The owner of the temporary log.
pub(crate) const TEMPORARY: u8 = 30;

/// Chunks whose place is remembered.
const REMEMBERED: usize = 16;

/// Where the chunks asked for last are, so that the structure is not searched for each page.
#[derive(Debug, Default)]
pub(crate) struct Places([Option<([u8; CHUNK_STATE_BYTES], usize)>; REMEMBERED]);

impl Places {
    fn slot(state: [u8; CHUNK_STATE_BYTES]) -> usize {
        let (owner, rank) = chunk_owner(&state);
        (usize::from(owner) * 5 + rank as usize) % REMEMBERED
    }

    fn find(&self, state: [u8; CHUNK_STATE_BYTES]) -> Option<usize> {
        let (known, place) = self.0.get(Self::slot(state)).copied().flatten()?;
        (known == state).then_some(place)
    }

    fn note(&mut self, state: [u8; CHUNK_STATE_BYTES], place: usize) {
        if let Some(slot) = self.0.get_mut(Self::slot(state)) {
            *slot = Some((state, place));
        }
    }

    /// Forgets all of them: a chunk has another owner.
    pub(crate) fn forget(&mut self) {
        self.0.fill(None);
    }
}

/// Where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    /// First page.
    pub(crate) page: u32,
    /// Epoch of all its pages.
    pub(crate) epoch: u64,
    /// Rows of a unit.
    pub(crate) rows: u16,
}

/// Chunks that a secure store has room for.
pub(crate) fn chunks_max(store_bytes: usize) -> usize {
    (store_bytes.saturating_sub(DIRECTORY_AT) / CHUNK_BYTES)
        .min(STRUCTURE_BYTES / CHUNK_STATE_BYTES)
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// The entry `number` of `owner`.
    pub(crate) fn entry(&mut self, owner: u8, number: u32) -> Result<Entry> {
        let found = self.entry_if_any(owner, number)?;
        found.ok_or(Error::Root("lacks a unit"))
    }

    /// The entry `number` of `owner`, empty when only others near it were written.
    pub(crate) fn entry_if_any(&mut self, owner: u8, number: u32) -> Result<Option<Entry>> {
        let Some(at) = self.entry_at(owner, number) else {
            return Ok(None);
        };
        let mut bytes = [0u8; DIRECTORY_ENTRY_BYTES];
        self.secure.read(at, &mut bytes)?;
        Ok(Some(Entry {
            page: u32_at(&bytes, 0),
            epoch: u64_at(&bytes, 4),
            rows: u16_at(&bytes, 12),
        }))
    }

    /// Writes the entry `number` of `owner`; it holds once a record counts it.
    pub(crate) fn set_entry(&mut self, owner: u8, number: u32, entry: &Entry) -> Result<()> {
        if self.entry_at(owner, number).is_none() {
            let rank = rank_of(number).ok_or(Error::DeviceFull)?;
            self.own_chunk(owner, rank)?;
        }
        let at = self
            .entry_at(owner, number)
            .ok_or(Error::Root("lacks a unit"))?;
        let mut bytes = [0u8; DIRECTORY_ENTRY_BYTES];
        put(&mut bytes, 0, &entry.page.to_le_bytes());
        put(&mut bytes, 4, &entry.epoch.to_le_bytes());
        put(&mut bytes, 12, &entry.rows.to_le_bytes());
        self.pending = self.pending.max(Pending::Entries);
        self.secure.write(at, &bytes)
    }

    /// Gives a chunk to `owner` as the one with this rank among its chunks.
    fn own_chunk(&mut self, owner: u8, rank: u32) -> Result<()> {
        self.places.forget();
        let state = chunk_state(owner, rank);
        let mut chunks = self.owners.chunks_exact_mut(CHUNK_STATE_BYTES);
        let number = if let Some((number, free)) = chunks
            .by_ref()
            .enumerate()
            .find(|(_, chunk)| chunk_owner(chunk).0 == NOBODY)
        {
            free.copy_from_slice(&state);
            number
        } else {
            let count = self.owners.len() / CHUNK_STATE_BYTES;
            if count >= chunks_max(self.secure.capacity()) {
                return Err(Error::DeviceFull);
            }
            self.owners.extend_from_slice(&state);
            count
        };
        // What an earlier owner wrote there must not be taken for this one's.
        let blank = [0u8; CHUNK_BYTES];
        self.secure
            .write(DIRECTORY_AT + number * CHUNK_BYTES, &blank)?;
        if owner != TEMPORARY {
            self.pending = Pending::Structure;
        }
        Ok(())
    }

    /// Takes all chunks from `owner`.
    pub(crate) fn disown(&mut self, owner: u8) {
        self.disown_before(owner, u32::MAX);
    }

    /// Takes the chunks below rank `rank` from `owner`.
    pub(crate) fn disown_before(&mut self, owner: u8, rank: u32) {
        self.places.forget();
        for chunk in self.owners.chunks_exact_mut(CHUNK_STATE_BYTES) {
            let (found, its_rank) = chunk_owner(chunk);
            if found == owner && its_rank < rank {
                chunk.copy_from_slice(&chunk_state(NOBODY, 0));
            }
        }
    }

    /// Writes the structure if it changed and returns which copy holds with the next record.
    pub(crate) fn keep_structure(&mut self) -> Result<StructureState> {
        let present = self.committed.structure;
        if self.pending != Pending::Structure {
            return Ok(present);
        }
        let state = write_structure(&mut self.secure, &mut self.seal, present, &self.owners)?;
        self.pending = Pending::Entries;
        Ok(state)
    }

    fn entry_at(&mut self, owner: u8, number: u32) -> Option<usize> {
        let wanted = chunk_state(owner, rank_of(number)?);
        let chunk = self.places.find(wanted).or_else(|| {
            let mut chunks = self.owners.chunks_exact(CHUNK_STATE_BYTES);
            let chunk = chunks.position(|chunk| chunk == wanted)?;
            self.places.note(wanted, chunk);
            Some(chunk)
        })?;
        let slot = (number % CHUNK_ENTRIES) as usize;
        Some(DIRECTORY_AT + chunk * CHUNK_BYTES + slot * DIRECTORY_ENTRY_BYTES)
    }
}

/// The rank of the chunk that holds entry `number`.
fn rank_of(number: u32) -> Option<u32> {
    Some(number / CHUNK_ENTRIES).filter(|&rank| rank < RANKS)
}

fn chunk_state(owner: u8, rank: u32) -> [u8; CHUNK_STATE_BYTES] {
    take(&(u32::from(owner) << RANK_BITS | rank).to_le_bytes(), 0)
}

fn chunk_owner(state: &[u8]) -> (u8, u32) {
    let number = u32::from(u16_at(state, 0));
    let [owner, ..] = (number >> RANK_BITS).to_le_bytes();
    (owner, number % RANKS)
}

/// The owner of a table's units.
pub(crate) fn owner_of(table: usize) -> u8 {
    u8::try_from(table).unwrap_or(u8::MAX)
}

/// The number of rows of a unit as the directory keeps it.
pub(crate) fn rows_of(rows: u32) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}
