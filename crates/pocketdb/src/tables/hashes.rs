//! The hashes of a unit's rows for its indexes. Indexes on one table's columns share the reads of
//! its rows.
//!
//! If memory has no room for the hashes of all indexes, they go through the temporary log. One page
//! of it contains the hashes of many rows. The rows that a unit references may each be on another
//! page.

use core::ops::Range;

use crate::error::Result;
use crate::limits::UNIT_ROWS;
use crate::pager::Pager;
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
use crate::tables::index::{hash_id, number_of};
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

impl Site {
    /// Builds and programs the pair of pages of every index, after the rows of a new unit.
    pub(super) fn build_indexes<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
    ) -> Result<()> {
        let pair = tables.base.pager.arena.lease(2)?;
        let all = tables.base.catalogue.indexes_of(self.table);
        let mut first = all.start;
        while first < all.end {
            let slot = tables.base.catalogue.index(first)?.slot;
            let mut alike = 1;
            while first + alike < all.end
                && tables.base.catalogue.index(first + alike)?.slot == slot
            {
                alike += 1;
            }
            let room = (tables.base.pager.arena.spare().saturating_sub(2) * PAGE_BYTES
                / HASHES_BYTES)
                .max(1);
            // A unit's own rows are adjacent, so they need no spilling.
            let spilled = slot != OWN && alike > PASSES_MAX * room;
            let count = alike.min(if spilled { SPILLED_MAX } else { room });
            let numbers = first..first + count;
            first += count;
            if spilled {
                self.build_spilled(tables, numbers, pair)?;
            } else {
                self.build_in_memory(tables, numbers, pair)?;
            }
        }
        tables.base.pager.arena.release(pair);
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack of the other form.
    fn build_in_memory<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        numbers: Range<usize>,
        pair: Area,
    ) -> Result<()> {
        let pages = (numbers.len() * HASHES_BYTES).div_ceil(PAGE_BYTES);
        let area = tables.base.pager.arena.lease(pages)?;
        for row in 0..UNIT_ROWS {
            let source = self.source_row(&mut tables.base, numbers.start, row)?;
            for (rank, number) in numbers.clone().enumerate() {
                let hash = hash_source(tables, number, source)?;
                let at = rank * HASHES_BYTES + row as usize * HASH_BYTES;
                put(tables.base.pager.arena.area_mut(area), at, &hash);
            }
        }
        for (rank, number) in numbers.enumerate() {
            self.build_index(&mut tables.base, number, (area, rank * HASHES_BYTES), pair)?;
        }
        tables.base.pager.arena.release(area);
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack of the other form.
    fn build_spilled<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        numbers: Range<usize>,
        pair: Area,
    ) -> Result<()> {
        let run = self.spill_hashes(tables, numbers.clone())?;
        for (rank, number) in numbers.clone().enumerate() {
            let area = tables
                .base
                .pager
                .arena
                .lease(HASHES_BYTES.div_ceil(PAGE_BYTES))?;
            take_hashes(&mut tables.base.pager, run, numbers.len(), rank, area)?;
            self.build_index(&mut tables.base, number, (area, 0), pair)?;
            tables.base.pager.arena.release(area);
        }
        Ok(())
    }

    /// Writes the hashes of each row to a temporary run; the hashes of all indexes are adjacent.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    fn spill_hashes<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        numbers: Range<usize>,
    ) -> Result<Run> {
        let width = numbers.len() * HASH_BYTES;
        let mut writer = RunWriter::begin(&mut tables.base.pager, width)?;
        let mut record = [0u8; SPILLED_MAX * HASH_BYTES];
        for row in 0..UNIT_ROWS {
            let source = self.source_row(&mut tables.base, numbers.start, row)?;
            for (number, place) in numbers.clone().zip(record.chunks_mut(HASH_BYTES)) {
                put(place, 0, &hash_source(tables, number, source)?);
            }
            writer.put(&mut tables.base.pager, part(&record, 0, width))?;
        }
        Ok(writer.finish(&mut tables.base.pager)?)
    }

    /// Returns table and id of the row whose value index `number` has for row `row` of a unit. The
    /// table is `None` if a reorganised part contains the row: it is found there, and its hash only
    /// fills the slot.
    fn source_row<F: Nand, S: SecureStore>(
        &self,
        base: &mut Base<F, S>,
        number: usize,
        row: u32,
    ) -> Result<(Option<TableId>, RowId)> {
        let index = base.catalogue.index(number)?;
        let id = RowId::after(self.unit * UNIT_ROWS + row);
        if id.is_within(base.part_rows(self.table)) {
            return Ok((None, id));
        }
        if index.slot == OWN {
            return Ok((Some(self.table), id));
        }
        let id = base.join_id(self.table, id, usize::from(index.slot))?;
        Ok((Some(base.catalogue.source(index)?.0), id))
    }
}

/// Reads the hashes of one of the indexes that were written together.
#[inline(never)] // Keeps its local variables off the stack of what follows.
fn take_hashes<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    mut run: Run,
    count: usize,
    rank: usize,
    area: Area,
) -> Result<()> {
    let mut record = [0u8; SPILLED_MAX * HASH_BYTES];
    let record = part_mut(&mut record, 0, count * HASH_BYTES);
    for row in 0..UNIT_ROWS as usize {
        run.take(pager, record)?;
        let hash = part(record, rank * HASH_BYTES, HASH_BYTES);
        put(pager.arena.area_mut(area), row * HASH_BYTES, hash);
    }
    Ok(())
}

fn hash_source<F: Nand, S: SecureStore>(
    tables: &mut Tables<F, S>,
    number: usize,
    (table, id): (Option<TableId>, RowId),
) -> Result<KeyHash> {
    let Some(table) = table else {
        return Ok(hash_id(&mut tables.base.pager, number_of(number), id));
    };
    let column = tables.base.catalogue.index(number)?.column;
    tables.hash_placed(number_of(number), table, column, id)
}
