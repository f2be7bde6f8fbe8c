//! A log of many years in minutes: certificates as the log makes them, without the publications between.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::proof::{EntryProof, Trust};
use probity_format::stream::{Proofs, StreamConfig};
use probity_format::{Entry, Timestamp};

use super::*;
use crate::clock::{Clock as _, SystemClock};
use crate::reader::Reader;
use crate::storage::Memory;
use crate::verify::{VerifyOptions, verify_at};
use crate::{Log, Options};

/// Ten years of hourly keys.
const TEN_YEARS: u64 = 87_600;
/// Entries beside the one that is proved, in one frame.
const ENTRIES: usize = 64;
const CHECKS: u32 = 200;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// A log whose signing key moved on `keys` times.
fn aged(keys: u64) -> Places {
    let places = Places::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "the log");
    let options = Options {
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let config = StreamConfig {
        proofs: Proofs::Entry,
        ..StreamConfig::default()
    };
    let clock = || Arc::new(SystemClock::new());
    let origin = "example.com/audit";
    Log::create_at(&places, origin, &root(), config, options.clone(), clock()).unwrap();
    let log = Log::open_at(&places, &root(), options, clock()).unwrap();
    for _ in 0..keys {
        let core = log.core();
        let mut journal = core.journal.lock().unwrap_or_else(PoisonError::into_inner);
        core.certify_successor(&mut journal, Vec::new()).unwrap();
    }
    let core = log.core();
    let journal = core.journal.lock().unwrap_or_else(PoisonError::into_inner);
    core.publish_stream(journal.stream()).unwrap();
    drop(journal);
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: probity_format::Subjects::joined("customer-4711"),
        actor: "billing-service",
        purpose: "invoice",
        payload: b"invoice 2026-11-23",
        ..Entry::new(time, "read", b"user:4711:address")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..ENTRIES {
        appender.append(&entry).unwrap();
    }
    appender.flush().unwrap();
    log.close().unwrap();
    places
}

/// What `work` gives, and how long it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = SystemClock::new();
    let began = clock.elapsed();
    let made = work();
    (made, clock.elapsed().saturating_sub(began))
}

/// The text of a proof of an entry.
fn proved(places: &Places) -> String {
    let reader = Reader::open_at(places, &root()).unwrap();
    let proof = reader.prove(&StreamName::default(), 1, None).unwrap();
    proof.proof.encode().unwrap()
}

/// The shortest time that reading and checking a proof took: other work on the machine only adds to it.
fn least(text: &str, key: &VerifierKey) -> Duration {
    let check = || {
        let proved = EntryProof::parse(text).unwrap().check(key).unwrap();
        assert_eq!(proved.index, 1);
    };
    let times = (0..CHECKS).map(|_| timed(check).1);
    times.min().unwrap_or_default()
}

fn newest_key(text: &str) -> VerifierKey {
    let proof = EntryProof::parse(text).unwrap();
    let probity_format::proof::Signers::Certified(shown) = proof.signers else {
        panic!("the log is of version 3");
    };
    VerifierKey::new("example.com/audit", shown.first_key).unwrap()
}

#[test]
fn a_proof_over_hundreds_of_keys_is_small() {
    let places = aged(300);
    let text = proved(&places);
    assert!(text.len() <= 4096, "{} bytes", text.len());
    let proof = EntryProof::parse(&text).unwrap();
    assert!(proof.check(&newest_key(&text)).is_ok());
    let chain = key_chain(&places).unwrap();
    let anchor = Reader::open_at(&places, &root()).unwrap().anchor().clone();
    let trust = Trust {
        chain: Some(&chain),
        ..Trust::key(&anchor)
    };
    assert!(proof.check_with(&trust).is_ok());
}

/// Ten years of hourly keys: `cargo test --release -p probity-log --lib ten_years -- --ignored --nocapture`.
#[test]
#[ignore = "makes 87,600 certificates, which takes a minute or more"]
fn after_ten_years_of_hourly_keys_a_proof_has_at_most_4_kb_and_is_checked_in_a_millisecond() {
    let (places, took) = timed(|| aged(TEN_YEARS));
    println!("a journal of {TEN_YEARS} certificates in {took:?}");
    let (text, took) = timed(|| proved(&places));
    println!("proved in {took:?}: {} bytes", text.len());
    let checked = least(&text, &newest_key(&text));
    println!("checked in {checked:?}, the least of {CHECKS}");
    let (chain, took) = timed(|| key_chain(&places).unwrap());
    println!("chain of keys read in {took:?}");
    let bytes = chain.encode();
    let anchor = Reader::open_at(&places, &root()).unwrap().anchor().clone();
    let ((), took) = timed(|| {
        let chain = KeyChain::parse(&bytes).unwrap();
        let trust = Trust {
            chain: Some(&chain),
            ..Trust::key(&anchor)
        };
        let proof = EntryProof::parse(&text).unwrap();
        assert!(proof.check_with(&trust).is_ok());
    });
    println!("checked with a chain of {} bytes in {took:?}", bytes.len());
    let (report, took) = timed(|| verify_at(&places, &VerifyOptions::default()).unwrap());
    assert!(report.is_intact(), "{:?}", report.faults);
    println!("verified in {took:?}");
    let clock = Arc::new(SystemClock::new());
    let (log, took) = timed(|| Log::open_at(&places, &root(), Options::default(), clock));
    println!("opened for writing in {took:?}");
    log.unwrap().close().unwrap();
    assert!(text.len() <= 4096, "{} bytes", text.len());
    assert!(checked <= Duration::from_millis(1), "{checked:?}");
}
