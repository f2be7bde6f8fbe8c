//! The store: tables of fixed-width rows with references, commit, rollback and bounded memory.

use alloc::boxed::Box;

use crate::error::{Error, Result};
use crate::limits::{PARTS_MAX, TABLES_MAX, UNIT_ROWS};
use crate::pager::bytes::narrow;
use crate::pager::flash::{FlashCounters, Nand};
use crate::pager::list::List;
use crate::pager::root::{SecureStore, check_capacity, read_head};
use crate::pager::seal::{CipherCounters, PAYLOAD_BYTES, PageIdentity, ROLE_DATA, signing_secret};
use crate::pager::usage::Operations;
use crate::pager::window::{placed_in, waiting_pages};
use crate::pager::{Pager, Stored, prepare};
use crate::tables::catalogue::{Catalogue, TableDefinition};
use crate::tables::change::Summary;
use crate::tables::id::TableId;
use crate::tables::memory::{Budget, Plan};
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

/// Tables of fixed-width rows on flash; a row's id is its rank of insertion, beginning at 1.
pub struct Store<F: Nand, S: SecureStore> {
    pub(crate) pager: Pager<F, S>,
    pub(crate) catalogue: Catalogue,
    /// Number of rows of every table, including those of the open transaction (the paper's End).
    pub(crate) rows: [u32; TABLES_MAX],
    /// The state of the reorganised parts, the oldest first.
    pub(crate) parts: List<Part, PARTS_MAX>,
    /// The filter for rows that may be deleted or updated.
    pub(crate) summary: Summary,
    /// An error after a commit, which the next operation returns.
    deferred: Option<Box<Error>>,
    /// `true` if a statement began a transaction.
    pub(crate) in_transaction: bool,
    pub(crate) budget: Budget,
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
        let stored = Stored::read(&mut secure, flash.blocks())?;
        let origin = stored.origin;
        let catalogue = Catalogue::new()?;
        let plan = Plan::new(&catalogue, memory)?;
        let mut store = Self::unrecovered((flash, secure), stored, catalogue, &plan);
        store.recover(memory, origin)?;
        Ok(store)
    }

    /// Builds a store from its newest record, before anything else is read. A function of its own
    /// keeps the parts off the stack while the store recovers.
    #[inline(never)]
    fn unrecovered(
        (flash, secure): (F, S),
        stored: Stored,
        catalogue: Catalogue,
        plan: &Plan,
    ) -> Self {
        let mut store = Self {
            rows: stored.committed.tables.map(|table| table.rows),
            summary: Summary::new(plan.summary),
            parts: List::new(),
            deferred: None,
            in_transaction: false,
            budget: plan.budget,
            pager: Pager::new(flash, secure, stored),
            catalogue,
        };
        store.pager.provide(plan.pages);
        store
    }

    /// Creates a table at once, outside any transaction; returns it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Limit`] or [`Error::Refused`] for an invalid definition,
    /// [`Error::Memory`] when its description does not fit into the memory given.
    pub fn create_table(&mut self, definition: &TableDefinition<'_>) -> Result<TableId> {
        self.usable()?;
        if self.has_changes() {
            return Err(Error::Refused("a table inside a transaction".into()));
        }
        if self.pager.committed.part.building {
            let what = "a table while a reorganisation is under way";
            return Err(Error::Refused(what.into()));
        }
        let mut catalogue = self.catalogue.clone();
        catalogue.add(definition)?;
        catalogue.shrink();
        let plan = Plan::new(&catalogue, self.budget.memory)?;
        if self.pager.window.runs() > plan.pages.spare {
            self.settle()?;
        }
        let result = self.replace_catalogue(catalogue, plan);
        self.pager.poison_after(result)?;
        Ok(TableId::at(self.catalogue.len() - 1))
    }

    /// Returns the table `name`.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.catalogue.table(name)
    }

    /// Returns the tables with their names.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        let tables = self.catalogue.named_tables();
        tables.map(|table| (table, self.catalogue.table_name(table)))
    }

    /// Returns the columns of a table as statements see them: names and types.
    pub fn columns(&self, table: TableId) -> impl Iterator<Item = (&str, ValueType)> {
        let columns = self.catalogue.column_ids(table);
        let columns = columns.zip(self.catalogue.columns_of(table));
        columns.map(move |(number, column)| {
            let name = self.catalogue.column_name(table, number);
            (name, self.catalogue.shown_type(column))
        })
    }

    /// Returns the number of the committed state, which every commit and every opening increases.
    pub fn state(&self) -> u64 {
        self.pager.committed.sequence
    }

    /// Returns the device.
    pub fn device(&self) -> &F {
        &self.pager.flash
    }

    /// Returns the secure store.
    pub fn secure_store(&self) -> &S {
        &self.pager.secure
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
        self.pager.poison_after(result)
    }

    /// Rolls back every row inserted since the last commit.
    ///
    /// # Errors
    /// [`Error::Tampered`] when the last committed page fails authentication.
    pub fn rollback(&mut self) -> Result<()> {
        self.usable()?;
        self.rows = self.pager.committed.tables.map(|table| table.rows);
        self.summary.clear_stretches();
        let result = self.pager.rollback_window();
        self.pager.poison_after(Ok(result?))
    }

    /// Returns the number of rows of `table`, including those of the open transaction.
    pub fn count(&self, table: TableId) -> u32 {
        self.rows.get(table.place()).copied().unwrap_or(0)
    }

    /// Reads and authenticates the directory and every page with committed rows.
    ///
    /// # Errors
    /// [`Error::Root`] if the directory was changed, [`Error::Tampered`] with the first page that
    /// fails.
    pub fn verify(&mut self) -> Result<u64> {
        self.usable()?;
        self.pager.arena.forget();
        self.verify_directory()?;
        let mut checked =
            self.pager.verify_window()? + self.verify_catalogue()? + self.verify_parts()?;
        for table in self.catalogue.table_ids() {
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
        let head = read_head(&mut self.pager.secure)?;
        Ok(signing_secret(&head.secret))
    }

    /// Returns operations and memory since the store was opened.
    pub fn counters(&self) -> StoreCounters {
        let operations = self.operations();
        StoreCounters {
            flash: operations.flash,
            cipher: operations.cipher,
            root_writes: operations.root_writes,
            memory_bytes: self.budget.used,
        }
    }

    /// Returns the operations since the store was opened.
    pub fn operations(&self) -> Operations {
        self.pager.operations()
    }

    /// Closes the store and adds the operations of this opening; an open transaction is lost.
    ///
    /// # Errors
    /// The secure store cannot be read or written.
    pub fn close(mut self) -> Result<(F, S)> {
        self.pager.close(self.budget.used)?;
        Ok(self.into_parts())
    }

    /// Returns the device and the secure store, for the next opening; the open transaction is lost.
    pub fn into_parts(self) -> (F, S) {
        (self.pager.flash, self.pager.secure)
    }

    /// Returns an error after a failure, and releases the leases of an operation.
    pub(crate) fn usable(&mut self) -> Result<()> {
        let usable = self.pager.usable();
        match self.deferred.take() {
            Some(error) => Err(*error),
            None => Ok(usable?),
        }
    }

    /// Returns whether the open transaction inserted, updated or deleted anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.rows != self.pager.committed.tables.map(|table| table.rows)
    }

    /// Returns the number of rows of `table` that are in units; later ones wait in the buffer.
    pub(crate) fn placed(&self, table: TableId) -> u32 {
        placed_in(&self.pager.committed, owner_of(table))
    }

    /// Returns the units of `table` with rows that are in no reorganised part.
    pub(crate) fn units(&self, table: TableId) -> core::ops::Range<u32> {
        self.first_unit(table)..self.pager.committed.units(owner_of(table))
    }

    /// Returns the first unit that may contain rows that are in no reorganised part.
    pub(crate) fn first_unit(&self, table: TableId) -> u32 {
        self.part_rows(table) / UNIT_ROWS
    }

    fn commit_rows(&mut self) -> Result<()> {
        if !self.has_changes() {
            return Ok(());
        }
        self.pager.program_open_page()?;
        let mut record = self.pager.next_record()?;
        for (state, &rows) in record.tables.iter_mut().zip(&self.rows) {
            state.rows = rows;
        }
        self.pager.finish(&record)?;
        // The rows are committed: work that is refused now is done before the next change.
        match self.settle() {
            Err(error) if !error.is_refusal() => {
                self.pager.poison();
                self.deferred = Some(Box::new(error));
            }
            _ => {}
        }
        Ok(())
    }

    /// Completes the work that the last commit left, before any change. An error changes nothing.
    pub(crate) fn prepare_change(&mut self) -> Result<()> {
        let unsettled = |store: &Self| {
            let mut tables = store.catalogue.table_ids();
            tables.any(|table| store.has_whole_unit(table)) || store.pager.is_window_long()
        };
        if self.has_changes() || !unsettled(self) {
            return Ok(());
        }
        let result = self.settle();
        if matches!(&result, Err(error) if !error.is_refusal()) {
            self.pager.poison();
        }
        result
    }

    /// Moves committed rows to units, and shortens the window. If this is refused, nothing changes.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let result = self.settle_rows();
        if matches!(&result, Err(error) if error.is_refusal()) {
            self.pager.restore_window()?;
        }
        result
    }

    fn settle_rows(&mut self) -> Result<()> {
        for table in self.catalogue.table_ids() {
            while self.has_whole_unit(table) {
                self.place_unit(table)?;
            }
        }
        self.pager.trim_window()?;
        if self.pager.is_window_long() {
            self.pager.densify()?;
        }
        Ok(())
    }

    /// Returns whether enough committed rows of `table` wait to fill a unit.
    fn has_whole_unit(&self, table: TableId) -> bool {
        self.committed_rows(table) - self.placed(table) >= UNIT_ROWS
    }

    fn committed_rows(&self, table: TableId) -> u32 {
        self.pager
            .committed
            .tables
            .get(table.place())
            .map_or(0, |state| state.rows)
    }
}

/// Returns the identity of a page of rows.
pub(crate) fn data_identity(page: u32, epoch: u64, table: TableId, unit: u32) -> PageIdentity {
    PageIdentity {
        page,
        epoch,
        role: ROLE_DATA,
        owner: owner_of(table),
        number: unit,
    }
}

/// Returns the number of rows of `width` bytes per page.
pub(crate) fn rows_per_page(width: usize) -> u32 {
    narrow(PAYLOAD_BYTES / width.max(1)).max(1)
}

/// Returns the greatest number of pages of waiting rows of all tables.
pub(crate) fn waiting_pages_of(catalogue: &Catalogue) -> usize {
    let pages = |table: TableId| waiting_pages(catalogue.widths(table).1);
    catalogue.table_ids().map(pages).sum()
}

/// Returns the owner number of a table's units.
pub(crate) fn owner_of(table: TableId) -> u8 {
    table.number()
}
