//! Two interrupted creations in a row: the log opens or is created anew, and no key is gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use probity_log::clock::SystemClock;
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Durability, Log, LogError, LogLocation};

use crate::scenario::for_each;
use crate::twice::moments;
use crate::workload::{options, streams};
use crate::world::{World, root};

fn create(places: &LogLocation) -> Result<(), LogError> {
    let [(_, config), ..] = streams();
    let (options, clock) = (options(Durability::Strict), Arc::new(SystemClock::new()));
    Log::create_at(
        places,
        "example.com/created",
        &root(),
        config,
        options,
        clock,
    )
    .and_then(|log| log.close())
}

fn open(places: &LogLocation) -> Result<Log, LogError> {
    let clock = Arc::new(SystemClock::new());
    Log::open_at(places, &root(), options(Durability::Strict), clock)
}

/// The files of the folder of keys, and with `kept` those that were set aside.
fn keys(image: &Memory, kept: bool) -> BTreeSet<Vec<u8>> {
    let folders = ["log/keys", "log/set-aside"];
    let folders = folders.into_iter().take(1 + usize::from(kept));
    let files = folders.flat_map(|folder| {
        let names = image.list(folder).unwrap_or_default().into_iter();
        names.map(move |name| format!("{folder}/{name}"))
    });
    files
        .map(|file| image.read(&file, 1 << 20).unwrap())
        .collect()
}

/// The log opens, and verification is content with it.
fn check_opens(context: &str, places: &LogLocation) {
    let log = open(places).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    log.close().unwrap();
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(places, &options).unwrap();
    assert_eq!(report.faults, [], "{context}");
}

/// The states that a creation after `image` leaves, one for each moment, where it may begin. Where
/// it is refused, the log that is there opens.
fn seconds(first: &str, image: &Memory) -> Vec<(String, Memory)> {
    let images = moments(image, |places| match create(places) {
        Ok(()) => {}
        // The advice is to append.
        Err(LogError::Exists { .. }) => {
            let world = World::of(image.clone_live());
            check_opens(&format!("{first}, then refused"), &world.places());
        }
        Err(error) => panic!("{first}: {error:?}"),
    });
    let named = images.into_iter();
    named
        .map(|(second, image)| (format!("{first}, then {second}"), image))
        .collect()
}

/// A creation after a killed one overwrote the existing keys, and left no trace and no copy of
/// them. They could belong to a log whose other files were out of reach, or the second creation was
/// killed too.
#[test]
fn two_creations_broken_off_in_a_row_lose_no_key_and_leave_a_place_for_a_log() {
    let firsts = moments(&Memory::new(), |places| create(places).unwrap());
    let pairs: Vec<(BTreeSet<Vec<u8>>, String, Memory)> = firsts
        .iter()
        .flat_map(|(first, image)| {
            let there = keys(image, false);
            let seconds = seconds(first, image).into_iter();
            seconds.map(move |(context, image)| (there.clone(), context, image))
        })
        .collect();
    println!("{} pairs of {} moments", pairs.len(), firsts.len());
    assert!(pairs.len() > 100, "only {} pairs", pairs.len());
    for_each(&pairs, |(there, context, image)| {
        for image in [image.clone_live(), image.crash_losing_all_unsynced()] {
            check_place(context, there, &World::of(image));
        }
    });
}

/// Checks that all keys that were `there` are kept, and that the log opens or can be created.
fn check_place(context: &str, there: &BTreeSet<Vec<u8>>, world: &World) {
    let before = keys(&world.memory, true);
    assert!(there.is_subset(&before), "{context}: a key is gone");
    let places = world.places();
    if open(&places).and_then(|log| log.close()).is_err() {
        create(&places).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        let kept = keys(&world.memory, true);
        assert!(before.is_subset(&kept), "{context}: the third lost a key");
    }
    check_opens(context, &places);
}
