//! Page logs: pages written one after the other to blocks of their own, read by number.
//!
//! The directory contains the block and the epoch of every 64 pages. Logs contain data that is
//! written once and as a whole. These are sorted runs and lists of a statement, which end with it,
//! and the reorganised part.

use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::directory::{Entry, TEMPORARY};
use crate::pager::error::{Error, Result};
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::pager::root::SecureStore;
use crate::pager::seal::{PageIdentity, ROLE_TEMPORARY};

/// A log that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    /// Owner of the directory entries of its blocks.
    pub(crate) owner: u8,
    /// Number of pages written.
    pub(crate) pages: u32,
}

impl Log {
    /// Closes page `number` of `area` and programs it as the next page of `log`.
    pub(crate) fn append<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        role: u8,
        area: Area,
        number: usize,
    ) -> Result<()> {
        let block = self.pages / BLOCK_PAGES;
        if self.pages.is_multiple_of(BLOCK_PAGES) {
            pager.log_block(self.owner, block)?;
        }
        loop {
            match self.program(pager, role, area, number) {
                Err(Error::Flash(FlashError::BadBlock)) => {
                    let identity = pager.log_identity(self.owner, role, self.pages)?;
                    pager
                        .root
                        .seal
                        .open(&identity, pager.arena.area_page(area, number))?;
                    self.move_block(pager, role)?;
                }
                result => return result,
            }
        }
    }

    /// Programs the next page of `log` once, in a block that the log already has.
    pub(crate) fn program<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        role: u8,
        area: Area,
        number: usize,
    ) -> Result<()> {
        let identity = pager.log_identity(self.owner, role, self.pages)?;
        pager
            .root
            .seal
            .close(&identity, pager.arena.area_page(area, number));
        if role == ROLE_TEMPORARY {
            pager.program_temporary(identity.page, area, number)?;
        } else {
            pager.program(identity.page, area, number)?;
        }
        self.pages += 1;
        Ok(())
    }

    /// Closes the first page of `area` and programs it as the next page of a log of the new part.
    pub(crate) fn append_or_fail<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        role: u8,
        area: Area,
    ) -> Result<()> {
        if self.pages.is_multiple_of(BLOCK_PAGES) {
            pager.log_block(self.owner, self.pages / BLOCK_PAGES)?;
        }
        self.program(pager, role, area, 0)?;
        pager.arena.area_mut(area).fill(0);
        Ok(())
    }

    /// Copies the pages of the last block of `log` to another block, because it failed.
    #[inline(never)] // Keeps its local variables off the stack where no block fails.
    fn move_block<F: Nand, S: SecureStore>(self, pager: &mut Pager<F, S>, role: u8) -> Result<()> {
        let block = self.pages / BLOCK_PAGES;
        let old = pager.root.entry(self.owner, block)?;
        'blocks: loop {
            pager.log_block(self.owner, block)?;
            let new = pager.root.entry(self.owner, block)?;
            let area = pager.arena.lease(1)?;
            for number in block * BLOCK_PAGES..self.pages {
                let place = |entry: &Entry| PageIdentity {
                    page: entry.page + number % BLOCK_PAGES,
                    epoch: entry.epoch,
                    role,
                    owner: self.owner,
                    number,
                };
                let frame = pager.load(&place(&old))?;
                pager.arena.copy_page(frame, area);
                pager
                    .root
                    .seal
                    .close(&place(&new), pager.arena.area_page(area, 0));
                match pager.program(place(&new).page, area, 0) {
                    Err(Error::Flash(FlashError::BadBlock)) => {
                        pager.arena.release(area);
                        continue 'blocks;
                    }
                    result => result?,
                }
            }
            pager.arena.release(area);
            return Ok(());
        }
    }
}

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Reads page `number` of the log of `owner`; returns its frame.
    pub(crate) fn log_load(&mut self, owner: u8, role: u8, number: u32) -> Result<usize> {
        let identity = self.log_identity(owner, role, number)?;
        self.load(&identity)
    }

    /// Continues a log of the new part after its first `pages` pages and all pages of abandoned
    /// tasks.
    pub(crate) fn continue_log(&mut self, owner: u8, pages: u32) -> Result<Log> {
        let mut log = Log { owner, pages };
        if !pages.is_multiple_of(BLOCK_PAGES) {
            let entry = self.root.entry(owner, pages / BLOCK_PAGES)?;
            let next = entry.page + pages % BLOCK_PAGES;
            if self.root.is_bad(entry.page / BLOCK_PAGES)?
                || !self.root.seal.is_present(entry.epoch)
                || !self.is_clean_behind(next)?
            {
                log.pages = pages.next_multiple_of(BLOCK_PAGES);
            }
        }
        Ok(log)
    }

    /// Returns whether a block can be continued at `page`. The pages behind it are looked at only
    /// where one was in the way before: the task that met it would meet it again each time.
    fn is_clean_behind(&mut self, page: u32) -> Result<bool> {
        let end = if self.suspects_blocks {
            page.next_multiple_of(BLOCK_PAGES)
        } else {
            page + 1
        };
        for page in page..end {
            if !self.is_clean(page)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records that a log has `blocks` blocks, if it is one of the part being built.
    fn note_growth(&mut self, owner: u8, blocks: u32) {
        let side = self.root.building_side();
        if self.root.committed.part.building {
            let logs = [side.body, side.lists].into_iter().zip(&mut self.grown);
            for (_, grown) in logs.filter(|(log, _)| *log == owner) {
                *grown = blocks.max(*grown);
            }
        }
    }

    /// Frees the temporary log of statements.
    pub(crate) fn drop_temporary(&mut self) -> Result<()> {
        if self.temporary.pages == 0 {
            return Ok(());
        }
        for block in 0..self.temporary.pages.div_ceil(BLOCK_PAGES) {
            let page = self.root.entry(TEMPORARY, block)?.page;
            self.blocks.free(page / BLOCK_PAGES);
        }
        self.temporary.pages = 0;
        self.root.disown(TEMPORARY)
    }

    /// Takes block number `block` of a log, and adds it to the directory.
    pub(crate) fn log_block(&mut self, owner: u8, block: u32) -> Result<()> {
        let entry = Entry {
            page: self.take_blocks(1)? * BLOCK_PAGES,
            epoch: self.root.next_epoch(),
            rows: 0,
        };
        self.root.set_entry(owner, block, &entry)?;
        self.note_growth(owner, block + 1);
        Ok(())
    }

    fn log_identity(&mut self, owner: u8, role: u8, number: u32) -> Result<PageIdentity> {
        let entry = self.root.entry(owner, number / BLOCK_PAGES)?;
        Ok(PageIdentity {
            page: entry.page + number % BLOCK_PAGES,
            epoch: entry.epoch,
            role,
            owner,
            number,
        })
    }
}
