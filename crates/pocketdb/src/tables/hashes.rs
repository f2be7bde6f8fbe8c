//! The hashes of a unit's rows for its indexes. Indexes on one table's columns share the reads of
//! its rows.
//!
//! If memory has no room for the hashes of all indexes, they go through the temporary log. One page
//! of it contains the hashes of many rows. The rows that a unit references may each be on another
//! page.

use core::ops::Range;

use crate::error::Result;
use crate::limits::UNIT_ROWS;
use crate::pager::arena::Area;
use crate::pager::bytes::{part, part_mut, put};
use crate::pager::flash::{Nand, PAGE_BYTES};
use crate::pager::root::SecureStore;
use crate::pager::seal::KeyHash;
use crate::pager::sort::{Run, RunWriter};
use crate::tables::base::Base;
use crate::tables::catalogue::OWN;
use crate::tables::change::Tables;
use crate::tables::id::{RowId, TableId};
use crate::tables::index::number_of;
use crate::tables::unit::Site;

/// Bytes of a key hash.
pub(crate) const HASH_BYTES: usize = size_of::<KeyHash>();
/// Bytes of the hashes of one index over a unit.
const HASHES_BYTES: usize = UNIT_ROWS as usize * HASH_BYTES;
/// Number of indexes whose hashes go through the temporary log together.
const SPILLED_MAX: usize = 8;
/// Number of passes over a table's rows above which the temporary log is used.
const PASSES_MAX: usize = 2;

/// The place of the hashes of one index: an area and the offset in it.
pub(crate) type Hashes = (Area, usize);

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Builds and programs the pair of pages of every index, after the rows of a new unit.
    pub(crate) fn build_indexes(&mut self, site: &mut Site) -> Result<()> {
        let pair = self.base.pager.arena.lease(2)?;
        let all = self.base.catalogue.indexes_of(site.table);
        let mut first = all.start;
        while first < all.end {
            let slot = self.base.catalogue.index(first)?.slot;
            let mut alike = 1;
            while first + alike < all.end && self.base.catalogue.index(first + alike)?.slot == slot
            {
                alike += 1;
            }
            let room = (self.base.pager.arena.spare().saturating_sub(2) * PAGE_BYTES
                / HASHES_BYTES)
                .max(1);
            // A unit's own rows are adjacent, so they need no spilling.
            let spilled = slot != OWN && alike > PASSES_MAX * room;
            let count = alike.min(if spilled { SPILLED_MAX } else { room });
            let numbers = first..first + count;
            first += count;
            if spilled {
                self.build_spilled(site, numbers, pair)?;
            } else {
                self.build_in_memory(site, numbers, pair)?;
            }
        }
        self.base.pager.arena.release(pair);
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack of the other form.
    fn build_in_memory(
        &mut self,
        site: &mut Site,
        numbers: Range<usize>,
        pair: Area,
    ) -> Result<()> {
        let pages = (numbers.len() * HASHES_BYTES).div_ceil(PAGE_BYTES);
        let area = self.base.pager.arena.lease(pages)?;
        for row in 0..UNIT_ROWS {
            let source = self.base.source_row(site, numbers.start, row)?;
            for (rank, number) in numbers.clone().enumerate() {
                let hash = self.hash_source(number, source)?;
                let at = rank * HASHES_BYTES + row as usize * HASH_BYTES;
                put(self.base.pager.arena.area_mut(area), at, &hash);
            }
        }
        for (rank, number) in numbers.enumerate() {
            self.base
                .build_index(site, number, (area, rank * HASHES_BYTES), pair)?;
        }
        self.base.pager.arena.release(area);
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack of the other form.
    fn build_spilled(&mut self, site: &mut Site, numbers: Range<usize>, pair: Area) -> Result<()> {
        let run = self.spill_hashes(site, numbers.clone())?;
        for (rank, number) in numbers.clone().enumerate() {
            let area = self
                .base
                .pager
                .arena
                .lease(HASHES_BYTES.div_ceil(PAGE_BYTES))?;
            self.base.take_hashes(run, numbers.len(), rank, area)?;
            self.base.build_index(site, number, (area, 0), pair)?;
            self.base.pager.arena.release(area);
        }
        Ok(())
    }

    /// Writes the hashes of each row to a temporary run; the hashes of all indexes are adjacent.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    fn spill_hashes(&mut self, site: &Site, numbers: Range<usize>) -> Result<Run> {
        let width = numbers.len() * HASH_BYTES;
        let mut writer = RunWriter::begin(&mut self.base.pager, width)?;
        let mut record = [0u8; SPILLED_MAX * HASH_BYTES];
        for row in 0..UNIT_ROWS {
            let source = self.base.source_row(site, numbers.start, row)?;
            for (number, place) in numbers.clone().zip(record.chunks_mut(HASH_BYTES)) {
                put(place, 0, &self.hash_source(number, source)?);
            }
            writer.put(&mut self.base.pager, part(&record, 0, width))?;
        }
        Ok(writer.finish(&mut self.base.pager)?)
    }

    fn hash_source(
        &mut self,
        number: usize,
        (table, id): (Option<TableId>, RowId),
    ) -> Result<KeyHash> {
        let Some(table) = table else {
            return Ok(self.base.hash_id(number_of(number), id));
        };
        let column = self.base.catalogue.index(number)?.column;
        self.hash_placed(number_of(number), table, column, id)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Reads the hashes of one of the indexes that were written together.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    fn take_hashes(&mut self, mut run: Run, count: usize, rank: usize, area: Area) -> Result<()> {
        let mut record = [0u8; SPILLED_MAX * HASH_BYTES];
        let record = part_mut(&mut record, 0, count * HASH_BYTES);
        for row in 0..UNIT_ROWS as usize {
            run.take(&mut self.pager, record)?;
            let hash = part(record, rank * HASH_BYTES, HASH_BYTES);
            put(self.pager.arena.area_mut(area), row * HASH_BYTES, hash);
        }
        Ok(())
    }

    /// Returns table and id of the row whose value index `number` has for row `row` of a unit. The
    /// table is `None` if a reorganised part contains the row: it is found there, and its hash only
    /// fills the slot.
    fn source_row(
        &mut self,
        site: &Site,
        number: usize,
        row: u32,
    ) -> Result<(Option<TableId>, RowId)> {
        let index = self.catalogue.index(number)?;
        let id = RowId::after(site.unit * UNIT_ROWS + row);
        if id.is_within(self.part_rows(site.table)) {
            return Ok((None, id));
        }
        if index.slot == OWN {
            return Ok((Some(site.table), id));
        }
        let id = self.join_id(site.table, id, usize::from(index.slot))?;
        Ok((Some(self.catalogue.source(index)?.0), id))
    }
}
