//! The signing key moves on while a log is open: by time and by publications, followed by
//! verification and proofs.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::sync::Arc;
use std::time::Duration;

use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::proof::EntryProof;
use probity_format::{Entry, Timestamp};
use probity_log::clock::ManualClock;
use probity_log::reader::Reader;
use probity_log::storage::{FaultPlan, Faulty, Memory, Storage as _};
use probity_log::verify::{Report, VerifyOptions, verify_at};
use probity_log::{Log, LogLocation, Options, StreamConfig, StreamName};

const HOUR: Duration = Duration::from_hours(1);
/// Longest wait for a thread of the log.
const WAIT_MAX: u32 = 2_000;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// A log in memory with a clock that the test moves.
struct Turned {
    memory: Memory,
    places: LogLocation,
    clock: Arc<ManualClock>,
}

impl Turned {
    fn new() -> Self {
        let memory = Memory::new();
        let storage = Arc::new(Faulty::new(memory.clone(), FaultPlan::none()));
        let places = LogLocation::on(storage, Arc::new(Memory::new()), "the log");
        let clock = Arc::new(ManualClock::default());
        let config = StreamConfig::default();
        let origin = "example.com/turned";
        let options = Options::default();
        Log::create_at(
            &places,
            origin,
            &root(),
            config,
            options,
            Arc::clone(&clock) as _,
        )
        .unwrap()
        .close()
        .unwrap();
        Self {
            memory,
            places,
            clock,
        }
    }

    fn open(&self, options: Options) -> Log {
        Log::open_at(&self.places, &root(), options, Arc::clone(&self.clock) as _).unwrap()
    }

    fn verify(&self) -> Report {
        let options = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        verify_at(&self.places, &options).unwrap()
    }

    /// Waits until the chain has `keys` keys, in a log that is published to its end.
    fn wait_for_keys(&self, keys: u64) {
        for _ in 0..WAIT_MAX {
            let report = self.verify();
            assert_eq!(report.faults, []);
            if report.keys >= keys && report.streams[0].unpublished_frames == 0 {
                assert_eq!(report.keys, keys);
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert_eq!(self.verify().keys, keys, "the key did not move on");
    }

    fn signing_key(&self) -> Vec<u8> {
        self.memory.read("keys/signing.key", 4096).unwrap()
    }
}

fn append(log: &Log) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender
        .append_durable(&Entry::new(time, "write", b"key"))
        .unwrap();
    log.publish().unwrap();
}

/// S15: the key moved on at openings alone, so that the current key could rewrite everything since
/// a proxy was started months ago.
#[test]
fn every_hour_with_entries_has_a_key_of_its_own_and_an_idle_one_has_none() {
    let turned = Turned::new();
    let log = turned.open(Options::default());
    // The anchor, the creation and the opening.
    turned.wait_for_keys(3);
    for hour in 0..10 {
        let before = turned.signing_key();
        append(&log);
        turned.clock.advance(HOUR / 2);
        append(&log);
        turned.wait_for_keys(3 + hour);
        turned.clock.advance(HOUR / 2);
        turned.wait_for_keys(4 + hour);
        assert_ne!(turned.signing_key(), before);
        assert!(turned.memory.read("keys/signing.next", 4096).is_err());
        // The key signed nothing since: a theft would put nothing at risk.
        turned.clock.advance(HOUR * 5);
        std::thread::park_timeout(Duration::from_millis(300));
        turned.wait_for_keys(4 + hour);
    }
    log.close().unwrap();
    assert_eq!(turned.verify().faults, []);
    let again = turned.open(Options::default());
    assert_eq!(again.repairs(), &[]);
    append(&again);
    again.close().unwrap();
    turned.wait_for_keys(14);
}

#[test]
fn a_number_of_publications_moves_the_key_on_too() {
    let turned = Turned::new();
    let options = Options {
        key_publications_max: 3,
        ..Options::default()
    };
    let log = turned.open(options);
    for publication in 1..=9 {
        append(&log);
        turned.wait_for_keys(3 + publication / 3);
    }
    log.close().unwrap();
    assert_eq!(turned.verify().faults, []);
}

/// S15: a signature made before the successor was certified is proved by way of the successor's
/// chain.
#[test]
fn proofs_lead_over_the_keys_of_many_hours() {
    let turned = Turned::new();
    let log = turned.open(Options::default());
    for hour in 0..5 {
        append(&log);
        turned.clock.advance(HOUR);
        turned.wait_for_keys(4 + hour);
    }
    append(&log);
    let text = turned.memory.read("probity.toml", 4096).unwrap();
    let geometry = Geometry::parse(std::str::from_utf8(&text).unwrap()).unwrap();
    let reader = Reader::open_at(&turned.places, &root()).unwrap();
    for index in [0, 3, 5] {
        let proof = reader.prove(&StreamName::default(), index, None).unwrap();
        let text = proof.proof.encode().unwrap();
        let read = EntryProof::parse(&text).unwrap();
        let proved = read.check(geometry.anchor()).unwrap();
        assert_eq!(proved.index, index);
    }
    log.close().unwrap();
}

#[test]
fn an_interval_of_nothing_is_refused() {
    let turned = Turned::new();
    let options = Options {
        key_interval: Duration::ZERO,
        ..Options::default()
    };
    let clock = Arc::clone(&turned.clock) as _;
    let refused = Log::open_at(&turned.places, &root(), options, clock).unwrap_err();
    assert!(refused.to_string().contains("key_interval"), "{refused}");
}
