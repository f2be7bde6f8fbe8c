//! A slot that the log's keys sealed for a number, stolen while no journal counted it, in the place
//! of another subject's.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::slot::SLOT_BYTES;
use probity_format::{Entry, Subjects};
use probity_log::{Log, LogError, Options, StreamConfig};

use crate::sibling::{QUIET, append_about, copied, open_and_close, quiet, subjects};
use crate::{erasable, intact, kept, options, root, time};

const SLOTS: &str = "subjects/slots";

/// The slot that a copy of the log made for `subject`, the first that it made.
fn stolen(path: &Path, folder: &Path, subject: &str) -> Vec<u8> {
    let copy = copied(path, folder);
    let log = Log::open(&copy, &root(), options()).unwrap();
    append_about(&log, subject);
    log.close().unwrap();
    fs::read(copy.join(SLOTS)).unwrap()
}

/// Puts `slot` into the first place of the file.
fn put(path: &Path, slot: &[u8]) {
    let mut slots = fs::read(path.join(SLOTS)).unwrap();
    slots[..SLOT_BYTES].copy_from_slice(slot);
    fs::write(path.join(SLOTS), slots).unwrap();
}

/// A killed log with a receipted entry about carl, whose key is in the second slot. No frame uses
/// the first, since its stream and the note of durable frames were put back to an earlier state.
fn killed(path: &Path, folder: &Path) -> PathBuf {
    let log = Log::open(path, &root(), options()).unwrap();
    let durable = fs::read(path.join("durable")).unwrap();
    let entry = Entry {
        subjects: Subjects::joined("bert"),
        ..Entry::new(time(), "read", b"bert")
    };
    let mut appender = log.appender(&quiet()).unwrap();
    appender.append_durable(&entry).unwrap();
    drop(appender);
    append_about(&log, "carl");
    let killed = copied(path, folder);
    log.close().unwrap();
    fs::remove_file(killed.join(QUIET)).unwrap();
    fs::write(killed.join("durable"), durable).unwrap();
    killed
}

/// Recovery saw a key for every frame, and zeroed it as the second one of its subject: a receipted
/// entry did not open any more, and nobody had accepted that.
#[test]
fn a_key_that_frames_use_is_not_set_aside_for_an_older_one_of_its_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    log.create_stream(&quiet(), config).unwrap();
    log.close().unwrap();
    let theirs = stolen(&path, &folder.path().join("copy"), "carl");
    let path = killed(&path, &folder.path().join("killed"));
    let honest = fs::read(path.join(SLOTS)).unwrap();
    assert_eq!(honest.len(), 2 * SLOT_BYTES);
    put(&path, &theirs);
    let harmed = fs::read(path.join(SLOTS)).unwrap();
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::KeysLost { .. }), "{refused}");
    assert!(
        fs::read(path.join(SLOTS)).unwrap() == harmed,
        "slots changed"
    );
    // Without carl's entry, as the operator accepts it, the record says so.
    let given_up = copied(&path, &folder.path().join("given-up"));
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&given_up, &root(), accepting).unwrap();
    let said = crate::said(&log);
    log.close().unwrap();
    assert!(said.contains("accepted"), "{said}");
    assert_eq!(kept(&given_up), [honest[SLOT_BYTES..].to_vec()]);
    intact(&given_up);
    fs::write(path.join(SLOTS), honest).unwrap();
    open_and_close(&path);
    assert_eq!(subjects(&path), ["carl"]);
    intact(&path);
}

/// Any slot that the log had sealed for the number of a lost one was taken as the lost key, which
/// was refused from then on.
#[test]
fn a_key_that_was_never_lost_is_not_taken_as_one_that_was_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let theirs = stolen(&path, &folder.path().join("copy"), "xena");
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "carl");
    let path = copied(&path, &folder.path().join("killed"));
    log.close().unwrap();
    let lost = fs::read(path.join(SLOTS)).unwrap();
    fs::remove_file(path.join(SLOTS)).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    Log::open(&path, &root(), accepting)
        .unwrap()
        .close()
        .unwrap();
    put(&path, &theirs);
    let said = open_and_close(&path);
    assert!(
        !said.iter().any(|it| it.starts_with("returned")),
        "{said:?}"
    );
    assert_eq!(kept(&path), [theirs]);
    assert_eq!(subjects(&path), [""; 0]);
    put(&path, &lost);
    let said = open_and_close(&path);
    assert!(said.iter().any(|it| it.starts_with("returned")), "{said:?}");
    assert_eq!(subjects(&path), ["carl"]);
    intact(&path);
}
