//! Reads of queries over referenced tables, and syncs of temporary pages.

use probity_pocketdb::flash::FileFlash;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Store};

use crate::pair::Kept;

/// A table of 2,000 rows with long values, and 20,000 rows that reference them without order.
fn joined(flash: FileFlash) -> Store<FileFlash, MemoryStore> {
    let secure = MemoryStore::new(1 << 20);
    let mut store = Store::create(flash, secure, &[7; 32], 65_536).unwrap();
    let mut run = |text: &str| store.execute(text, &[], &mut Kept::default()).unwrap();
    run("CREATE TABLE p (id INTEGER PRIMARY KEY, k TEXT(40), n INTEGER INDEXED)");
    run("CREATE TABLE v (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(id), note TEXT(30))");
    run("BEGIN");
    for i in 1..=22_000 {
        if i <= 2_000 {
            run(&format!("INSERT INTO p (k, n) VALUES ('k{i}', {i})"));
        } else {
            let p = u64::from(i * 7_919u32) % 2_000 + 1;
            run(&format!(
                "INSERT INTO v (p, note) VALUES ({p}, 'note {}')",
                i * 31 % 977
            ));
        }
        if i % 500 == 0 {
            run("COMMIT");
            run("BEGIN");
        }
    }
    run("COMMIT");
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
    store
}

/// P5: a test of a referenced table read a page for each row once that table outgrew memory. P4: a query
/// that sorts waited for the disk at every temporary page, which nobody needs after a loss of power.
#[test]
fn referenced_tables_are_read_in_order_and_temporary_pages_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let flash = FileFlash::create(&folder.path().join("chip"), 400, true).unwrap();
    let mut store = joined(flash);
    let mut ask = |text: &str| {
        let (before, syncs) = (store.counters().flash, store.device().syncs());
        let mut kept = Kept::default();
        store.execute(text, &[], &mut kept).unwrap();
        let after = store.counters().flash;
        let reads = after.page_reads - before.page_reads;
        let programs = after.programs - before.programs;
        assert_eq!(store.device().syncs(), syncs, "{text}");
        println!(
            "{text}: {} rows, {reads} reads, {programs} programs",
            kept.rows.len()
        );
        (kept.rows.len(), reads, programs)
    };
    let join = "SELECT v.id FROM v JOIN p ON v.p = p.id WHERE";
    for test in ["p.k >= 'k1'", "p.n <= 1200"] {
        let (rows, reads, _) = ask(&format!("{join} {test}"));
        assert!(rows > 10_000 && reads < 5_000, "{test}: {reads} reads");
    }
    let (rows, _, programs) = ask("SELECT note FROM v ORDER BY note DESC LIMIT 2");
    assert!(rows == 2 && programs > 100, "{programs}");
}

/// Temporary pages of a query are no later state: a root that is as old as they are opens.
#[test]
fn an_older_root_opens_where_queries_alone_wrote_and_not_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chip");
    let flash = FileFlash::create(&path, 400, false).unwrap();
    let (flash, older) = joined(flash).into_parts();
    let mut store = Store::open(flash, older.clone(), 65_536).unwrap();
    let before = store.counters().flash.programs;
    let mut kept = Kept::default();
    let sorted = "SELECT note FROM v ORDER BY note DESC LIMIT 2";
    store.execute(sorted, &[], &mut kept).unwrap();
    assert!(store.counters().flash.programs > before + 100);
    let (flash, newest) = store.into_parts();
    let store = Store::open(flash, older.clone(), 65_536).unwrap();
    let mut store = Store::open(store.into_parts().0, newest, 65_536).unwrap();
    let insert = "INSERT INTO p (k, n) VALUES ('last', 1)";
    store.execute(insert, &[], &mut kept).unwrap();
    let opened = Store::open(store.into_parts().0, older, 65_536);
    assert!(matches!(opened.err(), Some(Error::Root(_))));
}
