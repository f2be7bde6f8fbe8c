//! An opening that accepts a loss, broken off at any moment: all readers are of one mind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use probity_format::slot::SLOT_BYTES;
use probity_log::clock::SystemClock;
use probity_log::prove::ProveError;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{Report, VerifyOptions, verify_at};
use probity_log::{Durability, Log, LogError, LogLocation, Options, StoredLeaves, StreamName};

use crate::scenario::for_each;
use crate::twice::{base, live, moments, open};
use crate::workload::{append, options};
use crate::world::{World, root};

const SEGMENTS: &str = "log/streams/default/segments";

fn lengths(memory: &Memory) -> BTreeMap<String, u64> {
    let names = memory.list(SEGMENTS).unwrap().into_iter();
    let paths = names.map(|name| format!("{SEGMENTS}/{name}"));
    let length = |path: &String| memory.open_read(path).unwrap().length().unwrap();
    paths.map(|path| (path.clone(), length(&path))).collect()
}

/// A log that has lost entries with receipts which no checkpoint covered, and its segments before.
fn damaged() -> (Memory, BTreeMap<String, Vec<u8>>) {
    let world = World::of(base());
    let log = open(&world.places()).unwrap();
    let before = lengths(&world.memory);
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for id in 1..3 {
        let ticket = append(&mut appender, id).unwrap();
        appender.wait(ticket).unwrap();
    }
    let image = world.memory.clone_live();
    drop(appender);
    log.close().unwrap();
    let read = |path: &String| (path.clone(), image.read(path, u64::MAX).unwrap());
    let whole = lengths(&image).keys().map(read).collect();
    for path in lengths(&image).keys() {
        match before.get(path) {
            Some(length) => {
                let file = image.open(path, false).unwrap();
                file.set_length(*length).unwrap();
            }
            None => image.remove(path).unwrap(),
        }
    }
    (image, whole)
}

fn accept(places: &LogLocation) {
    let options = Options {
        accept_loss: true,
        ..options(Durability::Strict)
    };
    let clock = Arc::new(SystemClock::new());
    let log = Log::open_at(places, &root(), options, clock).unwrap();
    log.close().unwrap();
}

/// The entries that `reader` reads, where it refuses none.
fn entries(reader: &Reader) -> Option<u64> {
    let mut entries = 0;
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| {
        entries += 1;
        Ok(())
    });
    read.ok().map(|()| entries)
}

/// The verdict of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Intact,
    Accepted,
    Damaged,
}

impl Class {
    fn of(is_sound: bool, losses: usize) -> Self {
        match (is_sound, losses) {
            (false, _) => Self::Damaged,
            (true, 0) => Self::Intact,
            (true, _) => Self::Accepted,
        }
    }
}

/// Verifies with the root key. Returns the report and its verdict.
fn verified(places: &LogLocation) -> (Report, Class) {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(places, &options).unwrap();
    let mut faults = report.faults.iter();
    let is_sound = faults.all(|fault| fault.place.starts_with("keys/"));
    let class = Class::of(is_sound, report.losses.len());
    (report, class)
}

/// Checks that what exports, proves and looks for receipts comes to the verdict of verification with
/// the root key, and gives out as many entries as that counts. Returns the verdict.
///
/// A key in `keys/` that is not the newest is a fault for verification alone: readers sign nothing.
fn check_readers(context: &str, places: &LogLocation) -> Class {
    let (report, class) = verified(places);
    let is_default = |name: &str| name == "default";
    let mut streams = report.streams.iter();
    // Each frame here has one entry.
    let counted = streams.find(|stream| is_default(&stream.name));
    let counted = counted.map(|stream| stream.frames + stream.unpublished_frames);
    let (reader, stream) = (Reader::open_at(places, &root()), StreamName::default());
    let read = reader.as_ref().ok().and_then(entries);
    let losses = reader.as_ref().map_or(0, |reader| reader.losses().count());
    let found = Class::of(read.is_some(), losses);
    assert_eq!(found, class, "{context}: {:?}", report.faults);
    let proved = reader
        .as_ref()
        .ok()
        .map(|reader| reader.prove(&stream, 0, None));
    match proved {
        Some(Ok(_)) => assert_ne!(class, Class::Damaged, "{context}"),
        Some(Err(ProveError::KeyMoved)) => assert!(!report.faults.is_empty(), "{context}"),
        Some(Err(error)) => assert_eq!(found, Class::Damaged, "{context}: {error:?}"),
        None => {}
    }
    if let Some(read) = read {
        assert_eq!(Some(read), counted, "{context}");
        let leaves = StoredLeaves::open(places).unwrap();
        for entry in 0..read + 2 {
            let leaf = leaves.of_entry(&stream, entry).unwrap();
            assert_eq!(leaf.is_some(), entry < read, "{context}, entry {entry}");
        }
    }
    class
}

/// The files of a log that a copy of it may stand in for.
const PARTS: [&str; 7] = [
    "log/durable",
    SEGMENTS,
    "log/streams/journal/segments",
    "log/streams/heads/segments",
    "second/default",
    "second/journal",
    "second/heads",
];

/// Puts the file or the files of the folder `part` of `copy` in the place of those of `image`.
fn put(image: &Memory, copy: &Memory, part: &str) {
    let mut paths = vec![part.to_owned()];
    for name in copy.list(part).unwrap_or_default() {
        paths.push(format!("{part}/{name}"));
    }
    for path in paths {
        if let Ok(content) = copy.read(&path, u64::MAX) {
            image.replace(&path, &content).unwrap();
        }
    }
}

/// Readers that believed the second copy of the journal's head left entries out in silence. No
/// reader is content where verification is not, or gives out fewer entries than that counts.
#[test]
fn no_reader_is_content_with_less_than_verification_counts() {
    let (damaged, whole) = damaged();
    let (mut jobs, mut copies) = (Vec::new(), Vec::new());
    for (context, image) in moments(&damaged, accept) {
        let left = World::of(image.clone_live()).without_copies().memory;
        if context.contains("Replace log/streams/journal/checkpoint") {
            copies.push((context.clone(), image.clone_live()));
        }
        jobs.push((format!("{context}, without second copies"), left));
        jobs.push((context, image));
    }
    for (path, content) in &whole {
        damaged.replace(path, content).unwrap();
    }
    let opened = moments(&base(), |places| live(places, 9));
    copies.extend(opened.into_iter().rev().step_by(24));
    for (of, copy) in &copies {
        for mask in 1..1_u32 << PARTS.len() {
            let image = damaged.clone_live();
            let taken = (0..).zip(PARTS).filter(|(bit, _)| mask >> bit & 1 == 1);
            let taken: Vec<_> = taken.map(|(_, part)| part).collect();
            for part in &taken {
                put(&image, copy, part);
            }
            jobs.push((format!("{taken:?} of a copy at {of}"), image));
        }
    }
    let found = Mutex::new(BTreeMap::new());
    for_each(&jobs, |(context, image)| {
        let class = check_readers(context, &World::of(image.clone_live()).places());
        *found.lock().unwrap().entry(class).or_insert(0) += 1;
    });
    let found = found.into_inner().unwrap();
    println!("{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
}

/// An opening that accepted a loss was killed, and the lost segment was put back. Verification called
/// the log intact, and the next opening set the entries aside without a word.
#[test]
fn entries_that_are_there_again_stay_where_verification_finds_no_fault() {
    let (damaged, whole) = damaged();
    let (mut kept, mut refused) = (0, 0);
    for (context, image) in moments(&damaged, accept) {
        for (path, content) in &whole {
            image.replace(path, content).unwrap();
        }
        let places = World::of(image).places();
        let (report, class) = verified(&places);
        let before = Reader::open_at(&places, &root()).ok();
        let before = before.as_ref().and_then(entries);
        assert_eq!(before.is_none(), class == Class::Damaged, "{context}");
        match class {
            Class::Intact => {
                open(&places).unwrap().close().unwrap();
                let after = entries(&Reader::open_at(&places, &root()).unwrap());
                assert_eq!(before, after, "{context}");
                kept += 1;
            }
            // Between second copy and checkpoint of the journal, an opening that accepted nothing set
            // them aside.
            Class::Damaged => {
                let said = open(&places).unwrap_err().to_string();
                assert!(said.contains("frames are there again"), "{context}: {said}");
                let mut faults = report.faults.iter();
                let words = "an opening that was broken off accepts the loss of stream default";
                let is_said = faults.any(|fault| fault.detail.contains(words));
                assert!(is_said, "{context}: {:?}", report.faults);
                refused += 1;
            }
            Class::Accepted => {}
        }
    }
    assert!(kept > 0 && refused > 0, "{kept} kept, {refused} refused");
}

/// A log that has lost the keys of entries with receipts which no checkpoint covered.
fn without_keys() -> Memory {
    let world = World::of(base());
    let log = open(&world.places()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for id in 1..3 {
        let ticket = append(&mut appender, id).unwrap();
        appender.wait(ticket).unwrap();
    }
    let image = world.memory.clone_live();
    drop(appender);
    log.close().unwrap();
    let slots = image.open("log/subjects/slots", false).unwrap();
    slots.set_length(SLOT_BYTES.try_into().unwrap()).unwrap();
    image
}

/// The number of losses that verification without a key lists.
fn losses_without_a_key(places: &LogLocation) -> usize {
    let report = verify_at(places, &VerifyOptions::default()).unwrap();
    report.losses.len()
}

/// The verdict of verification on a log without keys. Readers refuse it until the loss is accepted,
/// and leave the entries out from then on.
fn check_closed(context: &str, places: &LogLocation) -> Class {
    let (report, class) = verified(places);
    let reader = Reader::open_at(places, &root()).unwrap();
    assert_eq!(report.losses.len(), reader.losses().count(), "{context}");
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()));
    assert_eq!(
        read.is_ok(),
        class == Class::Accepted,
        "{context}: {read:?}"
    );
    class
}

/// An opening that accepted a loss was killed when only the second copy of the journal's head
/// covered the loss. `verify` ended with status 4 and `export` with 3, and without the second copy
/// both with 3. A loss is missed by all readers until the checkpoint covers it.
#[test]
fn all_readers_hear_of_an_accepted_loss_at_one_moment() {
    type Check = fn(&str, &LogLocation) -> Class;
    let logs: [(Memory, Check); 2] = [(damaged().0, check_readers), (without_keys(), check_closed)];
    for (log, check) in logs {
        let (mut classes, mut losses) = (Vec::new(), Vec::new());
        for (context, image) in moments(&log, accept) {
            let world = World::of(image);
            let places = world.places();
            let alone = world.without_copies().places();
            let class = check(&context, &places);
            let context = format!("{context}, without second copies");
            assert_eq!(check(&context, &alone), class, "{context}");
            let found = losses_without_a_key(&places);
            assert_eq!(losses_without_a_key(&alone), found, "{context}");
            classes.push(class);
            losses.push(found);
        }
        assert!(classes.is_sorted_by(|a, b| a >= b), "{classes:?}");
        assert!(losses.is_sorted(), "{losses:?}");
        let ends = (classes.first(), classes.last());
        assert_eq!(ends, (Some(&Class::Damaged), Some(&Class::Accepted)));
    }
}
