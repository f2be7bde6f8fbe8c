//! Reorganised parts: rows by column groups, and the sorted keys of every index.
//!
//! "Reorganisation" in `docs/pocketdb-format.md`. A part is written once, to two logs: one for the lists of ids,
//! one for all other data. The secure store has one entry for each section and index, with its
//! place. Each part has a side, which is a set of owners and a generation of keys. There is one
//! more side than parts in use, so that the next part can be built beside them.

use crate::error::{Error, Result};
use crate::limits::{COLUMNS_MAX, INDEXES_MAX, TABLES_MAX};
use crate::pager::Pager;
use crate::pager::bytes::{has_bit, narrow, part};
use crate::pager::directory::Entry;
pub(crate) use crate::pager::directory_code::SECTIONS_MAX;
use crate::pager::flash::{BLOCK_PAGES, Nand};
use crate::pager::list::List;
use crate::pager::root::SecureStore;
use crate::pager::seal::{PAYLOAD_BYTES, ROLE_LIST, ROLE_PART};
use crate::pager::side::Side;
use crate::tables::base::{Base, rows_per_page};
use crate::tables::catalogue::{Catalogue, Column};
use crate::tables::id::{ID_BYTES, RowId, TableId};
use crate::tables::keys::verify_keys;
use crate::tables::store::Store;

/// The section with one bit for each row of a table: set if the row is live.
pub(crate) const LIVE: u32 = 0;
/// The section of join rows.
pub(crate) const JOINS: u32 = 1;
/// The section of the first group of columns.
pub(crate) const GROUPS: u32 = 2;
const _: () = assert!(SECTIONS_MAX as usize == COLUMNS_MAX + GROUPS as usize + 1);
/// Number of rows whose bits fit on one page.
pub(crate) const LIVE_PER_PAGE: u32 = 16_256;
const _: () = assert!(LIVE_PER_PAGE as usize == PAYLOAD_BYTES * 8);

/// The state of a part in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) side: Side,
    /// Number of rows of each table that are older than those of the part.
    first: [u32; TABLES_MAX],
    /// The last row of each table in the part. The rows after `first` up to it are in the part,
    /// also deleted ones.
    rows: [u32; TABLES_MAX],
    /// Bit set of the tables with deleted rows in the part.
    holes: u32,
}

impl Part {
    /// Returns the last row of `table` in the part.
    pub(crate) fn rows(&self, table: TableId) -> u32 {
        self.rows.get(table.place()).copied().unwrap_or(0)
    }

    /// Returns the number of rows of `table` that are older than those of the part.
    pub(crate) fn first(&self, table: TableId) -> u32 {
        self.first.get(table.place()).copied().unwrap_or(0)
    }

    /// Returns the number of rows of `table` in the part.
    pub(crate) fn own(&self, table: TableId) -> u32 {
        self.rows(table).saturating_sub(self.first(table))
    }

    /// Returns the place of `table`'s rows in the part.
    pub(crate) fn spot(&self, table: TableId) -> Spot {
        Spot {
            side: self.side,
            first: self.first(table),
        }
    }

    /// Returns whether some rows of `table` in the part are deleted.
    pub(crate) fn has_holes(&self, table: TableId) -> bool {
        self.holes & table.bit() != 0
    }

    /// Reads the state of the part on `side`.
    pub(crate) fn read<F: Nand, S: SecureStore>(base: &mut Base<F, S>, side: Side) -> Result<Self> {
        let mut found = Self {
            side,
            ..Self::default()
        };
        for table in base.catalogue.table_ids() {
            let Some(entry) = section_entry(&mut base.pager, side, table, LIVE)? else {
                continue;
            };
            // The last row and the number of older rows; then, whether some rows are not live.
            let (rows, first) = halves(entry.epoch);
            if let Some(place) = found.rows.get_mut(table.place()) {
                *place = rows;
            }
            if let Some(place) = found.first.get_mut(table.place()) {
                *place = first;
            }
            found.holes |= u32::from(entry.rows) * table.bit();
        }
        Ok(found)
    }

    fn verify<F: Nand, S: SecureStore>(&self, base: &mut Base<F, S>) -> Result<u64> {
        let side = self.side;
        let mut checked = 0u64;
        for table in base.catalogue.table_ids() {
            if self.own(table) == 0 {
                continue;
            }
            for section in 0..SECTIONS_MAX {
                let pages = section_pages(&base.catalogue, table, section, self.own(table));
                for page in 0..pages {
                    section_frame(&mut base.pager, side, table, section, page)?;
                }
                checked += u64::from(pages);
            }
            for index in base.catalogue.indexes_of(table) {
                checked += verify_keys(base, side, index)?;
            }
        }
        Ok(checked)
    }
}

/// The place of rows in a part: its owners, and the number of rows that are older than the part's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) side: Side,
    first: u32,
}

impl Spot {
    /// Returns the rank of the row `id` in the part.
    ///
    /// # Errors
    /// The row is older than the part: the first one in its place would be another row.
    fn rank(self, id: RowId) -> Result<u32> {
        id.number().checked_sub(self.first + 1).ok_or(Error::Defect(
            "a row is sought in a part that begins after it",
        ))
    }

    /// Copies the value of a column of a row in a part.
    pub(crate) fn value<F: Nand, S: SecureStore>(
        self,
        base: &mut Base<F, S>,
        table: TableId,
        id: RowId,
        column: &Column,
        out: &mut [u8],
    ) -> Result<()> {
        let width = usize::from(column.group_width);
        let section = GROUPS + u32::from(column.group);
        let at = usize::from(column.group_at);
        self.bytes(&mut base.pager, (table, section), id, (width, at), out)
    }

    /// Copies bytes of a row of a hidden table in a part; its columns are one group.
    pub(crate) fn hidden<F: Nand, S: SecureStore>(
        self,
        base: &mut Base<F, S>,
        table: TableId,
        id: RowId,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let width = base.catalogue.widths(table).0;
        self.bytes(&mut base.pager, (table, GROUPS), id, (width, at), out)
    }

    /// Returns one id of a join row in a part.
    pub(crate) fn join_id<F: Nand, S: SecureStore>(
        self,
        base: &mut Base<F, S>,
        table: TableId,
        id: RowId,
        slot: usize,
    ) -> Result<RowId> {
        let (own, all) = base.catalogue.widths(table);
        let mut bytes = [0; ID_BYTES];
        let place = (all - own, slot * ID_BYTES);
        self.bytes(&mut base.pager, (table, JOINS), id, place, &mut bytes)?;
        Ok(RowId::from_le_bytes(bytes))
    }

    /// Returns whether a part contains the row as live.
    pub(crate) fn lives<F: Nand, S: SecureStore>(
        self,
        pager: &mut Pager<F, S>,
        table: TableId,
        id: RowId,
    ) -> Result<bool> {
        let row = self.rank(id)?;
        let frame = section_frame(pager, self.side, table, LIVE, row / LIVE_PER_PAGE)?;
        let bit = row % LIVE_PER_PAGE;
        Ok(has_bit(pager.arena.page(frame), bit as usize))
    }

    fn bytes<F: Nand, S: SecureStore>(
        self,
        pager: &mut Pager<F, S>,
        (table, section): (TableId, u32),
        id: RowId,
        (width, at): (usize, usize),
        out: &mut [u8],
    ) -> Result<()> {
        let per_page = rows_per_page(width);
        let row = self.rank(id)?;
        let frame = section_frame(pager, self.side, table, section, row / per_page)?;
        let at = (row % per_page) as usize * width + at;
        out.copy_from_slice(part(pager.arena.page(frame), at, out.len()));
        Ok(())
    }
}

/// Returns the number of a section's directory entry.
pub(crate) fn section_number(table: TableId, section: u32) -> u32 {
    narrow(INDEXES_MAX) + u32::from(table.number()) * SECTIONS_MAX + section
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Calls `run` for each run of pages of the parts in use, with its first page and its length,
    /// in the order of writing. The pages do not change until the next reorganisation has ended.
    /// Each page is authenticated, also one without data of a table.
    ///
    /// # Errors
    /// A page was changed or cannot be read, or the secure store cannot be read.
    pub fn part_pages(&mut self, run: &mut dyn FnMut(u32, u32)) -> Result<()> {
        self.usable()?;
        let state = self.tables.base.pager.root.committed.part;
        for level in state.live() {
            let side = Side::new(level.side);
            let logs = [
                (side.body, ROLE_PART, level.body),
                (side.lists, ROLE_LIST, level.lists),
            ];
            for (owner, role, pages) in logs {
                for page in 0..pages {
                    self.tables.base.pager.log_load(owner, role, page)?;
                }
                for block in 0..pages.div_ceil(BLOCK_PAGES) {
                    let first = self.tables.base.pager.root.entry(owner, block)?.page;
                    run(first, (pages - block * BLOCK_PAGES).min(BLOCK_PAGES));
                }
            }
        }
        Ok(())
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Returns the number of rows of `table` in parts, including those removed from hidden tables.
    pub(crate) fn part_rows(&self, table: TableId) -> u32 {
        self.parts.last().map_or(0, |part| part.rows(table))
    }

    /// Returns the number of rows of a hidden table that are applied in all parts and removed.
    pub(crate) fn dropped(&self, table: TableId) -> u32 {
        self.parts.first().map_or(0, |part| part.first(table))
    }

    /// Returns the place of a row in a part; `None` if it is newer than all parts.
    pub(crate) fn spot(&self, table: TableId, id: RowId) -> Option<Spot> {
        // Parts are in the order of their rows: the first that reaches the id has it.
        let part = self
            .parts
            .iter()
            .find(|part| id.is_within(part.rows(table)))?;
        Some(part.spot(table))
    }

    /// Reads the state of the parts in use.
    pub(crate) fn read_parts(&mut self) -> Result<()> {
        self.parts = List::new();
        let state = self.pager.root.committed.part;
        for level in state.live() {
            let part = Part::read(self, Side::new(level.side))?;
            self.parts.push(part, "the number of parts")?;
        }
        self.describe_units()
    }

    /// Returns whether the row is in a part, and was deleted before the part was built.
    pub(crate) fn is_hole(&mut self, table: TableId, id: RowId) -> Result<bool> {
        let mut parts = self.parts.iter();
        match parts.find(|part| id.is_within(part.rows(table))) {
            Some(part) if part.has_holes(table) => {
                let spot = part.spot(table);
                Ok(!spot.lives(&mut self.pager, table, id)?)
            }
            _ => Ok(false),
        }
    }

    /// Reads every page of the parts in use.
    pub(crate) fn verify_parts(&mut self) -> Result<u64> {
        let mut checked = 0;
        for number in 0..self.parts.len() {
            let part = self.parts.get(number).copied();
            checked += part.ok_or(Error::Root("lacks a part"))?.verify(self)?;
        }
        Ok(checked)
    }
}

/// Returns the lower and the upper half of a number.
pub(crate) fn halves(number: u64) -> (u32, u32) {
    let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    (low(number), low(number >> 32))
}

/// Reads the page of a section that contains record number `number`; returns its frame.
fn section_frame<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    side: Side,
    table: TableId,
    section: u32,
    page: u32,
) -> Result<usize> {
    let entry = section_entry(pager, side, table, section)?;
    let start = entry.ok_or(Error::Root("lacks a section"))?.page;
    Ok(pager.log_load(side.body, ROLE_PART, start + page)?)
}

/// Returns the entry of a section; `None` for a table that is younger than the part.
pub(crate) fn section_entry<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    side: Side,
    table: TableId,
    section: u32,
) -> Result<Option<Entry>> {
    Ok(pager
        .root
        .entry_if_any(side.contents, section_number(table, section))?)
}

/// Returns the number of pages of a section with `rows` rows; 0 for a section that the table
/// does not have.
pub(crate) fn section_pages(catalogue: &Catalogue, table: TableId, section: u32, rows: u32) -> u32 {
    let width = match section {
        LIVE => return rows.div_ceil(LIVE_PER_PAGE),
        JOINS => {
            let (own, all) = catalogue.widths(table);
            all - own
        }
        _ => catalogue.group_width(table, section - GROUPS),
    };
    if width == 0 {
        return 0;
    }
    rows.div_ceil(rows_per_page(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row sought in a part that begins after it was taken for the first row of the part.
    #[test]
    fn a_row_before_its_part_is_not_the_first_of_it() {
        let spot = Spot {
            side: Side::new(1),
            first: 7,
        };
        let rank = |id| spot.rank(RowId::new(id));
        assert_eq!((rank(8), rank(10)), (Ok(0), Ok(2)));
        assert!(matches!(rank(7), Err(Error::Defect(_))));
    }
}
