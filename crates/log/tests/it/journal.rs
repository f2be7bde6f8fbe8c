//! The frames that an opening reads: the journal, which stays short, and the heads since the last
//! frame that names all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::reader::Reader;
use probity_log::storage::{FaultPlan, Faulty, Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Log, LogLocation, Options, StreamConfig, StreamName};

/// Longer than any run: heads are published only on request.
const NEVER: Duration = Duration::from_hours(1);
/// The segment of the heads.
const SEGMENT: &str = "streams/heads/segments/00000000000000000000.seg";

/// Publications after which the signing key moves on.
const KEY_PUBLICATIONS: u64 = 100;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options() -> Options {
    Options {
        checkpoint_interval: NEVER,
        key_publications_max: KEY_PUBLICATIONS,
        ..Options::default()
    }
}

/// A log in memory whose calls are counted.
struct Counted {
    storage: Arc<Faulty<Memory>>,
    places: LogLocation,
}

impl Counted {
    fn new() -> Self {
        Self::on(Memory::new(), &Memory::new())
    }

    fn on(log: Memory, heads: &Memory) -> Self {
        let storage = Arc::new(Faulty::new(log, FaultPlan::none()));
        let places = LogLocation::on(
            Arc::clone(&storage) as _,
            Arc::new(heads.clone()),
            "the log",
        );
        Self { storage, places }
    }

    fn create(&self) {
        Log::create_at(
            &self.places,
            "example.com/journal",
            &root(),
            StreamConfig::default(),
            options(),
            Arc::new(SystemClock::new()),
        )
        .unwrap()
        .close()
        .unwrap();
    }

    /// Opens the log, and returns the number of calls as well.
    fn open_counted(&self) -> (Log, u64) {
        let before = self.storage.calls();
        let log = self.open();
        (log, self.storage.calls() - before)
    }

    fn open(&self) -> Log {
        Log::open_at(
            &self.places,
            &root(),
            options(),
            Arc::new(SystemClock::new()),
        )
        .unwrap()
    }

    /// Streams, as a reader finds them, and the calls that took.
    fn streams(&self) -> (Vec<String>, u64) {
        let before = self.storage.calls();
        let reader = Reader::open_at(&self.places, &root()).unwrap();
        let names = reader.streams().map(|(name, _)| name.to_string());
        (names.collect(), self.storage.calls() - before)
    }
}

/// Anchors `count` heads of the default stream.
fn anchor(log: &Log, count: u64) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..count {
        appender
            .append_durable(&Entry::new(time, "write", b"key"))
            .unwrap();
        log.publish().unwrap();
    }
}

fn create_stream(log: &Log, name: &str) {
    let name = StreamName::new(name).unwrap();
    log.create_stream(&name, StreamConfig::default()).unwrap();
}

/// The frames of the stream `heads`.
fn heads_frames(counted: &Counted) -> u64 {
    let report = verify_at(&counted.places, &VerifyOptions::default()).unwrap();
    assert_eq!(report.faults, []);
    let mut streams = report.streams.iter();
    streams
        .find(|stream| stream.name == "heads")
        .unwrap()
        .frames
}

/// Opening read every frame since the last one that certified a key, and with an idle key that was
/// every frame there was.
#[test]
fn opening_reads_no_more_after_ten_thousand_heads_than_after_hundreds() {
    let counted = Counted::new();
    counted.create();
    let log = counted.open();
    anchor(&log, 3 * KEY_PUBLICATIONS);
    create_stream(&log, "later");
    log.close().unwrap();
    let (few, calls_few) = counted.streams();
    let (log, opened_few) = counted.open_counted();
    anchor(&log, 97 * KEY_PUBLICATIONS);
    log.close().unwrap();
    assert!(heads_frames(&counted) > 10_000);
    let (many, calls_many) = counted.streams();
    assert_eq!(few, many);
    assert_eq!(few, ["journal", "heads", "default", "later"]);
    let (log, opened_many) = counted.open_counted();
    log.close().unwrap();
    // The journal has a frame for each key, and no more.
    let journal = 97 * 8;
    assert!(
        calls_many <= calls_few + journal,
        "{calls_few}, {calls_many}"
    );
    assert!(
        opened_many <= opened_few + 2 * journal,
        "{opened_few}, {opened_many}"
    );
}

#[test]
fn heads_that_later_ones_took_the_place_of_may_be_damaged() {
    let counted = Counted::new();
    counted.create();
    let log = counted.open();
    anchor(&log, 15);
    let heads = counted.storage.inner().read(SEGMENT, u64::MAX).unwrap();
    let middle = u64::try_from(heads.len()).unwrap() - 100;
    anchor(&log, 5);
    log.close().unwrap();
    counted.open().close().unwrap();
    let segment = counted.storage.inner().open(SEGMENT, false).unwrap();
    segment.write_at(&[0xff; 8], middle).unwrap();
    let report = verify_at(&counted.places, &VerifyOptions::default()).unwrap();
    let [fault] = report.faults.as_slice() else {
        panic!("{:?}", report.faults)
    };
    assert_eq!(
        (fault.class.as_str(), fault.stream.as_str()),
        ("frame", "heads")
    );
    create_stream(&counted.open(), "after");
    assert_eq!(
        counted.streams().0,
        ["journal", "heads", "default", "after"]
    );
}

/// An opening continued with the part of a journal before damage: a stream created behind it was
/// unknown.
#[test]
fn a_journal_that_is_damaged_in_the_middle_is_not_written_on() {
    let counted = Counted::new();
    counted.create();
    let log = counted.open();
    let path = "streams/journal/segments/00000000000000000000.seg";
    let before = counted.storage.inner().read(path, u64::MAX).unwrap();
    create_stream(&log, "one");
    create_stream(&log, "two");
    log.close().unwrap();
    let segment = counted.storage.inner().open(path, false).unwrap();
    let middle = u64::try_from(before.len()).unwrap() + 250;
    segment.write_at(&[0xff; 8], middle).unwrap();
    let clock = Arc::new(SystemClock::new());
    let refused = Log::open_at(&counted.places, &root(), options(), clock).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("journal"), "{said}");
    let report = verify_at(&counted.places, &VerifyOptions::default()).unwrap();
    let classes: Vec<&str> = report.faults.iter().map(|it| it.class.as_str()).collect();
    assert!(classes.contains(&"frame"), "{:?}", report.faults);
}

#[test]
fn without_the_way_back_all_heads_are_read() {
    let heads = Memory::new();
    let counted = Counted::on(Memory::new(), &heads);
    counted.create();
    let log = counted.open();
    anchor(&log, 300);
    log.close().unwrap();
    for lost in ["checkpoint", "tile/entries/000", "tile/0/000"] {
        let memory = counted.storage.inner().clone_live();
        memory.remove(&format!("streams/heads/{lost}")).unwrap();
        let without = Counted::on(memory, &heads.clone_live());
        let log = without.open();
        anchor(&log, 1);
        log.close().unwrap();
        let report = verify_at(&without.places, &VerifyOptions::default()).unwrap();
        let mut faults = report.faults.iter();
        // Damage in the middle of the tree stays.
        assert!(
            faults.all(|fault| fault.place.ends_with(lost)),
            "{lost}: {:?}",
            report.faults
        );
    }
}
