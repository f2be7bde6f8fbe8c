//! Noted durable frames that are damaged or gone are reported, by the next writer and by readers
//! with the root key.

use std::fs;
use std::path::Path;

use probity_format::frame::FrameHeader;
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{FaultClass, Report, UncheckedReason, VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName};

use crate::{
    DEFAULT, append, closed, copy_folder, frames, intact, journal, kept, keys, killed, options,
    root, said,
};

#[test]
fn what_a_killed_writer_had_made_durable_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let said = said(&log);
    assert!(
        said.contains("5 frames found behind the last checkpoint"),
        "{said}"
    );
    log.close().unwrap();
    intact(&path);
    assert_eq!(keys(&path), ["a", "b", "c", "d", "e", "f", "g", "h"]);
}

fn keyless(path: &Path) -> Report {
    verify(path, &VerifyOptions::default()).unwrap()
}

fn keyed(path: &Path) -> Report {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

/// M1: readers with the root key got the report of a torn tail, though the note counts the frames
/// as durable.
fn is_missed_by_readers(path: &Path, found: u64) {
    let report = keyed(path);
    let [fault] = report.faults.as_slice() else {
        panic!("{:?}", report.faults);
    };
    let is_gone = report.streams[2].tail_bytes == 0;
    let class = if is_gone {
        FaultClass::Missing
    } else {
        FaultClass::Frame
    };
    assert_eq!((fault.class, fault.stream.as_str()), (class, "default"));
    let place = format!("{DEFAULT}, frame {found} at byte ");
    assert!(fault.place.starts_with(&place), "{fault}");
    let reader = Reader::open(path, &root()).unwrap();
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()));
    assert!(matches!(read, Err(LogError::Damaged { .. })), "{read:?}");
    let mut count = 0_u64;
    let damage = reader.read_damaged::<LogError>(&Filter::default(), &mut |_| {
        count += 1;
        Ok(())
    });
    let damage = damage.unwrap();
    assert_eq!((count, damage.gaps.len()), (found, 1));
    assert_eq!(damage.gaps[0].frames, 8 - found);
    // Without the root key the loss is unknown, but the number of unsigned bytes is reported.
    let report = keyless(path);
    assert!(report.is_intact(), "{:?}", report.faults);
    let stream = &report.streams[2];
    assert_eq!((stream.frames, stream.unpublished_frames), (3, found - 3));
    let length = fs::metadata(path.join(DEFAULT)).unwrap().len();
    let signed = frames_before(path, 3);
    assert_eq!(stream.unsigned_bytes, length - signed);
}

/// Bytes of the segment before frame `number`.
fn frames_before(path: &Path, number: usize) -> u64 {
    let content = fs::read(path.join(DEFAULT)).unwrap();
    let mut offset = SEGMENT_HEADER_BYTES;
    for _ in 0..number {
        offset += FrameHeader::decode(&content[offset..]).unwrap().length as usize;
    }
    offset as u64
}

/// The note bound only a number: frames left behind by an accepted loss, put back with their note,
/// passed for those that followed.
#[test]
fn frames_that_an_accepted_loss_left_behind_cannot_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let before = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[6];
    fs::write(path.join(DEFAULT), &before[..offset]).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    for (index, key) in (6..).zip(["i", "j"]) {
        assert_eq!(append(&log, &StreamName::default(), key), index);
    }
    let copy = folder.path().join("copy");
    copy_folder(&path, &copy.join("log"));
    copy_folder(&path.with_file_name("log.heads"), &copy.join("log.heads"));
    log.close().unwrap();
    let path = copy.join("log");
    assert_eq!(keyed(&path).faults, []);
    // Frames 6 and 7 of before: sealed with the log's keys, and as many as the note counts.
    fs::write(path.join(DEFAULT), before).unwrap();
    let classes: Vec<_> = keyed(&path).faults.iter().map(|it| it.class).collect();
    // The frames are not believed, so that the noted ones count as gone.
    assert_eq!(classes, [FaultClass::Frame]);
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(
        matches!(
            refused,
            LogError::Lost {
                found: 6,
                durable: 8,
                ..
            }
        ),
        "{refused}"
    );
}

/// A frame that was put back after its loss was accepted was set aside as one that the log's keys
/// did not seal.
#[test]
fn a_frame_that_was_given_up_is_not_called_another_sealers() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let before = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[6];
    fs::write(path.join(DEFAULT), &before[..offset]).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    log.close().unwrap();
    fs::write(path.join(DEFAULT), &before).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    let text = said(&log);
    assert!(
        text.contains("or an opening went on without, set aside"),
        "{text}"
    );
    log.close().unwrap();
    assert_eq!(keyed(&path).faults, []);
}

/// Damages the log of a killed writer, and expects that the loss from frame `found` on is refused,
/// and recorded once it is accepted.
fn is_missed(found: u64, damage: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    damage(&path.join(DEFAULT));
    is_missed_by_readers(&path, found);
    let before = fs::read(path.join(DEFAULT)).unwrap();
    for _ in 0..2 {
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        assert!(
            matches!(&refused, LogError::Lost { stream, found: f, durable: 8 } if stream == "default" && *f == found),
            "{refused}"
        );
        assert_eq!(
            fs::read(path.join(DEFAULT)).unwrap(),
            before,
            "nothing is touched"
        );
    }
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    let said = said(&log);
    let sentence = format!(
        "stream default: {} frames that had been durable lost, from frame {found} on",
        8 - found
    );
    assert!(said.contains(&sentence), "{said}");
    log.close().unwrap();
    intact(&path);
    let line = format!("lost default {found} 8");
    let says = |entry: &[String; 3]| entry[0] == "recover" && entry[2].lines().any(|l| l == line);
    assert!(journal(&path).iter().any(says));
    // M2: the loss was in no report: an accepted loss verified like a log that had lost nothing.
    for report in [keyed(&path), keyless(&path)] {
        let [loss] = report.losses.as_slice() else {
            panic!("{:?}", report.losses);
        };
        assert_eq!(
            (loss.stream.as_str(), loss.from, loss.to),
            ("default", found, 8)
        );
    }
    assert_eq!(keys(&path).len() as u64, found);
    // Reported once: from now on the log opens normally.
    let log = Log::open(&path, &root(), options()).unwrap();
    assert_eq!(log.repairs(), &[]);
    log.close().unwrap();
}

#[test]
fn receipts_cut_off_before_a_checkpoint_covers_them_are_missed() {
    // S16 (a): the last two frames of five with strict receipts were cut off at a boundary: intact,
    // and the writer went on with their indices.
    is_missed(6, |segment| {
        let (offset, _) = frames(segment)[6];
        let content = fs::read(segment).unwrap();
        fs::write(segment, &content[..offset]).unwrap();
    });
}

#[test]
fn one_flipped_bit_destroys_no_frame_behind_it() {
    // S16 (b): one bit flipped in the second of them, and recovery cut off that one and three whole
    // frames behind it, all of them with receipts.
    let flip = |segment: &Path| {
        let (offset, frame) = frames(segment)[4].clone();
        let mut content = fs::read(segment).unwrap();
        content[offset + frame.len() - 70] ^= 1;
        fs::write(segment, content).unwrap();
    };
    is_missed(4, flip);
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    flip(&path.join(DEFAULT));
    let content = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[4];
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    Log::open(&path, &root(), accepting)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(kept(&path), [content[offset..].to_vec()]);
}

#[test]
fn a_changed_note_of_what_is_durable_raises_no_alarm() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |notes| notes.clear(),
        |notes| notes.truncate(90),
        |notes| notes.fill(0xFF),
        // A higher number than was noted: it bears no authenticator.
        |notes| notes[252] = 200,
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let mut notes = fs::read(path.join("durable")).unwrap();
        assert_eq!(notes.len(), 3 * 108);
        damage(&mut notes);
        fs::write(path.join("durable"), notes).unwrap();
        let report = keyed(&path);
        assert!(report.is_intact(), "{:?}", report.faults);
        let mut unchecked = report.unchecked.iter().map(|it| it.path.as_str());
        assert!(unchecked.any(|path| path == "durable, stream default"));
        let log = Log::open(&path, &root(), options()).unwrap();
        log.close().unwrap();
        assert_eq!(keys(&path).len(), 8);
    }
}

#[test]
fn a_note_of_another_stream_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let mut notes = fs::read(path.join("durable")).unwrap();
    // The note of `default` in the place of the journal's, which has fewer frames.
    notes.copy_within(216..324, 0);
    fs::write(path.join("durable"), notes).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn a_changed_length_destroys_no_frame_behind_it() {
    // A larger length made the frames behind look like a part of one that a crash had torn: they
    // were cut off without a copy.
    for has_note in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let (offset, _) = frames(&path.join(DEFAULT))[3];
        let mut content = fs::read(path.join(DEFAULT)).unwrap();
        content[offset + 6] ^= 0x80;
        fs::write(path.join(DEFAULT), &content).unwrap();
        if !has_note {
            fs::remove_file(path.join("durable")).unwrap();
        }
        let accepting = Options {
            accept_loss: has_note,
            ..options()
        };
        let log = Log::open(&path, &root(), accepting).unwrap();
        log.close().unwrap();
        assert_eq!(kept(&path), [content[offset..].to_vec()]);
        assert_eq!(keys(&path), ["a", "b", "c"]);
    }
}

/// The streams without a note of durable frames, by verification with the root key.
fn unsaid(path: &Path) -> Vec<String> {
    let report = keyed(path);
    assert!(report.is_intact(), "{:?}", report.faults);
    let unsaid = report.unchecked.into_iter();
    let unsaid = unsaid.filter(|it| it.why == UncheckedReason::SaysNothing);
    unsaid.map(|it| it.path).collect()
}

/// A receipt for the first entry of a stream was cut off together with the stream's note, and
/// verification with the root key reported nothing: a stream without signed frames had none to
/// miss. The note is there from the creation on.
#[test]
fn a_note_that_is_gone_is_named_before_anything_was_signed_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let name = StreamName::new("x").unwrap();
    log.create_stream(&name, StreamConfig::default()).unwrap();
    assert_eq!(unsaid(&path), [""; 0], "created, and nothing appended yet");
    append(&log, &name, "receipt");
    let cut = folder.path().join("cut");
    copy_folder(&path, &cut.join("log"));
    copy_folder(&folder.path().join("log.heads"), &cut.join("log.heads"));
    log.close().unwrap();
    let path = cut.join("log");
    fs::remove_dir_all(path.join("streams/x/segments")).unwrap();
    let faults = keyed(&path).faults;
    assert!(faults.iter().any(|it| it.stream == "x"), "{faults:?}");
    let notes = fs::read(path.join("durable")).unwrap();
    assert_eq!(notes.len(), 4 * 108);
    for gone in [[&notes[..324], &[0; 108]].concat(), notes[..324].to_vec()] {
        fs::write(path.join("durable"), gone).unwrap();
        assert_eq!(unsaid(&path), ["durable, stream x"]);
    }
}

/// A note from before an accepted loss, put back, counted the frames that the journal records as
/// lost: verification reported a fork, and no writer opened the log.
#[test]
fn an_older_note_says_nothing_of_a_loss_that_was_accepted_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let older = fs::read(path.join("durable")).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[6];
    let content = fs::read(path.join(DEFAULT)).unwrap();
    fs::write(path.join(DEFAULT), &content[..offset]).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    for (index, key) in (6..).zip(["i", "j", "k"]) {
        assert_eq!(append(&log, &StreamName::default(), key), index);
    }
    log.close().unwrap();
    let newer = fs::read(path.join("durable")).unwrap();
    fs::write(path.join("durable"), older).unwrap();
    assert_eq!(unsaid(&path), ["durable, stream default"]);
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    intact(&path);
    // Nor does it excuse further losses.
    fs::write(path.join("durable"), newer).unwrap();
    assert_eq!(keys(&path).len(), 9);
}

/// The second copy of a head showed that its stream was put back. A proof was made all the same
/// where the newer tiles lay there still. The frames up to the copy's head must be there too.
#[test]
fn no_proof_is_made_of_a_stream_that_its_second_copy_shows_to_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let publish = |key| {
        append(&log, &StreamName::default(), key);
        log.publish().unwrap();
    };
    publish("d");
    let before = crate::sibling::copied(&path, &folder.path().join("before"));
    publish("e");
    let path = crate::sibling::copied(&path, &folder.path().join("after"));
    drop(log);
    let prove = |path: &Path| {
        let reader = Reader::open(path, &root())?;
        let proved = reader.prove(&StreamName::default(), 0, None);
        Ok::<_, LogError>(proved.map(drop).map_err(|error| error.to_string()))
    };
    assert_eq!(prove(&path).unwrap(), Ok(()));
    for file in ["streams/default/checkpoint", DEFAULT, "durable"] {
        fs::copy(before.join(file), path.join(file)).unwrap();
    }
    fs::remove_dir_all(path.join("streams/heads")).unwrap();
    copy_folder(&before.join("streams/heads"), &path.join("streams/heads"));
    let heads = |path: &Path| path.with_file_name("log.heads").join("heads");
    fs::copy(heads(&before), heads(&path)).unwrap();
    let said = prove(&path).unwrap().unwrap_err();
    assert!(said.contains("put back"), "{said}");
}
