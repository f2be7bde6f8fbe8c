//! Units: waiting rows of a table are moved from the buffer to a unit, all at once.

use crate::error::{Error, Result};
use crate::limits::UNIT_ROWS;
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{narrow, put, short};
use crate::pager::directory::Entry;
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::pager::root::{RootRecord, SecureStore};
use crate::pager::scratch::Scratch;
use crate::pager::seal::{PageIdentity, ROLE_DATA, ROLE_FILTER, ROLE_JOIN, ROLE_KEY};
use crate::tables::base::{Base, data_identity, owner_of, rows_per_page};
use crate::tables::change::Tables;
use crate::tables::id::TableId;
use crate::tables::rows::pages_for;

/// The place of a unit being built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) table: TableId,
    pub(crate) unit: u32,
    pub(crate) epoch: u64,
    /// The next page to program.
    pub(crate) page: u32,
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Completes the work that the last commit left, before any change. An error changes nothing.
    pub(crate) fn prepare_change(&mut self) -> Result<()> {
        let unsettled = |base: &Base<F, S>| {
            let mut tables = base.catalogue.table_ids();
            tables.any(|table| base.has_whole_unit(table)) || base.pager.is_window_long()
        };
        if self.base.has_changes() || !unsettled(&self.base) {
            return Ok(());
        }
        let result = self.settle();
        if matches!(&result, Err(error) if !error.is_refusal()) {
            self.base.pager.poison();
        }
        result
    }

    /// Moves committed rows to units, and shortens the window. If this is refused, nothing changes.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let result = self.settle_rows();
        if matches!(&result, Err(error) if error.is_refusal()) {
            self.base.pager.waiting().restore()?;
        }
        result
    }

    fn settle_rows(&mut self) -> Result<()> {
        for table in self.base.catalogue.table_ids() {
            while self.base.has_whole_unit(table) {
                self.place_unit(table)?;
            }
        }
        self.base.pager.waiting().trim()?;
        if self.base.pager.is_window_long() {
            self.base.pager.waiting().densify()?;
        }
        Ok(())
    }

    /// Moves the oldest waiting rows of `table`, all committed, to a new unit.
    pub(crate) fn place_unit(&mut self, table: TableId) -> Result<()> {
        let pages = self.base.unit_pages(table);
        let temporary = self.base.pager.temporary.pages;
        loop {
            let start = start_of(&mut self.base.pager, pages)?;
            // A unit that goes on in a block takes none, and its number is noted before it is used.
            let next = self.base.pager.window.next();
            self.base.pager.root.keep_numbers(next)?;
            let site = Site {
                table,
                unit: self.base.pager.root.committed.units(owner_of(table)),
                epoch: self.base.pager.root.committed.epoch,
                page: start,
            };
            let built = site.build(self);
            if built != Err(Error::Flash(FlashError::BadBlock)) && temporary == 0 {
                // A statement's own temporary log stays until the statement ends.
                self.base.pager.drop_temporary()?;
            }
            match built.and_then(|()| site.finish(&mut self.base, start, pages)) {
                Ok(()) => return Ok(()),
                Err(Error::Flash(FlashError::BadBlock)) => {
                    abandon(&mut self.base.pager, start, pages);
                }
                Err(error) => {
                    abandon(&mut self.base.pager, start, pages);
                    return Err(error);
                }
            }
        }
    }
}

impl Site {
    fn build<F: Nand, S: SecureStore>(mut self, tables: &mut Tables<F, S>) -> Result<()> {
        tables.base.pager.arena.reset();
        let (own, all) = tables.base.catalogue.widths(self.table);
        let area = tables.base.pager.arena.lease(1)?;
        self.build_rows(&mut tables.base, ROLE_DATA, 0, own, area)?;
        self.build_rows(&mut tables.base, ROLE_JOIN, own, all - own, area)?;
        tables.base.pager.arena.release(area);
        self.build_indexes(tables)
    }

    /// Programs `width` bytes from offset `from` of every row of the unit.
    #[inline(never)] // Keeps its local variables off the stack of the indexes.
    fn build_rows<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
        role: u8,
        from: usize,
        width: usize,
        area: Area,
    ) -> Result<()> {
        let per_page = rows_per_page(width);
        let first = self.unit * UNIT_ROWS + 1;
        let mut row = Scratch::new(width);
        for page in 0..pages_for(width) {
            base.pager.arena.area_mut(area).fill(0);
            for slot in 0..per_page.min(UNIT_ROWS - page * per_page) {
                let id = first + page * per_page + slot;
                base.pager
                    .waiting()
                    .read(owner_of(self.table), id, from, &mut row)?;
                let at = slot as usize * width;
                put(base.pager.arena.area_mut(area), at, &row);
            }
            self.program(&mut base.pager, role, area, 0)?;
        }
        Ok(())
    }

    /// Closes and programs page `number` of `area` as the next page of the unit.
    pub(crate) fn program<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        role: u8,
        area: Area,
        number: usize,
    ) -> Result<()> {
        let identity = PageIdentity {
            role,
            ..data_identity(self.page, self.epoch, self.table, self.unit)
        };
        pager
            .root
            .seal
            .close(&identity, pager.arena.area_page(area, number));
        pager.program(self.page, area, number)?;
        self.page += 1;
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack while the unit is built.
    fn finish<F: Nand, S: SecureStore>(
        self,
        base: &mut Base<F, S>,
        start: u32,
        pages: u32,
    ) -> Result<()> {
        let entry = Entry {
            page: start,
            epoch: self.epoch,
            rows: short(UNIT_ROWS as usize),
        };
        base.pager
            .root
            .set_entry(owner_of(self.table), self.unit, &entry)?;
        let mut record: RootRecord = base.pager.next_record()?;
        record.unit_next = start + pages;
        record.epoch += 1;
        if let Some(state) = record.tables.get_mut(self.table.place()) {
            state.units += 1;
        }
        let owner = owner_of(self.table);
        base.pager
            .root
            .count_entry(&mut record.directory, owner, self.unit, &entry);
        record.buffer_start = base.pager.window.oldest(&record);
        Ok(base.pager.root.finish(&record)?)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Returns the number of pages of a unit of `table`: rows, join rows, and a pair for every
    /// index.
    pub(crate) fn unit_pages(&self, table: TableId) -> u32 {
        let (own, all) = self.catalogue.widths(table);
        let indexes = narrow(self.catalogue.indexes_of(table).len());
        pages_for(own) + pages_for(all - own) + 2 * indexes
    }

    /// Reads every page of a unit.
    pub(crate) fn verify_unit(&mut self, table: TableId, unit: u32) -> Result<u64> {
        let (own, all) = self.catalogue.widths(table);
        let (data, join) = (pages_for(own), pages_for(all - own));
        let entry = self.pager.root.entry(owner_of(table), unit)?;
        let pages = self.unit_pages(table);
        for page in 0..pages {
            let role = match page {
                _ if page < data => ROLE_DATA,
                _ if page < data + join => ROLE_JOIN,
                _ if (page - data - join).is_multiple_of(2) => ROLE_KEY,
                _ => ROLE_FILTER,
            };
            self.pager.load(&PageIdentity {
                role,
                ..data_identity(entry.page + page, entry.epoch, table, unit)
            })?;
        }
        Ok(u64::from(pages))
    }
}

/// Returns the first of `pages` adjacent pages: after the last unit, or in new blocks.
fn start_of<F: Nand, S: SecureStore>(pager: &mut Pager<F, S>, pages: u32) -> Result<u32> {
    let next = pager.root.committed.unit_next;
    if !next.is_multiple_of(BLOCK_PAGES) {
        let first = next / BLOCK_PAGES + 1;
        let last = (next + pages - 1) / BLOCK_PAGES;
        if (first..=last).all(|block| pager.blocks.is_free(block)) {
            (first..=last).for_each(|block| pager.blocks.mark(block));
            return Ok(next);
        }
    }
    let block = pager.take_blocks(pages.div_ceil(BLOCK_PAGES))?;
    Ok(block * BLOCK_PAGES)
}

/// Abandons the programmed pages of a unit; the next attempt uses other pages.
fn abandon<F: Nand, S: SecureStore>(pager: &mut Pager<F, S>, start: u32, pages: u32) {
    let last = (start + pages - 1) / BLOCK_PAGES;
    (start.div_ceil(BLOCK_PAGES)..=last).for_each(|block| pager.blocks.free(block));
    pager.root.committed.unit_next = 0;
    pager.root.committed.epoch += 1;
}
