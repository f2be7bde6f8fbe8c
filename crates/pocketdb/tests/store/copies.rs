//! Copies of a database, chip and secure store together, that go on apart.

use probity_pocketdb::flash::{BLOCK_PAGES, PAGE_BYTES, Simulator};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Extent, Store};

use crate::script::{BLOCKS, MEMORY, TABLES, new_store, row};

/// Rows that the owner of one copy keeps to himself.
const SECRET_TEXT: &[u8] = b"HIV positive, the patient of row";

type Parts = (Simulator, MemoryStore);

/// Opens a copy and gives it rows until units are placed and a part is made; one row in ten holds the
/// secret where the other copy has text that everybody knows.
fn go_on((flash, secure): Parts, secret: bool) -> Simulator {
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    for number in 0..420 {
        let mut bytes = row(0, number);
        if secret && number % 10 == 3 {
            bytes[20..20 + SECRET_TEXT.len()].copy_from_slice(SECRET_TEXT);
        }
        store.insert(TABLES[0], &bytes, &[]).unwrap();
        store.commit().unwrap();
    }
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
    store.into_parts().0
}

/// S14: a copied chip with its copied root encrypted other rows under the same key stream, and the
/// difference of two pages gave one copy's rows to whoever knew the other's. Here both copies even go
/// on under the same numbers, as without a source of random ones.
#[test]
fn two_copies_never_encrypt_different_pages_under_the_same_stream() {
    let mut store = new_store();
    for number in 0..30 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
    }
    store.commit().unwrap();
    let parts = store.into_parts();
    let (known, hidden) = (go_on(parts.clone(), false), go_on(parts, true));
    let mut compared = 0;
    for page in 0..BLOCKS * BLOCK_PAGES {
        let [one, other] = [&known, &hidden].map(|chip| chip.peek(page).unwrap());
        if one == other {
            continue;
        }
        // Under one stream most bytes of rows, and all of equal key tags, would be equal.
        let equal = one.iter().zip(other).filter(|(a, b)| a == b).count();
        assert!(equal < PAGE_BYTES / 16, "page {page}: {equal} equal bytes");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}
