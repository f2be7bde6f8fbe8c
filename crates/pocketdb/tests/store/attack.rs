//! Attacks on a chip with a reorganised part: each is detected, or no answer changes.
//!
//! Rows are read and searched for without verifying first, so that an answer is wrong or short only if
//! the page that gave it was accepted.

use std::collections::HashSet;

use probity_pocketdb::flash::{BLOCK_PAGES, PAGE_BYTES, Simulator};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Store};

use crate::script::{MEMORY, Model, answers, play, store_on};

/// Blocks of the chip, few enough to be used again and again.
const BLOCKS: u32 = 17;
/// Earlier images that are replayed.
const EARLIER: u32 = 16;

struct Attacked {
    flash: Simulator,
    secure: MemoryStore,
    model: Model,
    /// The chip at earlier moments, the oldest first.
    earlier: Vec<Simulator>,
}

/// A chip with two parts, units and waiting rows.
fn reorganised() -> Attacked {
    let mut model = Model::default();
    let mut store = store_on(BLOCKS);
    let mut earlier = Vec::new();
    for round in 0..EARLIER {
        play(&mut store, &mut model, round * 4..(round + 1) * 4).unwrap();
        let extent = match round {
            2 | 5 | 8 | 11 => Some(Extent::Whole),
            14 => Some(Extent::Levels),
            _ => None,
        };
        if let Some(extent) = extent {
            let done = store.reorganize(extent, u32::MAX, u64::MAX);
            assert!(done.unwrap().finished);
        }
        let (flash, secure) = store.into_parts();
        earlier.push(flash.clone());
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
    let steps = EARLIER * 4;
    play(&mut store, &mut model, steps..steps + 20).unwrap();
    assert!(store.parts() >= 2 && store.instance() == 5);
    let (flash, secure) = store.into_parts();
    Attacked {
        flash,
        secure,
        model,
        earlier,
    }
}

impl Attacked {
    fn block(chip: &Simulator, block: u32) -> Vec<Vec<u8>> {
        let pages = block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES;
        pages
            .map(|page| chip.peek(page).unwrap().to_vec())
            .collect()
    }

    fn put(chip: &mut Simulator, block: u32, pages: &[Vec<u8>]) {
        for (page, bytes) in (block * BLOCK_PAGES..).zip(pages) {
            chip.overwrite(page, bytes);
        }
    }

    fn is_used(&self, page: u32) -> bool {
        self.flash.is_programmed(page)
    }

    /// Returns whether an attack was noticed; if not, no answer has changed.
    fn notices(&self, flash: &Simulator, place: &str) -> bool {
        let opened = Store::open(flash.clone(), self.secure.clone(), MEMORY);
        let result = opened.and_then(|mut store| {
            answers(&mut store, &self.model, place)?;
            store.verify()
        });
        match result {
            Ok(_) => false,
            Err(Error::Tampered { .. }) => true,
            Err(error) => panic!("{place}: {error}"),
        }
    }

    /// Pages that verification reads.
    fn live(&self) -> u64 {
        let opened = Store::open(self.flash.clone(), self.secure.clone(), MEMORY);
        opened.unwrap().verify().unwrap()
    }
}

#[test]
fn every_page_of_a_reorganised_chip_is_noticed_when_damaged_or_changes_no_answer() {
    let attacked = reorganised();
    assert!(!attacked.notices(&attacked.flash, "untouched"));
    let mut noticed = 0;
    for page in (0..BLOCKS * BLOCK_PAGES).filter(|&page| attacked.is_used(page)) {
        let mut chip = attacked.flash.clone();
        chip.flip_bit(page, page as usize * 41 % (PAGE_BYTES * 8));
        noticed += u64::from(attacked.notices(&chip, &format!("page {page}")));
    }
    let live = attacked.live();
    println!("{noticed} pages noticed, {live} live");
    assert!(noticed >= live && live > 100, "{noticed} of {live}");
}

#[test]
fn blocks_of_a_reorganised_chip_that_change_places_are_noticed_or_change_no_answer() {
    let attacked = reorganised();
    let used = (0..BLOCKS).filter(|block| attacked.is_used(block * BLOCK_PAGES));
    let used: Vec<u32> = used.collect();
    let mut noticed = 0;
    for (number, &block) in used.iter().enumerate() {
        for &other in used.iter().skip(number + 1) {
            let mut chip = attacked.flash.clone();
            Attacked::put(&mut chip, block, &Attacked::block(&attacked.flash, other));
            Attacked::put(&mut chip, other, &Attacked::block(&attacked.flash, block));
            let place = format!("blocks {block} and {other} swapped");
            noticed += usize::from(attacked.notices(&chip, &place));
        }
    }
    println!("{noticed} swaps of {} blocks noticed", used.len());
    assert!(noticed > used.len());
}

#[test]
fn blocks_of_sixteen_earlier_images_put_back_are_noticed_or_change_no_answer() {
    let attacked = reorganised();
    let (mut tried, mut noticed) = (0, 0);
    for (moment, earlier) in attacked.earlier.iter().enumerate() {
        for block in 0..BLOCKS {
            let old = Attacked::block(earlier, block);
            if old == Attacked::block(&attacked.flash, block) {
                continue;
            }
            let mut chip = attacked.flash.clone();
            Attacked::put(&mut chip, block, &old);
            tried += 1;
            let place = format!("block {block} of image {moment}");
            noticed += u32::from(attacked.notices(&chip, &place));
        }
    }
    println!("{noticed} of {tried} blocks noticed");
    assert!(noticed > 60 && tried > noticed, "{noticed} of {tried}");
}

#[test]
fn pages_of_sixteen_earlier_images_put_back_are_noticed_or_change_no_answer() {
    let attacked = reorganised();
    let (mut tried, mut noticed) = (0u32, 0);
    for page in (0..BLOCKS * BLOCK_PAGES).filter(|&page| attacked.is_used(page)) {
        let mut seen = vec![attacked.flash.peek(page).unwrap(), &[0xFF; PAGE_BYTES]];
        for earlier in &attacked.earlier {
            let old = earlier.peek(page).unwrap();
            if seen.contains(&old) {
                continue;
            }
            seen.push(old);
            let mut chip = attacked.flash.clone();
            chip.overwrite(page, old);
            tried += 1;
            noticed += u32::from(attacked.notices(&chip, &format!("page {page} as before")));
        }
    }
    println!("{noticed} of {tried} pages noticed");
    assert!(noticed > 10, "{noticed} of {tried}");
}

#[test]
fn every_earlier_image_is_refused_as_a_whole() {
    let attacked = reorganised();
    for (moment, earlier) in attacked.earlier.iter().enumerate() {
        assert!(attacked.notices(earlier, &format!("image {moment}")));
    }
}

#[test]
fn no_eight_bytes_of_any_row_are_found_in_the_chip_or_in_the_secure_store() {
    let mut attacked = reorganised();
    let mut texts: HashSet<[u8; 8]> = HashSet::new();
    for row in attacked.model.rows().iter().flatten() {
        texts.extend(
            row.windows(8)
                .map(|text| <[u8; 8]>::try_from(text).unwrap()),
        );
    }
    assert!(texts.len() > 1_000, "{}", texts.len());
    let leaks = |bytes: &[u8]| {
        let mut windows = bytes.windows(8);
        windows.any(|text| texts.contains(&<[u8; 8]>::try_from(text).unwrap()))
    };
    assert!(leaks(&attacked.model.rows()[0][0]));
    for chip in attacked.earlier.iter().step_by(5).chain([&attacked.flash]) {
        for page in 0..BLOCKS * BLOCK_PAGES {
            assert!(!leaks(chip.peek(page).unwrap()), "page {page}");
        }
    }
    assert!(!leaks(attacked.secure.bytes_mut()));
}
