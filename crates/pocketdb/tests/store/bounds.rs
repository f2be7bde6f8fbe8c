//! Limits are errors, the work per commit is bounded, and memory does not grow with the rows.

use probity_pocketdb::flash::{PowerCut, Simulator, Torn};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, IndexKey, Store};

use crate::script::{MEMORY, SECRET, STORE_BYTES, Shared, WIDTHS, new_store, row};

#[test]
fn one_row_commits_cost_one_program_and_a_bounded_share() {
    let mut store = new_store();
    // A waiting row that nothing pushes out pins the window until it is written again.
    store.insert(1, &row(1, 0)).unwrap();
    store.commit().unwrap();
    let before = store.counters();
    for number in 0..2_500 {
        store.insert(0, &row(0, number)).unwrap();
        store.commit().unwrap();
    }
    let after = store.counters();
    let programs = after.flash.programs - before.flash.programs;
    // One for each commit, 16 pages of rows and a pair for every 192, dense rewrites.
    assert!(programs <= 2_500 + 13 * 18 + 2 * 20, "{programs}");
    assert_eq!(after.memory_bytes, before.memory_bytes);
    assert!(after.memory_bytes <= MEMORY);
    let mut found = [0; 40];
    store.read(1, 1, &mut found).unwrap();
    assert_eq!(found.to_vec(), row(1, 0));
    store.verify().unwrap();
}

#[test]
fn the_row_of_the_benchmark_costs_at_most_one_and_a_half_programs() {
    // The largest table of the reference data set: 180 bytes with its references, 29 indexes.
    let keys = (0..29u16).map(|number| IndexKey {
        table: 0,
        at: number * 5,
        bytes: 10,
    });
    let indexes: Vec<_> = keys.collect();
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, &[180], &indexes, MEMORY).unwrap();
    let rows = 192u32 * 10;
    let before = store.counters().flash;
    for number in 0..rows {
        let mut bytes = [0u8; 180];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from((u64::from(number) * 7919 + at as u64 * 31) % 251).unwrap();
        }
        store.insert(0, &bytes).unwrap();
        store.commit().unwrap();
    }
    let after = store.counters().flash;
    let programs = after.programs - before.programs;
    let reads = after.page_reads - before.page_reads;
    println!(
        "programs per 1000 rows {}",
        programs * 1000 / u64::from(rows)
    );
    println!(
        "reads per 1000 rows and index {}",
        reads * 1000 / u64::from(rows * 29)
    );
    assert!(programs * 2 <= u64::from(rows) * 3, "{programs}");
    assert!(reads * 10 <= u64::from(rows) * 29 * 14, "{reads}");
}

#[test]
fn a_transaction_that_is_too_large_is_refused_and_can_be_rolled_back() {
    let mut store = new_store();
    store.insert(0, &row(0, 1)).unwrap();
    store.commit().unwrap();
    let refused = (0..1_000).find_map(|number| store.insert(0, &row(0, number)).err());
    assert_eq!(
        refused,
        Some(Error::Limit("the number of rows in one transaction"))
    );
    store.rollback();
    assert_eq!(store.count(0), 1);
    assert_eq!(store.insert(0, &row(0, 2)), Ok(2));
    store.commit().unwrap();
}

#[test]
fn a_full_device_is_an_error_and_loses_nothing_committed() {
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(33);
    let mut store = Store::create(flash, secure, &SECRET, &WIDTHS, &[], MEMORY).unwrap();
    let mut inserted = 0;
    let error = loop {
        store.insert(0, &row(0, inserted)).unwrap();
        inserted += 1;
        if let Err(error) = store.commit() {
            break error;
        }
    };
    assert_eq!(error, Error::DeviceFull);
    assert_eq!(store.insert(0, &row(0, 0)), Err(Error::Poisoned));
    let (flash, secure) = store.into_parts();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    assert_eq!(store.count(0), inserted);
    let mut found = [0; 160];
    for id in 1..=inserted {
        store.read(0, id, &mut found).unwrap();
        assert_eq!(found.to_vec(), row(0, id - 1));
    }
}

#[test]
fn wrong_widths_keys_and_memory_are_refused_by_name() {
    let create = |widths: &[u16], indexes: &[IndexKey], memory| {
        let secure = MemoryStore::new(STORE_BYTES);
        Store::create(Simulator::new(48), secure, &SECRET, widths, indexes, memory).err()
    };
    assert!(matches!(create(&[], &[], MEMORY), Some(Error::Limit(_))));
    assert!(matches!(create(&[0], &[], MEMORY), Some(Error::Limit(_))));
    assert!(matches!(
        create(&[2_040], &[], MEMORY),
        Some(Error::Limit(_))
    ));
    assert!(matches!(
        create(&[10; 19], &[], MEMORY),
        Some(Error::Limit(_))
    ));
    let outside = IndexKey {
        table: 0,
        at: 8,
        bytes: 3,
    };
    assert!(matches!(
        create(&[10], &[outside], MEMORY),
        Some(Error::Limit(_))
    ));
    assert!(matches!(
        create(&[10; 8], &[], 20_000),
        Some(Error::Memory { .. })
    ));
    assert!(create(&[10, 10], &[], 32_768).is_none());
    let mut store = new_store();
    assert!(matches!(store.insert(0, &[1]), Err(Error::Value(_))));
    assert!(matches!(store.insert(9, &[1]), Err(Error::Name(_))));
    assert!(matches!(
        store.read(0, 1, &mut [0; 160]),
        Err(Error::Key(_))
    ));
}

#[test]
fn a_failed_operation_poisons_the_handle_until_it_is_opened_again() {
    let flash = Shared::new(Simulator::new(48));
    let secure = Shared::new(MemoryStore::new(STORE_BYTES));
    let mut store =
        Store::create(flash.clone(), secure.clone(), &SECRET, &WIDTHS, &[], MEMORY).unwrap();
    let cut = PowerCut {
        after: 0,
        torn: Torn::Nothing,
    };
    flash.change(|chip| chip.plan_cut(cut));
    store.insert(0, &row(0, 1)).unwrap();
    assert!(matches!(store.commit(), Err(Error::Flash(_))));
    assert_eq!(store.commit(), Err(Error::Poisoned));
    flash.change(Simulator::restore_power);
    let store = Store::open(flash, secure, MEMORY).unwrap();
    assert_eq!(store.count(0), 0);
}
