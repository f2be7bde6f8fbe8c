//! A search returns exactly the rows that hold the key, newest first, at every selectivity.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Cursor, IndexKey, Store};

use crate::script::{MEMORY, SECRET, STORE_BYTES};

/// Distinct values of the indexed parts; the rows repeat them pseudo-randomly.
const DISTINCT: [u32; 6] = [1, 3, 30, 300, 3_000, 1_000_000];
const ROWS: u32 = 6_000;

fn value(row: u32, column: usize) -> u32 {
    let mut mixed = (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (column as u64) << 7;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    u32::try_from((mixed >> 33) % u64::from(DISTINCT[column])).unwrap()
}

fn all(store: &mut Store<Simulator, MemoryStore>, cursor: &mut Cursor) -> Vec<u32> {
    std::iter::from_fn(|| store.next(cursor).unwrap()).collect()
}

#[test]
fn a_search_equals_a_scan_at_every_selectivity() {
    let columns = 0..DISTINCT.len();
    let keys = (0..24).step_by(4).map(|at| IndexKey {
        table: 0,
        at,
        bytes: 4,
    });
    let indexes: Vec<_> = keys.collect();
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, &[24], &indexes, MEMORY).unwrap();
    for row in 0..ROWS {
        let bytes: Vec<u8> = columns
            .clone()
            .flat_map(|c| value(row, c).to_le_bytes())
            .collect();
        store.insert(0, &bytes).unwrap();
        if row % 50 == 49 {
            store.commit().unwrap();
        }
    }
    for column in columns {
        let known = [value(17, column), value(5_990, column)];
        for probe in (0..DISTINCT[column].min(12)).chain(known) {
            let matches = |row: &u32| value(*row, column) == probe;
            let expected: Vec<u32> = (0..ROWS).rev().filter(matches).map(|row| row + 1).collect();
            let mut cursor = store.search(column, &probe.to_le_bytes()).unwrap();
            assert_eq!(
                all(&mut store, &mut cursor),
                expected,
                "column {column} value {probe}"
            );
        }
    }
    store.verify().unwrap();
}

#[test]
fn a_search_goes_on_while_rows_are_added() {
    let indexes = [IndexKey {
        table: 0,
        at: 0,
        bytes: 1,
    }];
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, &[4], &indexes, MEMORY).unwrap();
    let add = |store: &mut Store<_, _>| {
        for number in 0..100u8 {
            store.insert(0, &[number % 2; 4]).unwrap();
        }
        store.commit().unwrap();
    };
    add(&mut store);
    let mut cursor = store.search(0, &[1]).unwrap();
    let mut found: Vec<u32> = (0..10)
        .map(|_| store.next(&mut cursor).unwrap().unwrap())
        .collect();
    add(&mut store);
    add(&mut store);
    found.extend(all(&mut store, &mut cursor));
    let expected: Vec<u32> = (1..=100).rev().filter(|id| id % 2 == 0).collect();
    assert_eq!(found, expected);
    assert!(store.search(1, &[1]).is_err());
    assert!(store.search(0, &[1, 2]).is_err());
}
