//! Subjects, their keys and their erasure: erased content is gone for good, and nothing else is
//! ever taken for erased.
//!
//! S5 of the security review: one flipped bit in the newest keys was reported as an erasure, and
//! the next opening destroyed the key. S6: a subject that came back after its erasure made
//! verification report a broken log, because it came back under the same pseudonym.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::hkdf;
use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::slot::{SLOT_BYTES, SLOT_LABEL_BYTES, Slot};
use probity_format::wrap::{WrappedKind, WrappingKey};
use probity_format::{Entry, Subjects, Timestamp, Version};
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify};
use probity_log::{Durability, Log, LogError, Options, StreamConfig, StreamName};

const SLOTS: &str = "subjects/slots";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Nothing is signed for until the log is closed.
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

fn append(log: &Log, subjects: &str) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: Subjects::joined(subjects),
        payload: b"content",
        ..Entry::new(time, "read", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
}

/// An erasable log with an entry about each of `subjects`.
fn log_about(folder: &Path, subjects: &[&str]) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(&path, "example.com/log", &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
    let log = open(&path);
    for subject in subjects {
        append(&log, subject);
    }
    log.close().unwrap();
    path
}

fn verified(path: &Path, root: Option<RootKey>) -> Report {
    let options = VerifyOptions {
        root,
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

/// The subjects of each entry, or nothing where it is erased.
fn read(path: &Path) -> Result<Vec<Option<String>>, LogError> {
    let mut found = Vec::new();
    Reader::open(path, &root())?.read::<LogError>(&Filter::default(), &mut |entry| {
        let subjects = entry.entry.subjects.as_joined().to_owned();
        found.push((!entry.erased).then_some(subjects));
        Ok(())
    })?;
    Ok(found)
}

fn some(subjects: &[&str]) -> Vec<Option<String>> {
    let named = |subject: &&str| (!subject.is_empty()).then(|| (*subject).to_owned());
    subjects.iter().map(named).collect()
}

fn secret(slot: usize) -> std::ops::Range<usize> {
    slot * SLOT_BYTES + SLOT_LABEL_BYTES..(slot + 1) * SLOT_BYTES
}

fn exchange(slots: &mut [u8], one: usize, other: usize) {
    let kept = slots[secret(one)].to_vec();
    slots.copy_within(secret(other), secret(one).start);
    slots[secret(other)].copy_from_slice(&kept);
}

#[test]
fn damage_to_a_key_is_no_erasure_and_no_opening_touches_it() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage, &[usize]); 6] = [
        ("a bit of the last", |s| s[4 * SLOT_BYTES - 9] ^= 1, &[3]),
        ("the last two exchanged", |s| exchange(s, 2, 3), &[2, 3]),
        ("two earlier ones exchanged", |s| exchange(s, 0, 1), &[0, 1]),
        ("cut to the first", |s| s.truncate(SLOT_BYTES), &[]),
        (
            "the documented erasure of old",
            |s| s[3 * SLOT_BYTES..].fill(0),
            &[3],
        ),
        ("a key of zeros", |s| s[secret(1)].fill(0), &[1]),
    ];
    for (name, damage, named) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = log_about(folder.path(), &["anna", "bert", "carl", "dora"]);
        let mut slots = fs::read(path.join(SLOTS)).unwrap();
        assert_eq!(slots.len(), 4 * SLOT_BYTES);
        damage(&mut slots);
        fs::write(path.join(SLOTS), &slots).unwrap();
        let report = verified(&path, Some(root()));
        let places: Vec<&str> = report.faults.iter().map(|f| f.place.as_str()).collect();
        assert!(!report.is_intact(), "{name}");
        assert_eq!(report.streams[2].erased_sections, 0, "{name}");
        for slot in named {
            let place = format!("{SLOTS}, slot {slot}");
            assert!(places.contains(&place.as_str()), "{name}: {places:?}");
        }
        // The frames of the others were checked too.
        let frames = places
            .iter()
            .filter(|place| place.contains("frame"))
            .count();
        assert_eq!(
            frames,
            if named.is_empty() { 3 } else { named.len() },
            "{name}"
        );
        assert!(
            matches!(read(&path), Err(LogError::Damaged { .. })),
            "{name}"
        );
        let Err(LogError::Broken { place, reason }) = Log::open(&path, &root(), options()) else {
            panic!("{name}: opened");
        };
        assert!(place.starts_with(SLOTS), "{name}: {place}");
        assert!(
            reason.contains("put subjects/slots back from a backup"),
            "{reason}"
        );
        assert_eq!(fs::read(path.join(SLOTS)).unwrap(), slots, "{name}");
    }
}

#[test]
fn a_subject_that_comes_back_is_somebody_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert", "anna\nbert"]);
    let log = open(&path);
    let first = log.erase("anna").unwrap().unwrap();
    assert!(
        log.erase("anna").unwrap().is_none(),
        "there is no such key now"
    );
    append(&log, "anna");
    log.close().unwrap();
    // An erased subject is erased from entries about several too, and no other subject is.
    let expected = some(&["", "bert", "bert", "anna"]);
    assert_eq!(read(&path).unwrap(), expected);
    let report = verified(&path, Some(root()));
    assert_eq!(report.faults, []);
    assert_eq!(report.streams[2].erased_sections, 1);
    let log = open(&path);
    assert_eq!(log.repairs(), &[]);
    let second = log.erase("anna").unwrap().unwrap();
    log.close().unwrap();
    assert_ne!(first.pseudonym, second.pseudonym);
    assert_ne!(first.slot, second.slot);
    assert_eq!(read(&path).unwrap(), some(&["", "bert", "bert", ""]));
    assert_eq!(verified(&path, Some(root())).faults, []);
}

#[test]
fn an_erasure_is_proved_by_an_entry_that_names_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert"]);
    let log = open(&path);
    append(&log, "anna");
    let receipt = log.erase("anna").unwrap().unwrap();
    log.close().unwrap();
    let reader = Reader::open(&path, &root()).unwrap();
    let made = reader
        .prove(&StreamName::journal(), receipt.index, None)
        .unwrap();
    let proved = made.proof.check(geometry(&path).anchor()).unwrap();
    assert_eq!(proved.index, receipt.index);
    let mut said = None;
    let filter = Filter {
        stream: Some(StreamName::journal()),
        action: Some("subject.erase".into()),
        ..Filter::default()
    };
    reader
        .read::<LogError>(&filter, &mut |found| {
            said = Some((
                found.index,
                found.entry.key.to_vec(),
                found.entry.payload.to_vec(),
            ));
            Ok(())
        })
        .unwrap();
    let pseudonym = hexadecimal(&receipt.pseudonym);
    let slot = receipt.slot.to_string().into_bytes();
    assert_eq!(said, Some((receipt.index, slot, pseudonym.into_bytes())));
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn geometry(path: &Path) -> Geometry {
    Geometry::parse(&fs::read_to_string(path.join("probity.toml")).unwrap()).unwrap()
}

/// The names in all slots that open.
fn names(path: &Path, wrapping: &WrappingKey) -> BTreeSet<String> {
    let slots = fs::read(path.join(SLOTS)).unwrap();
    let opened = (0..)
        .zip(slots.chunks_exact(SLOT_BYTES))
        .filter_map(|(number, bytes)| {
            let slot = Slot::parse(Version::V3, bytes).unwrap();
            let secret = slot.open(wrapping, number).ok()?;
            Some(secret.name.expose().to_owned())
        });
    opened.collect()
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

#[test]
fn who_has_the_name_the_root_key_and_every_other_slot_finds_nothing_of_an_erased_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert", "carl"]);
    let geometry = geometry(&path);
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let everybody = ["anna", "bert", "carl"].map(str::to_owned);
    assert_eq!(names(&path, &wrapping), BTreeSet::from(everybody));
    let log = open(&path);
    let receipt = log.erase("anna").unwrap().unwrap();
    log.close().unwrap();
    let others = ["bert", "carl"].map(str::to_owned);
    assert_eq!(names(&path, &wrapping), BTreeSet::from(others));
    // Neither the name itself nor the values that earlier logs derived from it and the master key.
    let master = fs::read(path.join("keys/master.key")).unwrap();
    let master = wrapping
        .unwrap(WrappedKind::Master, b"master", &master)
        .unwrap();
    let mut derived = [0; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, b"")
        .extract(master.expose())
        .expand(&[b"probity/pseudonym/v1", b"anna"], hkdf::HKDF_SHA256)
        .unwrap()
        .fill(&mut derived)
        .unwrap();
    assert_ne!(derived[..16], receipt.pseudonym);
    for file in files_below(folder.path()) {
        let bytes = fs::read(&file).unwrap();
        let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|found| found == needle);
        assert!(!holds(b"anna") && !holds(&derived[..16]), "{file:?}");
    }
    assert_eq!(read(&path).unwrap(), some(&["", "bert", "carl"]));
}

#[test]
fn a_slot_put_back_from_a_backup_is_found_and_its_key_destroyed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert"]);
    let backup = fs::read(path.join(SLOTS)).unwrap();
    let log = open(&path);
    log.erase("anna").unwrap().unwrap();
    log.close().unwrap();
    let erased = fs::read(path.join(SLOTS)).unwrap();
    fs::write(path.join(SLOTS), &backup).unwrap();
    for root in [None, Some(root())] {
        let report = verified(&path, root);
        let [fault] = report.faults.as_slice() else {
            panic!("{:?}", report.faults);
        };
        assert_eq!(fault.class, FaultClass::Content);
        assert_eq!(fault.place, format!("{SLOTS}, slot 0"));
    }
    assert_eq!(
        read(&path).unwrap(),
        some(&["", "bert"]),
        "nothing shows it"
    );
    let log = open(&path);
    assert!(
        log.repairs()[0].line() == "erased journal 0 1",
        "{:?}",
        log.repairs()
    );
    log.close().unwrap();
    assert_eq!(fs::read(path.join(SLOTS)).unwrap(), erased);
    assert_eq!(verified(&path, Some(root())).faults, []);
}

#[test]
fn a_log_that_learns_and_erases_subjects_meanwhile_raises_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna"]);
    let log = open(&path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                append(&log, &format!("subject-{}", round % 7));
                if round % 3 == 0 {
                    log.erase(&format!("subject-{}", round % 7)).unwrap();
                }
                if round % 5 == 0 {
                    log.publish().unwrap();
                }
                if done.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        for _ in 0..40 {
            let report = verified(&path, Some(root()));
            assert_eq!(report.faults, []);
            read(&path).unwrap();
        }
        done.store(true, Ordering::Release);
    });
    log.close().unwrap();
    assert_eq!(verified(&path, Some(root())).faults, []);
}

/// A key that was overwritten during a read, behind the slots read first, was taken for an erasure:
/// the journal was not checked for one.
#[test]
fn a_key_that_goes_while_the_log_is_read_is_damage_unless_the_journal_erased_it() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, bool); 3] = [
        (|slots| slots[secret(1)].fill(0), false),
        (|slots| slots.truncate(SLOT_BYTES), false),
        (|_| {}, true),
    ];
    for (damage, is_erased) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = log_about(folder.path(), &["anna"]);
        let reader = Reader::open(&path, &root()).unwrap();
        let log = open(&path);
        append(&log, "bert");
        log.close().unwrap();
        if is_erased {
            let log = open(&path);
            log.erase("bert").unwrap().unwrap();
            log.close().unwrap();
        }
        let mut slots = fs::read(path.join(SLOTS)).unwrap();
        damage(&mut slots);
        fs::write(path.join(SLOTS), slots).unwrap();
        let mut erased = 0;
        let read = reader.read::<LogError>(&Filter::default(), &mut |found| {
            erased += u32::from(found.erased);
            Ok(())
        });
        if is_erased {
            read.unwrap();
            assert_eq!(erased, 1);
        } else {
            assert!(matches!(read, Err(LogError::Damaged { .. })), "{read:?}");
        }
    }
}

/// A reader that was open during an erasure went on to read the person's entries with the key that
/// it had read before.
#[test]
fn a_reader_that_was_open_during_an_erasure_reads_nothing_more_of_the_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert"]);
    let reader = Reader::open(&path, &root()).unwrap();
    let now = || {
        let mut found = Vec::new();
        let read = reader.read::<LogError>(&Filter::default(), &mut |it| {
            found.push((
                it.erased,
                it.entry.subjects.iter().next().map(str::to_owned),
            ));
            Ok(())
        });
        read.map(|()| found)
    };
    let [anna, bert] = ["anna", "bert"].map(|name| (false, Some(name.to_owned())));
    assert_eq!(now().unwrap(), [anna, bert.clone()]);
    let log = open(&path);
    log.erase("anna").unwrap().unwrap();
    assert_eq!(now().unwrap(), [(true, None), bert.clone()]);
    log.close().unwrap();
    assert_eq!(now().unwrap(), [(true, None), bert]);
}

/// A prover that was made before an erasure went on to prove the person's entries.
#[test]
fn a_prover_that_was_made_before_an_erasure_proves_nothing_more_of_the_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna", "bert"]);
    let reader = Reader::open(&path, &root()).unwrap();
    let stream = StreamName::default();
    let mut prover = reader.prover(&stream, &Recipient::default()).unwrap();
    assert_eq!(prover.prove(0).unwrap().proved.index, 0);
    let log = open(&path);
    log.erase("anna").unwrap().unwrap();
    let refused = prover.prove(0).err();
    assert!(
        matches!(refused, Some(ProveError::Erased { index: 0, .. })),
        "{refused:?}"
    );
    assert_eq!(prover.prove(1).unwrap().proved.index, 1);
    log.close().unwrap();
}

/// M8: a log without its slots passed verification without the root key.
#[test]
fn slots_that_are_gone_are_missed_without_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_about(folder.path(), &["anna"]);
    fs::remove_file(path.join(SLOTS)).unwrap();
    for root in [None, Some(root())] {
        let report = verified(&path, root);
        let mut faults = report.faults.iter();
        let is_named =
            |f: &probity_log::verify::Fault| f.class == FaultClass::Missing && f.place == SLOTS;
        assert!(faults.any(is_named), "{:?}", report.faults);
    }
}
