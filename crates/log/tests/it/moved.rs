//! A log whose folder is moved while it is written.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and files are changed around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Directory, Storage as _};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Durability, Log, LogError, LogLocation, Options, StreamConfig, StreamName};

/// Entries after the move, enough for several segments.
const LATER: u64 = 40;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Nothing is signed for until the caller asks for it.
fn options(heads: &Path) -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        segment_bytes_max: 4096,
        heads: Some(heads.to_owned()),
        ..Options::default()
    }
}

fn created(path: &Path, heads: &Path) -> Log {
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(path, "example.com/log", &root(), config, options(heads)).unwrap()
}

fn append(log: &Log, number: u64) {
    let key = format!("key-{number}");
    let subject = format!("subject-{}", number % 5);
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: Subjects::joined(&subject),
        payload: &[7; 300],
        ..Entry::new(time, "write", key.as_bytes())
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    assert_eq!(appender.append_durable(&entry).unwrap().index, number);
}

/// The faults of a verification with the root key, and the entries that are read.
fn read(path: &Path, heads: &Path) -> (Vec<String>, u64) {
    let options = VerifyOptions {
        root: Some(root()),
        heads: Some(heads.to_owned()),
        ..VerifyOptions::default()
    };
    let faults = verify(path, &options).unwrap().faults;
    let places = LogLocation::new(path, Some(&heads.to_owned()));
    let mut entries = 0;
    let reader = Reader::open_at(&places, &root()).unwrap();
    let filter = Filter::default();
    let read = reader.read::<LogError>(&filter, &mut |_| {
        entries += 1;
        Ok(())
    });
    read.unwrap();
    (faults.iter().map(ToString::to_string).collect(), entries)
}

/// The next segment of a log that was moved under its writer was begun in a new folder at the old
/// place: the entries were in two folders, and verification of either said nothing.
#[test]
fn a_log_that_is_moved_under_its_writer_stays_in_one_folder() {
    for has_successor in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let [path, moved, heads, others] =
            ["log", "moved", "heads", "others"].map(|name| folder.path().join(name));
        let log = created(&path, &heads);
        append(&log, 0);
        log.publish().unwrap();
        fs::rename(&path, &moved).unwrap();
        // Another log may begin at the place.
        let successor = has_successor.then(|| created(&path, &others));
        for number in 1..=LATER {
            append(&log, number);
        }
        let refused = log.publish().unwrap_err();
        let cause = std::error::Error::source(&refused).map(ToString::to_string);
        let refused = format!("{refused}: {}", cause.unwrap_or_default());
        assert!(refused.contains("moved, removed or replaced"), "{refused}");
        let stream = StreamName::new("another").unwrap();
        let refused = log.create_stream(&stream, StreamConfig::default());
        assert!(refused.is_err());
        assert!(log.close().is_err());
        assert_eq!(path.exists(), has_successor);
        if let Some(successor) = successor {
            append(&successor, 0);
            successor.close().unwrap();
            assert_eq!(read(&path, &others), (Vec::new(), 1));
        }
        assert_eq!(read(&moved, &heads), (Vec::new(), 1 + LATER));
        let log = Log::open(&moved, &root(), options(&heads)).unwrap();
        append(&log, 1 + LATER);
        log.close().unwrap();
        assert_eq!(read(&moved, &heads), (Vec::new(), 2 + LATER));
    }
}

/// The folder of second copies was made anew, with the copy of one stream alone, if it was moved
/// before that stream had any.
#[test]
fn a_folder_of_second_copies_that_is_moved_is_not_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let [path, heads] = ["log", "heads"].map(|name| folder.path().join(name));
    let log = created(&path, &heads);
    let stream = StreamName::new("another").unwrap();
    log.create_stream(&stream, StreamConfig::default()).unwrap();
    fs::rename(&heads, folder.path().join("moved")).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let mut appender = log.appender(&stream).unwrap();
    appender
        .append_durable(&Entry::new(time, "write", b"key"))
        .unwrap();
    let refused = log.publish().unwrap_err();
    let LogError::Poisoned(cause) = refused else {
        panic!("{refused}");
    };
    assert!(matches!(*cause, LogError::HeadsGone { .. }), "{cause}");
    drop(appender);
    assert!(log.close().is_err());
    assert!(!heads.exists());
}

/// A storage uses the folder that it locked, wherever that is, and after that the one at its path.
#[test]
fn a_locked_storage_stays_with_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved]: [PathBuf; 2] = ["one", "two"].map(|name| folder.path().join(name));
    let storage = Directory::new(&path);
    storage.replace("before", b"1").unwrap();
    let lock = storage.lock("lock").unwrap().unwrap();
    fs::rename(&path, &moved).unwrap();
    assert!(!lock.is_held().unwrap());
    storage.replace("made", b"2").unwrap();
    storage.open("within/made", true).unwrap();
    assert_eq!(
        storage.list("").unwrap(),
        ["before", "lock", "made", "within"]
    );
    assert!(!path.exists());
    assert_eq!(fs::read(moved.join("made")).unwrap(), b"2");
    fs::remove_dir_all(&moved).unwrap();
    assert!(storage.replace("again", b"3").is_err());
    assert!(storage.open("within/again", true).is_err());
    assert!(!path.exists());
    drop(lock);
    assert_eq!(storage.list("").unwrap(), [""; 0]);
    storage.replace("after", b"4").unwrap();
    assert_eq!(fs::read(path.join("after")).unwrap(), b"4");
}
