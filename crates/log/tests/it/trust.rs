//! The trust anchors of a recipient when a proof is older or newer: a chain of keys, a witness, a
//! remembered head.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use probity_format::checkpoint::Checkpoint;
use probity_format::cosignature::WitnessKey;
use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::limits::PROOF_LINKS_DEFAULT;
use probity_format::note::{Signature, SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::proof::{EntryProof, EntryProofError, KeyChain, Trust};
use probity_format::tree::{Hash, leaf_hash};
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::Reader;
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify_at};
use probity_log::{
    Log, LogError, LogLocation, Options, Proofs, StreamConfig, StreamName, key_chain,
};

const JOURNAL: &str = "streams/journal/checkpoint";
const DEFAULT: &str = "streams/default/checkpoint";
const WITNESS: &str = "witness.example/w";
/// More than a proof lists.
const KEYS: usize = 20;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

struct World {
    memory: Memory,
    places: LogLocation,
}

impl World {
    /// A log at `memory`, with second copies of its own.
    fn at(memory: Memory) -> Self {
        let storage = Arc::new(memory.clone());
        let places = LogLocation::on(storage, Arc::new(Memory::new()), "the log");
        Self { memory, places }
    }

    fn new(origin: &str) -> Self {
        let world = Self::at(Memory::new());
        let config = StreamConfig {
            proofs: Proofs::Entry,
            ..StreamConfig::default()
        };
        let (options, clock) = (Options::default(), Arc::new(SystemClock::new()));
        Log::create_at(&world.places, origin, &root(), config, options, clock as _)
            .unwrap()
            .close()
            .unwrap();
        world
    }

    fn verify(&self, known: &VerifierKey) -> Result<Report, LogError> {
        let options = VerifyOptions {
            known_key: Some(known.clone()),
            ..VerifyOptions::default()
        };
        verify_at(&self.places, &options)
    }

    /// The newest signing key.
    fn newest(&self) -> VerifierKey {
        VerifierKey::parse(&self.verify(self.geometry().anchor()).unwrap().newest).unwrap()
    }

    /// Opens the log for writing once, which makes a key.
    fn open(&self) {
        let (options, clock) = (Options::default(), Arc::new(SystemClock::new()));
        let log = Log::open_at(&self.places, &root(), options, clock).unwrap();
        log.close().unwrap();
    }

    /// Appends `count` entries, each under a key of its own.
    fn write(&self, count: usize) {
        let options = Options {
            key_publications_max: 1,
            ..Options::default()
        };
        let clock = Arc::new(SystemClock::new());
        let log = Log::open_at(&self.places, &root(), options, clock).unwrap();
        let mut appender = log.appender(&StreamName::default()).unwrap();
        for _ in 0..count {
            let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
            let entry = Entry::new(time, "write", b"key");
            appender.append_durable(&entry).unwrap();
            log.publish().unwrap();
        }
        log.close().unwrap();
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.memory.read(path, 65_536).unwrap()).unwrap()
    }

    fn geometry(&self) -> Geometry {
        Geometry::parse(&self.text("probity.toml")).unwrap()
    }

    fn witness_key(&self) -> VerifierKey {
        self.geometry().witness().unwrap().clone()
    }

    /// The proof of the entry at `index`, as its recipient reads it.
    fn prove(&self, index: u64, recipient: &Recipient) -> Result<EntryProof, ProveError> {
        let reader = Reader::open_at(&self.places, &root()).unwrap();
        let made = reader
            .prover(&StreamName::default(), recipient)?
            .prove(index)?;
        Ok(EntryProof::parse(&made.proof.encode().unwrap()).unwrap())
    }

    fn default_proof(&self, index: u64) -> EntryProof {
        self.prove(index, &Recipient::default()).unwrap()
    }

    fn chain(&self) -> KeyChain {
        let chain = key_chain(&self.places).unwrap();
        KeyChain::parse(&chain.encode()).unwrap()
    }
}

fn check(proof: &EntryProof, trust: &Trust<'_>) -> Result<u64, EntryProofError> {
    Ok(proof.check_with(trust)?.index)
}

fn chained<'a>(key: &'a VerifierKey, chain: &'a KeyChain) -> Trust<'a> {
    Trust {
        chain: Some(chain),
        ..Trust::key(key)
    }
}

fn witnessed<'a>(key: &'a VerifierKey, witness: &'a WitnessKey) -> Trust<'a> {
    Trust {
        witness: Some(witness.into()),
        ..Trust::key(key)
    }
}

fn remembering<'a>(key: &'a VerifierKey, journal: &'a Checkpoint) -> Trust<'a> {
    Trust {
        journal: Some(journal),
        ..Trust::key(key)
    }
}

fn head(text: &str) -> Checkpoint {
    Checkpoint::parse(SignedNote::parse(text.as_bytes()).unwrap().text()).unwrap()
}

fn witness(seed: u8) -> (SigningKey, WitnessKey) {
    let key = SigningKey::from_seed(WITNESS, &[seed; 32]).unwrap();
    let witness = WitnessKey::new(WITNESS, *key.verifier_key().key()).unwrap();
    (key, witness)
}

/// `note` with a line of the witness, who saw it at second 99.
fn cosigned(note: &str, key: &SigningKey, witness: &WitnessKey) -> String {
    let note = SignedNote::parse(note.as_bytes()).unwrap();
    let message = format!("cosignature/v1\ntime 99\n{}", note.text());
    let signature = key.sign(message.as_bytes()).unwrap();
    let blob = [&99_u64.to_be_bytes()[..], &signature].concat();
    let mut lines = note.signatures().to_vec();
    lines.push(Signature::new(WITNESS, witness.id(), blob));
    SignedNote::with_signatures(note.text().to_owned(), lines)
        .unwrap()
        .encode()
}

/// A proof listed every certificate: it grew by 181 letters an hour, and could not be made any more
/// after 7.5 years.
#[test]
fn a_proof_stays_small_and_whoever_has_the_first_key_follows_a_chain_file() {
    let world = World::new("example.com/log");
    let anchor = world.geometry().anchor().clone();
    world.write(3);
    let young = world.default_proof(0);
    assert_eq!(
        check(&young, &Trust::key(&anchor)),
        Ok(0),
        "few keys are listed"
    );
    let (early, early_head) = (world.chain(), world.text(DEFAULT));
    world.write(KEYS);
    let size = |proof: &EntryProof| proof.encode().unwrap().len();
    let to_newest = || {
        let recipient = Recipient {
            key: Some(world.newest()),
            ..Recipient::default()
        };
        size(&world.prove(5, &recipient).unwrap())
    };
    let most = to_newest();
    assert!(most < 4_096, "{most}");
    let proof = world.default_proof(5);
    assert_eq!(
        check(&proof, &Trust::key(&anchor)),
        Err(EntryProofError::UnknownKey)
    );
    let whole = world.chain();
    let key = &anchor;
    assert_eq!(check(&proof, &chained(key, &whole)), Ok(5));
    // The older head is signed again with the newest key, which the early chain does not have.
    let recipient = Recipient {
        stream: Some(early_head),
        ..Recipient::default()
    };
    let older = world.prove(0, &recipient).unwrap();
    assert_eq!(check(&older, &chained(key, &whole)), Ok(0));
    assert_eq!(
        check(&older, &chained(key, &early)),
        Err(EntryProofError::ChainTooShort)
    );
    let newest = world.default_proof(22);
    assert_eq!(
        check(&newest, &chained(key, &early)),
        Err(EntryProofError::ChainTooShort)
    );
    let other = World::new("example.com/other");
    let other = other.chain();
    assert!(matches!(
        check(&proof, &chained(key, &other)),
        Err(EntryProofError::OtherName { .. })
    ));
    let namesake = World::new("example.com/log").chain();
    assert!(matches!(
        check(&proof, &chained(key, &namesake)),
        Err(EntryProofError::Chain(_))
    ));
    let mut bytes = world.chain().encode();
    let last = bytes.len() - 1;
    if let Some(byte) = bytes.get_mut(last) {
        *byte ^= 1;
    }
    let broken = KeyChain::parse(&bytes).unwrap();
    assert!(matches!(
        check(&proof, &chained(key, &broken)),
        Err(EntryProofError::Chain(_))
    ));
    world.write(3 * KEYS);
    let later = to_newest();
    // Two levels of each tree, and digits.
    assert!(later < most + 250, "{later} after {most}");
}

/// Once the log's first key was out of reach, a default proof held no certificate, and the holder of
/// any key but the newest was undecided. It leads from each of the last keys before the newest.
#[test]
fn a_default_proof_leads_from_each_of_the_last_keys() {
    let world = World::new("example.com/log");
    world.write(1);
    let mut keys = Vec::new();
    for _ in 0..25 {
        world.open();
        keys.push(world.newest());
    }
    let proof = world.default_proof(0);
    for (age, key) in keys.iter().rev().enumerate() {
        let checked = check(&proof, &Trust::key(key));
        if age <= PROOF_LINKS_DEFAULT {
            assert_eq!(checked, Ok(0), "{age} keys older");
        } else {
            assert_eq!(
                checked,
                Err(EntryProofError::UnknownKey),
                "{age} keys older"
            );
        }
    }
    // A chain that is as old as the oldest of these keys still leads to it, a later one not.
    let anchor = world.geometry().anchor().clone();
    let early = world.chain();
    assert_eq!(check(&proof, &chained(&anchor, &early)), Ok(0));
    world.open();
    assert_eq!(
        check(&world.default_proof(0), &chained(&anchor, &early)),
        Ok(0)
    );
    assert_eq!(
        check(&proof, &chained(&anchor, &world.chain())),
        Err(EntryProofError::Replaced)
    );
}

#[test]
fn a_recipient_whose_key_is_too_many_keys_older_is_not_given_a_proof_that_they_cannot_check() {
    let world = World::new("example.com/log");
    world.write(KEYS);
    let anchor = world.geometry().anchor().clone();
    let recipient = |key: &VerifierKey| Recipient {
        key: Some(key.clone()),
        ..Recipient::default()
    };
    let refused = world.prove(3, &recipient(&anchor)).err().unwrap();
    assert!(matches!(refused, ProveError::Key { .. }), "{refused}");
    let key = world.witness_key();
    let shown = world.prove(3, &recipient(&key)).unwrap();
    assert_eq!(
        check(&shown, &Trust::key(&key)),
        Err(EntryProofError::NotVouched)
    );
}

/// A thief of the root key can sign any journal with the witness key: that key alone proves nothing
/// without somebody who remembers the log.
#[test]
fn the_witness_key_counts_with_a_cosignature_and_not_alone() {
    let world = World::new("example.com/log");
    world.write(KEYS);
    let key = world.witness_key();
    let (signer, known) = witness(5);
    let (_, stranger) = witness(6);
    let alone = Trust::key(&key);
    let plain = world.default_proof(3);
    assert_eq!(check(&plain, &alone), Err(EntryProofError::NotVouched));
    let uncosigned = EntryProofError::NotCosigned {
        witness: WITNESS.into(),
    };
    assert_eq!(
        check(&plain, &witnessed(&key, &known)),
        Err(uncosigned.clone())
    );
    let stream = Some(world.text(DEFAULT));
    let proved_on = |note: &str| {
        let recipient = Recipient {
            stream: stream.clone(),
            journal: Some(note.to_owned()),
            ..Recipient::default()
        };
        world.prove(3, &recipient).unwrap()
    };
    let older = cosigned(&world.text(JOURNAL), &signer, &known);
    // The log goes on, with another key: the earlier cosigned head was signed by a key that is
    // destroyed.
    world.write(1);
    let shown = proved_on(&older);
    assert_eq!(
        check(&shown, &witnessed(&key, &known)),
        Err(uncosigned.clone())
    );
    let note = cosigned(&world.text(JOURNAL), &signer, &known);
    let shown = proved_on(&note);
    assert_eq!(check(&shown, &witnessed(&key, &known)), Ok(3));
    assert_eq!(check(&shown, &witnessed(&key, &stranger)), Err(uncosigned));
    assert_eq!(check(&shown, &alone), Err(EntryProofError::NotVouched));
    let forged = note.replace("\u{2014} witness", "\u{2014} witnesz");
    let forged = Recipient {
        stream,
        journal: Some(forged),
        ..Recipient::default()
    };
    let shown = world.prove(3, &forged).unwrap();
    assert!(matches!(
        check(&shown, &witnessed(&key, &known)),
        Err(EntryProofError::NotCosigned { .. })
    ));
}

#[test]
fn the_witness_key_counts_with_a_remembered_head_from_which_the_journal_grew() {
    let world = World::new("example.com/log");
    world.write(KEYS);
    let (kept, stream) = (world.text(JOURNAL), world.text(DEFAULT));
    world.write(2);
    let key = world.witness_key();
    let known = head(&kept);
    // On the head that was kept, and on one that grew from it.
    for (index, stream) in [(3, Some(stream)), (21, None)] {
        let recipient = Recipient {
            stream,
            journal: Some(kept.clone()),
            ..Recipient::default()
        };
        let proof = world.prove(index, &recipient).unwrap();
        assert_eq!(check(&proof, &remembering(&key, &known)), Ok(index));
        let other = Checkpoint::new(known.origin(), known.size(), leaf_hash(b"other")).unwrap();
        let refused = EntryProofError::OtherHistory { kept: known.size() };
        assert_eq!(check(&proof, &remembering(&key, &other)), Err(refused));
        let size = proof
            .check_with(&remembering(&key, &known))
            .unwrap()
            .journal
            .unwrap()
            .size();
        let smaller = Checkpoint::new(known.origin(), known.size() - 1, *known.root()).unwrap();
        let refused = EntryProofError::NotCompared {
            kept: known.size() - 1,
            size,
        };
        assert_eq!(check(&proof, &remembering(&key, &smaller)), Err(refused));
    }
    let newest = head(&world.text(JOURNAL));
    assert_eq!(
        check(&world.default_proof(3), &remembering(&key, &newest)),
        Ok(3)
    );
    let longer = Checkpoint::new(newest.origin(), newest.size() + 1, *newest.root()).unwrap();
    let recipient = Recipient {
        journal: Some(longer.sign(&[&witness(5).0]).unwrap()),
        ..Recipient::default()
    };
    let refused = world.prove(21, &recipient).err().unwrap();
    assert!(matches!(refused, ProveError::Head { .. }), "{refused}");
}

/// A remembered head is compared, with any key: an expired signing key can sign another journal.
#[test]
fn a_remembered_head_is_compared_for_every_key() {
    let world = World::new("example.com/log");
    world.write(2);
    let anchor = world.geometry().anchor().clone();
    let newest = head(&world.text(JOURNAL));
    let other = Checkpoint::new(newest.origin(), newest.size(), Hash::new([1; 32])).unwrap();
    let trust = Trust {
        journal: Some(&other),
        ..Trust::key(&anchor)
    };
    let refused = check(&world.default_proof(0), &trust);
    assert!(matches!(refused, Err(EntryProofError::OtherHistory { .. })));
}

/// The head of another stream or log, or an edited one, was called broken evidence of a log that is intact. What is wrong is the recipient's file, and the
/// error says so.
#[test]
fn a_wrong_head_of_the_recipient_is_no_damage_of_the_log() {
    let world = World::new("example.com/log");
    world.write(2);
    let other = World::new("example.com/other");
    other.write(2);
    let namesake = World::new("example.com/log");
    namesake.write(2);
    // The last bytes of the signature are other ones.
    let edited = |mut note: String| {
        note.truncate(note.len() - 5);
        format!("{note}AAAA\n")
    };
    let of_another = |note: &str| {
        let head = head(note);
        let other = Checkpoint::new(head.origin(), head.size(), leaf_hash(b"other")).unwrap();
        other.sign(&[&witness(5).0]).unwrap()
    };
    let (stream, journal) = (world.text(DEFAULT), world.text(JOURNAL));
    let stream_heads = [
        world.text("streams/heads/checkpoint"),
        journal.clone(),
        other.text(DEFAULT),
        namesake.text(DEFAULT),
        of_another(&stream),
        edited(stream),
        "no checkpoint".to_owned(),
    ];
    let stream_heads = stream_heads.map(|note| Recipient {
        stream: Some(note),
        ..Recipient::default()
    });
    let journal_heads = [
        world.text(DEFAULT),
        other.text(JOURNAL),
        namesake.text(JOURNAL),
        of_another(&journal),
    ];
    let journal_heads = journal_heads.map(|note| Recipient {
        journal: Some(note),
        ..Recipient::default()
    });
    for recipient in stream_heads.iter().chain(&journal_heads) {
        let refused = world.prove(0, recipient).err().unwrap();
        assert!(
            matches!(refused, ProveError::Head { .. }),
            "{recipient:?}: {refused:?}"
        );
    }
}

/// `verify` called an honest log another one when it was given a later key than the first, or the
/// witness key.
#[test]
fn any_signing_key_of_the_log_verifies_it_and_no_other_key_does() {
    let world = World::new("example.com/log");
    world.write(4);
    let middle = world.newest();
    let before = world.verify(&middle).unwrap().keys;
    world.write(4);
    let newest = world.newest();
    let whole = world.verify(world.geometry().anchor()).unwrap();
    assert_eq!((whole.faults.len(), whole.known_key), (0, Some(1)));
    assert!(1 < before && before < whole.keys);
    let of_stream = VerifierKey::new("example.com/log/streams/default", *newest.key()).unwrap();
    for (known, number) in [
        (&middle, before),
        (&newest, whole.keys),
        (&of_stream, whole.keys),
    ] {
        let report = world.verify(known).unwrap();
        assert_eq!(report.faults, [], "{known}");
        assert_eq!(report.known_key, Some(number), "{known}");
    }
    let refused = world.verify(&world.witness_key());
    assert!(matches!(refused, Err(LogError::WitnessKey)));
    let renamed = VerifierKey::new("example.com/other", *newest.key()).unwrap();
    let foreign = SigningKey::from_seed("example.com/log", &[9; 32]).unwrap();
    for known in [&renamed, foreign.verifier_key()] {
        let report = world.verify(known).unwrap();
        let [fault] = &*report.faults else {
            panic!("{:?}", report.faults);
        };
        assert_eq!(fault.class, FaultClass::KeyChain);
        assert!(fault.detail.contains("this is another log"), "{fault}");
        assert_eq!(report.known_key, None);
    }
}

/// Continues a copy of the log with an expired key, and puts an older copy of it back.
#[test]
fn a_later_key_refuses_what_its_predecessors_made_without_it() {
    let world = World::new("example.com/log");
    world.write(2);
    let stolen = world.newest();
    let backup = || World::at(world.memory.clone_live());
    let (older, thief) = (backup(), backup());
    world.write(2);
    thief.write(2);
    let later = world.newest();
    assert_eq!(world.verify(&later).unwrap().faults, []);
    for world in [&older, &thief] {
        assert_eq!(world.verify(&stolen).unwrap().faults, [], "the older key");
        let report = world.verify(&later).unwrap();
        let classes: Vec<FaultClass> = report.faults.iter().map(|fault| fault.class).collect();
        assert_eq!(classes, [FaultClass::KeyChain]);
    }
}
