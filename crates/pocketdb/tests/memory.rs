//! The engine never uses more memory than it was given, its stack included, and no more for more rows.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use probity_pocketdb::flash::{
        FileFlash, FlashCounters, FlashError, Nand, PageState, Simulator,
    };
    use probity_pocketdb::secure::MemoryStore;
    use probity_pocketdb::{
        ColumnId, Extent, Heading, Result, Row, SecureStore, SecureStoreError, Sink, Store,
    };

    use super::ALLOCATOR;

    /// Stack of the functions that the engine calls without calling the device again: ciphers and sorting.
    const LEAF_BYTES: usize = 1_024;
    /// The store itself, which lies where its owner keeps it, without the device and the secure store.
    const STORE_STACK_BYTES: usize =
        size_of::<Vault>() - size_of::<Noting<Simulator>>() - size_of::<Noting<MemoryStore>>();
    /// Blocks of the device, and bytes of the secure store: the token's.
    const BLOCKS: u32 = 640;
    const STORE_BYTES: usize = 1 << 20;

    /// Memory that was in use whenever the engine asked for something.
    #[derive(Clone)]
    struct Meter {
        /// End of the stack, and bytes allocated, before there was an engine.
        stack: usize,
        heap: usize,
        /// The most of both together since, and of each.
        peak: Arc<[AtomicUsize; 3]>,
    }

    impl Meter {
        fn new() -> Self {
            Self {
                stack: here(),
                heap: ALLOCATOR.allocated(),
                peak: Arc::default(),
            }
        }

        fn note(&self) {
            let heap = ALLOCATOR.allocated().saturating_sub(self.heap);
            let stack = self.stack.saturating_sub(here()) + LEAF_BYTES + STORE_STACK_BYTES;
            for (peak, now) in self.peak.iter().zip([heap + stack, heap, stack]) {
                peak.fetch_max(now, Ordering::Relaxed);
            }
        }

        fn peaks(&self) -> [usize; 3] {
            [0, 1, 2].map(|number: usize| {
                let peak = self.peak.get(number);
                peak.map_or(0, |peak| peak.load(Ordering::Relaxed))
            })
        }
    }

    /// Returns the end of the stack now; it grows downwards.
    #[inline(never)]
    fn here() -> usize {
        let mark = 0u8;
        core::hint::black_box(core::ptr::from_ref(&mark)).addr()
    }

    /// A chip or a secure store that notes how much memory is in use.
    struct Noting<T> {
        inner: T,
        meter: Meter,
    }

    impl<T: Nand> Nand for Noting<T> {
        fn blocks(&self) -> u32 {
            self.inner.blocks()
        }

        fn read(
            &mut self,
            page: u32,
            offset: usize,
            out: &mut [u8],
        ) -> std::result::Result<PageState, FlashError> {
            self.meter.note();
            self.inner.read(page, offset, out)
        }

        fn program(&mut self, page: u32, bytes: &[u8]) -> std::result::Result<(), FlashError> {
            self.meter.note();
            self.inner.program(page, bytes)
        }

        fn erase(&mut self, block: u32) -> std::result::Result<(), FlashError> {
            self.inner.erase(block)
        }

        fn counters(&self) -> FlashCounters {
            self.inner.counters()
        }
    }

    impl<T: SecureStore> SecureStore for Noting<T> {
        fn capacity(&self) -> usize {
            self.inner.capacity()
        }

        fn read(
            &mut self,
            offset: usize,
            out: &mut [u8],
        ) -> std::result::Result<(), SecureStoreError> {
            self.meter.note();
            self.inner.read(offset, out)
        }

        fn write(
            &mut self,
            offset: usize,
            bytes: &[u8],
        ) -> std::result::Result<(), SecureStoreError> {
            self.meter.note();
            self.inner.write(offset, bytes)
        }

        fn sync(&mut self) -> std::result::Result<(), SecureStoreError> {
            self.inner.sync()
        }
    }

    /// Counts rows.
    struct Counted(u64);

    impl Sink for Counted {
        fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
            Ok(())
        }

        fn row(&mut self, _row: &Row<'_>) -> Result<()> {
            self.0 += 1;
            Ok(())
        }
    }

    type Vault = Store<Noting<Simulator>, Noting<MemoryStore>>;

    /// The paper's tables, the referenced ones first: number, references, and rows for each of `T0`.
    const TABLES: [(&str, &[u32], u32); 6] = [
        ("T5", &[], 30),
        ("T4", &[], 600),
        ("T3", &[4, 5], 8),
        ("T2", &[], 100),
        ("T1", &[2], 10),
        ("T0", &[1, 3], 1),
    ];

    /// Statements that use every stage of a query, and ask for much.
    const QUERIES: [&str; 10] = [
        "SELECT T0.a1 FROM T0 WHERE T0.dup10 = 'V3'",
        "SELECT T0.a1, T3.a1, T4.a1 FROM T0 JOIN T3 ON T0.t3 = T3.id JOIN T4 ON T3.t4 = T4.id WHERE T4.dup100 = 'V0'",
        "SELECT T0.a1, T1.a1, T2.a1, T3.a1, T4.a1, T5.a1 FROM T0 JOIN T1 ON T0.t1 = T1.id JOIN T2 ON T1.t2 = T2.id \
     JOIN T3 ON T0.t3 = T3.id JOIN T4 ON T3.t4 = T4.id JOIN T5 ON T3.t5 = T5.id \
     WHERE T2.ms10 = 'V1' AND T5.ms10 = 'V1'",
        "SELECT T0.a1, T3.a1, T5.a1 FROM T0 JOIN T3 ON T0.t3 = T3.id JOIN T5 ON T3.t5 = T5.id WHERE T5.dup100 >= 'V0'",
        "SELECT T0.dup100, COUNT(*), MIN(T3.dup10), MAX(T0.id), AVG(T0.id) FROM T0 JOIN T3 ON T0.t3 = T3.id \
     GROUP BY T0.dup100 ORDER BY T0.dup100 DESC",
        "SELECT DISTINCT T1.dup10, T0.ms10 FROM T0 JOIN T1 ON T0.t1 = T1.id ORDER BY T1.dup10",
        "SELECT * FROM T0 JOIN T1 ON T0.t1 = T1.id JOIN T3 ON T0.t3 = T3.id ORDER BY T3.a1, T0.id DESC",
        "SELECT T0.id FROM T0 WHERE (T0.dup10 IN ('V1', 'V2', 'V3') OR T0.ms1 = 'V5') AND NOT (T0.ms10 = 'V2' \
     OR (T0.a1 > 'm' AND (T0.dup100 < 'V4' OR (T0.a1 < 'z' AND T0.dup10 <> 'V9')))) ORDER BY T0.id LIMIT 500",
        "SELECT COUNT(*) FROM T0 WHERE T0.a1 BETWEEN 'b' AND 'y'",
        "SELECT T0.ms10, COUNT(*) FROM T0 GROUP BY T0.ms10",
    ];

    /// Returns what `text` says of every reference.
    fn each(references: &[u32], text: impl Fn(&u32) -> String) -> String {
        references
            .iter()
            .map(text)
            .collect::<Vec<String>>()
            .concat()
    }

    /// The statements that make and fill the tables with `rows` rows in `T0`.
    fn statements(rows: u32) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, references, share) in TABLES {
            let keys = each(references, |to| {
                format!("t{to} INTEGER REFERENCES T{to}(id), ")
            });
            texts.push(format!(
            "CREATE TABLE {name} (id INTEGER PRIMARY KEY, {keys}dup10 CHAR(10) INDEXED, dup100 CHAR(10) INDEXED, \
             ms1 CHAR(10) INDEXED, ms10 CHAR(10) INDEXED, a1 CHAR(100))"
        ));
            let columns = each(references, |to| format!("t{to}, "));
            let tuple = |row: u32| {
                let keys = each(references, |to| {
                    let name = format!("T{to}");
                    let found = TABLES.iter().find(|table| table.0 == name);
                    let count = rows / found.map_or(1, |table| table.2);
                    format!("{}, ", row % count + 1)
                });
                let letter = char::from(b'a' + u8::try_from(row % 26).unwrap());
                let labels =
                    [row / 10, row / 100, row % 100, row % 10].map(|label| format!("'V{label}', "));
                format!("({keys}{}'{letter}{row}')", labels.concat())
            };
            let count = rows / share;
            for first in (0..count).step_by(8) {
                let tuples: Vec<String> = (first..count.min(first + 8)).map(tuple).collect();
                texts.push(format!(
                    "INSERT INTO {name} ({columns}dup10, dup100, ms1, ms10, a1) VALUES {}",
                    tuples.join(", ")
                ));
            }
        }
        texts
    }

    /// Deletes and updates.
    fn changes() -> Vec<String> {
        let change = |number: u32| {
            [
                format!("DELETE FROM T0 WHERE id = {}", number * 7 + 1),
                format!(
                    "UPDATE T3 SET dup10 = 'N{}', a1 = 'new' WHERE id = {}",
                    number % 3,
                    number + 1
                ),
            ]
        };
        (0..20).flat_map(change).collect()
    }

    /// One person's work with the database: all kinds of statements.
    fn work(vault: &mut Vault, texts: &[String], changes: &[String]) -> u64 {
        let mut shown = Counted(0);
        let mut run = |vault: &mut Vault, text: &str| {
            vault.execute(text, &[], &mut shown).unwrap();
        };
        for text in texts {
            run(vault, text);
        }
        for query in QUERIES {
            run(vault, query);
        }
        vault.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
        for text in QUERIES
            .into_iter()
            .chain(changes.iter().map(String::as_str))
            .chain(QUERIES)
        {
            run(vault, text);
        }
        vault
            .reorganize(Extent::Levels, u32::MAX, u64::MAX)
            .unwrap();
        for query in QUERIES {
            run(vault, query);
        }
        vault.verify().unwrap();
        shown.0
    }

    /// Works with a database of `rows` rows, which takes no more than it had planned, and returns how much
    /// that is.
    fn planned(rows: u32, memory: usize) -> usize {
        let (flash, secure) = (Simulator::new(BLOCKS), MemoryStore::new(STORE_BYTES));
        let (texts, changes) = (statements(rows), changes());
        let meter = Meter::new();
        let flash = Noting {
            inner: flash,
            meter: meter.clone(),
        };
        let secure = Noting {
            inner: secure,
            meter: meter.clone(),
        };
        let mut vault = Store::create(flash, secure, &[7; 32], memory).unwrap();
        let shown = work(&mut vault, &texts, &changes);
        assert!(shown > u64::from(rows), "{shown} rows were shown");
        let planned = vault.counters().memory_bytes;
        let (flash, secure) = vault.into_parts();
        let mut vault = Store::open(flash, secure, memory).unwrap();
        vault.verify().unwrap();
        let [all, heap, stack] = meter.peaks();
        println!(
            "{memory} given, {planned} planned, {rows} rows: {all} used, {heap} allocated, {stack} stack"
        );
        assert!(all <= planned && planned <= memory);
        planned
    }

    #[test]
    fn memory_and_stack_stay_within_what_was_planned_at_any_number_of_rows() {
        for memory in [32_768, 40_960, 65_536] {
            assert_eq!(planned(900, memory), planned(2_400, memory));
        }
    }

    /// Inserts rows of one table until there are `rows` of them, 64 in a transaction.
    fn insert(vault: &mut Store<Noting<FileFlash>, Noting<MemoryStore>>, rows: u32) {
        let table = vault.table("t").unwrap();
        for row in vault.count(table)..rows {
            let mut bytes = [b'v'; 16];
            bytes[..4].copy_from_slice(&row.to_be_bytes());
            bytes[8..12].copy_from_slice(&(row % 99_991).to_be_bytes());
            vault.insert(table, &bytes, &[]).unwrap();
            if row % 64 == 63 || row + 1 == rows {
                vault.commit().unwrap();
            }
        }
    }

    #[test]
    #[ignore = "takes minutes and a gigabyte of disk; run with --release --ignored"]
    fn ten_million_rows_take_no_more_memory_than_ten_thousand() {
        let folder = tempfile::tempdir().unwrap();
        let flash = FileFlash::create(&folder.path().join("flash"), 24_576, false).unwrap();
        let meter = Meter::new();
        let (flash, secure) = (flash, MemoryStore::new(2 * STORE_BYTES));
        let meter = Meter {
            heap: ALLOCATOR.allocated(),
            ..meter
        };
        let flash = Noting {
            inner: flash,
            meter: meter.clone(),
        };
        let secure = Noting {
            inner: secure,
            meter: meter.clone(),
        };
        let mut vault = Store::create(flash, secure, &[7; 32], 65_536).unwrap();
        let mut shown = Counted(0);
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, a CHAR(8) INDEXED, b CHAR(8) INDEXED)";
        vault.execute(table, &[], &mut shown).unwrap();
        let mut peaks = Vec::new();
        for rows in [10_000, 1_000_000, 10_000_000] {
            insert(&mut vault, rows);
            for extent in [Extent::Levels, Extent::Whole] {
                if rows < 10_000_000 || extent == Extent::Levels {
                    vault.reorganize(extent, u32::MAX, u64::MAX).unwrap();
                }
            }
            let table = vault.table("t").unwrap();
            let index = vault.index(table, table, Some(ColumnId::new(2))).unwrap();
            let mut key = [b'v'; 8];
            key[..4].copy_from_slice(&77u32.to_be_bytes());
            let mut search = vault.search(index, &key).unwrap();
            let mut found = 0;
            while vault.next(&mut search).unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, (0..rows).filter(|row| row % 99_991 == 77).count());
            let count = "SELECT COUNT(*), MAX(id) FROM t WHERE id > 100";
            vault.execute(count, &[], &mut shown).unwrap();
            let [all, heap, stack] = meter.peaks();
            println!("{rows} rows: {all} used, {heap} allocated, {stack} stack");
            peaks.push(all);
        }
        let planned = vault.counters().memory_bytes;
        assert!(peaks.iter().all(|&all| all <= planned) && planned <= 65_536);
    }
}
