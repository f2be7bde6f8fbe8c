//! Damage of the directory in the secure store: it is refused, or changes no answer.

use std::collections::BTreeMap;

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Store};

use crate::script::{MEMORY, Model, STORE_BYTES, Shared, answers, new_store, play};

/// Offset of the structure, behind the ring.
const STRUCTURE_AT: usize = 512 + RECORD_SLOTS * ROOT_RECORD_BYTES;
/// Offset of the list of failed blocks.
const BAD_AT: usize = STRUCTURE_AT + 2 * 4096;
/// Offset of the directory.
const DIRECTORY_AT: usize = 33_792;
const ENTRY_BYTES: usize = 16;
const SECTOR_BYTES: usize = 512;

struct Database {
    flash: Simulator,
    secure: MemoryStore,
    model: Model,
    /// The secure store at earlier moments, the oldest first.
    earlier: Vec<MemoryStore>,
}

/// Two parts, a third one begun and left in a task, units, and waiting rows.
fn database() -> Database {
    let mut model = Model::default();
    let mut store = new_store();
    let mut earlier = Vec::new();
    for round in 0..7 {
        play(&mut store, &mut model, round * 12..(round + 1) * 12).unwrap();
        let (extent, tasks, operations) = match round {
            1 => (Extent::Whole, u32::MAX, u64::MAX),
            3 => (Extent::Whole, 3, u64::MAX),
            4 => (Extent::Levels, u32::MAX, u64::MAX),
            5 => (Extent::Levels, 9, u64::MAX),
            6 => (Extent::Levels, 1, 3),
            _ => (Extent::Levels, 0, 0),
        };
        if tasks > 0 {
            store.reorganize(extent, tasks, operations).unwrap();
        }
        let (flash, secure) = store.into_parts();
        earlier.push(secure.clone());
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
    play(&mut store, &mut model, 84..100).unwrap();
    assert!(!store.progress().finished && store.progress().done > 0);
    let (flash, secure) = store.into_parts();
    Database {
        flash,
        secure,
        model,
        earlier,
    }
}

impl Database {
    /// Returns whether a changed store is refused as damaged; if not, no answer has changed.
    fn refuses(&self, secure: MemoryStore, place: &str) -> bool {
        let opened = Store::open(self.flash.clone(), secure, MEMORY);
        let result = opened.and_then(|mut store| {
            answers(&mut store, &self.model, place)?;
            store.verify()
        });
        match result {
            Ok(_) => false,
            Err(Error::Root(_) | Error::Tampered { .. }) => true,
            Err(error) => panic!("{place}: {error}"),
        }
    }
}

/// Entries had no code. One flipped bit gave values of other columns or rows, and `verify` passed.
#[test]
fn each_flipped_bit_of_the_directory_is_refused_or_changes_no_answer() {
    let mut database = database();
    assert!(!database.refuses(database.secure.clone(), "untouched"));
    let bytes = database.secure.bytes_mut().to_vec();
    let entries = (DIRECTORY_AT..STORE_BYTES).step_by(ENTRY_BYTES);
    let used = entries.filter(|&at| bytes[at..at + ENTRY_BYTES].iter().any(|&byte| byte > 0));
    let mut refused = BTreeMap::new();
    for at in used {
        for bit in 0..ENTRY_BYTES * 8 {
            let mut changed = database.secure.clone();
            changed.bytes_mut()[at + bit / 8] ^= 1 << (bit % 8);
            let noticed = database.refuses(changed, &format!("bit {bit} at {at}"));
            *refused.entry(at).or_insert(0) += u32::from(noticed);
            if bit == 0 && !noticed {
                // No record counts this entry.
                break;
            }
        }
    }
    let counted = refused.values().filter(|&&count| count == 128).count();
    let ignored = refused.values().filter(|&&count| count == 0).count();
    println!("{counted} entries of {}", refused.len());
    assert_eq!(counted + ignored, refused.len(), "{refused:?}");
    assert!(counted > 20 && ignored < counted, "{counted}, {ignored}");
}

#[test]
fn each_sector_behind_the_ring_that_is_lost_or_older_is_refused_or_changes_no_answer() {
    let mut database = database();
    let bytes = database.secure.bytes_mut().to_vec();
    let mut refused = 0;
    for at in (STRUCTURE_AT..STORE_BYTES).step_by(SECTOR_BYTES) {
        let sector = at..at + SECTOR_BYTES;
        let mut seen = vec![bytes[sector.clone()].to_vec()];
        let mut others = vec![vec![0; SECTOR_BYTES], vec![0xFF; SECTOR_BYTES]];
        for earlier in &mut database.earlier {
            others.push(earlier.bytes_mut()[sector.clone()].to_vec());
        }
        for (number, other) in others.into_iter().enumerate() {
            if seen.contains(&other) {
                continue;
            }
            let mut changed = database.secure.clone();
            changed.bytes_mut()[sector.clone()].copy_from_slice(&other);
            let noticed = database.refuses(changed, &format!("sector {at}, content {number}"));
            refused += usize::from(noticed);
            seen.push(other);
        }
    }
    assert!(refused > 20, "{refused}");
    // A wrong list of failed blocks costs blocks, or their failure again, and no answer.
    let mut changed = database.secure.clone();
    changed.bytes_mut()[BAD_AT..DIRECTORY_AT].fill(0xFF);
    assert!(!database.refuses(changed, "list of failed blocks"));
}

#[test]
fn damage_of_the_directory_is_found_while_the_database_is_open() {
    let database = database();
    let secure = Shared::new(database.secure);
    let mut store = Store::open(database.flash, secure.clone(), MEMORY).unwrap();
    store.verify().unwrap();
    secure.change(|secure| secure.bytes_mut()[DIRECTORY_AT + 4] ^= 1);
    assert!(matches!(
        store.verify(),
        Err(Error::Root(_) | Error::Tampered { .. })
    ));
}

/// A first sector that was lost was refused as a file of another kind.
#[test]
fn a_lost_first_sector_is_damage() {
    let database = database();
    for fill in [0, 0xFF] {
        for bytes in [8, 64, SECTOR_BYTES] {
            let mut changed = database.secure.clone();
            changed.bytes_mut()[..bytes].fill(fill);
            assert!(database.refuses(changed, &format!("{bytes} bytes of {fill}")));
        }
    }
}
