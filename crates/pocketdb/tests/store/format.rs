//! A database of the format before: it opens, answers, goes on, and is raised in one step.

use probity_pocketdb::flash::{BLOCK_PAGES, Nand as _, PAGE_BYTES, Simulator};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Extent, Heading, Result, Row, SecureStore, Sink, Store};

use crate::script::Shared;

/// Pages of the chip, each behind its number, as the last program of format 6 left them: a reorganised
/// part, another one begun, a unit, waiting rows, deletes and updates.
const CHIP: &[u8] = include_bytes!("../../testdata/format-6/chip");
/// Pieces of its secure store, each behind its place; the rest is zero.
const ROOT: &[u8] = include_bytes!("../../testdata/format-6/root");
/// Queries, and what that program answered.
const ANSWERS: &str = include_str!("../../testdata/format-6/answers");
const MEMORY: usize = 32_768;
const BLOCKS: u32 = 40;
const PIECE_BYTES: usize = 64;

/// The rows of an answer, a line each.
#[derive(Default)]
struct Lines(Vec<String>);

impl Sink for Lines {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        let cells = (0..row.len()).map(|number| row.value(number).to_string());
        self.0.push(cells.collect::<Vec<_>>().join("|"));
        Ok(())
    }
}

fn numbered(bytes: &[u8], length: usize) -> impl Iterator<Item = (u32, &[u8])> {
    bytes.chunks_exact(4 + length).map(|piece| {
        let (number, rest) = piece.split_first_chunk().unwrap();
        (u32::from_le_bytes(*number), rest)
    })
}

fn image() -> (Simulator, MemoryStore) {
    let mut flash = Simulator::new(BLOCKS);
    for (page, bytes) in numbered(CHIP, PAGE_BYTES) {
        assert!(page < BLOCKS * BLOCK_PAGES);
        flash.program(page, bytes).unwrap();
    }
    let mut secure = MemoryStore::new(128 * 1024);
    for (at, bytes) in numbered(ROOT, PIECE_BYTES) {
        let at = usize::try_from(at).unwrap();
        secure.bytes_mut()[at..at + PIECE_BYTES].copy_from_slice(bytes);
    }
    (flash, secure)
}

fn ask<S: SecureStore>(store: &mut Store<Simulator, S>, query: &str) -> Result<Vec<String>> {
    let mut lines = Lines::default();
    store.execute(query, &[], &mut lines)?;
    Ok(lines.0)
}

fn check<S: SecureStore>(store: &mut Store<Simulator, S>, place: &str) {
    let mut lines = ANSWERS.lines().peekable();
    while let Some(query) = lines.next() {
        let mut due = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("SELECT")) {
            due.push(line);
        }
        assert!(due.len() > 5, "{query}");
        assert_eq!(ask(store, query).unwrap(), due, "{place}: {query}");
    }
}

#[test]
fn a_database_of_format_6_is_opened_and_goes_on() {
    let (flash, secure) = image();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, "opened");
    store.verify().unwrap();
    let (flash, mut secure) = store.into_parts();
    let format = probity_pocketdb::root::FORMAT;
    assert_eq!(secure.bytes_mut()[8..10], format.to_le_bytes());
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, "opened again");
    // What is written now lies beside what was written then, in units and in the part begun.
    for number in 0..200 {
        let text = format!("INSERT INTO person (town, name, age) VALUES (1, 'new{number}', 99)");
        assert!(ask(&mut store, &text).is_ok());
    }
    let new = "SELECT id FROM person WHERE age = 99";
    assert_eq!(ask(&mut store, new).unwrap().len(), 200);
    for extent in [Extent::Levels, Extent::Whole] {
        let progress = store.reorganize(extent, u32::MAX, u64::MAX).unwrap();
        assert!(progress.finished);
        assert_eq!(ask(&mut store, new).unwrap().len(), 200, "{extent:?}");
        store.verify().unwrap();
        let (flash, secure) = store.into_parts();
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
    ask(&mut store, "DELETE FROM person WHERE age = 99").unwrap();
    check(&mut store, "reorganised");
}

#[test]
fn a_cut_at_any_write_while_the_format_is_raised_loses_nothing() {
    let whole = {
        let (flash, secure) = image();
        let before = secure.writes();
        let (_, secure) = Store::open(flash, secure, MEMORY).unwrap().into_parts();
        secure.writes() - before
    };
    assert!(whole >= 3, "{whole}");
    for writes in 0..whole {
        for kept in [0, 1, 2, 3, 9, 200] {
            let (flash, mut secure) = image();
            secure.plan_cut(writes, kept);
            let place = format!("write {writes}, {kept} bytes");
            let secure = Shared::new(secure);
            let opened = Store::open(flash.clone(), secure.clone(), MEMORY);
            assert!(opened.is_err(), "{place}");
            secure.change(MemoryStore::restore_power);
            let mut store = Store::open(flash, secure, MEMORY).unwrap();
            check(&mut store, &place);
            store.verify().unwrap();
        }
    }
}
