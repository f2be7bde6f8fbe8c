//! A copy of a log that was opened for writing elsewhere, with the same keys: what it wrote belongs to it alone.

use std::fs;
use std::path::{Path, PathBuf};

use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, StreamConfig, StreamName};

use crate::{
    DEFAULT, HEADS, JOURNAL, add, append, closed, copy_folder, frames, intact, journal, kept, keys,
    options, root, said,
};

const QUIET: &str = "streams/quiet/segments/00000000000000000000.seg";

fn quiet() -> StreamName {
    StreamName::new("quiet").unwrap()
}

/// A log with a stream `quiet` that rests, and a copy of it; both were opened and written to since.
fn siblings(folder: &Path) -> (PathBuf, PathBuf) {
    let path = closed(folder);
    let log = Log::open(&path, &root(), options()).unwrap();
    log.create_stream(&quiet(), StreamConfig::default())
        .unwrap();
    append(&log, &quiet(), "q");
    log.close().unwrap();
    let copy = folder.join("copy");
    copy_folder(&path, &copy.join("log"));
    copy_folder(&folder.join("log.heads"), &copy.join("log.heads"));
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "honest");
    log.close().unwrap();
    let log = Log::open(&copy.join("log"), &root(), options()).unwrap();
    append(&log, &StreamName::default(), "of the copy");
    append(&log, &quiet(), "of the copy");
    log.close().unwrap();
    (path, copy.join("log"))
}

/// The frames that only `copy` has behind the first `shared` of `file`.
fn since(copy: &Path, file: &str, shared: usize) -> Vec<u8> {
    let frames = frames(&copy.join(file));
    frames
        .into_iter()
        .skip(shared)
        .flat_map(|(_, bytes)| bytes)
        .collect()
}

/// An authenticator said that the log's keys had sealed a frame, not in which opening: frames of a copy that was opened elsewhere were read behind the
/// signed head, and the next opening signed for them. An authenticator hangs on the certificate of its opening.
#[test]
fn frames_of_a_copy_that_was_opened_elsewhere_are_nobodys() {
    for file in [QUIET, DEFAULT, HEADS, JOURNAL] {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = siblings(folder.path());
        let (before, said_before) = (keys(&path), journal(&path));
        let own = frames(&path.join(file)).len();
        // Of `quiet` all that the copy wrote is due; of the others what stands behind as many frames as the log has.
        let foreign = since(&copy, file, if file == QUIET { 1 } else { own });
        let foreign = if foreign.is_empty() {
            since(&copy, file, own - 1)
        } else {
            foreign
        };
        add(&path.join(file), &foreign);
        assert_eq!(keys(&path), before, "{file}");
        assert_eq!(journal(&path), said_before, "{file}");
        let log = Log::open(&path, &root(), options()).unwrap();
        assert!(
            said(&log).contains("which this log's keys did not seal")
                || said(&log).contains("no whole frame"),
            "{file}: {}",
            said(&log)
        );
        log.close().unwrap();
        assert_eq!(keys(&path), before, "{file}");
        assert_eq!(kept(&path), [foreign], "{file}");
        intact(&path);
    }
}

/// The journal of a copy names streams and erasures: where it was put in the place of the log's, newer heads know better.
#[test]
fn the_journal_of_a_copy_does_not_belong_to_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = siblings(folder.path());
    fs::copy(copy.join(JOURNAL), path.join(JOURNAL)).unwrap();
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert!(!report.is_intact());
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::Broken { .. }), "{refused}");
}

/// What a copy noted as durable missed frames that the log never had.
#[test]
fn the_notes_of_a_copy_raise_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = siblings(folder.path());
    fs::copy(copy.join("durable"), path.join("durable")).unwrap();
    intact(&path);
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    intact(&path);
}
