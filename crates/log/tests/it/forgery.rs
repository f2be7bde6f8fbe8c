//! Proofs forged with one key of a log, and the further checks that a recipient asked for.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::sync::Arc;

use probity_format::certificate::{Bound, Certificate, Link};
use probity_format::checkpoint::Checkpoint;
use probity_format::cosignature::WitnessKey;
use probity_format::frame::entry_leaf;
use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::note::{SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::proof::{
    Certified, EntryProof, EntryProofError, Evidence, Identity, KeyChain, Signers, Trust,
};
use probity_format::record::Record;
use probity_format::row::{encode_row, row_bytes};
use probity_format::segment::Place;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tree::{Hash, leaf_hash, root_of};
use probity_format::version::Version;
use probity_format::wrap::WrappedKind;
use probity_format::{Entry, Timestamp, v2};
use probity_log::clock::SystemClock;
use probity_log::prove::Recipient;
use probity_log::reader::Reader;
use probity_log::storage::{Memory, Storage as _};
use probity_log::{Log, LogLocation, Options, Proofs};

const LOG: &str = "example.com/audit";
const JOURNAL: &str = "streams/journal/checkpoint";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn entry(payload: &str) -> Entry<'_> {
    let time = Timestamp::from_nanoseconds(1_790_000_000_000_000_000).unwrap();
    Entry {
        payload: payload.as_bytes(),
        actor: "alice",
        ..Entry::new(time, "delete", b"customer:7")
    }
}

struct Stolen {
    seed: [u8; 32],
}

impl Stolen {
    fn named(&self, name: &str) -> SigningKey {
        SigningKey::from_seed(name, &self.seed).unwrap()
    }
}

struct World {
    memory: Memory,
    places: LogLocation,
}

impl World {
    /// A log with one entry.
    fn new(payload: &str) -> Self {
        let memory = Memory::new();
        let storage = Arc::new(memory.clone());
        let places = LogLocation::on(storage, Arc::new(Memory::new()), "the log");
        let config = StreamConfig {
            proofs: Proofs::Entry,
            ..StreamConfig::default()
        };
        let clock = Arc::new(SystemClock::new());
        let options = Options::default();
        Log::create_at(&places, LOG, &root(), config, options, clock as _)
            .unwrap()
            .close()
            .unwrap();
        let world = Self { memory, places };
        world.append(payload);
        world
    }

    /// Each opening certifies another key.
    fn append(&self, payload: &str) {
        let clock = Arc::new(SystemClock::new());
        let log = Log::open_at(&self.places, &root(), Options::default(), clock).unwrap();
        let mut appender = log.appender(&StreamName::default()).unwrap();
        appender.append_durable(&entry(payload)).unwrap();
        drop(appender);
        log.close().unwrap();
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.memory.read(path, 65_536).unwrap()).unwrap()
    }

    fn witness_key(&self) -> VerifierKey {
        let geometry = Geometry::parse(&self.text("probity.toml")).unwrap();
        geometry.witness().unwrap().clone()
    }

    /// The head of the journal as somebody keeps it.
    fn journal(&self) -> Checkpoint {
        head(&self.text(JOURNAL))
    }

    /// Unwraps a key, as a thief of the root key and of `keys/` can.
    fn stolen(&self, file: &str, kind: WrappedKind, label: &[u8]) -> Stolen {
        let geometry = Geometry::parse(&self.text("probity.toml")).unwrap();
        let wrapped = self.memory.read(file, 65_536).unwrap();
        let seed = root().wrapping_key(&geometry.fingerprint());
        let seed = seed.unwrap(kind, label, &wrapped).unwrap();
        Stolen {
            seed: *seed.expose(),
        }
    }

    fn stolen_witness(&self) -> Stolen {
        self.stolen("keys/witness.key", WrappedKind::Witness, b"witness")
    }

    fn stolen_signing(&self) -> Stolen {
        self.stolen("keys/signing.key", WrappedKind::Signing, b"signing")
    }

    fn proof(&self) -> EntryProof {
        let reader = Reader::open_at(&self.places, &root()).unwrap();
        let recipient = Recipient::default();
        let stream = StreamName::default();
        let prover = reader.prover(&stream, &recipient);
        reread(&prover.unwrap().prove(0).unwrap().proof)
    }
}

fn reread(proof: &EntryProof) -> EntryProof {
    EntryProof::parse(&proof.encode().unwrap()).unwrap()
}

fn head(text: &str) -> Checkpoint {
    Checkpoint::parse(SignedNote::parse(text.as_bytes()).unwrap().text()).unwrap()
}

/// A witness that has never seen a log.
fn stranger() -> WitnessKey {
    let key = SigningKey::from_seed("witness.example/w", &[3; 32]).unwrap();
    WitnessKey::new("witness.example/w", *key.verifier_key().key()).unwrap()
}

fn certified(proof: &mut EntryProof) -> &mut Certified {
    match &mut proof.signers {
        Signers::Certified(shown) => shown,
        Signers::Listed { .. } => panic!("the proof is of version 1"),
    }
}

/// A proof of version 1 in the name of `log`, of an entry that no log ever held, made with `key`
/// alone: no other data of a log is used.
fn of_version_1(log: &str, key: &Stolen) -> EntryProof {
    let stream = StreamName::default();
    let origin = format!("{log}/streams/{stream}");
    let text = "proofs=entry cipher=danger-none compression=none erasable=no";
    let config = StreamConfig::from_text(Version::V2, text).unwrap();
    let identity = Identity {
        log_id: [0; 16],
        anchor: [1; 32],
        config,
    };
    let anchor = VerifierKey::new(log, identity.anchor).unwrap();
    let geometry = Geometry::v2(log, identity.log_id, anchor).unwrap();
    let id = StreamId::new(&geometry.fingerprint(), &stream, &config);
    let entry = entry("forged");
    let mut row = vec![0; row_bytes(&entry)];
    encode_row(&entry, &mut row);
    let time = entry.time.nanoseconds();
    let sealing = v2::Sealing {
        proofs: config.proofs,
        cipher: config.cipher,
    };
    let rest = v2::RecordRest {
        sealing,
        epoch: 0,
        stream: id,
        commitment: [0; 32],
        place: Place {
            segment: 0,
            offset: 128,
        },
    };
    let record = Record {
        frame: 0,
        first_entry: 0,
        entries: 1,
        length: 1000,
        time_min: time,
        time_max: time,
        sealed_root: Hash::new([9; 32]),
        entry_root: *entry_leaf(&[0; 16], &row).as_bytes(),
        v2: Some(rest),
    };
    let tree = root_of(&[leaf_hash(&record.encode())]);
    let signer = key.named(&origin);
    let checkpoint = Checkpoint::new(&origin, 1, tree).unwrap();
    let proof = EntryProof {
        identity: Some(identity),
        signers: Signers::Listed {
            first_key: *signer.verifier_key().key(),
            links: Vec::new(),
        },
        record,
        place: 0,
        evidence: Evidence::Entry {
            salt: [0; 16],
            row,
            path: Vec::new(),
        },
        path: Vec::new(),
        checkpoint: checkpoint.sign(&[&signer]).unwrap(),
    };
    reread(&proof)
}

fn refusal(proof: &EntryProof, trust: &Trust<'_>) -> EntryProofError {
    match proof.check_with(trust) {
        Ok(_) => panic!("accepted with {trust:?}"),
        Err(error) => error,
    }
}

/// C1: a proof of version 1 has neither journal nor witness, and the recipient's requests to check
/// them were ignored. Somebody with one key of a log, even the witness key, could forge any entry
/// for recipients who had asked for more than a key.
#[test]
fn a_proof_that_shows_no_journal_satisfies_nobody_who_asks_for_one() {
    let world = World::new("true");
    let before = world.journal();
    let expired = world.stolen_signing();
    world.append("later");
    let (witness, kept) = (stranger(), world.journal());
    for key in [world.stolen_witness(), world.stolen_signing(), expired] {
        let forged = of_version_1(LOG, &key);
        for known in [key.named(LOG).verifier_key().clone(), world.witness_key()] {
            let alone = Trust::key(&known);
            for journal in [&before, &kept] {
                let trust = Trust {
                    journal: Some(journal),
                    ..alone
                };
                refusal(&forged, &trust);
            }
            let trust = Trust {
                witness: Some((&witness).into()),
                ..alone
            };
            refusal(&forged, &trust);
        }
        refusal(&forged, &Trust::key(&world.witness_key()));
    }
}

/// C2: the witness key was read from the proof. The forger makes a log of the same name, and lets
/// the witness key of the true one certify its newest key, as the first link.
#[test]
fn the_witness_key_begins_no_chain_of_signing_keys() {
    let (honest, own) = (World::new("true"), World::new("forged"));
    let witness = honest.stolen_witness().named(LOG);
    let mut proof = own.proof();
    let shown = certified(&mut proof);
    let newest = shown.links.last();
    let newest = newest.map_or(shown.first_key, |link| link.successor);
    let successor = VerifierKey::new(LOG, newest).unwrap();
    let note = Certificate::new(successor, Bound::EMPTY, Some(Bound::EMPTY)).sign(&witness);
    let link = Link::from_note(note.unwrap().as_bytes(), witness.verifier_key()).unwrap();
    shown.first_key = *witness.verifier_key().key();
    shown.links = vec![link];
    let proof = reread(&proof);
    let known = honest.witness_key();
    assert_eq!(
        refusal(&proof, &Trust::key(&known)),
        EntryProofError::NotVouched
    );
    // Neither a head kept from the forger's log, nor a witness that does not know the log, changes
    // that.
    let (journal, stranger) = (own.journal(), stranger());
    let trust = Trust {
        journal: Some(&journal),
        ..Trust::key(&known)
    };
    assert_eq!(refusal(&proof, &trust), EntryProofError::OtherWitnessKey);
    let trust = Trust {
        witness: Some((&stranger).into()),
        ..Trust::key(&known)
    };
    refusal(&proof, &trust);
    // A chain file in the place of the links.
    let proof = own.proof();
    let chain = KeyChain::new(witness.verifier_key(), vec![link]).unwrap();
    let trust = Trust {
        chain: Some(&chain),
        ..Trust::key(&known)
    };
    assert_eq!(refusal(&proof, &trust), EntryProofError::NotVouched);
}

/// C2: the witness key of a log is named `LOG/streams/journal`; a log of that name took it for a
/// signing key of its own.
#[test]
fn no_log_is_named_as_a_stream_of_another() {
    let world = World::new("true");
    let name = format!("{LOG}/streams/journal");
    let forged = of_version_1(&name, &world.stolen_witness());
    let refused = refusal(&forged, &Trust::key(&world.witness_key()));
    assert!(
        matches!(refused, EntryProofError::Checkpoint(_)),
        "{refused}"
    );
    let places = LogLocation::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "another");
    for name in [name.as_str(), "a/streams/b", "a/streams/"] {
        let (options, clock) = (Options::default(), Arc::new(SystemClock::new()));
        let config = StreamConfig::default();
        let made = Log::create_at(&places, name, &root(), config, options, clock as _);
        let refused = made.unwrap_err().to_string();
        assert!(refused.contains("/streams/"), "{refused}");
    }
}
