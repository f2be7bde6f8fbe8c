//! The base of the tables: rows with the values with which they were inserted, as they lie in
//! parts, in units and in the buffer. Deletes and updates are above it, in `change`.

use crate::limits::{PARTS_MAX, TABLES_MAX, UNIT_ROWS};
use crate::pager::Pager;
use crate::pager::bytes::narrow;
use crate::pager::flash::Nand;
use crate::pager::list::List;
use crate::pager::root::SecureStore;
use crate::pager::seal::{PAYLOAD_BYTES, PageIdentity, ROLE_DATA};
use crate::pager::window::{placed_in, waiting_pages};
use crate::tables::catalogue::Catalogue;
use crate::tables::id::TableId;
use crate::tables::part::Part;

/// Rows as they were inserted: the pages, the tables that they belong to, and how many there are.
pub(crate) struct Base<F: Nand, S: SecureStore> {
    pub(crate) pager: Pager<F, S>,
    pub(crate) catalogue: Catalogue,
    /// Number of rows of every table, including those of the open transaction (the paper's End).
    pub(crate) rows: [u32; TABLES_MAX],
    /// The state of the reorganised parts, the oldest first.
    pub(crate) parts: List<Part, PARTS_MAX>,
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Returns the number of rows of `table`, including those of the open transaction.
    pub(crate) fn count(&self, table: TableId) -> u32 {
        self.rows.get(table.place()).copied().unwrap_or(0)
    }

    /// Returns whether the open transaction inserted, updated or deleted anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.rows != self.pager.root.committed.tables.map(|table| table.rows)
    }

    /// Returns the number of rows of `table` that are in units; later ones wait in the buffer.
    pub(crate) fn placed(&self, table: TableId) -> u32 {
        placed_in(&self.pager.root.committed, owner_of(table))
    }

    /// Returns the units of `table` with rows that are in no reorganised part.
    pub(crate) fn units(&self, table: TableId) -> core::ops::Range<u32> {
        self.first_unit(table)..self.pager.root.committed.units(owner_of(table))
    }

    /// Returns the first unit that may contain rows that are in no reorganised part.
    pub(crate) fn first_unit(&self, table: TableId) -> u32 {
        self.part_rows(table) / UNIT_ROWS
    }

    /// Returns whether enough committed rows of `table` wait to fill a unit.
    pub(crate) fn has_whole_unit(&self, table: TableId) -> bool {
        self.committed_rows(table) - self.placed(table) >= UNIT_ROWS
    }

    fn committed_rows(&self, table: TableId) -> u32 {
        self.pager
            .root
            .committed
            .tables
            .get(table.place())
            .map_or(0, |state| state.rows)
    }
}

/// Returns the identity of a page of rows.
pub(crate) fn data_identity(page: u32, epoch: u64, table: TableId, unit: u32) -> PageIdentity {
    PageIdentity {
        page,
        epoch,
        role: ROLE_DATA,
        owner: owner_of(table),
        number: unit,
    }
}

/// Returns the number of rows of `width` bytes per page.
pub(crate) fn rows_per_page(width: usize) -> u32 {
    narrow(PAYLOAD_BYTES / width.max(1)).max(1)
}

/// Returns the greatest number of pages of waiting rows of all tables.
pub(crate) fn waiting_pages_of(catalogue: &Catalogue) -> usize {
    let pages = |table: TableId| waiting_pages(catalogue.widths(table).1);
    catalogue.table_ids().map(pages).sum()
}

/// Returns the owner number of a table's units.
pub(crate) fn owner_of(table: TableId) -> u8 {
    table.number()
}
