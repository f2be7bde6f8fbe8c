//! The store: tables of fixed-width rows with references, commit, rollback and bounded memory.

use alloc::boxed::Box;

use crate::error::{Error, Result};
use crate::limits::{PARTS_MAX, TABLES_MAX, UNIT_ROWS};
use crate::pager::arena::{Area, Arena};
use crate::pager::blocks::Blocks;
use crate::pager::directory::{Places, Structure, TEMPORARY};
use crate::pager::flash::{BLOCK_PAGES, FlashCounters, FlashError, Nand};
use crate::pager::list::List;
use crate::pager::log::Log;
use crate::pager::ring::{read_newest, write_record, write_ring};
use crate::pager::root::{
    RootRecord, SecureStore, check_capacity, format_store, read_head, write_chain, write_generation,
};
use crate::pager::seal::{
    CipherCounters, PageIdentity, ROLE_DATA, Seal, Since, first_secrets, signing_secret,
};
use crate::pager::usage::Usage;
use crate::pager::window::{Window, placed_in};
use crate::query::sql::explain::Effort;
use crate::tables::catalogue::{Catalogue, FIRST_TABLE, TableDefinition};
use crate::tables::change::Summary;
use crate::tables::memory::Plan;
use crate::tables::part::Part;
use crate::tables::value::ValueType;

/// Operations since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Operations of the flash device.
    pub flash: FlashCounters,
    /// Operations of the cipher.
    pub cipher: CipherCounters,
    /// Records written to the secure store.
    pub root_writes: u64,
    /// Bytes of memory in use, independent of the database's size.
    pub memory_bytes: usize,
}

/// The changes of the secure store that must be synced before a record refers to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    /// Nothing.
    Nothing,
    /// Directory entries were written, but may not be durable yet.
    Entries,
    /// The structure differs from its copy.
    Structure,
}

/// Tables of fixed-width rows on flash; a row's id is its rank of insertion, beginning at 1.
pub struct Store<F: Nand, S: SecureStore> {
    pub(crate) flash: F,
    pub(crate) secure: S,
    /// Boxed, because it is large and the store is moved.
    pub(crate) seal: Box<Seal>,
    pub(crate) arena: Arena,
    pub(crate) blocks: Blocks,
    pub(crate) catalogue: Catalogue,
    pub(crate) window: Window,
    pub(crate) committed: RootRecord,
    /// Number of rows of every table, including those of the open transaction (the paper's End).
    pub(crate) rows: [u32; TABLES_MAX],
    /// Owner and rank of each chunk of the directory.
    pub(crate) structure: Structure,
    pub(crate) places: Places,
    pub(crate) pending: Pending,
    /// The state of the reorganised parts, the oldest first.
    pub(crate) parts: List<Part, PARTS_MAX>,
    /// Number of device operations that a reorganisation may still use.
    pub(crate) allowance: Option<u64>,
    /// Number of blocks of both logs of the part being built, with the current task's.
    pub(crate) grown: [u32; 2],
    /// The temporary log of statements.
    pub(crate) temporary: Log,
    /// The filter for rows that may be deleted or updated.
    pub(crate) summary: Summary,
    /// `true` if a statement began a transaction.
    pub(crate) in_transaction: bool,
    /// Work of the present statement besides reading.
    pub(crate) effort: Effort,
    pub(crate) root_writes: u64,
    pub(crate) plan: Plan,
    /// Epoch and sequence number in the last record.
    pub(crate) noted: (u64, u64),
    /// An error after a commit, which the next operation returns.
    deferred: Option<Box<Error>>,
    poisoned: bool,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Creates an empty store.
    ///
    /// `secret` is fresh randomness, which never leaves the secure store. The store allocates at
    /// most `memory` bytes.
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
        // Before the format is raised, no page is sealed in the present form.
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
    /// [`Error::Name`], [`Error::Limit`] or [`Error::Refused`] for an invalid definition,
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

    /// Returns the number of a table.
    pub fn table(&self, name: &str) -> Option<usize> {
        self.catalogue.table(name)
    }

    /// Returns the names of the tables, with their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbers = FIRST_TABLE..self.catalogue.len();
        numbers.map(|number| (number, self.catalogue.table_name(number)))
    }

    /// Returns the columns of a table as statements see them: names and types.
    pub fn columns(&self, table: usize) -> impl Iterator<Item = (&str, ValueType)> {
        let columns = self.catalogue.columns_of(table).enumerate();
        columns.map(move |(number, column)| {
            let name = self.catalogue.column_name(table, number);
            (name, self.catalogue.shown_type(column))
        })
    }

    /// Returns the number of the committed state, which every commit and every opening increases.
    pub fn state(&self) -> u64 {
        self.committed.sequence
    }

    /// Returns the device.
    pub fn device(&self) -> &F {
        &self.flash
    }

    /// Returns the secure store.
    pub fn secure_store(&self) -> &S {
        &self.secure
    }

    /// Commits every inserted row.
    ///
    /// If an error is returned before the commit, nothing is committed. An error after it, while
    /// rows are moved to units, is returned by the next operation.
    ///
    /// # Errors
    /// A failure of the device or the secure store. The handle is then poisoned, and another
    /// opening shows whether the commit took place.
    pub fn commit(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.commit_rows();
        self.poisoned = result.is_err();
        result
    }

    /// Rolls back every row inserted since the last commit.
    ///
    /// # Errors
    /// [`Error::Tampered`] when the last committed page fails authentication.
    pub fn rollback(&mut self) -> Result<()> {
        self.usable()?;
        self.rows = self.committed.tables.map(|table| table.rows);
        self.summary.clear_stretches();
        let result = self.rollback_window();
        self.poisoned = result.is_err();
        result
    }

    /// Returns the number of rows of `table`, including those of the open transaction.
    pub fn count(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Reads and authenticates every page with committed rows.
    ///
    /// # Errors
    /// [`Error::Tampered`] with the first page that fails.
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

    /// Returns the seed of the database's own Ed25519 key, for statements that others can verify.
    ///
    /// # Errors
    /// The secure store cannot be read.
    pub fn signing_seed(&mut self) -> Result<zeroize::Zeroizing<[u8; 32]>> {
        let head = read_head(&mut self.secure)?;
        Ok(signing_secret(&head.secret))
    }

    /// Returns operations and memory since the store was opened.
    pub fn counters(&self) -> StoreCounters {
        StoreCounters {
            flash: self.flash.counters(),
            cipher: self.seal.counters,
            root_writes: self.root_writes,
            memory_bytes: self.plan.used,
        }
    }

    /// Returns the device and the secure store, for the next opening; the open transaction is lost.
    pub fn into_parts(self) -> (F, S) {
        (self.flash, self.secure)
    }

    /// Returns whether the open transaction inserted, updated or deleted anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.rows != self.committed.tables.map(|table| table.rows)
    }

    /// Returns an error after a failure, and releases the leases of an operation.
    pub(crate) fn usable(&mut self) -> Result<()> {
        self.arena.reset();
        match self.deferred.take() {
            Some(error) => Err(*error),
            None if self.poisoned => Err(Error::Poisoned),
            None => Ok(()),
        }
    }

    /// Refuses every operation until the store is opened again.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Returns the number of rows of `table` that are in units; later ones wait in the buffer.
    pub(crate) fn placed(&self, table: usize) -> u32 {
        placed_in(&self.committed, table)
    }

    /// Returns the units of `table` with rows that are in no reorganised part.
    pub(crate) fn units(&self, table: usize) -> core::ops::Range<u32> {
        self.first_unit(table)..self.committed.units(table)
    }

    /// Returns the first unit that may contain rows that are in no reorganised part.
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
        // The rows are committed: work that is refused now is done before the next change.
        match self.settle() {
            Err(error) if !error.is_refusal() => {
                self.poison();
                self.deferred = Some(Box::new(error));
            }
            _ => {}
        }
        Ok(())
    }

    /// Completes the work that the last commit left, before any change. An error changes nothing.
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

    /// Moves committed rows to units, and shortens the window. If this is refused, nothing changes.
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

    /// Returns whether enough committed rows of `table` wait to fill a unit.
    fn has_whole_unit(&self, table: usize) -> bool {
        self.committed_rows(table) - self.placed(table) >= UNIT_ROWS
    }

    fn committed_rows(&self, table: usize) -> u32 {
        self.committed
            .tables
            .get(table)
            .map_or(0, |state| state.rows)
    }

    /// Returns a record with the present end of the buffer and otherwise unchanged.
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

    /// Commits `record`.
    pub(crate) fn finish(&mut self, record: &RootRecord) -> Result<()> {
        if self.pending != Pending::Nothing {
            // The data that the record refers to must be durable before it.
            self.secure.sync()?;
            self.pending = Pending::Nothing;
        }
        self.write(record)?;
        self.seal.turn(record.part.generations());
        Ok(())
    }

    /// Writes a record that refers to nothing new.
    pub(crate) fn write(&mut self, record: &RootRecord) -> Result<()> {
        write_record(&mut self.secure, &mut self.seal, record)?;
        self.root_writes += 1;
        self.noted = (record.epoch, record.buffer_next);
        self.committed = *record;
        Ok(())
    }

    /// Programs page `number` of `area` to `page`; at the start of a block it erases the block
    /// first.
    ///
    /// A block that fails is retired; the caller finds another one.
    pub(crate) fn program(&mut self, page: u32, area: Area, number: usize) -> Result<()> {
        self.program_with(page, area, number, F::program)
    }

    /// Programs as [`Self::program`] does, for a page that is not needed after a loss of power.
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

    /// Subtracts an operation of the device from the allowance of a reorganisation.
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

    /// Returns an epoch that no other write has.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        let epoch = self.committed.epoch;
        self.committed.epoch += 1;
        epoch
    }

    /// Returns the frame of a page: from the cache, or read, authenticated and decrypted.
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
/// It is a function of its own, so that its keys take no stack while the store is opened.
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
    // The head is written last: without it the store cannot be opened.
    format_store(secure, blocks, &secret)
}

/// Returns the identity of a page of rows.
pub(crate) fn data_identity(page: u32, epoch: u64, table: usize, unit: u32) -> PageIdentity {
    PageIdentity {
        page,
        epoch,
        role: ROLE_DATA,
        owner: crate::pager::directory::owner_of(table),
        number: unit,
    }
}

/// Returns the number of rows of `width` bytes per page.
pub(crate) fn rows_per_page(width: usize) -> u32 {
    crate::pager::bytes::narrow(crate::pager::seal::PAYLOAD_BYTES / width.max(1)).max(1)
}

/// Returns the greatest number of pages of waiting rows of all tables.
pub(crate) fn waiting_pages_of(catalogue: &Catalogue) -> usize {
    let pages = |table: usize| crate::pager::window::waiting_pages(catalogue.widths(table).1);
    (0..catalogue.len()).map(pages).sum()
}
