//! A subject is erased, and every storage call of that fails once or is the last before a crash.
//! Afterwards the subject is erased or it is not, no other subject is, and verification finds no
//! fault before and after recovery.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use probity_format::slot::{SLOT_BYTES, SLOT_LABEL_BYTES};
use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Fault, FaultPlan, Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Durability, Log, LogError, LogLocation, StreamName};

use crate::ledger::Promise;
use crate::one_head::{check_heads, next};
use crate::scenario::{Seen, for_each};
use crate::twice::{moments, moments_of};
use crate::workload::{SUBJECTS, append, options, streams, subject};
use crate::world::{World, root};

/// The number of the erased subject.
const ERASED: u64 = 3;
const SLOTS: &str = "log/subjects/slots";

fn open(places: &LogLocation) -> Result<Log, LogError> {
    let clock = Arc::new(SystemClock::new());
    Log::open_at(places, &root(), options(Durability::Strict), clock)
}

/// A log with one entry about each subject.
fn base() -> World {
    let world = World::new();
    let places = world.places();
    let [(_, config), ..] = streams();
    let (options, clock) = (options(Durability::Strict), Arc::new(SystemClock::new()));
    Log::create_at(
        &places,
        "example.com/crash",
        &root(),
        config,
        options,
        clock,
    )
    .unwrap()
    .close()
    .unwrap();
    let log = open(&places).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for id in 0..SUBJECTS {
        let ticket = append(&mut appender, id).unwrap();
        appender.wait(ticket).unwrap();
    }
    log.close().unwrap();
    world
}

/// Opens the log, erases one, and appends an entry about the same again.
fn erase(places: &LogLocation) -> Result<(), LogError> {
    let log = open(places)?;
    let erased = log.erase(&subject(ERASED));
    if erased.is_ok() {
        let mut appender = log.appender(&StreamName::default())?;
        append(&mut appender, ERASED).unwrap();
    }
    let closed = log.close();
    assert!(
        erased.is_ok() || closed.is_err(),
        "the log goes on after {erased:?}"
    );
    erased?;
    closed
}

/// Returns which of the first entries can be read; an error is a false alarm.
fn readable(places: &LogLocation) -> Vec<bool> {
    let mut found = Vec::new();
    Reader::open_at(places, &root())
        .unwrap()
        .read::<LogError>(&Filter::default(), &mut |entry| {
            found.push(!entry.erased);
            Ok(())
        })
        .unwrap();
    found.truncate(usize::try_from(SUBJECTS).unwrap());
    found
}

fn assert_intact(places: &LogLocation, when: &str) {
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        assert_eq!(verify_at(places, &options).unwrap().faults, [], "{when}");
    }
}

/// Checks the state that a new process finds in `image`; returns whether the subject is erased.
fn check(context: &str, image: &Memory) -> bool {
    let world = World::of(image.clone_live());
    let places = world.places();
    assert_intact(&places, &format!("{context}, before recovery"));
    let before = readable(&places);
    open(&places).unwrap().close().unwrap();
    assert_intact(&places, &format!("{context}, after recovery"));
    let after = readable(&places);
    assert_eq!(before, after, "{context}");
    let gone = after.iter().enumerate().filter(|(_, is_open)| !**is_open);
    let erased: Vec<usize> = gone.map(|(place, _)| place).collect();
    let place = usize::try_from(ERASED).unwrap();
    assert!(
        erased.is_empty() || erased == [place],
        "{context}: {erased:?}"
    );
    // Recovery destroyed the key of the erased subject.
    let is_gone = is_gone(&world.memory);
    assert_eq!(is_gone, !erased.is_empty(), "{context}");
    let again = open(&places).unwrap();
    assert_eq!(again.repairs(), &[], "{context}");
    again.close().unwrap();
    is_gone
}

/// Returns whether the key of the erased subject is destroyed.
fn is_gone(image: &Memory) -> bool {
    let slots = image.read(SLOTS, u64::MAX).unwrap();
    let place = usize::try_from(ERASED).unwrap();
    let slot = slots.chunks_exact(SLOT_BYTES).nth(place).unwrap();
    let (_, secret) = slot.split_at(SLOT_LABEL_BYTES);
    secret.iter().all(|byte| *byte == 0)
}

fn calls(base: &World) -> u64 {
    let world = World::of(base.memory.clone_live());
    erase(&world.places()).unwrap();
    let place = usize::try_from(ERASED).unwrap();
    assert_eq!(readable(&world.places()).get(place), Some(&false));
    world.faulty.calls()
}

#[test]
fn a_crash_at_any_moment_of_an_erasure_leaves_it_done_or_not_begun() {
    let base = base();
    let world = World::of(base.memory.clone_live());
    let moments = Arc::new(Mutex::new(Vec::new()));
    for number in 0..=calls(&base) {
        let (memory, moments) = (world.memory.clone(), Arc::clone(&moments));
        world.faulty.before(number, move || {
            let images = [
                memory.clone_live(),
                memory.crash_losing_all_unsynced(),
                memory.crash(crate::SEED.wrapping_add(number)),
            ];
            moments.lock().unwrap().push((number, images));
        });
    }
    erase(&world.places()).unwrap();
    let trace = world.faulty.trace();
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    assert!(moments.len() > 50, "only {} moments", moments.len());
    let (seen, erased) = (Seen::default(), AtomicUsize::new(0));
    for_each(&moments, |(number, images)| {
        let next = trace.get(usize::try_from(*number).unwrap());
        for (which, image) in images.iter().enumerate() {
            if !seen.is_new(image, &(), Promise::Durable) {
                continue;
            }
            let context = format!("crash before call {number} ({next:?}), image {which}");
            let is_erased = check(&context, image);
            erased.fetch_add(usize::from(is_erased), Ordering::Relaxed);
        }
    });
    let (erased, states) = (erased.into_inner(), seen.count());
    println!(
        "{} moments, {states} states, {erased} of them erased",
        moments.len()
    );
    assert!(erased > 10 && erased < states - 10, "{erased} of {states}");
}

#[test]
fn a_call_that_fails_during_an_erasure_stops_the_log_and_the_next_opening_finishes_it() {
    let base = base();
    let numbers: Vec<u64> = (0..calls(&base)).collect();
    let seen = Seen::default();
    for_each(&numbers, |number| {
        for fault in [Fault::INPUT_OUTPUT, Fault::INPUT_OUTPUT.persisted()] {
            let world = World::of(base.memory.clone_live());
            world.faulty.arm(FaultPlan::nth(*number, fault));
            let ended = erase(&world.places());
            let context = format!("call {number} failed: {ended:?}");
            for image in [world.memory.clone_live(), world.memory.crash(crate::SEED)] {
                if seen.is_new(&image, &(), Promise::Durable) {
                    check(&context, &image);
                }
            }
            // A call that changes nothing leaves the same, done or not.
            let mut trace = world.faulty.trace().into_iter();
            let met = trace.find(|traced| traced.fault.is_some());
            if met.is_some_and(|met| !met.call.changes()) {
                break;
            }
        }
    });
    println!("{} calls, {} states", numbers.len(), seen.count());
}

/// An opening signed for its own frame before it overwrote the key that an interrupted erasure had
/// left. Where it was killed in between, and while it ran, verification said of the honest log that
/// somebody had put the key back.
#[test]
fn an_opening_that_finishes_an_erasure_raises_no_alarm_at_any_moment() {
    let base = base();
    let begun = moments(&base.memory, |places| erase(places).unwrap());
    let begun = begun.into_iter().filter(|(_, image)| {
        let places = World::of(image.clone_live()).places();
        let place = usize::try_from(ERASED).unwrap();
        !is_gone(image) && readable(&places).get(place) == Some(&false)
    });
    let begun: Vec<_> = begun.collect();
    // Not signed for yet, and signed for.
    let (Some(first), Some(last)) = (begun.first(), begun.last()) else {
        panic!("no moment leaves the key");
    };
    let mut jobs = Vec::new();
    for (before, image) in [first, last] {
        let world = World::of(image.clone_live());
        let opened = moments_of(&world, |places| open(places).unwrap().close().unwrap());
        for (then, image, signed) in opened {
            jobs.push((format!("{before}, then {then}"), image, signed));
        }
    }
    let seen = Seen::default();
    for_each(&jobs, |(context, image, signed)| {
        for forgets in [false, true] {
            let context = format!("{context}, second copies forgotten: {forgets}");
            let world = next(World::of(image.clone_live()), signed.clone(), forgets);
            if seen.is_new(&world.memory, &(), Promise::Durable) {
                assert!(check(&context, &world.memory), "{context}");
            }
            open(&world.places()).unwrap().close().unwrap();
            check_heads(&context, &world.signed.lock().unwrap());
        }
    });
    println!("{} moments, {} states", jobs.len(), seen.count());
    assert!(seen.count() > 80, "{}", seen.count());
}
