//! Deletes and updates, which are rows of two hidden tables, and their effect on other rows.
//!
//! Rows and indexes keep the *base* value, with which a row was inserted. A delete names one row;
//! all rows that reference it are deleted with it.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::limits::{COLUMNS_MAX, TABLES_MAX};
use crate::pager::bytes::{has_bit, narrow, part, put, set_bit, small, take};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::KeyHash;
use crate::tables::catalogue::{Column, DELETES, ID, UPDATES};
use crate::tables::id::{ColumnId, RowId, TableId};
use crate::tables::index::trimmed;
use crate::tables::store::Store;
use crate::tables::stretch::{Change, Known, STRETCH_BYTES, Stretch};

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
/// Number of bits per entry in the summary's filter.
const SUMMARY_HASHES: u32 = 4;

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

/// A filter for rows that may have been deleted or updated: false positives are possible, false
/// negatives are not.
pub(crate) struct Summary {
    bits: Vec<u8>,
    /// Bit set of the tables with a delete.
    deleted: u32,
    /// Bit set of the columns with an update, for each table.
    updated: [u32; TABLES_MAX],
    /// Results of passes over all deletes and over all updates.
    deletes: Stretch,
    updates: Stretch,
}

impl Summary {
    /// Creates an empty summary of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bits: alloc::vec![0; bytes.saturating_sub(2 * STRETCH_BYTES)],
            deleted: 0,
            updated: [0; TABLES_MAX],
            deletes: Stretch::new(Change::Delete),
            updates: Stretch::new(Change::Update),
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.bits.fill(0);
        self.deleted = 0;
        self.updated.fill(0);
        self.clear_stretches();
    }

    /// Discards the results of passes, because changes were rolled back.
    pub(crate) fn clear_stretches(&mut self) {
        self.deletes.clear();
        self.updates.clear();
    }

    /// Returns the stretch of one kind of change.
    pub(crate) fn stretch(&mut self, change: Change) -> &mut Stretch {
        match change {
            Change::Delete => &mut self.deletes,
            Change::Update => &mut self.updates,
        }
    }

    /// Returns whether rows of `table` were deleted.
    pub(crate) fn has_deletes(&self, table: TableId) -> bool {
        self.deleted & table.bit() != 0
    }

    /// Returns whether values of a column were updated.
    pub(crate) fn has_updates(&self, table: TableId, column: ColumnId) -> bool {
        let columns = self.updated.get(table.place()).copied().unwrap_or(0);
        columns & column_bit(column) != 0
    }

    /// Returns whether any row was deleted.
    pub(crate) fn any_deletes(&self) -> bool {
        self.deleted != 0
    }

    fn positions(&self, entry: u64) -> impl Iterator<Item = usize> + use<> {
        // SplitMix64: entries differ in few bits, and positions must not.
        let mut mixed = entry.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let bits = self.bits.len() as u64 * 8;
        let (start, step) = (mixed & 0xFFFF_FFFF, mixed >> 32 | 1);
        (0..SUMMARY_HASHES).map(move |number| {
            let position = (start + u64::from(number) * step) % bits.max(1);
            usize::try_from(position).unwrap_or(0)
        })
    }

    fn add(&mut self, entry: u64) {
        for position in self.positions(entry) {
            set_bit(&mut self.bits, position);
        }
    }

    fn may_hold(&self, entry: u64) -> bool {
        let mut positions = self.positions(entry);
        positions.all(|position| has_bit(&self.bits, position))
    }

    fn add_delete(&mut self, table: TableId, id: RowId) {
        self.deleted |= table.bit();
        self.deletes.note_change(table, id);
        self.add(delete_entry(table, id));
    }

    fn add_update(&mut self, table: TableId, column: ColumnId, id: RowId) {
        if let Some(columns) = self.updated.get_mut(table.place()) {
            *columns |= column_bit(column);
        }
        self.updates.note_change(table, id);
        self.add(update_entry(table, column, id));
    }
}

/// Returns the bit of a column; none for the id, which no update changes.
fn column_bit(column: ColumnId) -> u32 {
    if column == ID {
        return 0;
    }
    assert!(
        column.place() < COLUMNS_MAX,
        "an update is of a column of its table"
    );
    1 << column.number()
}

fn delete_entry(table: TableId, id: RowId) -> u64 {
    u64::from(table.number()) << 32 | u64::from(id.number())
}

fn update_entry(table: TableId, column: ColumnId, id: RowId) -> u64 {
    1 << 63 | u64::from(column.number()) << 40 | delete_entry(table, id)
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Deletes the row `id` of `table`, and all rows that reference it.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, or the errors of [`Self::insert`].
    pub fn delete(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.usable()?;
        self.prepare_change()?;
        self.check_alive(table, id)?;
        self.note_delete(table, id)
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
        self.prepare_change()?;
        self.check_alive(table, id)?;
        let entry = self.catalogue.column_at(table, column)?;
        if entry.width == 0 || value.len() != usize::from(entry.width) {
            let name = self.catalogue.column_name(table, column);
            let width = entry.width;
            return Err(Error::Value(alloc::format!(
                "a value of {name} has {width} bytes"
            )));
        }
        self.note_update(table, id, column, value)
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
        self.check_alive(table, id)?;
        let entry = self.catalogue.column_at(table, column)?;
        if out.len() != usize::from(entry.width) {
            return Err(Error::Value(alloc::format!(
                "the value has {} bytes",
                entry.width
            )));
        }
        self.latest(table, id, column, &entry, out)
    }

    pub(crate) fn note_delete(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.append_hidden(DELETES, &row_name(table, id))?;
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
        let name = self.value_name(table, column, value);
        for (number, bytes) in value.chunks(PART_BYTES).enumerate() {
            let mut row = [0u8; UPDATE_BYTES];
            put(&mut row, 0, &place(table, column, number, id));
            if number == 0 {
                put(&mut row, PLACE_BYTES, &name);
            }
            put(&mut row, PLACE_BYTES + VALUE_NAME_BYTES, bytes);
            self.append_hidden(UPDATES, &row)?;
        }
        self.summary.add_update(table, column, id);
        Ok(())
    }

    fn append_hidden(&mut self, table: TableId, row: &[u8]) -> Result<()> {
        let id = RowId::after(self.count(table));
        self.append_or_poison(table, id, row)
    }

    /// Returns an error if no row has this id, or the row is deleted.
    pub(crate) fn check_alive(&mut self, table: TableId, id: RowId) -> Result<()> {
        self.check_row(table, id)?;
        if self.is_deleted(table, id)? {
            let name = self.catalogue.table_name(table);
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
        if self.is_hole(table, id)? || self.was_named_deleted(table, id, until)? {
            return Ok(true);
        }
        if !self.summary.any_deletes() {
            return Ok(false);
        }
        for number in 0..self.catalogue.slots_of(table).len() {
            let target = self.catalogue.slot(table, number)?.table;
            if self.summary.has_deletes(target) {
                let referenced = self.join_id(table, id, number)?;
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
        let reads = self.pager.flash.counters().page_reads;
        let found = self.find_change(DELETES_BY_ROW, &row_name(table, id), until.deletes)?;
        self.note_search(Change::Delete, (table, id), reads);
        Ok(found.is_some())
    }

    /// Returns the newest delete or update with `key` in an index, up to number `until`.
    fn find_change(&mut self, index: usize, key: &[u8], until: u32) -> Result<Option<RowId>> {
        let mut search = self.begin_search(index, key)?;
        let mut found = self.next_found(&mut search)?;
        // A search descends: what came after the moment is skipped.
        while found.is_some_and(|change| !change.is_within(until)) {
            found = self.next_found(&mut search)?;
        }
        Ok(found)
    }

    /// Returns table and id of the row that a delete names.
    pub(crate) fn deleted_row(&mut self, delete: RowId) -> Result<(TableId, RowId)> {
        let mut name = [0u8; ROW_NAME_BYTES];
        self.read_hidden(DELETES, delete, 0, &mut name)?;
        let [table] = take::<1>(&name, 0);
        Ok((TableId::new(table), RowId::from_le_bytes(take(&name, 1))))
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
        let column = self.catalogue.column_at(table, number)?;
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
        self.value(table, id, column, out)
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
        let reads = self.pager.flash.counters().page_reads;
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
            let Some(update) = self.find_change(UPDATES_BY_PLACE, &key, until.updates)? else {
                return Ok(false);
            };
            self.read_hidden(UPDATES, update, PLACE_BYTES + VALUE_NAME_BYTES, bytes)?;
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
        let outside = Error::Defect("an update has as many parts as its value");
        let before = last.number().checked_sub(narrow(pieces)).ok_or(outside)?;
        // Parts that are applied in all parts of the table are no longer kept.
        if before < self.dropped(UPDATES) {
            return Ok(false);
        }
        let updates = RowId::between(before, last.number());
        for ((piece, bytes), update) in out.chunks_mut(PART_BYTES).enumerate().zip(updates) {
            let mut found = [0u8; PLACE_BYTES];
            self.read_hidden(UPDATES, update, 0, &mut found)?;
            if found != place(table, number, piece, id) {
                return Ok(false);
            }
            self.read_hidden(UPDATES, update, PLACE_BYTES + VALUE_NAME_BYTES, bytes)?;
        }
        Ok(true)
    }

    /// Begins a search for the rows that an update may have set to `value`.
    pub(crate) fn updates_to(
        &mut self,
        table: TableId,
        column: ColumnId,
        value: &[u8],
    ) -> Result<crate::tables::index::Search> {
        let name = self.value_name(table, column, value);
        self.begin_search(UPDATES_BY_VALUE, &name)
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

    fn value_name(
        &mut self,
        table: TableId,
        column: ColumnId,
        value: &[u8],
    ) -> [u8; VALUE_NAME_BYTES] {
        let mut name = [0u8; VALUE_NAME_BYTES];
        put(&mut name, 0, &[table.number(), column.number()]);
        // A hash has one length, unlike values; a collision is found by the row's present value.
        let hash: KeyHash = self.pager.seal.hash(VALUE_DOMAIN, trimmed(value));
        put(&mut name, 2, part(&hash, 0, VALUE_NAME_BYTES - 2));
        name
    }

    /// Adds all deletes and updates to an empty summary.
    pub(crate) fn summarize(&mut self) -> Result<()> {
        for delete in RowId::between(self.dropped(DELETES), self.count(DELETES)) {
            let (table, id) = self.deleted_row(delete)?;
            self.summary.add_delete(table, id);
        }
        for update in RowId::between(self.dropped(UPDATES), self.count(UPDATES)) {
            let (table, column, id) = self.updated_place(update)?;
            self.summary.add_update(table, column, id);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A column beyond those of a table had no bit, so its updates were not seen: old values were
    /// shown.
    #[test]
    #[should_panic(expected = "a column of its table")]
    fn an_update_of_a_column_that_is_not_there_is_no_silence() {
        let mut summary = Summary::new(4096);
        let table = TableId::new(2);
        let last = ColumnId::new(31);
        summary.add_update(table, last, RowId::new(7));
        assert!(summary.has_updates(table, last) && !summary.has_updates(table, ID));
        summary.add_update(table, ColumnId::new(32), RowId::new(7));
    }
}
