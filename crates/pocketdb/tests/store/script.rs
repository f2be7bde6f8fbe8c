//! A deterministic script of transactions and the model its result is compared with.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use probity_pocketdb::flash::{FlashCounters, FlashError, Nand, PageState, Simulator};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{
    ColumnDefinition, ColumnId, Kind, Layout, Result, RowId, SecureStore, SecureStoreError, Store,
    TableDefinition, TableId,
};

pub(crate) const BLOCKS: u32 = 48;
pub(crate) const STORE_BYTES: usize = 128 * 1024;
pub(crate) const MEMORY: usize = 65_536;
pub(crate) const SECRET: [u8; 32] = [0x5A; 32];
/// The numbers of the two tables of the script; the first two belong to the engine.
pub(crate) const TABLES: [TableId; 2] = [TableId::new(2), TableId::new(3)];
pub(crate) const WIDTHS: [usize; 2] = [160, 40];

/// A text column.
pub(crate) fn text(name: &str, bytes: u16, indexed: bool) -> ColumnDefinition<'_> {
    ColumnDefinition {
        name,
        kind: Kind::Text(bytes),
        indexed,
        unique: false,
        reference: None,
    }
}

/// A foreign key.
pub(crate) fn reference<'a>(name: &'a str, table: &'a str) -> ColumnDefinition<'a> {
    ColumnDefinition {
        name,
        kind: Kind::Reference,
        indexed: false,
        unique: false,
        reference: Some((table, "")),
    }
}

/// A table in the usual layout.
pub(crate) fn table<'a>(name: &'a str, columns: &'a [ColumnDefinition<'a>]) -> TableDefinition<'a> {
    TableDefinition {
        name,
        columns,
        layout: Layout::Keyed,
    }
}

/// Creates the two tables, each with an index, so that crashes and attacks meet its pages too.
pub(crate) fn create_tables<F: Nand, S: SecureStore>(store: &mut Store<F, S>) -> Result<()> {
    let first = [
        text("head", 10, false),
        text("key", 8, true),
        text("rest", 142, false),
    ];
    store.create_table(&table("first", &first))?;
    let second = [text("key", 30, true), text("rest", 10, false)];
    store.create_table(&table("second", &second))?;
    Ok(())
}

/// A device that survives the store which uses it.
pub(crate) struct Shared<T>(Rc<RefCell<T>>);

impl<T: Clone> Shared<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self(Rc::new(RefCell::new(inner)))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.0.borrow_mut());
    }

    pub(crate) fn copy(&self) -> T {
        self.0.borrow().clone()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl Nand for Shared<Simulator> {
    fn blocks(&self) -> u32 {
        self.0.borrow().blocks()
    }

    fn read(
        &mut self,
        page: u32,
        at: usize,
        out: &mut [u8],
    ) -> core::result::Result<PageState, FlashError> {
        self.0.borrow_mut().read(page, at, out)
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> core::result::Result<(), FlashError> {
        self.0.borrow_mut().program(page, bytes)
    }

    fn erase(&mut self, block: u32) -> core::result::Result<(), FlashError> {
        self.0.borrow_mut().erase(block)
    }

    fn counters(&self) -> FlashCounters {
        self.0.borrow().counters()
    }
}

impl SecureStore for Shared<MemoryStore> {
    fn capacity(&self) -> usize {
        self.0.borrow().capacity()
    }

    fn read(
        &mut self,
        offset: usize,
        out: &mut [u8],
    ) -> core::result::Result<(), SecureStoreError> {
        self.0.borrow_mut().read(offset, out)
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> core::result::Result<(), SecureStoreError> {
        self.0.borrow_mut().write(offset, bytes)
    }

    fn sync(&mut self) -> core::result::Result<(), SecureStoreError> {
        self.0.borrow_mut().sync()
    }
}

/// Rows that the store must hold.
#[derive(Clone, Default)]
pub(crate) struct Model {
    committed: [Vec<Vec<u8>>; 2],
    pending: [Vec<Vec<u8>>; 2],
    pub(crate) steps: u32,
}

impl Model {
    pub(crate) fn committed_total(&self) -> u32 {
        u32::try_from(self.committed[0].len() + self.committed[1].len()).unwrap()
    }

    /// The committed rows of each table.
    pub(crate) fn rows(&self) -> &[Vec<Vec<u8>>; 2] {
        &self.committed
    }

    pub(crate) fn accept_pending(&mut self) {
        for (committed, pending) in self.committed.iter_mut().zip(&mut self.pending) {
            committed.append(pending);
        }
    }

    fn forget_pending(&mut self) {
        self.pending.iter_mut().for_each(Vec::clear);
    }
}

pub(crate) fn new_store() -> Store<Simulator, MemoryStore> {
    store_on(BLOCKS)
}

/// An empty store on a chip of so many blocks.
pub(crate) fn store_on(blocks: u32) -> Store<Simulator, MemoryStore> {
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(blocks);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    store
}

/// The bytes of a row: recognisable, so that a leak of them into the image is found.
pub(crate) fn row(table: usize, number: u32) -> Vec<u8> {
    let text = format!("table {table} row {number:08} of the person;");
    text.bytes().cycle().take(WIDTHS[table]).collect()
}

/// Plays steps: transactions of 1 to 30 rows; every seventh is rolled back.
pub(crate) fn play<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    model: &mut Model,
    steps: Range<u32>,
) -> Result<()> {
    for step in steps {
        model.forget_pending();
        for number in 0..=((step * 13) % 30) {
            let table = usize::from((step + number).is_multiple_of(3));
            let bytes = row(table, step * 1000 + number);
            store.insert(TABLES[table], &bytes, &[])?;
            model.pending[table].push(bytes);
        }
        if step % 7 == 6 {
            store.rollback()?;
            model.forget_pending();
        } else {
            store.commit()?;
            model.accept_pending();
        }
        model.steps = step + 1;
    }
    Ok(())
}

/// Every row of the model is in the store, and no other.
pub(crate) fn check<F: Nand, S: SecureStore>(store: &mut Store<F, S>, model: &Model, place: &str) {
    for (table, rows) in model.committed.iter().enumerate() {
        assert_eq!(
            store.count(TABLES[table]) as usize,
            rows.len(),
            "{place}: table {table}"
        );
        let mut found = vec![0; WIDTHS[table]];
        for (id, expected) in (1..).map(RowId::new).zip(rows) {
            store
                .read(TABLES[table], id, &mut found)
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(&found, expected, "{place}: table {table} row {id}");
        }
    }
}

/// The column of each table that is indexed, and where it lies in a row.
const KEYS: [(ColumnId, Range<usize>); 2] = [(ColumnId::new(1), 10..18), (ColumnId::new(0), 0..30)];

/// Rows read one by one and searched for by their keys: all are right and none is missing, or an error.
///
/// Keys of the first, the last and some rows between are searched for.
pub(crate) fn answers<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    model: &Model,
    place: &str,
) -> Result<()> {
    for (table, rows) in model.committed.iter().enumerate() {
        assert_eq!(store.count(TABLES[table]) as usize, rows.len(), "{place}");
        let mut found = vec![0; WIDTHS[table]];
        for (id, expected) in (1..).map(RowId::new).zip(rows) {
            store.read(TABLES[table], id, &mut found)?;
            assert_eq!(&found, expected, "{place}: table {table} row {id}");
        }
        let (column, at) = KEYS[table].clone();
        let index = store.index(TABLES[table], TABLES[table], Some(column));
        for asked in rows
            .iter()
            .step_by(rows.len().div_ceil(4).max(1))
            .chain(rows.last())
        {
            let key = &asked[at.clone()];
            let mut search = store.search(index.unwrap(), key)?;
            let has_key = |(_, row): &(RowId, &Vec<u8>)| &row[at.clone()] == key;
            for (id, _) in (1..)
                .map(RowId::new)
                .zip(rows)
                .filter(has_key)
                .collect::<Vec<_>>()
                .iter()
                .rev()
            {
                assert_eq!(
                    store.next(&mut search)?,
                    Some(*id),
                    "{place}: table {table}"
                );
            }
            assert_eq!(store.next(&mut search)?, None, "{place}: table {table}");
        }
    }
    Ok(())
}
