//! Recovery at opening: reads the committed window, and continues after all uncommitted pages.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::pager::arena::Arena;
use crate::pager::bytes::{narrow, put};
use crate::pager::directory::{TEMPORARY, owner_of};
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand, PageState, SECTOR_BYTES};
use crate::pager::ring::is_full;
use crate::pager::root::{
    CatalogueState, Level, RootRecord, SecureStore, raise_format, read_generation, write_generation,
};
use crate::pager::seal::{PAYLOAD_BYTES, PageIdentity, ROLE_CATALOGUE, Since};
use crate::pager::window::Window;
use crate::tables::catalogue::Catalogue;
use crate::tables::memory::Plan;
use crate::tables::part::{Side, all_sides};
use crate::tables::store::Store;

/// Least number of numbers that every opening skips after those last recorded.
const NUMBERS_PER_OPENING: u64 = 1 << 20;
/// The number above which the store cannot be opened; an opening uses far fewer than remain then.
const NUMBER_MAX: u64 = u64::MAX - (1 << 40);

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Restores the committed state and continues after all pages of an earlier opening.
    ///
    /// `since` gives the first numbers of pages sealed in the present form. It is `None` in a store
    /// of the previous format, which is raised here.
    pub(crate) fn recover(&mut self, memory: usize, since: Option<Since>) -> Result<()> {
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
        // Numbers that an interrupted transaction may have used are never used again.
        let first = Since {
            epoch: behind(self.committed.epoch)?,
            sequence: behind(self.window.next())?,
        };
        if since.is_none() {
            raise_format(&mut self.secure, first)?;
            self.seal.seal_anew(first);
        }
        let more = u64::from(self.secure.random()?);
        self.committed.epoch = first.epoch + more;
        self.window.continue_with(first.sequence + more);
        let record = self.next_record()?;
        self.finish(&record)?;
        self.fill_ring()?;
        self.summarize()?;
        match self.window.is_far().then(|| self.settle()) {
            // The opening succeeds all the same: the numbers suffice for as many openings again.
            Some(Err(error)) if error.is_refusal() => Ok(()),
            Some(settled) => settled,
            None => Ok(()),
        }
    }

    /// Writes the same state until the ring is full, as each new one is: an earlier version left slots
    /// empty, and a record that is gone from such a ring is not missed.
    fn fill_ring(&mut self) -> Result<()> {
        while !is_full(&self.committed) {
            // Each by itself: of two that a loss of power meets, the later one may be there alone.
            let record = RootRecord {
                sequence: self.committed.sequence + 1,
                ..self.committed
            };
            self.write(&record)?;
        }
        Ok(())
    }

    /// Records the numbers in use, long before the numbers that the next opening skips are used up.
    pub(crate) fn keep_numbers(&mut self) -> Result<()> {
        let (epoch, next) = (self.committed.epoch, self.window.next());
        let near = |number: u64, noted| number.abs_diff(noted) < NUMBERS_PER_OPENING / 2;
        let (noted_epoch, noted_next) = self.noted;
        if near(epoch, noted_epoch) && near(next, noted_next) {
            return Ok(());
        }
        // The record commits nothing else: a transaction or an attempt is in progress.
        let record = RootRecord {
            sequence: self.committed.sequence + 1,
            buffer_next: next,
            ..self.committed
        };
        self.write(&record)
    }

    /// Reads the keys of the generations in use. Destroys an older key that an interrupted end of a
    /// reorganisation left.
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

    /// Overwrites the key of the generation of `side`; pages written under it can no longer be
    /// decrypted.
    pub(crate) fn destroy_generation(&mut self, side: u8) -> Result<()> {
        self.seal.set_side(side, None);
        write_generation(&mut self.secure, side, &[0; 32])?;
        self.secure.sync()
    }

    /// Returns whether `page` was not programmed since its block was erased.
    pub(crate) fn is_clean(&mut self, page: u32) -> Result<bool> {
        let mut sector = [0; SECTOR_BYTES];
        Ok(self.flash.read(page, 0, &mut sector)? == PageState::Erased)
    }

    /// Reads the catalogue and plans the memory again.
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
        // Frees the old frames before allocating the new ones, so that both never exist together.
        self.arena = Arena::new(0);
        self.window = Window::new(&self.committed, &plan);
        self.arena = Arena::new(plan.frames);
        self.catalogue = catalogue;
        self.plan = plan;
    }

    /// Writes a new catalogue to a block of its own and commits it.
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

    /// Copies the catalogue to another block, so that its block wears like all others. It stays if
    /// the device is full.
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

    /// Fills the map of free blocks again.
    pub(crate) fn remark_blocks(&mut self) -> Result<()> {
        self.clear_blocks()?;
        self.mark_blocks()?;
        for block in self.window.blocks() {
            self.blocks.mark(block);
        }
        Ok(())
    }

    /// Marks the blocks with committed data.
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
            // Includes the blocks of the current task.
            self.mark_logs(&part.next, self.grown)?;
        }
        self.mark_log(TEMPORARY, self.temporary.pages.div_ceil(BLOCK_PAGES))?;
        let unit_next = self.committed.unit_next;
        if !unit_next.is_multiple_of(BLOCK_PAGES) {
            self.blocks.mark(unit_next / BLOCK_PAGES);
        }
        Ok(())
    }

    /// Marks the blocks of both logs of a part, at least as many as given.
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

/// Returns the first number of an opening, given the number after the last one recorded.
fn behind(number: u64) -> Result<u64> {
    let next = number.checked_add(NUMBERS_PER_OPENING);
    next.filter(|&next| next <= NUMBER_MAX)
        .ok_or(Error::Limit("the number of openings"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::flash::Simulator;
    use crate::pager::secure::MemoryStore;
    use crate::tables::catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};

    const MEMORY: usize = 65_536;
    /// The table of the test; the two before belong to the engine.
    const TABLE: usize = 2;

    fn filled(rows: u32) -> Store<Simulator, MemoryStore> {
        let (flash, secure) = (Simulator::new(24), MemoryStore::new(128 * 1024));
        let mut store = Store::create(flash, secure, &[7; 32], MEMORY).unwrap();
        let column = ColumnDefinition {
            name: "text",
            kind: Kind::Text(200),
            indexed: false,
            unique: false,
            reference: None,
        };
        let table = TableDefinition {
            name: "table",
            columns: &[column],
            layout: Layout::Keyed,
        };
        assert_eq!(store.create_table(&table), Ok(TABLE));
        for number in 0..rows {
            insert(&mut store, number);
        }
        store
    }

    fn insert(store: &mut Store<Simulator, MemoryStore>, number: u32) {
        let mut row = [0; 200];
        put(&mut row, 0, &number.to_le_bytes());
        store.insert(TABLE, &row, &[]).unwrap();
        store.commit().unwrap();
    }

    fn reopen(store: Store<Simulator, MemoryStore>) -> Store<Simulator, MemoryStore> {
        let (flash, secure) = store.into_parts();
        Store::open(flash, secure, MEMORY).unwrap()
    }

    fn check(store: &mut Store<Simulator, MemoryStore>, rows: u32) {
        let mut row = [0; 200];
        for number in 0..rows {
            store.read(TABLE, number + 1, &mut row).unwrap();
            assert_eq!(row.get(..4), Some(&number.to_le_bytes()[..]));
        }
        store.verify().unwrap();
    }

    /// P2: distances between numbers were limited to 32 bits. Here each opening skips 2^26 numbers,
    /// so that they repeatedly pass every distance that the window can store.
    #[test]
    fn openings_without_end_leave_waiting_rows_readable() {
        let mut rows = 30;
        let mut store = filled(rows);
        for opening in 0..300 {
            let far = 1 << 46;
            store.committed.epoch += far;
            store.window.continue_with(store.window.next() + far);
            let record = store.next_record().unwrap();
            store.finish(&record).unwrap();
            store = reopen(store);
            if opening % 40 == 39 {
                insert(&mut store, rows);
                rows += 1;
                check(&mut store, rows);
            }
        }
        check(&mut store, rows);
    }

    #[test]
    fn numbers_that_would_begin_anew_are_refused() {
        assert_eq!(behind(7), Ok(7 + NUMBERS_PER_OPENING));
        assert!(matches!(behind(u64::MAX - 9), Err(Error::Limit(_))));
    }

    /// An opening that used up more numbers than the next one skips, and then lost power, caused
    /// them to be used twice. The record is now written before that, and commits nothing else.
    #[test]
    fn an_opening_notes_its_numbers_before_they_are_used_up() {
        let mut store = filled(5);
        let (begun, sequence) = (store.committed.sequence, store.window.next());
        for number in 0..40u32 {
            let row = [9; 200];
            store.insert(TABLE, &row, &[]).unwrap();
            store
                .window
                .continue_with(sequence + u64::from(number) * (1 << 17));
            store.rollback().unwrap();
            store.insert(TABLE, &row, &[]).unwrap();
            store.program_open_page().unwrap();
            store.rollback().unwrap();
        }
        assert!(store.committed.sequence > begun + 5);
        let used = store.window.next();
        let mut store = reopen(store);
        assert!(store.window.next() > used);
        check(&mut store, 5);
        assert_eq!(store.count(TABLE), 5);
    }
}
