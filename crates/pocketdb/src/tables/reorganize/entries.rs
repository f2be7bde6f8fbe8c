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
use crate::tables::base::Base;
use crate::tables::catalogue::{DELETES, ID, Index, OWN, UPDATES};
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

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Sorts the entries that an index gains; its reader needs `reserve` frames of its own.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    pub(super) fn sorted_gained(
        &mut self,
        site: &Site,
        job: &Job,
        reserve: usize,
    ) -> Result<Sorter<Repeats>> {
        // Rows gained twice, as new and by an update, are dropped by the sort.
        let mut sorter = self.entry_sorter(job)?;
        self.push_new(site, job, &mut sorter)?;
        if self.base.takes_in(site, job.index.table) {
            self.push_updated(site, job, Side::Gained, &mut sorter)?;
        }
        sorter.finish_and_release(&mut self.base.pager, reserve)?;
        Ok(sorter)
    }

    /// Sorts the entries that an index loses and writes them as a run.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    pub(super) fn sorted_lost(&mut self, site: &Site, job: &Job) -> Result<Run> {
        if !self.base.takes_in(site, job.index.table) {
            return Ok(Run::default());
        }
        let mut sorter = self.entry_sorter(job)?;
        let area = sorter.area();
        self.push_updated(site, job, Side::Lost, &mut sorter)?;
        self.push_deleted(site, job, &mut sorter)?;
        sorter.finish(&mut self.base.pager)?;
        let mut writer = RunWriter::begin(&mut self.base.pager, job.width)?;
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, job.width);
        while sorter.next(&mut self.base.pager, record)? {
            writer.put(&mut self.base.pager, record)?;
        }
        let run = writer.finish(&mut self.base.pager)?;
        self.base.pager.arena.release(area);
        Ok(run)
    }

    fn entry_sorter(&mut self, job: &Job) -> Result<Sorter<Repeats>> {
        let left = if self.base.pager.arena.frames() <= FRAMES_LITTLE {
            READ_FRAMES_LITTLE
        } else {
            READ_FRAMES
        };
        let frames = self.base.pager.arena.spare().saturating_sub(left).max(1);
        let area = self.base.pager.arena.lease(frames)?;
        Ok(Sorter::new(job.width, area, Repeats::Drop(job.width))?.alone())
    }

    /// Adds the rows that are in no present part, with the keys that they have in the new part.
    fn push_new(&mut self, site: &Site, job: &Job, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let table = job.index.table;
        // A whole reorganisation keeps no rows of hidden tables.
        let old = self.base.part_rows(table).max(site.frozen.first(table));
        let rows = site.frozen.rows(table);
        if let Some(by_id) = job.by_id.filter(|_| job.source.1 != ID) {
            // Keys are read in the row order of their table, unless there are few new rows.
            let keys = Keys::read(&mut self.base, site.frozen.side, by_id)?;
            let lists = site.frozen.own(table).div_ceil(IDS_PER_PAGE);
            if rows.saturating_sub(old) > keys.pages()? + lists {
                return self.push_by_source(site, job, &keys, sorter);
            }
        }
        for id in RowId::between(old, rows) {
            if self.base.lives_at(site, table, id)? {
                self.push_entry(site, job, Side::Gained, id, sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the new rows in the order of the rows that they reference, from the new part's index on
    /// their ids. So pages are read one after the other, each once.
    fn push_by_source(
        &mut self,
        site: &Site,
        job: &Job,
        keys: &Keys,
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let old = self.base.part_rows(job.index.table);
        let _side = site.frozen.side;
        let (table, column) = job.source;
        let column = self.base.catalogue.column_at(table, column)?;
        let key_bytes = job.width - ID_BYTES;
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, job.width);
        let mut source = [0u8; ID_BYTES];
        let mut next = keys.record(&mut self.base.pager, 0, &mut source)?;
        for number in 0..keys.count {
            let row = RowId::new(u32::from_be_bytes(source));
            let end = keys.record(&mut self.base.pager, number + 1, &mut source)?;
            let mut known = false;
            // The newest ids come first.
            for place in next..end {
                let id = keys.id(&mut self.base.pager, place)?;
                if id.is_within(old) {
                    break;
                }
                if !known {
                    let key = part_mut(record, 0, key_bytes);
                    let spot = self.base.spot_after(site, table, row)?;
                    spot.value(&mut self.base, table, row, &column, key)?;
                    known = true;
                }
                put(record, key_bytes, &descending(id.number()));
                sorter.push(&mut self.base.pager, record)?;
            }
            next = end;
        }
        Ok(())
    }

    /// Adds the entry of one row, with its new or its present key.
    fn push_entry(
        &mut self,
        site: &Site,
        job: &Job,
        side: Side,
        id: RowId,
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = part_mut(&mut record, 0, job.width);
        let key_bytes = job.width - ID_BYTES;
        let (table, column) = job.source;
        let own = job.index.table;
        let row = match job.index.slot {
            OWN => id,
            slot => {
                let spot = self.base.spot_of(site, side, own, id)?;
                spot.join_id(&mut self.base, own, id, usize::from(slot))?
            }
        };
        let key = part_mut(record, 0, key_bytes);
        if column == ID {
            put(key, 0, &row.to_be_bytes());
        } else {
            let entry = self.base.catalogue.column_at(table, column)?;
            let spot = self.base.spot_of(site, side, table, row)?;
            spot.value(&mut self.base, table, row, &entry, key)?;
        }
        put(record, key_bytes, &descending(id.number()));
        Ok(sorter.push(&mut self.base.pager, record)?)
    }

    /// Adds the merged rows whose key an update changed. A row in a part that stays keeps its
    /// value, and its updates are kept.
    fn push_updated(
        &mut self,
        site: &Site,
        job: &Job,
        side: Side,
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let (table, column) = job.source;
        if column == ID || !self.summary.has_updates(table, column) {
            return Ok(());
        }
        let entry = self.base.catalogue.column_at(table, column)?;
        for update in RowId::between(site.counted.updates, site.frozen.rows(UPDATES)) {
            let Some(row) = self.base.updated_row(update, table, column)? else {
                continue;
            };
            // A row in a part that stays keeps its old value in this index.
            if !self.base.is_taken_in(site, table, row) {
                continue;
            }
            let (mut old, mut new) = ([0u8; KEY_BYTES_MAX], [0u8; KEY_BYTES_MAX]);
            let width = job.width - ID_BYTES;
            let place = part_mut(&mut old, 0, width);
            let spot = self.base.spot_of(site, Side::Lost, table, row)?;
            spot.value(&mut self.base, table, row, &entry, place)?;
            let place = part_mut(&mut new, 0, width);
            let spot = self.base.spot_after(site, table, row)?;
            spot.value(&mut self.base, table, row, &entry, place)?;
            if part(&old, 0, width) != part(&new, 0, width) {
                self.push_leading(site, job, side, row, sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the merged rows that were deleted, directly or not.
    fn push_deleted(&mut self, site: &Site, job: &Job, sorter: &mut Sorter<Repeats>) -> Result<()> {
        let own = job.index.table;
        for delete in RowId::between(site.counted.deletes, site.frozen.rows(DELETES)) {
            let (table, row) = self.base.deleted_row(delete)?;
            if table == own {
                if self.base.is_taken_in(site, own, row) && !self.base.is_hole(own, row)? {
                    self.push_entry(site, job, Side::Lost, row, sorter)?;
                }
                continue;
            }
            // Deletes cascade: all rows that lead to the deleted one lose their entries.
            let slots = self.base.catalogue.slots_of(own).iter();
            let slot = slots.zip(0u8..).find(|(slot, _)| slot.table == table);
            if let Some((_, slot)) = slot {
                let by_id = self.base.catalogue.find_index(own, slot, ID);
                self.push_listed(site, job, Side::Lost, (by_id, row), sorter)?;
            }
        }
        Ok(())
    }

    /// Adds the merged rows that lead to `row` of the indexed table.
    fn push_leading(
        &mut self,
        site: &Site,
        job: &Job,
        side: Side,
        row: RowId,
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let table = job.index.table;
        if job.index.slot != OWN {
            return self.push_listed(site, job, side, (job.by_id, row), sorter);
        }
        if !self.base.is_taken_in(site, table, row) || !self.counts(site, table, side, row)? {
            return Ok(());
        }
        self.push_entry(site, job, side, row, sorter)
    }

    fn push_listed(
        &mut self,
        site: &Site,
        job: &Job,
        side: Side,
        (by_id, row): (Option<usize>, RowId),
        sorter: &mut Sorter<Repeats>,
    ) -> Result<()> {
        let by_id = by_id.ok_or(Error::Limit("the number of indexes"))?;
        let table = job.index.table;
        let mut listing = Listing::of(&mut self.base, by_id, &row.to_le_bytes())?;
        while let Some(id) = listing.next(&mut self.base.pager)? {
            if id.is_within(site.frozen.first(table)) {
                break;
            }
            if self.counts(site, table, side, id)? {
                self.push_entry(site, job, side, id, sorter)?;
            }
        }
        Ok(())
    }

    /// Returns whether a row belongs to a side: the new part has no entries of deleted rows.
    fn counts(&mut self, site: &Site, table: TableId, side: Side, id: RowId) -> Result<bool> {
        Ok(side == Side::Lost || self.base.lives_at(site, table, id)?)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    pub(super) fn job(&self, number: usize) -> Result<Job> {
        let index = self.catalogue.index(number)?;
        let table = index.table;
        let by_id = match index.slot {
            OWN => None,
            slot => self.catalogue.find_index(table, slot, ID),
        };
        Ok(Job {
            index,
            width: key_bytes(&self.catalogue, index)? + ID_BYTES,
            source: self.catalogue.source(index)?,
            by_id,
        })
    }

    /// Returns whether parts with rows of `table` are merged into the new one.
    fn takes_in(&self, site: &Site, table: TableId) -> bool {
        self.part_rows(table) > site.frozen.first(table)
    }

    /// Returns whether a row is in one of the parts that are merged into the new one.
    fn is_taken_in(&self, site: &Site, table: TableId, id: RowId) -> bool {
        !id.is_within(site.frozen.first(table)) && id.is_within(self.part_rows(table))
    }

    fn spot_of(&self, site: &Site, side: Side, table: TableId, id: RowId) -> Result<Spot> {
        match side {
            Side::Gained => self.spot_after(site, table, id),
            Side::Lost => self.spot(table, id).ok_or(Error::Root("lacks a part")),
        }
    }
}
