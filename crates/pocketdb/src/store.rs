//! The store: tables of fixed-width rows with references, commit, rollback and bounded memory.

use alloc::boxed::Box;

use crate::arena::{Area, Arena};
use crate::blocks::Blocks;
use crate::catalogue::{Catalogue, FIRST_TABLE, TableDefinition};
use crate::change::Summary;
use crate::directory::{Places, Structure, TEMPORARY};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, FlashCounters, FlashError, Nand};
use crate::limits::{PARTS_MAX, TABLES_MAX, UNIT_ROWS};
use crate::list::List;
use crate::log::Log;
use crate::memory::Plan;
use crate::part::Part;
use crate::ring::{read_newest, write_record, write_ring};
use crate::root::{
    RootRecord, SecureStore, check_capacity, format_store, read_head, write_chain, write_generation,
};
use crate::seal::{
    CipherCounters, PageIdentity, ROLE_DATA, Seal, Since, first_secrets, signing_secret,
};
use crate::sql::explain::Effort;
use crate::usage::Usage;
use crate::value::ValueType;
use crate::window::{Window, placed_in};

/// Operations since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Operations of the flash device.
    pub flash: FlashCounters,
    /// Operations of the cipher.
    pub cipher: CipherCounters,
    /// Records written to the secure store.
    pub root_writes: u64,
    /// Bytes of memory in use, the same at every size of the database.
    pub memory_bytes: usize,
}

/// What the secure store still lacks before a record may speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    /// Nothing.
    Nothing,
    /// Entries were written, but may not survive a loss of power yet.
    Entries,
    /// The structure differs from its copy.
    Structure,
}

/// Tables of fixed-width rows on flash; a row's id is its rank of insertion, beginning at 1.
pub struct Store<F: Nand, S: SecureStore> {
    pub(crate) flash: F,
    pub(crate) secure: S,
    /// By itself, because it is large and the store moves about.
    pub(crate) seal: Box<Seal>,
    pub(crate) arena: Arena,
    pub(crate) blocks: Blocks,
    pub(crate) catalogue: Catalogue,
    pub(crate) window: Window,
    pub(crate) committed: RootRecord,
    /// Rows of every table, those of the open transaction included (the paper's End).
    pub(crate) rows: [u32; TABLES_MAX],
    /// The owner and rank of each chunk of the directory.
    pub(crate) structure: Structure,
    pub(crate) places: Places,
    pub(crate) pending: Pending,
    /// What the reorganised parts hold, the oldest first.
    pub(crate) parts: List<Part, PARTS_MAX>,
    /// Operations of the device left to a reorganisation.
    pub(crate) allowance: Option<u64>,
    /// Blocks that both logs of the part being built have with the task under way.
    pub(crate) grown: [u32; 2],
    /// What statements write for themselves.
    pub(crate) temporary: Log,
    /// Which rows may be deleted or updated.
    pub(crate) summary: Summary,
    /// Whether a statement began a transaction.
    pub(crate) in_transaction: bool,
    /// What the present statement did beside reading.
    pub(crate) effort: Effort,
    pub(crate) root_writes: u64,
    pub(crate) plan: Plan,
    /// Epoch and sequence number that the last record has.
    pub(crate) noted: (u64, u64),
    /// What failed behind a commit, for whoever comes next.
    deferred: Option<Box<Error>>,
    poisoned: bool,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Creates an empty store.
    ///
    /// `secret` is fresh randomness; it never leaves the secure store. `memory` bytes bound what
    /// the store allocates.
    ///
    /// # Errors
    /// [`Error::Memory`], or a failure of the device or the secure store.
    pub fn create(flash: F, mut secure: S, secret: &[u8; 32], memory: usize) -> Result<Self> {
        check_capacity(&secure)?;
        let catalogue = Catalogue::new()?;
        Plan::new(&catalogue, memory)?;
        prepare(&mut secure, flash.blocks(), secret, memory)?;
        Self::open(flash, secure, memory)
    }

    /// Opens a store and restores exactly its committed state.
    ///
    /// # Errors
    /// [`Error::Root`], [`Error::NewerFormat`], [`Error::Tampered`], [`Error::Memory`], or a
    /// failure of the device or the secure store.
    pub fn open(flash: F, mut secure: S, memory: usize) -> Result<Self> {
        let head = read_head(&mut secure)?;
        let blocks = head.blocks;
        if blocks != flash.blocks() {
            return Err(Error::Root("belongs to a device of another size"));
        }
        // Until the format is raised nothing is sealed in the present form.
        let since = head.since.unwrap_or(Since::NEVER);
        let mut seal = Box::new(Seal::new(&head.secret, since));
        let committed = read_newest(&mut secure, &mut seal)?;
        let catalogue = Catalogue::new()?;
        let plan = Plan::new(&catalogue, memory)?;
        let mut store = Self {
            rows: committed.tables.map(|table| table.rows),
            window: Window::new(&committed, &plan),
            noted: (committed.epoch, committed.buffer_next),
            deferred: None,
            arena: Arena::new(plan.frames),
            summary: Summary::new(plan.summary),
            blocks: Blocks::new(blocks, committed.block_next),
            structure: Structure::default(),
            places: Places::default(),
            pending: Pending::Nothing,
            parts: List::new(),
            allowance: None,
            grown: [0; 2],
            temporary: Log {
                owner: TEMPORARY,
                pages: 0,
            },
            in_transaction: false,
            effort: Effort::default(),
            root_writes: 0,
            poisoned: false,
            flash,
            secure,
            seal,
            catalogue,
            committed,
            plan,
        };
        store.recover(memory, head.since)?;
        Ok(store)
    }

    /// Creates a table at once, outside any transaction; returns its number.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Limit`] or [`Error::Refused`] for a definition that cannot be,
    /// [`Error::Memory`] when its description does not fit into the memory given.
    pub fn create_table(&mut self, definition: &TableDefinition<'_>) -> Result<usize> {
        self.usable()?;
        if self.has_changes() {
            return Err(Error::Refused("a table inside a transaction".into()));
        }
        if self.committed.part.building {
            let what = "a table while a reorganisation is under way";
            return Err(Error::Refused(what.into()));
        }
        let mut catalogue = self.catalogue.clone();
        catalogue.add(definition)?;
        catalogue.shrink();
        let memory = self.plan.memory;
        let plan = Plan::new(&catalogue, memory)?;
        if self.window.runs() > plan.room {
            self.settle()?;
        }
        let result = self.replace_catalogue(catalogue, plan);
        self.poisoned = result.is_err();
        result?;
        Ok(self.catalogue.len() - 1)
    }

    /// The number of a table.
    pub fn table(&self, name: &str) -> Option<usize> {
        self.catalogue.table(name)
    }

    /// The names of the tables, with their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbers = FIRST_TABLE..self.catalogue.len();
        numbers.map(|number| (number, self.catalogue.table_name(number)))
    }

    /// The columns of a table as statements see them: names and the types of their values.
    pub fn columns(&self, table: usize) -> impl Iterator<Item = (&str, ValueType)> {
        let columns = self.catalogue.columns_of(table).enumerate();
        columns.map(move |(number, column)| {
            let name = self.catalogue.column_name(table, number);
            (name, self.catalogue.shown_type(column))
        })
    }

    /// The number of the committed state: every commit and every opening has the next ones.
    pub fn state(&self) -> u64 {
        self.committed.sequence
    }

    /// The device.
    pub fn device(&self) -> &F {
        &self.flash
    }

    /// The secure store.
    pub fn secure_store(&self) -> &S {
        &self.secure
    }

    /// Makes every inserted row final.
    ///
    /// What is refused is not final. What fails once the rows are final, while they are brought to
    /// their place, is the error of the next operation.
    ///
    /// # Errors
    /// A failure of the device or the secure store; the handle is then poisoned, and opening the
    /// store again shows whether the commit came to be.
    pub fn commit(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.commit_rows();
        self.poisoned = result.is_err();
        result
    }

    /// Forgets every row inserted since the last commit.
    ///
    /// # Errors
    /// [`Error::Tampered`] when the last committed page is not the one that was written.
    pub fn rollback(&mut self) -> Result<()> {
        self.usable()?;
        self.rows = self.committed.tables.map(|table| table.rows);
        self.summary.clear_stretches();
        let result = self.rollback_window();
        self.poisoned = result.is_err();
        result
    }

    /// Rows of `table`, those of the open transaction included.
    pub fn count(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Reads every page that holds committed rows and checks that it is the one written.
    ///
    /// # Errors
    /// [`Error::Tampered`] with the first page that is not.
    pub fn verify(&mut self) -> Result<u64> {
        self.usable()?;
        self.arena.forget();
        let mut checked = self.verify_window()? + self.verify_catalogue()? + self.verify_parts()?;
        for table in 0..self.catalogue.len() {
            for unit in self.units(table) {
                checked += self.verify_unit(table, unit)?;
            }
        }
        Ok(checked)
    }

    /// The seed of an Ed25519 key that is the database's own, for statements that others can check.
    ///
    /// # Errors
    /// The secure store cannot be read.
    pub fn signing_seed(&mut self) -> Result<zeroize::Zeroizing<[u8; 32]>> {
        let head = read_head(&mut self.secure)?;
        Ok(signing_secret(&head.secret))
    }

    /// Operations and memory since the store was opened.
    pub fn counters(&self) -> StoreCounters {
        StoreCounters {
            flash: self.flash.counters(),
            cipher: self.seal.counters,
            root_writes: self.root_writes,
            memory_bytes: self.plan.used,
        }
    }

    /// The device and the secure store, for the next opening; the open transaction is lost.
    pub fn into_parts(self) -> (F, S) {
        (self.flash, self.secure)
    }

    /// Whether the open transaction inserted, updated or deleted anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.rows != self.committed.tables.map(|table| table.rows)
    }

    /// Refuses everything after a failure, and takes back what an operation had leased.
    pub(crate) fn usable(&mut self) -> Result<()> {
        self.arena.reset();
        match self.deferred.take() {
            Some(error) => Err(*error),
            None if self.poisoned => Err(Error::Poisoned),
            None => Ok(()),
        }
    }

    /// Lets nothing be done any more until the store is opened again.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Rows of `table` that are in units; the later ones wait in the buffer.
    pub(crate) fn placed(&self, table: usize) -> u32 {
        placed_in(&self.committed, table)
    }

    /// Units of `table` that hold rows beyond the reorganised parts.
    pub(crate) fn units(&self, table: usize) -> core::ops::Range<u32> {
        self.first_unit(table)..self.committed.units(table)
    }

    /// The first unit that may hold rows beyond the reorganised parts.
    pub(crate) fn first_unit(&self, table: usize) -> u32 {
        self.part_rows(table) / UNIT_ROWS
    }

    fn commit_rows(&mut self) -> Result<()> {
        if !self.has_changes() {
            return Ok(());
        }
        self.program_open_page()?;
        let mut record = self.next_record()?;
        for (state, &rows) in record.tables.iter_mut().zip(&self.rows) {
            state.rows = rows;
        }
        self.finish(&record)?;
        // The rows are final: what cannot be done now is done before the next change.
        match self.settle() {
            Err(error) if !error.is_refusal() => {
                self.poison();
                self.deferred = Some(Box::new(error));
            }
            _ => {}
        }
        Ok(())
    }

    /// Does what the last commit left to be done, before anything changes: what is refused here has
    /// changed nothing.
    pub(crate) fn prepare_change(&mut self) -> Result<()> {
        let unsettled = |store: &Self| {
            (0..store.catalogue.len()).any(|table| store.has_whole_unit(table))
                || store.is_window_long()
        };
        if self.has_changes() || !unsettled(self) {
            return Ok(());
        }
        let result = self.settle();
        if matches!(&result, Err(error) if !error.is_refusal()) {
            self.poison();
        }
        result
    }

    /// Brings committed rows to their units, and the window to its length. Where that is refused
    /// everything is as it was.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let result = self.settle_rows();
        if matches!(&result, Err(error) if error.is_refusal()) {
            self.restore_window()?;
        }
        result
    }

    fn settle_rows(&mut self) -> Result<()> {
        for table in 0..self.catalogue.len() {
            while self.has_whole_unit(table) {
                self.place_unit(table)?;
            }
        }
        self.trim_window()?;
        if self.is_window_long() {
            self.densify()?;
        }
        Ok(())
    }

    /// Whether so many rows of `table` wait as make a unit.
    fn has_whole_unit(&self, table: usize) -> bool {
        self.committed_rows(table) - self.placed(table) >= UNIT_ROWS
    }

    fn committed_rows(&self, table: usize) -> u32 {
        self.committed
            .tables
            .get(table)
            .map_or(0, |state| state.rows)
    }

    /// The record that keeps everything but follows the buffer's present end.
    pub(crate) fn next_record(&mut self) -> Result<RootRecord> {
        let mut record = RootRecord {
            sequence: self.committed.sequence + 1,
            structure: self.keep_structure()?,
            block_next: self.blocks.next(),
            ..self.committed
        };
        self.window.describe(&mut record);
        Ok(record)
    }

    /// Makes `record` final.
    pub(crate) fn finish(&mut self, record: &RootRecord) -> Result<()> {
        if self.pending != Pending::Nothing {
            // What the record speaks of must not become durable after it.
            self.secure.sync()?;
            self.pending = Pending::Nothing;
        }
        self.write(record)?;
        self.seal.turn(record.part.generations());
        Ok(())
    }

    /// Writes a record that needs nothing beside those before it.
    pub(crate) fn write(&mut self, record: &RootRecord) -> Result<()> {
        write_record(&mut self.secure, &mut self.seal, record)?;
        self.root_writes += 1;
        self.noted = (record.epoch, record.buffer_next);
        self.committed = *record;
        Ok(())
    }

    /// Programs page `number` of `area` to `page`, after erasing a block that begins.
    ///
    /// A block that fails is retired; the caller finds another one.
    pub(crate) fn program(&mut self, page: u32, area: Area, number: usize) -> Result<()> {
        self.program_with(page, area, number, F::program)
    }

    /// The same for a page that nobody needs after a loss of power.
    pub(crate) fn program_temporary(&mut self, page: u32, area: Area, number: usize) -> Result<()> {
        self.program_with(page, area, number, F::program_temporary)
    }

    fn program_with(
        &mut self,
        page: u32,
        area: Area,
        number: usize,
        program: impl FnOnce(&mut F, u32, &[u8]) -> core::result::Result<(), FlashError>,
    ) -> Result<()> {
        self.spend()?;
        let erased = if page.is_multiple_of(BLOCK_PAGES) {
            self.flash.erase(page / BLOCK_PAGES)
        } else {
            Ok(())
        };
        let bytes = self.arena.area_page(area, number);
        let result = erased.and_then(|()| program(&mut self.flash, page, bytes));
        if result == Err(FlashError::BadBlock) {
            self.retire(page / BLOCK_PAGES)?;
        }
        Ok(result?)
    }

    /// Counts an operation of the device against what a reorganisation may use.
    fn spend(&mut self) -> Result<()> {
        match &mut self.allowance {
            Some(0) => Err(Error::Stopped),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A number that nothing else was written under.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        let epoch = self.committed.epoch;
        self.committed.epoch += 1;
        epoch
    }

    /// Reads, checks and decrypts a page, or finds it in memory; returns its frame.
    pub(crate) fn load(&mut self, identity: &PageIdentity) -> Result<usize> {
        match self.arena.find(identity.page, identity.epoch) {
            Some(frame) => Ok(frame),
            None => Ok(self.fetch(identity)?.0),
        }
    }

    /// Reads a page from flash; returns its frame and its code.
    pub(crate) fn fetch(&mut self, identity: &PageIdentity) -> Result<(usize, [u8; 16])> {
        self.spend()?;
        let frame = self.arena.victim();
        let bytes = self.arena.page_mut(frame);
        let read = self.flash.read(identity.page, 0, bytes);
        if read == Err(FlashError::OutOfRange) {
            return Err(Error::Root("names a page that the device does not have"));
        }
        read?;
        let code = self.seal.open(identity, bytes)?;
        self.arena.note(frame, identity.page, identity.epoch);
        Ok((frame, code))
    }
}

/// Writes the secure store of an empty database.
///
/// It stands alone, so that its keys take no room on the stack while the store is opened.
#[inline(never)]
fn prepare(
    secure: &mut impl SecureStore,
    blocks: u32,
    secret: &[u8; 32],
    memory: usize,
) -> Result<()> {
    let [secret, first, chain] = first_secrets(secret);
    let mut seal = Box::new(Seal::new(&secret, Since::default()));
    write_generation(secure, 0, &first)?;
    write_chain(secure, &chain)?;
    let mut record = RootRecord::empty();
    record.structure.code = seal.root_code(&[]);
    write_ring(secure, &mut seal, record)?;
    Usage {
        memory_given: memory as u64,
        ..Usage::default()
    }
    .write(secure)?;
    // The head comes last: without it nothing opens.
    format_store(secure, blocks, &secret)
}

/// The identity of a page of rows.
pub(crate) fn data_identity(page: u32, epoch: u64, table: usize, unit: u32) -> PageIdentity {
    PageIdentity {
        page,
        epoch,
        role: ROLE_DATA,
        owner: crate::directory::owner_of(table),
        number: unit,
    }
}

/// Rows of `width` bytes in one page.
pub(crate) fn rows_per_page(width: usize) -> u32 {
    crate::bytes::narrow(crate::seal::PAYLOAD_BYTES / width.max(1)).max(1)
}

/// Pages that the waiting rows of all tables fill at most.
pub(crate) fn waiting_pages_of(catalogue: &Catalogue) -> usize {
    let pages = |table: usize| crate::window::waiting_pages(catalogue.widths(table).1);
    (0..catalogue.len()).map(pages).sum()
}
