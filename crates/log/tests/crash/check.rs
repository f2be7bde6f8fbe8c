//! The checks of a storage after a crash or a fault: nothing promised is lost, and no false alarm
//! is raised.

use std::collections::BTreeMap;
use std::sync::Arc;

use probity_format::Version;
use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify_at};
use probity_log::{Appender, Durability, Log, LogError, LogLocation, Options, Repair, StreamName};

use crate::ledger::{Facts, Promise};
use crate::workload::{SUBJECTS, append, options, payload, streams, subject};
use crate::world::{World, root};

/// Number of the entries that the check itself appends.
const OWN: u64 = 1 << 40;

/// Checks the state that a new process finds in `image`, which is later than the facts; `promise`
/// selects the receipts that bind.
///
/// Returns the reported repairs.
pub(crate) fn check(image: Memory, facts: &Facts, promise: Promise) -> Vec<Repair> {
    let world = World::of(image);
    let places = world.places();
    // Before anybody repairs anything.
    let created = match verify_at(&places, &VerifyOptions::default()) {
        // Until its journal has a first frame, a log looks like one that was emptied.
        Ok(report) if !facts.created && is_unfinished(&report) => false,
        Ok(report) => {
            assert_eq!(report.faults, [], "false alarm before recovery");
            true
        }
        Err(LogError::NotALog { .. }) => false,
        Err(error) => panic!("not verified before recovery: {error:?}"),
    };
    assert!(created || !facts.created, "the log is gone");
    if created {
        verify_alone(&world);
        verify_without_successor(&world);
    }
    let log = match open(&places) {
        Ok(log) => log,
        Err(LogError::NotALog { .. } | LogError::Unfinished { .. }) if !facts.created => {
            let [(_, config), ..] = streams();
            let (options, clock) = (options(Durability::Group), Arc::new(SystemClock::new()));
            Log::create_at(&places, "example.com/new", &root(), config, options, clock)
                .unwrap()
                .close()
                .unwrap();
            open(&places).unwrap()
        }
        Err(error) => panic!("not opened: {error:?}"),
    };
    let repairs = log.repairs().to_vec();
    let before = entries(&places);
    check_promises(&before, facts, promise);
    if promise == Promise::Written {
        // The frames found are durable now, or the next loss of power would take signed ones.
        let lost = World::of(world.memory.crash_losing_all_unsynced());
        let log = open(&lost.places()).unwrap();
        assert_eq!(
            entries(&lost.places()),
            before,
            "after recovery and a loss of power"
        );
        log.close().unwrap();
    }
    let mut expected = before;
    for (name, _) in log.streams() {
        if name.is_built_in(Version::NEWEST) {
            continue;
        }
        let ids = expected.entry(name.clone()).or_default();
        let mut appender = log.appender(&name).unwrap();
        append_again(&mut appender, &name, ids, facts);
        // One of each subject, so that every key that was found is used.
        for id in OWN..OWN + SUBJECTS {
            let index = u64::try_from(ids.len()).unwrap();
            let ticket = append(&mut appender, id).unwrap();
            ids.push(id);
            if id == OWN + SUBJECTS - 1 {
                assert_eq!(appender.wait(ticket).unwrap().index, index, "{name}");
            }
        }
    }
    log.close().unwrap();
    // Closing leaves nothing that a loss of power takes.
    let lost = World::of(world.memory.crash_losing_all_unsynced());
    let places = lost.places();
    verify_keyed(&places, "after recovery");
    assert_eq!(entries(&places), expected);
    check_journal(&places, &repairs);
    let again = open(&places).unwrap();
    assert_eq!(again.repairs(), &[], "after a clean close");
    again.close().unwrap();
    repairs
}

/// Appends once more the entries from before the crash: those that are there are not written again,
/// and no other is taken for them.
fn append_again(appender: &mut Appender, name: &StreamName, ids: &mut Vec<u64>, facts: &Facts) {
    let of_stream = facts.attempted.iter().filter(|(_, stream)| *stream == name);
    for (id, _) in of_stream {
        let ticket = append(appender, *id).unwrap();
        let known = ids.iter().position(|known| known == id);
        assert_eq!(
            appender.is_repeat(ticket),
            known.is_some(),
            "{name}, entry {id}"
        );
        if let Some(index) = known {
            let receipt = appender.wait(ticket).unwrap();
            assert_eq!(
                receipt.index,
                u64::try_from(index).unwrap(),
                "{name}, entry {id}"
            );
        } else {
            ids.push(*id);
        }
    }
}

/// Returns whether the only fault is that the journal was not begun.
fn is_unfinished(report: &Report) -> bool {
    let journal = report.streams.first();
    let is_empty = journal.is_none_or(|journal| journal.frames + journal.unpublished_frames == 0);
    let mut faults = report.faults.iter();
    is_empty && faults.all(|it| it.class == FaultClass::Missing && it.stream == "journal")
}

fn open(places: &LogLocation) -> Result<Log, LogError> {
    let clock = Arc::new(SystemClock::new());
    let options = Options {
        idempotency_keys_max: Options::IDEMPOTENCY_KEYS_MAX,
        ..options(Durability::Group)
    };
    Log::open_at(places, &root(), options, clock)
}

/// A reader of the log without its second copies finds no damage either.
fn verify_alone(world: &World) {
    let left = world.without_copies().places();
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let report = verify_at(&left, &options).unwrap();
        assert_eq!(report.faults, [], "without second copies, before recovery");
    }
}

/// A thief takes the new key of an opening away that only a second copy of the journal certifies. Verification with the
/// root key called such a log intact, which nobody could write any more.
fn verify_without_successor(world: &World) {
    let (published, kept) = (
        world.head_size("log/streams/journal/checkpoint"),
        world.head_size("second/journal"),
    );
    let left = world.memory.clone_live();
    if kept <= published || left.remove("log/keys/signing.next").is_err() {
        return;
    }
    let left = World::of(left);
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(&left.places(), &options).unwrap();
    let found = report.faults.iter().map(|it| it.class);
    let found: Vec<FaultClass> = found.collect();
    match open(&left.places()) {
        Ok(log) => log.close().unwrap(),
        Err(_) => assert_eq!(found, [FaultClass::KeyChain], "without the new key"),
    }
}

fn verify_keyed(places: &LogLocation, when: &str) {
    let report = verify_at(
        places,
        &VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        },
    );
    assert_eq!(report.unwrap().faults, [], "{when}");
}

/// The numbers of all entries by stream, in order; each entry must equal the one that was appended
/// under its number.
fn entries(places: &LogLocation) -> BTreeMap<StreamName, Vec<u64>> {
    let reader = Reader::open_at(places, &root()).unwrap();
    let mut found: BTreeMap<StreamName, Vec<u64>> = BTreeMap::new();
    reader
        .read::<LogError>(&Filter::default(), &mut |entry| {
            let (id, _) = entry.entry.payload.split_first_chunk().unwrap();
            let id = u64::from_le_bytes(*id);
            assert_eq!(entry.entry.payload, payload(id));
            assert_eq!(entry.entry.key, format!("key-{id}").as_bytes());
            assert_eq!(entry.entry.subjects.as_joined(), subject(id));
            let ids = found.entry(entry.stream.clone()).or_default();
            assert_eq!(entry.index, u64::try_from(ids.len()).unwrap());
            ids.push(id);
            Ok(())
        })
        .unwrap();
    found
}

/// Every binding receipt is kept, and no entry is there twice, out of order, or without having been
/// appended.
fn check_promises(found: &BTreeMap<StreamName, Vec<u64>>, facts: &Facts, promise: Promise) {
    for receipted in facts.receipts.iter().filter(|r| r.promise >= promise) {
        let ids = found.get(&receipted.stream).map_or(&[][..], Vec::as_slice);
        let at = usize::try_from(receipted.index).unwrap();
        assert_eq!(
            ids.get(at),
            Some(&receipted.id),
            "lost: {receipted:?} of {ids:?}"
        );
    }
    for (stream, ids) in found {
        assert!(ids.is_sorted_by(|a, b| a < b), "{stream}: {ids:?}");
        for id in ids {
            assert_eq!(facts.attempted.get(id), Some(stream), "entry {id}");
        }
    }
}

/// Checks that the journal records the reported repairs.
fn check_journal(places: &LogLocation, repairs: &[Repair]) {
    if repairs.is_empty() {
        return;
    }
    let reader = Reader::open_at(places, &root()).unwrap();
    let filter = Filter {
        stream: Some(StreamName::journal()),
        action: Some("recover".into()),
        ..Filter::default()
    };
    let mut said = String::new();
    reader
        .read::<LogError>(&filter, &mut |entry| {
            said.push_str(std::str::from_utf8(entry.entry.payload).unwrap());
            said.push('\n');
            Ok(())
        })
        .unwrap();
    for repair in repairs {
        assert!(
            said.contains(&repair.line()),
            "not in the journal: {repair:?}; it says {said:?}"
        );
    }
}
