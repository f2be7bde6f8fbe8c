//! Opening a log reads of its journal what says more than heads, however many heads there are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::limits::TILE_WIDTH;
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::reader::Reader;
use probity_log::storage::{FaultPlan, Faulty, Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Log, Options, Places, StreamConfig, StreamName};

/// Longer than any run: nothing is published but what is asked for.
const NEVER: Duration = Duration::from_hours(1);
/// The segment of the journal.
const SEGMENT: &str = "streams/journal/segments/00000000000000000000.seg";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options() -> Options {
    Options {
        checkpoint_interval: NEVER,
        ..Options::default()
    }
}

/// A log in memory whose calls are counted.
struct Counted {
    storage: Arc<Faulty<Memory>>,
    places: Places,
}

impl Counted {
    fn new() -> Self {
        Self::on(Memory::new(), &Memory::new())
    }

    fn on(log: Memory, heads: &Memory) -> Self {
        let storage = Arc::new(Faulty::new(log, FaultPlan::none()));
        let places = Places::on(
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
        .unwrap();
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

#[test]
fn opening_reads_no_more_after_a_thousand_heads_than_after_ten() {
    let counted = Counted::new();
    counted.create();
    let log = counted.open();
    anchor(&log, 10);
    create_stream(&log, "later");
    log.close().unwrap();
    let (few, calls_few) = counted.streams();
    let log = counted.open();
    anchor(&log, 1_000);
    log.close().unwrap();
    let (many, calls_many) = counted.streams();
    assert_eq!(few, many);
    assert_eq!(few, ["journal", "default", "later"]);
    // One opening more, and the bundles on the way to it.
    assert!(calls_many <= calls_few + 30, "{calls_few}, {calls_many}");
    let report = verify_at(&counted.places, &VerifyOptions::default()).unwrap();
    assert_eq!(report.faults, []);
}

#[test]
fn what_nobody_needs_of_the_journal_may_be_damaged() {
    let counted = Counted::new();
    counted.create();
    let log = counted.open();
    anchor(&log, 20);
    let journal = counted.storage.inner().read(SEGMENT, u64::MAX).unwrap();
    let middle = u64::try_from(journal.len()).unwrap() - 100;
    create_stream(&log, "later");
    log.close().unwrap();
    let segment = counted.storage.inner().open(SEGMENT, false).unwrap();
    segment.write_at(&[0xff; 8], middle).unwrap();
    let (streams, _) = counted.streams();
    assert_eq!(streams, ["journal", "default", "later"]);
    let report = verify_at(&counted.places, &VerifyOptions::default()).unwrap();
    assert!(
        !report.is_intact(),
        "the damage is found by who looks for it"
    );
    create_stream(&counted.open(), "after");
    assert_eq!(
        counted.streams().0,
        ["journal", "default", "later", "after"]
    );
}

#[test]
fn without_the_way_back_the_whole_journal_is_read() {
    let heads = Memory::new();
    let counted = Counted::on(Memory::new(), &heads);
    counted.create();
    let log = counted.open();
    anchor(&log, TILE_WIDTH + 44);
    create_stream(&log, "later");
    log.close().unwrap();
    let (streams, calls) = counted.streams();
    for lost in ["checkpoint", "tile/entries/000"] {
        let memory = counted.storage.inner().clone_live();
        memory.remove(&format!("streams/journal/{lost}")).unwrap();
        let without = Counted::on(memory, &heads.clone_live());
        let (found, more) = without.streams();
        assert_eq!(found, streams, "{lost}");
        assert!(more > calls, "{lost}: {calls}, {more}");
    }
}
