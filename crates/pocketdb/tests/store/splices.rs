//! Root files made of parts of two authentic ones.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Store};

use crate::script::{MEMORY, TABLES, new_store, row};

type Opened = Store<Simulator, MemoryStore>;

/// Borders of the fields of a root file but for the records.
const BORDERS: [usize; 25] = [
    0, 8, 12, 16, 48, 64, 80, 208, 240, 272, 304, 336, 368, 376, 392, 400, 408, 424, 432, 464, 512,
    25_088, 29_184, 33_280, 33_792,
];
/// Number of chunks of the directory that are mixed, and their length.
const CHUNKS: usize = 3;
const CHUNK_BYTES: usize = 1_024;
const RECORDS_AT: usize = 512;

fn insert(store: &mut Opened, rows: std::ops::Range<u32>) {
    for number in rows {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
    }
}

fn reorganize(store: &mut Opened, extent: Extent, tasks: u32) {
    store.reorganize(extent, tasks, u64::MAX).unwrap();
}

fn again(store: Opened) -> Opened {
    let (flash, secure) = store.close().unwrap();
    Store::open(flash, secure, MEMORY).unwrap()
}

/// The greatest number of a record.
fn newest(root: &[u8]) -> u64 {
    let ring = root[RECORDS_AT..].chunks_exact(ROOT_RECORD_BYTES);
    let numbers = ring.take(RECORD_SLOTS).map(|record| {
        let (number, _) = record.split_first_chunk().unwrap();
        u64::from_le_bytes(*number)
    });
    numbers.max().unwrap()
}

/// Borders of fields, among them those of the newest records of both files.
fn borders(ends: [u64; 2]) -> Vec<usize> {
    let mut borders = BORDERS.to_vec();
    borders.extend((1..=CHUNKS).map(|chunk| 33_792 + chunk * CHUNK_BYTES));
    for newest in ends {
        let slot = usize::try_from(newest).unwrap() % RECORD_SLOTS;
        for slot in [slot, slot + 1] {
            borders.push(RECORDS_AT + slot * ROOT_RECORD_BYTES);
        }
    }
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// A step between the older file and the newer one.
type Step = (&'static str, fn(Opened) -> Opened);

fn with(mut store: Opened, work: impl FnOnce(&mut Opened)) -> Opened {
    work(&mut store);
    again(store)
}

const STEPS: [Step; 6] = [
    ("nothing", |store| store),
    ("begun", |store| {
        with(store, |store| reorganize(store, Extent::Whole, 0))
    }),
    ("levels begun", |store| {
        with(store, |store| reorganize(store, Extent::Levels, 1))
    }),
    ("under way", |store| {
        with(store, |store| reorganize(store, Extent::Whole, 3))
    }),
    ("cancelled", |store| {
        with(store, |store| {
            reorganize(store, Extent::Whole, 1);
            store.cancel_reorganization().unwrap();
        })
    }),
    ("done, and begun again", |store| {
        with(store, |store| {
            reorganize(store, Extent::Levels, u32::MAX);
            reorganize(store, Extent::Whole, 0);
        })
    }),
];

/// Opens every file with a part of `other` in `base`; returns how many opened with the newest rows.
fn splice(
    chip: &Simulator,
    (base, other): (&MemoryStore, &MemoryStore),
    (last, rows): (u64, u32),
    place: &str,
) -> usize {
    let bytes = [base, other].map(|root| root.clone().bytes_mut().to_vec());
    let borders = borders([newest(&bytes[0]), newest(&bytes[1])]);
    let mut opened = 0;
    for (number, &from) in borders.iter().enumerate() {
        for &to in &borders[number + 1..] {
            if bytes[0][from..to] == bytes[1][from..to] {
                continue;
            }
            let mut mixed = base.clone();
            mixed.bytes_mut()[from..to].copy_from_slice(&bytes[1][from..to]);
            // A record of the last command is what a loss of power in it leaves.
            let is_last = newest(mixed.bytes_mut()) > last;
            match Store::open(chip.clone(), mixed, MEMORY) {
                Err(Error::Root(_) | Error::Tampered { .. } | Error::ForeignRoot(_)) => {}
                Err(error) => panic!("{place}, {from}..{to}: {error}"),
                Ok(store) => {
                    let found = store.count(TABLES[0]);
                    assert!(found == rows || is_last, "{place}, {from}..{to}: {found}");
                    opened += usize::from(found == rows);
                }
            }
        }
    }
    opened
}

/// An older root file with the secret of the chain of the newer one opened beside the newer chip where a
/// reorganisation had begun in between: committed rows were gone. The newest record binds the secrets.
#[test]
fn no_mix_of_two_root_files_shows_older_rows() {
    for is_reorganised in [false, true] {
        for (name, step) in STEPS {
            let mut store = new_store();
            insert(&mut store, 0..40);
            if is_reorganised {
                reorganize(&mut store, Extent::Whole, u32::MAX);
            }
            let mut store = again(store);
            insert(&mut store, 40..42);
            let (chip, older) = store.close().unwrap();
            let store = step(Store::open(chip, older.clone(), MEMORY).unwrap());
            let (chip, mut between) = store.close().unwrap();
            let last = newest(between.bytes_mut());
            let mut store = Store::open(chip, between, MEMORY).unwrap();
            insert(&mut store, 42..43);
            let (chip, newer) = store.close().unwrap();
            let place = format!("{name}, {is_reorganised}");
            splice(&chip, (&older, &newer), (last, 43), &place);
            let opened = splice(&chip, (&newer, &older), (last, 43), &place);
            // Sums and notes of an earlier time change no row.
            assert!(opened > 0, "{place}");
        }
    }
}
