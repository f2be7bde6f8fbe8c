//! A thousand random transactions, each committed or taken back, against a model.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{ColumnId, Error, Extent, RowId, Store};

use crate::choice::{Choice, seed};
use crate::script::{MEMORY, SECRET, STORE_BYTES, TABLES, WIDTHS, create_tables, row};

const MIXES: usize = 1_000;
const BLOCKS: u32 = 96;
/// The columns of each table, and where they lie in a row.
const COLUMNS: [&[(u8, std::ops::Range<usize>)]; 2] = [
    &[(0, 0..10), (1, 10..18), (2, 18..160)],
    &[(0, 0..30), (1, 30..40)],
];

/// The rows of both tables; nothing where one was deleted.
type Rows = [Vec<Option<Vec<u8>>>; 2];

struct Mixed {
    store: Store<Simulator, MemoryStore>,
    committed: Rows,
    present: Rows,
    choice: Choice,
    written: u32,
}

impl Mixed {
    fn new(seed: u64) -> Self {
        let (flash, secure) = (Simulator::new(BLOCKS), MemoryStore::new(STORE_BYTES));
        let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
        create_tables(&mut store).unwrap();
        Self {
            store,
            committed: Rows::default(),
            present: Rows::default(),
            choice: Choice::new(seed),
            written: 0,
        }
    }

    /// One random change, on this side and in the model.
    fn change(&mut self) {
        let table = self.choice.below(2);
        let rows = self.present[table].len();
        self.written += 1;
        let bytes = row(table, self.written);
        if rows == 0 || self.choice.percent(55) {
            let id = self.store.insert(TABLES[table], &bytes, &[]).unwrap();
            self.present[table].push(Some(bytes));
            assert_eq!(id.number() as usize, rows + 1);
            return;
        }
        let at = self.choice.below(rows);
        let id = RowId::new(u32::try_from(at + 1).unwrap());
        if self.choice.percent(30) {
            let deleted = self.store.delete(TABLES[table], id);
            assert_eq!(deleted.is_ok(), self.present[table][at].take().is_some());
            return;
        }
        let (column, place) = self.choice.of(COLUMNS[table]).clone();
        let value = &bytes[place.clone()];
        let updated = self
            .store
            .update(TABLES[table], id, ColumnId::new(column), value);
        assert_eq!(updated.is_ok(), self.present[table][at].is_some());
        if let Some(row) = &mut self.present[table][at] {
            row[place].copy_from_slice(value);
        }
    }

    fn mix(&mut self) {
        for _ in 0..=self.choice.below(12) {
            self.change();
        }
        if self.choice.percent(50) {
            self.look(4);
        }
        if self.choice.percent(60) {
            self.store.commit().unwrap();
            self.committed = self.present.clone();
        } else {
            self.store.rollback().unwrap();
            self.present = self.committed.clone();
        }
        self.look(4);
    }

    /// Looks at some rows.
    fn look(&mut self, count: usize) {
        for (table, &number) in TABLES.iter().enumerate() {
            let rows = self.present[table].len();
            assert_eq!(self.store.count(number) as usize, rows);
            for _ in 0..count.min(rows) {
                let at = self.choice.below(rows);
                self.look_at(table, at);
            }
        }
    }

    fn look_at(&mut self, table: usize, at: usize) {
        let id = RowId::new(u32::try_from(at + 1).unwrap());
        let mut found = vec![0; WIDTHS[table]];
        for &(column, ref place) in COLUMNS[table] {
            let out = &mut found[place.clone()];
            match self
                .store
                .present(TABLES[table], id, ColumnId::new(column), out)
            {
                Ok(()) => {}
                Err(Error::Key(_)) => {
                    assert_eq!(self.present[table][at], None, "table {table} row {id}");
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(
            Some(&found),
            self.present[table][at].as_ref(),
            "table {table} row {id}"
        );
    }

    fn look_at_all(&mut self) {
        for table in 0..2 {
            (0..self.present[table].len()).for_each(|at| self.look_at(table, at));
        }
    }

    /// Opens the store again; what was not committed is lost.
    fn reopen(self) -> Self {
        let (flash, secure) = self.store.into_parts();
        Self {
            store: Store::open(flash, secure, MEMORY).unwrap(),
            present: self.committed.clone(),
            ..self
        }
    }
}

#[test]
fn a_thousand_random_transactions_leave_what_the_model_has() {
    let mut mixed = Mixed::new(seed(7));
    for number in 1..=MIXES {
        mixed.mix();
        if number % 40 == 0 {
            mixed.look_at_all();
        }
        if number % 60 == 0 {
            // In the middle of a transaction, as after a loss of power.
            mixed.change();
            mixed = mixed.reopen();
        }
        if number % 110 == 0 {
            let extent = *mixed.choice.of(&[Extent::Whole, Extent::Levels]);
            let tasks = *mixed.choice.of(&[3, u32::MAX]);
            mixed.store.reorganize(extent, tasks, u64::MAX).unwrap();
        }
    }
    mixed.look_at_all();
    mixed.store.verify().unwrap();
    let rows: usize = mixed.present.iter().map(Vec::len).sum();
    let deleted = mixed
        .present
        .iter()
        .flatten()
        .filter(|row| row.is_none())
        .count();
    println!(
        "{rows} rows, {deleted} deleted, {} reorganisations",
        mixed.store.instance()
    );
    assert!(rows > 1_000 && deleted > 100 && mixed.store.instance() > 2);
}
