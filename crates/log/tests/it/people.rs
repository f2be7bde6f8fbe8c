//! Entries about several people in a log: an erased person is erased alone, in every way of
//! reading, and is found nowhere.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::content::Closed;
use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::proof::{EntryProof, Evidence};
use probity_format::slot::{SLOT_BYTES, SLOT_LABEL_BYTES};
use probity_format::stream::Proofs;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::prove::ProveError;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify};
use probity_log::{Durability, Log, LogError, Options, StreamConfig, StreamName};

const SLOTS: &str = "subjects/slots";
/// The payload names nobody: it outlives the erased people.
const PAYLOAD: &[u8] = b"a message between them";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options() -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    }
}

fn open(path: &Path) -> Log {
    Log::open(path, &root(), options()).unwrap()
}

/// Entries about all three: by Anna, handed in by Bert; by a stranger; and one about Bert alone, by
/// Bert.
fn log_about_three(folder: &Path, proofs: Proofs) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        proofs,
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(&path, "example.com/log", &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
    let log = open(&path);
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = |subjects, actor| Entry {
        subjects: Subjects::joined(subjects),
        actor,
        payload: PAYLOAD,
        ..Entry::new(time, "send", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.set_submitter("bertram").unwrap();
    let three = "annabella\nbertram\ncarlotta";
    let entries = [
        entry(three, "annabella"),
        entry(three, "stranger"),
        entry("bertram", "bertram"),
    ];
    appender.append_batch(&entries).unwrap();
    appender.flush().unwrap();
    drop(appender);
    log.close().unwrap();
    path
}

fn erase(path: &Path, subject: &str) {
    let log = open(path);
    log.erase(subject).unwrap().unwrap();
    log.close().unwrap();
}

fn verified(path: &Path, root: Option<RootKey>) -> Report {
    let options = VerifyOptions {
        root,
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

/// An entry as a reader shows it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    subjects: String,
    actor: String,
    submitter: String,
    payload: Vec<u8>,
    erased: bool,
    closed: (usize, bool, bool),
}

fn closed(closed: Closed) -> (usize, bool, bool) {
    (closed.subjects, closed.actor, closed.submitter)
}

fn seen(path: &Path, subject: Option<&str>) -> Result<Vec<Seen>, LogError> {
    let filter = Filter {
        subject: subject.map(str::to_owned),
        ..Filter::default()
    };
    let mut all = Vec::new();
    Reader::open(path, &root())?.read::<LogError>(&filter, &mut |found| {
        all.push(Seen {
            subjects: found.entry.subjects.as_joined().to_owned(),
            actor: found.entry.actor.to_owned(),
            submitter: found.entry.submitter.to_owned(),
            payload: found.entry.payload.to_vec(),
            erased: found.erased,
            closed: closed(found.closed),
        });
        Ok(())
    })?;
    Ok(all)
}

fn shown(subjects: &str, names: [&str; 2], closed: (usize, bool, bool)) -> Seen {
    let [actor, submitter] = names.map(str::to_owned);
    Seen {
        subjects: subjects.to_owned(),
        actor,
        submitter,
        payload: PAYLOAD.to_vec(),
        erased: false,
        closed,
    }
}

fn gone(names: [&str; 2], closed: (usize, bool, bool)) -> Seen {
    Seen {
        payload: Vec::new(),
        erased: true,
        ..shown("", names, closed)
    }
}

#[test]
fn erasing_one_of_three_leaves_the_entry_readable_for_the_others() {
    const WHOLE: (usize, bool, bool) = (0, false, false);
    for proofs in [Proofs::Entry, Proofs::Section] {
        let folder = tempfile::tempdir().unwrap();
        let path = log_about_three(folder.path(), proofs);
        let three = "annabella\nbertram\ncarlotta";
        let before = [
            shown(three, ["annabella", "bertram"], WHOLE),
            shown(three, ["stranger", "bertram"], WHOLE),
            shown("bertram", ["bertram", "bertram"], WHOLE),
        ];
        assert_eq!(seen(&path, None).unwrap(), before);
        erase(&path, "annabella");
        let two = "bertram\ncarlotta";
        let after = [
            shown(two, ["", "bertram"], (1, true, false)),
            shown(two, ["stranger", "bertram"], (1, false, false)),
            shown("bertram", ["bertram", "bertram"], WHOLE),
        ];
        assert_eq!(seen(&path, None).unwrap(), after);
        assert_eq!(seen(&path, Some("carlotta")).unwrap(), after[..2]);
        assert_eq!(seen(&path, Some("annabella")).unwrap(), []);
        for root in [None, Some(root())] {
            let is_keyed = root.is_some();
            let report = verified(&path, root);
            assert_eq!(report.faults, []);
            let stream = &report.streams[2];
            let erased = (stream.erased_sections, stream.partly_erased_sections);
            assert_eq!(erased, if is_keyed { (0, 1) } else { (0, 0) });
        }
        erase(&path, "bertram");
        let last = [
            shown("carlotta", ["", ""], (2, true, true)),
            shown("carlotta", ["stranger", ""], (2, false, true)),
            gone(["", ""], (1, true, true)),
        ];
        assert_eq!(seen(&path, None).unwrap(), last);
        erase(&path, "carlotta");
        let nobody = [
            gone(["", ""], (3, true, true)),
            gone(["stranger", ""], (3, false, true)),
            gone(["", ""], (1, true, true)),
        ];
        assert_eq!(seen(&path, None).unwrap(), nobody);
        assert_eq!(verified(&path, Some(root())).faults, []);
    }
}

fn geometry(path: &Path) -> Geometry {
    Geometry::parse(&fs::read_to_string(path.join("probity.toml")).unwrap()).unwrap()
}

#[test]
fn an_entry_is_proved_without_those_who_were_erased() {
    for proofs in [Proofs::Entry, Proofs::Section] {
        let folder = tempfile::tempdir().unwrap();
        let path = log_about_three(folder.path(), proofs);
        let stream = StreamName::default();
        let prove = || {
            Reader::open(&path, &root())
                .unwrap()
                .prove(&stream, 0, None)
        };
        let whole = prove().unwrap();
        let is_alone = matches!(whole.proof.evidence, Evidence::Entry { .. });
        assert_eq!(is_alone, proofs == Proofs::Entry);
        assert_eq!(whole.proved.closed, Closed::NONE);
        for (subject, left, hidden) in [
            ("annabella", "bertram\ncarlotta", (1, true, false)),
            ("bertram", "carlotta", (2, true, true)),
        ] {
            erase(&path, subject);
            let made = prove().unwrap();
            let text = made.proof.encode().unwrap();
            let parsed = EntryProof::parse(&text).unwrap();
            let proved = parsed.check(geometry(&path).anchor()).unwrap();
            let entry = proved.entry().unwrap();
            assert_eq!(entry.subjects.as_joined(), left);
            assert_eq!((entry.actor, entry.payload), ("", PAYLOAD));
            assert_eq!(closed(proved.closed), hidden);
        }
        erase(&path, "carlotta");
        assert!(matches!(prove(), Err(ProveError::Erased { .. })));
        // Proofs shown before stay valid for their recipients.
        let anchor = geometry(&path).anchor().clone();
        assert!(whole.proof.check(&anchor).is_ok());
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Every section of the evidence opened with the keys it shows, as bytes of proofs, entries and
/// names.
fn everything_that_opens(path: &Path) -> Vec<Vec<u8>> {
    let reader = Reader::open(path, &root()).unwrap();
    let mut all = Vec::new();
    for (stream, _) in reader.streams() {
        for index in 0..reader.entries(stream).unwrap() {
            let Ok(made) = reader.prove(stream, index, None) else {
                continue;
            };
            all.push(made.proof.encode().unwrap().into_bytes());
            let entry = made.proved.entry().unwrap();
            let texts = [
                entry.subjects.as_joined(),
                entry.actor,
                entry.submitter,
                entry.controller,
                entry.processor,
                entry.rule,
            ];
            all.extend(texts.map(|text| text.as_bytes().to_vec()));
            all.extend([entry.key.to_vec(), entry.payload.to_vec()]);
        }
    }
    all
}

#[test]
fn the_name_of_who_was_erased_is_nowhere_in_what_is_left_and_what_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about_three(folder.path(), Proofs::Entry);
    let holds = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).any(|found| found == name);
    let opened = everything_that_opens(&path);
    assert!(
        opened.iter().any(|bytes| holds(bytes, b"annabella")),
        "it was there"
    );
    erase(&path, "annabella");
    let files = files_below(folder.path());
    let files = files.iter().map(|file| fs::read(file).unwrap());
    for bytes in files.chain(everything_that_opens(&path)) {
        assert!(!holds(&bytes, b"annabella"));
    }
    let left = everything_that_opens(&path);
    assert!(left.iter().any(|bytes| holds(bytes, b"carlotta")));
}

#[test]
fn damage_to_the_key_of_one_of_them_is_no_erasure() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about_three(folder.path(), Proofs::Entry);
    let slots = fs::read(path.join(SLOTS)).unwrap();
    let secret = SLOT_BYTES + SLOT_LABEL_BYTES;
    for damage in [true, false] {
        let mut bad = slots.clone();
        if damage {
            bad[secret + 40] ^= 1;
        } else {
            bad[secret..2 * SLOT_BYTES].fill(0);
        }
        fs::write(path.join(SLOTS), &bad).unwrap();
        let report = verified(&path, Some(root()));
        let contents = report
            .faults
            .iter()
            .filter(|f| f.class == FaultClass::Content);
        assert!(contents.count() >= 2, "{:?}", report.faults);
        assert!(matches!(seen(&path, None), Err(LogError::Damaged { .. })));
    }
}

#[test]
fn many_entries_about_many_people_are_cut_into_frames_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about_three(folder.path(), Proofs::Section);
    // Entries appended while the first chunk is sealed become one frame.
    let one_sealer = Options {
        sealers: 1,
        batch_age_max: Duration::from_secs(5),
        ..options()
    };
    let log = Log::open(&path, &root(), one_sealer).unwrap();
    let time = Timestamp::from_nanoseconds(1).unwrap();
    // Three megabytes of rows, whose shares take sixty.
    let names: Vec<String> = (0..9_500)
        .map(|first: usize| {
            let names: Vec<String> = (0..64)
                .map(|place| format!("u{:03}", (first + place * (31 + first / 1_000)) % 1_000))
                .collect();
            names.join("\n")
        })
        .collect();
    let entries: Vec<Entry<'_>> = names
        .iter()
        .map(|names| Entry {
            subjects: Subjects::joined(names),
            ..Entry::new(time, "read", b"")
        })
        .collect();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_batch(&entries).unwrap();
    appender.flush().unwrap();
    drop(appender);
    log.close().unwrap();
    let reader = Reader::open(&path, &root()).unwrap();
    assert_eq!(reader.entries(&StreamName::default()).unwrap(), 9_503);
}

/// A whole chunk of short rows about 64 people each, no two sets alike, became a frame of 34 MB,
/// beyond the bound, and the log took nothing more.
#[test]
fn a_chunk_of_entries_about_sixty_four_people_each_fits_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(&path, "example.com/log", &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
    let patient = Options {
        batch_age_max: Duration::from_mins(1),
        ..options()
    };
    let log = Log::open(&path, &root(), patient).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    // All but two of the first 65 names, and one of four more.
    let names: Vec<String> = (b'!'..=b'~')
        .map(|byte| char::from(byte).to_string())
        .collect();
    let pairs = (0..65_usize).flat_map(|a| (0..a).map(move |b| (a, b)));
    let sets: Vec<String> = pairs
        .flat_map(|pair| (65..69_usize).map(move |more| (pair, more)))
        .map(|((a, b), more)| {
            let kept = (0..65).filter(|at| *at != a && *at != b);
            let set: Vec<&str> = kept.chain([more]).map(|at| names[at].as_str()).collect();
            set.join("\n")
        })
        .collect();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entries: Vec<Entry<'_>> = sets
        .iter()
        .map(|set| Entry {
            subjects: Subjects::joined(set),
            ..Entry::new(time, "s", b"")
        })
        .collect();
    appender.append_batch(&entries).unwrap();
    appender.flush().unwrap();
    drop(appender);
    log.close().unwrap();
    assert!(verified(&path, Some(root())).is_intact());
}
