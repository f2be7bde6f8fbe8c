//! Frames that somebody without the log's keys appended are set aside.

use std::fs;
use std::path::Path;

use probity_format::Entry;
use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::tree::Hash;
use probity_log::verify::{Unchecked, VerifyOptions, verify};
use probity_log::{Cipher, Log, Options, StreamConfig, StreamName};

use crate::{
    DEFAULT, HEADS, JOURNAL, ORIGIN, add, append, closed, forged, frames, intact, journal, kept,
    keys, killed, options, root, said, time,
};

#[test]
fn a_forged_frame_of_a_built_in_stream_is_set_aside_and_never_signed() {
    // S3: the journal is in clear, and the next opening signed a frame that somebody had appended
    // to its file: a false fork, a false rollback, a false report of a repair, a stream that was
    // then written in clear.
    let origin = format!("{ORIGIN}/streams/default");
    let head = |size| Checkpoint::new(&origin, size, Hash::new([9; 32]));
    let heads = [3, 9].map(|size| head(size).unwrap().encode());
    let forgeries = [
        (HEADS, "heads", "", heads[0].as_str()),
        (HEADS, "heads", "all", heads[1].as_str()),
        (
            JOURNAL,
            "recover",
            "",
            "5 entries about user:7 were removed by admin Bob\n",
        ),
        (
            JOURNAL,
            "stream.create",
            "hr",
            "proofs=section cipher=danger-none compression=none erasable=no",
        ),
    ];
    for (file, action, key, payload) in forgeries {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let entries = [Entry {
            actor: "probity",
            payload: payload.as_bytes(),
            ..Entry::new(time(), action, key.as_bytes())
        }];
        let frame = forged(&path, file, StreamConfig::JOURNAL, &entries);
        is_set_aside(&path, file, &frame);
        let forged = |entry: &&[String; 3]| entry[2] == payload && entry[0] == action;
        assert_eq!(journal(&path).iter().filter(forged).count(), 0);
    }
}

/// Appends `frame` to the segment `file`, and expects that it is not believed and everything goes
/// on as without it.
fn is_set_aside(path: &Path, file: &str, frame: &[u8]) {
    let before = journal(path);
    let honest = fs::read(path.join(file)).unwrap();
    add(&path.join(file), frame);
    assert_eq!(journal(path), before, "a reader believes it");
    let log = Log::open(path, &root(), options()).unwrap();
    let said = said(&log);
    assert!(
        said.contains("which this log's keys did not seal"),
        "{said}"
    );
    let hr = StreamName::new("hr").unwrap();
    log.create_stream(&hr, StreamConfig::default()).unwrap();
    let (_, config) = log
        .streams()
        .into_iter()
        .find(|(name, _)| *name == hr)
        .unwrap();
    assert_eq!(config.cipher, Cipher::Aes256Gcm);
    append(&log, &hr, "salary");
    log.close().unwrap();
    intact(path);
    assert_eq!(kept(path), [frame.to_vec()], "the bytes are kept");
    assert!(fs::read(path.join(file)).unwrap().starts_with(&honest));
}

#[test]
fn a_forged_frame_of_a_sealed_stream_is_set_aside_and_what_follows_can_be_read() {
    // S4: a copy of the last frame with the next numbers and random sections was signed; nothing
    // behind it could be exported any more.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let (_, mut garbage) = frames(&path.join(DEFAULT)).pop().unwrap();
    garbage[16] += 1;
    garbage[24] += 1;
    let start = garbage.len() - 60;
    garbage[start..start + 20].fill(0x5A);
    let honest = Frame::parse(&garbage).unwrap().sealed_root();
    let trailer = garbage.len() - 32;
    garbage[trailer..].copy_from_slice(honest.as_bytes());
    assert!(Frame::parse(&garbage).unwrap().is_whole());
    let sealed = forged(
        &path,
        DEFAULT,
        StreamConfig::default(),
        &[Entry::new(time(), "delete", b"everything")],
    );
    for (number, frame) in (1..).zip([garbage, sealed]) {
        add(&path.join(DEFAULT), &frame);
        let log = Log::open(&path, &root(), options()).unwrap();
        assert_eq!(append(&log, &StreamName::default(), "next"), 2 + number);
        log.close().unwrap();
        intact(&path);
        assert!(kept(&path).contains(&frame));
        let count = usize::try_from(2 + number).unwrap();
        assert_eq!(keys(&path).len(), count + 1);
    }
    assert_eq!(keys(&path), ["a", "b", "c", "next", "next"]);
}

/// An empty file with the name of a segment made all following frames in the segment before look
/// torn. Verification reported a sound frame as damaged. An opening asked to accept a loss, and cut
/// durable frames away.
#[test]
fn a_file_in_the_place_of_a_segment_costs_no_frame() {
    let segment = |number| format!("streams/default/segments/{number:020}.seg");
    for number in [3, 5, 7] {
        for (content, is_noted) in [
            (0, true),
            (0, false),
            (40, true),
            (40, false),
            (200, true),
            (200, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = killed(folder.path());
            let honest = fs::read(path.join(DEFAULT)).unwrap();
            let strange = path.join(segment(number));
            let header = honest.first_chunk::<40>().unwrap();
            let mut junk = vec![b'x'; 200];
            junk[..40].copy_from_slice(header);
            junk.truncate(content);
            fs::write(&strange, &junk).unwrap();
            if !is_noted {
                fs::remove_file(path.join("durable")).unwrap();
            }
            let options = VerifyOptions {
                root: Some(root()),
                ..VerifyOptions::default()
            };
            let report = verify(&path, &options).unwrap();
            assert_eq!(report.faults, [], "{number}, {content} bytes");
            let named = |it: &Unchecked| it.path == segment(number);
            assert!(report.unchecked.iter().any(named), "{number}, {content}");
            assert_eq!(keys(&path).len(), 8, "{number}, {content} bytes");
            let log = Log::open(&path, &root(), crate::options()).unwrap();
            append(&log, &StreamName::default(), "next");
            log.close().unwrap();
            assert_eq!(keys(&path).len(), 9, "{number}, {content} bytes");
            intact(&path);
            assert!(fs::read(path.join(DEFAULT)).unwrap().starts_with(&honest));
            assert!(!strange.exists());
            assert_eq!(
                kept(&path),
                if content == 200 { vec![junk] } else { vec![] }
            );
        }
    }
}

/// A copy of the last frames in a segment of their own made both look torn: an opening set both
/// aside, and with them entries that had receipts.
#[test]
fn a_second_copy_of_the_last_frames_costs_none_of_them() {
    for (number, is_noted) in [(3, true), (3, false), (6, true), (6, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let honest = fs::read(path.join(DEFAULT)).unwrap();
        let name = format!("streams/default/segments/{number:020}.seg");
        let (offset, _) = frames(&path.join(DEFAULT))[number];
        let copy = [&honest[..40], &honest[offset..]].concat();
        fs::write(path.join(&name), &copy).unwrap();
        if !is_noted {
            fs::remove_file(path.join("durable")).unwrap();
        }
        let options = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        let report = verify(&path, &options).unwrap();
        assert_eq!(report.faults, [], "{number}");
        assert!(report.unchecked.iter().any(|it| it.path == name));
        assert_eq!(keys(&path).len(), 8, "{number}");
        let log = Log::open(&path, &root(), crate::options()).unwrap();
        append(&log, &StreamName::default(), "next");
        log.close().unwrap();
        assert_eq!(keys(&path).len(), 9, "{number}");
        assert_eq!(kept(&path), [copy]);
        intact(&path);
    }
}

/// A link under the name of the next copy stopped every opening that had something to set aside.
#[test]
fn a_link_in_the_folder_of_copies_stops_no_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let end = fs::metadata(path.join(DEFAULT)).unwrap().len();
    add(&path.join(DEFAULT), &[7; 300]);
    let victim = folder.path().join("victim");
    fs::write(&victim, b"untouched").unwrap();
    fs::create_dir(path.join("set-aside")).unwrap();
    let name = format!("set-aside/{}-{end}", DEFAULT.replace('/', "-"));
    std::os::unix::fs::symlink(&victim, path.join(format!("{name}-0"))).unwrap();
    fs::create_dir(path.join(format!("{name}-1"))).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    log.close().unwrap();
    assert_eq!(fs::read(path.join(format!("{name}-2"))).unwrap(), [7; 300]);
    assert_eq!(fs::read(victim).unwrap(), b"untouched");
}

/// Frames left behind by an accepted loss could be appended behind the new ones, where their
/// numbers were due again, and were signed: entries that the journal records as lost came back, in
/// another order.
#[test]
fn a_frame_of_an_earlier_epoch_fits_nowhere_behind_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let old = frames(&path.join(DEFAULT));
    let (offset, _) = old[5];
    let mut damaged = fs::read(path.join(DEFAULT)).unwrap();
    damaged[offset + 200] ^= 1;
    fs::write(path.join(DEFAULT), &damaged).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    append(&log, &StreamName::default(), "new");
    log.close().unwrap();
    let before = keys(&path);
    let (_, left_behind) = &old[6];
    add(&path.join(DEFAULT), left_behind);
    assert_eq!(keys(&path), before, "a reader believes it");
    let log = Log::open(&path, &root(), options()).unwrap();
    assert!(said(&log).contains("which this log's keys did not seal"));
    append(&log, &StreamName::default(), "newer");
    log.close().unwrap();
    assert_eq!(keys(&path).len(), before.len() + 1);
    assert!(kept(&path).contains(left_behind));
}
