//! What an opening does: read the committed window, and continue behind everything left over.

use alloc::vec::Vec;

use crate::arena::Arena;
use crate::bytes::{narrow, put};
use crate::catalogue::Catalogue;
use crate::directory::{TEMPORARY, owner_of};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, FlashError, Nand, PageState, SECTOR_BYTES};
use crate::memory::Plan;
use crate::part::{Side, all_sides};
use crate::root::{CatalogueState, Level, SecureStore, read_generation, write_generation};
use crate::seal::{PAYLOAD_BYTES, PageIdentity, ROLE_CATALOGUE};
use crate::store::Store;
use crate::window::Window;

/// Distance between the numbers that two openings give to what they write.
const NUMBERS_PER_OPENING: u64 = 1 << 20;

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Restores the committed state and continues behind everything an earlier opening left.
    pub(crate) fn recover(&mut self, memory: usize) -> Result<()> {
        self.read_generations()?;
        self.read_structure()?;
        self.clear_blocks()?;
        self.adopt_catalogue(memory)?;
        self.read_parts()?;
        self.mark_blocks()?;
        self.reload_window()?;
        if !self.committed.unit_next.is_multiple_of(BLOCK_PAGES)
            && !self.is_clean(self.committed.unit_next)?
        {
            self.committed.unit_next = 0;
        }
        // No number that an interrupted transaction may have used comes again.
        self.committed.epoch += NUMBERS_PER_OPENING;
        self.window.skip(NUMBERS_PER_OPENING);
        let record = self.next_record()?;
        self.finish(&record)?;
        self.summarize()
    }

    /// Takes the keys of the generations that are in use, and destroys what an interrupted end of
    /// a reorganisation left of an older one.
    fn read_generations(&mut self) -> Result<()> {
        let part = self.committed.part;
        self.seal.turn(part.generations());
        for side in all_sides() {
            let secret = read_generation(&mut self.secure, side)?;
            match secret {
                Some(secret) if part.is_in_use(side) => self.seal.set_side(side, Some(&secret)),
                Some(_) => self.destroy_generation(side)?,
                None if part.is_in_use(side) => {
                    return Err(Error::Root("lacks the key of a generation"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Overwrites the key of the generation of `side`: what was written under it is noise from now on.
    pub(crate) fn destroy_generation(&mut self, side: u8) -> Result<()> {
        self.seal.set_side(side, None);
        write_generation(&mut self.secure, side, &[0; 32])?;
        self.secure.sync()
    }

    /// Whether nothing was programmed to `page` since its block was erased.
    pub(crate) fn is_clean(&mut self, page: u32) -> Result<bool> {
        let mut sector = [0; SECTOR_BYTES];
        Ok(self.flash.read(page, 0, &mut sector)? == PageState::Erased)
    }

    /// Reads the catalogue and divides the memory anew.
    fn adopt_catalogue(&mut self, memory: usize) -> Result<()> {
        let state = self.committed.catalogue;
        let mut bytes = Vec::with_capacity(state.bytes as usize);
        for number in 0..pages_of(state.bytes as usize) {
            let frame = self.load(&catalogue_identity(&state, number))?;
            let rest = state.bytes as usize - bytes.len();
            let page = self.arena.page(frame);
            bytes.extend_from_slice(page.get(..rest.min(PAYLOAD_BYTES)).unwrap_or(&[]));
        }
        let catalogue = Catalogue::decode(&bytes)?;
        let plan = Plan::new(&catalogue, memory)?;
        self.adopt_plan(catalogue, plan);
        Ok(())
    }

    fn adopt_plan(&mut self, catalogue: Catalogue, plan: Plan) {
        // The old frames go before anything new comes, so that both never exist together.
        self.arena = Arena::new(0);
        self.window = Window::new(&self.committed, plan.runs);
        self.arena = Arena::new(plan.frames);
        self.catalogue = catalogue;
        self.plan = plan;
    }

    /// Writes a new catalogue to a block of its own and makes it final.
    pub(crate) fn replace_catalogue(&mut self, catalogue: Catalogue, plan: Plan) -> Result<()> {
        let bytes = catalogue.encode();
        let state = loop {
            match self.program_catalogue(&bytes) {
                Err(Error::Flash(FlashError::BadBlock)) => self.committed.epoch += 1,
                result => break result?,
            }
        };
        let old = self.committed.catalogue;
        let mut record = self.next_record()?;
        record.epoch += 1;
        record.catalogue = state;
        self.finish(&record)?;
        if old.bytes > 0 {
            self.blocks.free(old.page / BLOCK_PAGES);
        }
        for block in self.window.blocks() {
            self.blocks.free(block);
        }
        self.adopt_plan(catalogue, plan);
        self.reload_window()
    }

    fn program_catalogue(&mut self, bytes: &[u8]) -> Result<CatalogueState> {
        self.arena.reset();
        let state = CatalogueState {
            page: self.take_blocks(1)? * BLOCK_PAGES,
            bytes: narrow(bytes.len()),
            epoch: self.committed.epoch,
        };
        let area = self.arena.lease(1)?;
        for (number, chunk) in (0..).zip(bytes.chunks(PAYLOAD_BYTES)) {
            let page = self.arena.area_page(area, 0);
            page.fill(0);
            put(page, 0, chunk);
            let identity = catalogue_identity(&state, number);
            self.seal.close(&identity, page);
            self.program(identity.page, area, 0)?;
        }
        self.arena.release(area);
        Ok(state)
    }

    /// Copies the catalogue to another block, so that its own wears like all others; where there
    /// is none it stays.
    pub(crate) fn move_catalogue(&mut self) -> Result<CatalogueState> {
        let old = self.committed.catalogue;
        if old.bytes == 0 {
            return Ok(old);
        }
        loop {
            let block = match self.take_blocks(1) {
                Err(Error::DeviceFull) => return Ok(old),
                block => block?,
            };
            let new = CatalogueState {
                page: block * BLOCK_PAGES,
                epoch: self.next_epoch(),
                ..old
            };
            match self.copy_catalogue(&old, &new) {
                Err(Error::Flash(FlashError::BadBlock)) => {}
                result => return result.map(|()| new),
            }
        }
    }

    fn copy_catalogue(&mut self, old: &CatalogueState, new: &CatalogueState) -> Result<()> {
        self.arena.reset();
        let area = self.arena.lease(1)?;
        for number in 0..pages_of(old.bytes as usize) {
            let frame = self.load(&catalogue_identity(old, number))?;
            self.arena.copy_page(frame, area);
            let identity = catalogue_identity(new, number);
            self.seal.close(&identity, self.arena.area_page(area, 0));
            self.program(identity.page, area, 0)?;
        }
        self.arena.release(area);
        Ok(())
    }

    /// Reads every page of the catalogue.
    pub(crate) fn verify_catalogue(&mut self) -> Result<u64> {
        let state = self.committed.catalogue;
        let pages = pages_of(state.bytes as usize);
        for number in 0..pages {
            self.load(&catalogue_identity(&state, number))?;
        }
        Ok(u64::from(pages))
    }

    /// Finds out anew which blocks are in use.
    pub(crate) fn remark_blocks(&mut self) -> Result<()> {
        self.clear_blocks()?;
        self.mark_blocks()?;
        for block in self.window.blocks() {
            self.blocks.mark(block);
        }
        Ok(())
    }

    /// Marks the blocks that hold something committed.
    fn mark_blocks(&mut self) -> Result<()> {
        let state = self.committed.catalogue;
        if state.bytes > 0 {
            self.blocks.mark(state.page / BLOCK_PAGES);
        }
        for table in 0..self.catalogue.len() {
            let pages = self.unit_pages(table);
            for unit in self.units(table) {
                let start = self.entry(owner_of(table), unit)?.page;
                let last = start + pages - 1;
                (start / BLOCK_PAGES..=last / BLOCK_PAGES)
                    .for_each(|block| self.blocks.mark(block));
            }
        }
        let part = self.committed.part;
        for level in part.live() {
            self.mark_logs(level, [0; 2])?;
        }
        if part.building {
            // With what the task under way has written.
            self.mark_logs(&part.next, self.grown)?;
        }
        self.mark_log(TEMPORARY, self.temporary.pages.div_ceil(BLOCK_PAGES))?;
        let unit_next = self.committed.unit_next;
        if !unit_next.is_multiple_of(BLOCK_PAGES) {
            self.blocks.mark(unit_next / BLOCK_PAGES);
        }
        Ok(())
    }

    /// Marks the blocks of both logs of a part, but so many at least.
    fn mark_logs(&mut self, level: &Level, [body, lists]: [u32; 2]) -> Result<()> {
        let side = Side::new(level.side);
        self.mark_log(side.body, level.body.div_ceil(BLOCK_PAGES).max(body))?;
        self.mark_log(side.lists, level.lists.div_ceil(BLOCK_PAGES).max(lists))
    }

    fn mark_log(&mut self, owner: u8, blocks: u32) -> Result<()> {
        for block in 0..blocks {
            let page = self.entry(owner, block)?.page;
            self.blocks.mark(page / BLOCK_PAGES);
        }
        Ok(())
    }
}

fn pages_of(bytes: usize) -> u32 {
    narrow(bytes.div_ceil(PAYLOAD_BYTES))
}

fn catalogue_identity(state: &CatalogueState, number: u32) -> PageIdentity {
    PageIdentity {
        page: state.page + number,
        epoch: state.epoch,
        role: ROLE_CATALOGUE,
        owner: 0,
        number,
    }
}
