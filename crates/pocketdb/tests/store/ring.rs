//! The ring of commit records in the secure store: each record in its own slot, and one torn at most.

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use probity_pocketdb::secure::{FileStore, MemoryStore};
use probity_pocketdb::{Error, Store};

use crate::format::few_records;
use crate::script::{
    BLOCKS, MEMORY, Model, SECRET, STORE_BYTES, check, create_tables, new_store, play,
};

/// Offset of the records.
const RECORDS_AT: usize = 512;

fn bytes_of(slot: usize) -> Range<usize> {
    let at = RECORDS_AT + slot * ROOT_RECORD_BYTES;
    at..at + ROOT_RECORD_BYTES
}

fn record(secure: &mut MemoryStore, slot: usize) -> Vec<u8> {
    secure.bytes_mut()[bytes_of(slot)].to_vec()
}

fn sequence(secure: &mut MemoryStore, slot: usize) -> u64 {
    u64::from_le_bytes(record(secure, slot)[..8].try_into().unwrap())
}

/// A store whose ring was written round, with a copy of the secure store from a turn before.
fn written_round() -> (Simulator, MemoryStore, MemoryStore) {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..60).unwrap();
    let (flash, earlier) = store.into_parts();
    let mut store = Store::open(flash, earlier.clone(), MEMORY).unwrap();
    play(&mut store, &mut model, 60..130).unwrap();
    let (flash, mut secure) = store.into_parts();
    let oldest = (0..RECORD_SLOTS).map(|slot| sequence(&mut secure, slot));
    assert!(oldest.min() > Some(0), "the ring was not written round");
    (flash, secure, earlier)
}

fn newest_slot(secure: &mut MemoryStore) -> usize {
    let slots = 0..RECORD_SLOTS;
    slots.max_by_key(|&slot| sequence(secure, slot)).unwrap()
}

fn refusal(flash: &Simulator, secure: &MemoryStore) -> Option<Error> {
    Store::open(flash.clone(), secure.clone(), MEMORY).err()
}

const MISPLACED: Option<Error> = Some(Error::Root("has a record in another one's place"));
const DAMAGED: Option<Error> = Some(Error::Root("is damaged"));

#[test]
fn a_record_copied_to_any_other_slot_is_refused() {
    let (flash, mut secure, _) = written_round();
    assert_eq!(refusal(&flash, &secure), None);
    for to in 0..RECORD_SLOTS {
        for from in (0..RECORD_SLOTS).filter(|&from| from != to) {
            let mut attacked = secure.clone();
            let copied = record(&mut secure, from);
            attacked.bytes_mut()[bytes_of(to)].copy_from_slice(&copied);
            assert_eq!(refusal(&flash, &attacked), MISPLACED, "{from} in {to}");
        }
    }
}

#[test]
fn a_record_copied_to_a_slot_never_used_is_refused() {
    let (flash, mut secure) = few_records();
    let newest = newest_slot(&mut secure);
    assert!(newest < RECORD_SLOTS / 2);
    for from in 0..=newest {
        let copied = record(&mut secure, from);
        for to in newest + 1..RECORD_SLOTS {
            let mut attacked = secure.clone();
            attacked.bytes_mut()[bytes_of(to)].copy_from_slice(&copied);
            assert_eq!(refusal(&flash, &attacked), MISPLACED, "{from} in {to}");
        }
    }
}

#[test]
fn a_record_of_an_earlier_turn_is_refused_in_every_slot_but_the_newest() {
    let (flash, mut secure, mut earlier) = written_round();
    let newest = newest_slot(&mut secure);
    let mut refused = 0;
    for slot in (0..RECORD_SLOTS).filter(|&slot| slot != newest) {
        let mut attacked = secure.clone();
        let copied = record(&mut earlier, slot);
        if copied.iter().all(|&byte| byte == 0) {
            continue;
        }
        attacked.bytes_mut()[bytes_of(slot)].copy_from_slice(&copied);
        assert_eq!(refusal(&flash, &attacked), MISPLACED, "slot {slot}");
        refused += 1;
    }
    assert!(refused > RECORD_SLOTS / 2, "{refused}");
}

#[test]
fn only_the_record_after_the_newest_may_be_torn_and_none_may_be_missing() {
    let (flash, mut secure, _) = written_round();
    let newest = newest_slot(&mut secure);
    let next = (newest + 1) % RECORD_SLOTS;
    for slot in (0..RECORD_SLOTS).filter(|&slot| slot != newest) {
        let mut torn = secure.clone();
        torn.bytes_mut()[bytes_of(slot)][200..].fill(0x3C);
        let expected = if slot == next { None } else { DAMAGED };
        assert_eq!(refusal(&flash, &torn), expected, "slot {slot} torn");
        let mut emptied = secure.clone();
        emptied.bytes_mut()[bytes_of(slot)].fill(0);
        assert_eq!(refusal(&flash, &emptied), DAMAGED, "slot {slot} emptied");
    }
}

/// H2: slots behind the newest record counted as never written while fewer than 64 records had been, so that a root file that was cut
/// short, or whose end was zeros, opened as an older state, and `verify` called it intact. A new ring is full from the beginning, and
/// what is missing of it is refused.
#[test]
fn a_store_without_its_end_is_never_an_older_state() {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..3).unwrap();
    let (flash, mut secure) = store.into_parts();
    let end = bytes_of(RECORD_SLOTS - 1).end;
    for at in (1..end).step_by(37).chain([2, 3, 5, 7, end - 1]) {
        let mut cut = secure.clone();
        cut.bytes_mut()[at..].fill(0);
        let refused = refusal(&flash, &cut);
        assert!(matches!(refused, Some(Error::Root(_))), "cut at {at}");
    }
    // Zeros in the midst are no records that are still to come, either.
    let newest = newest_slot(&mut secure);
    for first in 0..RECORD_SLOTS {
        for behind in first + 1..=RECORD_SLOTS {
            let mut holed = secure.clone();
            holed.bytes_mut()[bytes_of(first).start..bytes_of(behind - 1).end].fill(0);
            let refused = refusal(&flash, &holed);
            assert_eq!(refused, DAMAGED, "slots {first} to {behind}, {newest}");
        }
    }
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, &model, "whole");
}

/// H2: a cut through the newest record, where that is in the last slot, looked like a loss of power while it was written, and the
/// database opened without it. A file whose ring is full and not all there is refused, and of one with all of its ring nothing is missing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test cuts a file")]
fn a_root_file_that_was_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root");
    let mut model = Model::default();
    let secure = FileStore::create(&path, STORE_BYTES).unwrap();
    let mut store = Store::create(Simulator::new(BLOCKS), secure, &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    while model.steps < 40 || store.state() % RECORD_SLOTS as u64 != RECORD_SLOTS as u64 - 1 {
        let step = model.steps;
        play(&mut store, &mut model, step..step + 1).unwrap();
    }
    let (flash, secure) = store.into_parts();
    drop(secure);
    let whole = fs::read(&path).unwrap();
    let ring = bytes_of(RECORD_SLOTS - 1);
    assert!(whole.len() > ring.end, "{}", whole.len());
    let cuts = (1..whole.len()).step_by(101);
    let mut unharmed = 0;
    for len in cuts.chain([ring.start, ring.start + 200, ring.end - 1, ring.end]) {
        fs::write(&path, &whole[..len]).unwrap();
        match FileStore::open(&path, STORE_BYTES) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{len}");
                assert!(len < ring.end, "{len}");
            }
            Ok(secure) => {
                let opened = Store::open(flash.clone(), secure, MEMORY);
                let verified = opened.and_then(|mut store| store.verify().map(|_| store));
                match verified {
                    Err(Error::Root(_) | Error::ForeignRoot(_) | Error::Tampered { .. }) => {}
                    Err(error) => panic!("{len}: {error}"),
                    Ok(mut store) => {
                        unharmed += 1;
                        check(&mut store, &model, &format!("{len} bytes"));
                    }
                }
            }
        }
    }
    println!("{unharmed} cuts of {} bytes took nothing", whole.len());
}

/// A flipped bit of the newest record took back the last answered commit without a word, and so did
/// records of before in the place of the newest ones.
#[test]
fn a_store_that_was_closed_does_not_lose_its_newest_records() {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..60).unwrap();
    let (flash, mut before) = store.close().unwrap();
    let mut store = Store::open(flash, before.clone(), MEMORY).unwrap();
    play(&mut store, &mut model, 60..66).unwrap();
    let (flash, mut secure) = store.close().unwrap();
    assert_eq!(refusal(&flash, &secure), None);
    let newest = newest_slot(&mut secure);
    let lost = Some(Error::Root("has lost the record of its last commit"));
    for at in [0, 9, 130, 383] {
        let mut damaged = secure.clone();
        damaged.bytes_mut()[bytes_of(newest)][at] ^= 4;
        assert_eq!(refusal(&flash, &damaged), lost, "byte {at}");
    }
    let mut older = secure.clone();
    for back in 0..6 {
        let slot = (newest + RECORD_SLOTS - back) % RECORD_SLOTS;
        let copied = record(&mut before, slot);
        older.bytes_mut()[bytes_of(slot)].copy_from_slice(&copied);
        assert_eq!(refusal(&flash, &older), lost, "{back} records");
    }
    // A damaged note says nothing, and the newest record holds.
    for at in 400..425 {
        let mut damaged = secure.clone();
        damaged.bytes_mut()[at] ^= 1;
        assert_eq!(refusal(&flash, &damaged), None, "byte {at}");
    }
}
