//! A reorganisation that is stopped at any operation of the device changes no answer, and goes on.

use probity_pocketdb::{Extent, Store};

use crate::script::{MEMORY, Model, answers, new_store, play};

/// Commits before the reorganisation, and after a part of it.
const STEPS: u32 = 44;

#[test]
fn a_reorganisation_stopped_at_every_operation_goes_on_with_queries_and_changes_between() {
    for extent in [Extent::Whole, Extent::Levels] {
        let mut store = new_store();
        let mut begun = Model::default();
        play(&mut store, &mut begun, 0..STEPS / 2).unwrap();
        store.reorganize(Extent::Whole, u32::MAX, u64::MAX).unwrap();
        play(&mut store, &mut begun, STEPS / 2..STEPS).unwrap();
        let start = store.into_parts();
        let mut stopped = 0;
        for operations in 0.. {
            let place = format!("{extent:?} stopped after {operations} operations");
            let mut model = begun.clone();
            let (flash, secure) = start.clone();
            let mut store = Store::open(flash, secure, MEMORY).unwrap();
            if store
                .reorganize(extent, u32::MAX, operations)
                .unwrap()
                .finished
            {
                break;
            }
            stopped += 1;
            answers(&mut store, &model, &place).unwrap();
            play(&mut store, &mut model, STEPS..STEPS + 1).unwrap();
            let progress = store.reorganize(extent, u32::MAX, u64::MAX).unwrap();
            assert!(progress.finished, "{place}");
            answers(&mut store, &model, &place).unwrap();
            store.verify().unwrap();
        }
        println!("{extent:?}: stopped at {stopped} operations");
        assert!(stopped > 80, "{stopped}");
    }
}
