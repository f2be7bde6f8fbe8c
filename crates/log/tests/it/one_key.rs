//! A key of a subject that is damaged costs the entries that need it, and no others.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, Secret};
use probity_format::slot::SLOT_BYTES;
use probity_format::stream::Proofs;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::prove::ProveError;
use probity_log::reader::{Filter, Reader};
use probity_log::{Log, LogError, LogLocation, Options, StreamConfig, StreamName};

const SLOTS: &str = "subjects/slots";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// One frame with entries about anna, bert, carl, anna and bert, and one without subject. The key
/// of bert is damaged.
fn log_with_a_damaged_key(folder: &Path, proofs: Proofs) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        proofs,
        erasable: true,
        ..StreamConfig::default()
    };
    let options = Options::default;
    let log = Log::create(&path, "example.com/log", &root(), config, options()).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let about = |subjects| Entry {
        subjects: Subjects::joined(subjects),
        payload: b"content",
        ..Entry::new(time, "read", b"key")
    };
    let entries = ["anna", "bert", "carl", "anna\nbert", ""].map(about);
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_batch(&entries).unwrap();
    appender.flush().unwrap();
    drop(appender);
    log.close().unwrap();
    let mut slots = fs::read(path.join(SLOTS)).unwrap();
    assert_eq!(slots.len(), 3 * SLOT_BYTES);
    *slots.get_mut(SLOT_BYTES + 60).unwrap() ^= 1;
    fs::write(path.join(SLOTS), &slots).unwrap();
    path
}

fn of(subject: Option<&str>) -> Filter {
    Filter {
        subject: subject.map(str::to_owned),
        ..Filter::default()
    }
}

fn read(path: &Path, subject: Option<&str>) -> Result<Vec<u64>, LogError> {
    let mut found = Vec::new();
    Reader::open(path, &root())?.read::<LogError>(&of(subject), &mut |entry| {
        found.push(entry.index);
        Ok(())
    })?;
    Ok(found)
}

/// The entries read past the damage, and the gaps: the first entry and the number of each.
fn left(path: &Path, subject: Option<&str>) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut found = Vec::new();
    let reader = Reader::open_damaged(&LogLocation::new(path, None), &root()).unwrap();
    let damage = reader
        .read_damaged::<LogError>(&of(subject), &mut |entry| {
            found.push(entry.index);
            Ok(())
        })
        .unwrap();
    assert!(!damage.is_none());
    for gap in &damage.gaps {
        let named = format!("it holds entry {}", gap.first_entry);
        assert!(gap.reason.contains(&named), "{gap}");
        assert!(gap.reason.contains("slot 1 of subjects/slots"), "{gap}");
    }
    let gaps = damage.gaps.iter();
    let gaps = gaps.map(|gap| (gap.first_entry, gap.missing.entries));
    (found, gaps.collect())
}

/// Reading behind damage left out every entry of a frame in which one section did not open. One
/// flipped bit in the key of one person hid all entries about other people.
#[test]
fn a_damaged_key_hides_the_entries_that_need_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_with_a_damaged_key(folder.path(), Proofs::Section);
    let refused = read(&path, None);
    let Err(LogError::Damaged { missing, .. }) = refused else {
        panic!("{refused:?}");
    };
    // The last of bert's is read, without him.
    assert_eq!((missing.entries, missing.is_least), (1, false));
    assert_eq!(left(&path, None), (vec![0, 2, 3, 4], vec![(1, 1), (3, 0)]));
    // One of anna's is about bert too.
    let unread = read(&path, Some("anna"));
    assert!(
        matches!(unread, Err(LogError::Damaged { .. })),
        "{unread:?}"
    );
    assert_eq!(left(&path, Some("anna")), (vec![0, 3], vec![(3, 0)]));
    // It cannot be known which pseudonym is bert's, and whether there was an entry about dora.
    for (subject, found, gaps) in [
        ("bert", vec![], vec![(1, 1), (3, 1)]),
        ("dora", vec![], vec![(1, 1), (3, 1)]),
    ] {
        let unread = read(&path, Some(subject));
        assert!(matches!(unread, Err(LogError::Damaged { .. })), "{subject}");
        assert_eq!(left(&path, Some(subject)), (found, gaps), "{subject}");
    }
    assert_eq!(read(&path, Some("carl")).unwrap(), [2]);
}

/// No entry of such a frame could be proved, though nothing that its proof needs was damaged.
#[test]
fn an_entry_that_needs_no_damaged_key_is_proved() {
    for proofs in [Proofs::Section, Proofs::Entry] {
        let folder = tempfile::tempdir().unwrap();
        let path = log_with_a_damaged_key(folder.path(), proofs);
        let reader = Reader::open(&path, &root()).unwrap();
        for index in [0, 2, 4] {
            let made = reader.prove(&StreamName::default(), index, None).unwrap();
            let proved = made.proof.check(reader.anchor()).unwrap();
            assert_eq!(proved.index, index);
        }
        for index in [1, 3] {
            let refused = reader.prove(&StreamName::default(), index, None);
            let Err(ProveError::Log(LogError::Broken { reason, .. })) = refused else {
                panic!("{index}");
            };
            assert!(reason.contains("from a backup"), "{reason}");
        }
    }
}

/// With the key of one person gone, the entries about that person and another were read for the
/// other without a word of the damage, and an entry that the hidden actor had made was left out.
#[test]
fn an_entry_that_lacks_one_of_its_people_is_damaged_for_the_others_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = log_with_a_damaged_key(folder.path(), Proofs::Section);
    let actor = Filter {
        actor: Some("bert".into()),
        ..of(Some("anna"))
    };
    let read = |filter: &Filter| {
        let reader = Reader::open(&path, &root()).unwrap();
        reader.read::<LogError>(filter, &mut |_| Ok(()))
    };
    for filter in [of(Some("anna")), actor.clone()] {
        let Err(LogError::Damaged { reason, .. }) = read(&filter) else {
            panic!("{filter:?}");
        };
        assert!(reason.contains("from a backup"), "{reason}");
    }
    let reader = Reader::open_damaged(&LogLocation::new(&path, None), &root()).unwrap();
    let damage = reader.read_damaged::<LogError>(&actor, &mut |_| panic!("not bert's"));
    let gaps = damage.unwrap().gaps;
    assert_eq!(
        gaps.first().map(|gap| gap.missing.entries),
        Some(1),
        "it may have been bert's"
    );
    // Nobody else is in an entry with bert.
    read(&of(Some("carl"))).unwrap();
}
