//! Entries about several people: any of them opens their section, and it holds nothing of erased
//! people.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, and tampers at known places"
)]

use probity_format::compress::{Compression, Decompressor};
use probity_format::content::{Closed, Content, Own, check_directory};
use probity_format::frame::{Frame, entry_leaf};
use probity_format::keys::{
    EpochKey, EpochSalt, MasterKey, SECRET_BYTES, Secret, SectionKey, SubjectKey,
};
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{
    FramePlace, FrameSealer, SubjectKeys, SubjectSection, fill_salts, sealed_bytes_max,
};
use probity_format::share::{PersonKey, SharedBody, section_key};
use probity_format::stream::{Cipher, Proofs, StreamConfig, StreamId};
use probity_format::tree::root_of;
use probity_format::{DecodeError, Entry, Subjects, Timestamp, Version};

const STREAM: StreamId = StreamId::from_bytes([7; 32]);
/// Fixed content key in place of random bytes.
const CONTENT: [u8; 32] = [8; 32];
const ALL: [&str; 3] = ["anna", "bert", "carl"];

fn secret(subject: &str) -> SubjectKey {
    let mut bytes = [0x55; 32];
    // The end of a long name, because the test's long names differ there.
    let end = &subject.as_bytes()[subject.len().saturating_sub(32)..];
    bytes[..end.len()].copy_from_slice(end);
    SubjectKey::new(Secret::new(bytes))
}

struct Keys;

impl SubjectKeys for Keys {
    fn section_key(
        &mut self,
        subjects: &str,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        let pseudonyms = (1..).zip(subjects.split('\n'));
        let pseudonyms = pseudonyms.flat_map(|(number, _)| [number; 16]).collect();
        let person = |(place, name): (u8, &str)| {
            PersonKey::new(&secret(name), &STREAM, salt, frame, section, place)
        };
        let people: Vec<PersonKey> = (0..).zip(subjects.split('\n')).map(person).collect();
        if let [_] = people.as_slice() {
            let (keys, version) = ([&secret(subjects)], Version::NEWEST);
            let key = SubjectKey::section_key(&keys, version, &STREAM, salt, frame, section);
            let people = Vec::new();
            return Ok(SubjectSection {
                pseudonyms,
                key,
                people,
            });
        }
        let key = section_key(&CONTENT, &people);
        Ok(SubjectSection {
            pseudonyms,
            key,
            people,
        })
    }
}

/// Returns an entry about `subjects`, with the first as actor and the last as submitter.
fn entry(subjects: &str) -> Entry<'_> {
    Entry {
        subjects: Subjects::joined(subjects),
        actor: subjects.split('\n').next().unwrap_or_default(),
        submitter: subjects.split('\n').next_back().unwrap_or_default(),
        payload: b"payload",
        ..Entry::new(Timestamp::from_nanoseconds(5).unwrap(), "read", b"key")
    }
}

fn row(entry: &Entry<'_>) -> Vec<u8> {
    let mut row = vec![0; row_bytes(entry)];
    encode_row(entry, &mut row);
    row
}

fn epoch() -> EpochKey {
    MasterKey::new(Secret::new([3; 32]))
        .epoch_key(&STREAM, 1, &EpochSalt::V3([1; 16]))
        .certified_by(&[9; 32])
}

fn config(cipher: Cipher) -> StreamConfig {
    StreamConfig {
        proofs: Proofs::Entry,
        cipher,
        erasable: true,
        ..StreamConfig::default()
    }
}

fn sealed(config: StreamConfig, rows: &[u8]) -> Vec<u8> {
    let place = FramePlace {
        stream: STREAM,
        frame: 2,
        first_entry: 0,
        seed: 1,
        fresh: [7; 16],
    };
    let mut out = Vec::new();
    let mut sealer = FrameSealer::new(config, Compression::DEFAULT).unwrap();
    let record = sealer.seal(&place, &epoch(), &[rows], &mut Keys, &mut out);
    out.truncate(record.unwrap().length as usize);
    out
}

fn about_all() -> Vec<u8> {
    sealed(config(Cipher::Aes256Gcm), &row(&entry(&ALL.join("\n"))))
}

/// Returns the person keys of `living`, by place.
fn people(frame: &Frame<'_>, living: &[&str]) -> Vec<Option<PersonKey>> {
    let header = &frame.clear.header;
    let key = |(place, name): (u8, &&str)| {
        let key = || PersonKey::new(&secret(name), &STREAM, &header.salt, header.frame, 1, place);
        living.contains(name).then(key)
    };
    (0..).zip(&ALL).map(key).collect()
}

fn open(frame: &Frame<'_>, living: &[&str]) -> Result<SharedBody, DecodeError> {
    frame.open_shared(1, &people(frame, living), &mut Decompressor::default())
}

fn shared_key(frame: &Frame<'_>) -> SectionKey {
    let header = &frame.clear.header;
    epoch().section_key(&header.salt, header.frame, 0)
}

/// Reads the only entry with the keys of `living`, and calls `check` with it.
fn read(frame: &Frame<'_>, living: &[&str], check: &dyn Fn(&Entry<'_>, Closed)) {
    let key = shared_key(frame);
    let shared = frame
        .open(0, Some(&key), &mut Decompressor::default())
        .unwrap();
    let shared = shared.columns().unwrap();
    check_directory(&frame.clear, &shared, true).unwrap();
    let own = open(frame, living).ok();
    let own = own.as_ref().map(|own| Own {
        columns: own.body.columns().unwrap(),
        people: Some(&own.people),
    });
    let content = Content::by_subject(Version::NEWEST, shared, vec![own]).unwrap();
    let visited = content.for_each(&mut |placed| {
        check(&placed.entry, placed.closed);
        Ok::<(), DecodeError>(())
    });
    visited.unwrap();
}

#[test]
fn each_of_them_opens_the_section_and_sees_those_who_are_left() {
    let bytes = about_all();
    let frame = Frame::parse(&bytes).unwrap();
    for (living, actor, submitter) in [
        (&["anna", "bert", "carl"][..], "anna", "carl"),
        (&["bert", "carl"], "", "carl"),
        (&["anna", "carl"], "anna", "carl"),
        (&["anna", "bert"], "anna", ""),
        (&["bert"], "", ""),
    ] {
        read(&frame, living, &|entry, closed| {
            assert_eq!(entry.subjects.as_joined(), living.join("\n"));
            assert_eq!((entry.actor, entry.submitter), (actor, submitter));
            assert_eq!((entry.key, entry.payload), (&b"key"[..], &b"payload"[..]));
            assert_eq!(closed.subjects, 3 - living.len());
            assert_eq!(closed.actor, actor.is_empty());
            assert_eq!(closed.submitter, submitter.is_empty());
        });
    }
    read(&frame, &[], &|entry, closed| {
        assert!(entry.subjects.is_empty() && entry.actor.is_empty() && entry.key.is_empty());
        assert_eq!(
            (closed.subjects, closed.actor, closed.submitter),
            (3, true, true)
        );
    });
}

#[test]
fn nothing_that_is_left_holds_the_name_of_who_was_erased() {
    let bytes = about_all();
    let frame = Frame::parse(&bytes).unwrap();
    let holds = |bytes: &[u8], name: &str| bytes.windows(4).any(|found| found == name.as_bytes());
    let key = shared_key(&frame);
    let shared = frame
        .open(0, Some(&key), &mut Decompressor::default())
        .unwrap();
    let left = open(&frame, &["bert", "carl"]).unwrap();
    let parts = [
        &bytes,
        &shared.packed,
        &shared.plain,
        &left.body.packed,
        &left.body.plain,
    ];
    for part in parts {
        for name in ALL {
            assert!(!holds(part, name), "{name}");
        }
    }
    assert_eq!(left.people.as_joined(), "bert\ncarl");
}

#[test]
fn nobody_can_test_a_name_against_the_entry_without_the_key_of_who_was_erased() {
    let bytes = about_all();
    let frame = Frame::parse(&bytes).unwrap();
    let root_with = |salts: &[u8; SECRET_BYTES]| {
        let mut salt = [0; 16];
        fill_salts(Some(salts), 0, &mut salt).unwrap();
        let guessed = row(&entry(&ALL.join("\n")));
        *root_of(&[entry_leaf(&salt, &guessed)]).as_bytes()
    };
    let root = frame.clear.header.entry_root;
    let whole = open(&frame, &ALL).unwrap();
    assert_eq!(
        root_with(whole.key.salt_key()),
        root,
        "with everybody's key it is known"
    );
    // The attacker guesses the name and has every other key.
    let left = open(&frame, &["bert", "carl"]).unwrap();
    let keys = people(&frame, &["bert", "carl"]);
    let content = SectionKey::from_bytes(left.key.expose());
    let of = |places: &[usize]| {
        let people = places.iter().filter_map(|place| keys[*place].as_ref());
        section_key(left.key.expose(), people)
    };
    let others = [of(&[1, 2]), of(&[2, 1]), of(&[1]), of(&[2]), of(&[])];
    for key in [&left.key, &content].into_iter().chain(&others) {
        assert_ne!(root_with(key.salt_key()), root);
        assert_ne!(root_with(key.expose()), root);
    }
}

#[test]
fn a_share_that_does_not_open_with_its_key_is_damage_and_costs_nobody_else_anything() {
    let bytes = about_all();
    let frame = Frame::parse(&bytes).unwrap();
    let start = frame.clear.sections[1].start;
    // Each of the three names fits two blocks.
    let share = 1 + 64 + 16;
    for place in 1..share {
        let mut bad = bytes.clone();
        bad[start + place] ^= 1;
        let frame = Frame::parse(&bad).unwrap();
        assert!(open(&frame, &ALL).is_err(), "byte {place}");
        assert!(open(&frame, &["anna"]).is_err(), "byte {place}");
        assert!(open(&frame, &["bert", "carl"]).is_ok(), "byte {place}");
    }
    for blocks in [0, 1, 3, 9, 10, 255] {
        let mut bad = bytes.clone();
        bad[start] = blocks;
        let frame = Frame::parse(&bad).unwrap();
        assert!(open(&frame, &ALL).is_err(), "{blocks} blocks");
        assert!(open(&frame, &["carl"]).is_err(), "{blocks} blocks");
    }
    // Exchanges the shares of two people.
    let mut bad = bytes.clone();
    bad[start..start + 2 * share].rotate_left(share);
    let frame = Frame::parse(&bad).unwrap();
    assert!(open(&frame, &["anna"]).is_err() && open(&frame, &["bert"]).is_err());
    let frame = Frame::parse(&bytes).unwrap();
    for number in [2, 4] {
        let mut keys = people(&frame, &["anna"]);
        keys.resize_with(number, || None);
        let opened = frame.open_shared(1, &keys, &mut Decompressor::default());
        assert!(opened.is_err(), "as if it were about {number}");
    }
    let alone = SectionKey::from_bytes(&CONTENT);
    assert!(
        frame
            .open(1, Some(&alone), &mut Decompressor::default())
            .is_err()
    );
}

#[test]
fn a_stream_without_a_cipher_keeps_the_names_in_the_section() {
    let bytes = sealed(config(Cipher::DangerNone), &row(&entry(&ALL.join("\n"))));
    let frame = Frame::parse(&bytes).unwrap();
    let shared = frame.open(0, None, &mut Decompressor::default()).unwrap();
    let own = frame.open(1, None, &mut Decompressor::default()).unwrap();
    let own = Own {
        columns: own.columns().unwrap(),
        people: None,
    };
    let shared = shared.columns().unwrap();
    let content = Content::by_subject(Version::NEWEST, shared, vec![Some(own)]).unwrap();
    let visited = content.for_each(&mut |placed| {
        assert_eq!(placed.entry.subjects.as_joined(), ALL.join("\n"));
        assert_eq!(
            (placed.entry.actor, placed.entry.submitter),
            ("anna", "carl")
        );
        assert_eq!(placed.closed, Closed::NONE);
        Ok::<(), DecodeError>(())
    });
    visited.unwrap();
}

#[test]
fn sixty_four_people_with_the_longest_names_have_a_share_each() {
    let names: Vec<String> = (0..64).map(|number| format!("{number:0>255}")).collect();
    let bytes = sealed(config(Cipher::Aes256Gcm), &row(&entry(&names.join("\n"))));
    let frame = Frame::parse(&bytes).unwrap();
    let header = &frame.clear.header;
    let mut keys: Vec<Option<PersonKey>> = (0..64).map(|_| None).collect();
    let open = |keys: &[Option<PersonKey>]| {
        let opened = frame.open_shared(1, keys, &mut Decompressor::default())?;
        Ok::<String, DecodeError>(opened.people.as_joined().to_owned())
    };
    assert!(open(&keys).is_err(), "without any key");
    let (salt, number) = (&header.salt, header.frame);
    let key = |name: &str| PersonKey::new(&secret(name), &STREAM, salt, number, 1, 63);
    keys[63] = Some(key(&names[62]));
    assert!(open(&keys).is_err(), "the key of somebody else");
    keys[63] = Some(key(&names[63]));
    assert_eq!(open(&keys).unwrap(), names[63]);
}

#[test]
fn no_frame_is_longer_than_its_rows_say() {
    for people in [1_u8, 2, 5, 64] {
        for length in [1, 8, 31, 255] {
            let mut rows = Vec::new();
            for number in 0..40_u8 {
                let names: Vec<String> = (0..people)
                    .map(|place| {
                        let name =
                            char::from(b'!' + (number.wrapping_mul(7).wrapping_add(place) % 90));
                        format!("{name:_>length$}")
                    })
                    .collect();
                rows.extend(row(&entry(&names.join("\n"))));
            }
            let sealed = sealed(config(Cipher::Aes256Gcm), &rows).len();
            // Adds header, trailer and the columns of the shared section.
            let most = sealed_bytes_max(&rows) + 1024;
            assert!(sealed <= most, "{people} of {length}: {sealed} over {most}");
        }
    }
}
