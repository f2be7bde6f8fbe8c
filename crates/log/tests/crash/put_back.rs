//! Keys of subjects that are put back while their loss is being accepted, or after that: a log whose
//! keys are all there opens for writing.

use std::sync::Arc;

use probity_format::slot::SLOT_BYTES;
use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Durability, Log, LogError, LogLocation, Options, StreamName};

use crate::scenario::for_each;
use crate::twice::{base, moments, open};
use crate::workload::{append, options};
use crate::world::{World, root};

const SLOTS: &str = "log/subjects/slots";

fn opened(places: &LogLocation, accept_loss: bool) -> Result<Log, LogError> {
    let options = Options {
        accept_loss,
        ..options(Durability::Strict)
    };
    Log::open_at(places, &root(), options, Arc::new(SystemClock::new()))
}

fn accept(places: &LogLocation) {
    opened(places, true).unwrap().close().unwrap();
}

fn slots(memory: &Memory) -> Vec<u8> {
    memory.read(SLOTS, u64::MAX).unwrap()
}

/// The log in `memory`, killed after it gave receipts for the entries `ids` that no checkpoint
/// covers.
fn killed(memory: Memory, ids: std::ops::Range<u64>) -> Memory {
    let world = World::of(memory);
    let log = open(&world.places()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for id in ids {
        let ticket = append(&mut appender, id).unwrap();
        appender.wait(ticket).unwrap();
    }
    let image = world.memory.clone_live();
    drop(appender);
    log.close().unwrap();
    image
}

/// A kind of damage to the slots.
type Harm = fn(&mut Vec<u8>);

/// The last two slots are gone, or the last one does not open.
const HARMS: [(&str, Harm); 2] = [
    ("cut off", |slots| {
        slots.truncate(slots.len() - 2 * SLOT_BYTES);
    }),
    ("a flipped bit", |slots| {
        let place = slots.len() - 9;
        *slots.get_mut(place).unwrap() ^= 1;
    }),
];

/// The entries that are read, or the reason why not.
fn read(places: &LogLocation) -> Result<u64, String> {
    let reader = Reader::open_at(places, &root()).map_err(|error| error.to_string())?;
    let mut entries = 0;
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| {
        entries += 1;
        Ok(())
    });
    read.map(|()| entries).map_err(|error| error.to_string())
}

/// The faults of a verification with the root key, but for a signing key that is still moved on.
fn faults(places: &LogLocation) -> Vec<String> {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(places, &options).unwrap();
    let faults = report.faults.iter();
    let faults = faults.filter(|fault| !fault.place.starts_with("keys/"));
    faults.map(ToString::to_string).collect()
}

/// Opens the log for writing without accepting anything, and appends an entry.
fn write_on(context: &str, places: &LogLocation, id: u64) {
    let log = opened(places, false).unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let ticket = append(&mut appender, id).unwrap();
    appender.wait(ticket).unwrap();
    drop(appender);
    log.close().unwrap();
    assert_eq!(faults(places), Vec::<String>::new(), "{context}");
}

/// An opening that accepted the loss of keys was killed once the journal had it, and before a head
/// covered it. With the keys put back, as readers advised, verification found nothing, and no
/// writer opened the log any more.
#[test]
fn keys_put_back_at_any_moment_of_an_acceptance_leave_a_log_that_opens() {
    for (harm, damage) in HARMS {
        let log = killed(base(), 1..4);
        let whole = slots(&log);
        let mut damaged = whole.clone();
        damage(&mut damaged);
        log.replace(SLOTS, &damaged).unwrap();
        let mut all = moments(&log, accept);
        let done = World::of(log.clone_live());
        accept(&done.places());
        all.push(("the end".into(), done.memory));
        for_each(&all, |(moment, image)| {
            let context = format!("{harm}, {moment}");
            image.replace(SLOTS, &whole).unwrap();
            for world in [
                World::of(image.clone_live()),
                World::of(image.clone_live()).without_copies(),
            ] {
                let places = world.places();
                write_on(&context, &places, 9);
                assert_eq!(read(&places), Ok(5), "{context}");
                write_on(&context, &places, 10);
                assert_eq!(read(&places), Ok(6), "{context}");
            }
        });
    }
}

/// A copy with few keys, or none, used up the chance to put them back: the whole copy was refused
/// from then on.
#[test]
fn keys_put_back_in_parts_are_all_taken() {
    let log = killed(base(), 1..4);
    let whole = slots(&log);
    let cut = whole.len() - 2 * SLOT_BYTES;
    log.replace(SLOTS, &whole[..cut]).unwrap();
    accept(&World::of(log.clone()).places());
    let accepted = slots(&log);
    let few = read(&World::of(log.clone_live()).places()).unwrap();
    let end = whole.len() - SLOT_BYTES;
    let last = [&accepted[..end], &whole[end..]].concat();
    let copies = [&whole[..cut], &whole[..end], &last, &whole, &accepted];
    let mut taken = 0;
    for first in copies {
        for second in copies {
            let context = format!("{} bytes, then {}", first.len(), second.len());
            let memory = log.clone_live();
            let places = World::of(memory.clone()).places();
            for copy in [first, second] {
                memory.replace(SLOTS, copy).unwrap();
                // A copy without keys that were put back before is refused, and nothing changed.
                if let Ok(opened) = opened(&places, false) {
                    opened.close().unwrap();
                    assert!(read(&places).unwrap() >= few, "{context}");
                    taken += 1;
                }
            }
            memory.replace(SLOTS, &whole).unwrap();
            let opened = opened(&places, false);
            let opened = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
            opened.close().unwrap();
            assert_eq!(read(&places), Ok(4), "{context}");
            write_on(&context, &places, 9);
            assert_eq!(read(&places), Ok(5), "{context}");
        }
    }
    assert!(taken > 30, "{taken}");
}

/// Readers of a log whose opening accepted a loss of keys and was killed advised to put the keys
/// back, even where the next opening for writing goes on without them.
#[test]
fn an_acceptance_that_is_under_way_is_called_so_and_finished_by_an_opening() {
    let log = killed(base(), 1..4);
    let mut damaged = slots(&log);
    damaged.truncate(2 * SLOT_BYTES);
    log.replace(SLOTS, &damaged).unwrap();
    let mut under_way = 0;
    for (context, image) in moments(&log, accept) {
        for world in [
            World::of(image.clone_live()),
            World::of(image).without_copies(),
        ] {
            let places = world.places();
            let Err(refused) = read(&places) else {
                write_on(&context, &places, 9);
                continue;
            };
            let found = faults(&places).join("\n");
            let said = "is being accepted";
            let is_under_way = refused.contains(said);
            for text in [&refused, &found] {
                assert_eq!(text.contains(said), is_under_way, "{context}: {text}");
                assert_ne!(
                    text.contains("from a backup"),
                    is_under_way,
                    "{context}: {text}"
                );
            }
            if is_under_way {
                // As they advise.
                under_way += 1;
                write_on(&context, &places, 9);
                assert_eq!(read(&places), Ok(3), "{context}");
            } else {
                let refused = opened(&places, false).err().map(|it| it.to_string());
                let refused = refused.unwrap_or_default();
                assert!(refused.contains("from a backup"), "{context}: {refused}");
            }
        }
    }
    assert!(under_way > 1, "{under_way}");
}

/// After a first accepted loss a copy of the keys from before it is not wanted any more, and a
/// second loss gave the advice to put one back.
#[test]
fn a_second_acceptance_is_as_safe_as_the_first() {
    for (harm, damage) in HARMS {
        let log = killed(base(), 1..4);
        let mut damaged = slots(&log);
        damage(&mut damaged);
        log.replace(SLOTS, &damaged).unwrap();
        let mut first = moments(&log, accept);
        accept(&World::of(log.clone_live()).places());
        let done = World::of(log);
        accept(&done.places());
        first = first.into_iter().step_by(7).collect();
        first.push(("the end".into(), done.memory));
        for_each(&first, |(moment, image)| {
            let context = format!("{harm}, {moment}");
            // Finishes the first acceptance.
            accept(&World::of(image.clone_live()).places());
            let finished = World::of(image.clone_live());
            accept(&finished.places());
            let left = read(&finished.places()).unwrap();
            let log = killed(finished.memory, 5..8);
            let (before, whole) = (slots(image), slots(&log));
            let mut damaged = whole.clone();
            damage(&mut damaged);
            log.replace(SLOTS, &damaged).unwrap();
            let refused = opened(&World::of(log.clone_live()).places(), false);
            let refused = refused.err().unwrap().to_string();
            assert!(
                refused.contains("copy the present folder aside"),
                "{refused}"
            );
            for (moment, image) in moments(&log, accept) {
                let context = format!("{context}, then {moment}");
                let restored = image.clone_live();
                restored.replace(SLOTS, &whole).unwrap();
                let world = World::of(restored);
                write_on(&context, &world.places(), 9);
                assert_eq!(read(&world.places()), Ok(left + 4), "{context}");
                // A copy of before the first loss lacks the keys made since: nothing is changed.
                let older = image.clone_live();
                older.replace(SLOTS, &before).unwrap();
                let refused = opened(&World::of(older.clone_live()).places(), true);
                if let Err(error) = refused {
                    let text = error.to_string();
                    assert!(!text.contains("from a backup"), "{context}: {text}");
                    assert_eq!(slots(&older), before, "{context}");
                }
            }
        });
    }
}
