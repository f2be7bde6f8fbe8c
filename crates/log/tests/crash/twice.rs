//! Two interrupted lives in a row: no reader finds damage in the result, and the log is written on
//! with and without the second copies of its heads.

use std::sync::{Arc, Mutex, OnceLock};

use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Call, Memory};
use probity_log::verify::{UncheckedReason, VerifyOptions, verify_at};
use probity_log::{Durability, Log, LogError, LogLocation, Options, StreamName, key_chain};

use crate::scenario::for_each;
use crate::workload::{append, options, streams};
use crate::world::{SignedHeads, World, root};

pub(crate) fn open(places: &LogLocation) -> Result<Log, LogError> {
    let clock = Arc::new(SystemClock::new());
    // The signing key moves on after the first publication.
    let options = Options {
        key_publications_max: 1,
        ..options(Durability::Strict)
    };
    Log::open_at(places, &root(), options, clock)
}

/// A log with an entry.
pub(crate) fn base() -> Memory {
    let world = World::new();
    let places = world.places();
    let [(_, config), ..] = streams();
    let (options, clock) = (options(Durability::Strict), Arc::new(SystemClock::new()));
    let origin = "example.com/twice";
    Log::create_at(&places, origin, &root(), config, options, clock)
        .unwrap()
        .close()
        .unwrap();
    live(&places, 0);
    world.memory
}

/// Opens the log, appends entry `id`, and moves the signing key on.
pub(crate) fn live(places: &LogLocation, id: u64) {
    let log = open(places).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let ticket = append(&mut appender, id).unwrap();
    appender.wait(ticket).unwrap();
    log.publish().unwrap();
    log.close().unwrap();
}

/// Returns whether such a call changes the state that a killed process leaves.
fn leaves_another(call: Call) -> bool {
    call.changes()
        && !matches!(
            call,
            Call::Open | Call::Lock | Call::Sweep | Call::Sync | Call::SyncFolder
        )
}

/// The states that a kill leaves before each call that changes something, while `work` is done with
/// `memory`.
pub(crate) fn moments(memory: &Memory, work: impl FnOnce(&LogLocation)) -> Vec<(String, Memory)> {
    let moments = moments_of(&World::of(memory.clone_live()), work);
    let images = moments.into_iter().map(|(name, image, _)| (name, image));
    images.collect()
}

/// The states like [`moments`], each with the heads that were signed until then.
pub(crate) fn moments_of(
    world: &World,
    work: impl FnOnce(&LogLocation),
) -> Vec<(String, Memory, SignedHeads)> {
    /// More calls than any work here makes.
    const CALLS: u64 = 2_000;
    let found = Arc::new(Mutex::new(Vec::new()));
    for number in 0..CALLS {
        let (memory, signed) = (world.memory.clone(), Arc::clone(&world.signed));
        let found = Arc::clone(&found);
        world.faulty.before(number, move || {
            let signed = signed.lock().unwrap().clone();
            let moment = (number, memory.clone_live(), signed);
            found.lock().unwrap().push(moment);
        });
    }
    work(&world.places());
    assert!(world.faulty.calls() < CALLS);
    let trace = world.faulty.trace();
    let found = std::mem::take(&mut *found.lock().unwrap());
    let named = found.into_iter().map(|(number, image, signed)| {
        let next = trace.get(usize::try_from(number).unwrap()).unwrap();
        (next.clone(), number, image, signed)
    });
    let changing = named.filter(|(next, ..)| leaves_another(next.call));
    let named = changing.map(|(next, number, image, signed)| {
        let name = format!("call {number}, {:?} {}", next.call, next.name);
        (name, image, signed)
    });
    named.collect()
}

/// Checks that every reader accepts the log before any repair.
fn check_readers(context: &str, places: &LogLocation) {
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let report = verify_at(places, &options).unwrap();
        assert_eq!(report.faults, [], "{context}");
    }
    let reader = Reader::open_at(places, &root()).unwrap();
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()));
    read.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    reader
        .signing_key()
        .unwrap_or_else(|error| panic!("{context}: {error:?}"));
    for stream in [StreamName::default(), StreamName::heads()] {
        if let Err(error) = reader.prove(&stream, 0, None) {
            panic!("{context}, stream {stream}: {error:?}");
        }
    }
}

/// Opens the log and closes it; a refusal is a false alarm.
fn check_opens(context: &str, places: &LogLocation) {
    let log = open(places).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    log.close().unwrap();
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(places, &options).unwrap();
    assert_eq!(report.faults, [], "{context}, after an opening");
}

/// The calls between which faults were found: around the publication of the journal.
pub(crate) const PUBLISHING: [&str; 3] = ["/repairs", "/journal/log.vkey", "/journal/checkpoint"];

/// One in so many of the other moments is tried.
const STEP: usize = 4;

fn tried(images: Vec<(String, Memory)>) -> Vec<(String, Memory)> {
    let images = images.into_iter().enumerate();
    let tried = images.filter(|(number, (name, _))| {
        number % STEP == 0 || PUBLISHING.iter().any(|end| name.ends_with(end))
    });
    tried.map(|(_, image)| image).collect()
}

/// Pairs of kills: one in a life of a sound log, and one in the opening that follows. They are made
/// once.
fn pairs() -> &'static [(String, Memory)] {
    static PAIRS: OnceLock<Vec<(String, Memory)>> = OnceLock::new();
    PAIRS.get_or_init(|| make_pairs(tried))
}

type Images = Vec<(String, Memory)>;

fn make_pairs(choose: impl Fn(Images) -> Images) -> Images {
    let firsts = choose(moments(&base(), |places| live(places, 1)));
    let pairs: Vec<(String, Memory)> = firsts
        .iter()
        .flat_map(|(first, image)| {
            let opened = moments(image, |places| drop(open(places).unwrap().close()));
            let opened = choose(opened).into_iter();
            opened.map(move |(second, image)| (format!("{first}, then {second}"), image))
        })
        .collect();
    println!("{} pairs of {} moments", pairs.len(), firsts.len());
    assert!(pairs.len() > 100, "only {} pairs", pairs.len());
    pairs
}

/// An opening was interrupted between the second copy of the journal's head and its checkpoint. The
/// next one wrote its notes and replaced the signing key before it published the journal again. The
/// honest log looked rolled back to every reader, and without its second copies it could not be
/// written any more.
#[test]
fn two_lives_broken_off_in_a_row_leave_an_intact_log() {
    for_each(pairs(), |(context, image)| check_pair(context, image));
}

fn check_pair(context: &str, image: &Memory) {
    let world = World::of(image.clone_live());
    check_readers(context, &world.places());
    let context = format!("{context}, without second copies");
    check_opens(&context, &world.without_copies().places());
}

#[test]
#[ignore = "takes minutes; the tests above are its short form"]
fn two_lives_broken_off_at_any_two_moments_leave_an_intact_log() {
    for_each(&make_pairs(|images| images), |(context, image)| {
        check_pair(context, image);
        check_alone(context, image);
    });
}

/// A writer that was killed between `log.vkey` of the journal and its checkpoint left the key of a
/// certificate that only the second copy covers. For the log alone, `verify` reported `broken:
/// key-chain` although it was honest, and `export`, `prove` and `keys chain` refused it.
#[test]
fn who_has_no_second_copies_is_content_with_what_a_kill_leaves() {
    let mut images = moments(&base(), |places| live(places, 1));
    let is_ahead = |(_, image): &(String, Memory)| {
        let places = World::of(image.clone_live()).without_copies().places();
        let report = verify_at(&places, &VerifyOptions::default()).unwrap();
        let mut unchecked = report.unchecked.iter();
        unchecked.any(|it| it.path.ends_with("log.vkey") && it.why == UncheckedReason::Ahead)
    };
    assert!(images.iter().any(is_ahead), "no key is named as ahead");
    images.extend(pairs().iter().cloned());
    for_each(&images, |(context, image)| check_alone(context, image));
}

fn check_alone(context: &str, image: &Memory) {
    let left = World::of(image.clone_live()).without_copies().places();
    check_readers(&format!("{context}, without second copies"), &left);
    key_chain(&left).unwrap_or_else(|error| panic!("{context}: {error:?}"));
}
