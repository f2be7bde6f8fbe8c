//! Units of rows: how waiting rows come to their place, and where the directory finds them.

use crate::buffer::ChainEnd;
use crate::bytes::{narrow, put, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, Nand};
use crate::limits::UNIT_ROWS;
use crate::root::{DIRECTORY_AT, DIRECTORY_ENTRY_BYTES, RootRecord, SecureStore};
use crate::seal::{PAYLOAD_BYTES, PageIdentity};
use crate::store::{CHUNK_BYTES, Store, data_identity, data_pages, vec_of};

/// Directory entries that one table takes at a time.
pub(crate) const CHUNK_ENTRIES: u32 = 64;

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Moves the oldest waiting rows of `table`, all committed, to a unit of their own.
    pub(crate) fn place_unit(&mut self, table: usize) -> Result<()> {
        let width = usize::from(self.width(table)?);
        let pages = data_pages(width);
        let start = self.committed.unit_next;
        let end = start
            .checked_add(self.unit_pages(table))
            .ok_or(Error::DeviceFull)?;
        if end > self.flash.blocks() * BLOCK_PAGES {
            return Err(Error::DeviceFull);
        }
        let unit = self.placed(table) / UNIT_ROWS;
        let epoch = self.committed.epoch;
        let per_page = PAYLOAD_BYTES / width;
        let first = self.placed(table) + 1;
        for page in 0..pages {
            self.open_page.fill(0);
            for slot in 0..per_page {
                let rank = page * narrow(per_page) + narrow(slot);
                if rank >= UNIT_ROWS {
                    break;
                }
                let mut row = vec_of(width);
                self.read_waiting(table, first + rank, &mut row)?;
                put(&mut self.open_page, slot * width, &row);
            }
            self.program_unit_page(&data_identity(start + page, epoch, table, unit), false)?;
        }
        self.place_indexes(table, unit, start + pages, epoch)?;
        self.write_directory(table, unit, start, epoch)?;
        let mut record = self.next_record();
        record.unit_next = end;
        record.epoch = epoch + 1;
        record.directory_chunks = narrow(self.chunks.len());
        if let Some(state) = record.tables.get_mut(table) {
            state.units += 1;
        }
        record.buffer_start = self.oldest_waiting(&record);
        self.finish(record)
    }

    /// Closes and programs the page being built, or the second one of a pair.
    pub(crate) fn program_unit_page(
        &mut self,
        identity: &PageIdentity,
        second: bool,
    ) -> Result<()> {
        if identity.page.is_multiple_of(BLOCK_PAGES) {
            self.flash.erase(identity.page / BLOCK_PAGES)?;
        }
        let page = if second {
            &mut self.work_page
        } else {
            &mut self.open_page
        };
        self.seal.close(identity, page);
        self.flash.program(identity.page, page)?;
        Ok(())
    }

    /// Pages of one unit of `table`: its rows, then a pair for every index.
    pub(crate) fn unit_pages(&self, table: usize) -> u32 {
        let width = self.widths.get(table).copied().map_or(1, usize::from);
        data_pages(width) + 2 * narrow(self.indexes_of(table).count())
    }

    /// The oldest buffer page that a waiting row needs once `record` holds.
    pub(crate) fn oldest_waiting(&self, record: &RootRecord) -> u64 {
        let mut oldest = self.buffer_next;
        for (table, state) in record.tables.iter().enumerate().take(self.widths.len()) {
            for id in state.units * UNIT_ROWS + 1..=state.rows {
                oldest = oldest.min(self.place(table, id));
            }
        }
        oldest
    }

    /// Writes every waiting row again behind the buffer's end and lets the window begin there.
    pub(crate) fn densify(&mut self) -> Result<()> {
        let start = self.buffer_next;
        self.chain = ChainEnd {
            sequence: 0,
            code: [0; 16],
        };
        for table in 0..self.widths.len() {
            let mut row = vec_of(usize::from(self.width(table)?));
            for id in self.placed(table) + 1..=self.count(table) {
                self.read_waiting(table, id, &mut row)?;
                self.append(table, id, &row, BLOCK_PAGES.into())?;
            }
        }
        self.program_open_page(BLOCK_PAGES.into())?;
        let record = RootRecord {
            buffer_start: start,
            ..self.next_record()
        };
        self.finish(record)
    }

    pub(crate) fn write_directory(
        &mut self,
        table: usize,
        unit: u32,
        start: u32,
        epoch: u64,
    ) -> Result<()> {
        let owner = u8::try_from(table).unwrap_or(u8::MAX);
        if self.entry_at(owner, unit).is_none() {
            let end = DIRECTORY_AT + (self.chunks.len() + 1) * CHUNK_BYTES;
            if end > self.secure.capacity() {
                return Err(Error::DeviceFull);
            }
            self.chunks.push(owner);
        }
        let at = self
            .entry_at(owner, unit)
            .ok_or(Error::Root("lacks a unit"))?;
        let mut entry = [0u8; DIRECTORY_ENTRY_BYTES];
        put(&mut entry, 0, &start.to_le_bytes());
        put(&mut entry, 4, &epoch.to_le_bytes());
        put(&mut entry, 12, &[owner]);
        self.secure.write(at, &entry)
    }

    /// Where the directory keeps `unit` of the table `owner`, if a chunk covers it.
    pub(crate) fn entry_at(&self, owner: u8, unit: u32) -> Option<usize> {
        let mut own = self
            .chunks
            .iter()
            .enumerate()
            .filter(|(_, table)| **table == owner);
        let (chunk, _) = own.nth((unit / CHUNK_ENTRIES) as usize)?;
        let slot = (unit % CHUNK_ENTRIES) as usize;
        Some(DIRECTORY_AT + chunk * CHUNK_BYTES + slot * DIRECTORY_ENTRY_BYTES)
    }

    /// Start page and epoch of a unit.
    pub(crate) fn unit_place(&mut self, table: usize, unit: u32) -> Result<(u32, u64)> {
        let owner = u8::try_from(table).unwrap_or(u8::MAX);
        let at = self
            .entry_at(owner, unit)
            .ok_or(Error::Root("lacks a unit"))?;
        let mut entry = [0u8; DIRECTORY_ENTRY_BYTES];
        self.secure.read(at, &mut entry)?;
        Ok((u32_at(&entry, 0), u64_at(&entry, 4)))
    }
}
