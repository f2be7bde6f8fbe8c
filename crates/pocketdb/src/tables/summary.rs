//! The summary of deletes and updates in memory, which spares most searches for them.

use alloc::vec::Vec;

use crate::limits::{COLUMNS_MAX, TABLES_MAX};
use crate::pager::bytes::{has_bit, set_bit};
use crate::tables::catalogue::ID;
use crate::tables::id::{ColumnId, RowId, TableId};
use crate::tables::stretch::{Change, STRETCH_BYTES, Stretch};

/// Number of bits per entry in the summary's filter.
const SUMMARY_HASHES: u32 = 4;

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

    pub(super) fn may_hold(&self, entry: u64) -> bool {
        let mut positions = self.positions(entry);
        positions.all(|position| has_bit(&self.bits, position))
    }

    pub(super) fn add_delete(&mut self, table: TableId, id: RowId) {
        self.deleted |= table.bit();
        self.deletes.note_change(table, id);
        self.add(delete_entry(table, id));
    }

    pub(super) fn add_update(&mut self, table: TableId, column: ColumnId, id: RowId) {
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

pub(super) fn delete_entry(table: TableId, id: RowId) -> u64 {
    u64::from(table.number()) << 32 | u64::from(id.number())
}

pub(super) fn update_entry(table: TableId, column: ColumnId, id: RowId) -> u64 {
    1 << 63 | u64::from(column.number()) << 40 | delete_entry(table, id)
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
