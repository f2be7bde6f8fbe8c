//! The second copy of a head that a fork of the log signed: no advice makes it disappear.

use std::fs;
use std::path::{Path, PathBuf};

use probity_log::{Log, StreamConfig, StreamName};

use crate::sibling::{copied, open_and_close, quiet};
use crate::{append, closed, intact, options, root};

fn second_copy(path: &Path, stream: &str) -> PathBuf {
    path.with_file_name("log.heads").join(stream)
}

fn refused(path: &Path) -> String {
    Log::open(path, &root(), options()).unwrap_err().to_string()
}

fn append_all(path: &Path, keys: &[&str]) {
    let log = Log::open(path, &root(), options()).unwrap();
    for key in keys {
        append(&log, &StreamName::default(), key);
    }
    log.close().unwrap();
}

/// A copy of the log was written elsewhere, and its second copy of a head came back. The opening
/// advised to move it away, and with it the one trace of the fork.
#[test]
fn nobody_is_told_to_move_the_head_of_a_fork_away() {
    for own in [&["d"][..], &["d", "e"], &["d", "e", "f"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let fork = copied(&path, &folder.path().join("fork"));
        append_all(&path, own);
        append_all(&fork, &["x", "y"]);
        let theirs = fs::read(second_copy(&fork, "default")).unwrap();
        fs::write(second_copy(&path, "default"), theirs).unwrap();
        let said = refused(&path);
        assert!(!said.contains("away"), "{own:?}: {said}");
        assert!(said.contains("keep this copy") || own.len() < 2, "{said}");
    }
}

/// A second copy that no key of the log signed, over the frames that are there, is no evidence.
#[test]
fn a_second_copy_with_a_damaged_signature_may_be_moved_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let copy = second_copy(&path, "default");
    let mut note = fs::read(&copy).unwrap();
    let place = note.iter().rposition(|byte| *byte == b' ').unwrap() + 1;
    // The id of the key comes first.
    note[place] = if note[place] == b'A' { b'B' } else { b'A' };
    fs::write(&copy, note).unwrap();
    let said = refused(&path);
    assert!(
        said.contains("verify the log, then move the copy away"),
        "{said}"
    );
    fs::remove_file(&copy).unwrap();
    assert_eq!(open_and_close(&path), ["copy default 0 3"]);
    intact(&path);
}

/// A copy of the log created a stream elsewhere, and its second copy came back before the log
/// created that stream. The advice was to move the copy away.
#[test]
fn nobody_is_told_to_move_the_head_of_a_forks_stream_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let fork = copied(&path, &folder.path().join("fork"));
    let log = Log::open(&fork, &root(), options()).unwrap();
    log.create_stream(&quiet(), StreamConfig::default())
        .unwrap();
    append(&log, &quiet(), "q");
    log.close().unwrap();
    fs::copy(second_copy(&fork, "quiet"), second_copy(&path, "quiet")).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    let refused = log.create_stream(&quiet(), StreamConfig::default());
    let said = refused.unwrap_err().to_string();
    log.close().unwrap();
    assert!(!said.contains("away"), "{said}");
    assert!(said.contains("keep the copy"), "{said}");
}
