//! An attacker who holds the flash can destroy the data, but not change, swap, remove or restore it.

use probity_pocketdb::flash::{BLOCK_PAGES, PAGE_BYTES, Simulator};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Store};

use crate::script::{
    BLOCKS, MEMORY, Model, STORE_BYTES, TABLES, check, create_tables, new_store, play, row,
};

fn image() -> (Simulator, MemoryStore, Model) {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..60).unwrap();
    let (flash, secure) = store.into_parts();
    (flash, secure, model)
}

/// Opens and reads everything; the rows are right or there is an error.
fn survives(flash: &Simulator, secure: &MemoryStore, model: &Model, place: &str) -> bool {
    match Store::open(flash.clone(), secure.clone(), MEMORY) {
        Err(Error::Tampered { .. }) => false,
        Err(error) => panic!("{place}: {error}"),
        Ok(mut store) => match store.verify() {
            Err(Error::Tampered { .. }) => false,
            Err(error) => panic!("{place}: {error}"),
            Ok(_) => {
                check(&mut store, model, place);
                true
            }
        },
    }
}

/// Pages whose loss the store notices: those that hold committed rows.
fn live_pages(flash: &Simulator, secure: &MemoryStore, model: &Model) -> Vec<u32> {
    let programmed = (0..BLOCKS * BLOCK_PAGES).filter(|&page| flash.is_programmed(page));
    let noticed = |&page: &u32| {
        let mut copy = flash.clone();
        copy.overwrite(page, &[0; PAGE_BYTES]);
        !survives(&copy, secure, model, &format!("zeroed {page}"))
    };
    programmed.filter(noticed).collect()
}

#[test]
fn flips_swaps_and_removals_never_change_an_answer() {
    let (flash, secure, model) = image();
    assert!(survives(&flash, &secure, &model, "untouched"));
    let live = live_pages(&flash, &secure, &model);
    // Two tables of at least two units, and the window.
    assert!(live.len() > 40, "{}", live.len());
    for (index, &page) in live.iter().enumerate() {
        let place = format!("page {page}");
        for bit in [0, 1_000 + index, PAGE_BYTES * 8 - 1] {
            let mut copy = flash.clone();
            copy.flip_bit(page, bit);
            assert!(
                !survives(&copy, &secure, &model, &place),
                "{place} bit {bit}"
            );
        }
        let other = live[(index + 1) % live.len()];
        let mut swapped = flash.clone();
        swapped.overwrite(page, flash.peek(other).unwrap());
        swapped.overwrite(other, flash.peek(page).unwrap());
        assert!(
            !survives(&swapped, &secure, &model, &place),
            "{place} and {other} swapped"
        );
        let mut erased = flash.clone();
        erased.overwrite(page, &[0xFF; PAGE_BYTES]);
        assert!(
            !survives(&erased, &secure, &model, &place),
            "{place} erased"
        );
    }
}

#[test]
fn every_older_image_is_refused_under_the_present_root() {
    let mut store = new_store();
    let mut images = Vec::new();
    for number in 0..250 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
        let (flash, secure) = store.into_parts();
        images.push(flash.clone());
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
    let (_, secure) = store.into_parts();
    // The last one is the present image.
    images.pop();
    for (number, flash) in images.into_iter().enumerate() {
        let opened = Store::open(flash, secure.clone(), MEMORY);
        assert!(
            matches!(opened.err(), Some(Error::Tampered { .. })),
            "image {number}"
        );
    }
}

/// An older secure store that was put back under the present chip opened as an intact database of its
/// time, and the next commit programmed over the rows written since.
#[test]
fn every_older_root_is_refused_under_a_chip_with_later_rows() {
    let mut store = new_store();
    let mut roots = Vec::new();
    for number in 0..250 {
        store.insert(TABLES[0], &row(0, number), &[]).unwrap();
        store.commit().unwrap();
        if number == 120 {
            store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
        }
        let (flash, secure) = store.into_parts();
        let newest = roots.len().saturating_sub(1);
        for (older, root) in roots.iter().enumerate() {
            if older % 40 != 0 && older != newest {
                continue;
            }
            let opened = Store::open(flash.clone(), MemoryStore::clone(root), MEMORY);
            assert!(
                matches!(opened.err(), Some(Error::Root(_) | Error::Tampered { .. })),
                "root {older} under chip {number}"
            );
        }
        roots.push(secure.clone());
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
}

/// The rows of an older root are all there where nothing was written since.
#[test]
fn an_older_root_opens_where_nothing_was_written_since() {
    let mut store = new_store();
    store.insert(TABLES[0], &row(0, 0), &[]).unwrap();
    store.commit().unwrap();
    let (flash, older) = store.into_parts();
    let (flash, _) = Store::open(flash, older.clone(), MEMORY)
        .unwrap()
        .into_parts();
    let store = Store::open(flash, older, MEMORY).unwrap();
    assert_eq!(store.count(TABLES[0]), 1);
}

#[test]
fn programmed_pages_look_random() {
    let (flash, _, _) = image();
    let pages = (0..BLOCKS * BLOCK_PAGES).filter(|&page| flash.is_programmed(page));
    for page in pages {
        let cells = flash.peek(page).unwrap();
        let mut counts = [0u32; 256];
        for &byte in cells {
            counts[usize::from(byte)] += 1;
        }
        let share = |&count: &u32| f64::from(count) / 2048.0;
        let entropy: f64 = counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|c| -share(c) * share(c).log2())
            .sum();
        assert!(entropy > 7.85, "page {page}: {entropy}");
    }
}

#[test]
fn a_foreign_newer_or_missing_root_is_refused_by_name() {
    let (flash, secure, _) = image();
    let open = |secure: MemoryStore| Store::open(flash.clone(), secure, MEMORY).err().unwrap();
    // Nothing was ever written there, or it was lost.
    let zeros = MemoryStore::new(STORE_BYTES);
    assert_eq!(open(zeros), Error::Root("begins with zeros"));
    let mut foreign = secure.clone();
    foreign.bytes_mut().fill(b'x');
    assert!(matches!(open(foreign), Error::ForeignRoot(_)));
    let next = probity_pocketdb::FORMAT + 1;
    let mut newer = secure.clone();
    newer.bytes_mut()[8..10].copy_from_slice(&next.to_le_bytes());
    newer.bytes_mut()[10..12].copy_from_slice(&(!next).to_le_bytes());
    assert_eq!(open(newer), Error::NewerFormat(next));
    let mut older = secure.clone();
    older.bytes_mut()[8..12].copy_from_slice(&[5, 0, 0, 0]);
    assert!(matches!(open(older), Error::ForeignRoot(_)));
    let mut secret = secure.clone();
    secret.bytes_mut()[20] ^= 1;
    assert!(matches!(open(secret), Error::Root(_)));
    let mut other = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &[1; 32],
        MEMORY,
    )
    .unwrap();
    create_tables(&mut other).unwrap();
    other.insert(TABLES[0], &row(0, 1), &[]).unwrap();
    other.commit().unwrap();
    assert!(matches!(open(other.into_parts().1), Error::Tampered { .. }));
    assert!(matches!(
        Store::open(Simulator::new(BLOCKS + 1), secure, MEMORY).err(),
        Some(Error::Root(_))
    ));
}

/// P10: a flipped bit of the root file was reported as if the file were another one's. Whatever bit is
/// flipped of what says how to read the database, it is damage, and never another answer.
#[test]
fn a_flipped_bit_of_the_root_is_damage() {
    let (flash, secure, _) = image();
    let head = 0..64 * 8;
    // Behind it are sums for `stats`, which nothing depends on; of the rest one bit in 211.
    let rest = (208 * 8..40_000 * 8).step_by(211);
    let mut noticed = 0;
    for bit in head.chain(rest) {
        let mut changed = secure.clone();
        changed.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let opened = Store::open(flash.clone(), changed, MEMORY);
        match opened.and_then(|mut store| store.verify()) {
            Err(Error::Root(_) | Error::Tampered { .. }) => noticed += 1,
            Err(error) => panic!("bit {bit}: {error}"),
            // A complement of the format before is what a loss of power leaves while the format is
            // raised. The last number that no page has may be another one.
            Ok(_) => assert!(bit == 80 || bit >= 48 * 8, "bit {bit} of the head"),
        }
    }
    assert!(noticed > 48 * 8 + 100, "{noticed}");
}

/// Places of the secrets of the generations in the secure store, and the one that they come from.
const GENERATIONS: [std::ops::Range<usize>; 4] = [208..240, 240..272, 272..304, 304..336];
const CHAINS: [std::ops::Range<usize>; 2] = [336..368, 432..464];

#[test]
fn what_a_reorganisation_replaced_is_noise_once_its_key_is_destroyed() {
    let (mut flash, mut secure, model) = image();
    for round in 0..4 {
        let (old_flash, mut old_root) = (flash.clone(), secure.clone());
        assert!(survives(&old_flash, &old_root, &model, "before"));
        let mut store = Store::open(flash, secure, MEMORY).unwrap();
        assert!(
            store
                .reorganize(Extent::Whole, u32::MAX, u64::MAX)
                .unwrap()
                .finished
        );
        check(&mut store, &model, "after");
        (flash, secure) = store.into_parts();
        let [present, next] = if round % 2 == 0 {
            [GENERATIONS[0].clone(), GENERATIONS[1].clone()]
        } else {
            [GENERATIONS[1].clone(), GENERATIONS[0].clone()]
        };
        // The whole old image, all that was in the old root, and everything that is in the new one.
        let mut new_root = secure.clone();
        let key = old_root.bytes_mut()[present.clone()].to_vec();
        assert!(key.iter().any(|&byte| byte != 0));
        assert!(
            new_root.bytes_mut()[present.clone()]
                .iter()
                .all(|&byte| byte == 0)
        );
        assert!(
            !new_root
                .bytes_mut()
                .windows(16)
                .any(|part| part == &key[..16])
        );
        let known = new_root.bytes_mut()[next].to_vec();
        old_root.bytes_mut()[present.clone()].copy_from_slice(&known);
        let opened = Store::open(old_flash.clone(), old_root.clone(), MEMORY);
        assert!(matches!(
            opened.err(),
            Some(Error::Root(_) | Error::Tampered { .. })
        ));
        old_root.bytes_mut()[present].fill(0);
        let opened = Store::open(old_flash, old_root, MEMORY);
        assert!(matches!(opened.err(), Some(Error::Root(_))));
        assert!(survives(&flash, &secure, &model, "reorganised"));
    }
}

#[test]
fn a_smaller_reorganisation_destroys_the_keys_of_what_it_took_in_and_keeps_the_others() {
    let (mut flash, mut secure, mut model) = image();
    let (mut destroyed, mut parts) = (0, 0);
    for round in 0..9u32 {
        let (old_flash, mut old_root) = (flash.clone(), secure.clone());
        let mut store = Store::open(flash, secure, MEMORY).unwrap();
        let done = store.reorganize(Extent::Levels, u32::MAX, u64::MAX);
        assert!(done.unwrap().finished);
        check(&mut store, &model, "after");
        store.verify().unwrap();
        (flash, secure) = store.into_parts();
        let mut new_root = secure.clone();
        let new_root = new_root.bytes_mut();
        let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let left = GENERATIONS.iter().chain(&CHAINS);
        let left: Vec<Vec<u8>> = left.map(|at| new_root[at.clone()].to_vec()).collect();
        parts = parts.max(left.iter().filter(|key| !zero(key)).count() - 1);
        for place in &GENERATIONS {
            let key = old_root.bytes_mut()[place.clone()].to_vec();
            if zero(&key) || key == new_root[place.clone()] {
                continue;
            }
            destroyed += 1;
            assert!(!new_root.windows(16).any(|part| part == &key[..16]));
            for known in left.iter().filter(|key| !zero(key)) {
                old_root.bytes_mut()[place.clone()].copy_from_slice(known);
                let opened = Store::open(old_flash.clone(), old_root.clone(), MEMORY);
                let refused = opened.map_or(true, |mut store| store.verify().is_err());
                assert!(refused, "round {round}");
            }
            old_root.bytes_mut()[place.clone()].copy_from_slice(&key);
        }
        assert!(survives(&flash, &secure, &model, "reorganised"));
        let mut store = Store::open(flash, secure, MEMORY).unwrap();
        let first = 60 + round * 20;
        play(&mut store, &mut model, first..first + 20).unwrap();
        (flash, secure) = store.into_parts();
    }
    assert!(destroyed >= 4 && parts == 3, "{destroyed} {parts}");
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
    check(&mut store, &model, "at the end");
    let (_, mut secure) = store.into_parts();
    let keys = GENERATIONS.iter();
    let left = keys.filter(|&at| secure.bytes_mut()[at.clone()].iter().any(|&byte| byte != 0));
    assert_eq!(left.count(), 1);
}

#[test]
fn a_key_that_a_loss_of_power_left_is_destroyed_by_the_next_opening() {
    let (flash, mut secure, model) = image();
    let old = secure.bytes_mut()[GENERATIONS[0].clone()].to_vec();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
    let (flash, mut secure) = store.into_parts();
    secure.bytes_mut()[GENERATIONS[0].clone()].copy_from_slice(&old);
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, &model, "opened again");
    let (_, mut secure) = store.into_parts();
    let left = &secure.bytes_mut()[GENERATIONS[0].clone()];
    assert!(left.iter().all(|&byte| byte == 0));
}

#[test]
fn changes_beside_a_reorganisation_that_was_given_up_stay_readable() {
    let (flash, secure, mut model) = image();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    for round in 0..3u32 {
        let extent = if round % 2 == 0 {
            Extent::Levels
        } else {
            Extent::Whole
        };
        store.reorganize(extent, 2, u64::MAX).unwrap();
        let first = 60 + round * 60;
        play(&mut store, &mut model, first..first + 60).unwrap();
        let (flash, secure) = store.into_parts();
        store = Store::open(flash, secure, MEMORY).unwrap();
        check(&mut store, &model, "while it is built");
        store.cancel_reorganization().unwrap();
        let (flash, secure) = store.into_parts();
        store = Store::open(flash, secure, MEMORY).unwrap();
        check(&mut store, &model, "given up");
    }
    assert!(
        store
            .reorganize(Extent::Whole, u32::MAX, u64::MAX)
            .unwrap()
            .finished
    );
    let (flash, secure) = store.into_parts();
    store = Store::open(flash, secure, MEMORY).unwrap();
    check(&mut store, &model, "used");
    store.verify().unwrap();
}
