//! The fields that the log adds to an entry: time taken, submitter, claimed fields.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::{Claimed, Digest, Entry, Subjects, Timestamp};
use probity_log::clock::{Clock as _, ManualClock};
use probity_log::reader::{Filter, Found, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, LogLocation, Options, Proofs, StreamConfig, StreamName};

const CLAIMED: i64 = 1_700_000_000_000_000_000;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// The new fields of an entry, as they are read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    time: i64,
    taken: Option<i64>,
    submitter: String,
    claimed: Claimed,
    idempotency: Option<Digest>,
    policy: Option<Digest>,
    rule: String,
    erased: bool,
}

fn read(path: &Path, stream: &StreamName) -> Vec<Read> {
    let filter = Filter {
        stream: Some(stream.clone()),
        ..Filter::default()
    };
    let mut all = Vec::new();
    let reader = Reader::open(path, &root()).unwrap();
    let mut visit = |found: &Found<'_>| -> Result<(), LogError> {
        let entry = &found.entry;
        all.push(Read {
            time: entry.time.nanoseconds(),
            taken: entry.taken.map(Timestamp::nanoseconds),
            submitter: entry.submitter.to_owned(),
            claimed: entry.claimed,
            idempotency: entry.idempotency.copied(),
            policy: entry.policy.copied(),
            rule: entry.rule.to_owned(),
            erased: found.erased,
        });
        Ok(())
    };
    reader.read(&filter, &mut visit).unwrap();
    all
}

/// Nanoseconds between appends: below 1 ms, entries with a time of their own share a time taken.
const STEP: i64 = 1_000_005;

fn append(log: &Log, clock: &ManualClock, stream: &StreamName, digest: &Digest) {
    let time = |nanoseconds| Timestamp::from_nanoseconds(nanoseconds).unwrap();
    let entry = Entry {
        subjects: Subjects::joined("alice"),
        actor: "svc",
        purpose: "billing",
        taken: Some(time(1)),
        submitter: "forged",
        idempotency: Some(digest),
        policy: Some(&[9; 32]),
        rule: "orders",
        ..Entry::new(time(CLAIMED), "read", b"k")
    };
    let mut appender = log.appender(stream).unwrap();
    appender.append(&entry).unwrap();
    clock.advance(Duration::from_nanos(STEP.unsigned_abs()));
    appender.set_submitter("svc").unwrap();
    appender.set_claimed(Claimed {
        actor: true,
        purpose: false,
    });
    appender.append_batch(&[entry; 3]).unwrap();
    appender.set_submitter("gateway").unwrap();
    appender.append(&entry).unwrap();
    appender.flush().unwrap();
}

#[test]
fn each_entry_says_when_and_from_whom_the_log_took_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let places = LogLocation::new(&path, None);
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_hours(500_000));
    let config = StreamConfig::default();
    // Several entries use the same key here.
    let options = Options {
        idempotency_keys_max: 0,
        ..Options::default()
    };
    let log = Log::create_at(
        &places,
        "x",
        &root(),
        config,
        options,
        Arc::<ManualClock>::clone(&clock),
    )
    .unwrap();
    let digest = idempotency_digest("request 7").unwrap();
    let mut streams = Vec::new();
    for (proofs, erasable) in Proofs::ALL.into_iter().zip([true, false, true]) {
        let stream = StreamName::new(&format!("{}-{erasable}", proofs.as_str())).unwrap();
        let config = StreamConfig {
            proofs,
            erasable,
            ..StreamConfig::default()
        };
        log.create_stream(&stream, config).unwrap();
        let taken = clock.now().nanoseconds();
        append(&log, &clock, &stream, &digest);
        streams.push((stream, taken, erasable));
    }
    log.close().unwrap();
    let report = verify(
        &path,
        &VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        },
    );
    assert!(report.unwrap().faults.is_empty());
    for (stream, taken, _) in &streams {
        check(&read(&path, stream), *taken, Some(digest));
    }
    // Erasure takes the digest of the caller's key too, which may be made of the person's name.
    let clock = Arc::<ManualClock>::clone(&clock);
    let log = Log::open_at(&places, &root(), Options::default(), clock).unwrap();
    log.erase("alice").unwrap().unwrap();
    log.close().unwrap();
    for (stream, taken, erasable) in &streams {
        let all = read(&path, stream);
        assert!(all.iter().all(|read| read.erased == *erasable));
        check(&all, *taken, (!erasable).then_some(digest));
    }
}

fn check(all: &[Read], taken: i64, idempotency: Option<Digest>) {
    assert_eq!(all.len(), 5);
    for (index, read) in all.iter().enumerate() {
        let later = if index == 0 { 0 } else { STEP };
        assert_eq!((read.time, read.taken), (CLAIMED, Some(taken + later)));
        assert_eq!(read.submitter, ["", "svc", "svc", "svc", "gateway"][index]);
        let fields: Vec<&str> = read.claimed.fields().collect();
        let expected: [&[&str]; 5] = [&["actor", "purpose"], &[], &[], &[], &["actor"]];
        assert_eq!(fields, expected[index], "entry {index}");
        assert_eq!(read.idempotency, idempotency);
        assert_eq!((read.policy, read.rule.as_str()), (Some([9; 32]), "orders"));
    }
}

/// An appender never keeps a submitter that was not set, and an entry with empty fields claims
/// nothing.
#[test]
fn a_name_that_is_none_leaves_the_submitter_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (config, options) = (StreamConfig::default(), Options::default());
    let log = Log::create(&path, "x", &root(), config, options).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.set_submitter("gateway").unwrap();
    appender.set_submitter("a\nb").unwrap_err();
    let time = Timestamp::from_nanoseconds(CLAIMED).unwrap();
    appender
        .append_durable(&Entry::new(time, "read", b"k"))
        .unwrap();
    log.close().unwrap();
    let all = read(&path, &StreamName::default());
    assert_eq!(all[0].submitter, "gateway");
    assert!(all[0].taken > Some(CLAIMED) && all[0].claimed == Claimed::NONE);
}
