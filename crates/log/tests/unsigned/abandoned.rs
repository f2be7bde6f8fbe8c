//! The first frame of an opening of a copy, put behind the journal together with the copy's signing
//! key. It looks like a leftover of a crash in an opening of the log itself. It is set aside, and
//! the copy's other frames stay foreign.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::slot::SLOT_BYTES;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{Fault, VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName};

use crate::sibling::{QUIET, append_about, copied, open_and_close, quiet, since, subjects};
use crate::{DEFAULT, JOURNAL, add, append, closed, erasable, frames, intact, keys, options, root};

const VERIFIER_KEY: &str = "streams/journal/log.vkey";

/// A log with an empty stream `quiet`.
fn with_quiet(folder: &Path) -> PathBuf {
    let path = closed(folder);
    let log = Log::open(&path, &root(), options()).unwrap();
    log.create_stream(&quiet(), StreamConfig::default())
        .unwrap();
    log.close().unwrap();
    path
}

/// Writes a file of a folder that may not be there yet.
fn put(file: &Path, bytes: &[u8]) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, bytes).unwrap();
}

/// Puts the first opening of `copy`, which had signed nothing, into the log at `path`.
fn take_over(path: &Path, copy: &Path) {
    let own = frames(&path.join(JOURNAL)).len();
    let first = frames(&copy.join(JOURNAL)).swap_remove(own).1;
    add(&path.join(JOURNAL), &first);
    let key = copy.join("keys/signing.key");
    fs::copy(key, path.join("keys/signing.next")).unwrap();
}

/// An opening of the log at `path` that fails once it has certified its key, before it has anchored
/// anything.
fn fail(path: &Path) {
    let (key, away) = (path.join(VERIFIER_KEY), path.join("away"));
    fs::rename(&key, &away).unwrap();
    fs::create_dir(&key).unwrap();
    fs::write(key.join("x"), "x").unwrap();
    Log::open(path, &root(), options()).unwrap_err();
    fs::remove_dir_all(&key).unwrap();
    fs::rename(away, key).unwrap();
}

/// The opening of the copy was signed for together with the log's own, and all frames that the copy
/// had written in it were believed.
#[test]
fn what_else_an_unfinished_opening_wrote_is_nobodys() {
    for fails in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = with_quiet(folder.path());
        let copy = copied(&path, &folder.path().join("copy"));
        let log = Log::open(&copy, &root(), options()).unwrap();
        append(&log, &StreamName::default(), "of the copy");
        append(&log, &quiet(), "of the copy");
        log.close().unwrap();
        let own = frames(&path.join(DEFAULT)).len();
        take_over(&path, &copy);
        if fails {
            fail(&path);
        } else {
            open_and_close(&path);
        }
        put(&path.join(QUIET), &fs::read(copy.join(QUIET)).unwrap());
        add(&path.join(DEFAULT), &since(&copy, DEFAULT, own));
        assert_eq!(keys(&path), ["a", "b", "c"], "{fails}");
        let said = open_and_close(&path);
        for stream in ["quiet", "default"] {
            let foreign = format!("foreign {stream}");
            assert!(
                said.iter().any(|line| line.starts_with(&foreign)),
                "{said:?}"
            );
        }
        assert_eq!(keys(&path), ["a", "b", "c"], "{fails}");
        intact(&path);
    }
}

/// By the copy's note of durable frames, its entries replaced entries with receipts that no
/// checkpoint covered yet. After the opening that failed, `verify` found nothing.
#[test]
fn what_a_copy_wrote_replaces_no_entries_with_receipts() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    append(&log, &StreamName::default(), "e");
    let killed = copied(&path, &folder.path().join("killed"));
    log.close().unwrap();
    let copy = copied(&killed, &folder.path().join("copy"));
    let whole = fs::read(copy.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&copy.join(DEFAULT))[3];
    fs::write(copy.join(DEFAULT), &whole[..offset]).unwrap();
    fs::remove_file(copy.join("durable")).unwrap();
    let log = Log::open(&copy, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "x");
    append(&log, &StreamName::default(), "y");
    log.close().unwrap();
    take_over(&killed, &copy);
    let journal = fs::read(killed.join(JOURNAL)).unwrap();
    let honest = fs::read(killed.join(DEFAULT)).unwrap();
    let own = fs::read(killed.join("durable")).unwrap();
    // At once, and after an opening that failed.
    for fails in [false, true] {
        if fails {
            fs::write(killed.join(JOURNAL), &journal).unwrap();
            fs::write(killed.join(DEFAULT), &honest).unwrap();
            fs::write(killed.join("durable"), &own).unwrap();
            fail(&killed);
        }
        let mut notes = fs::read(killed.join("durable")).unwrap();
        let theirs = fs::read(copy.join("durable")).unwrap();
        notes[216..324].copy_from_slice(&theirs[216..324]);
        fs::write(killed.join("durable"), notes).unwrap();
        fs::copy(copy.join(DEFAULT), killed.join(DEFAULT)).unwrap();
        let read = Reader::open(&killed, &root()).and_then(|reader| {
            reader.read::<LogError>(&Filter::default(), &mut |found| {
                assert!(!b"xy".contains(&found.entry.key[0]), "{fails}");
                Ok(())
            })
        });
        // The note is of an opening that the log does not have, and nothing shows which of both is
        // the older.
        read.unwrap_err();
        let keyed = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        let report = verify(&killed, &keyed).unwrap();
        assert!(report.faults.iter().any(Fault::is_of_journal), "{fails}");
        let refused = Log::open(&killed, &root(), options()).unwrap_err();
        assert!(refused.to_string().contains("another copy"), "{refused}");
    }
    // As the refusal advises.
    fs::remove_file(killed.join("durable")).unwrap();
    let said = open_and_close(&killed);
    assert!(
        said.iter().any(|line| line.starts_with("foreign default")),
        "{said:?}"
    );
    assert_eq!(keys(&killed), ["a", "b", "c"]);
}

/// The copy's erasure was believed too, and destroyed the key of a subject whom the log had never
/// erased.
#[test]
fn no_erasure_of_a_copy_destroys_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "ada");
    append_about(&log, "bob");
    log.close().unwrap();
    let slots = fs::read(path.join("subjects/slots")).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    log.erase("bob").unwrap().unwrap();
    log.close().unwrap();
    let copy = copied(&path, &folder.path().join("copy"));
    let log = Log::open(&copy, &root(), options()).unwrap();
    log.erase("ada").unwrap().unwrap();
    log.close().unwrap();
    let own = frames(&path.join(JOURNAL)).len();
    take_over(&path, &copy);
    // A key that was erased and is there again is destroyed by the next opening.
    fs::write(path.join("subjects/slots"), slots).unwrap();
    fail(&path);
    let theirs = frames(&copy.join(JOURNAL));
    let have = frames(&path.join(JOURNAL)).len();
    let behind = |from: usize| theirs[from..].iter().flat_map(|(_, bytes)| bytes.clone());
    for from in [own + 1, have] {
        let journal = fs::read(path.join(JOURNAL)).unwrap();
        add(&path.join(JOURNAL), &behind(from).collect::<Vec<u8>>());
        assert_eq!(subjects(&path), ["ada"]);
        open_and_close(&path);
        assert_eq!(subjects(&path), ["ada"]);
        intact(&path);
        assert!(fs::read(path.join(JOURNAL)).unwrap().starts_with(&journal));
    }
}

/// Frames of a stream whose head was never anchored came back after openings that had gone on
/// without them.
#[test]
fn frames_of_an_empty_stream_do_not_come_back_after_an_opening() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = with_quiet(folder.path());
        let log = Log::open(&path, &root(), options()).unwrap();
        let before = copied(&path, &folder.path().join("before"));
        append(&log, &quiet(), "first");
        let first = fs::read(path.join(QUIET)).unwrap();
        let note = fs::read(path.join("durable")).unwrap();
        log.close().unwrap();
        open_and_close(&before);
        let log = Log::open(&before, &root(), options()).unwrap();
        if replaced {
            append(&log, &quiet(), "second");
        }
        let killed = copied(&before, &folder.path().join("killed"));
        log.close().unwrap();
        put(&killed.join(QUIET), &first);
        if replaced {
            fs::write(killed.join("durable"), note).unwrap();
        }
        assert_eq!(keys(&killed), ["a", "b", "c"], "{replaced}");
        let said = open_and_close(&killed);
        assert!(
            said.iter().any(|line| line.starts_with("foreign quiet")),
            "{said:?}"
        );
        assert_eq!(keys(&killed), ["a", "b", "c"], "{replaced}");
        intact(&killed);
    }
}

/// The frame of a copy that accepted the loss of a subject's key made the log accept it too. The
/// log refused the key when it was put back.
#[test]
fn no_loss_that_a_copy_accepted_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "ada");
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "bob");
    let killed = copied(&path, &folder.path().join("killed"));
    log.close().unwrap();
    let slots = fs::read(killed.join("subjects/slots")).unwrap();
    let copy = copied(&killed, &folder.path().join("copy"));
    fs::write(copy.join("subjects/slots"), &slots[..SLOT_BYTES]).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&copy, &root(), accepting).unwrap();
    log.close().unwrap();
    take_over(&killed, &copy);
    fs::copy(copy.join("subjects/slots"), killed.join("subjects/slots")).unwrap();
    let refused = Log::open(&killed, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::KeysLost { .. }), "{refused}");
    fs::write(killed.join("subjects/slots"), slots).unwrap();
    open_and_close(&killed);
    assert_eq!(subjects(&killed), ["ada", "bob"]);
    intact(&killed);
}
