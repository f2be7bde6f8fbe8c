//! The store: tables of fixed-width rows with references, commit, rollback and bounded memory.

use crate::error::{Error, Result};
use crate::pager::flash::{FlashCounters, Nand};
use crate::pager::list::List;
use crate::pager::note::memory_of;
use crate::pager::root::{SecureStore, check_capacity, read_head};
use crate::pager::seal::{CipherCounters, signing_secret};
use crate::pager::usage::Operations;
use crate::pager::{Pager, Stored, prepare};
use crate::tables::base::Base;
use crate::tables::catalogue::{
    Catalogue, ColumnDefinition, Kind, Layout, TableDefinition, stored,
};
use crate::tables::change::Tables;
use crate::tables::deferred::Deferred;
use crate::tables::id::TableId;
use crate::tables::memory::{Budget, Plan};
use crate::tables::summary::Summary;
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
    pub(crate) tables: Tables<F, S>,
    /// An error after a commit, which the next operation returns, and the closing in any case.
    deferred: Deferred,
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
            deferred: Deferred::default(),
            in_transaction: false,
            budget: plan.budget,
            tables: Tables {
                summary: Summary::new(plan.summary),
                base: Base {
                    rows: stored.committed.tables.map(|table| table.rows),
                    parts: List::new(),
                    pager: Pager::new(flash, secure, stored),
                    catalogue,
                },
            },
        };
        store.tables.base.pager.provide(plan.pages);
        store
    }

    /// Creates a table at once, outside any transaction; returns it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Limit`] or [`Error::Refused`] for an invalid definition,
    /// [`Error::Memory`] when its description does not fit into the memory given.
    pub fn create_table(&mut self, definition: &TableDefinition<'_>) -> Result<TableId> {
        self.usable()?;
        if self.tables.base.has_changes() {
            return Err(Error::Refused("a table inside a transaction".into()));
        }
        if self.tables.base.pager.root.committed.part.building {
            let what = "a table while a reorganisation is under way";
            return Err(Error::Refused(what.into()));
        }
        let mut catalogue = self.tables.base.catalogue.clone();
        catalogue.add(definition)?;
        catalogue.shrink();
        let plan = Plan::new(&catalogue, self.budget.memory)?;
        if self.tables.base.pager.window.runs() > plan.pages.spare {
            self.tables.settle()?;
        }
        let result = self.replace_catalogue(catalogue, plan);
        self.tables.base.pager.poison_after(result)?;
        Ok(TableId::at(self.tables.base.catalogue.len() - 1))
    }

    /// Returns the table `name`.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.tables.base.catalogue.table(name)
    }

    /// Returns the tables with their names.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        let tables = self.tables.base.catalogue.named_tables();
        tables.map(|table| (table, self.tables.base.catalogue.table_name(table)))
    }

    /// Returns the columns of a table as statements see them: names and types.
    pub fn columns(&self, table: TableId) -> impl Iterator<Item = (&str, ValueType)> {
        let columns = self.tables.base.catalogue.column_ids(table);
        let columns = columns.zip(self.tables.base.catalogue.columns_of(table));
        columns.map(move |(number, column)| {
            let name = self.tables.base.catalogue.column_name(table, number);
            (name, self.tables.base.catalogue.shown_type(column))
        })
    }

    /// Returns the columns of a table as they are defined, each with the type of its values: that of
    /// a reference is the type of the key that it refers to. A unique column is indexed, too.
    pub fn definitions(
        &self,
        table: TableId,
    ) -> impl Iterator<Item = (ColumnDefinition<'_>, Kind)> {
        self.tables.base.catalogue.definitions(table)
    }

    /// Returns how a table groups its columns in the reorganised part.
    pub fn layout(&self, table: TableId) -> Layout {
        self.tables.base.catalogue.layout(table)
    }

    /// Returns the number of the committed state, which every commit and every opening increases.
    pub fn state(&self) -> u64 {
        self.tables.base.pager.root.committed.sequence
    }

    /// Returns the device.
    pub fn device(&self) -> &F {
        &self.tables.base.pager.flash
    }

    /// Returns the secure store.
    pub fn secure_store(&self) -> &S {
        &self.tables.base.pager.root.secure
    }

    /// Commits every inserted row.
    ///
    /// If an error is returned before the commit, nothing is committed. An error after it, while
    /// rows are moved to units, is returned by the next operation, and by [`Self::close`] in any case.
    ///
    /// # Errors
    /// A failure of the device or the secure store. The handle is then poisoned, and another
    /// opening shows whether the commit took place.
    pub fn commit(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.commit_rows();
        self.tables.base.pager.poison_after(result)
    }

    /// Rolls back every row inserted since the last commit.
    ///
    /// # Errors
    /// [`Error::Tampered`] when the last committed page fails authentication, or a failure of the
    /// device. The handle is then poisoned: it does not know the committed rows any more.
    pub fn rollback(&mut self) -> Result<()> {
        self.usable()?;
        self.tables.base.rows = self
            .tables
            .base
            .pager
            .root
            .committed
            .tables
            .map(|table| table.rows);
        self.tables.summary.clear_stretches();
        let result = self.tables.base.pager.waiting().rollback();
        Ok(self.tables.base.pager.poison_after(result)?)
    }

    /// Returns the number of rows of `table`, including those of the open transaction.
    pub fn count(&self, table: TableId) -> u32 {
        self.tables.base.count(table)
    }

    /// Reads and authenticates the directory and every page with committed rows.
    ///
    /// # Errors
    /// [`Error::Root`] if the directory was changed, [`Error::Tampered`] with the first page that
    /// fails.
    pub fn verify(&mut self) -> Result<u64> {
        self.usable()?;
        self.tables.base.pager.arena.forget();
        self.tables.base.verify_directory()?;
        let mut checked = self.tables.base.pager.waiting().verify()?
            + stored::verify(&mut self.tables.base.pager)?
            + self.tables.base.verify_parts()?;
        for table in self.tables.base.catalogue.table_ids() {
            for unit in self.tables.base.units(table) {
                checked += self.tables.base.verify_unit(table, unit)?;
            }
        }
        Ok(checked)
    }

    /// Returns the seed of the database's own Ed25519 key, for statements that others can verify.
    ///
    /// # Errors
    /// The secure store cannot be read.
    pub fn signing_seed(&mut self) -> Result<zeroize::Zeroizing<[u8; 32]>> {
        let head = read_head(&mut self.tables.base.pager.root.secure)?;
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
        self.tables.base.pager.operations()
    }

    /// Closes the store and adds the operations of this opening; an open transaction is lost.
    ///
    /// # Errors
    /// An error behind a commit, whether another operation has returned it or not: what was
    /// committed stands, and the next opening does the rest or meets the same. The secure store
    /// cannot be read or written.
    pub fn close(mut self) -> Result<(F, S)> {
        let Budget { memory, used, .. } = self.budget;
        let closed = self.tables.base.pager.close(memory, used);
        self.deferred.tell()?;
        closed?;
        Ok(self.into_parts())
    }

    /// Returns the memory given to the store at its creation, which is to be given to
    /// [`Self::open`] again.
    ///
    /// # Errors
    /// [`Error::Root`] where it is damaged, or is one that [`Self::create`] refuses; a failure of
    /// the secure store.
    pub fn memory_given(secure: &mut S) -> Result<usize> {
        let given = memory_of(secure)?;
        let bytes = usize::try_from(given.bytes).unwrap_or(usize::MAX);
        // A later version may need more than a code vouches for, and says so at the opening.
        if !given.is_noted && Plan::new(&Catalogue::new()?, bytes).is_err() {
            return Err(Error::Root("names a memory that no database has"));
        }
        Ok(bytes)
    }

    /// Returns the device and the secure store, for another opening, as a loss of power leaves them:
    /// nobody is told of an error behind the last commit. [`Self::close`] tells.
    pub fn into_parts(mut self) -> (F, S) {
        self.deferred.lose();
        (
            self.tables.base.pager.flash,
            self.tables.base.pager.root.secure,
        )
    }

    /// Returns an error after a failure, and releases the leases of an operation.
    pub(crate) fn usable(&mut self) -> Result<()> {
        let usable = self.tables.base.pager.usable();
        self.deferred.tell_once()?;
        Ok(usable?)
    }

    fn commit_rows(&mut self) -> Result<()> {
        if !self.tables.base.has_changes() {
            return Ok(());
        }
        self.tables.base.pager.waiting().program_open_page()?;
        let mut record = self.tables.base.pager.next_record()?;
        for (state, &rows) in record.tables.iter_mut().zip(&self.tables.base.rows) {
            state.rows = rows;
        }
        self.tables.base.pager.root.finish(&record)?;
        // The rows are committed: work that is refused now is done before the next change.
        match self.tables.settle() {
            Err(error) if !error.is_refusal() => {
                self.tables.base.pager.poison();
                self.deferred.keep(error);
            }
            _ => {}
        }
        Ok(())
    }
}
