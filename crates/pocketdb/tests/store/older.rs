//! An older secure store under a chip on which later openings wrote.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, RowId, Store};

use crate::script::{
    BLOCKS, MEMORY, SECRET, STORE_BYTES, TABLES, new_store, row, store_on, table, text,
};

type Opened = Store<Simulator, MemoryStore>;

/// Pages of a block, each of which takes one commit of one row.
const BLOCK_COMMITS: u32 = 64;

fn insert(store: &mut Opened, rows: std::ops::Range<u32>) {
    for number in rows {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
    }
}

fn reorganize(store: &mut Opened) {
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
}

fn again(store: Opened) -> Opened {
    let (flash, secure) = store.into_parts();
    Store::open(flash, secure, MEMORY).unwrap()
}

fn assert_refused(store: &Opened, older: &MemoryStore, place: &str) {
    let opened = Store::open(store.device().clone(), older.clone(), MEMORY);
    let error = opened.err();
    assert!(
        matches!(error, Some(Error::Root(_) | Error::Tampered { .. })),
        "{place}: {error:?}"
    );
}

/// The places looked at took nothing but pages of the buffer and of catalogues for later ones. A
/// state without a page of the buffer, or whose last one ends its block, opened under a chip on which
/// a reorganisation stood there, and whose later rows were gone without a word.
#[test]
fn an_older_root_is_refused_whatever_was_written_at_its_next_places() {
    for commits in [0, 1, BLOCK_COMMITS - 1, BLOCK_COMMITS, 2 * BLOCK_COMMITS] {
        let mut store = new_store();
        insert(&mut store, 0..commits);
        let older = store.secure_store().clone();
        store = again(store);
        reorganize(&mut store);
        store = again(store);
        assert_refused(&store, &older, &format!("{commits}, reorganised"));
        insert(&mut store, commits..commits + 500);
        assert_refused(&store, &older, &format!("{commits}, 500 rows behind"));
        for turn in 0..6 {
            store = again(store);
            reorganize(&mut store);
            assert_refused(&store, &older, &format!("{commits}, turn {turn}"));
        }
    }
}

/// An empty store has no page that could be missed: its next places alone tell, in every turn of the
/// blocks.
#[test]
fn a_root_without_pages_is_refused_in_every_turn_of_the_chip() {
    let store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    );
    let mut store = store.unwrap();
    let older = store.secure_store().clone();
    store = again(store);
    crate::script::create_tables(&mut store).unwrap();
    for turn in 0..14 {
        store = again(store);
        insert(&mut store, turn * 300..turn * 300 + 300);
        assert_refused(&store, &older, &format!("turn {turn}, rows"));
        reorganize(&mut store);
        assert_refused(&store, &older, &format!("turn {turn}, reorganised"));
    }
}

/// Behind a copy from the middle of an opening lie that opening's own pages, which look like those
/// that a loss of power left. Pages of later openings lie behind them.
#[test]
fn a_root_from_the_middle_of_an_opening_is_refused_once_another_wrote() {
    for (before, after) in [(10, 10), (10, 300), (64, 300), (200, 1_000)] {
        let mut store = new_store();
        insert(&mut store, 0..before);
        let older = store.secure_store().clone();
        insert(&mut store, before..before + after);
        store = again(store);
        insert(&mut store, before + after..before + after + 1);
        assert_refused(&store, &older, &format!("{before} and {after}"));
    }
}

/// The map of free blocks covers 64, and all of them may be in use.
#[test]
fn a_root_is_refused_where_a_part_fills_the_blocks_behind_it() {
    let mut store = store_on(200);
    for number in 0..3_000 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        if number % 20 == 0 {
            store.commit().unwrap();
        }
    }
    store.commit().unwrap();
    reorganize(&mut store);
    for state in 0..60 {
        let older = store.secure_store().clone();
        store = again(store);
        insert(&mut store, 3_000 + state * 64..3_064 + state * 64);
        assert_refused(&store, &older, &format!("state {state}"));
    }
}

/// A failed block is left where it is.
#[test]
fn a_root_is_refused_where_the_next_block_failed_since() {
    let mut store = new_store();
    insert(&mut store, 0..BLOCK_COMMITS);
    let (flash, older) = store.into_parts();
    let free = (0..BLOCKS).find(|block| !flash.is_programmed(block * 64));
    let mut worn = flash;
    worn.wear_out(free.unwrap());
    let mut store = Store::open(worn, older.clone(), MEMORY).unwrap();
    insert(&mut store, BLOCK_COMMITS..BLOCK_COMMITS + 5);
    assert_refused(&store, &older, "behind a failed block");
}

/// A loss of power leaves pages behind the newest record, which are no later state.
#[test]
fn pages_that_no_record_names_are_not_later_ones() {
    let mut store = new_store();
    insert(&mut store, 0..BLOCK_COMMITS);
    let older = store.secure_store().clone();
    for number in 0..30 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
    }
    let (flash, _) = {
        store.commit().unwrap();
        store.into_parts()
    };
    let store = Store::open(flash, older, MEMORY).unwrap();
    assert_eq!(store.count(TABLES[0]), BLOCK_COMMITS);
}

/// A unit of several blocks takes none that stands alone.
#[test]
fn wide_units_are_found_where_they_are_placed() {
    let flash = Simulator::new(BLOCKS);
    let mut store = Store::create(flash, MemoryStore::new(STORE_BYTES), &SECRET, MEMORY).unwrap();
    store
        .create_table(&table("wide", &[text("wide", 1_500, false)]))
        .unwrap();
    for number in 0..400u32 {
        let older = store.secure_store().clone();
        store = again(store);
        let mut bytes = [7; 1_500];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        store.insert(TABLES[0], &bytes, &[]).unwrap();
        store.commit().unwrap();
        assert_refused(&store, &older, &format!("row {number}"));
    }
}

/// Each opening took new numbers, also one that changed nothing. An older root with which its own chip
/// had been asked took the pages of the newer chip for older ones: it opened, rows were gone, and the
/// next commit overwrote them.
#[test]
fn an_older_root_that_was_opened_beside_its_own_chip_is_refused() {
    for commits in [1, 5, BLOCK_COMMITS] {
        for later in [1, 5, 300] {
            let mut store = new_store();
            insert(&mut store, 0..commits);
            let (chip, root) = store.into_parts();
            let mut newer = Store::open(chip.clone(), root.clone(), MEMORY).unwrap();
            insert(&mut newer, commits..commits + later);
            let (newest, _) = newer.into_parts();
            let mut copy = (chip, root);
            for openings in 0..9 {
                let place = format!("{commits} and {later}, {openings} openings");
                let opened = Store::open(newest.clone(), copy.1.clone(), MEMORY);
                let error = opened.err();
                assert!(
                    matches!(error, Some(Error::Root(what)) if what.starts_with("is older")),
                    "{place}: {error:?}"
                );
                let mut store = Store::open(copy.0, copy.1, MEMORY).unwrap();
                let mut bytes = row(0, 0);
                store.read(TABLES[0], RowId::new(1), &mut bytes).unwrap();
                assert_eq!(store.count(TABLES[0]), commits, "{place}");
                copy = store.close().unwrap();
            }
        }
    }
}

/// Work of a copy of a database that takes no page of its chip.
type Quiet = (&'static str, fn(&mut Opened));

fn begin(store: &mut Opened, extent: Extent) {
    let progress = store.reorganize(extent, 0, u64::MAX).unwrap();
    assert!(!progress.finished);
}

const QUIET: [Quiet; 4] = [
    ("begun", |store| begin(store, Extent::Whole)),
    ("begun and cancelled", |store| {
        begin(store, Extent::Whole);
        store.cancel_reorganization().unwrap();
    }),
    ("levels begun and cancelled", |store| {
        begin(store, Extent::Levels);
        store.cancel_reorganization().unwrap();
    }),
    ("begun, opened, cancelled and begun", |store| {
        begin(store, Extent::Whole);
        let taken = std::mem::replace(store, new_store());
        *store = again(taken);
        store.cancel_reorganization().unwrap();
        begin(store, Extent::Whole);
    }),
];

fn is_same_chip(one: &Simulator, other: &Simulator) -> bool {
    (0..BLOCKS * BLOCK_COMMITS).all(|page| one.peek(page) == other.peek(page))
}

/// The record of a reorganisation that was begun or cancelled took the numbers of its opening, though no
/// page of the chip had them: the root of such a copy opened beside the newer chip, and committed rows
/// were gone. Records have further numbers once a page is programmed, and not before.
#[test]
fn an_older_root_that_only_began_or_cancelled_a_reorganisation_is_refused() {
    for is_reorganised in [false, true] {
        for commits in [1, 5, BLOCK_COMMITS] {
            for (name, quiet) in QUIET {
                let mut store = new_store();
                insert(&mut store, 0..commits);
                if is_reorganised {
                    reorganize(&mut store);
                    insert(&mut store, commits..commits + 1);
                }
                let rows = store.count(TABLES[0]);
                let (chip, root) = store.close().unwrap();
                let mut newer = Store::open(chip.clone(), root.clone(), MEMORY).unwrap();
                insert(&mut newer, rows..rows + 2);
                let newest = newer.into_parts().0;
                let mut copy = Store::open(chip.clone(), root, MEMORY).unwrap();
                quiet(&mut copy);
                let (same, older) = copy.close().unwrap();
                let place = format!("{commits}, {is_reorganised}, {name}");
                assert!(is_same_chip(&chip, &same), "{place}");
                let opened = Store::open(newest, older.clone(), MEMORY);
                let error = opened.err();
                assert!(
                    matches!(error, Some(Error::Root(what)) if what.starts_with("is older")),
                    "{place}: {error:?}"
                );
                // The copy goes on by itself, with pages of both generations.
                let mut copy = Store::open(same, older, MEMORY).unwrap();
                insert(&mut copy, rows..rows + 300);
                let mut copy = again(copy);
                copy.verify().unwrap();
                reorganize(&mut copy);
                let mut copy = again(copy);
                copy.verify().unwrap();
                assert_eq!(copy.count(TABLES[0]), rows + 300, "{place}");
            }
        }
    }
}

/// Of tables without rows whole tasks of a reorganisation take no page either.
#[test]
fn an_older_root_of_empty_tables_is_refused_whatever_tasks_it_did() {
    for tasks in 0..4 {
        let (chip, root) = new_store().close().unwrap();
        let mut newer = Store::open(chip.clone(), root.clone(), MEMORY).unwrap();
        insert(&mut newer, 0..2);
        let newest = newer.into_parts().0;
        let mut copy = Store::open(chip.clone(), root, MEMORY).unwrap();
        copy.reorganize(Extent::Whole, tasks, u64::MAX).unwrap();
        let (same, older) = copy.close().unwrap();
        let is_same = is_same_chip(&chip, &same);
        let error = Store::open(newest, older, MEMORY).err();
        assert!(
            matches!(error, Some(Error::Root(_) | Error::Tampered { .. })),
            "{tasks} tasks, {is_same}: {error:?}"
        );
        assert!(is_same || tasks > 2, "{tasks}");
    }
}
