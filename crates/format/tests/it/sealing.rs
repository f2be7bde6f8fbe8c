//! Guarantees of sealing: unique keys and nonces, bound clear bytes, key commitments, and limits on
//! decompression.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, and tampers at known places"
)]

use std::collections::BTreeSet;

use probity_format::compress::{Compression, Decompressor};
use probity_format::content::check_directory;
use probity_format::frame::{
    DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, Frame, TAG_BYTES,
};
use probity_format::keys::{EpochKey, EpochSalt, MasterKey, Secret, SectionKey, SubjectKey};
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys, SubjectSection, fill_salts};
use probity_format::share::{PersonKey, section_key};
use probity_format::stream::{Cipher, Proofs, StreamConfig, StreamId};
use probity_format::{DecodeError, Entry, Subjects, Timestamp, Version};
use proptest::prelude::*;

const STREAM: StreamId = StreamId::from_bytes([7; 32]);

/// Byte range of the authenticator in a header.
const AUTHENTICATOR: std::ops::Range<usize> = 116..148;

/// Subject keys with one secret per subject, as in a log.
struct Keys;

fn secret(subject: &str) -> SubjectKey {
    let mut bytes = [0x55; 32];
    bytes[..subject.len()].copy_from_slice(subject.as_bytes());
    SubjectKey::new(Secret::new(bytes))
}

fn pseudonym(subject: &str) -> [u8; 16] {
    let mut pseudonym = [0; 16];
    let length = subject.len().min(16);
    pseudonym[..length].copy_from_slice(&subject.as_bytes()[..length]);
    pseudonym
}

impl SubjectKeys for Keys {
    fn section_key(
        &mut self,
        subjects: &str,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        let pseudonyms: Vec<u8> = subjects.split('\n').flat_map(pseudonym).collect();
        if !subjects.contains('\n') {
            let keys = [&secret(subjects)];
            let version = Version::NEWEST;
            let key = SubjectKey::section_key(&keys, version, &STREAM, salt, frame, section);
            return Ok(SubjectSection {
                pseudonyms,
                key,
                people: Vec::new(),
            });
        }
        let people: Vec<PersonKey> = (0..)
            .zip(subjects.split('\n'))
            .map(|(place, name)| {
                PersonKey::new(&secret(name), &STREAM, salt, frame, section, place)
            })
            .collect();
        Ok(SubjectSection {
            pseudonyms,
            key: section_key(&[8; 32], &people),
            people,
        })
    }
}

fn rows() -> Vec<u8> {
    let mut rows = Vec::new();
    for (number, subject) in (0..).zip(["alice", "bob", "", "alice"]) {
        let entry = Entry {
            subjects: Subjects::joined(subject),
            payload: b"the same payload every time",
            ..Entry::new(
                Timestamp::from_nanoseconds(number).unwrap(),
                "read",
                b"user:7",
            )
        };
        let start = rows.len();
        rows.resize(start + row_bytes(&entry), 0);
        encode_row(&entry, &mut rows[start..]);
    }
    rows
}

/// The public key in the certificate of these tests' epochs.
const CERTIFIED: [u8; 32] = [9; 32];

fn epoch(number: u32, salt: u8) -> EpochKey {
    uncertified(number, salt).certified_by(&CERTIFIED)
}

fn uncertified(number: u32, salt: u8) -> EpochKey {
    MasterKey::new(Secret::new([3; 32])).epoch_key(&STREAM, number, &EpochSalt::V3([salt; 16]))
}

fn sealed(config: StreamConfig, epoch: &EpochKey, frame: u64) -> Vec<u8> {
    sealed_with(config, epoch, frame, [7; 16])
}

fn sealed_with(config: StreamConfig, epoch: &EpochKey, frame: u64, fresh: [u8; 16]) -> Vec<u8> {
    let mut sealer = FrameSealer::new(config, Compression::DEFAULT).unwrap();
    sealed_by(&mut sealer, epoch, frame, fresh)
}

fn sealed_by(sealer: &mut FrameSealer, epoch: &EpochKey, frame: u64, fresh: [u8; 16]) -> Vec<u8> {
    let place = FramePlace {
        stream: STREAM,
        frame,
        first_entry: frame * 4,
        seed: 1,
        fresh,
    };
    let mut out = Vec::new();
    let record = sealer
        .seal(&place, epoch, &[&rows()], &mut Keys, &mut out)
        .unwrap();
    out.truncate(record.length as usize);
    out
}

fn config(proofs: Proofs, erasable: bool) -> StreamConfig {
    StreamConfig {
        proofs,
        erasable,
        ..StreamConfig::default()
    }
}

/// Returns the key of section `number`, derived as a reader derives it.
fn key(frame: &Frame<'_>, epoch: &EpochKey, number: u32) -> SectionKey {
    let header = &frame.clear.header;
    let commitment = frame.clear.sections[number as usize].key_commitment;
    let own = epoch.section_key(&header.salt, header.frame, number);
    if own.matches(&commitment) {
        return own;
    }
    let names = ["alice", "bob"].into_iter();
    let mut keys = names.map(|name| {
        let (salt, frame) = (&header.salt, header.frame);
        let keys = [&secret(name)];
        SubjectKey::section_key(&keys, header.version(), &STREAM, salt, frame, number)
    });
    keys.find(|key| key.matches(&commitment)).unwrap()
}

#[test]
fn no_two_sections_of_a_stream_have_the_same_key() {
    // A nonce is frame index and section number, and every section has its own key, so no pair
    // repeats. Not even a key repeats over frames, sections, epochs and openings with another salt.
    let mut commitments = BTreeSet::new();
    let mut count = 0;
    for (number, salt) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        // A frame with one section, or with those of the subjects as well.
        let config = config(Proofs::Section, number == 2);
        for frame in 0..50 {
            let bytes = sealed(config, &epoch(number, salt), frame);
            for section in Frame::parse(&bytes).unwrap().clear.sections {
                commitments.insert(section.key_commitment);
                count += 1;
            }
        }
    }
    assert_eq!(commitments.len(), count);
    assert!(count >= 500, "{count}");
}

#[test]
fn the_same_entries_never_give_the_same_bytes_in_another_place() {
    let mut sealer = FrameSealer::new(config(Proofs::Section, false), Compression::None).unwrap();
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for (number, salt) in [(1, 1), (1, 2), (2, 1)] {
        for frame in 0..20 {
            let bytes = sealed_by(&mut sealer, &epoch(number, salt), frame, [7; 16]);
            let parsed = Frame::parse(&bytes).unwrap();
            let body = parsed.sealed(&parsed.clear.sections[0]).to_vec();
            // Compares the whole and each block: a repeated keystream would repeat a block.
            for block in body.chunks_exact(16) {
                seen.insert(block.to_vec());
                count += 1;
            }
        }
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn everything_in_clear_that_a_section_depends_on_is_bound_to_it() {
    for proofs in Proofs::ALL {
        for erasable in [false, true] {
            let epoch = epoch(1, 1);
            let bytes = sealed(config(proofs, erasable), &epoch, 9);
            let frame = Frame::parse(&bytes).unwrap();
            for number in 0..frame.clear.header.sections {
                let key = key(&frame, &epoch, number);
                let open = |bytes: &[u8]| {
                    let frame = Frame::parse(bytes)?;
                    frame
                        .open(number, Some(&key), &mut Decompressor::default())
                        .map(drop)
                };
                assert_eq!(open(&bytes), Ok(()));
                let entry = FRAME_HEADER_BYTES + number as usize * DIRECTORY_ENTRY_BYTES;
                let section = frame.clear.sections[number as usize];
                // The authenticator is computed from the sealed sections, so their associated data
                // does not contain it.
                let bound = (0..FRAME_HEADER_BYTES)
                    .filter(|place| !AUTHENTICATOR.contains(place))
                    .chain(entry..entry + DIRECTORY_ENTRY_BYTES)
                    .chain(section.start..section.start + section.length);
                for place in bound {
                    for bit in 0..8 {
                        let mut bent = bytes.clone();
                        bent[place] ^= 1 << bit;
                        assert!(open(&bent).is_err(), "byte {place}, bit {bit}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_sealed_section_opens_in_no_other_place() {
    let epoch = epoch(1, 1);
    let config = config(Proofs::Section, true);
    let (one, other) = (sealed(config, &epoch, 1), sealed(config, &epoch, 2));
    let (from, to) = (Frame::parse(&one).unwrap(), Frame::parse(&other).unwrap());
    for number in 0..from.clear.header.sections {
        let key = key(&from, &epoch, number);
        let moved = from.sealed(&from.clear.sections[number as usize]);
        for place in 0..to.clear.header.sections {
            let opened = to
                .clear
                .open(place, moved, Some(&key), &mut Decompressor::default());
            assert!(
                opened.is_err(),
                "section {number} as {place} of the next frame"
            );
            if place != number {
                let opened =
                    from.clear
                        .open(place, moved, Some(&key), &mut Decompressor::default());
                assert!(opened.is_err(), "section {number} as {place}");
            }
        }
    }
}

#[test]
fn a_key_that_was_not_committed_to_is_refused_before_anything_is_opened() {
    let epoch = epoch(1, 1);
    let bytes = sealed(config(Proofs::Section, false), &epoch, 1);
    let frame = Frame::parse(&bytes).unwrap();
    let stranger = SectionKey::from_bytes(&[1; 32]);
    let refused = frame.open(0, Some(&stranger), &mut Decompressor::default());
    let refused = refused.map(drop).unwrap_err();
    assert_eq!(refused.reason, "has another key than the one given");
    let none = frame.open(0, None, &mut Decompressor::default());
    assert_eq!(none.map(drop).unwrap_err().reason, "needs a key");
}

#[test]
fn a_section_key_opens_its_section_and_says_nothing_of_others() {
    let epoch = epoch(1, 1);
    let bytes = sealed(config(Proofs::Section, true), &epoch, 1);
    let frame = Frame::parse(&bytes).unwrap();
    let sections = frame.clear.header.sections;
    for number in 0..sections {
        // The bare key, as in a proof.
        let shown = SectionKey::from_bytes(key(&frame, &epoch, number).expose());
        for place in 0..sections {
            let opened = frame.open(place, Some(&shown), &mut Decompressor::default());
            assert_eq!(opened.is_ok(), place == number);
        }
    }
}

#[test]
fn a_frame_of_a_copied_machine_has_other_keys() {
    // S25: two machines restored from one memory snapshot sealed different texts under one key and
    // nonce. Each frame now draws its own random bytes, and every section key depends on them.
    let epoch = epoch(1, 1);
    for erasable in [false, true] {
        let config = config(Proofs::Section, erasable);
        let one = sealed_with(config, &epoch, 9, [1; 16]);
        let other = sealed_with(config, &epoch, 9, [2; 16]);
        let commitments = |bytes: &[u8]| -> BTreeSet<[u8; 32]> {
            let sections = Frame::parse(bytes).unwrap().clear.sections;
            sections.iter().map(|s| s.key_commitment).collect()
        };
        assert!(commitments(&one).is_disjoint(&commitments(&other)));
    }
}

#[test]
fn only_the_key_of_the_epoch_authenticates_a_frame_and_every_bit_counts() {
    // S3, S4: an attacker with write access to files appended well-formed frames, which the next
    // opening signed. Authenticators now need a secret key. A frame of a copy that was opened
    // elsewhere with the same keys is refused too: the journal lacks its epoch's certificate.
    let mine = epoch(1, 1);
    let salt = EpochSalt::V3([1; 16]);
    let (other_master, other_stream) = (Secret::new([4; 32]), StreamId::from_bytes([8; 32]));
    let strangers = [
        epoch(1, 2),
        epoch(2, 1),
        uncertified(1, 1),
        uncertified(1, 1).certified_by(&[10; 32]),
        MasterKey::new(other_master)
            .epoch_key(&STREAM, 1, &salt)
            .certified_by(&CERTIFIED),
        MasterKey::new(Secret::new([3; 32]))
            .epoch_key(&other_stream, 1, &salt)
            .certified_by(&CERTIFIED),
    ];
    for cipher in Cipher::ALL {
        for (proofs, erasable) in [
            (Proofs::Section, false),
            (Proofs::Section, true),
            (Proofs::Entry, false),
        ] {
            let config = StreamConfig {
                cipher,
                ..config(proofs, erasable)
            };
            let bytes = sealed(config, &mine, 3);
            let frame = Frame::parse(&bytes).unwrap();
            assert!(frame.is_whole() && frame.authenticated(&mine));
            for stranger in &strangers {
                assert!(!frame.authenticated(stranger));
            }
            // All bytes but the trailer, which anybody can compute.
            for place in 0..bytes.len() - FRAME_TRAILER_BYTES {
                let mut bad = bytes.clone();
                bad[place] ^= 1 << (place % 8);
                let accepted = Frame::parse(&bad).is_ok_and(|frame| frame.authenticated(&mine));
                assert!(!accepted, "byte {place} of {config}");
            }
        }
    }
}

#[test]
fn salts_differ_for_every_entry_and_section_and_are_the_same_one_by_one() {
    let epoch = epoch(1, 1);
    let salt = epoch.frame_salt(&[7; 16]);
    let (one, other) = (
        epoch.section_key(&salt, 1, 0),
        epoch.section_key(&salt, 2, 0),
    );
    let mut together = vec![0; 16 * 300];
    fill_salts(Some(one.salt_key()), 0, &mut together).unwrap();
    let mut seen = BTreeSet::new();
    for (place, salt) in together.chunks_exact(16).enumerate() {
        let mut alone = [0; 16];
        fill_salts(Some(one.salt_key()), place, &mut alone).unwrap();
        assert_eq!(alone, salt, "entry {place}");
        seen.insert(alone);
        fill_salts(Some(other.salt_key()), place, &mut alone).unwrap();
        seen.insert(alone);
    }
    assert_eq!(seen.len(), 600);
}

#[test]
fn a_body_that_says_it_opens_to_more_than_it_may_is_refused_at_once() {
    let clear = StreamConfig {
        cipher: Cipher::DangerNone,
        ..config(Proofs::Section, false)
    };
    let bytes = sealed(clear, &epoch(1, 1), 1);
    let start = Frame::parse(&bytes).unwrap().clear.sections[0].start;
    for length in [u32::MAX, 1 << 30, 16_777_217] {
        let mut bomb = bytes.clone();
        // The plain length, after the compressor's code and the length of the packed part.
        bomb[start + 5..start + 9].copy_from_slice(&length.to_le_bytes());
        let frame = Frame::parse(&bomb).unwrap();
        let opened = frame.open(0, None, &mut Decompressor::default());
        let reason = opened.map(drop).unwrap_err().reason;
        assert_eq!(
            reason,
            "says it decompresses to more than a section may hold"
        );
    }
}

#[test]
fn a_directory_that_the_shared_section_does_not_call_for_is_found() {
    let epoch = epoch(1, 1);
    for cipher in Cipher::ALL {
        for erasable in [false, true] {
            let config = StreamConfig {
                cipher,
                ..config(Proofs::Section, erasable)
            };
            let bytes = sealed(config, &epoch, 3);
            let frame = Frame::parse(&bytes).unwrap();
            assert_eq!(frame.clear.sections.len(), if erasable { 4 } else { 1 });
            let key = (cipher == Cipher::Aes256Gcm).then(|| key(&frame, &epoch, 0));
            let body = frame.open(0, key.as_ref(), &mut Decompressor::default());
            let body = body.unwrap();
            let shared = body.columns().unwrap();
            assert_eq!(check_directory(&frame.clear, &shared, erasable), Ok(()));
            assert!(check_directory(&frame.clear, &shared, !erasable).is_err());
            // The entry counts of header and sections, one too high or one too low.
            let of_section = |number| FRAME_HEADER_BYTES + number * DIRECTORY_ENTRY_BYTES + 4;
            let numbers = (0..frame.clear.sections.len()).map(of_section);
            for place in numbers.chain([12]) {
                for number in [bytes[place] + 1, bytes[place] - 1] {
                    let mut bent = bytes.clone();
                    bent[place] = number;
                    let refused = Frame::parse(&bent)
                        .and_then(|bent| check_directory(&bent.clear, &shared, erasable));
                    assert!(refused.is_err(), "byte {place}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_sealed_for_a_stream_of_version_2() {
    for config in [
        StreamConfig::journal(Version::V2),
        config(Proofs::Frame, false),
    ] {
        assert!(FrameSealer::new(config, Compression::DEFAULT).is_err());
    }
}

proptest! {
    #[test]
    fn what_was_sealed_opens_as_what_it_was(
        frame in any::<u64>(),
        salt in any::<u8>(),
        erasable in any::<bool>(),
        proofs in 0_usize..2,
    ) {
        // The index of the first entry is four times the frame's index.
        let frame = frame >> 3;
        let epoch = epoch(1, salt);
        let bytes = sealed(config(Proofs::ALL[proofs], erasable), &epoch, frame);
        let parsed = Frame::parse(&bytes).unwrap();
        prop_assert!(parsed.is_whole());
        let key = key(&parsed, &epoch, 0);
        let body = parsed.open(0, Some(&key), &mut Decompressor::default()).unwrap();
        let columns = body.columns().unwrap();
        prop_assert_eq!(columns.len(), 4);
        for section in &parsed.clear.sections {
            prop_assert!(section.length > TAG_BYTES);
        }
    }
}

#[test]
fn an_epoch_without_its_certificate_seals_nothing() {
    let place = FramePlace {
        stream: STREAM,
        frame: 0,
        first_entry: 0,
        seed: 1,
        fresh: [7; 16],
    };
    let config = config(Proofs::Section, false);
    let mut sealer = FrameSealer::new(config, Compression::DEFAULT).unwrap();
    let sealed = sealer.seal(
        &place,
        &uncertified(1, 1),
        &[&rows()],
        &mut Keys,
        &mut Vec::new(),
    );
    assert!(sealed.is_err());
}
