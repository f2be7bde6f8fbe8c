//! Recovery at opening: reads the committed window, and continues after all uncommitted pages.

use crate::error::{Error, Result};
use crate::pager::directory_code::DirectoryCode;
use crate::pager::flash::Nand;
use crate::pager::root::{Origin, SecureStore};
use crate::pager::shape::Shape;
use crate::tables::base::{Base, owner_of};
use crate::tables::catalogue::{Catalogue, stored};
use crate::tables::memory::Plan;
use crate::tables::store::Store;

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Restores the committed state and continues after all pages of an earlier opening.
    ///
    /// Nothing of the directory is read before its code has been checked.
    pub(crate) fn recover(&mut self, memory: usize, origin: Origin) -> Result<()> {
        self.tables.base.pager.begin_recovery()?;
        let catalogue = stored::read(&mut self.tables.base.pager)?;
        let plan = Plan::new(&catalogue, memory)?;
        self.adopt_plan(catalogue, plan)?;
        self.tables.base.adopt_directory(origin)?;
        self.tables.base.read_parts()?;
        self.tables.base.pager.continue_behind(origin)?;
        self.tables.summarize()?;
        match self
            .tables
            .base
            .pager
            .window
            .is_far()
            .then(|| self.tables.settle())
        {
            // The opening succeeds all the same: the numbers suffice for as many openings again.
            Some(Err(error)) if error.is_refusal() => Ok(()),
            Some(settled) => settled,
            None => Ok(()),
        }
    }

    /// Divides the memory as a catalogue needs it, and works with that.
    fn adopt_plan(&mut self, catalogue: Catalogue, plan: Plan) -> Result<()> {
        self.tables.base.pager.provide(plan.pages);
        self.tables.base.catalogue = catalogue;
        self.budget = plan.budget;
        self.tables.base.describe_units()
    }

    /// Commits a new catalogue, and works with it.
    pub(crate) fn replace_catalogue(&mut self, catalogue: Catalogue, plan: Plan) -> Result<()> {
        stored::commit(&mut self.tables.base.pager, &catalogue)?;
        self.adopt_plan(catalogue, plan)?;
        Ok(self.tables.base.pager.waiting().reload()?)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Checks the code of the directory and of the secrets, and clears what attempts without a record left
    /// there.
    ///
    /// Records of an earlier format have no code: there the entries are taken as they are, and the
    /// opening's own record vouches for them.
    fn adopt_directory(&mut self, origin: Origin) -> Result<()> {
        let record = self.pager.root.committed;
        let written = self.written(record.part.tasks);
        let entries = self.pager.root.entries_code(&record, &written)?;
        self.pager.root.adopt_chain(entries, origin)?;
        Ok(self.pager.root.clear_uncounted(&written)?)
    }

    /// Computes the code of the directory for the newest record.
    fn committed_code(&mut self) -> Result<DirectoryCode> {
        let record = self.pager.root.committed;
        let written = self.written(record.part.tasks);
        Ok(self.pager.root.directory_code(&record, &written)?)
    }

    /// Checks the directory again.
    pub(crate) fn verify_directory(&mut self) -> Result<()> {
        if self.committed_code()? == self.pager.root.committed.directory {
            Ok(())
        } else {
            Err(Error::Root("is damaged"))
        }
    }

    /// Tells the pager how long the elements and units of every table are, and which it needs.
    pub(crate) fn describe_units(&mut self) -> Result<()> {
        for table in self.catalogue.table_ids() {
            let element = self.catalogue.widths(table).1;
            let shape = Shape::new(element, self.unit_pages(table), self.first_unit(table))?;
            self.pager.describe(owner_of(table), shape)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::bytes::put;
    use crate::pager::error::Error as PagerError;
    use crate::pager::flash::Simulator;
    use crate::pager::secure::MemoryStore;
    use crate::pager::side::{Side, all_sides};
    use crate::pager::sort::RunWriter;
    use crate::tables::catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};
    use crate::tables::id::{RowId, TableId};
    use crate::tables::reorganize::Extent;

    const MEMORY: usize = 65_536;
    /// The table of the test; the two before belong to the engine.
    const TABLE: TableId = TableId::new(2);

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
            store.read(TABLE, RowId::after(number), &mut row).unwrap();
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
            store.tables.base.pager.root.committed.epoch += far;
            store
                .tables
                .base
                .pager
                .window
                .continue_with(store.tables.base.pager.window.next() + far);
            let next = store.tables.base.pager.window.next();
            store.tables.base.pager.root.keep_numbers(next).unwrap();
            store = reopen(store);
            if opening % 40 == 39 {
                insert(&mut store, rows);
                rows += 1;
                check(&mut store, rows);
            }
        }
        check(&mut store, rows);
    }

    /// An opening that used up more numbers than the next one skips, and then lost power, caused
    /// them to be used twice. The record is now written before that, and commits nothing else.
    #[test]
    fn an_opening_notes_its_numbers_before_they_are_used_up() {
        let mut store = filled(5);
        let (begun, sequence) = (
            store.tables.base.pager.root.committed.sequence,
            store.tables.base.pager.window.next(),
        );
        for number in 0..40u32 {
            let row = [9; 200];
            store.insert(TABLE, &row, &[]).unwrap();
            store
                .tables
                .base
                .pager
                .window
                .continue_with(sequence + u64::from(number) * (1 << 17));
            store.rollback().unwrap();
            store.insert(TABLE, &row, &[]).unwrap();
            store
                .tables
                .base
                .pager
                .waiting()
                .program_open_page()
                .unwrap();
            store.rollback().unwrap();
        }
        assert!(store.tables.base.pager.root.committed.sequence > begun + 5);
        let used = store.tables.base.pager.window.next();
        let mut store = reopen(store);
        assert!(store.tables.base.pager.window.next() > used);
        check(&mut store, 5);
        assert_eq!(store.count(TABLE), 5);
    }

    /// A section or an index without an entry was read from page 0 or had no keys: other rows, or
    /// none, where a damaged directory is.
    #[test]
    fn a_part_whose_places_are_gone_is_refused() {
        let mut store = filled(40);
        store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
        check(&mut store, 40);
        for side in all_sides() {
            let contents = Side::new(side).contents;
            store.tables.base.pager.root.disown(contents).unwrap();
        }
        let read = store.read(TABLE, RowId::new(1), &mut [0; 200]);
        assert_eq!(read, Err(Error::Root("lacks a section")));
        assert!(
            store.search(0, &[2, 1, 0, 0, 0]).is_ok(),
            "no part has rows of deletes"
        );
        assert!(store.verify().is_err());
    }

    /// The records of a run are read in step with rows. A run that ended early left the record
    /// before in its place: values of another row.
    #[test]
    fn a_run_that_ends_early_gives_no_record_twice() {
        let mut pager = filled(1).tables.base.pager;
        let mut writer = RunWriter::begin(&mut pager, 4).unwrap();
        writer.put(&mut pager, &[1, 2, 3, 4]).unwrap();
        let mut run = writer.finish(&mut pager).unwrap();
        let mut record = [0; 4];
        run.take(&mut pager, &mut record).unwrap();
        assert_eq!(record, [1, 2, 3, 4]);
        assert!(matches!(
            run.take(&mut pager, &mut record),
            Err(PagerError::Defect(_))
        ));
    }
}
