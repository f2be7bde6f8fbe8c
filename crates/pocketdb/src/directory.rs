//! The directory in the secure store: where each unit of each table was written.
//!
//! It grows in chunks, each owned by one table. Who owns which chunk is part of the structure,
//! so that an entry written for an attempt that never became final means nothing.

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::flash::Nand;
use crate::root::{
    DIRECTORY_AT, DIRECTORY_ENTRY_BYTES, STRUCTURE_BYTES, SecureStore, StructureState,
    write_structure,
};
use crate::store::{Pending, Store};

/// Entries that one owner takes at a time.
const CHUNK_ENTRIES: u32 = 64;
/// Bytes of one chunk.
pub(crate) const CHUNK_BYTES: usize = CHUNK_ENTRIES as usize * DIRECTORY_ENTRY_BYTES;

/// The owner of nothing: a chunk to be used again.
const NOBODY: u8 = 255;
/// The owner of the temporary log.
pub(crate) const TEMPORARY: u8 = 254;

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
    (store_bytes.saturating_sub(DIRECTORY_AT) / CHUNK_BYTES).min(STRUCTURE_BYTES / 2)
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// The entry `number` of `owner`.
    pub(crate) fn entry(&mut self, owner: u8, number: u32) -> Result<Entry> {
        let at = self
            .entry_at(owner, number)
            .ok_or(Error::Root("lacks a unit"))?;
        let mut bytes = [0u8; DIRECTORY_ENTRY_BYTES];
        self.secure.read(at, &mut bytes)?;
        Ok(Entry {
            page: u32_at(&bytes, 0),
            epoch: u64_at(&bytes, 4),
            rows: u16_at(&bytes, 12),
        })
    }

    /// Writes the entry `number` of `owner`; it holds once a record counts it.
    pub(crate) fn set_entry(&mut self, owner: u8, number: u32, entry: &Entry) -> Result<()> {
        if self.entry_at(owner, number).is_none() {
            self.own_chunk(owner)?;
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

    /// Gives a chunk to `owner`.
    fn own_chunk(&mut self, owner: u8) -> Result<()> {
        // Chunks of one owner stay in the order in which it got them.
        let last = self.owners.iter().rposition(|&found| found == owner);
        let behind = last.map_or(0, |last| last + 1);
        let full = self.owners.len() >= chunks_max(self.secure.capacity());
        let mut chunks = self.owners.iter_mut().skip(behind);
        match chunks.find(|found| **found == NOBODY) {
            Some(chunk) => *chunk = owner,
            None if full => return Err(Error::DeviceFull),
            None => self.owners.push(owner),
        }
        if owner != TEMPORARY {
            self.pending = Pending::Structure;
        }
        Ok(())
    }

    /// Takes all chunks from `owner`.
    pub(crate) fn disown(&mut self, owner: u8) {
        for chunk in self.owners.iter_mut().filter(|found| **found == owner) {
            *chunk = NOBODY;
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

    fn entry_at(&self, owner: u8, number: u32) -> Option<usize> {
        let owners = self.owners.iter().enumerate();
        let mut own = owners.filter(|(_, found)| **found == owner);
        let (chunk, _) = own.nth((number / CHUNK_ENTRIES) as usize)?;
        let slot = (number % CHUNK_ENTRIES) as usize;
        Some(DIRECTORY_AT + chunk * CHUNK_BYTES + slot * DIRECTORY_ENTRY_BYTES)
    }
}

/// The owner of a table's units.
pub(crate) fn owner_of(table: usize) -> u8 {
    u8::try_from(table).unwrap_or(u8::MAX)
}

/// The number of rows of a unit as the directory keeps it.
pub(crate) fn rows_of(rows: u32) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}
