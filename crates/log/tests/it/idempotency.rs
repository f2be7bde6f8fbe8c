//! Idempotency keys: an entry that is appended again is not written again, and gets the receipt of
//! the first one.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::{Digest, Entry, Subjects, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Call, Fault, FaultPlan, Faulty, Memory};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    AppendError, Appender, Durability, Log, LogError, LogLocation, Options, Proofs, Receipt,
    Repair, StreamConfig, StreamName,
};

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn key(number: u64) -> Digest {
    idempotency_digest(&format!("request {number}")).unwrap()
}

fn entry<'a>(key: Option<&'a Digest>, payload: &'a [u8]) -> Entry<'a> {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    Entry {
        payload,
        subjects: Subjects::joined("alice"),
        actor: "billing",
        idempotency: key,
        ..Entry::new(time, "read", b"user:7")
    }
}

fn new_log(folder: &Path, config: StreamConfig) -> PathBuf {
    let path = folder.join("log");
    Log::create(
        &path,
        "example.com/log",
        &root(),
        config,
        Options::default(),
    )
    .unwrap()
    .close()
    .unwrap();
    path
}

fn open(path: &Path) -> Log {
    Log::open(path, &root(), Options::default()).unwrap()
}

fn appender(log: &Log) -> Appender {
    log.appender(&StreamName::default()).unwrap()
}

fn erasable() -> StreamConfig {
    StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    }
}

/// The payloads of the entries that can be read, in order, of a log that is intact.
fn payloads(path: &Path) -> Vec<String> {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    assert_eq!(verify(path, &options).unwrap().faults, []);
    let mut all = Vec::new();
    let reader = Reader::open(path, &root()).unwrap();
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            all.push(String::from_utf8(found.entry.payload.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
    all
}

fn said(receipt: Receipt) -> (u64, bool) {
    (receipt.index, receipt.is_repeat)
}

/// Appends the entry `payload` with key `number`; returns its index, and whether it was there.
fn append(log: &Log, number: u64, payload: &[u8]) -> Result<(u64, bool), AppendError> {
    let key = key(number);
    let receipt = appender(log).append_durable(&entry(Some(&key), payload));
    receipt.map(said)
}

#[test]
fn the_same_key_twice_in_one_batch_is_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let log = open(&path);
    let mut appender = appender(&log);
    let (one, two) = (key(1), key(2));
    let batch = [
        entry(Some(&one), b"one"),
        entry(None, b"plain"),
        entry(Some(&one), b"one"),
        entry(Some(&two), b"two"),
        entry(None, b"plain"),
        entry(Some(&two), b"two"),
    ];
    let mut tickets = Vec::new();
    for entry in &batch {
        tickets.push(appender.append(entry).unwrap());
    }
    let last = appender.append_batch(&batch).unwrap().unwrap();
    assert!(appender.is_repeat(last) && !appender.is_repeat(tickets[0]));
    let receipts = tickets.iter().map(|ticket| appender.wait(*ticket).unwrap());
    let expected = [
        (0, false),
        (1, false),
        (0, true),
        (2, false),
        (3, false),
        (2, true),
    ];
    assert_eq!(receipts.map(said).collect::<Vec<_>>(), expected);
    assert_eq!(said(appender.wait(last).unwrap()), (2, true));
    log.close().unwrap();
    let expected = ["one", "plain", "two", "plain", "plain", "plain"];
    assert_eq!(payloads(&path), expected);
}

#[test]
fn a_repeat_is_found_across_batches_and_openings_in_every_kind_of_stream() {
    for proofs in Proofs::ALL {
        for erasable in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let config = StreamConfig {
                proofs,
                erasable,
                ..StreamConfig::default()
            };
            let path = new_log(folder.path(), config);
            for opening in 0..3 {
                let log = open(&path);
                for number in 0..20 {
                    let payload = format!("entry {number}");
                    let appended = append(&log, number, payload.as_bytes()).unwrap();
                    assert_eq!(appended, (number, opening > 0), "{config:?}");
                }
                log.close().unwrap();
            }
            assert_eq!(payloads(&path).len(), 20, "{config:?}");
        }
    }
}

/// A line of input without a time is the same line later; a time that the caller gave is part of
/// the entry.
#[test]
fn a_time_counts_where_the_caller_gave_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let (one, two) = (key(1), key(2));
    let later = Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap();
    for opening in 0..2 {
        let log = open(&path);
        let mut appender = appender(&log);
        for attempt in 0..2 {
            let ticket = appender.append_now(&entry(Some(&one), b"now")).unwrap();
            let is_repeat = opening + attempt > 0;
            assert_eq!(said(appender.wait(ticket).unwrap()), (0, is_repeat));
            let ticket = appender.append(&entry(Some(&two), b"then")).unwrap();
            assert_eq!(said(appender.wait(ticket).unwrap()), (1, is_repeat));
        }
        let moved = Entry {
            time: later,
            ..entry(Some(&two), b"then")
        };
        for other in [
            appender.append(&moved),
            appender.append_now(&entry(Some(&two), b"then")),
            appender.append(&entry(Some(&one), b"now")),
        ] {
            assert!(
                matches!(other, Err(AppendError::KeyUsed { .. })),
                "{other:?}"
            );
        }
        log.close().unwrap();
    }
    assert_eq!(payloads(&path), ["now", "then"]);
}

/// The error goes where more people look, so it contains nothing of the entry.
#[test]
fn a_key_of_an_entry_that_says_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), erasable());
    let key = key(1);
    for opening in 0..2 {
        let log = open(&path);
        assert_eq!(append(&log, 1, b"first").unwrap(), (0, opening > 0));
        let mut appender = appender(&log);
        let first = entry(Some(&key), b"first");
        for other in [
            entry(Some(&key), b"second"),
            Entry {
                actor: "eve",
                ..first
            },
            Entry {
                rule: "other",
                ..first
            },
            Entry {
                subjects: Subjects::joined("bob"),
                ..first
            },
            Entry {
                action: "write",
                ..first
            },
        ] {
            let refused = appender.append_batch(&[other]).unwrap_err();
            let shown = format!("{:?} {}", refused.1, refused.1);
            assert!(
                matches!(refused, (0, AppendError::KeyUsed { index: Some(0) })),
                "{shown}"
            );
            assert!(
                !shown.contains("first") && !shown.contains("second"),
                "{shown}"
            );
        }
        // A caller authenticated under another name appends another entry.
        appender.set_submitter("gateway").unwrap();
        let refused = appender.append(&first).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the idempotency key stands for entry 0 of the stream, which says something else"
        );
        log.close().unwrap();
    }
    assert_eq!(payloads(&path), ["first"]);
}

#[test]
fn one_key_more_than_is_remembered_makes_the_oldest_new_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let options = || Options {
        idempotency_keys_max: 3,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options()).unwrap();
    for number in 0..3 {
        assert_eq!(append(&log, number, b"x").unwrap(), (number, false));
    }
    assert_eq!(append(&log, 0, b"x").unwrap(), (0, true));
    // Entries without a key push nothing out.
    appender(&log)
        .append_durable(&entry(None, b"plain"))
        .unwrap();
    assert_eq!(append(&log, 3, b"x").unwrap(), (4, false));
    assert_eq!(append(&log, 1, b"x").unwrap(), (1, true));
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    assert_eq!(append(&log, 1, b"x").unwrap(), (1, true));
    assert_eq!(append(&log, 0, b"x").unwrap(), (5, false));
    assert_eq!(append(&log, 1, b"x").unwrap(), (6, false));
    log.close().unwrap();
    let refused = Options {
        idempotency_keys_max: usize::MAX,
        ..Options::default()
    };
    let refused = Log::open(&path, &root(), refused).unwrap_err();
    assert!(
        matches!(
            refused,
            LogError::Option {
                name: "idempotency_keys_max",
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn no_more_is_read_after_an_opening_than_is_asked_for_and_without_keys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let log = open(&path);
    for number in 0..4 {
        append(&log, number, &[b'x'; 1000]).unwrap();
    }
    log.close().unwrap();
    let options = Options {
        idempotency_bytes_max: 1,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    // One frame is always read, even one larger than the limit.
    assert_eq!(append(&log, 3, &[b'x'; 1000]).unwrap(), (3, true));
    assert_eq!(append(&log, 2, &[b'x'; 1000]).unwrap(), (4, false));
    log.close().unwrap();
    let options = Options {
        idempotency_keys_max: 0,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    assert_eq!(append(&log, 2, &[b'x'; 1000]).unwrap(), (5, false));
    log.close().unwrap();
}

/// All that wait for a key get the one entry, from any writer.
#[test]
fn eight_threads_with_one_key_write_one_entry() {
    const THREADS: usize = 8;
    const KEYS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), erasable());
    for opening in 0..2 {
        let log = open(&path);
        let start = Barrier::new(THREADS);
        let receipts: Vec<Vec<Receipt>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut appender = appender(&log);
                        start.wait();
                        let mut tickets = Vec::new();
                        for number in 0..KEYS {
                            let (key, payload) = (key(number), number.to_string());
                            let entry = entry(Some(&key), payload.as_bytes());
                            tickets.push(appender.append(&entry).unwrap());
                        }
                        let receipt = |ticket| appender.wait(ticket).unwrap();
                        tickets.into_iter().map(receipt).collect()
                    })
                })
                .collect();
            let receipt = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap();
            threads.into_iter().map(receipt).collect()
        });
        for number in 0..usize::try_from(KEYS).unwrap() {
            let of_key: Vec<_> = receipts.iter().map(|all| said(all[number])).collect();
            assert!(
                of_key.iter().all(|(index, _)| *index == of_key[0].0),
                "{of_key:?}"
            );
            let written = of_key.iter().filter(|(_, is_repeat)| !is_repeat).count();
            assert_eq!(written, usize::from(opening == 0), "{of_key:?}");
        }
        log.close().unwrap();
    }
    let mut found: Vec<u64> = payloads(&path)
        .iter()
        .map(|it| it.parse().unwrap())
        .collect();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..KEYS));
}

/// Only the waiter for the second entry pushes the first one.
#[test]
fn a_repeat_of_an_entry_under_way_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let options = Options {
        batch_age_max: Duration::from_hours(1),
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    let (one, two) = (key(1), key(2));
    let (mut first, mut second) = (appender(&log), appender(&log));
    let ticket = first.append(&entry(Some(&one), b"one")).unwrap();
    let own = second.append(&entry(Some(&two), b"two")).unwrap();
    let repeated = second.append(&entry(Some(&one), b"one")).unwrap();
    let behind = second.append(&entry(None, b"plain")).unwrap();
    assert!(second.receipt(repeated).unwrap().is_none() && second.is_repeat(repeated));
    let other = second.append(&entry(Some(&one), b"other"));
    assert!(matches!(other, Err(AppendError::KeyUsed { index: None })));
    let repeated = second.wait(repeated).unwrap();
    // The entries before it are durable too.
    assert!(second.receipt(own).unwrap().is_some());
    assert_eq!(
        said(repeated),
        (first.receipt(ticket).unwrap().unwrap().index, true)
    );
    assert!(!second.wait(behind).unwrap().is_repeat);
    second.flush().unwrap();
    log.close().unwrap();
    assert_eq!(payloads(&path).len(), 3);
    let closed = appender_of_closed(&mut second, &one);
    assert!(matches!(closed, AppendError::Closed));
}

fn appender_of_closed(appender: &mut Appender, key: &Digest) -> AppendError {
    appender.append(&entry(Some(key), b"one")).unwrap_err()
}

/// The key may be made of the person's name: it goes with the entry, whether the log is opened
/// again or not.
#[test]
fn the_key_of_an_erased_person_is_forgotten_and_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), erasable());
    let (one, two, three) = (key(1), key(2), key(3));
    let about = |key, name| Entry {
        subjects: Subjects::joined(name),
        ..entry(Some(key), b"x")
    };
    let append = |log: &Log, key, name| {
        let receipt = appender(log).append_durable(&about(key, name));
        said(receipt.unwrap())
    };
    let log = open(&path);
    assert_eq!(append(&log, &one, "alice"), (0, false));
    assert_eq!(append(&log, &two, "bob"), (1, false));
    assert_eq!(append(&log, &three, "carol"), (2, false));
    log.erase("alice").unwrap().unwrap();
    assert_eq!(append(&log, &two, "bob"), (1, true));
    assert_eq!(append(&log, &one, "alice"), (3, false));
    assert_eq!(append(&log, &one, "alice"), (3, true));
    log.close().unwrap();
    let log = open(&path);
    // Erased before the keys are read.
    log.erase("carol").unwrap().unwrap();
    assert_eq!(append(&log, &one, "alice"), (3, true));
    assert_eq!(append(&log, &three, "carol"), (4, false));
    log.close().unwrap();
    let log = open(&path);
    assert_eq!(append(&log, &two, "bob"), (1, true));
    assert_eq!(append(&log, &three, "carol"), (4, true));
    log.close().unwrap();
    assert_eq!(payloads(&path).len(), 5);
}

/// Frames that the log did not write hold unknown keys: an entry might be written twice.
#[test]
fn keys_that_cannot_be_read_are_not_taken_for_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let log = Log::open(
        &path,
        &root(),
        Options {
            durability: Durability::Strict,
            ..Options::default()
        },
    )
    .unwrap();
    for number in 0..4 {
        append(&log, number, &[b'x'; 100]).unwrap();
    }
    log.close().unwrap();
    let folder = path.join("streams/default/segments");
    let segment = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&segment).unwrap();
    // Within the tag of the second frame's section, before the root that ends the frame.
    let middle = bytes.len() / 2 - 48;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let log = open(&path);
    let refused = append(&log, 0, &[b'x'; 100]).unwrap_err();
    assert!(matches!(refused, AppendError::KeysUnread(_)), "{refused:?}");
    let cause = refused.source().unwrap().to_string();
    assert!(cause.contains("stream default, frame "), "{cause}");
    let plain = appender(&log)
        .append_durable(&entry(None, b"plain"))
        .unwrap();
    assert_eq!(said(plain), (4, false));
    log.close().unwrap();
}

/// A disk that does not answer once is no reason to write an entry twice, nor to stop the log.
#[test]
fn a_fault_while_keys_are_read_refuses_the_entry_and_the_next_attempt_reads_again() {
    let (files, heads) = (Memory::new(), Memory::new());
    let open = |faulty: &Arc<Faulty<Memory>>, heads: &Memory| {
        let clock = Arc::new(SystemClock::new());
        let places = LogLocation::on(Arc::clone(faulty) as _, Arc::new(heads.clone()), "the log");
        Log::open_at(&places, &root(), Options::default(), clock).unwrap()
    };
    let never = Arc::new(Faulty::new(files.clone(), FaultPlan::none()));
    let places = LogLocation::on(Arc::clone(&never) as _, Arc::new(heads.clone()), "the log");
    let clock = Arc::new(SystemClock::new());
    let (config, options) = (erasable(), Options::default());
    Log::create_at(&places, "example.com/log", &root(), config, options, clock)
        .unwrap()
        .close()
        .unwrap();
    let log = open(&never, &heads);
    assert_eq!(append(&log, 1, b"x").unwrap(), (0, false));
    log.close().unwrap();
    let mut refused = 0;
    for number in 0..1000 {
        let (files, heads) = (files.clone_live(), heads.clone_live());
        let faulty = Arc::new(Faulty::new(files, FaultPlan::none()));
        let log = open(&faulty, &heads);
        let calls = [Call::OpenRead, Call::Read, Call::ReadAt];
        faulty.arm(FaultPlan::nth(number, Fault::INPUT_OUTPUT).of(&calls));
        let appended = append(&log, 1, b"x");
        let faults = faulty.faults();
        faulty.arm(FaultPlan::none());
        match appended {
            Err(AppendError::KeysUnread(_)) => refused += 1,
            appended => assert_eq!(appended.unwrap(), (0, true), "fault {number}"),
        }
        assert_eq!(append(&log, 1, b"x").unwrap(), (0, true), "fault {number}");
        log.close().unwrap();
        if faults == 0 {
            break;
        }
    }
    assert!(refused > 5 && refused < 900, "{refused}");
}

/// A log of 300 keyed entries in frames of their own, in segments of as many bytes at most.
fn frames(folder: &Path, segment_bytes_max: u64) -> PathBuf {
    let path = new_log(folder, StreamConfig::default());
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        segment_bytes_max,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    let mut appender = appender(&log);
    for number in 0..300 {
        let key = key(number);
        appender.append_durable(&entry(Some(&key), b"x")).unwrap();
    }
    log.close().unwrap();
    path
}

/// Puts record 119 of the first bundle in the place of record 120, which is as long.
fn exchange(path: &Path) {
    let bundle = path.join("streams/default/tile/entries/000");
    let mut bytes = fs::read(&bundle).unwrap();
    // The length of a record, and the record.
    let size = 2 + 104;
    bytes.copy_within(119 * size..120 * size, 120 * size);
    fs::write(&bundle, bytes).unwrap();
}

/// One record of an older bundle in the place of its neighbour hid the key of its frame, and the
/// entry was written twice. The record is now compared with the tree. Where an opening reads past
/// it, it rebuilds the tree from the frames.
#[test]
fn an_exchanged_record_hides_no_key_from_an_opening_that_meets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = frames(folder.path(), 64 << 20);
    exchange(&path);
    let log = open(&path);
    let said = log.repairs().iter().map(Repair::line);
    assert_eq!(said.collect::<Vec<_>>(), ["tree default 0 300"]);
    assert_eq!(append(&log, 120, b"x").unwrap(), (120, true));
    assert_eq!(append(&log, 119, b"x").unwrap(), (119, true));
    assert_eq!(append(&log, 300, b"x").unwrap(), (300, false));
    log.close().unwrap();
    assert_eq!(payloads(&path).len(), 301);
}

/// If no opening reads past such a record, the keys in the frame are unknown. Entries with keys are
/// refused, and entries without go on. A damaged tile confirms no record either.
#[test]
fn an_exchanged_record_or_a_damaged_tile_refuses_entries_with_keys() {
    let damages: [fn(&Path); 2] = [exchange, |path| {
        let tile = path.join("streams/default/tile/0/000");
        let mut bytes = fs::read(&tile).unwrap();
        bytes[120 * 32] ^= 1;
        fs::write(tile, bytes).unwrap();
    }];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = frames(folder.path(), 4096);
        damage(&path);
        let log = open(&path);
        assert_eq!(log.repairs(), &[]);
        for number in [120, 119, 300] {
            let refused = append(&log, number, b"x").unwrap_err();
            assert!(matches!(refused, AppendError::KeysUnread(_)), "{refused:?}");
            let cause = refused.source().unwrap().to_string();
            assert!(cause.contains("streams/default, bundle 0"), "{cause}");
        }
        let plain = appender(&log).append_durable(&entry(None, b"plain"));
        assert_eq!(plain.map(said).unwrap(), (300, false));
        log.close().unwrap();
    }
}
