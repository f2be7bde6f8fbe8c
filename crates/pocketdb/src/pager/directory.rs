//! The directory in the secure store: the place on flash of each unit of each table.
//!
//! It grows in chunks. The *structure* maps each chunk to its owner and its rank among the owner's
//! chunks. So an entry of an attempt that was never committed is ignored. The structure stays in
//! the secure store, in two copies. Changes go to the copy that is not valid until the next record.

use crate::pager::Pending;
use crate::pager::bytes::{narrow, part_mut, put, take, u16_at, u32_at, u64_at};
use crate::pager::commit::Root;
use crate::pager::directory_code::{DirectoryCode, EntryBytes, toggle};
use crate::pager::error::{Error, Result};
use crate::pager::root::{
    DIRECTORY_AT, STRUCTURE_BYTES, SecureStore, StructureState, structure_at, structure_code,
};

/// Number of entries of a chunk.
pub(crate) const CHUNK_ENTRIES: u32 = 64;
/// Bytes of one chunk.
pub(crate) const CHUNK_BYTES: usize = CHUNK_ENTRIES as usize * size_of::<EntryBytes>();

/// Bytes of the structure for each chunk: its owner and its rank among the owner's chunks.
const CHUNK_STATE_BYTES: usize = 2;
/// Bytes of the structure that are read at once.
const PIECE_BYTES: usize = 128;
/// Bits of the chunk state that contain the rank.
const RANK_BITS: u32 = 11;
/// Greatest number of chunks of one owner.
const RANKS: u32 = 1 << RANK_BITS;

/// Zeros that overwrite the entries of an earlier owner.
static BLANK: [u8; 256] = [0; 256];
const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLANK.len()));
/// Owner number of a free chunk.
pub(crate) const NOBODY: u8 = 31;
/// The owner of the temporary log.
pub(crate) const TEMPORARY: u8 = 30;

/// Size of the cache of chunk places.
const REMEMBERED: usize = 16;

/// A cache of the last chunks used, so that the structure is not searched for each page.
#[derive(Debug, Default)]
pub(crate) struct Places([Option<([u8; CHUNK_STATE_BYTES], u16)>; REMEMBERED]);

/// The structure in work: the valid copy until a change, then the other one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Structure {
    copy: u8,
    chunks: usize,
}

impl Places {
    fn slot(state: [u8; CHUNK_STATE_BYTES]) -> usize {
        let (owner, rank) = chunk_owner(&state);
        (usize::from(owner) * 5 + rank as usize) % REMEMBERED
    }

    fn find(&self, state: [u8; CHUNK_STATE_BYTES]) -> Option<usize> {
        let (known, place) = self.0.get(Self::slot(state)).copied().flatten()?;
        (known == state).then_some(usize::from(place))
    }

    fn note(&mut self, state: [u8; CHUNK_STATE_BYTES], place: usize) {
        if let Some(slot) = self.0.get_mut(Self::slot(state)) {
            *slot = u16::try_from(place).ok().map(|place| (state, place));
        }
    }

    /// Empties the cache, because a chunk changes its owner.
    pub(crate) fn forget(&mut self) {
        self.0.fill(None);
    }
}

/// An entry of the directory: a place on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    /// First page.
    pub(crate) page: u32,
    /// Epoch of all its pages.
    pub(crate) epoch: u64,
    /// Number of rows, of a unit.
    pub(crate) rows: u16,
}

impl Entry {
    fn decode(bytes: &EntryBytes) -> Self {
        Self {
            page: u32_at(bytes, 0),
            epoch: u64_at(bytes, 4),
            rows: u16_at(bytes, 12),
        }
    }

    fn encode(&self) -> EntryBytes {
        let mut bytes = EntryBytes::default();
        put(&mut bytes, 0, &self.page.to_le_bytes());
        put(&mut bytes, 4, &self.epoch.to_le_bytes());
        put(&mut bytes, 12, &self.rows.to_le_bytes());
        bytes
    }
}

/// Returns the number of chunks that a secure store has room for.
pub(crate) fn chunks_max(store_bytes: usize) -> usize {
    (store_bytes.saturating_sub(DIRECTORY_AT) / CHUNK_BYTES)
        .min(STRUCTURE_BYTES / CHUNK_STATE_BYTES)
}

impl<S: SecureStore> Root<S> {
    /// Returns the entry `number` of `owner`.
    pub(crate) fn entry(&mut self, owner: u8, number: u32) -> Result<Entry> {
        let found = self.entry_if_any(owner, number)?;
        found.ok_or(Error::Root("lacks a unit"))
    }

    /// Returns the entry `number` of `owner`; zeros if only other entries of its chunk were
    /// written.
    pub(crate) fn entry_if_any(&mut self, owner: u8, number: u32) -> Result<Option<Entry>> {
        let Some(at) = self.entry_at(owner, number)? else {
            return Ok(None);
        };
        let mut bytes = EntryBytes::default();
        self.secure.read(at, &mut bytes)?;
        Ok(Some(Entry::decode(&bytes)))
    }

    /// Writes the entry `number` of `owner`; it is valid once a record counts it.
    pub(crate) fn set_entry(&mut self, owner: u8, number: u32, entry: &Entry) -> Result<()> {
        if self.entry_at(owner, number)?.is_none() {
            let rank = rank_of(number).ok_or(Error::DeviceFull)?;
            self.own_chunk(owner, rank)?;
        }
        let at = self
            .entry_at(owner, number)?
            .ok_or(Error::Root("lacks a unit"))?;
        self.pending = self.pending.max(Pending::Entries);
        Ok(self.secure.write(at, &entry.encode())?)
    }

    /// Adds an entry that the next record counts, and none before, to the code of that record.
    pub(crate) fn count_entry(
        &mut self,
        sum: &mut DirectoryCode,
        owner: u8,
        number: u32,
        entry: &Entry,
    ) {
        toggle(sum, self.seal.entry_code(owner, number, &entry.encode()));
    }

    /// Returns the number of chunks of the directory.
    pub(crate) fn chunks(&self) -> usize {
        self.structure.chunks
    }

    /// Returns owner and rank of a chunk.
    pub(crate) fn chunk_owner_at(&mut self, chunk: usize) -> Result<(u8, u32)> {
        let mut state = [0; CHUNK_STATE_BYTES];
        let at = structure_at(self.structure.copy) + chunk * CHUNK_STATE_BYTES;
        self.secure.read(at, &mut state)?;
        Ok(chunk_owner(&state))
    }

    /// Assigns a chunk to `owner` with this rank among its chunks.
    fn own_chunk(&mut self, owner: u8, rank: u32) -> Result<()> {
        self.places.forget();
        let free = self.find_chunk(0, |state| chunk_owner(state).0 == NOBODY)?;
        let number = free.unwrap_or(self.structure.chunks);
        if number >= chunks_max(self.secure.capacity()) {
            return Err(Error::DeviceFull);
        }
        self.set_chunk(number, chunk_state(owner, rank))?;
        // Entries of an earlier owner must not be read as this one's.
        let at = DIRECTORY_AT + number * CHUNK_BYTES;
        for piece in (0..CHUNK_BYTES).step_by(BLANK.len()) {
            self.secure.write(at + piece, &BLANK)?;
        }
        if owner != TEMPORARY {
            self.pending = Pending::Structure;
        }
        Ok(())
    }

    /// Frees all chunks of `owner`.
    pub(crate) fn disown(&mut self, owner: u8) -> Result<()> {
        self.disown_before(owner, u32::MAX)
    }

    /// Frees the chunks of `owner` below rank `rank`.
    pub(crate) fn disown_before(&mut self, owner: u8, rank: u32) -> Result<()> {
        self.places.forget();
        let its = |state: &[u8]| {
            let (found, its_rank) = chunk_owner(state);
            found == owner && its_rank < rank
        };
        let mut next = 0;
        while let Some(number) = self.find_chunk(next, its)? {
            self.set_chunk(number, chunk_state(NOBODY, 0))?;
            next = number + 1;
        }
        Ok(())
    }

    /// Reads the structure of the last record and checks its code.
    pub(crate) fn read_structure(&mut self) -> Result<()> {
        let state = self.committed.structure;
        let chunks = state.bytes as usize / CHUNK_STATE_BYTES;
        if chunks > chunks_max(self.secure.capacity())
            || structure_code(&mut self.secure, &mut self.seal, state.copy, state.bytes)?
                != state.code
        {
            return Err(Error::Root("is damaged"));
        }
        self.structure = Structure {
            copy: state.copy,
            chunks,
        };
        // Temporary logs do not survive an opening.
        self.disown(TEMPORARY)
    }

    /// Returns the structure that becomes valid with the next record.
    pub(crate) fn keep_structure(&mut self) -> Result<StructureState> {
        let present = self.committed.structure;
        let Structure { copy, chunks } = self.structure;
        if self.pending != Pending::Structure || copy == present.copy {
            return Ok(present);
        }
        let bytes = narrow(chunks * CHUNK_STATE_BYTES);
        Ok(StructureState {
            copy,
            bytes,
            code: structure_code(&mut self.secure, &mut self.seal, copy, bytes)?,
        })
    }

    /// Returns the first chunk from number `first` on whose state `fits`.
    fn find_chunk(&mut self, first: usize, fits: impl Fn(&[u8]) -> bool) -> Result<Option<usize>> {
        let Structure { copy, chunks } = self.structure;
        let mut piece = [0u8; PIECE_BYTES];
        for from in (first..chunks).step_by(PIECE_BYTES / CHUNK_STATE_BYTES) {
            let bytes = ((chunks - from) * CHUNK_STATE_BYTES).min(PIECE_BYTES);
            let piece = part_mut(&mut piece, 0, bytes);
            let at = structure_at(copy) + from * CHUNK_STATE_BYTES;
            self.secure.read(at, piece)?;
            if let Some(found) = piece.chunks_exact(CHUNK_STATE_BYTES).position(&fits) {
                return Ok(Some(from + found));
            }
        }
        Ok(None)
    }

    /// Changes the state of a chunk, or adds a chunk at the end, in the copy that is not valid.
    fn set_chunk(&mut self, number: usize, state: [u8; CHUNK_STATE_BYTES]) -> Result<()> {
        if self.structure.copy == self.committed.structure.copy {
            self.copy_structure()?;
        }
        self.structure.chunks = self.structure.chunks.max(number + 1);
        self.pending = self.pending.max(Pending::Entries);
        let at = structure_at(self.structure.copy) + number * CHUNK_STATE_BYTES;
        Ok(self.secure.write(at, &state)?)
    }

    /// Copies the valid structure to the other copy, which is used from then on.
    fn copy_structure(&mut self) -> Result<()> {
        let Structure { copy, chunks } = self.structure;
        let mut piece = [0u8; PIECE_BYTES];
        let bytes = chunks * CHUNK_STATE_BYTES;
        for at in (0..bytes).step_by(PIECE_BYTES) {
            let piece = part_mut(&mut piece, 0, (bytes - at).min(PIECE_BYTES));
            self.secure.read(structure_at(copy) + at, piece)?;
            self.secure.write(structure_at(copy ^ 1) + at, piece)?;
        }
        self.structure.copy = copy ^ 1;
        Ok(())
    }

    fn entry_at(&mut self, owner: u8, number: u32) -> Result<Option<usize>> {
        let Some(rank) = rank_of(number) else {
            return Ok(None);
        };
        let wanted = chunk_state(owner, rank);
        let mut chunk = self.places.find(wanted);
        if chunk.is_none() {
            chunk = self.find_chunk(0, |state| state == wanted)?;
            if let Some(found) = chunk {
                self.places.note(wanted, found);
            }
        }
        let slot = (number % CHUNK_ENTRIES) as usize;
        Ok(chunk.map(|chunk| DIRECTORY_AT + chunk * CHUNK_BYTES + slot * size_of::<EntryBytes>()))
    }
}

/// Returns the rank of the chunk that contains entry `number`.
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
