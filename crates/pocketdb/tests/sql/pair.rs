//! This engine and `SQLite` side by side, told the same and asked the same.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Heading, Outcome, Result, Row, Sink, Store, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::query::Query;

const SECRET: [u8; 32] = [0x5A; 32];

/// A value of a result, to be compared.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

/// Keeps a whole result.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Sink for Kept {
    fn begin(&mut self, columns: &[Heading<'_>]) -> Result<()> {
        self.columns = columns
            .iter()
            .map(|column| column.name.to_owned())
            .collect();
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        let cell = |number| match row.value(number) {
            Value::Null => Cell::Null,
            Value::Integer(number) => Cell::Integer(number),
            Value::Real(number) => Cell::Real(number),
            Value::Text(text) => Cell::Text(text.to_owned()),
        };
        self.rows.push((0..row.len()).map(cell).collect());
        Ok(())
    }
}

pub(crate) struct Pair {
    pub(crate) own: Option<Store<Simulator, MemoryStore>>,
    pub(crate) other: Connection,
    memory: usize,
}

impl Pair {
    pub(crate) fn new(memory: usize, blocks: u32) -> Self {
        Self::sized(memory, blocks, 512 * 1024)
    }

    pub(crate) fn sized(memory: usize, blocks: u32, store_bytes: usize) -> Self {
        let (flash, secure) = (Simulator::new(blocks), MemoryStore::new(store_bytes));
        let other = Connection::open_in_memory().unwrap();
        other.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        Self {
            own: Some(Store::create(flash, secure, &SECRET, memory).unwrap()),
            other,
            memory,
        }
    }

    pub(crate) fn store(&mut self) -> &mut Store<Simulator, MemoryStore> {
        self.own.as_mut().unwrap()
    }

    /// Runs a statement here only.
    pub(crate) fn own(&mut self, text: &str) -> Result<(Outcome, Kept)> {
        let mut kept = Kept::default();
        let outcome = self.store().execute(text, &[], &mut kept)?;
        Ok((outcome, kept))
    }

    /// Runs a change on both sides; both make it or both refuse it.
    pub(crate) fn change(&mut self, text: &str) -> bool {
        let own = self.own(text);
        let other = self.other.execute_batch(text);
        match (&own, &other) {
            (Ok(_), Ok(())) => true,
            (Err(Error::Key(_)), Err(_)) => false,
            _ => panic!("{text}: {own:?} but {other:?}"),
        }
    }

    /// Opens the store again, as after an orderly or an unexpected end.
    pub(crate) fn reopen(&mut self) {
        let (flash, secure) = self.own.take().unwrap().into_parts();
        self.own = Some(Store::open(flash, secure, self.memory).unwrap());
    }

    /// Asks both sides and compares; returns the number of rows.
    pub(crate) fn ask(&mut self, query: &Query) -> usize {
        let asked = catch_unwind(AssertUnwindSafe(|| self.own(&query.text)));
        let (_, own) = match asked {
            Ok(result) => result.unwrap_or_else(|error| panic!("{}: {error}", query.text)),
            Err(panic) => {
                println!("{}", query.text);
                resume_unwind(panic);
            }
        };
        let other = self.sqlite(&query.text);
        let keys = |rows: &[Vec<Cell>]| -> Vec<Vec<Cell>> {
            let key =
                |row: &Vec<Cell>| query.ordered_by.iter().map(|&at| row[at].clone()).collect();
            rows.iter().map(key).collect()
        };
        let text = &query.text;
        assert_eq!(keys(&own.rows), keys(&other), "{text}");
        let (mut own, mut other) = (own.rows, other);
        own.sort_by(|a, b| a.partial_cmp(b).unwrap());
        other.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(own.len(), other.len(), "{text}");
        assert_eq!(own, other, "{text}");
        own.len()
    }

    pub(crate) fn sqlite(&self, text: &str) -> Vec<Vec<Cell>> {
        let mut statement = self.other.prepare(text).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut kept = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cell = |number| match row.get_ref(number).unwrap() {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Real(number) => Cell::Real(number),
                ValueRef::Text(text) => Cell::Text(String::from_utf8(text.to_vec()).unwrap()),
                ValueRef::Blob(_) => panic!("a blob"),
            };
            kept.push((0..columns).map(cell).collect());
        }
        kept
    }
}
