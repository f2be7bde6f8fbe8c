//! A simulated power loss keeps the promised state, and may take or tear everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::Config;

use crate::storage::{Memory, Storage as _};

const READ_MAX: u64 = 1 << 20;
const SEEDS: u64 = 400;

fn read(storage: &Memory, name: &str) -> Option<Vec<u8>> {
    match storage.read(name, READ_MAX) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            None
        }
    }
}

/// The states of `name` after each of many crashes.
fn outcomes(storage: &Memory, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS)
        .map(|seed| read(&storage.crash(seed), name))
        .collect()
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_gone() {
    let memory = Memory::new();
    let file = memory.open("f/x", true).unwrap();
    file.write_at(b"abc", 0).unwrap();
    file.sync().unwrap();
    let expected = BTreeSet::from([None, Some(b"abc".to_vec())]);
    assert_eq!(outcomes(&memory, "f/x"), expected);
    memory.sync_folder("f").unwrap();
    let expected = BTreeSet::from([Some(b"abc".to_vec())]);
    assert_eq!(outcomes(&memory, "f/x"), expected);
}

#[test]
fn a_synced_name_says_nothing_of_the_bytes_that_were_placed() {
    let memory = Memory::new();
    memory.place("x", &[7; 2_000]).unwrap();
    memory.sync_folder("").unwrap();
    let found = outcomes(&memory, "x");
    assert!(found.contains(&Some(Vec::new())), "empty");
    assert!(found.contains(&Some(vec![7; 2_000])), "whole");
    assert!(found.contains(&Some(vec![0; 2_000])), "its length alone");
    assert!(!found.contains(&None), "there in any case");
    memory.open("x", false).unwrap().sync().unwrap();
    assert_eq!(
        outcomes(&memory, "x"),
        BTreeSet::from([Some(vec![7; 2_000])])
    );
}

#[test]
fn a_replacement_is_durable_and_a_removal_is_only_after_the_sync_of_its_folder() {
    let memory = Memory::new();
    memory.replace("f/g/x", b"old").unwrap();
    assert_eq!(
        outcomes(&memory, "f/g/x"),
        BTreeSet::from([Some(b"old".to_vec())])
    );
    memory.place("f/g/x", b"new").unwrap();
    memory.remove("f/g/x").unwrap();
    let found = outcomes(&memory, "f/g/x");
    assert!(found.contains(&None) && found.contains(&Some(b"old".to_vec())));
    assert!(found.contains(&Some(b"new".to_vec())) && found.contains(&Some(Vec::new())));
    memory.sync_folder("f/g").unwrap();
    assert_eq!(outcomes(&memory, "f/g/x"), BTreeSet::from([None]));
    for seed in 0..SEEDS {
        assert_eq!(
            memory.crash(seed).list("f").unwrap(),
            ["g"],
            "the folder stays"
        );
    }
}

#[test]
fn an_unsynced_write_is_kept_lost_cut_or_torn_and_never_touches_its_neighbours() {
    let memory = Memory::new();
    let file = memory.open("x", true).unwrap();
    file.write_at(&[1; 3_000], 0).unwrap();
    file.sync().unwrap();
    memory.sync_folder("").unwrap();
    file.write_at(&[2; 3_000], 1_000).unwrap();
    let (mut inside_sector, mut holes, mut zeros) = (false, false, false);
    let found = outcomes(&memory, "x");
    for bytes in found.iter().map(|bytes| bytes.as_ref().unwrap()) {
        assert!((3_000..=4_000).contains(&bytes.len()));
        assert!(
            bytes[..1_000].iter().all(|byte| *byte == 1),
            "before the write"
        );
        assert!(bytes[1_000..3_000].iter().all(|byte| [1, 2].contains(byte)));
        assert!(bytes[3_000..].iter().all(|byte| [0, 2].contains(byte)));
        let edges = (1_000..bytes.len().min(3_000) - 1).filter(|at| bytes[*at] != bytes[at + 1]);
        let edges: Vec<usize> = edges.map(|at| at + 1).collect();
        inside_sector |= edges.iter().any(|at| at % 512 != 0);
        holes |= edges.len() > 1;
        zeros |= bytes[3_000..].contains(&0);
    }
    assert!(
        inside_sector && holes && zeros,
        "tears of every kind come up"
    );
    let whole = [[1; 1_000].as_slice(), &[2; 3_000]].concat();
    assert!(found.contains(&Some(whole)) && found.contains(&Some(vec![1; 3_000])));
}

#[test]
fn a_cut_of_the_length_may_be_undone() {
    let memory = Memory::new();
    memory.replace("x", b"abcdef").unwrap();
    let file = memory.open("x", false).unwrap();
    file.set_length(2).unwrap();
    let expected = BTreeSet::from([Some(b"ab".to_vec()), Some(b"abcdef".to_vec())]);
    assert_eq!(outcomes(&memory, "x"), expected);
    file.sync().unwrap();
    assert_eq!(
        outcomes(&memory, "x"),
        BTreeSet::from([Some(b"ab".to_vec())])
    );
}

#[test]
fn the_order_of_unsynced_changes_is_kept_in_some_crashes_and_not_in_others() {
    let memory = Memory::new();
    let (first, second) = (
        memory.open("1", true).unwrap(),
        memory.open("2", true).unwrap(),
    );
    memory.sync_folder("").unwrap();
    first.write_at(b"x", 0).unwrap();
    second.write_at(b"y", 0).unwrap();
    let found: BTreeSet<(bool, bool)> = (0..SEEDS)
        .map(|seed| memory.crash(seed))
        .map(|left| {
            (
                read(&left, "1").unwrap() == b"x",
                read(&left, "2").unwrap() == b"y",
            )
        })
        .collect();
    assert_eq!(found.len(), 4);
}

#[test]
fn a_crash_with_the_same_seed_leaves_the_same_and_touches_nothing() {
    let memory = Memory::new();
    for number in 0..20_u8 {
        let name = format!("f{}/{number}", number % 3);
        memory.place(&name, &[number; 3_000]).unwrap();
    }
    let state = |storage: &Memory| -> Vec<Option<Vec<u8>>> {
        (0..20)
            .map(|number| read(storage, &format!("f{}/{number}", number % 3)))
            .collect()
    };
    let before = state(&memory);
    let states: Vec<_> = (0..50).map(|seed| state(&memory.crash(seed))).collect();
    for (seed, expected) in (0..50).zip(&states) {
        assert_eq!(&state(&memory.crash(seed)), expected, "seed {seed}");
    }
    assert!(states.iter().collect::<BTreeSet<_>>().len() > 20);
    assert_eq!(state(&memory), before);
    // The state after a crash is durable: the next one takes nothing more.
    for seed in 0..20 {
        let left = memory.crash(seed);
        assert_eq!(state(&left.crash(seed + 1)), state(&left));
    }
}

#[test]
fn a_killed_process_leaves_everything_as_durable_as_it_was_and_no_lock() {
    let memory = Memory::new();
    memory.replace("old", b"old").unwrap();
    let file = memory.open("new", true).unwrap();
    file.write_at(b"new", 0).unwrap();
    let _held = memory.lock("lock").unwrap().unwrap();
    assert!(memory.lock("lock").unwrap().is_none());
    let next = memory.clone_live();
    file.write_at(b"later", 0).unwrap();
    assert_eq!(read(&next, "new").unwrap(), b"new");
    assert!(outcomes(&next, "new").contains(&None), "still not durable");
    assert_eq!(
        outcomes(&next, "old"),
        BTreeSet::from([Some(b"old".to_vec())])
    );
    assert!(next.lock("lock").unwrap().is_some());
    assert!(memory.crash(1).lock("lock").unwrap().is_some());
    next.replace("old", b"changed").unwrap();
    assert_eq!(read(&memory, "old").unwrap(), b"old");
}

#[test]
fn a_copy_shows_all_files_at_one_moment() {
    let memory = Memory::new();
    let files: Vec<_> = (0..4)
        .map(|number| memory.open(&number.to_string(), true).unwrap())
        .collect();
    for file in &files {
        file.write_at(&0_u64.to_le_bytes(), 0).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=3_000_u64 {
                for file in &files {
                    file.write_at(&round.to_le_bytes(), 0).unwrap();
                }
            }
        });
        for _ in 0..100 {
            let copy = memory.clone_live();
            let numbers: Vec<u64> = (0..4)
                .map(|number| read(&copy, &number.to_string()).unwrap())
                .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
                .collect();
            assert!(numbers.is_sorted_by(|a, b| a >= b), "{numbers:?}");
            assert!(numbers[0] - numbers[3] <= 1, "{numbers:?}");
        }
    });
}

#[test]
fn files_beyond_the_bound_are_refused() {
    let memory = Memory::new();
    let file = memory.open("x", true).unwrap();
    for offset in [1 << 30, u64::MAX] {
        assert_eq!(
            file.write_at(b"x", offset).unwrap_err().kind(),
            ErrorKind::FileTooLarge
        );
    }
    assert_eq!(
        file.set_length(1 << 40).unwrap_err().kind(),
        ErrorKind::FileTooLarge
    );
    assert_eq!(file.length().unwrap(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        name: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Cut {
        name: usize,
        length: u64,
    },
    Sync {
        name: usize,
    },
    Replace {
        name: usize,
        bytes: Vec<u8>,
    },
    Place {
        name: usize,
        bytes: Vec<u8>,
    },
    Remove {
        name: usize,
    },
    SyncFolder {
        folder: usize,
    },
}

const NAMES: [&str; 4] = ["a", "f/a", "f/b", "f/g/a"];
const FOLDERS: [&str; 3] = ["", "f", "f/g"];

fn steps() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let bytes = || proptest::collection::vec(any::<u8>(), 1..1_200);
    prop_oneof![
        4 => (name(), 0..2_000_u64, bytes())
            .prop_map(|(name, offset, bytes)| Step::Write { name, offset, bytes }),
        1 => (name(), 0..2_000_u64).prop_map(|(name, length)| Step::Cut { name, length }),
        3 => name().prop_map(|name| Step::Sync { name }),
        2 => (name(), bytes()).prop_map(|(name, bytes)| Step::Replace { name, bytes }),
        1 => (name(), bytes()).prop_map(|(name, bytes)| Step::Place { name, bytes }),
        1 => name().prop_map(|name| Step::Remove { name }),
        2 => (0..FOLDERS.len()).prop_map(|folder| Step::SyncFolder { folder }),
    ]
}

/// The promises for one name, by the contract of the trait and without a look inside.
#[derive(Debug, Default)]
struct Promise {
    name_durable: bool,
    bytes_durable: bool,
}

fn run(memory: &Memory, promises: &mut BTreeMap<&'static str, Promise>, step: &Step) {
    let file = |name: usize, create| memory.open(NAMES[name], create);
    match step {
        Step::Write {
            name,
            offset,
            bytes,
        } => {
            let is_new = read(memory, NAMES[*name]).is_none();
            file(*name, true).unwrap().write_at(bytes, *offset).unwrap();
            let promise = promises.entry(NAMES[*name]).or_default();
            promise.bytes_durable = false;
            promise.name_durable &= !is_new;
        }
        Step::Cut { name, length } => {
            if let Ok(file) = file(*name, false) {
                file.set_length(*length).unwrap();
                promises.entry(NAMES[*name]).or_default().bytes_durable = false;
            }
        }
        Step::Sync { name } => {
            if let Ok(file) = file(*name, false) {
                file.sync().unwrap();
                promises.entry(NAMES[*name]).or_default().bytes_durable = true;
            }
        }
        Step::Replace { name, bytes } => {
            memory.replace(NAMES[*name], bytes).unwrap();
            let promise = promises.entry(NAMES[*name]).or_default();
            (promise.name_durable, promise.bytes_durable) = (true, true);
        }
        Step::Place { name, bytes } => {
            memory.place(NAMES[*name], bytes).unwrap();
            let promise = promises.entry(NAMES[*name]).or_default();
            (promise.name_durable, promise.bytes_durable) = (false, false);
        }
        Step::Remove { name } => {
            if memory.remove(NAMES[*name]).is_ok() {
                let promise = promises.entry(NAMES[*name]).or_default();
                (promise.name_durable, promise.bytes_durable) = (false, true);
            }
        }
        Step::SyncFolder { folder } => {
            if memory.sync_folder(FOLDERS[*folder]).is_ok() {
                for name in NAMES {
                    let (above, _) = name.rsplit_once('/').unwrap_or(("", name));
                    if above == FOLDERS[*folder] {
                        promises.entry(name).or_default().name_durable = true;
                    }
                }
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn what_was_promised_survives_every_crash(
        steps in proptest::collection::vec(steps(), 1..40),
        seed in any::<u64>(),
    ) {
        let memory = Memory::new();
        let mut promises = BTreeMap::new();
        for step in &steps {
            run(&memory, &mut promises, step);
            for round in 0..8 {
                let left = memory.crash(seed.wrapping_add(round));
                for (name, promise) in &promises {
                    if promise.name_durable && promise.bytes_durable {
                        assert_eq!(read(&left, name), read(&memory, name), "{name}");
                    } else if promise.name_durable {
                        let there = read(&memory, name).is_some();
                        assert_eq!(read(&left, name).is_some(), there, "{name}");
                    }
                }
            }
        }
    }
}
