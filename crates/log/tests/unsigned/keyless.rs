//! Frames behind the signed head for readers without a key: their presence does not show that they
//! are the log's.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::Entry;
use probity_log::reader::Reader;
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify};
use probity_log::{
    Log, LogError, LogLocation, Options, StoredLeaf, StoredLeaves, StreamConfig, StreamName,
};

use crate::{
    DEFAULT, JOURNAL, add, append, closed, copy_folder, forged, frames, intact, killed, options,
    root, time,
};
/// A copy of the log at `path` and of the second copies of its heads.
fn copied(path: &Path, to: &Path) -> PathBuf {
    copy_folder(path, &to.join("log"));
    copy_folder(&path.with_file_name("log.heads"), &to.join("log.heads"));
    to.join("log")
}

fn leaf(path: &Path, entry: u64) -> Option<StoredLeaf> {
    let leaves = StoredLeaves::open(&LogLocation::new(path, None)).unwrap();
    leaves.of_entry(&StreamName::default(), entry).unwrap()
}

fn verified(path: &Path, is_keyed: bool) -> Report {
    let options = VerifyOptions {
        root: is_keyed.then(root),
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

fn unpublished(path: &Path) -> u64 {
    let report = verified(path, false);
    assert_eq!(report.faults, []);
    let mut streams = report.streams.iter();
    let found = streams.find(|found| found.name == "default").unwrap();
    found.unpublished_frames
}

/// An older copy of everything was put back, except for a segment that went on with the newest
/// frames. All receipts were reported as held.
#[test]
fn frames_of_a_later_opening_behind_an_older_copy_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let older = copied(&path, &folder.path().join("older"));
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    log.close().unwrap();
    assert!(matches!(leaf(&path, 3), Some(StoredLeaf::Published(_))));
    fs::copy(path.join(DEFAULT), older.join(DEFAULT)).unwrap();
    assert!(matches!(leaf(&older, 2), Some(StoredLeaf::Published(_))));
    assert_eq!(leaf(&older, 3), None);
    assert_eq!(unpublished(&older), 0);
}

/// The journal recorded that frames are lost, and somebody who had them put them back behind the
/// head, with the earlier stream `heads`. Their receipts counted as held.
#[test]
fn frames_that_the_journal_says_are_lost_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[3];
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    let heads = folder.path().join("heads");
    copy_folder(&path.join("streams/heads"), &heads);
    let copy = path.with_file_name("log.heads").join("heads");
    let kept = fs::read(&copy).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    log.close().unwrap();
    fs::write(path.join(DEFAULT), &whole).unwrap();
    assert_eq!(leaf(&path, 3), None);
    fs::remove_dir_all(path.join("streams/heads")).unwrap();
    copy_folder(&heads, &path.join("streams/heads"));
    fs::write(&copy, kept).unwrap();
    assert_eq!(leaf(&path, 3), None);
}

/// Frames that a crash left behind the head counted as those under it. They are there, and only the
/// root key shows whether the log's keys sealed them.
#[test]
fn frames_that_a_crash_left_are_there_and_not_signed_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    assert!(matches!(leaf(&path, 2), Some(StoredLeaf::Published(_))));
    assert!(matches!(leaf(&path, 7), Some(StoredLeaf::Unpublished(_))));
    assert_eq!(unpublished(&path), 5);
    let leaves = StoredLeaves::open(&LogLocation::new(&path, None)).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    let leaf = leaves.of_entry(&StreamName::default(), 7).unwrap();
    assert!(matches!(leaf, Some(StoredLeaf::Published(_))));
}

/// A comparison of receipts during an opening used the journal from before it. Receipts of the new
/// opening were missing.
#[test]
fn an_opening_that_came_meanwhile_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let leaves = StoredLeaves::open(&LogLocation::new(&path, None)).unwrap();
    assert_eq!(leaves.of_entry(&StreamName::default(), 3).unwrap(), None);
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    let found = leaves.of_entry(&StreamName::default(), 3).unwrap();
    assert!(matches!(found, Some(StoredLeaf::Unpublished(_))));
    log.close().unwrap();
    intact(&path);
}

/// One damaged frame of the journal held the certificate of the last opening, whose frames no head
/// covered yet. They were reported as damaged or foreign, in a stream without faults.
#[test]
fn a_damaged_certificate_accuses_no_frame_of_its_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let mut journal = fs::read(path.join(JOURNAL)).unwrap();
    let (offset, _) = *frames(&path.join(JOURNAL)).last().unwrap();
    journal[offset + 200] ^= 1;
    fs::write(path.join(JOURNAL), journal).unwrap();
    for is_keyed in [false, true] {
        let report = verified(&path, is_keyed);
        let [fault] = &report.faults[..] else {
            panic!("{:#?}", report.faults);
        };
        assert_eq!(
            (fault.class, fault.stream.as_str()),
            (FaultClass::Frame, "journal")
        );
    }
}

/// A frame that somebody without the log's keys put in the place of a durable one is damage of that
/// frame. An export reported a rewritten history, because the frames were compared with the
/// writer's note before their sealer was checked.
#[test]
fn a_frame_in_the_place_of_a_durable_one_is_no_rewritten_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[7];
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    let entry = Entry::new(time(), "write", b"x");
    let frame = forged(&path, DEFAULT, StreamConfig::default(), &[entry]);
    add(&path.join(DEFAULT), &frame);
    let [fault] = &verified(&path, true).faults[..] else {
        panic!("one fault");
    };
    assert_eq!(fault.class, FaultClass::Frame);
    let reader = Reader::open(&path, &root()).unwrap();
    let error = reader.check(Some(&StreamName::default())).unwrap_err();
    let LogError::Broken { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason, fault.detail);
}

/// A log whose journal was cut back to its header, and that had only a signed checkpoint left,
/// passed for an interrupted creation. Creating one there replaced its keys and its geometry.
#[test]
fn a_log_without_its_first_frame_is_none_to_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    fs::remove_dir_all(path.with_file_name("log.heads")).unwrap();
    let cut = |path: &Path| {
        let bytes = fs::read(path.join(JOURNAL)).unwrap();
        fs::write(path.join(JOURNAL), &bytes[..40]).unwrap();
    };
    cut(&path);
    let key = fs::read(path.join("keys/master.key")).unwrap();
    // Less and less is left; the checkpoint is enough.
    for gone in [
        "none",
        "streams/default",
        "streams/heads",
        "streams/journal/tile",
    ] {
        drop(fs::remove_dir_all(path.join(gone)));
        assert!(Log::exists(&path).unwrap(), "without {gone}");
        let created = Log::create(&path, "x.org", &root(), StreamConfig::default(), options());
        assert!(matches!(created, Err(LogError::Exists { .. })), "{gone}");
        assert_eq!(fs::read(path.join("keys/master.key")).unwrap(), key);
    }
    // Without it the note of durable frames is enough.
    fs::remove_file(path.join("streams/journal/checkpoint")).unwrap();
    assert!(Log::exists(&path).unwrap());
    // Without both, it looks like a creation that was cut short.
    fs::remove_file(path.join("durable")).unwrap();
    assert!(!Log::exists(&path).unwrap());
}
