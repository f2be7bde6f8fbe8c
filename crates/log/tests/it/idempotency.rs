//! Idempotency keys: an entry that is appended again is not written again, and gets the receipt of
//! the first one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::{Digest, Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    AppendError, Appender, Log, LogError, Options, Proofs, Receipt, StreamConfig, StreamName,
};

pub(crate) fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

pub(crate) fn key(number: u64) -> Digest {
    idempotency_digest(&format!("request {number}")).unwrap()
}

pub(crate) fn entry<'a>(key: Option<&'a Digest>, payload: &'a [u8]) -> Entry<'a> {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    Entry {
        payload,
        subjects: Subjects::joined("alice"),
        actor: "billing",
        idempotency: key,
        ..Entry::new(time, "read", b"user:7")
    }
}

pub(crate) fn new_log(folder: &Path, config: StreamConfig) -> PathBuf {
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

pub(crate) fn open(path: &Path) -> Log {
    Log::open(path, &root(), Options::default()).unwrap()
}

pub(crate) fn appender(log: &Log) -> Appender {
    log.appender(&StreamName::default()).unwrap()
}

pub(crate) fn erasable() -> StreamConfig {
    StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    }
}

/// The payloads of the entries that can be read, in order, of a log that is intact.
pub(crate) fn payloads(path: &Path) -> Vec<String> {
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

pub(crate) fn said(receipt: Receipt) -> (u64, bool) {
    (receipt.index, receipt.is_repeat)
}

/// Appends the entry `payload` with key `number`; returns its index, and whether it was there.
pub(crate) fn append(log: &Log, number: u64, payload: &[u8]) -> Result<(u64, bool), AppendError> {
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
