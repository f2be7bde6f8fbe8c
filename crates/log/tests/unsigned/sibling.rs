//! A copy of a log that was opened for writing elsewhere, with the same keys: its frames belong to
//! it alone.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::slot::SLOT_BYTES;
use probity_format::{Entry, Subjects};
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    Log, LogError, LogLocation, Options, Repair, StoredLeaves, StreamConfig, StreamName,
};

use crate::{
    DEFAULT, HEADS, JOURNAL, add, append, closed, copy_folder, erasable, frames, intact, journal,
    kept, keys, options, root, said, time,
};

pub(crate) const QUIET: &str = "streams/quiet/segments/00000000000000000000.seg";

pub(crate) fn quiet() -> StreamName {
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
pub(crate) fn since(copy: &Path, file: &str, shared: usize) -> Vec<u8> {
    let frames = frames(&copy.join(file));
    frames
        .into_iter()
        .skip(shared)
        .flat_map(|(_, bytes)| bytes)
        .collect()
}

/// An authenticator showed that the log's keys had sealed a frame, not in which opening. Frames of
/// a copy that was opened elsewhere were read behind the signed head, and the next opening signed
/// for them. An authenticator now depends on the certificate of its opening.
#[test]
fn frames_of_a_copy_that_was_opened_elsewhere_are_nobodys() {
    for file in [QUIET, DEFAULT, HEADS, JOURNAL] {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = siblings(folder.path());
        let (before, said_before) = (keys(&path), journal(&path));
        let own = frames(&path.join(file)).len();
        // All of the copy's frames of `quiet`; of the other streams, those behind as many frames as
        // the log has.
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

/// The journal of a copy names streams and erasures: where it replaces the log's journal, newer
/// heads contradict it.
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

/// By the notes of a copy, frames were missed that the log never had.
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

/// A copy of the log and its second copies, as a kill leaves them.
pub(crate) fn copied(path: &Path, to: &Path) -> PathBuf {
    copy_folder(path, &to.join("log"));
    copy_folder(&path.with_file_name("log.heads"), &to.join("log.heads"));
    to.join("log")
}

pub(crate) fn open_and_close(path: &Path) -> Vec<String> {
    let log = Log::open(path, &root(), options()).unwrap();
    let said = log.repairs().iter().map(Repair::line).collect();
    log.close().unwrap();
    said
}

/// The slot of a copy named an opening that the log does not have, in the place of a frame that
/// creates a stream. Frames that the log never had were missed, and the advice made the journal
/// record their loss.
#[test]
fn a_note_of_an_opening_that_is_not_the_logs_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let copy = copied(&path, &folder.path().join("copy"));
    let log = Log::open(&path, &root(), options()).unwrap();
    for name in ["s1", "s2", "s3", "s4"] {
        let name = StreamName::new(name).unwrap();
        log.create_stream(&name, StreamConfig::default()).unwrap();
    }
    append(&log, &StreamName::default(), "honest");
    log.close().unwrap();
    open_and_close(&copy);
    let log = Log::open(&copy, &root(), options()).unwrap();
    for key in ["x", "y", "z", "w"] {
        append(&log, &StreamName::default(), key);
    }
    log.close().unwrap();
    let mut notes = fs::read(path.join("durable")).unwrap();
    let theirs = fs::read(copy.join("durable")).unwrap();
    notes[216..324].copy_from_slice(&theirs[216..324]);
    fs::write(path.join("durable"), notes).unwrap();
    intact(&path);
    open_and_close(&path);
    assert_eq!(keys(&path), ["a", "b", "c", "honest"]);
}

/// The first journal frame of the copy's opening has its own certificate. With it the copy's
/// entries were read behind the signed head, and its erasures hid entries. No frame of an opening
/// is believed before its certificate is signed for.
#[test]
fn an_opening_of_a_copy_that_nobody_signed_for_shows_nothing_and_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "ada");
    append_about(&log, "bob");
    log.close().unwrap();
    let copy = copied(&path, &folder.path().join("copy"));
    let log = Log::open(&copy, &root(), options()).unwrap();
    append_about(&log, "eve");
    log.erase("ada").unwrap().unwrap();
    log.close().unwrap();
    let journal_before = journal(&path);
    for file in [JOURNAL, DEFAULT] {
        let own = frames(&path.join(file)).len();
        add(&path.join(file), &since(&copy, file, own));
    }
    assert_eq!(keys(&path), ["ada", "bob"]);
    assert_eq!(subjects(&path), ["ada", "bob"]);
    assert_eq!(journal(&path), journal_before);
    let said = open_and_close(&path);
    for kind in ["opening journal", "foreign default"] {
        assert!(said.iter().any(|line| line.starts_with(kind)), "{said:?}");
    }
    assert_eq!(subjects(&path), ["ada", "bob"]);
    intact(&path);
}

pub(crate) fn append_about(log: &Log, subject: &str) {
    let entry = Entry {
        subjects: Subjects::joined(subject),
        ..Entry::new(time(), "read", subject.as_bytes())
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
}

pub(crate) fn subjects(path: &Path) -> Vec<String> {
    let mut subjects = Vec::new();
    let reader = Reader::open(path, &root()).unwrap();
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            subjects.extend(found.entry.subjects.iter().map(str::to_owned));
            Ok(())
        })
        .unwrap();
    subjects
}

/// A failed opening that had accepted a loss left its note of it behind. The frames were put back,
/// and the next opening signed that they were lost; the one after set them aside, receipts and all.
/// The note of a copy did the same.
#[test]
fn what_is_there_again_is_never_said_to_be_lost() {
    for note_is_of_copy in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let log = Log::open(&path, &root(), options()).unwrap();
        for key in ["d", "e", "f", "g", "h"] {
            append(&log, &StreamName::default(), key);
        }
        let killed = copied(&path, &folder.path().join("killed"));
        log.close().unwrap();
        let copy = copied(&killed, &folder.path().join("copy"));
        let cut = if note_is_of_copy { &copy } else { &killed };
        let whole = fs::read(cut.join(DEFAULT)).unwrap();
        let (offset, _) = frames(&cut.join(DEFAULT))[6];
        fs::write(cut.join(DEFAULT), &whole[..offset]).unwrap();
        // The opening fails once it has noted the losses it accepts.
        fs::create_dir(cut.join("keys/signing.next")).unwrap();
        let accepting = Options {
            accept_loss: true,
            ..options()
        };
        Log::open(cut, &root(), accepting).unwrap_err();
        assert!(
            fs::read(cut.join("repairs"))
                .unwrap()
                .ends_with(b"lost default 6 8\n")
        );
        if note_is_of_copy {
            fs::copy(copy.join("repairs"), killed.join("repairs")).unwrap();
        } else {
            fs::remove_dir(cut.join("keys/signing.next")).unwrap();
            fs::write(killed.join(DEFAULT), whole).unwrap();
        }
        // This one ends before the stream is published.
        let tile = killed.join("streams/default/tile");
        fs::rename(&tile, killed.join("away")).unwrap();
        fs::write(&tile, b"in the way").unwrap();
        Log::open(&killed, &root(), options()).unwrap_err();
        fs::remove_file(&tile).unwrap();
        fs::rename(killed.join("away"), &tile).unwrap();
        let said = open_and_close(&killed);
        assert!(
            said.iter().all(|line| !line.starts_with("foreign")),
            "{said:?}"
        );
        assert_eq!(keys(&killed), ["a", "b", "c", "d", "e", "f", "g", "h"]);
        let losses = verify(&killed, &VerifyOptions::default()).unwrap().losses;
        assert_eq!(losses, []);
        assert_eq!(kept(&killed), [[0; 0]; 0]);
    }
}

/// Frames that a power loss took away, kept by a thief, were believed behind a head that later
/// openings had signed. With an older note they were believed in the place of frames with receipts.
#[test]
fn frames_that_went_before_an_opening_do_not_come_back_after_it() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let log = Log::open(&path, &root(), options()).unwrap();
        for key in ["d", "e", "f"] {
            append(&log, &StreamName::default(), key);
        }
        let six = copied(&path, &folder.path().join("six"));
        for key in ["g", "h"] {
            append(&log, &StreamName::default(), key);
        }
        let eight = fs::read(path.join(DEFAULT)).unwrap();
        log.close().unwrap();
        let log = Log::open(&six, &root(), options()).unwrap();
        let note = fs::read(six.join("durable")).unwrap();
        let mut expected = vec!["a", "b", "c", "d", "e", "f"];
        let path = if replaced {
            append(&log, &StreamName::default(), "i");
            append(&log, &StreamName::default(), "j");
            let killed = copied(&six, &folder.path().join("killed"));
            log.close().unwrap();
            fs::write(killed.join("durable"), note).unwrap();
            killed
        } else {
            log.close().unwrap();
            open_and_close(&six);
            six
        };
        fs::write(path.join(DEFAULT), eight).unwrap();
        assert_eq!(keys(&path), expected);
        believed_by_nobody(&path, if replaced { 6 } else { 7 });
        let said = open_and_close(&path);
        assert!(
            said.iter().any(|line| line.starts_with("foreign default")),
            "{said:?}"
        );
        let log = Log::open(&path, &root(), options()).unwrap();
        append(&log, &StreamName::default(), "k");
        log.close().unwrap();
        expected.push("k");
        assert_eq!(keys(&path), expected);
        intact(&path);
    }
}

/// Such frames are not counted, proved, found for a receipt, or called unpublished without a key
/// either.
fn believed_by_nobody(path: &Path, entry: u64) {
    let stream = StreamName::default();
    let reader = Reader::open(path, &root()).unwrap();
    assert_eq!(reader.entries(&stream).unwrap(), 6);
    let mut prover = reader.prover(&stream, &Recipient::default()).unwrap();
    let refused = prover.prove(entry).err().unwrap();
    assert!(matches!(refused, ProveError::NoEntry { .. }), "{refused}");
    let leaves = StoredLeaves::open(&LogLocation::new(path, None)).unwrap();
    assert!(leaves.of_entry(&stream, entry).unwrap().is_none());
    let report = verify(path, &VerifyOptions::default()).unwrap();
    let mut streams = report.streams.iter();
    let found = streams.find(|found| found.name == "default").unwrap();
    assert_eq!(found.unpublished_frames, 0);
}

/// The journal frame of an opening of the copy, which has its own certificate, blocked a log that
/// had moved on: its certificate does not follow, and every command but verification refused the
/// journal as damaged.
#[test]
fn a_certificate_that_does_not_follow_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let copy = copied(&path, &folder.path().join("copy"));
    open_and_close(&path);
    open_and_close(&copy);
    open_and_close(&copy);
    let own = frames(&path.join(JOURNAL)).len();
    let foreign = since(&copy, JOURNAL, own);
    add(&path.join(JOURNAL), &foreign);
    assert_eq!(keys(&path), ["a", "b", "c"]);
    let said = open_and_close(&path);
    assert!(
        said.iter().any(|line| line.starts_with("foreign journal")),
        "{said:?}"
    );
    assert_eq!(kept(&path), [foreign]);
    intact(&path);
}

/// With the journal frame of a copy that had accepted a loss, an opening cut off frames with
/// receipts before it found that it could not sign. With the copy's key too, it signed.
#[test]
fn the_journal_frame_of_a_copy_costs_nothing() {
    for (accepts, with_key) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let log = Log::open(&path, &root(), options()).unwrap();
        for key in ["d", "e", "f", "g"] {
            append(&log, &StreamName::default(), key);
        }
        let killed = copied(&path, &folder.path().join("killed"));
        log.close().unwrap();
        let copy = copied(&killed, &folder.path().join("copy"));
        if accepts {
            let whole = fs::read(copy.join(DEFAULT)).unwrap();
            let (offset, _) = frames(&copy.join(DEFAULT))[3];
            fs::write(copy.join(DEFAULT), &whole[..offset]).unwrap();
        }
        let options = Options {
            accept_loss: accepts,
            ..options()
        };
        Log::open(&copy, &root(), options).unwrap().close().unwrap();
        let own = frames(&killed.join(JOURNAL)).len();
        let frame = frames(&copy.join(JOURNAL)).swap_remove(own).1;
        add(&killed.join(JOURNAL), &frame);
        if with_key {
            let key = copy.join("keys/signing.key");
            fs::copy(key, killed.join("keys/signing.next")).unwrap();
        }
        let said = open_and_close(&killed);
        assert!(
            said.iter().any(|line| line.starts_with("opening journal")),
            "{said:?}"
        );
        assert_eq!(kept(&killed), [frame]);
        assert_eq!(keys(&killed), ["a", "b", "c", "d", "e", "f", "g"]);
        intact(&killed);
    }
}

/// An opening without a valid signing key changes nothing before it fails.
#[test]
fn an_opening_that_cannot_sign_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let older = fs::read(path.join("keys/signing.key")).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for key in ["d", "e"] {
        append(&log, &StreamName::default(), key);
    }
    let killed = copied(&path, &folder.path().join("killed"));
    log.close().unwrap();
    let newest = fs::read(killed.join("keys/signing.key")).unwrap();
    let whole = fs::read(killed.join(DEFAULT)).unwrap();
    // An opening with a valid key would cut this off, with the loss accepted.
    fs::write(killed.join(DEFAULT), &whole[..whole.len() - 1]).unwrap();
    fs::write(killed.join("keys/signing.key"), older).unwrap();
    let before = [DEFAULT, "durable"].map(|name| fs::read(killed.join(name)).unwrap());
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let refused = Log::open(&killed, &root(), accepting).unwrap_err();
    assert!(refused.to_string().contains("signing"), "{refused}");
    let after = [DEFAULT, "durable"].map(|name| fs::read(killed.join(name)).unwrap());
    assert!(before == after, "something was changed");
    fs::write(killed.join("keys/signing.key"), newest).unwrap();
    fs::write(killed.join(DEFAULT), whole).unwrap();
    open_and_close(&killed);
    assert_eq!(keys(&killed), ["a", "b", "c", "d", "e"]);
    intact(&killed);
}

/// A note of a copy with more openings than the log has was called a rewritten history, and the
/// advice recorded a loss that never was.
#[test]
fn a_note_of_an_opening_beyond_the_journal_is_named_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let copy = copied(&path, &folder.path().join("copy"));
    open_and_close(&path);
    for key in ["x", "y", "z"] {
        let log = Log::open(&copy, &root(), options()).unwrap();
        append(&log, &StreamName::default(), key);
        log.close().unwrap();
    }
    let honest = fs::read(path.join("durable")).unwrap();
    fs::copy(copy.join("durable"), path.join("durable")).unwrap();
    let with_key = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let faults = verify(&path, &with_key).unwrap().faults;
    assert!(!faults.is_empty());
    for fault in faults {
        assert!(fault.place.starts_with("durable"), "{fault}");
    }
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let refused = Log::open(&path, &root(), accepting).unwrap_err();
    assert!(
        refused.to_string().contains("another copy of the log"),
        "{refused}"
    );
    fs::write(path.join("durable"), honest).unwrap();
    open_and_close(&path);
    intact(&path);
}

/// The slot of a copy, appended, gave a subject a second key, under which new entries were sealed
/// and which one erasure did not destroy.
#[test]
fn a_second_slot_of_a_subject_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let copy = copied(&path, &folder.path().join("copy"));
    for (path, names) in [(&path, &["bob"][..]), (&copy, &["carl", "bob"])] {
        let log = Log::open(path, &root(), options()).unwrap();
        for name in names {
            append_about(&log, name);
        }
        log.close().unwrap();
    }
    let slots = fs::read(copy.join("subjects/slots")).unwrap();
    let theirs = &slots[SLOT_BYTES..2 * SLOT_BYTES];
    add(&path.join("subjects/slots"), theirs);
    let log = Log::open(&path, &root(), options()).unwrap();
    append_about(&log, "bob");
    log.erase("bob").unwrap().unwrap();
    log.close().unwrap();
    assert_eq!(subjects(&path), [""; 0]);
    assert_eq!(kept(&path), [theirs.to_vec()]);
    intact(&path);
}
