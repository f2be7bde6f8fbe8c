//! The entries that an index gains and loses in a reorganisation (the paper's Adapt), sorted in
//! temporary logs.
//!
//! An entry is a key and the id of a row, the id in descending order, so that new rows come first.

use crate::error::{Error, Result};
use crate::limits::KEY_BYTES_MAX;
use crate::pager::bytes::{part, part_mut, put};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::sort::{FRAMES_LITTLE, Repeats, Run, RunWriter, Sorter, descending};
use crate::tables::catalogue::{Catalogue, DELETES, ID, Index, OWN, UPDATES};
use crate::tables::change::Tables;
use crate::tables::id::{ColumnId, ID_BYTES, RowId, TableId};
use crate::tables::index::key_bytes;
use crate::tables::keys::{IDS_PER_PAGE, Keys, Listing};
use crate::tables::part::Spot;
use crate::tables::reorganize::Site;

/// Bytes of the longest entry.
const ENTRY_BYTES_MAX: usize = KEY_BYTES_MAX + ID_BYTES;
/// Number of frames for the run being written and for the pages read while entries are collected.
/// The second number is for few frames.
const READ_FRAMES: usize = 3;
const READ_FRAMES_LITTLE: usize = 2;

/// The kind of entries collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// New rows, and rows whose key an update changed, with the new key.
    Gained,
    /// Rows deleted since their part, and those with a changed key, with the old key.
    Lost,
}

/// The index whose keys are built.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) index: Index,
    /// Length of an entry in bytes.
    pub(super) width: usize,
    /// Table and column of the indexed values.
    source: (TableId, ColumnId),
    /// The index on the ids of that table.
    by_id: Option<usize>,
}

impl Job {
    /// Returns the work for the index with this number.
    pub(super) fn new(catalogue: &Catalogue, number: usize) -> Result<Self> {
        let index = catalogue.index(number)?;
        let table = index.table;
        let by_id = match index.slot {
            OWN => None,
            slot => catalogue.find_index(table, slot, ID),
        };
        Ok(Self {
            index,
            width: key_bytes(catalogue, index)? + ID_BYTES,
            source: catalogue.source(index)?,
            by_id,
        })
    }
}

/// The change of an index from the merged parts to the new one (the paper's Adapt).
pub(super) struct Adaptation<'t, 's, F: Nand, S: SecureStore> {
    pub(super) tables: &'t mut Tables<F, S>,
    pub(super) site: &'s Site,
    pub(super) job: &'s Job,
}

impl<F: Nand, S: SecureStore> Adaptation<'_, '_, F, S> {
    /// Sorts the entries that an index gains; its reader needs `reserve` frames of its own.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    pub(super) fn gained(&mut self, reserve: usize) -> Result<Sorter<Repeats>> {
        // Rows gained twice, as new and by an update, are dropped by the sort.
        let mut sorter = self.entry_sorter()?;
        self.push_new(&mut sorter)?;
        if self.takes_in(self.job.index.table) {
            self.push_updated(Side::Gained, &mut sorter)?;
        }
        sorter.finish_and_release(&mut self.tables.base.pager, reserve)?;
        Ok(sorter)
    }

    /// Sorts the entries that an index loses and writes them as a run.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    pub(super) fn lost(&mut self) -> Result<Run> {
        if !self.takes_in(self.job.index.table) {
            return Ok(Run::default());
        }
        let mut sorter = self.entry_sorter()?;
        let area = sorter.area();
        self.push_updated(Side::Lost, &mut sorter)?;
        self.push_deleted(&mut sorter)?;
        sorter.finish(&mut self.tables.base.pager)?;
        let mut writer = RunWriter::begin(&mut self.tables.base.pager, self.job.width)?;
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, self.job.width);
        while sorter.next(&mut self.tables.base.pager, record)? {
            writer.put(&mut self.tables.base.pager, record)?;
        }
        let run = writer.finish(&mut self.tables.base.pager)?;
        self.tables.base.pager.arena.release(area);
        Ok(run)
    }

    /// Returns whether parts with rows of `table` are merged into the new one.
    fn takes_in(&self, table: TableId) -> bool {
        self.tables.base.part_rows(table) > self.site.frozen.first(table)
    }

    /// Returns whether a row is in one of the parts that are merged into the new one.
    fn is_taken_in(&self, table: TableId, id: RowId) -> bool {
        !id.is_within(self.site.frozen.first(table))
            && id.is_within(self.tables.base.part_rows(table))
    }

    fn entry_sorter(&mut self) -> Result<Sorter<Repeats>> {
        let left = if self.tables.base.pager.arena.frames() <= FRAMES_LITTLE {
            READ_FRAMES_LITTLE
        } else {
            READ_FRAMES
        };
        let frames = self
            .tables
            .base
            .pager
            .arena
            .spare()
            .saturating_sub(left)
            .max(1);
        let area = self.tables.base.pager.arena.lease(frames)?;
        Ok(Sorter::new(self.job.width, area, Repeats::Drop(self.job.width))?.alone())
    }

    /// Adds the rows that are in no present part, with the keys that they have in the new part.
    fn push_new(&mut self, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let table = self.job.index.table;
        // A whole reorganisation keeps no rows of hidden tables.
        let old = self
            .tables
            .base
            .part_rows(table)
            .max(self.site.frozen.first(table));
        let rows = self.site.frozen.rows(table);
        if let Some(by_id) = self.job.by_id.filter(|_| self.job.source.1 != ID) {
            // Keys are read in the row order of their table, unless there are few new rows.
            let keys = Keys::read(&mut self.tables.base, self.site.frozen.side, by_id)?;
            let lists = self.site.frozen.own(table).div_ceil(IDS_PER_PAGE);
            if rows.saturating_sub(old) > keys.pages()? + lists {
                return self.push_by_source(&keys, sorter);
            }
        }
        for id in RowId::between(old, rows) {
            if self.site.lives(&mut self.tables.base.pager, table, id)? {
                self.push_entry(Side::Gained, id, sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the new rows in the order of the rows that they reference, from the new part's index on
    /// their ids. So pages are read one after the other, each once.
    fn push_by_source(&mut self, keys: &Keys, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let old = self.tables.base.part_rows(self.job.index.table);
        let (table, column) = self.job.source;
        let column = self.tables.base.catalogue.column_at(table, column)?;
        let key_bytes = self.job.width - ID_BYTES;
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, self.job.width);
        let mut source = [0u8; ID_BYTES];
        let mut next = keys.record(&mut self.tables.base.pager, 0, &mut source)?;
        for number in 0..keys.count {
            let row = RowId::new(u32::from_be_bytes(source));
            let end = keys.record(&mut self.tables.base.pager, number + 1, &mut source)?;
            let mut known = false;
            // The newest ids come first.
            for place in next..end {
                let id = keys.id(&mut self.tables.base.pager, place)?;
                if id.is_within(old) {
                    break;
                }
                if !known {
                    let key = part_mut(record, 0, key_bytes);
                    let spot = self.site.spot_after(&self.tables.base, table, row)?;
                    spot.value(&mut self.tables.base, table, row, &column, key)?;
                    known = true;
                }
                put(record, key_bytes, &descending(id.number()));
                sorter.push(&mut self.tables.base.pager, record)?;
            }
            next = end;
        }
        Ok(())
    }

    /// Adds the entry of one row, with its new or its present key.
    fn push_entry(&mut self, side: Side, id: RowId, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, self.job.width);
        let key_bytes = self.job.width - ID_BYTES;
        let (table, column) = self.job.source;
        let own = self.job.index.table;
        let row = match self.job.index.slot {
            OWN => id,
            slot => {
                let spot = self.spot_of(side, own, id)?;
                spot.join_id(&mut self.tables.base, own, id, usize::from(slot))?
            }
        };
        let key = part_mut(record, 0, key_bytes);
        if column == ID {
            put(key, 0, &row.to_be_bytes());
        } else {
            let entry = self.tables.base.catalogue.column_at(table, column)?;
            let spot = self.spot_of(side, table, row)?;
            spot.value(&mut self.tables.base, table, row, &entry, key)?;
        }
        put(record, key_bytes, &descending(id.number()));
        Ok(sorter.push(&mut self.tables.base.pager, record)?)
    }

    fn spot_of(&self, side: Side, table: TableId, id: RowId) -> Result<Spot> {
        match side {
            Side::Gained => self.site.spot_after(&self.tables.base, table, id),
            Side::Lost => self
                .tables
                .base
                .spot(table, id)
                .ok_or(Error::Root("lacks a part")),
        }
    }

    /// Adds the merged rows whose key an update changed. A row in a part that stays keeps its
    /// value, and its updates are kept.
    fn push_updated(&mut self, side: Side, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let (table, column) = self.job.source;
        if column == ID || !self.tables.summary.has_updates(table, column) {
            return Ok(());
        }
        let entry = self.tables.base.catalogue.column_at(table, column)?;
        for update in RowId::between(self.site.counted.updates, self.site.frozen.rows(UPDATES)) {
            let Some(row) = self.tables.base.updated_row(update, table, column)? else {
                continue;
            };
            // A row in a part that stays keeps its old value in this index.
            if !self.is_taken_in(table, row) {
                continue;
            }
            let (mut old, mut new) = ([0u8; KEY_BYTES_MAX], [0u8; KEY_BYTES_MAX]);
            let width = self.job.width - ID_BYTES;
            let place = part_mut(&mut old, 0, width);
            let spot = self.spot_of(Side::Lost, table, row)?;
            spot.value(&mut self.tables.base, table, row, &entry, place)?;
            let place = part_mut(&mut new, 0, width);
            let spot = self.site.spot_after(&self.tables.base, table, row)?;
            spot.value(&mut self.tables.base, table, row, &entry, place)?;
            if part(&old, 0, width) != part(&new, 0, width) {
                self.push_leading(side, row, sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the merged rows that were deleted, directly or not.
    fn push_deleted(&mut self, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let own = self.job.index.table;
        for delete in RowId::between(self.site.counted.deletes, self.site.frozen.rows(DELETES)) {
            let (table, row) = self.tables.base.deleted_row(delete)?;
            if table == own {
                if self.is_taken_in(own, row) && !self.tables.base.is_hole(own, row)? {
                    self.push_entry(Side::Lost, row, sorter)?;
                }
                continue;
            }
            // Deletes cascade: all rows that lead to the deleted one lose their entries.
            let slots = self.tables.base.catalogue.slots_of(own).iter();
            let slot = slots.zip(0u8..).find(|(slot, _)| slot.table == table);
            if let Some((_, slot)) = slot {
                let by_id = self.tables.base.catalogue.find_index(own, slot, ID);
                self.push_listed(Side::Lost, (by_id, row), sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the merged rows that lead to `row` of the indexed table.
    fn push_leading(&mut self, side: Side, row: RowId, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let table = self.job.index.table;
        if self.job.index.slot != OWN {
            return self.push_listed(side, (self.job.by_id, row), sorter);
        }
        if !self.is_taken_in(table, row) || !self.counts(table, side, row)? {
            return Ok(());
        }
        self.push_entry(side, row, sorter)
    }

    fn push_listed(
        &mut self,
        side: Side,
        (by_id, row): (Option<usize>, RowId),
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let by_id = by_id.ok_or(Error::Limit("the number of indexes"))?;
        let table = self.job.index.table;
        let mut listing = Listing::of(&mut self.tables.base, by_id, &row.to_le_bytes())?;
        while let Some(id) = listing.next(&mut self.tables.base.pager)? {
            if id.is_within(self.site.frozen.first(table)) {
                break;
            }
            if self.counts(table, side, id)? {
                self.push_entry(side, id, sorter)?;
            }
        }
        Ok(())
    }

    /// Returns whether a row belongs to a side: the new part has no entries of deleted rows.
    fn counts(&mut self, table: TableId, side: Side, id: RowId) -> Result<bool> {
        Ok(side == Side::Lost || self.site.lives(&mut self.tables.base.pager, table, id)?)
    }
}
