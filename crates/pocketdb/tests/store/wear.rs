//! All blocks of the chip wear alike.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Extent, Store};

use crate::script::SECRET;
use crate::script::{BLOCKS, MEMORY, Model, STORE_BYTES, Shared, check, create_tables, play};

/// Reorganisations, and commits between two of them.
const ROUNDS: u32 = 100;
const STEPS: u32 = 6;

/// Erasures of the block erased least and most often after a hundred reorganisations.
fn wear_after(extent: Extent) -> (u32, u32) {
    let flash = Shared::new(Simulator::new(BLOCKS));
    let secure = Shared::new(MemoryStore::new(STORE_BYTES));
    let mut store = Store::create(flash.clone(), secure, &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    let mut model = Model::default();
    for round in 0..ROUNDS {
        play(&mut store, &mut model, round * STEPS..(round + 1) * STEPS).unwrap();
        let done = store.reorganize(extent, u32::MAX, u64::MAX);
        assert!(done.unwrap().finished);
    }
    check(&mut store, &model, "at the end");
    let chip = flash.copy();
    let least = chip.wear().iter().min().copied().unwrap_or(0);
    (least, chip.wear().iter().max().copied().unwrap_or(0))
}

#[test]
fn no_block_is_erased_twice_as_often_as_another_after_a_hundred_reorganisations() {
    for extent in [Extent::Whole, Extent::Levels] {
        let (least, most) = wear_after(extent);
        println!("{extent:?}: {least} to {most} erasures of a block");
        assert!(least > 0 && most <= 2 * least, "{extent:?}: {least} {most}");
    }
}
