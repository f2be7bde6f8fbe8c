//! The engine never allocates more than the memory it was given, and no more for more rows.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[cfg(test)]
mod tests {
    use probity_pocketdb::flash::FileFlash;
    use probity_pocketdb::secure::FileStore;
    use probity_pocketdb::{ColumnDefinition, Kind, Layout, Store, TableDefinition};

    use super::ALLOCATOR;

    /// Allocates and verifies `rows` rows; returns the most bytes that were allocated meanwhile.
    fn peak(rows: u32, memory: usize) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let flash = FileFlash::create(&folder.path().join("image"), 400, false).unwrap();
        let secure = FileStore::create(&folder.path().join("root"), 256 * 1024).unwrap();
        let (before, highest) = (ALLOCATOR.allocated(), ALLOCATOR.max_allocated());
        let mut store = Store::create(flash, secure, &[7; 32], memory).unwrap();
        let column = |name, bytes, indexed| ColumnDefinition {
            name,
            kind: Kind::Text(bytes),
            indexed,
            unique: false,
            reference: None,
        };
        let mut create = |name, columns: &[ColumnDefinition<'_>]| {
            let layout = Layout::Keyed;
            let definition = TableDefinition {
                name,
                columns,
                layout,
            };
            store.create_table(&definition).unwrap()
        };
        let columns = [
            [column("a", 8, true), column("b", 8, true)],
            [column("a", 50, false), column("b", 10, false)],
        ];
        let [first, second] =
            [("a", &columns[0]), ("b", &columns[1])].map(|(name, columns)| create(name, columns));
        for row in 0..rows {
            let mut bytes = [1; 16];
            bytes[..4].copy_from_slice(&row.to_le_bytes());
            bytes[8..12].copy_from_slice(&(row % 97).to_le_bytes());
            store.insert(first, &bytes, &[]).unwrap();
            if row % 100 == 99 {
                store.insert(second, &[9; 60], &[]).unwrap();
                store.commit().unwrap();
            }
        }
        let index = store.index(first, first, Some(1)).unwrap();
        let mut cursor = store.search(index, &[5, 0, 0, 0, 1, 1, 1, 1]).unwrap();
        let mut found = 0;
        while store.next(&mut cursor).unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, (0..rows).filter(|row| row % 97 == 5).count());
        store.verify().unwrap();
        let (flash, secure) = store.into_parts();
        let mut store = Store::open(flash, secure, memory).unwrap();
        store.verify().unwrap();
        assert_eq!(store.count(first), rows);
        assert!(ALLOCATOR.max_allocated() >= highest);
        ALLOCATOR.max_allocated() - before
    }

    #[test]
    fn memory_stays_within_what_was_given_at_any_number_of_rows() {
        // The highest mark only rises, so the small runs come first.
        for memory in [32_768, 65_536] {
            let few = peak(2_000, memory);
            let many = peak(20_000, memory);
            println!("{memory} given: {few} at 2000 rows, {many} at 20000");
            assert!(few <= memory && many <= memory);
            assert!(many <= few, "more rows take no more memory");
        }
    }
}
