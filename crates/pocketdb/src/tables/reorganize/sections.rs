//! The sections of a table: live bits, join rows, and columns by groups.

use crate::error::Result;
use crate::pager::bytes::{part_mut, put, set_bit};
use crate::pager::directory::Entry;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::seal::ROLE_PART;
use crate::tables::base::{Base, rows_per_page};
use crate::tables::change::Tables;
use crate::tables::id::{ID_BYTES, RowId, TableId};
use crate::tables::part::{GROUPS, JOINS, LIVE, LIVE_PER_PAGE, section_number};
use crate::tables::reorganize::Site;

impl<F: Nand, S: SecureStore> Tables<F, S> {
    #[inline(never)] // Keeps its local variables off the stack of the other tasks.
    pub(super) fn build_section(
        &mut self,
        site: &mut Site,
        table: TableId,
        section: u32,
    ) -> Result<()> {
        let start = site.body.pages;
        let frozen = site.frozen;
        let mut entry = Entry {
            page: start,
            epoch: 0,
            rows: 0,
        };
        if section == LIVE {
            entry.epoch = u64::from(frozen.rows(table)) | u64::from(frozen.first(table)) << 32;
            entry.rows = u16::from(self.build_live(site, table)?);
        } else {
            self.build_records(site, table, section)?;
        }
        Ok(self.base.pager.set_entry(
            frozen.side.contents,
            section_number(table, section),
            &entry,
        )?)
    }

    /// Writes one bit for each row; returns whether some rows are not live.
    fn build_live(&mut self, site: &mut Site, table: TableId) -> Result<bool> {
        let (first, rows) = (site.frozen.first(table), site.frozen.own(table));
        let until = site.until();
        let page = self.base.pager.arena.lease(1)?;
        self.base.pager.arena.area_mut(page).fill(0);
        let mut holes = false;
        // Deleted rows keep their places, so that a record is found by its id alone.
        for row in 0..rows {
            let bit = row % LIVE_PER_PAGE;
            if self.was_deleted(table, RowId::after(first + row), until)? {
                holes = true;
            } else {
                set_bit(self.base.pager.arena.area_mut(page), bit as usize);
            }
            if bit + 1 == LIVE_PER_PAGE || row + 1 == rows {
                self.base
                    .pager
                    .part_append(&mut site.body, ROLE_PART, page)?;
            }
        }
        self.base.pager.arena.release(page);
        Ok(holes)
    }

    /// Writes the records of a section for each row; zeros for deleted ones.
    fn build_records(&mut self, site: &mut Site, table: TableId, section: u32) -> Result<()> {
        let (own, all) = self.base.catalogue.widths(table);
        let width = match section {
            JOINS => all - own,
            _ => self.base.catalogue.group_width(table, section - GROUPS),
        };
        let (first, rows) = (site.frozen.first(table), site.frozen.own(table));
        let per_page = rows_per_page(width);
        let page = self.base.pager.arena.lease(1)?;
        self.base.pager.arena.area_mut(page).fill(0);
        let mut record = Scratch::new(width);
        for row in 0..rows {
            let id = RowId::after(first + row);
            // A deleted row leaves zeros: nothing of it is copied under new keys.
            if self.base.lives_at(site, table, id)? {
                if section == JOINS {
                    for (slot, place) in record.chunks_mut(ID_BYTES).enumerate() {
                        put(place, 0, &self.base.join_id(table, id, slot)?.to_le_bytes());
                    }
                } else {
                    self.copy_group(site, table, section - GROUPS, id, &mut record)?;
                }
                let at = (row % per_page) as usize * width;
                put(self.base.pager.arena.area_mut(page), at, &record);
            }
            if (row + 1).is_multiple_of(per_page) || row + 1 == rows {
                self.base
                    .pager
                    .part_append(&mut site.body, ROLE_PART, page)?;
            }
        }
        self.base.pager.arena.release(page);
        Ok(())
    }

    /// Copies the columns of a group as of the start of the reorganisation.
    fn copy_group(
        &mut self,
        site: &Site,
        table: TableId,
        group: u32,
        id: RowId,
        record: &mut [u8],
    ) -> Result<()> {
        let until = site.until();
        for number in self.base.catalogue.column_ids(table) {
            let column = self.base.catalogue.column_at(table, number)?;
            if column.width == 0 || u32::from(column.group) != group {
                continue;
            }
            let at = usize::from(column.group_at);
            let place = part_mut(record, at, usize::from(column.width));
            self.value_until(table, id, number, until, place)?;
        }
        Ok(())
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Returns whether a row was live at the start of the reorganisation; its table's first section
    /// is written.
    pub(super) fn lives_at(&mut self, site: &Site, table: TableId, id: RowId) -> Result<bool> {
        if !site.frozen.has_holes(table) {
            return Ok(true);
        }
        site.frozen.spot(table).lives(&mut self.pager, table, id)
    }
}
