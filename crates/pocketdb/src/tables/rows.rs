//! Rows: insertion, and reading of their values and references.

use crate::error::{Error, Result};
use crate::limits::UNIT_ROWS;
use crate::pager::bytes::{part, put, take};
use crate::pager::error::Error as PagerError;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::seal::{PageIdentity, ROLE_JOIN};
use crate::tables::base::{Base, data_identity, owner_of, rows_per_page};
use crate::tables::catalogue::{Column, Kind};
use crate::tables::change::Tables;
use crate::tables::id::{ID_BYTES, RowId, TableId};
use crate::tables::store::Store;

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Appends a row in the open transaction and returns its id.
    ///
    /// `row` contains the stored columns in their layout. `references` contains the ids that its
    /// foreign keys refer to, in the order of the columns.
    ///
    /// # Errors
    /// [`Error::Value`] for a row of another width, [`Error::Key`] for a reference to a row that
    /// does not exist. [`Error::Limit`] when the transaction has too many rows (roll it back or
    /// commit it).
    pub fn insert(&mut self, table: TableId, row: &[u8], references: &[RowId]) -> Result<RowId> {
        self.usable()?;
        self.tables.prepare_change()?;
        let (own, all) = self.tables.base.catalogue.widths(table);
        self.tables.base.catalogue.entry(table)?;
        if row.len() != own {
            let text = alloc::format!("a row of table {table} has {own} bytes");
            return Err(Error::Value(text));
        }
        let mut element = Scratch::new(all);
        put(&mut element, 0, row);
        self.tables.insert_element(table, &mut element, references)
    }

    /// Copies the stored columns of the row `id` of `table` to `out`.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, [`Error::Tampered`] when it fails authentication.
    pub fn read(&mut self, table: TableId, id: RowId, out: &mut [u8]) -> Result<()> {
        self.usable()?;
        let own = self.tables.base.catalogue.widths(table).0;
        self.tables.base.catalogue.entry(table)?;
        self.tables.base.check_row(table, id)?;
        if out.len() != own {
            let text = alloc::format!("a row of table {table} has {own} bytes");
            return Err(Error::Value(text));
        }
        let Some(spot) = self.tables.base.spot(table, id) else {
            return self.tables.base.read_unit(table, id, 0, out);
        };
        for number in self.tables.base.catalogue.column_ids(table) {
            let column = self.tables.base.catalogue.column_at(table, number)?;
            let at = usize::from(column.at);
            if column.width > 0
                && let Some(place) = out.get_mut(at..at + usize::from(column.width))
            {
                spot.value(&mut self.tables.base, table, id, &column, place)?;
            }
        }
        Ok(())
    }

    /// Returns the id that the row `id` of `table` refers to through its slot number `slot`.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row or slot, [`Error::Tampered`] when it fails
    /// authentication.
    pub fn referenced(&mut self, table: TableId, id: RowId, slot: usize) -> Result<RowId> {
        self.usable()?;
        self.tables.base.check_row(table, id)?;
        if slot >= self.tables.base.catalogue.slots_of(table).len() {
            return Err(Error::Key(alloc::format!(
                "table {table} has no slot {slot}"
            )));
        }
        self.tables.base.join_id(table, id, slot)
    }
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Appends a row, after filling in its join row after its own columns.
    pub(crate) fn insert_element(
        &mut self,
        table: TableId,
        element: &mut [u8],
        references: &[RowId],
    ) -> Result<RowId> {
        let own = self.base.catalogue.widths(table).0;
        let (_, join) = element.split_at_mut(own);
        self.join_row(table, references, join)?;
        let id = self
            .base
            .count(table)
            .checked_add(1)
            .filter(|&id| id < 1 << 31)
            .map(RowId::new)
            .ok_or(Error::Limit("the number of rows"))?;
        self.base.append_or_poison(table, id, element)?;
        Ok(id)
    }

    /// Fills in the join row: the ids of all rows that a row with these references leads to.
    fn join_row(&mut self, table: TableId, references: &[RowId], join: &mut [u8]) -> Result<()> {
        let columns = self.base.catalogue.columns_of(table);
        let keys = columns.filter(|column| column.kind == Kind::Reference);
        if keys.count() != references.len() {
            let text = alloc::format!("table {table} has another number of references");
            return Err(Error::Value(text));
        }
        let mut number = 0;
        for at in 0..self.base.catalogue.slots_of(table).len() {
            let slot = self.base.catalogue.slot(table, at)?;
            let target = slot.table;
            let direct = usize::from(slot.direct);
            let id = if direct == at {
                let missing = Error::Defect("a direct slot is that of a reference");
                let id = references.get(number).copied().ok_or(missing)?;
                number += 1;
                self.base.check_row(target, id)?;
                id
            } else {
                let parent_table = self.base.catalogue.slot(table, direct)?.table;
                let parent_id = RowId::from_le_bytes(take(join, direct * ID_BYTES));
                self.base
                    .join_id(parent_table, parent_id, at - direct - 1)?
            };
            if self.base.is_hole(target, id)? || self.is_named_deleted(target, id)? {
                let name = self.base.catalogue.table_name(target);
                return Err(Error::Key(alloc::format!(
                    "{name} has no row {id} any more"
                )));
            }
            put(join, at * ID_BYTES, &id.to_le_bytes());
        }
        Ok(())
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Appends the row `id`, the next one of its table.
    pub(crate) fn append_or_poison(&mut self, table: TableId, id: RowId, row: &[u8]) -> Result<()> {
        if let Err(error) = self
            .pager
            .waiting()
            .append(owner_of(table), id.number(), row)
        {
            if !matches!(error, PagerError::Limit(_) | PagerError::DeviceFull) {
                self.pager.poison();
            }
            return Err(error.into());
        }
        let rows = self.rows.get_mut(table.place());
        *rows.ok_or(Error::Defect("a row is of a table that is counted"))? = id.number();
        Ok(())
    }

    /// Returns an error if no row has this id.
    pub(crate) fn check_row(&self, table: TableId, id: RowId) -> Result<()> {
        if id.number() == 0 || !id.is_within(self.count(table)) {
            let name = self.catalogue.table_name(table);
            return Err(Error::Key(alloc::format!("{name} has no row {id}")));
        }
        Ok(())
    }

    /// Copies the value of a stored column.
    pub(crate) fn value(
        &mut self,
        table: TableId,
        id: RowId,
        column: &Column,
        out: &mut [u8],
    ) -> Result<()> {
        match self.spot(table, id) {
            Some(spot) => spot.value(self, table, id, column, out),
            None => self.read_unit(table, id, usize::from(column.at), out),
        }
    }

    /// Copies bytes of a row of a hidden table.
    pub(crate) fn read_hidden(
        &mut self,
        table: TableId,
        id: RowId,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        match self.spot(table, id) {
            Some(spot) => spot.hidden(self, table, id, at, out),
            None => self.read_unit(table, id, at, out),
        }
    }

    /// Copies bytes of the stored columns of a row that is in no reorganised part.
    fn read_unit(&mut self, table: TableId, id: RowId, at: usize, out: &mut [u8]) -> Result<()> {
        if !id.is_within(self.placed(table)) {
            return Ok(self
                .pager
                .waiting()
                .read(owner_of(table), id.number(), at, out)?);
        }
        let (unit, slot) = place_of(id);
        let entry = self.pager.root.entry(owner_of(table), unit)?;
        let width = self.catalogue.widths(table).0;
        let per_page = rows_per_page(width);
        let page = entry.page + slot / per_page;
        let frame = self
            .pager
            .load(&data_identity(page, entry.epoch, table, unit))?;
        let from = (slot % per_page) as usize * width + at;
        out.copy_from_slice(part(self.pager.arena.page(frame), from, out.len()));
        Ok(())
    }

    /// Returns one id of a join row.
    pub(crate) fn join_id(&mut self, table: TableId, id: RowId, slot: usize) -> Result<RowId> {
        if let Some(spot) = self.spot(table, id) {
            return spot.join_id(self, table, id, slot);
        }
        let (own, all) = self.catalogue.widths(table);
        if !id.is_within(self.placed(table)) {
            let mut bytes = [0; ID_BYTES];
            self.pager.waiting().read(
                owner_of(table),
                id.number(),
                own + slot * ID_BYTES,
                &mut bytes,
            )?;
            return Ok(RowId::from_le_bytes(bytes));
        }
        let (unit, row) = place_of(id);
        let entry = self.pager.root.entry(owner_of(table), unit)?;
        let per_page = rows_per_page(all - own);
        let page = entry.page + pages_for(own) + row / per_page;
        let identity = PageIdentity {
            role: ROLE_JOIN,
            ..data_identity(page, entry.epoch, table, unit)
        };
        let frame = self.pager.load(&identity)?;
        let at = (row % per_page) as usize * (all - own) + slot * ID_BYTES;
        Ok(RowId::from_le_bytes(take(self.pager.arena.page(frame), at)))
    }
}

/// Returns unit and slot of a row.
fn place_of(id: RowId) -> (u32, u32) {
    (id.rank() / UNIT_ROWS, id.rank() % UNIT_ROWS)
}

/// Returns the number of pages of a unit's rows with `width` bytes each.
pub(crate) fn pages_for(width: usize) -> u32 {
    if width == 0 {
        0
    } else {
        UNIT_ROWS.div_ceil(rows_per_page(width))
    }
}
