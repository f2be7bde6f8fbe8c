//! Proofs of single entries: whatever a file says, it proves one of the entries that were sealed, or nothing.

use probity_format::certificate::{Bound, Certificate, Link};
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::{Compression, Decompressor};
use probity_format::content::subject_section;
use probity_format::frame::{Frame, entry_leaf};
use probity_format::geometry::Geometry;
use probity_format::keys::{EpochKey, EpochSalt, MasterKey, Secret, SectionKey};
use probity_format::note::{Signature, Signer as _, SigningKey};
use probity_format::proof::{
    Certified, EntryProof, Evidence, Identity, JournalFrame, KeyChain, Opens, ShownSection, Signers,
};
use probity_format::record::Record;
use probity_format::row::Rows;
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys, SubjectSection, fill_salts};
use probity_format::share::{PersonKey, section_key};
use probity_format::stream::{Cipher, Proofs, StreamConfig, StreamId, StreamName};
use probity_format::tree::{Hash, inclusion_path_of, leaf_hash, root_of};
use probity_format::{DecodeError, Entry};

use crate::Target;
use crate::targets::entry::{entries, row};
use crate::targets::text;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "entry_proof",
        seeds: proof_seeds,
        check: check_proof,
    },
    Target {
        name: "key_chain",
        seeds: chain_seeds,
        check: check_chain,
    },
    Target {
        name: "certificate",
        seeds: certificate_seeds,
        check: check_certificate,
    },
];

const LOG: &str = "example.com/log";
const ID: [u8; 16] = [4; 16];
/// The place of the entry that the seeds prove.
const PLACE: u32 = 1;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(LOG, &[seed; 32]).expect("the name is a key name")
}

fn geometry() -> Geometry {
    Geometry::new(
        LOG,
        ID,
        key(1).verifier_key().clone(),
        *key(3).verifier_key().key(),
    )
    .expect("the parts fit")
}

fn certificate() -> String {
    let journal = Bound {
        size: 3,
        root: leaf_hash(b"journal"),
    };
    let heads = Bound {
        size: 2,
        root: leaf_hash(b"heads"),
    };
    let made = Certificate::new(key(2).verifier_key().clone(), journal, Some(heads));
    made.sign(&key(1)).expect("the certificate is signed")
}

fn section_of_subjects(_frame: u64, section: u32) -> SectionKey {
    SectionKey::from_bytes(&[section.to_le_bytes()[0]; 32])
}

struct Subjects;

impl SubjectKeys for Subjects {
    fn section_key(
        &mut self,
        subjects: &str,
        _salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        let pseudonyms = subjects
            .split('\n')
            .flat_map(|name| [u8::try_from(name.len()).unwrap_or(u8::MAX); 16]);
        let pseudonyms: Vec<u8> = pseudonyms.collect();
        let people = if pseudonyms.len() > 16 {
            people(pseudonyms.len() / 16)
        } else {
            Vec::new()
        };
        let key = section_of_subjects(frame, section);
        let is_shared = !people.is_empty();
        Ok(SubjectSection {
            pseudonyms,
            key: if is_shared {
                section_key(key.expose(), &people)
            } else {
                key
            },
            people,
        })
    }
}

fn people(count: usize) -> Vec<PersonKey> {
    let places = 0..u8::try_from(count).unwrap_or(u8::MAX);
    places
        .map(|place| PersonKey::from_bytes(&[place; 32]))
        .collect()
}

fn config(proofs: Proofs, cipher: Cipher, erasable: bool) -> StreamConfig {
    StreamConfig {
        proofs,
        cipher,
        erasable,
        ..StreamConfig::default()
    }
}

fn rows() -> Vec<u8> {
    entries().iter().flat_map(row).collect()
}

fn sealed(config: StreamConfig, epoch: &EpochKey, stream: StreamId) -> (Vec<u8>, Record) {
    let place = FramePlace {
        stream,
        frame: 2,
        first_entry: 40,
        seed: 1,
        fresh: [6; 16],
    };
    let mut bytes = Vec::new();
    let record = FrameSealer::new(config, Compression::DEFAULT)
        .and_then(|mut sealer| sealer.seal(&place, epoch, &[&rows()], &mut Subjects, &mut bytes))
        .expect("the seed is sealed");
    bytes.truncate(usize::try_from(record.length).unwrap_or(usize::MAX));
    (bytes, record)
}

/// The number of the section of the entry's subjects, 0 where that is the shared one.
fn own_section(frame: &Frame<'_>, shared: Option<&SectionKey>, erasable: bool) -> u32 {
    if !erasable {
        return 0;
    }
    let body = frame
        .open(0, shared, &mut Decompressor::default())
        .expect("the seed opens");
    let columns = body.columns().expect("the seed has columns");
    subject_section(&columns, usize::try_from(PLACE).unwrap_or_default())
}

fn evidence(frame: &Frame<'_>, epoch: &EpochKey, config: &StreamConfig) -> Evidence {
    let header = &frame.clear.header;
    let cipher = config.cipher == Cipher::Aes256Gcm;
    let shared = || epoch.section_key(&header.salt, header.frame, 0);
    let own = own_section(frame, cipher.then(shared).as_ref(), config.erasable);
    let key = |number| {
        let own = || section_of_subjects(header.frame, number);
        cipher.then(|| if number == 0 { shared() } else { own() })
    };
    let place = usize::try_from(PLACE).unwrap_or_default();
    let numbers = [0, own].into_iter().take(if own == 0 { 1 } else { 2 });
    if config.proofs == Proofs::Entry {
        let rows = rows();
        let rows: Vec<_> = Rows::new(&rows).collect();
        let salted = |index: usize| {
            let mut salt = [0; 16];
            // Erasable seeds with proofs of entries would need the section of each; there are none.
            fill_salts(key(0).as_ref().map(SectionKey::salt_key), index, &mut salt)
                .expect("the salt is derived");
            salt
        };
        let leaf = |(index, row): (usize, &probity_format::row::Row<'_>)| {
            entry_leaf(&salted(index), row.bytes)
        };
        let leaves: Vec<Hash> = rows.iter().enumerate().map(leaf).collect();
        Evidence::Entry {
            salt: salted(place),
            row: rows[place].bytes.to_vec(),
            path: inclusion_path_of(&leaves, place).expect("the leaf exists"),
        }
    } else {
        let leaves = frame.sealed_leaves();
        let path = |leaf| inclusion_path_of(&leaves, leaf).expect("the leaf exists");
        let shown = numbers.map(|number| {
            let place = usize::try_from(number).unwrap_or_default();
            let section = &frame.clear.sections[place];
            // The seed's entry with a section of its own is about two people, of whom one is shown.
            let of_people = || {
                Opens::People(
                    people(2)
                        .into_iter()
                        .zip([false, true])
                        .map(|(key, is_left)| is_left.then_some(key))
                        .collect(),
                )
            };
            let has_shares = number != 0 && section.key_commitment != [0; 32];
            ShownSection {
                number,
                key: if has_shares {
                    Some(of_people())
                } else {
                    key(number).map(Opens::Key)
                },
                sealed: frame.sealed(&frame.clear.sections[place]).to_vec(),
                path: path(place + 1),
            }
        });
        Evidence::Sections {
            clear: frame.clear.bytes().to_vec(),
            clear_path: path(0),
            shown: shown.collect(),
        }
    }
}

/// Frame `number` of the journal, which has this one entry; its path is not known yet.
fn journal_frame(stream: StreamId, number: u64, entry: &Entry<'_>) -> JournalFrame {
    let epoch = MasterKey::new(Secret::new([3; 32]))
        .epoch_key(&stream, 1, &EpochSalt::V3([5; 16]))
        .certified_by(&[9; 32]);
    let place = FramePlace {
        stream,
        frame: number,
        first_entry: 7,
        seed: 1,
        fresh: [6; 16],
    };
    let mut bytes = Vec::new();
    let record = FrameSealer::new(StreamConfig::JOURNAL, Compression::None)
        .and_then(|mut sealer| {
            sealer.seal(&place, &epoch, &[&row(entry)], &mut Subjects, &mut bytes)
        })
        .expect("the entry is sealed");
    bytes.truncate(usize::try_from(record.length).unwrap_or(usize::MAX));
    let frame = Frame::parse(&bytes).expect("the journal has a frame");
    JournalFrame {
        path: Vec::new(),
        clear: frame.sealed_leaves()[0],
        section: frame.sealed(&frame.clear.sections[0]).to_vec(),
        record,
    }
}

/// The second key as the journal shows it, from the first one on.
fn shown() -> Certified {
    let (time, note) = (entries()[0].time, certificate());
    let old = key(1).verifier_key().encode();
    let certify = Entry {
        payload: note.as_bytes(),
        actor: "probity",
        ..Entry::new(time, "key.certify", old.as_bytes())
    };
    let stream = StreamId::new(
        &geometry().fingerprint(),
        &StreamName::journal(),
        &StreamConfig::JOURNAL,
    );
    let newest = Entry {
        actor: "probity",
        ..Entry::new(time, "key.newest", b"2")
    };
    let mut certificate = journal_frame(stream, 2, &certify);
    let mut last = journal_frame(stream, 4, &newest);
    let mut leaves: Vec<Hash> = (0..5_u8).map(|leaf| leaf_hash(&[leaf])).collect();
    for (place, frame) in [(2, &certificate), (4, &last)] {
        leaves[place] = leaf_hash(&frame.record.encode());
    }
    certificate.path = inclusion_path_of(&leaves, 2).expect("the leaf exists");
    last.path = inclusion_path_of(&leaves, 4).expect("the leaf exists");
    let origin = geometry().stream_origin("journal");
    let head = Checkpoint::new(&origin, 5, root_of(&leaves)).expect("the parts fit");
    let sign = |seed| {
        let key = SigningKey::from_seed(&origin, &[seed; 32]).expect("the name is a key name");
        let signature = key.sign(head.encode().as_bytes()).expect("the key signs");
        Signature::new("", key.verifier_key().id(), signature)
    };
    let link = Link::from_note(note.as_bytes(), key(1).verifier_key());
    Certified {
        size: 5,
        signatures: vec![sign(2), sign(3)],
        witness: *key(3).verifier_key().key(),
        certificate,
        last: Some(last),
        first_key: *key(1).verifier_key().key(),
        links: vec![link.expect("the certificate opens")],
        grown: None,
    }
}

fn proof(config: StreamConfig) -> EntryProof {
    let geometry = geometry();
    let stream = StreamId::new(&geometry.fingerprint(), &StreamName::default(), &config);
    let epoch = MasterKey::new(Secret::new([3; 32]))
        .epoch_key(&stream, 4, &EpochSalt::V3([5; 16]))
        .certified_by(&[9; 32]);
    let (bytes, record) = sealed(config, &epoch, stream);
    let frame = Frame::parse(&bytes).expect("the seed is a frame");
    let mut leaves: Vec<Hash> = (0..5_u8).map(|leaf| leaf_hash(&[leaf])).collect();
    leaves[2] = leaf_hash(&record.encode());
    let origin = geometry.stream_origin("default");
    let signer = SigningKey::from_seed(&origin, &[2; 32]).expect("the name is a key name");
    let checkpoint = Checkpoint::new(&origin, 5, root_of(&leaves)).expect("the parts fit");
    let is_alone = config.proofs == Proofs::Entry;
    EntryProof {
        identity: (!is_alone).then(|| Identity {
            log_id: ID,
            anchor: *key(1).verifier_key().key(),
            config,
        }),
        signers: Signers::Certified(Box::new(shown())),
        record,
        place: PLACE,
        evidence: evidence(&frame, &epoch, &config),
        path: inclusion_path_of(&leaves, 2).expect("the leaf exists"),
        checkpoint: checkpoint
            .sign(&[&signer])
            .expect("the checkpoint is signed"),
    }
}

fn proof_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for cipher in Cipher::ALL {
        seeds.push(proof(config(Proofs::Entry, cipher, false)));
        for erasable in [false, true] {
            seeds.push(proof(config(Proofs::Section, cipher, erasable)));
        }
    }
    let encode = |proof: &EntryProof| {
        assert!(proof.check(key(1).verifier_key()).is_ok(), "the seed holds");
        proof.encode().expect("the seed is short").into_bytes()
    };
    seeds.iter().map(encode).collect()
}

/// A proof has one form; one that holds proves an entry that was sealed, at its own index.
fn check_proof(data: &[u8]) -> bool {
    let Some(Ok(proof)) = text(data).map(EntryProof::parse) else {
        return false;
    };
    assert_eq!(proof.encode().as_deref().ok(), text(data));
    let Ok(proved) = proof.check(key(1).verifier_key()) else {
        // The same form, though nothing is proved.
        return true;
    };
    let place = usize::try_from(proved.index - 40).expect("the index is in the frame");
    let shown = proved.entry().expect("what holds shows an entry");
    let sealed = entries()[place];
    // Who is erased or left out is counted, and everything else is as it was sealed.
    let left = Entry {
        subjects: shown.subjects,
        ..sealed
    };
    assert!(shown == left);
    let is_sealed = |name| sealed.subjects.iter().any(|known| known == name);
    assert!(shown.subjects.iter().all(is_sealed));
    let hidden = proved.closed.subjects;
    assert_eq!(
        shown.subjects.iter().count() + hidden,
        sealed.subjects.iter().count()
    );
    assert_eq!(proved.log, LOG);
    assert_eq!(proved.stream, StreamName::default());
    true
}

fn chain_seeds() -> Vec<Vec<u8>> {
    let first = key(1);
    let link = Link::from_note(certificate().as_bytes(), first.verifier_key());
    let links = vec![link.expect("the certificate opens")];
    let chain = |links| KeyChain::new(first.verifier_key(), links).expect("the chain is short");
    vec![chain(Vec::new()).encode(), chain(links).encode()]
}

/// A chain has one form; what it leads to from its key is a key that was certified.
fn check_chain(data: &[u8]) -> bool {
    let Ok(chain) = KeyChain::parse(data) else {
        return false;
    };
    assert_eq!(chain.encode(), data);
    if let Ok(keys) = chain.follow(key(1).verifier_key()) {
        let known = [key(1), key(2)].map(|key| *key.verifier_key().key());
        assert!(keys.iter().all(|key| known.contains(key)));
    }
    true
}

fn certificate_seeds() -> Vec<Vec<u8>> {
    vec![certificate().into_bytes()]
}

/// A certificate leads from its key to the one it was made for, and to no other.
fn check_certificate(data: &[u8]) -> bool {
    let Ok(opened) = Certificate::open(data, key(1).verifier_key()) else {
        return false;
    };
    assert_eq!(opened.successor(), key(2).verifier_key());
    let link = Link::from_note(data, key(1).verifier_key()).expect("what opens makes a link");
    assert_eq!(
        link.follow(key(1).verifier_key()).as_ref(),
        Ok(key(2).verifier_key())
    );
    true
}
