//! An accepted loss is reported until the journal records it, and every accepted loss was reported
//! before.

use std::fs;
use std::path::Path;

use probity_log::verify::{FaultClass, VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamName};

use crate::{DEFAULT, append, copy_folder, erasable, frames, intact, killed, options, root};

fn accepting() -> Options {
    Options {
        accept_loss: true,
        ..options()
    }
}

fn classes(path: &Path) -> Vec<FaultClass> {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify(path, &options).unwrap();
    report.faults.iter().map(|fault| fault.class).collect()
}

/// An opening that accepted a loss lowered the note of durable frames before any signed record of
/// the loss. Where it ended before that, verification found no fault although receipts were gone.
/// Without the file `repairs` the loss was never reported again.
#[test]
fn an_opening_that_accepts_a_loss_and_ends_early_leaves_it_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let (offset, _) = frames(&path.join(DEFAULT))[5];
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    assert_eq!(classes(&path), [FaultClass::Missing]);
    // No successor of the signing key can be made: a full disk does the same.
    let next = path.join("keys/signing.next");
    fs::create_dir(&next).unwrap();
    Log::open(&path, &root(), accepting()).unwrap_err();
    fs::remove_dir(&next).unwrap();
    assert_eq!(classes(&path), [FaultClass::Missing]);
    for repairs in [true, false] {
        if !repairs {
            fs::remove_file(path.join("repairs")).unwrap();
        }
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        let is_lost = matches!(
            refused,
            LogError::Lost {
                found: 5,
                durable: 8,
                ..
            }
        );
        assert!(is_lost, "{refused}");
    }
    let log = Log::open(&path, &root(), accepting()).unwrap();
    assert_eq!(append(&log, &StreamName::default(), "i"), 5);
    log.close().unwrap();
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    let losses: Vec<String> = report.losses.iter().map(ToString::to_string).collect();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert_eq!(classes(&path), []);
}

/// A lost frame was reported alone, and accepting it gave up the entries of another frame, whose
/// keys were gone too.
#[test]
fn all_that_is_accepted_is_said_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let stream = StreamName::default();
    let mut appender = log.appender(&stream).unwrap();
    for name in ["anna", "bert", "carl"] {
        let mut entry = probity_format::Entry::new(crate::time(), "read", b"k");
        entry.subjects = probity_format::Subjects::joined(name);
        appender.append_durable(&entry).unwrap();
    }
    let copy = folder.path().join("killed");
    copy_folder(&path, &copy.join("log"));
    copy_folder(&folder.path().join("log.heads"), &copy.join("log.heads"));
    drop(appender);
    log.close().unwrap();
    let path = copy.join("log");
    let (offset, _) = frames(&path.join(DEFAULT))[2];
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    let slots = path.join("subjects/slots");
    let length = fs::metadata(&slots).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&slots).unwrap();
    file.set_len(length / 3).unwrap();
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    let LogError::Losses(losses) = &refused else {
        panic!("{refused}");
    };
    assert!(
        matches!(
            losses.as_slice(),
            [
                LogError::Lost {
                    found: 2,
                    durable: 3,
                    ..
                },
                LogError::KeysLost {
                    frame: 1,
                    subjects: 1,
                    ..
                }
            ]
        ),
        "{refused}"
    );
    Log::open(&path, &root(), accepting())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(classes(&path), []);
    // Readers leave out what is gone for good, and are told of both losses.
    let reader = probity_log::reader::Reader::open(&path, &root()).unwrap();
    let mut left = 0;
    let mut count = |_: &probity_log::reader::Found<'_>| {
        left += 1;
        Ok(())
    };
    reader
        .read::<LogError>(&probity_log::reader::Filter::default(), &mut count)
        .unwrap();
    assert_eq!((left, reader.losses().count()), (1, 2));
}

/// A second copy of a stream that the journal never created was ignored when the stream was
/// created. Every opening refused the log from then on.
#[test]
fn a_stream_is_not_created_beside_a_second_copy_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::closed(folder.path());
    let heads = folder.path().join("log.heads");
    let name = fs::read_dir(&heads)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .find(|name| name.contains("default"))
        .unwrap();
    fs::copy(
        heads.join(&name),
        heads.join(name.replace("default", "other")),
    )
    .unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    let other = StreamName::new("other").unwrap();
    let refused = log.create_stream(&other, probity_log::StreamConfig::default());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("second copy"), "{refused}");
    // It is the head of another stream, and of no use here.
    assert!(refused.contains("then move the copy away"), "{refused}");
    assert_eq!(append(&log, &StreamName::default(), "d"), 3);
    log.close().unwrap();
    intact(&path);
}

/// A flipped bit in the journal was reported as an older copy of `keys/`, or as a note of another
/// copy to be moved away. Both were checked before the journal.
#[test]
fn a_damaged_frame_of_the_journal_is_what_an_opening_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let journal = path.join(crate::JOURNAL);
    let sound = fs::read(&journal).unwrap();
    let all = frames(&journal);
    for (number, (offset, frame)) in all.iter().enumerate() {
        let mut content = sound.clone();
        content[offset + frame.len() / 2] ^= 1;
        fs::write(&journal, content).unwrap();
        let refused = Log::open(&path, &root(), options())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(&format!("frame {number} is damaged")),
            "{number}: {refused}"
        );
    }
    fs::write(&journal, sound).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    intact(&path);
}

/// A signed head was in a second copy alone, and the folder of second copies was not mounted: the
/// loss of its frame was accepted, and another head of that size was signed. No loss is accepted
/// without the second copies, unless the caller says that they are gone too.
#[test]
fn no_loss_is_accepted_while_the_second_copies_are_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let (offset, _) = frames(&path.join(DEFAULT))[5];
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    let (copies, away) = (
        path.with_file_name("log.heads"),
        path.with_file_name("away"),
    );
    for gone in ["journal", "default"] {
        fs::rename(copies.join(gone), &away).unwrap();
        let refused = Log::open(&path, &root(), accepting()).unwrap_err();
        let is_named = |place: &str| place.ends_with(gone);
        assert!(
            matches!(&refused, LogError::Broken { place, .. } if is_named(place)),
            "{refused}"
        );
        fs::rename(&away, copies.join(gone)).unwrap();
    }
    fs::rename(&copies, &away).unwrap();
    Log::open(&path, &root(), accepting()).unwrap_err();
    let both = Options {
        accept_missing_copies: true,
        ..accepting()
    };
    Log::open(&path, &root(), both).unwrap().close().unwrap();
}
