//! Units: waiting rows of a table are moved from the buffer to a unit, all at once.

use crate::error::{Error, Result};
use crate::limits::UNIT_ROWS;
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
            self.base.pager.restore_window()?;
        }
        result
    }

    fn settle_rows(&mut self) -> Result<()> {
        for table in self.base.catalogue.table_ids() {
            while self.base.has_whole_unit(table) {
                self.place_unit(table)?;
            }
        }
        self.base.pager.trim_window()?;
        if self.base.pager.is_window_long() {
            self.base.pager.densify()?;
        }
        Ok(())
    }

    /// Moves the oldest waiting rows of `table`, all committed, to a new unit.
    pub(crate) fn place_unit(&mut self, table: TableId) -> Result<()> {
        let pages = self.base.unit_pages(table);
        let temporary = self.base.pager.temporary.pages;
        loop {
            let start = self.base.unit_start(pages)?;
            let site = Site {
                table,
                unit: self.base.pager.committed.units(owner_of(table)),
                epoch: self.base.pager.committed.epoch,
                page: start,
            };
            let built = self.build_unit(site);
            if built != Err(Error::Flash(FlashError::BadBlock)) && temporary == 0 {
                // A statement's own temporary log stays until the statement ends.
                self.base.pager.drop_temporary()?;
            }
            match built.and_then(|()| self.base.finish_unit(site, start, pages)) {
                Ok(()) => return Ok(()),
                Err(Error::Flash(FlashError::BadBlock)) => self.base.abandon(start, pages),
                Err(error) => {
                    self.base.abandon(start, pages);
                    return Err(error);
                }
            }
        }
    }

    fn build_unit(&mut self, mut site: Site) -> Result<()> {
        self.base.pager.arena.reset();
        let (own, all) = self.base.catalogue.widths(site.table);
        let area = self.base.pager.arena.lease(1)?;
        self.base.build_rows(&mut site, ROLE_DATA, 0, own, area)?;
        self.base
            .build_rows(&mut site, ROLE_JOIN, own, all - own, area)?;
        self.base.pager.arena.release(area);
        self.build_indexes(&mut site)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    #[inline(never)] // Keeps its local variables off the stack while the unit is built.
    fn finish_unit(&mut self, site: Site, start: u32, pages: u32) -> Result<()> {
        let entry = Entry {
            page: start,
            epoch: site.epoch,
            rows: short(UNIT_ROWS as usize),
        };
        self.pager
            .set_entry(owner_of(site.table), site.unit, &entry)?;
        let mut record: RootRecord = self.pager.next_record()?;
        record.unit_next = start + pages;
        record.epoch += 1;
        if let Some(state) = record.tables.get_mut(site.table.place()) {
            state.units += 1;
        }
        let owner = owner_of(site.table);
        self.pager
            .count_entry(&mut record.directory, owner, site.unit, &entry);
        record.buffer_start = self.pager.window.oldest(&record);
        Ok(self.pager.finish(&record)?)
    }

    /// Returns the first of `pages` adjacent pages: after the last unit, or in new blocks.
    fn unit_start(&mut self, pages: u32) -> Result<u32> {
        let next = self.pager.committed.unit_next;
        if !next.is_multiple_of(BLOCK_PAGES) {
            let first = next / BLOCK_PAGES + 1;
            let last = (next + pages - 1) / BLOCK_PAGES;
            if (first..=last).all(|block| self.pager.blocks.is_free(block)) {
                (first..=last).for_each(|block| self.pager.blocks.mark(block));
                return Ok(next);
            }
        }
        let block = self.pager.take_blocks(pages.div_ceil(BLOCK_PAGES))?;
        Ok(block * BLOCK_PAGES)
    }

    /// Abandons the programmed pages of a unit; the next attempt uses other pages.
    fn abandon(&mut self, start: u32, pages: u32) {
        let last = (start + pages - 1) / BLOCK_PAGES;
        (start.div_ceil(BLOCK_PAGES)..=last).for_each(|block| self.pager.blocks.free(block));
        self.pager.committed.unit_next = 0;
        self.pager.committed.epoch += 1;
    }

    /// Programs `width` bytes from offset `from` of every row of the unit.
    #[inline(never)] // Keeps its local variables off the stack of the indexes.
    fn build_rows(
        &mut self,
        site: &mut Site,
        role: u8,
        from: usize,
        width: usize,
        area: Area,
    ) -> Result<()> {
        let per_page = rows_per_page(width);
        let first = site.unit * UNIT_ROWS + 1;
        let mut row = Scratch::new(width);
        for page in 0..pages_for(width) {
            self.pager.arena.area_mut(area).fill(0);
            for slot in 0..per_page.min(UNIT_ROWS - page * per_page) {
                let id = first + page * per_page + slot;
                self.pager
                    .read_waiting(owner_of(site.table), id, from, &mut row)?;
                let at = slot as usize * width;
                put(self.pager.arena.area_mut(area), at, &row);
            }
            self.program_unit_page(site, role, area, 0)?;
        }
        Ok(())
    }

    /// Closes and programs page `number` of `area` as the next page of the unit.
    pub(crate) fn program_unit_page(
        &mut self,
        site: &mut Site,
        role: u8,
        area: Area,
        number: usize,
    ) -> Result<()> {
        let identity = PageIdentity {
            role,
            ..data_identity(site.page, site.epoch, site.table, site.unit)
        };
        self.pager
            .seal
            .close(&identity, self.pager.arena.area_page(area, number));
        self.pager.program(site.page, area, number)?;
        site.page += 1;
        Ok(())
    }

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
        let entry = self.pager.entry(owner_of(table), unit)?;
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
