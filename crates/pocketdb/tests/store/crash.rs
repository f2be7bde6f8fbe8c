//! After a loss of power the store is exactly what was committed, wherever the power went.

use probity_pocketdb::flash::{PowerCut, Simulator, Torn};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Store};

use crate::script::{MEMORY, Model, SECRET, TABLES, check, create_tables, new_store, play};

/// Commits of the script; enough for several units and for a rollback between them.
const STEPS: u32 = 60;

#[test]
fn a_cut_at_every_program_and_erase_leaves_a_committed_state() {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..STEPS).unwrap();
    let (flash, _) = store.into_parts();
    let counters = probity_pocketdb::flash::Nand::counters(&flash);
    let operations = counters.programs + counters.erases;
    assert!(operations > 100, "{operations}");
    for torn in [Torn::Nothing, Torn::Prefix(700), Torn::Everything] {
        for after in 0..operations {
            let mut flash = Simulator::new(crate::script::BLOCKS);
            flash.plan_cut(PowerCut { after, torn });
            cut_once(
                flash,
                MemoryStore::new(crate::script::STORE_BYTES),
                &format!("{torn:?} {after}"),
            );
        }
    }
}

#[test]
fn a_cut_at_every_write_of_the_secure_store_leaves_a_committed_state() {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..STEPS).unwrap();
    let writes = store.into_parts().1.writes();
    for kept in [0, 100, 1000] {
        for after in 0..writes {
            let mut secure = MemoryStore::new(crate::script::STORE_BYTES);
            secure.plan_cut(after, kept);
            cut_once(
                Simulator::new(crate::script::BLOCKS),
                secure,
                &format!("root {kept} {after}"),
            );
        }
    }
}

/// A page of which any sectors are written is no clean one. Only its first sector was looked at, and a
/// store whose next page was torn behind that one could never be changed again.
#[test]
fn a_cut_that_leaves_any_sectors_of_a_page_leaves_a_committed_state() {
    let mut model = Model::default();
    let mut store = new_store();
    play(&mut store, &mut model, 0..STEPS).unwrap();
    let (flash, _) = store.into_parts();
    let counters = probity_pocketdb::flash::Nand::counters(&flash);
    for after in 0..counters.programs + counters.erases {
        // All 15 sets of sectors meet the operations in turn; the last ones lack the first sector.
        for set in [1 + after % 15, 2 + after % 7 * 2] {
            let torn = Torn::Sectors(u8::try_from(set).unwrap());
            let mut flash = Simulator::new(crate::script::BLOCKS);
            flash.plan_cut(PowerCut { after, torn });
            let secure = MemoryStore::new(crate::script::STORE_BYTES);
            cut_once(flash, secure, &format!("{torn:?} {after}"));
        }
    }
}

/// Plays the script into the cut, opens again, compares, and goes on to the end.
fn cut_once(flash: Simulator, secure: MemoryStore, place: &str) {
    let devices = Devices { flash, secure };
    let Some((store, mut model)) = devices.play_into_cut(place) else {
        return;
    };
    let mut store = store;
    // The commit in progress came to be or it did not; nothing in between.
    if store.count(TABLES[0]) + store.count(TABLES[1]) != model.committed_total() {
        model.accept_pending();
    }
    check(&mut store, &model, place);
    store.verify().unwrap();
    let next = model.steps;
    play(&mut store, &mut model, next..next + 8).unwrap();
    check(&mut store, &model, place);
}

struct Devices {
    flash: Simulator,
    secure: MemoryStore,
}

impl Devices {
    /// The store as reopened after the cut with the model of it; nothing when creation was cut.
    fn play_into_cut(self, place: &str) -> Option<(Store<Simulator, MemoryStore>, Model)> {
        let mut model = Model::default();
        let shared_flash = crate::script::Shared::new(self.flash);
        let shared_secure = crate::script::Shared::new(self.secure);
        let mut ready = false;
        if let Ok(mut store) =
            Store::create(shared_flash.clone(), shared_secure.clone(), &SECRET, MEMORY)
        {
            ready = create_tables(&mut store).is_ok();
            if ready {
                let result = play(&mut store, &mut model, 0..STEPS);
                assert!(result.is_err(), "{place}: no cut");
            }
        }
        let mut flash = shared_flash.copy();
        let mut secure = shared_secure.copy();
        flash.restore_power();
        secure.restore_power();
        match Store::open(flash, secure, MEMORY) {
            Ok(store) if ready => Some((store, model)),
            // Each table came to be as a whole or not at all.
            Ok(mut store) => {
                store.verify().unwrap();
                assert!(store.table("first").is_some() || store.table("second").is_none());
                None
            }
            Err(error) if ready => panic!("{place}: {error}"),
            // A store whose creation was interrupted does not open; nothing was committed to it.
            Err(_) => None,
        }
    }
}

/// A failure of the work behind a commit was told once, and the handle could be used again. Its next
/// commit wrote a chain of pages that lacked rows which were committed before.
#[test]
fn a_store_whose_work_behind_a_commit_failed_does_nothing_more() {
    let mut deferred = 0;
    for after in 0..40 {
        let flash = crate::script::Shared::new(Simulator::new(crate::script::BLOCKS));
        let secure = MemoryStore::new(crate::script::STORE_BYTES);
        let mut store = Store::create(flash.clone(), secure, &SECRET, MEMORY).unwrap();
        create_tables(&mut store).unwrap();
        let table = TABLES[0];
        for number in 0..probity_pocketdb::limits::UNIT_ROWS {
            let row = crate::script::row(0, number);
            store.insert(table, &row, &[]).unwrap();
            if number % 16 == 0 {
                store.commit().unwrap();
            }
        }
        let torn = Torn::Nothing;
        flash.change(|flash| flash.plan_cut(PowerCut { after, torn }));
        let committed = store.commit().is_ok();
        flash.change(Simulator::restore_power);
        let Err(failure) = store.commit() else {
            break;
        };
        assert_eq!(failure == Error::Poisoned, !committed, "{after}: {failure}");
        deferred += u32::from(committed);
        let row = crate::script::row(0, 0);
        for _ in 0..2 {
            assert_eq!(store.commit(), Err(Error::Poisoned), "{after}");
            let inserted = store.insert(table, &row, &[]);
            assert_eq!(inserted, Err(Error::Poisoned), "{after}");
        }
        let (_, secure) = store.into_parts();
        let mut store = Store::open(flash.copy(), secure, MEMORY).unwrap();
        store.verify().unwrap();
    }
    assert!(deferred > 5, "{deferred}");
}

/// An error behind the last commit was told by nobody when the store was closed instead of used
/// again.
#[test]
fn an_error_behind_the_last_commit_is_told_by_the_closing() {
    let mut told = 0;
    for after in 0..40 {
        let flash = crate::script::Shared::new(Simulator::new(crate::script::BLOCKS));
        let secure = MemoryStore::new(crate::script::STORE_BYTES);
        let mut store = Store::create(flash.clone(), secure, &SECRET, MEMORY).unwrap();
        create_tables(&mut store).unwrap();
        for number in 0..probity_pocketdb::limits::UNIT_ROWS {
            let row = crate::script::row(0, number);
            store.insert(TABLES[0], &row, &[]).unwrap();
        }
        let torn = Torn::Nothing;
        flash.change(|flash| flash.plan_cut(PowerCut { after, torn }));
        let committed = store.commit().is_ok();
        flash.change(Simulator::restore_power);
        // A rollback that nobody looks at takes nothing of it away.
        drop(store.rollback());
        let closed = store.close().err();
        if committed && closed.is_none() {
            // All of the work was done before the power would have failed.
            break;
        }
        told += u32::from(committed);
    }
    assert!(told > 5, "{told}");
}
