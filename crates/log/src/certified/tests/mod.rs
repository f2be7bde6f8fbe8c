//! A log of many years in minutes: certificates as the log makes them, without the publications
//! between.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::note::{Signer as _, SigningKey};
use probity_format::proof::{EntryProof, EntryProofError, Signers, Trust};
use probity_format::stream::{Proofs, StreamConfig};
use probity_format::tree::leaf_hash;
use probity_format::{Entry, Timestamp};

use super::*;
use crate::clock::{Clock as _, SystemClock};
use crate::head_signer::HeadSigner;
use crate::reader::Reader;
use crate::storage::Memory;
use crate::verify::{VerifyOptions, verify_at};
use crate::{Log, Options};

mod expired;
mod grown;

/// Ten years of hourly keys.
const TEN_YEARS: u64 = 87_600;
/// Entries beside the one that is proved, in one frame.
const ENTRIES: usize = 64;
const CHECKS: u32 = 200;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// A log without entries.
fn created() -> LogLocation {
    let places = LogLocation::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "the log");
    created_at(&places);
    places
}

fn created_at(places: &LogLocation) {
    let options = Options {
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let config = StreamConfig {
        proofs: Proofs::Entry,
        ..StreamConfig::default()
    };
    let clock = Arc::new(SystemClock::new());
    let origin = "example.com/audit";
    Log::create_at(places, origin, &root(), config, options, clock)
        .unwrap()
        .close()
        .unwrap();
}

/// A log with entries whose signing key moved on `keys` times before.
fn aged(keys: u64) -> LogLocation {
    let places = created();
    let log = opened(&places);
    move_on(&log, keys);
    append(&log);
    log.close().unwrap();
    places
}

/// Moves the signing key of a log on `keys` times more.
fn age(places: &LogLocation, keys: u64) {
    let log = opened(places);
    move_on(&log, keys);
    log.close().unwrap();
}

fn opened(places: &LogLocation) -> Log {
    let options = Options {
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    Log::open_at(places, &root(), options, Arc::new(SystemClock::new())).unwrap()
}

fn move_on(log: &Log, keys: u64) {
    for _ in 0..keys {
        let core = log.core();
        let mut journal = core.streams.journal();
        core.certify_successor(&mut journal, (Vec::new(), Vec::new()), &mut |_journal| {
            Ok(())
        })
        .unwrap();
    }
    let core = log.core();
    let journal = core.streams.journal();
    core.publish_stream(journal.stream()).unwrap();
}

fn append(log: &Log) {
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
}

/// Returns the result of `work` and its duration.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = SystemClock::new();
    let began = clock.elapsed();
    let made = work();
    (made, clock.elapsed().saturating_sub(began))
}

/// The text of a proof of an entry, for the holder of any of the last keys.
fn proved(places: &LogLocation) -> String {
    let reader = Reader::open_at(places, &root()).unwrap();
    let proof = reader.prove(&StreamName::default(), 1, None).unwrap();
    proof.proof.encode().unwrap()
}

/// The text of a proof of an entry for the holder of the newest key, and that key.
fn proved_to_newest(places: &LogLocation) -> (String, VerifierKey) {
    let reader = Reader::open_at(places, &root()).unwrap();
    let (newest, _) = reader.history.keys.last().unwrap();
    let newest = VerifierKey::new("example.com/audit", *newest.key()).unwrap();
    let proof = reader.prove(&StreamName::default(), 1, Some(&newest));
    (proof.unwrap().proof.encode().unwrap(), newest)
}

/// The shortest time that reading and checking a proof took: other work on the machine only adds to
/// it.
fn least(text: &str, key: &VerifierKey) -> Duration {
    let check = || {
        let proved = EntryProof::parse(text).unwrap().check(key).unwrap();
        assert_eq!(proved.index, 1);
    };
    let times = (0..CHECKS).map(|_| timed(check).1);
    times.min().unwrap_or_default()
}

#[test]
fn a_proof_over_hundreds_of_keys_is_small() {
    let places = aged(300);
    let (text, newest) = proved_to_newest(&places);
    assert!(text.len() <= 4096, "{} bytes", text.len());
    assert!(EntryProof::parse(&text).unwrap().check(&newest).is_ok());
    let text = proved(&places);
    assert!(text.len() <= 4096, "{} bytes", text.len());
    let proof = EntryProof::parse(&text).unwrap();
    assert!(proof.check(&newest).is_ok());
    let chain = key_chain(&places).unwrap();
    let anchor = Reader::open_at(&places, &root()).unwrap().anchor().clone();
    let trust = Trust {
        chain: Some(&chain),
        ..Trust::key(&anchor)
    };
    assert!(proof.check_with(&trust).is_ok());
}

fn origin(stream: &str) -> String {
    format!("example.com/audit/streams/{stream}")
}

/// The signing key of the log as it is, under the names of the journal and of the stream.
fn stolen(places: &LogLocation) -> [SigningKey; 2] {
    let log = opened(places);
    let keys = ["journal", "default"].map(|stream| {
        let keys = log.core().keys.lock();
        let keys = keys.unwrap_or_else(PoisonError::into_inner);
        keys.signer(&origin(stream)).unwrap()
    });
    log.close().unwrap();
    keys
}

/// The head of the journal with the line of another signing key in place of its own.
fn signed_by(key: &SigningKey, head: &Head, history: &History) -> Head {
    let text = head.checkpoint.encode();
    let mut lines = head.note.signatures().to_vec();
    let signature = key.sign(text.as_bytes()).unwrap();
    let public = key.verifier_key();
    lines[0] = Signature::new(&origin("journal"), public.id(), signature);
    let mut keys = history.keys.iter();
    Head {
        note: SignedNote::with_signatures(text, lines).unwrap(),
        checkpoint: head.checkpoint.clone(),
        signer: keys.position(|(key, _)| key.key() == public.key()).unwrap(),
    }
}

/// Somebody stole a signing key that the journal has replaced since, and has every file. With it
/// they sign today's head of the journal, whose text the witness key and witnesses signed, and a
/// head of a stream that never was. Whoever knows the newest key, or that head, is shown that a
/// later key was certified.
#[test]
fn a_key_that_was_replaced_proves_nothing_beside_a_head_of_today() {
    let places = created();
    let [journal, stream] = stolen(&places);
    age(&places, 3);
    let log = opened(&places);
    append(&log);
    log.create_stream(&StreamName::new("other").unwrap(), StreamConfig::default())
        .unwrap();
    log.close().unwrap();
    let honest = || EntryProof::parse(&proved(&places)).unwrap();
    let record = honest().record;
    let reader = Reader::open_at(&places, &root()).unwrap();
    let files = Files::of_log(&places, &Options::default());
    let certifying = Certifying {
        files: &files,
        geometry: &reader.geometry,
        history: &reader.history,
    };
    let newest = certifying.newest().unwrap();
    let head = signed_by(&journal, &newest, &reader.history);
    let shown = certifying.show(&head, None, None).unwrap();
    let fake = Checkpoint::new(&origin("default"), 1, leaf_hash(&record.encode())).unwrap();
    let forged = |shown: Certified| EntryProof {
        signers: Signers::Certified(Box::new(shown)),
        path: Vec::new(),
        checkpoint: fake.sign(&[&stream]).unwrap(),
        ..honest()
    };
    let witness = reader.geometry.witness().unwrap();
    let first = reader.anchor();
    let (last, _) = reader.history.keys.last().unwrap();
    let own_last = Certified {
        last: None,
        ..shown.clone()
    };
    let Signers::Certified(of_today) = honest().signers else {
        panic!("the log is of version 3");
    };
    let own_name = Certified {
        last: Some(of_today.certificate.clone()),
        ..shown.clone()
    };
    for shown in [shown, own_last, own_name] {
        for key in [witness, first, last] {
            let trust = Trust {
                journal: Some(&newest.checkpoint),
                ..Trust::key(key)
            };
            let refused = forged(shown.clone()).check_with(&trust);
            assert!(matches!(refused, Err(EntryProofError::Journal(_))));
        }
    }
    // With the journal's real content, the head of the stream is not signed.
    let refused = forged(*of_today).check(last);
    assert!(matches!(refused, Err(EntryProofError::Checkpoint(_))));
    assert!(honest().check(last).is_ok());
}

/// A stream that rests keeps a checkpoint of an older key. Its entries are proved under the newest,
/// unless the checkpoint was replaced by one that the log never anchored.
#[test]
fn the_head_of_a_resting_stream_is_signed_again_if_it_was_anchored() {
    let places = aged(1);
    age(&places, 2);
    let text = proved(&places);
    let reader = Reader::open_at(&places, &root()).unwrap();
    let (last, _) = reader.history.keys.last().unwrap();
    assert!(EntryProof::parse(&text).unwrap().check(last).is_ok());
    let files = Files::of_log(&places, &Options::default());
    let stream = StreamName::default();
    let note = read_checkpoint(&files, &stream).unwrap().unwrap();
    let origin = "example.com/audit/streams/default";
    let (place, head) = reader.history.open(note.as_bytes(), origin).unwrap();
    assert!(place + 1 < reader.history.keys.len());
    let other = Checkpoint::new(origin, head.size(), leaf_hash(b"another history")).unwrap();
    for forged in [
        other,
        Checkpoint::new(origin, head.size() + 1, *head.root()).unwrap(),
    ] {
        let history = &reader.history;
        let signer = HeadSigner {
            reader: &reader,
            history,
        };
        let refused = signer.sign(&stream, &forged, last);
        assert!(matches!(
            refused,
            Err(ProveError::Log(LogError::Broken { .. }))
        ));
    }
}

/// From the certificate of a new key until the stream `heads` was published under it, `prove`
/// called the checkpoint of `heads` one that nobody anchored. Beside a live writer that was for a
/// moment, after a kill for good. The last certificate binds it.
#[test]
fn the_head_of_heads_is_signed_again_if_the_journal_binds_it() {
    let places = aged(1);
    let log = opened(&places);
    move_on(&log, 1);
    let reader = Reader::open_at(&places, &root()).unwrap();
    let stream = StreamName::heads();
    let proof = reader.prove(&stream, 0, None).unwrap();
    assert_eq!(proof.proved.index, 0);
    let history = &reader.history;
    let (newest, _) = history.keys.last().unwrap();
    let bound = history.bound_heads().unwrap();
    let signer = HeadSigner {
        reader: &reader,
        history,
    };
    for (size, root, is_bound) in [
        (bound.size, bound.root, true),
        (bound.size, leaf_hash(b"another history"), false),
        (bound.size - 1, bound.root, false),
        (bound.size + 1, bound.root, false),
    ] {
        let head = Checkpoint::new(&origin("heads"), size, root).unwrap();
        let signed = signer.sign(&stream, &head, newest);
        assert_eq!(signed.is_ok(), is_bound, "{size}");
    }
    log.close().unwrap();
}

/// A writer was killed before it anchored a head, and the next one before it signed that head
/// again: `prove` ended with the advice to verify the log, which is intact. What is anchored is
/// proved, and of the rest it says that it is not covered yet.
#[test]
fn what_was_published_and_not_anchored_is_not_covered_by_a_proof_yet() {
    let places = aged(1);
    let log = opened(&places);
    append(&log);
    for stream in log.core().streams.content() {
        log.core().publish_stream(&stream).unwrap();
    }
    move_on(&log, 1);
    let stream = StreamName::default();
    let reader = Reader::open_at(&places, &root()).unwrap();
    assert_eq!(reader.prove(&stream, 0, None).unwrap().proved.index, 0);
    let index = u64::try_from(ENTRIES).unwrap();
    let behind = reader.prove(&stream, index, None);
    assert!(matches!(behind, Err(ProveError::Unpublished { covered, .. }) if covered == index));
    let files = Files::of_log(&places, &Options::default());
    let kept = read_checkpoint(&files, &stream).unwrap();
    let recipient = crate::prove::Recipient {
        stream: kept,
        ..crate::prove::Recipient::default()
    };
    let refused = reader.prover(&stream, &recipient).map(drop);
    assert!(matches!(refused, Err(ProveError::Head { .. })));
    log.close().unwrap();
    assert!(reader.prove(&stream, index, None).is_ok());
}

/// A kept head showed that an older copy of the log was put back. But `prove --checkpoint` ended
/// with status 1 and the advice to wait for its writer, or to open the log for writing once.
/// Waiting is right only where the log has the frames of that head. Otherwise the error is that the
/// log has not grown from it.
#[test]
fn a_head_that_was_kept_shows_a_log_that_was_put_back() {
    let memory = Memory::new();
    let at = |memory: &Memory| {
        let alone = Arc::new(Memory::new());
        LogLocation::on(Arc::new(memory.clone()), alone, "the log")
    };
    let places = at(&memory);
    created_at(&places);
    let stream = StreamName::default();
    let head = |places: &LogLocation| {
        let files = Files::of_log(places, &Options::default());
        let heads = [&stream, &StreamName::journal()];
        heads.map(|name| read_checkpoint(&files, name).unwrap())
    };
    let log = opened(&places);
    append(&log);
    log.publish().unwrap();
    let older = memory.clone_live();
    append(&log);
    // The journal grows under the same key.
    let more = StreamName::new("more").unwrap();
    log.create_stream(&more, StreamConfig::default()).unwrap();
    log.publish().unwrap();
    let [kept, journal] = head(&places);
    log.close().unwrap();
    let refused = |memory: &Memory, journal: Option<&String>| {
        let reader = Reader::open_at(&at(memory), &root()).unwrap();
        let recipient = crate::prove::Recipient {
            stream: kept.clone().filter(|_| journal.is_none()),
            journal: journal.cloned(),
            ..crate::prove::Recipient::default()
        };
        reader.prover(&stream, &recipient).map(drop).err()
    };
    // Under the same key, under a newer one, and with other frames in their place.
    let reopened = older.clone_live();
    age(&at(&reopened), 2);
    let other = reopened.clone_live();
    let log = opened(&at(&other));
    append(&log);
    append(&log);
    log.close().unwrap();
    for memory in [&older, &reopened, &other] {
        let refused = refused(memory, None);
        assert!(
            matches!(refused, Some(ProveError::NotGrown { .. })),
            "{refused:?}"
        );
    }
    assert!(refused(&memory, None).is_none());
    // So does a head of the journal that the log signed, with a key that is known here or a later
    // one.
    age(&places, 2);
    let [_, later] = head(&places);
    for journal in [journal, later] {
        let refused = refused(&older, journal.as_ref());
        assert!(
            matches!(refused, Some(ProveError::NotGrown { .. })),
            "{refused:?}"
        );
    }
}

/// A foreign head was signed again with all of its text, so that a thief of an expired key had any
/// sentence signed by the newest one.
#[test]
fn no_line_of_an_expired_key_is_signed_again() {
    let places = aged(1);
    let stolen = {
        let log = opened(&places);
        append(&log);
        log.publish().unwrap();
        let keys = log.core().keys.lock();
        let keys = keys.unwrap_or_else(PoisonError::into_inner);
        let key = keys.signer(&origin("default")).unwrap();
        drop(keys);
        log.close().unwrap();
        key
    };
    age(&places, 2);
    let files = Files::of_log(&places, &Options::default());
    let stream = StreamName::default();
    let note = read_checkpoint(&files, &stream).unwrap().unwrap();
    let head = SignedNote::parse(note.as_bytes()).unwrap();
    let text = format!("{}the operator owes 1,000,000 EUR\n", head.text());
    let mut forged = SignedNote::new(text).unwrap();
    forged.sign(&stolen).unwrap();
    let reader = Reader::open_at(&places, &root()).unwrap();
    let recipient = crate::prove::Recipient {
        stream: Some(forged.encode()),
        ..crate::prove::Recipient::default()
    };
    let proved = reader
        .prover(&stream, &recipient)
        .and_then(|mut prover| prover.prove(1).map(drop));
    assert!(proved.is_err());
    // Nor where it lies in the place of the checkpoint.
    files
        .replace("streams/default/checkpoint", forged.encode().as_bytes())
        .unwrap();
    let reader = Reader::open_at(&places, &root()).unwrap();
    let recipient = crate::prove::Recipient::default();
    let proved = reader
        .prover(&stream, &recipient)
        .and_then(|mut prover| prover.prove(1).map(drop));
    assert!(proved.is_err());
}

/// `places` as another process finds them, which has checked no certificate yet.
fn afresh(places: &LogLocation) -> LogLocation {
    LogLocation::on(
        Arc::clone(&places.log),
        Arc::clone(&places.heads),
        &places.path,
    )
}

/// Ten years of hourly keys: `cargo test --release -p probity-log --lib ten_years -- --ignored
/// --nocapture`. The size is that of a proof for the holder of the newest key; one for all holders
/// of the last keys has their certificates besides.
#[test]
#[ignore = "makes 87,600 certificates, which takes a minute or more"]
fn after_ten_years_of_hourly_keys_a_proof_has_at_most_4_kb_and_is_checked_in_a_millisecond() {
    let (places, took) = timed(|| aged(TEN_YEARS));
    println!("a journal of {TEN_YEARS} certificates in {took:?}");
    let ((short, newest), took) = timed(|| proved_to_newest(&afresh(&places)));
    println!("proved in {took:?}: {} bytes", short.len());
    println!("checked in {:?}", least(&short, &newest));
    let text = proved(&places);
    println!("for any of the last keys {} bytes", text.len());
    let checked = least(&text, &newest);
    println!("checked in {checked:?}, the least of {CHECKS}");
    let (chain, took) = timed(|| key_chain(&afresh(&places)).unwrap());
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
    let (report, took) = timed(|| verify_at(&afresh(&places), &VerifyOptions::default()).unwrap());
    assert!(report.is_intact(), "{:?}", report.faults);
    println!("verified in {took:?}");
    let clock = Arc::new(SystemClock::new());
    let (log, took) = timed(|| Log::open_at(&afresh(&places), &root(), Options::default(), clock));
    println!("opened for writing in {took:?}");
    log.unwrap().close().unwrap();
    assert!(short.len() <= 4096, "{} bytes", short.len());
    assert!(text.len() <= 4096, "{} bytes", text.len());
    assert!(checked <= Duration::from_millis(1), "{checked:?}");
}
