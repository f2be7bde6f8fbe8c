//! Entry proofs: the proved entry is the appended one, in every mode; no changed proof is accepted.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and attacks reach around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, Secret};
use probity_format::note::VerifierKey;
use probity_format::proof::{EntryProof, EntryProofError, Evidence};
use probity_format::{Claimed, Entry, Outcome, Subjects, Timestamp};
use probity_log::prove::ProveError;
use probity_log::reader::Reader;
use probity_log::{Cipher, Log, LogError, Options, Proofs, StreamConfig, StreamName};

const ORIGIN: &str = "example.com/log";
/// Entries of each stream, in frames of [`FRAME_ENTRIES`].
const ENTRIES: u32 = 23;
const FRAME_ENTRIES: u32 = 10;
/// The entry that is about alice alone.
const ALICE: u32 = 1;

pub(crate) fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options() -> Options {
    Options {
        frame_entries_max: FRAME_ENTRIES,
        segment_bytes_max: 8192,
        ..Options::default()
    }
}

/// Every configuration there is, with a stream's name for each.
pub(crate) fn configs() -> Vec<(StreamName, StreamConfig)> {
    let mut configs = Vec::new();
    for proofs in Proofs::ALL {
        for cipher in Cipher::ALL {
            for erasable in [false, true] {
                let name = format!(
                    "{}.{}.{}",
                    proofs.as_str(),
                    cipher.as_str(),
                    if erasable { "erasable" } else { "whole" }
                );
                let config = StreamConfig {
                    proofs,
                    cipher,
                    erasable,
                    ..StreamConfig::default()
                };
                configs.push((StreamName::new(&name).unwrap(), config));
            }
        }
    }
    configs
}

/// The content of entry `number`; the texts live as long as the test.
struct Said {
    key: String,
    subjects: String,
    payload: String,
}

impl Said {
    fn new(number: u32) -> Self {
        Self {
            key: format!("user:{}", number % 7),
            subjects: match number % 4 {
                0 => String::new(),
                1 => "alice".into(),
                2 => "bob".into(),
                _ => "alice\nbob".into(),
            },
            payload: format!("payload {number}"),
        }
    }

    fn entry(&self, number: u32) -> Entry<'_> {
        let time = 1_700_000_000_000_000_000 + i64::from(number);
        Entry {
            subjects: Subjects::joined(&self.subjects),
            payload: self.payload.as_bytes(),
            actor: "svc",
            purpose: "billing",
            outcome: Outcome::Absent,
            ..Entry::new(
                Timestamp::from_nanoseconds(time).unwrap(),
                "read",
                self.key.as_bytes(),
            )
        }
    }
}

/// Returns whether `entry` is entry `number` as appended, with the log's own fields: taken later,
/// nobody authenticated.
pub(crate) fn says(entry: &Entry<'_>, number: u32) -> bool {
    let said = Said::new(number);
    let said = Entry {
        taken: entry.taken,
        claimed: Claimed {
            actor: true,
            purpose: true,
        },
        ..said.entry(number)
    };
    entry.taken > Some(entry.time) && *entry == said
}

fn append(log: &Log, stream: &StreamName, numbers: std::ops::Range<u32>) {
    let mut appender = log.appender(stream).unwrap();
    for number in numbers {
        appender.append(&Said::new(number).entry(number)).unwrap();
    }
    appender.flush().unwrap();
}

/// A log with a stream of each configuration, written in two openings.
pub(crate) fn sample(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    Log::create(&path, ORIGIN, &root(), StreamConfig::default(), options())
        .unwrap()
        .close()
        .unwrap();
    // Alice's key is made first, alone: sealers of several batches would make keys in any order.
    let erasable = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    let first = StreamName::new("first").unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    log.create_stream(&first, erasable).unwrap();
    append(&log, &first, ALICE..ALICE + 1);
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for (name, config) in configs() {
        log.create_stream(&name, config).unwrap();
        append(&log, &name, 0..13);
    }
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for (name, _) in configs() {
        append(&log, &name, 13..ENTRIES);
    }
    log.close().unwrap();
    path
}

pub(crate) fn reader(path: &Path) -> Reader {
    Reader::open(path, &root()).unwrap()
}

/// The log's first verifier key, as its geometry names it.
pub(crate) fn anchor(path: &Path) -> VerifierKey {
    let text = fs::read_to_string(path.join("probity.toml")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("anchor = "));
    VerifierKey::parse(line.unwrap().trim_matches('"')).unwrap()
}

/// The key that signed a stream's checkpoint last, under the name of the checkpoint.
fn last_key(path: &Path, stream: &StreamName) -> VerifierKey {
    let text = fs::read_to_string(path.join(format!("streams/{stream}/log.vkey"))).unwrap();
    VerifierKey::parse(text.trim_end()).unwrap()
}

pub(crate) fn proof_text(reader: &Reader, stream: &StreamName, index: u64) -> String {
    reader
        .prove(stream, index, None)
        .unwrap()
        .proof
        .encode()
        .unwrap()
}

/// Parses and checks a proof as a recipient does; returns the proved index.
pub(crate) fn check(text: &str, key: &VerifierKey) -> Result<u64, EntryProofError> {
    Ok(EntryProof::parse(text)?.check(key)?.index)
}

#[test]
fn what_is_proved_is_what_was_appended_in_every_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let (reader, anchor) = (reader(&path), anchor(&path));
    for (stream, config) in configs() {
        for number in 0..ENTRIES {
            let text = proof_text(&reader, &stream, number.into());
            let parsed = EntryProof::parse(&text).unwrap();
            assert_eq!(parsed.encode().unwrap(), text, "a proof has one form");
            for key in [&anchor, &last_key(&path, &stream)] {
                let proved = parsed.check(key).unwrap();
                assert_eq!(proved.log, ORIGIN);
                assert_eq!(proved.stream, stream);
                assert_eq!(proved.index, u64::from(number));
                assert!(says(&proved.entry().unwrap(), number));
            }
            let proved = parsed.check(&anchor).unwrap();
            let shown = (proved.entries_whole, proved.entries_partly);
            let entries = proved.record.entries;
            match (config.proofs, config.erasable, config.cipher) {
                (Proofs::Entry, ..) => assert_eq!(shown, (1, 0), "the entry and no other"),
                (_, false, _) => {
                    assert_eq!(shown, (entries, 0), "all of the frame");
                }
                _ => {
                    assert!(shown.0 < entries, "no other subject's entries: {shown:?}");
                    assert_eq!(shown.0 + shown.1, entries);
                }
            }
        }
    }
}

#[test]
fn the_journal_proves_its_own_entries() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let text = proof_text(&reader(&path), &StreamName::journal(), 0);
    let proof = EntryProof::parse(&text).unwrap();
    let proved = proof.check(&anchor(&path)).unwrap();
    assert_eq!(proved.entry().unwrap().action, "log.create");
}

#[test]
fn a_later_key_leads_on_and_never_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let stream = StreamName::new("entry.aes-256-gcm.whole").unwrap();
    let mut keys = vec![last_key(&path, &stream)];
    for number in ENTRIES..ENTRIES + 4 {
        let log = Log::open(&path, &root(), options()).unwrap();
        append(&log, &stream, number..number + 1);
        log.close().unwrap();
        keys.push(last_key(&path, &stream));
    }
    let reader = reader(&path);
    let whole = proof_text(&reader, &stream, 20);
    let mut before = whole.len() + 1;
    for key in &keys {
        assert_eq!(check(&whole, key), Ok(20), "every key of the chain will do");
        let shorter = reader.prove(&stream, 20, Some(key)).unwrap();
        let shorter = shorter.proof.encode().unwrap();
        assert!(shorter.len() < before);
        before = shorter.len();
        assert_eq!(check(&shorter, key), Ok(20));
        assert!(matches!(
            check(&shorter, &anchor(&path)),
            Err(EntryProofError::UnknownKey)
        ));
    }
    let stranger = VerifierKey::new(ORIGIN, [9; 32]).unwrap();
    assert!(matches!(
        reader.prove(&stream, 20, Some(&stranger)),
        Err(ProveError::Key { .. })
    ));
    // A stream that did not grow since keeps its older checkpoint, whose key the journal shows
    // under the newest.
    let resting = StreamName::new("section.aes-256-gcm.whole").unwrap();
    let last = VerifierKey::new(ORIGIN, *keys.last().unwrap().key()).unwrap();
    let shown = reader.prove(&resting, 20, Some(&last)).unwrap();
    assert_eq!(check(&shown.proof.encode().unwrap(), &last), Ok(20));
    let text = proof_text(&reader, &resting, 20);
    assert_eq!(check(&text, &last), Ok(20));
    assert!(matches!(
        check(&text, keys.last().unwrap()),
        Err(EntryProofError::OtherName { .. })
    ));
}

#[test]
fn entries_without_a_checkpoint_or_without_a_place_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let stream = StreamName::new("section.aes-256-gcm.whole").unwrap();
    let options = Options {
        checkpoint_interval: std::time::Duration::from_hours(1),
        ..options()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    append(&log, &stream, ENTRIES..ENTRIES + 1);
    let reader = reader(&path);
    let error = reader.prove(&stream, ENTRIES.into(), None).err().unwrap();
    assert!(
        matches!(error, ProveError::Unpublished { covered, .. } if covered == u64::from(ENTRIES)),
        "{error}"
    );
    let error = reader.prove(&stream, 100, None).err().unwrap();
    assert!(
        matches!(error, ProveError::NoEntry { entries, .. } if entries == u64::from(ENTRIES) + 1),
        "{error}"
    );
    // A stream that has no checkpoint yet at all.
    append(&log, &StreamName::default(), 0..1);
    let error = reader.prove(&StreamName::default(), 0, None).err().unwrap();
    assert!(matches!(error, ProveError::Unpublished { .. }), "{error}");
    log.close().unwrap();
    for (stream, index) in [(&stream, u64::from(ENTRIES)), (&StreamName::default(), 0)] {
        assert_eq!(
            check(&proof_text(&reader, stream, index), &anchor(&path)),
            Ok(index)
        );
    }
    let nowhere = StreamName::new("nowhere").unwrap();
    let error = reader.prove(&nowhere, 0, None).err().unwrap();
    assert!(matches!(error, ProveError::Log(LogError::NoStream { .. })));
}

#[test]
fn an_erased_entry_cannot_be_proved_and_its_neighbours_still_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let earlier: Vec<(StreamName, String)> = configs()
        .into_iter()
        .map(|(stream, _)| (stream.clone(), proof_text(&reader(&path), &stream, 2)))
        .collect();
    // Bob is in entries 2, 3, 6, 7 and so on, alone or with alice.
    let log = Log::open(&path, &root(), options()).unwrap();
    log.erase("bob").unwrap().unwrap();
    log.close().unwrap();
    let (reader, anchor) = (reader(&path), anchor(&path));
    for (stream, config) in configs() {
        let erasable = config.erasable && config.cipher == Cipher::Aes256Gcm;
        for (index, is_erased) in [(0, false), (1, false), (2, erasable), (3, false)] {
            match reader.prove(&stream, index, None) {
                Ok(made) => {
                    assert!(!is_erased, "{stream}, entry {index}");
                    let text = made.proof.encode().unwrap();
                    assert_eq!(check(&text, &anchor), Ok(index));
                    // The entry about both is still Alice's, without Bob.
                    let hidden = usize::from(erasable && index == 3);
                    assert_eq!(made.proved.closed.subjects, hidden);
                    let alone = matches!(made.proof.evidence, Evidence::Entry { .. });
                    // The leaves of erased neighbours are gone, so the sections are shown instead.
                    assert_eq!(alone, config.proofs == Proofs::Entry && !erasable);
                }
                Err(ProveError::Erased { .. }) => assert!(is_erased, "{stream}, entry {index}"),
                Err(error) => panic!("{stream}, entry {index}: {error}"),
            }
        }
    }
    // Earlier proofs stay valid: no signed data has changed.
    for (_, text) in earlier {
        assert_eq!(check(&text, &anchor), Ok(2));
    }
}

#[test]
fn nothing_is_proved_out_of_a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let stream = StreamName::new("entry.aes-256-gcm.whole").unwrap();
    let in_stream = |name: &str| path.join(format!("streams/{stream}/{name}"));
    let segment = in_stream("segments/00000000000000000000.seg");
    let size = fs::read_to_string(in_stream("checkpoint")).unwrap();
    let tile = in_stream(&format!("tile/0/000.p/{}", size.lines().nth(1).unwrap()));
    let checkpoint = in_stream("checkpoint");
    for (file, place) in [(&segment, 300), (&tile, 35), (&tile, 70), (&checkpoint, 60)] {
        let content = fs::read(file).unwrap();
        let mut bad = content.clone();
        bad[place] ^= 1;
        fs::write(file, &bad).unwrap();
        let error = reader(&path).prove(&stream, 5, None).err().unwrap();
        assert!(
            matches!(error, ProveError::Log(LogError::Broken { .. })),
            "{}: {error}",
            file.display()
        );
        fs::write(file, &content[..place]).unwrap();
        let error = reader(&path).prove(&stream, 5, None).err().unwrap();
        assert!(
            matches!(error, ProveError::Log(LogError::Broken { .. })),
            "{}: {error}",
            file.display()
        );
        fs::write(file, content).unwrap();
    }
    fs::remove_file(&segment).unwrap();
    // Nothing prunes segments: one that is gone is lost.
    let error = reader(&path).prove(&stream, 5, None).err().unwrap();
    assert!(
        matches!(error, ProveError::Log(LogError::Broken { .. })),
        "{error}"
    );
}

#[test]
fn an_entry_is_found_among_many_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = StreamConfig {
        proofs: Proofs::Entry,
        ..StreamConfig::default()
    };
    Log::create(&path, ORIGIN, &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
    let options = Options {
        frame_entries_max: 2,
        segment_bytes_max: 20_000,
        ..options()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    append(&log, &StreamName::default(), 0..1_300);
    log.close().unwrap();
    let reader = reader(&path);
    for index in [0, 1, 2, 511, 512, 513, 777, 1_023, 1_024, 1_298, 1_299] {
        let text = proof_text(&reader, &StreamName::default(), index);
        assert_eq!(check(&text, &anchor(&path)), Ok(index));
        let size = text.len();
        assert!(size < 3_000, "{size} bytes");
    }
    assert!(matches!(
        reader.prove(&StreamName::default(), 1_300, None),
        Err(ProveError::NoEntry { .. })
    ));
}
