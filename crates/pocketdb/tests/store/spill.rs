//! With little memory the hashes of a unit go through the temporary log: no index lacks a row for it.

use probity_pocketdb::flash::{Nand as _, PowerCut, Simulator, Torn};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{ColumnId, Result, RowId, Store, TableId};

use crate::script::{SECRET, STORE_BYTES, reference, table, text};

const LITTLE: usize = 32_768;
const MUCH: usize = 65_536;
const BLOCKS: u32 = 24;
/// The tables, and rows of each; the first is referenced.
const TABLES: [TableId; 2] = [TableId::new(2), TableId::new(3)];
const REFERENCED: u32 = 40;
const ROWS: u32 = 400;
/// Rows of one transaction.
const TOGETHER: u32 = 25;
/// Indexed columns of the referenced table, and how many of its rows share a value.
const COLUMNS: [(&str, u32); 4] = [("c1", 1), ("c2", 2), ("c5", 5), ("c9", 9)];

type Spilling = Store<Simulator, MemoryStore>;

fn value(row: u32, each: u32) -> [u8; 6] {
    let text = format!("v{:05}", row / each);
    text.into_bytes().try_into().unwrap()
}

/// The row that row `row` of the second table refers to, counted from zero.
fn target(row: u32) -> u32 {
    row * 17 % REFERENCED
}

fn begun(memory: usize) -> Spilling {
    let (flash, secure) = (Simulator::new(BLOCKS), MemoryStore::new(STORE_BYTES));
    let mut store = Store::create(flash, secure, &SECRET, memory).unwrap();
    let columns = COLUMNS.map(|(name, _)| text(name, 6, true));
    store.create_table(&table("first", &columns)).unwrap();
    let columns = [reference("first", "first"), text("rest", 150, false)];
    store.create_table(&table("second", &columns)).unwrap();
    for row in 0..REFERENCED {
        let bytes = COLUMNS.map(|(_, each)| value(row, each)).concat();
        store.insert(TABLES[0], &bytes, &[]).unwrap();
    }
    store.commit().unwrap();
    store
}

/// Inserts what is missing of the second table, some rows at a time.
fn fill(store: &mut Spilling) -> Result<()> {
    while store.count(TABLES[1]) < ROWS {
        let first = store.count(TABLES[1]);
        for row in first..first + TOGETHER {
            store.insert(TABLES[1], &[7; 150], &[RowId::new(target(row) + 1)])?;
        }
        store.commit()?;
    }
    Ok(())
}

/// Every row of the second table is found by each value of the row that it refers to.
fn check(store: &mut Spilling, place: &str) {
    let rows = store.count(TABLES[1]);
    for (column, (_, each)) in (0u8..).zip(COLUMNS) {
        let index = store
            .index(TABLES[1], TABLES[0], Some(ColumnId::new(column)))
            .unwrap();
        for number in 0..REFERENCED.div_ceil(each) {
            let key = value(number * each, each);
            let mut search = store.search(index, &key).unwrap();
            for row in (0..rows).rev().filter(|&row| target(row) / each == number) {
                let found = store.next(&mut search).unwrap();
                assert_eq!(
                    found,
                    Some(RowId::new(row + 1)),
                    "{place}: column {column} number {number}"
                );
            }
            assert_eq!(store.next(&mut search).unwrap(), None, "{place}");
        }
    }
}

fn filled(memory: usize) -> (u64, u64) {
    let mut store = begun(memory);
    fill(&mut store).unwrap();
    check(&mut store, "filled");
    store.verify().unwrap();
    let flash = store.counters().flash;
    (flash.programs, flash.page_reads)
}

#[test]
fn indexes_made_with_little_memory_find_every_row_for_a_few_programs_more() {
    let (little, much) = (filled(LITTLE), filled(MUCH));
    println!("programs and reads with little memory {little:?}, with much {much:?}");
    // Two units with five indexes on one table: eight pages of hashes each.
    assert_eq!(little.0, much.0 + 2 * 8);
}

#[test]
fn a_cut_at_any_moment_of_a_unit_made_with_little_memory_loses_nothing_committed() {
    let start = begun(LITTLE).into_parts();
    let open = |flash, secure| Store::open(flash, secure, LITTLE).unwrap();
    let mut store = open(start.0.clone(), start.1.clone());
    let before = store.counters().flash;
    fill(&mut store).unwrap();
    let after = store.counters().flash;
    let operations = after.programs + after.erases - before.programs - before.erases;
    assert!(operations > 60, "{operations}");
    for after in 0..operations {
        let torn = if after % 2 == 0 {
            Torn::Nothing
        } else {
            Torn::Prefix(600)
        };
        let (mut flash, secure) = start.clone();
        flash.plan_cut(PowerCut { after, torn });
        let mut store = open(flash, secure);
        // A failure behind the last commit is the error of the next operation.
        let cut = fill(&mut store).and_then(|()| store.commit());
        assert!(cut.is_err(), "cut {after}");
        let (mut flash, secure) = store.into_parts();
        flash.restore_power();
        let mut store = open(flash, secure);
        check(&mut store, &format!("cut {after}"));
        fill(&mut store).unwrap();
        check(&mut store, &format!("after cut {after}"));
        store.verify().unwrap();
    }
}

#[test]
fn a_block_that_fails_while_a_unit_is_made_with_little_memory_is_left() {
    let start = begun(LITTLE).into_parts();
    for block in 0..start.0.blocks() {
        let (mut flash, secure) = start.clone();
        flash.wear_out(block);
        let mut store = Store::open(flash, secure, LITTLE).unwrap();
        fill(&mut store).unwrap();
        check(&mut store, &format!("block {block} failed"));
        store.verify().unwrap();
    }
}
