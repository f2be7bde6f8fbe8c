//! A database of an earlier version: it opens, answers, goes on, and gets the present form.

use probity_pocketdb::flash::{BLOCK_PAGES, Nand as _, PAGE_BYTES, Simulator};
use probity_pocketdb::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Heading, Result, Row, SecureStore, Sink, Store};

use crate::script::Shared;

/// Pages of the chip, each behind its number, as the last program of format 6 left them: a reorganised
/// part, another one begun, a unit, waiting rows, deletes and updates.
const CHIP: &[u8] = include_bytes!("../../testdata/format-6/chip");
/// Pieces of its secure store, each behind its place; the rest is zero.
const ROOT: &[u8] = include_bytes!("../../testdata/format-6/root");
/// Queries, and what that program answered.
const ANSWERS: &str = include_str!("../../testdata/format-6/answers");
/// This database in format 7, with more tasks of the other part done.
const CHIP_7: &[u8] = include_bytes!("../../testdata/format-7/chip");
/// Pieces of its secure store.
const ROOT_7: &[u8] = include_bytes!("../../testdata/format-7/root");
/// A database of format 8: reorganised once, changed, and with another part begun.
const CHIP_8: &[u8] = include_bytes!("../../testdata/format-8/chip");
/// Pieces of its secure store.
const ROOT_8: &[u8] = include_bytes!("../../testdata/format-8/root");
const MEMORY: usize = 32_768;
const BLOCKS: u32 = 40;
/// A database of three rows in the present format, in whose ring a version before filled ten slots.
const FEW_CHIP: &[u8] = include_bytes!("../../testdata/ring-not-full/chip");
/// Its root file, which ends with the tenth record.
const FEW_ROOT: &[u8] = include_bytes!("../../testdata/ring-not-full/root");
const FEW_MEMORY: usize = 65_536;
const FEW_BLOCKS: u32 = 8;
const STORE_BYTES: usize = 128 * 1024;
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

fn chip(pages: &[u8], blocks: u32) -> Simulator {
    let mut flash = Simulator::new(blocks);
    for (page, bytes) in numbered(pages, PAGE_BYTES) {
        assert!(page < blocks * BLOCK_PAGES);
        flash.program(page, bytes).unwrap();
    }
    flash
}

fn image() -> (Simulator, MemoryStore) {
    image_of(CHIP, ROOT)
}

fn image_of(pages: &[u8], root: &[u8]) -> (Simulator, MemoryStore) {
    (chip(pages, BLOCKS), root_of(root))
}

fn root_of(root: &[u8]) -> MemoryStore {
    let mut secure = MemoryStore::new(STORE_BYTES);
    for (at, bytes) in numbered(root, PIECE_BYTES) {
        let at = usize::try_from(at).unwrap();
        secure.bytes_mut()[at..at + PIECE_BYTES].copy_from_slice(bytes);
    }
    secure
}

/// The database of format 8.
fn unbound() -> (Simulator, MemoryStore) {
    (chip(CHIP_8, FEW_BLOCKS), root_of(ROOT_8))
}

/// The database whose ring is not full.
pub(crate) fn few_records() -> (Simulator, MemoryStore) {
    let mut secure = MemoryStore::new(STORE_BYTES);
    secure.bytes_mut()[..FEW_ROOT.len()].copy_from_slice(FEW_ROOT);
    (chip(FEW_CHIP, FEW_BLOCKS), secure)
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
    let format = probity_pocketdb::FORMAT;
    assert_eq!(secure.bytes_mut()[8..10], format.to_le_bytes());
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, "opened again");
    // Pages of now lie beside pages of then, in units and in the part begun.
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
fn a_database_of_format_7_gets_the_code_of_its_directory() {
    let (flash, mut secure) = image_of(CHIP_7, ROOT_7);
    assert_eq!(secure.bytes_mut()[8..10], [7, 0]);
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, "opened");
    store.verify().unwrap();
    let (flash, secure) = store.into_parts();
    let head = secure.clone().bytes_mut()[8..12].to_vec();
    assert_eq!(head, [9, 0, !9, !0]);
    let mut refused = 0;
    for at in (33_792..STORE_BYTES).step_by(16) {
        let mut changed = secure.clone();
        if changed.bytes_mut()[at..at + 16] == [0; 16] {
            continue;
        }
        changed.bytes_mut()[at + 5] ^= 4;
        // The format of before does not make such a store readable again.
        for format in [&head[..], &[8, 0, !8, !0], &[7, 0, !7, !0]] {
            changed.bytes_mut()[8..12].copy_from_slice(format);
            match Store::open(flash.clone(), changed.clone(), MEMORY) {
                Err(error) => {
                    assert_eq!(error, Error::Root("is damaged"), "{at}");
                    refused += 1;
                }
                // No record counts this entry.
                Ok(mut store) => check(&mut store, &format!("{at}")),
            }
        }
    }
    assert!(refused > 30, "{refused}");
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    store
        .reorganize(Extent::Levels, u32::MAX, u64::MAX)
        .unwrap();
    store.verify().unwrap();
    check(&mut store, "reorganised");
}

#[test]
fn a_cut_at_any_write_while_the_format_is_raised_loses_nothing() {
    for (pages, root) in [(CHIP, ROOT), (CHIP_7, ROOT_7)] {
        let whole = {
            let (flash, secure) = image_of(pages, root);
            let before = secure.writes();
            let (_, secure) = Store::open(flash, secure, MEMORY).unwrap().into_parts();
            secure.writes() - before
        };
        assert!(whole >= 2, "{whole}");
        for writes in 0..whole {
            for kept in [0, 1, 2, 3, 9, 200] {
                let (flash, mut secure) = image_of(pages, root);
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
}

const FEW_ROWS: [&str; 3] = ["3|Cy", "2|Bo", "1|Ada"];

/// In a ring that was not full, records that a cut took looked as if they had never been written, and databases of earlier versions have
/// such rings. They open with all rows, and from then on a cut is refused.
#[test]
fn a_ring_that_an_earlier_version_left_is_filled_by_the_first_opening() {
    let (flash, secure) = few_records();
    let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
    assert_eq!(ask(&mut store, "SELECT * FROM people").unwrap(), FEW_ROWS);
    store.verify().unwrap();
    let (flash, secure) = store.into_parts();
    for slots in 0..RECORD_SLOTS {
        let mut cut = secure.clone();
        cut.bytes_mut()[512 + slots * ROOT_RECORD_BYTES..].fill(0);
        let refused = Store::open(flash.clone(), cut, FEW_MEMORY).err();
        assert_eq!(refused, Some(Error::Root("is damaged")), "{slots} slots");
    }
    let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
    assert_eq!(ask(&mut store, "SELECT * FROM people").unwrap(), FEW_ROWS);
    // Once is enough: an opening has one record.
    assert_eq!(store.counters().root_writes, 1);
}

#[test]
fn a_cut_at_any_write_while_the_ring_is_filled_loses_nothing() {
    let whole = {
        let (flash, secure) = few_records();
        let (_, secure) = Store::open(flash, secure, FEW_MEMORY).unwrap().into_parts();
        secure.writes()
    };
    assert!(whole > 50, "{whole}");
    for writes in 0..whole {
        for kept in [0, 9, 200] {
            let (flash, mut secure) = few_records();
            secure.plan_cut(writes, kept);
            let place = format!("write {writes}, {kept} bytes");
            let secure = Shared::new(secure);
            let opened = Store::open(flash.clone(), secure.clone(), FEW_MEMORY);
            assert!(opened.is_err(), "{place}");
            secure.change(MemoryStore::restore_power);
            let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
            let found = ask(&mut store, "SELECT * FROM people").unwrap();
            assert_eq!(found, FEW_ROWS, "{place}");
            store.verify().unwrap();
        }
    }
}

const UNBOUND_ROWS: [&str; 3] = ["4|Di|2", "3|Cy|3", "1|Ada|1"];

/// A record of format 8 binds no secret. Such a store opens, and from then on its secrets are bound.
#[test]
fn a_store_of_format_8_binds_its_secrets_from_its_first_opening_on() {
    let (flash, mut secure) = unbound();
    assert_eq!(secure.bytes_mut()[8..12], [8, 0, !8, !0]);
    let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
    let query = "SELECT * FROM people";
    assert_eq!(ask(&mut store, query).unwrap(), UNBOUND_ROWS);
    let (flash, mut secure) = store.into_parts();
    assert_eq!(secure.bytes_mut()[8..12], [9, 0, !9, !0]);
    let in_use = (208..336)
        .step_by(32)
        .filter(|&at| secure.clone().bytes_mut()[at..at + 32] != [0; 32]);
    let places: Vec<usize> = in_use.chain([336]).collect();
    assert_eq!(places.len(), 3);
    for at in places {
        for format in [[9, 0, !9, !0], [8, 0, !8, !0]] {
            let mut changed = secure.clone();
            changed.bytes_mut()[at + 31] ^= 1;
            changed.bytes_mut()[8..12].copy_from_slice(&format);
            let refused = Store::open(flash.clone(), changed, FEW_MEMORY).err();
            assert!(
                matches!(refused, Some(Error::Root(_) | Error::Tampered { .. })),
                "{at}: {refused:?}"
            );
        }
    }
    let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
    store.verify().unwrap();
    let (flash, secure) = store.into_parts();
    let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
    assert_eq!(ask(&mut store, query).unwrap(), UNBOUND_ROWS);
}

#[test]
fn a_cut_at_any_write_while_secrets_are_bound_loses_nothing() {
    let writes = |(_, secure): (Simulator, MemoryStore)| secure.writes();
    let begun = writes(unbound());
    let opened = Store::open(unbound().0, unbound().1, FEW_MEMORY).unwrap();
    let whole = writes(opened.into_parts()) - begun;
    assert!(whole >= 2, "{whole}");
    for cut in 0..whole {
        for kept in [0, 1, 2, 3, 9, 200] {
            let (flash, mut secure) = unbound();
            secure.plan_cut(cut, kept);
            let place = format!("write {cut}, {kept} bytes");
            let secure = Shared::new(secure);
            let opened = Store::open(flash.clone(), secure.clone(), FEW_MEMORY);
            assert!(opened.is_err(), "{place}");
            secure.change(MemoryStore::restore_power);
            let mut store = Store::open(flash, secure, FEW_MEMORY).unwrap();
            let found = ask(&mut store, "SELECT * FROM people").unwrap();
            assert_eq!(found, UNBOUND_ROWS, "{place}");
            store.verify().unwrap();
        }
    }
}
