//! Files that somebody made longer than any disk, or many, stop no opening and no reader.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use probity_log::Log;
use probity_log::verify::{VerifyOptions, verify};

use crate::{DEFAULT, JOURNAL, add, closed, erasable, intact, keys, killed, options, root, said};

/// A hole behind the last frame was copied as zeros and filled the disk; each retry left one more
/// partial copy.
#[test]
fn a_hole_behind_the_last_frame_takes_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let segment = path.join(DEFAULT);
    let whole = fs::metadata(&segment).unwrap().len();
    add(&segment, b"appended by nobody");
    let file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(1 << 42).unwrap();
    for _ in 0..2 {
        let log = Log::open(&path, &root(), options()).unwrap();
        log.close().unwrap();
    }
    assert_eq!(fs::metadata(&segment).unwrap().len(), whole);
    let mut blocks = 0;
    for kept in fs::read_dir(path.join("set-aside")).unwrap() {
        let kept = kept.unwrap().metadata().unwrap();
        assert_eq!(kept.len(), (1 << 42) - whole);
        assert_eq!(kept.mode() & 0o777, 0o600);
        blocks += kept.blocks();
    }
    assert!(blocks < 1 << 12, "{blocks} blocks of 512 bytes");
    intact(&path);
    assert_eq!(keys(&path), ["a", "b", "c"]);
}

/// A verifier without keys searched a hole for the frame behind two damaged records, for days if it
/// was long.
#[test]
fn a_hole_holds_up_no_verifier() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    log.close().unwrap();
    let segment = fs::OpenOptions::new()
        .write(true)
        .open(path.join(DEFAULT))
        .unwrap();
    segment.set_len(400).unwrap();
    segment.set_len(1 << 42).unwrap();
    let bundles = path.join("streams/default/tile/entries/000.p");
    for bundle in fs::read_dir(bundles).unwrap() {
        let bundle = bundle.unwrap().path();
        let mut content = fs::read(&bundle).unwrap();
        for record in content.chunks_mut(20).skip(1).step_by(3) {
            record[0] ^= 1;
        }
        fs::write(&bundle, content).unwrap();
    }
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert!(report.has_faults());
}

/// The bound of slots to read came from the journal, and where that could not be opened there was
/// none.
#[test]
fn slots_without_end_beside_a_journal_that_is_gone_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let slots = path.join("subjects/slots");
    fs::create_dir_all(path.join("subjects")).unwrap();
    let slots = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(slots)
        .unwrap();
    slots.set_len(1 << 42).unwrap();
    fs::remove_file(path.join(JOURNAL)).unwrap();
    fs::create_dir(path.join(JOURNAL)).unwrap();
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    assert!(verify(&path, &options).unwrap().has_faults());
}

/// Each of many empty segments was announced with all before it: some thousands made an opening
/// take minutes.
#[test]
fn many_empty_segments_are_announced_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let segments = path.join(DEFAULT);
    let segments = segments.parent().unwrap();
    for number in 1000..4000 {
        fs::write(segments.join(format!("{number:020}.seg")), b"").unwrap();
    }
    let log = Log::open(&path, &root(), options()).unwrap();
    assert_eq!(said(&log).lines().count(), 3000);
    log.close().unwrap();
    assert_eq!(fs::read_dir(segments).unwrap().count(), 1);
    intact(&path);
}
