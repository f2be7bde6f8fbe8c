//! Deletes and updates, which are rows of two hidden tables, and their effect on other rows.
//!
//! Rows and indexes keep the *base* value, with which a row was inserted. A delete names one row;
//! all rows that reference it are deleted with it.

use crate::error::{Error, Result};
use crate::pager::Pager;
use crate::pager::bytes::{narrow, part, put, small, take};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::KeyHash;
use crate::tables::base::Base;
use crate::tables::catalogue::{Column, DELETES, UPDATES};
use crate::tables::id::{ColumnId, RowId, TableId};
use crate::tables::index::{Search, trimmed};
use crate::tables::store::Store;
use crate::tables::stretch::{Change, Known};
use crate::tables::summary::{Summary, delete_entry, update_entry};

/// The index that finds the delete of a row.
const DELETES_BY_ROW: usize = 0;
/// The index that finds the updates of a value.
const UPDATES_BY_PLACE: usize = 1;
/// The index that finds the updates to a value.
const UPDATES_BY_VALUE: usize = 2;
/// Bytes that name a row: table and id.
const ROW_NAME_BYTES: usize = 5;
/// Length of the place of a value's part: table, column, part, zero and id.
const PLACE_BYTES: usize = 8;
/// Length of a new value's hash key: table, column and eight bytes of its hash.
const VALUE_NAME_BYTES: usize = 10;
/// Length of the part of a value that one update contains.
const PART_BYTES: usize = crate::tables::catalogue::UPDATE_PART_BYTES as usize;
/// Bytes of an update.
const UPDATE_BYTES: usize = PLACE_BYTES + VALUE_NAME_BYTES + PART_BYTES;
/// The domain of hashes of new values.
const VALUE_DOMAIN: u16 = 0xFFFF;

/// Numbers of deletes and updates at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) deletes: u32,
    pub(crate) updates: u32,
}

impl Moment {
    /// All deletes and updates.
    pub(crate) const NOW: Self = Self {
        deletes: u32::MAX,
        updates: u32::MAX,
    };
}

/// Rows as they are now: as they were inserted, with the deletes and updates since.
pub(crate) struct Tables<F: Nand, S: SecureStore> {
    pub(crate) base: Base<F, S>,
    /// The filter for rows that may be deleted or updated.
    pub(crate) summary: Summary,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Deletes the row `id` of `table`, and all rows that reference it.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, or the errors of [`Self::insert`].
    pub fn delete(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.usable()?;
        self.tables.prepare_change()?;
        self.tables.check_alive(table, id)?;
        self.tables.note_delete(table, id)
    }

    /// Sets the stored column `column` of the row `id` to a value of the column's width.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, [`Error::Value`] for a value of another width,
    /// or the errors of [`Self::insert`].
    pub fn update(
        &mut self,
        table: TableId,
        id: RowId,
        column: ColumnId,
        value: &[u8],
    ) -> Result<()> {
        self.usable()?;
        self.tables.prepare_change()?;
        self.tables.check_alive(table, id)?;
        let entry = self.tables.base.catalogue.column_at(table, column)?;
        if entry.width == 0 || value.len() != usize::from(entry.width) {
            let name = self.tables.base.catalogue.column_name(table, column);
            let width = entry.width;
            return Err(Error::Value(alloc::format!(
                "a value of {name} has {width} bytes"
            )));
        }
        self.tables.note_update(table, id, column, value)
    }

    /// Copies the current value of a stored column, updates included.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, [`Error::Value`] for another width.
    pub fn present(
        &mut self,
        table: TableId,
        id: RowId,
        column: ColumnId,
        out: &mut [u8],
    ) -> Result<()> {
        self.usable()?;
        self.tables.check_alive(table, id)?;
        let entry = self.tables.base.catalogue.column_at(table, column)?;
        if out.len() != usize::from(entry.width) {
            return Err(Error::Value(alloc::format!(
                "the value has {} bytes",
                entry.width
            )));
        }
        self.tables.latest(table, id, column, &entry, out)
    }
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    pub(crate) fn note_delete(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.base.append_hidden(DELETES, &row_name(table, id))?;
        self.summary.add_delete(table, id);
        Ok(())
    }

    pub(crate) fn note_update(
        &mut self,
        table: TableId,
        id: RowId,
        column: ColumnId,
        value: &[u8],
    ) -> Result<()> {
        // The first part alone names the value, so that a search for it finds an update once.
        let name = value_name(&mut self.base.pager, table, column, value);
        for (number, bytes) in value.chunks(PART_BYTES).enumerate() {
            let mut row = [0u8; UPDATE_BYTES];
            put(&mut row, 0, &place(table, column, number, id));
            if number == 0 {
                put(&mut row, PLACE_BYTES, &name);
            }
            put(&mut row, PLACE_BYTES + VALUE_NAME_BYTES, bytes);
            self.base.append_hidden(UPDATES, &row)?;
        }
        self.summary.add_update(table, column, id);
        Ok(())
    }

    /// Returns an error if no row has this id, or the row is deleted.
    pub(crate) fn check_alive(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.base.check_row(table, id)?;
        if self.is_deleted(table, id)? {
            let name = self.base.catalogue.table_name(table);
            return Err(Error::Key(alloc::format!(
                "{name} has no row {id} any more"
            )));
        }
        Ok(())
    }

    /// Returns whether the row, or one that it references, was deleted.
    pub(crate) fn is_deleted(&mut self, table: TableId, id: RowId) -> Result<bool> {
        self.was_deleted(table, id, Moment::NOW)
    }

    /// Returns whether the row, or one that it references, was deleted up to a moment.
    pub(crate) fn was_deleted(&mut self, table: TableId, id: RowId, until: Moment) -> Result<bool> {
        // The cheapest knowledge first: bits of a part, then the summary, then a search.
        if self.base.is_hole(table, id)? || self.was_named_deleted(table, id, until)? {
            return Ok(true);
        }
        if !self.summary.any_deletes() {
            return Ok(false);
        }
        for number in 0..self.base.catalogue.slots_of(table).len() {
            let target = self.base.catalogue.slot(table, number)?.table;
            if self.summary.has_deletes(target) {
                let referenced = self.base.join_id(table, id, number)?;
                if self.was_named_deleted(target, referenced, until)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a delete names this row itself.
    pub(crate) fn is_named_deleted(&mut self, table: TableId, id: RowId) -> Result<bool> {
        self.was_named_deleted(table, id, Moment::NOW)
    }

    fn was_named_deleted(&mut self, table: TableId, id: RowId, until: Moment) -> Result<bool> {
        if !self.summary.has_deletes(table) || !self.summary.may_hold(delete_entry(table, id)) {
            return Ok(false);
        }
        match self.known_change(Change::Delete, table, id)? {
            Known::Unchanged => return Ok(false),
            Known::Changed(delete) => return Ok(delete.is_within(until.deletes)),
            Known::Nothing => {}
        }
        // Reads are counted, because a pass over all deletes pays off by them.
        let reads = self.base.pager.flash.counters().page_reads;
        let found = find_change(
            &mut self.base,
            DELETES_BY_ROW,
            &row_name(table, id),
            until.deletes,
        )?;
        self.note_search(Change::Delete, (table, id), reads);
        Ok(found.is_some())
    }

    /// Returns whether an update may have changed a value.
    pub(crate) fn may_be_updated(&self, table: TableId, column: ColumnId, id: RowId) -> bool {
        self.summary.has_updates(table, column)
            && self.summary.may_hold(update_entry(table, column, id))
    }

    /// Copies the current value of a stored column, updates included.
    pub(crate) fn latest(
        &mut self,
        table: TableId,
        id: RowId,
        number: ColumnId,
        column: &Column,
        out: &mut [u8],
    ) -> Result<()> {
        self.updated_value(table, id, (number, column), Moment::NOW, out)
    }

    /// Copies the value of a stored column as of a moment.
    pub(crate) fn value_until(
        &mut self,
        table: TableId,
        id: RowId,
        number: ColumnId,
        until: Moment,
        out: &mut [u8],
    ) -> Result<()> {
        let column = self.base.catalogue.column_at(table, number)?;
        self.updated_value(table, id, (number, &column), until, out)
    }

    fn updated_value(
        &mut self,
        table: TableId,
        id: RowId,
        (number, column): (ColumnId, &Column),
        until: Moment,
        out: &mut [u8],
    ) -> Result<()> {
        if self.may_be_updated(table, number, id) {
            let known = self.known_change(Change::Update, table, id)?;
            // The last update may be of another column, or later than the moment: then a search.
            let updated = match known {
                Known::Unchanged => false,
                Known::Changed(last) if last.is_within(until.updates) => {
                    self.copy_update((table, number, id), last, out)?
                        || self.find_update(table, id, number, until, out)?
                }
                _ => self.find_update(table, id, number, until, out)?,
            };
            if updated {
                return Ok(());
            }
        }
        self.base.value(table, id, column, out)
    }

    /// Copies the value of the newest update up to a moment; returns `false` if there is none.
    fn find_update(
        &mut self,
        table: TableId,
        id: RowId,
        number: ColumnId,
        until: Moment,
        out: &mut [u8],
    ) -> Result<bool> {
        let reads = self.base.pager.flash.counters().page_reads;
        let found = self.search_update(table, id, number, until, out);
        self.note_search(Change::Update, (table, id), reads);
        found
    }

    fn search_update(
        &mut self,
        table: TableId,
        id: RowId,
        number: ColumnId,
        until: Moment,
        out: &mut [u8],
    ) -> Result<bool> {
        for (piece, bytes) in out.chunks_mut(PART_BYTES).enumerate() {
            let key = place(table, number, piece, id);
            // All parts are written together: without the first there are no others.
            let Some(update) = find_change(&mut self.base, UPDATES_BY_PLACE, &key, until.updates)?
            else {
                return Ok(false);
            };
            self.base
                .read_hidden(UPDATES, update, PLACE_BYTES + VALUE_NAME_BYTES, bytes)?;
        }
        Ok(true)
    }

    /// Copies the value of a row's last update, whose last part is number `last`; returns `false`
    /// if that update is of another column.
    fn copy_update(
        &mut self,
        (table, number, id): (TableId, ColumnId, RowId),
        last: RowId,
        out: &mut [u8],
    ) -> Result<bool> {
        let pieces = out.chunks(PART_BYTES).len();
        // A filter takes values for updated that are not: then the last update is of another column,
        // and fewer parts than this value would have may come before its end.
        let Some(before) = last.number().checked_sub(narrow(pieces)) else {
            return Ok(false);
        };
        // Parts that are applied in all parts of the table are no longer kept.
        if before < self.base.dropped(UPDATES) {
            return Ok(false);
        }
        let updates = RowId::between(before, last.number());
        for ((piece, bytes), update) in out.chunks_mut(PART_BYTES).enumerate().zip(updates) {
            let mut found = [0u8; PLACE_BYTES];
            self.base.read_hidden(UPDATES, update, 0, &mut found)?;
            if found != place(table, number, piece, id) {
                return Ok(false);
            }
            self.base
                .read_hidden(UPDATES, update, PLACE_BYTES + VALUE_NAME_BYTES, bytes)?;
        }
        Ok(true)
    }

    /// Begins a search for the rows that an update may have set to `value`.
    pub(crate) fn updates_to(
        &mut self,
        table: TableId,
        column: ColumnId,
        value: &[u8],
    ) -> Result<Search> {
        let name = value_name(&mut self.base.pager, table, column, value);
        Search::new(&mut self.base, UPDATES_BY_VALUE, &name)
    }

    /// Adds all deletes and updates to an empty summary.
    pub(crate) fn summarize(&mut self) -> Result<()> {
        for delete in RowId::between(self.base.dropped(DELETES), self.base.count(DELETES)) {
            let (table, id) = self.base.deleted_row(delete)?;
            self.summary.add_delete(table, id);
        }
        for update in RowId::between(self.base.dropped(UPDATES), self.base.count(UPDATES)) {
            let (table, column, id) = self.base.updated_place(update)?;
            self.summary.add_update(table, column, id);
        }
        Ok(())
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    fn append_hidden(&mut self, table: TableId, row: &[u8]) -> Result<()> {
        let id = RowId::after(self.count(table));
        self.append_or_poison(table, id, row)
    }

    /// Returns table and id of the row that a delete names.
    pub(crate) fn deleted_row(&mut self, delete: RowId) -> Result<(TableId, RowId)> {
        let mut name = [0u8; ROW_NAME_BYTES];
        self.read_hidden(DELETES, delete, 0, &mut name)?;
        let [table] = take::<1>(&name, 0);
        Ok((TableId::new(table), RowId::from_le_bytes(take(&name, 1))))
    }

    /// Returns the row of an update, if that is of `table` and `column`.
    pub(crate) fn updated_row(
        &mut self,
        update: RowId,
        table: TableId,
        column: ColumnId,
    ) -> Result<Option<RowId>> {
        let mut found = [0u8; PLACE_BYTES];
        self.read_hidden(UPDATES, update, 0, &mut found)?;
        let id = RowId::from_le_bytes(take(&found, 4));
        Ok((found == place(table, column, 0, id)).then_some(id))
    }

    /// Returns table, column and id of the row that an update names.
    pub(crate) fn updated_place(&mut self, update: RowId) -> Result<(TableId, ColumnId, RowId)> {
        let mut found = [0u8; PLACE_BYTES];
        self.read_hidden(UPDATES, update, 0, &mut found)?;
        let [table, column] = take::<2>(&found, 0);
        let id = RowId::from_le_bytes(take(&found, 4));
        Ok((TableId::new(table), ColumnId::new(column), id))
    }
}

fn row_name(table: TableId, id: RowId) -> [u8; ROW_NAME_BYTES] {
    let mut name = [0u8; ROW_NAME_BYTES];
    put(&mut name, 0, &[table.number()]);
    put(&mut name, 1, &id.to_le_bytes());
    name
}

fn place(table: TableId, column: ColumnId, number: usize, id: RowId) -> [u8; PLACE_BYTES] {
    let mut place = [0u8; PLACE_BYTES];
    put(
        &mut place,
        0,
        &[table.number(), column.number(), small(number)],
    );
    put(&mut place, 4, &id.to_le_bytes());
    place
}

/// Returns the newest delete or update with `key` in an index, up to number `until`.
fn find_change<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    index: usize,
    key: &[u8],
    until: u32,
) -> Result<Option<RowId>> {
    let mut search = Search::new(base, index, key)?;
    let mut found = search.next(base)?;
    // A search descends: what came after the moment is skipped.
    while found.is_some_and(|change| !change.is_within(until)) {
        found = search.next(base)?;
    }
    Ok(found)
}

fn value_name<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    table: TableId,
    column: ColumnId,
    value: &[u8],
) -> [u8; VALUE_NAME_BYTES] {
    let mut name = [0u8; VALUE_NAME_BYTES];
    put(&mut name, 0, &[table.number(), column.number()]);
    // A hash has one length, unlike values; a collision is found by the row's present value.
    let hash: KeyHash = pager.root.seal.hash(VALUE_DOMAIN, trimmed(value));
    put(&mut name, 2, part(&hash, 0, VALUE_NAME_BYTES - 2));
    name
}
