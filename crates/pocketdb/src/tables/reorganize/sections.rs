//! The sections of a table: live bits, join rows, and columns by groups.

use crate::error::Result;
use crate::pager::Pager;
use crate::pager::bytes::{part_mut, put, set_bit};
use crate::pager::directory::Entry;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::seal::ROLE_PART;
use crate::tables::base::rows_per_page;
use crate::tables::change::Tables;
use crate::tables::id::{ID_BYTES, RowId, TableId};
use crate::tables::part::{GROUPS, JOINS, LIVE, LIVE_PER_PAGE, section_number};
use crate::tables::reorganize::Site;

impl Site {
    #[inline(never)] // Keeps its local variables off the stack of the other tasks.
    pub(super) fn build_section<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        table: TableId,
        section: u32,
    ) -> Result<()> {
        let start = self.body.pages;
        let frozen = self.frozen;
        let mut entry = Entry {
            page: start,
            epoch: 0,
            rows: 0,
        };
        if section == LIVE {
            entry.epoch = u64::from(frozen.rows(table)) | u64::from(frozen.first(table)) << 32;
            entry.rows = u16::from(self.build_live(tables, table)?);
        } else {
            self.build_records(tables, table, section)?;
        }
        Ok(tables.base.pager.root.set_entry(
            frozen.side.contents,
            section_number(table, section),
            &entry,
        )?)
    }

    /// Writes one bit for each row; returns whether some rows are not live.
    fn build_live<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        table: TableId,
    ) -> Result<bool> {
        let (first, rows) = (self.frozen.first(table), self.frozen.own(table));
        let until = self.until();
        let page = tables.base.pager.arena.lease(1)?;
        tables.base.pager.arena.area_mut(page).fill(0);
        let mut holes = false;
        // Deleted rows keep their places, so that a record is found by its id alone.
        for row in 0..rows {
            let bit = row % LIVE_PER_PAGE;
            if tables.was_deleted(table, RowId::after(first + row), until)? {
                holes = true;
            } else {
                set_bit(tables.base.pager.arena.area_mut(page), bit as usize);
            }
            if bit + 1 == LIVE_PER_PAGE || row + 1 == rows {
                self.body
                    .append_or_fail(&mut tables.base.pager, ROLE_PART, page)?;
            }
        }
        tables.base.pager.arena.release(page);
        Ok(holes)
    }

    /// Writes the records of a section for each row; zeros for deleted ones.
    fn build_records<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        table: TableId,
        section: u32,
    ) -> Result<()> {
        let (own, all) = tables.base.catalogue.widths(table);
        let width = match section {
            JOINS => all - own,
            _ => tables.base.catalogue.group_width(table, section - GROUPS),
        };
        let (first, rows) = (self.frozen.first(table), self.frozen.own(table));
        let per_page = rows_per_page(width);
        let page = tables.base.pager.arena.lease(1)?;
        tables.base.pager.arena.area_mut(page).fill(0);
        let mut record = Scratch::new(width);
        for row in 0..rows {
            let id = RowId::after(first + row);
            // A deleted row leaves zeros: nothing of it is copied under new keys.
            if self.lives(&mut tables.base.pager, table, id)? {
                if section == JOINS {
                    for (slot, place) in record.chunks_mut(ID_BYTES).enumerate() {
                        put(
                            place,
                            0,
                            &tables.base.join_id(table, id, slot)?.to_le_bytes(),
                        );
                    }
                } else {
                    self.copy_group(tables, table, section - GROUPS, id, &mut record)?;
                }
                let at = (row % per_page) as usize * width;
                put(tables.base.pager.arena.area_mut(page), at, &record);
            }
            if (row + 1).is_multiple_of(per_page) || row + 1 == rows {
                self.body
                    .append_or_fail(&mut tables.base.pager, ROLE_PART, page)?;
            }
        }
        tables.base.pager.arena.release(page);
        Ok(())
    }

    /// Copies the columns of a group as of the start of the reorganisation.
    fn copy_group<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        table: TableId,
        group: u32,
        id: RowId,
        record: &mut [u8],
    ) -> Result<()> {
        let until = self.until();
        for number in tables.base.catalogue.column_ids(table) {
            let column = tables.base.catalogue.column_at(table, number)?;
            if column.width == 0 || u32::from(column.group) != group {
                continue;
            }
            let at = usize::from(column.group_at);
            let place = part_mut(record, at, usize::from(column.width));
            tables.value_until(table, id, number, until, place)?;
        }
        Ok(())
    }

    /// Returns whether a row was live at the start of the reorganisation; its table's first section
    /// is written.
    pub(super) fn lives<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        table: TableId,
        id: RowId,
    ) -> Result<bool> {
        if !self.frozen.has_holes(table) {
            return Ok(true);
        }
        self.frozen.spot(table).lives(pager, table, id)
    }
}
