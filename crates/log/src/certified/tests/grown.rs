//! Journals that a thief of one key continues behind a head that the recipient keeps.

use probity_format::certificate::Certificate;
use probity_format::proof::Proved;
use probity_format::tree::{node_hash, root_of};

use super::*;

const LOG: &str = "example.com/audit";

/// The public files of a log, and the keys that a thief signs with.
struct Thief {
    reader: Reader,
    files: Files,
    honest: String,
    /// The leaves of the genuine journal.
    leaves: Vec<Hash>,
}

/// The keys of one forgery.
struct Keys {
    /// Certifies the thief's own key in the forged frame.
    certifies: SigningKey,
    /// Signs the line of the witness key.
    witness: SigningKey,
}

/// Seed of a key of the thief's own making.
const OWN: [u8; 32] = [0x66; 32];

fn key(name: &str, seed: &[u8; 32]) -> SigningKey {
    SigningKey::from_seed(name, seed).unwrap()
}

fn sign(key: &SigningKey, text: &str) -> Vec<u8> {
    key.sign(text.as_bytes()).unwrap()
}

/// The log's signing key as it is.
fn signing_of(places: &LogLocation) -> SigningKey {
    let log = opened(places);
    let keys = log.core().keys.lock();
    let keys = keys.unwrap_or_else(PoisonError::into_inner);
    let key = keys.signer(LOG).unwrap();
    drop(keys);
    log.close().unwrap();
    key
}

/// The witness key of the log.
fn witness_of(places: &LogLocation, reader: &Reader, files: &Files) -> SigningKey {
    let log = opened(places);
    let keys = log.core().keys.lock();
    let keys = keys.unwrap_or_else(PoisonError::into_inner);
    let key = keys.witness(files, &reader.geometry).unwrap();
    drop(keys);
    log.close().unwrap();
    key
}

impl Thief {
    fn new(places: &LogLocation) -> Self {
        let reader = Reader::open_at(places, &root()).unwrap();
        let files = Files::of_log(places, &Options::default());
        let honest = proved(places);
        let mut thief = Self {
            reader,
            files,
            honest,
            leaves: Vec::new(),
        };
        let size = thief.certifying().newest().unwrap().checkpoint.size();
        let identity = Identity::journal(&thief.reader.geometry);
        let name = StreamName::journal();
        let mut records = Records::new(&thief.files, &name, identity, size);
        let leaf = |frame| leaf_hash(&records.of_frame(frame).unwrap().unwrap().encode());
        let leaves = (0..size).map(leaf).collect();
        thief.leaves = leaves;
        thief
    }

    fn certifying(&self) -> Certifying<'_> {
        Certifying {
            files: &self.files,
            geometry: &self.reader.geometry,
            history: &self.reader.history,
        }
    }

    /// The genuine head of the journal of `size` frames.
    fn head(&self, size: usize) -> Checkpoint {
        let root = root_of(&self.leaves[..size]);
        Checkpoint::new(&origin("journal"), u64::try_from(size).unwrap(), root).unwrap()
    }

    /// The genuine evidence for the newest key.
    fn genuine(&self) -> Certified {
        match EntryProof::parse(&self.honest).unwrap().signers {
            Signers::Certified(shown) => *shown,
            Signers::Listed { .. } => panic!("the log is of version 3"),
        }
    }

    /// The frame behind the genuine journal in which `keys` certify the thief's own key: the
    /// newest genuine one with other keys and another signature.
    fn frame(&self, keys: &Keys) -> (JournalFrame, Link) {
        let genuine = self.genuine().certificate;
        let (link, _) = self.reader.history.certificates.last().unwrap();
        let before = self.reader.history.keys.iter().rev().nth(1).unwrap();
        let signer = &keys.certifies;
        let own = key(LOG, &OWN).verifier_key().clone();
        let certificate = Certificate::new(own, link.journal, link.heads);
        let note = certificate.sign(signer).unwrap();
        let successor = VerifierKey::new(LOG, link.successor).unwrap();
        let text = Certificate::new(successor, link.journal, link.heads).encode();
        let mut section = genuine.section;
        let at = find(&section, text.as_bytes()).unwrap();
        section[at..at + note.len()].copy_from_slice(note.as_bytes());
        let (old, new) = (before.0.encode(), signer.verifier_key().encode());
        let at = find(&section, old.as_bytes()).unwrap();
        section[at..at + new.len()].copy_from_slice(new.as_bytes());
        let mut record = genuine.record;
        record.frame = u64::try_from(self.leaves.len()).unwrap();
        record.sealed_root = node_hash(&genuine.clear, &leaf_hash(&section));
        let frame = JournalFrame {
            record,
            path: Vec::new(),
            clear: genuine.clear,
            section,
        };
        let link = Link::from_note(note.as_bytes(), signer.verifier_key()).unwrap();
        (frame, link)
    }

    /// A proof on the journal that `keys` continued behind its genuine frames, which has grown
    /// from the genuine head of `kept` frames. The links begin `before`.
    fn forged(&self, keys: &Keys, kept: usize, before: &[Link], first: [u8; 32]) -> Certified {
        let (mut frame, link) = self.frame(keys);
        let mut leaves = self.leaves.clone();
        leaves.push(leaf_hash(&frame.record.encode()));
        let size = u64::try_from(leaves.len()).unwrap();
        let node = |level: u8, index: u64| {
            let from = usize::try_from(index << level).unwrap();
            Ok::<Hash, LogError>(root_of(&leaves[from..from + (1 << level)]))
        };
        frame.path = inclusion_proof(size - 1, size, node).unwrap();
        let head = Checkpoint::new(&origin("journal"), size, root_of(&leaves)).unwrap();
        let own = key(&origin("journal"), &OWN);
        let line = |key: &SigningKey| {
            let bytes = sign(key, &head.encode());
            Signature::new("", key.verifier_key().id(), bytes)
        };
        let old = u64::try_from(kept).unwrap();
        Certified {
            size,
            signatures: vec![line(&own), line(&keys.witness)],
            witness: *keys.witness.verifier_key().key(),
            certificate: frame,
            last: None,
            first_key: first,
            links: [before, &[link]].concat(),
            grown: Some(Grown {
                size: old,
                root: root_of(&leaves[..kept]),
                path: consistency_proof(old, size, node).unwrap(),
                newest: None,
            }),
        }
    }

    /// Checks a proof of a stream's head that the thief made up, under the journal `shown`.
    fn check(&self, shown: Certified, trust: &Trust<'_>) -> Result<Proved, EntryProofError> {
        let honest = EntryProof::parse(&self.honest).unwrap();
        let own = key(&origin("default"), &OWN);
        let leaf = leaf_hash(&honest.record.encode());
        let fake = Checkpoint::new(&origin("default"), 1, leaf).unwrap();
        let forged = EntryProof {
            signers: Signers::Certified(Box::new(shown)),
            path: Vec::new(),
            checkpoint: fake.sign(&[&own]).unwrap(),
            ..honest
        };
        let text = forged.encode().unwrap();
        EntryProof::parse(&text).unwrap().check_with(trust)
    }
}

fn find(within: &[u8], part: &[u8]) -> Option<usize> {
    within.windows(part.len()).position(|window| window == part)
}

/// A log one of whose signing keys was replaced three times; with that key.
fn replaced() -> (LogLocation, SigningKey) {
    let places = created();
    let key = signing_of(&places);
    age(&places, 3);
    let log = opened(&places);
    append(&log);
    log.close().unwrap();
    (places, key)
}

/// The thief of a replaced key appended a frame to the public journal in which it certifies a key
/// of theirs. The journal has grown from every head that a recipient keeps, and `check-proof` said
/// that the proof holds.
#[test]
fn a_key_that_was_replaced_certifies_nothing_behind_a_kept_head() {
    let (places, certifies) = replaced();
    let thief = Thief::new(&places);
    let keys = Keys {
        certifies,
        witness: key(&origin("journal"), &[5; 32]),
    };
    let stolen = keys.certifies.verifier_key().clone();
    let history = &thief.reader.history;
    let mut known = history.keys.iter();
    let place = known.position(|(known, _)| known.key() == stolen.key());
    let place = place.unwrap();
    let before: Vec<Link> = history.certificates[..place]
        .iter()
        .map(|(link, _)| *link)
        .collect();
    let anchor = thief.reader.anchor();
    let (_, replaced_at) = history.certificates[place];
    let from = usize::try_from(replaced_at).unwrap() + 1;
    let size = u64::try_from(thief.leaves.len()).unwrap();
    for kept in from..=thief.leaves.len() {
        let head = thief.head(kept);
        let older = u64::try_from(kept).unwrap();
        let certifying = thief.certifying();
        let shown_there = |place| certifying.newest_key(place, older, size).unwrap();
        let genuine = shown_there(history.certificates_within(older));
        for (known, before, first) in [
            (&stolen, &[][..], *stolen.key()),
            (anchor, &before[..], *anchor.key()),
        ] {
            let trust = Trust {
                journal: Some(&head),
                ..Trust::key(known)
            };
            for (newest, is_open) in [
                (None, true),
                (Some(genuine.clone()), true),
                (Some(shown_there(place)), false),
            ] {
                let mut shown = thief.forged(&keys, kept, before, first);
                if let Some(grown) = &mut shown.grown {
                    grown.newest = newest;
                }
                let refused = thief.check(shown, &trust).err().unwrap();
                assert_eq!(refused.leaves_open(), is_open, "{kept}: {refused:?}");
                assert_eq!(
                    matches!(refused, EntryProofError::Journal(_)),
                    !is_open,
                    "{kept}: {refused:?}"
                );
            }
        }
    }
}

/// A proof for the keeper of an older head shows which key was the newest there, and holds with any
/// key of the log. Over many keys it needs the chain.
#[test]
fn a_proof_leads_on_from_every_head_that_was_kept() {
    let (places, _) = replaced();
    let thief = Thief::new(&places);
    let reader = &thief.reader;
    let first = reader.history.certificates.first().unwrap().1;
    let witness = reader.geometry.witness().unwrap();
    let (last, _) = reader.history.keys.last().unwrap();
    let from = usize::try_from(first).unwrap() + 1;
    let proof = |reader: &Reader, head: &Checkpoint| {
        let recipient = crate::prove::Recipient {
            journal: Some(head.sign(&[&key(&origin("journal"), &OWN)]).unwrap()),
            ..crate::prove::Recipient::default()
        };
        let stream = StreamName::default();
        let made = reader.prover(&stream, &recipient).unwrap().prove(1);
        EntryProof::parse(&made.unwrap().proof.encode().unwrap()).unwrap()
    };
    for kept in from..=thief.leaves.len() {
        let head = thief.head(kept);
        let proof = proof(reader, &head);
        for known in [reader.anchor(), witness, last] {
            let trust = Trust {
                journal: Some(&head),
                ..Trust::key(known)
            };
            assert!(proof.check_with(&trust).is_ok(), "{kept}");
        }
    }
    age(&places, 20);
    let reader = Reader::open_at(&places, &root()).unwrap();
    let (head, chain) = (thief.head(from), key_chain(&places).unwrap());
    let proof = proof(&reader, &head);
    let trust = Trust {
        journal: Some(&head),
        ..Trust::key(witness)
    };
    let refused = proof.check_with(&trust).err();
    assert!(matches!(refused, Some(EntryProofError::NotFromKept { .. })));
    let trust = Trust {
        chain: Some(&chain),
        ..trust
    };
    assert!(proof.check_with(&trust).is_ok());
}

/// The thief of the witness key alone needs no signing key of the log: every key of the proof but
/// that one was their own.
#[test]
fn the_witness_key_alone_continues_no_journal_behind_a_kept_head() {
    let (places, _) = replaced();
    let thief = Thief::new(&places);
    let keys = Keys {
        certifies: key(LOG, &[0x77; 32]),
        witness: witness_of(&places, &thief.reader, &thief.files),
    };
    let witness = keys.witness.verifier_key();
    let first = *keys.certifies.verifier_key().key();
    let history = &thief.reader.history;
    let size = u64::try_from(thief.leaves.len()).unwrap();
    for kept in 1..=thief.leaves.len() {
        let head = thief.head(kept);
        let older = u64::try_from(kept).unwrap();
        let place = history.certificates_within(older);
        let genuine = thief.certifying().newest_key(place, older, size).ok();
        let trust = Trust {
            journal: Some(&head),
            ..Trust::key(witness)
        };
        for newest in [None, genuine] {
            let mut shown = thief.forged(&keys, kept, &[], first);
            if let Some(grown) = &mut shown.grown {
                grown.newest = newest;
            }
            let refused = thief.check(shown, &trust).err();
            assert!(refused.is_some_and(|error| error.leaves_open()), "{kept}");
        }
    }
}

/// A chain of keys that itself showed the key as replaced did not keep a forged proof from holding.
#[test]
fn a_key_that_the_chain_shows_as_replaced_signs_nothing_more() {
    let (places, certifies) = replaced();
    let thief = Thief::new(&places);
    let keys = Keys {
        certifies,
        witness: key(&origin("journal"), &[5; 32]),
    };
    let stolen = keys.certifies.verifier_key().clone();
    let chain = key_chain(&places).unwrap();
    for known in [thief.reader.anchor(), &stolen] {
        let trust = Trust {
            chain: Some(&chain),
            ..Trust::key(known)
        };
        let shown = thief.forged(&keys, thief.leaves.len(), &[], *stolen.key());
        let refused = thief.check(shown, &trust).err();
        assert!(matches!(refused, Some(EntryProofError::Replaced)));
        let honest = EntryProof::parse(&thief.honest).unwrap();
        assert!(honest.check_with(&trust).is_ok());
    }
}
