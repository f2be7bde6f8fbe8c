//! Limits are errors, the work per commit is bounded, and memory does not grow with the rows.

use probity_pocketdb::flash::{BLOCK_PAGES, PowerCut, Simulator, Torn};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{ColumnDefinition, Error, RowId, Store, TableId};

use crate::script::{
    MEMORY, SECRET, STORE_BYTES, Shared, TABLES, create_tables, new_store, reference, row, table,
    text,
};

#[test]
fn one_row_commits_cost_one_program_and_a_bounded_share() {
    let mut store = new_store();
    // A waiting row that nothing pushes out pins the window until it is written again.
    store.insert(TABLES[1], &row(1, 0), &[]).unwrap();
    store.commit().unwrap();
    let before = store.counters();
    for number in 0..2_500 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
    }
    let after = store.counters();
    let programs = after.flash.programs - before.flash.programs;
    // One for each commit, 16 pages of rows and a pair for every 192, dense rewrites.
    assert!(programs <= 2_500 + 13 * 18 + 2 * 20, "{programs}");
    assert_eq!(after.memory_bytes, before.memory_bytes);
    assert!(after.memory_bytes <= MEMORY);
    let mut found = [0; 40];
    store.read(TABLES[1], RowId::new(1), &mut found).unwrap();
    assert_eq!(found.to_vec(), row(1, 0));
    store.verify().unwrap();
}

#[test]
fn the_row_of_the_benchmark_costs_at_most_one_and_a_half_programs() {
    // The largest table of the reference data set: 180 bytes with its references, 29 indexes.
    let names: Vec<String> = (0..29).map(|number| format!("c{number}")).collect();
    let mut columns: Vec<_> = names.iter().map(|name| text(name, 6, true)).collect();
    columns.push(text("rest", 6, false));
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    let wide = store.create_table(&table("wide", &columns)).unwrap();
    let rows = 192u32 * 10;
    let before = store.counters().flash;
    for number in 0..rows {
        let mut bytes = [0u8; 180];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from((u64::from(number) * 7919 + at as u64 * 31) % 251).unwrap();
        }
        store.insert(wide, &bytes, &[]).unwrap();
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
    store.insert(TABLES[0], &row(0, 1), &[]).unwrap();
    store.commit().unwrap();
    let refused = (0..9_000).find_map(|number| store.insert(TABLES[0], &row(0, number), &[]).err());
    assert_eq!(
        refused,
        Some(Error::Limit("the number of rows in one transaction"))
    );
    store.rollback().unwrap();
    assert_eq!(store.count(TABLES[0]), 1);
    assert_eq!(store.insert(TABLES[0], &row(0, 2), &[]), Ok(RowId::new(2)));
    store.commit().unwrap();
}

/// P1: where rows found no place once they were final, their statement was refused although it had
/// been carried out. What is refused changes nothing now, and what is not refused is there.
#[test]
fn a_full_device_refuses_what_it_cannot_hold_and_loses_nothing_committed() {
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(8);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    let mut committed = 0;
    let error = loop {
        let inserted = store.insert(TABLES[0], &row(0, committed), &[]);
        match inserted.and_then(|_| store.commit()) {
            Ok(()) => committed += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::DeviceFull);
    let (flash, secure) = store.into_parts();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    for _ in 0..2 {
        assert_eq!(store.count(TABLES[0]), committed);
        let mut found = [0; 160];
        for id in 1..=committed {
            store.read(TABLES[0], RowId::new(id), &mut found).unwrap();
            assert_eq!(found.to_vec(), row(0, id - 1));
        }
        store.verify().unwrap();
        let refused = store.insert(TABLES[0], &row(0, 0), &[]);
        assert_eq!(refused.and_then(|_| store.commit()), Err(Error::DeviceFull));
        let (flash, secure) = store.into_parts();
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
}

#[test]
fn wrong_definitions_rows_and_memory_are_refused_by_name() {
    let mut store = new_store();
    let mut create = |name: &str, columns: &[ColumnDefinition<'_>]| {
        store.create_table(&table(name, columns)).err()
    };
    assert!(matches!(
        create("first", &[text("a", 1, false)]),
        Some(Error::Name(_))
    ));
    assert!(matches!(
        create("a b", &[text("a", 1, false)]),
        Some(Error::Name(_))
    ));
    assert!(matches!(create("a", &[]), Some(Error::Refused(_))));
    let twice = [text("a", 1, false), text("A", 1, false)];
    assert!(matches!(create("a", &twice), Some(Error::Name(_))));
    assert!(matches!(
        create("a", &[text("a", 0, false)]),
        Some(Error::Limit(_))
    ));
    assert!(matches!(
        create("a", &[text("a", 2_040, false)]),
        Some(Error::Limit(_))
    ));
    assert!(matches!(
        create("a", &[text("a", 200, true)]),
        Some(Error::Limit(_))
    ));
    assert!(matches!(
        create("a", &[reference("a", "b")]),
        Some(Error::Name(_))
    ));
    let two = [reference("a", "first"), reference("b", "first")];
    assert!(matches!(create("a", &two), Some(Error::Refused(_))));
    let many = [text("a", 1, false); 33];
    assert!(matches!(create("a", &many), Some(Error::Limit(_))));
    assert!(matches!(
        store.insert(TABLES[0], &[1], &[]),
        Err(Error::Value(_))
    ));
    assert!(matches!(
        store.insert(TableId::new(9), &[1], &[]),
        Err(Error::Name(_))
    ));
    assert!(matches!(
        store.insert(TABLES[0], &row(0, 1), &[RowId::new(1)]),
        Err(Error::Value(_))
    ));
    assert!(matches!(
        store.read(TABLES[0], RowId::new(1), &mut [0; 160]),
        Err(Error::Key(_))
    ));
    store.verify().unwrap();
}

#[test]
fn too_little_memory_is_refused_with_both_numbers() {
    let create = |memory| {
        let secure = MemoryStore::new(STORE_BYTES);
        let mut store = Store::create(Simulator::new(48), secure, &SECRET, memory)?;
        create_tables(&mut store)
    };
    assert!(matches!(
        create(30_000),
        Err(Error::Memory { given: 30_000, .. })
    ));
    create(36_864).unwrap();
    let mut store = new_store();
    for number in 0..16 {
        let name = format!("t{number}");
        match store.create_table(&table(&name, &[text("a", 900, false)])) {
            Ok(_) => {}
            Err(Error::Limit(_) | Error::Memory { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the waiting rows of so many wide tables cannot fit");
}

#[test]
fn a_failed_operation_poisons_the_handle_until_it_is_opened_again() {
    let flash = Shared::new(Simulator::new(48));
    let secure = Shared::new(MemoryStore::new(STORE_BYTES));
    let mut store = Store::create(flash.clone(), secure.clone(), &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    let cut = PowerCut {
        after: 0,
        torn: Torn::Nothing,
    };
    flash.change(|chip| chip.plan_cut(cut));
    store.insert(TABLES[0], &row(0, 1), &[]).unwrap();
    assert!(matches!(store.commit(), Err(Error::Flash(_))));
    assert_eq!(store.commit(), Err(Error::Poisoned));
    flash.change(Simulator::restore_power);
    let store = Store::open(flash, secure, MEMORY).unwrap();
    assert_eq!(store.count(TABLES[0]), 0);
}

/// A rollback that failed left a handle that went on without the waiting rows, and the next commit
/// lost them.
#[test]
fn a_rollback_that_fails_poisons_the_handle() {
    let flash = Shared::new(Simulator::new(48));
    let secure = Shared::new(MemoryStore::new(STORE_BYTES));
    let mut store = Store::create(flash.clone(), secure.clone(), &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    let pages = |flash: &Shared<Simulator>| {
        let all = 0..48 * BLOCK_PAGES;
        let mut programmed = Vec::new();
        flash.change(|chip| programmed = all.filter(|page| chip.is_programmed(*page)).collect());
        programmed
    };
    for number in 0..300 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
    }
    let before = pages(&flash);
    store.insert(TABLES[0], &row(0, 300), &[]).unwrap();
    store.commit().unwrap();
    let mut last = pages(&flash);
    last.retain(|page| !before.contains(page));
    store.insert(TABLES[0], &row(0, 301), &[]).unwrap();
    // Other pages take the place of the last committed one in memory.
    let mut found = [0; 160];
    for id in 1..=250 {
        store.read(TABLES[0], RowId::new(id), &mut found).unwrap();
    }
    let flip = |page: &u32| flash.change(|chip| chip.flip_bit(*page, 99));
    last.iter().for_each(flip);
    assert!(matches!(store.rollback(), Err(Error::Tampered { .. })));
    assert_eq!(store.commit(), Err(Error::Poisoned));
    last.iter().for_each(flip);
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    assert_eq!(store.count(TABLES[0]), 301);
    store.verify().unwrap();
}

#[test]
fn failed_blocks_are_left_and_everything_else_goes_on() {
    let flash = Shared::new(Simulator::new(48));
    let secure = Shared::new(MemoryStore::new(STORE_BYTES));
    for block in [1, 3, 4, 7, 20] {
        flash.change(|chip| chip.wear_out(block));
    }
    let mut store = Store::create(flash.clone(), secure.clone(), &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    for number in 0..2_000 {
        if number == 700 {
            // A block in the middle of its use fails as well.
            (8..14).for_each(|block| flash.change(|chip| chip.wear_out(block)));
        }
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
    }
    store.verify().unwrap();
    drop(store);
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    let mut found = [0; 160];
    for id in 1..=2_000 {
        store.read(TABLES[0], RowId::new(id), &mut found).unwrap();
        assert_eq!(found.to_vec(), row(0, id - 1));
    }
}
