//! A search returns exactly the rows that hold the key, newest first, at every selectivity.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{ColumnId, Error, RowId, Search, Store, TableId};

use crate::script::{MEMORY, SECRET, STORE_BYTES, reference, table, text};

/// Distinct values of the indexed parts; the rows repeat them pseudo-randomly.
const DISTINCT: [u32; 6] = [1, 3, 30, 300, 3_000, 1_000_000];
const ROWS: u32 = 6_000;

fn value(row: u32, column: usize) -> u32 {
    let mut mixed = (u64::from(row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (column as u64) << 7;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    u32::try_from((mixed >> 33) % u64::from(DISTINCT[column])).unwrap()
}

fn all(store: &mut Store<Simulator, MemoryStore>, search: &mut Search) -> Vec<u32> {
    let rows = std::iter::from_fn(|| store.next(search).unwrap());
    rows.map(RowId::number).collect()
}

#[test]
fn a_search_equals_a_scan_at_every_selectivity() {
    let columns = 0..DISTINCT.len();
    let names: Vec<String> = columns.clone().map(|column| format!("c{column}")).collect();
    let definitions: Vec<_> = names.iter().map(|name| text(name, 4, true)).collect();
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    let owner = store.create_table(&table("t", &definitions)).unwrap();
    for row in 0..ROWS {
        let bytes: Vec<u8> = columns
            .clone()
            .flat_map(|c| value(row, c).to_le_bytes())
            .collect();
        store.insert(owner, &bytes, &[]).unwrap();
        if row % 50 == 49 {
            store.commit().unwrap();
        }
    }
    for column in columns {
        let known = [value(17, column), value(5_990, column)];
        for probe in (0..DISTINCT[column].min(12)).chain(known) {
            let matches = |row: &u32| value(*row, column) == probe;
            let expected: Vec<u32> = (0..ROWS).rev().filter(matches).map(|row| row + 1).collect();
            let indexed = ColumnId::new(u8::try_from(column).unwrap());
            let index = store.index(owner, owner, Some(indexed)).unwrap();
            let mut search = store.search(index, &probe.to_le_bytes()).unwrap();
            assert_eq!(
                all(&mut store, &mut search),
                expected,
                "column {column} value {probe}"
            );
        }
    }
    store.verify().unwrap();
}

#[test]
fn a_search_goes_on_while_rows_are_added() {
    let secure = MemoryStore::new(STORE_BYTES);
    let flash = Simulator::new(80);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    let columns = [text("key", 1, true), text("rest", 3, false)];
    let owner = store.create_table(&table("t", &columns)).unwrap();
    let index = store.index(owner, owner, Some(ColumnId::new(0))).unwrap();
    let add = |store: &mut Store<_, _>| {
        for number in 0..100u8 {
            store.insert(owner, &[number % 2; 4], &[]).unwrap();
        }
        store.commit().unwrap();
    };
    add(&mut store);
    let mut search = store.search(index, &[1]).unwrap();
    let mut found: Vec<u32> = (0..10)
        .map(|_| store.next(&mut search).unwrap().unwrap().number())
        .collect();
    add(&mut store);
    add(&mut store);
    found.extend(all(&mut store, &mut search));
    let expected: Vec<u32> = (1..=100).rev().filter(|id| id % 2 == 0).collect();
    assert_eq!(found, expected);
    assert!(store.search(500, &[1]).is_err());
    assert!(store.search(index, &[1, 2]).is_err());
    assert_eq!(store.index(owner, owner, Some(ColumnId::new(1))), None);
}

const TOWNS: u32 = 40;
const CUSTOMERS: u32 = 400;
const ARTICLES: u32 = 210;
const ORDERS: u32 = 3_000;

fn town_of(customer: u32) -> u32 {
    value(customer, 4) % TOWNS + 1
}

/// Customer and article of an order.
fn parts(order: u32) -> [u32; 2] {
    [
        value(order, 4) % CUSTOMERS + 1,
        value(order, 5) % ARTICLES + 1,
    ]
}

fn name(row: u32, kinds: u32) -> [u8; 4] {
    (value(row, 3) % kinds).to_le_bytes()
}

struct Shop {
    store: Store<Simulator, MemoryStore>,
    town: TableId,
    customer: TableId,
    article: TableId,
    order: TableId,
}

/// Three levels: each order names a customer and an article, each customer a town.
fn shop() -> Shop {
    let (flash, secure) = (Simulator::new(120), MemoryStore::new(STORE_BYTES));
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    let key = [text("name", 4, true)];
    let town = store.create_table(&table("town", &key)).unwrap();
    let customer = [reference("town", "town"), text("name", 4, true)];
    let customer = store.create_table(&table("customer", &customer)).unwrap();
    let article = store.create_table(&table("article", &key)).unwrap();
    let order = [
        reference("customer", "customer"),
        reference("article", "article"),
    ];
    let order = store.create_table(&table("orders", &order)).unwrap();
    for row in 1..=TOWNS {
        store.insert(town, &name(row, 7), &[]).unwrap();
    }
    for row in 1..=CUSTOMERS {
        store
            .insert(customer, &name(row, 50), &[RowId::new(town_of(row))])
            .unwrap();
        if row % 50 == 0 {
            store.commit().unwrap();
        }
    }
    for row in 1..=ARTICLES {
        store.insert(article, &name(row, 20), &[]).unwrap();
    }
    store.commit().unwrap();
    for row in 1..=ORDERS {
        store
            .insert(order, &[], &parts(row).map(RowId::new))
            .unwrap();
        if row % 64 == 0 {
            store.commit().unwrap();
        }
    }
    Shop {
        store,
        town,
        customer,
        article,
        order,
    }
}

#[test]
fn a_table_finds_its_rows_by_every_value_of_the_tables_it_references() {
    let mut shop = shop();
    let (town, customer, article) = (shop.town, shop.customer, shop.article);
    let mut check = |source, column: Option<u8>, key: [u8; 4], wanted: &dyn Fn(u32) -> bool| {
        let index = shop
            .store
            .index(shop.order, source, column.map(ColumnId::new))
            .unwrap();
        let mut search = shop.store.search(index, &key).unwrap();
        let expected: Vec<u32> = (1..=ORDERS).rev().filter(|&row| wanted(row)).collect();
        assert_eq!(
            all(&mut shop.store, &mut search),
            expected,
            "{source} {key:?}"
        );
    };
    for kind in 0..7u32 {
        let key = kind.to_le_bytes();
        check(town, Some(0), key, &|row| {
            name(town_of(parts(row)[0]), 7) == key
        });
        check(article, Some(0), key, &|row| name(parts(row)[1], 20) == key);
        check(customer, Some(1), key, &|row| {
            name(parts(row)[0], 50) == key
        });
    }
    for id in [1u32, 17, 40] {
        check(town, None, id.to_le_bytes(), &|row| {
            town_of(parts(row)[0]) == id
        });
        check(customer, None, id.to_le_bytes(), &|row| parts(row)[0] == id);
    }
    shop.store.verify().unwrap();
}

#[test]
fn a_join_row_names_everything_that_a_row_references() {
    let mut shop = shop();
    for row in [1, 200, ORDERS] {
        let row = RowId::new(row);
        let mut slot = |slot| {
            shop.store
                .referenced(shop.order, row, slot)
                .unwrap()
                .number()
        };
        let [customer, article] = parts(row.number());
        assert_eq!(
            [slot(0), slot(1), slot(2)],
            [customer, town_of(customer), article]
        );
    }
    for absent in [[CUSTOMERS + 1, 1], [0, 1], [1, ARTICLES + 1]] {
        let refused = shop.store.insert(shop.order, &[], &absent.map(RowId::new));
        assert!(matches!(refused, Err(Error::Key(_))), "{absent:?}");
    }
}
