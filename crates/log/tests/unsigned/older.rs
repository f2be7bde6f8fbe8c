//! Frames behind the head of a version 2 log, where no frame says who sealed it: they are not
//! believed, with the root key or without.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::RootKey;
use probity_log::prove::ProveError;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{Report, VerifyOptions, verify};
use probity_log::{LogError, LogLocation, Older, StreamName};

use crate::{add, copy_folder};

/// Logs of 18 entries in two openings: sections, sections of subjects, whole frames with LZ4.
const LOGS: [&str; 3] = ["section", "erasable", "lz4"];
/// Bytes of a header of version 2, and of its directory entry.
const HEADER_BYTES: usize = 184;
const DIRECTORY_BYTES: usize = 64;
const SEGMENT_HEADER_BYTES: usize = 128;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v2")
}

fn root(log: &str) -> RootKey {
    let text = fs::read_to_string(testdata().join(format!("{log}.key"))).unwrap();
    RootKey::from_text(&text).unwrap()
}

/// A copy of the log, with the second copies of its heads.
fn older(folder: &Path, log: &str) -> PathBuf {
    let path = folder.join(log);
    copy_folder(&testdata().join(log), &path);
    let heads = format!("{log}.heads");
    copy_folder(&testdata().join(&heads), &folder.join(heads));
    path
}

fn segment(path: &Path, stream: &str) -> PathBuf {
    path.join(format!("streams/{stream}/segments/00000000.seg"))
}

/// The frames of a segment.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let content = fs::read(file).unwrap();
    let mut rest = &content[SEGMENT_HEADER_BYTES..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = FrameHeader::decode(rest).unwrap().length as usize;
        let (frame, after) = rest.split_at(length);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// Writes the numbers that follow those of the frame `last`, and the root that the bytes have.
fn number_and_seal(frame: &mut [u8], last: &FrameHeader) {
    let next = last.first_entry + u64::from(last.entries);
    frame[16..24].copy_from_slice(&(last.frame + 1).to_le_bytes());
    frame[24..32].copy_from_slice(&next.to_le_bytes());
    let sealed = Frame::parse(frame).unwrap().sealed_root();
    let trailer = frame.len() - 32;
    frame[trailer..].copy_from_slice(sealed.as_bytes());
    assert!(Frame::parse(frame).unwrap().is_whole());
}

/// The last frame of `stream` once more, with the next numbers and other bytes sealed.
fn copied(path: &Path, stream: &str) -> Vec<u8> {
    let mut frame = frames(&segment(path, stream)).pop().unwrap();
    let last = FrameHeader::decode(&frame).unwrap();
    let start = frame.len() - 60;
    frame[start..start + 20].fill(0x5A);
    number_and_seal(&mut frame, &last);
    frame
}

/// The number of the last journal frame with more than heads, which a frame behind the last must
/// name.
fn telling(path: &Path) -> String {
    let said = |frame: &Vec<u8>| {
        let is = |word: &[u8]| frame.windows(word.len()).any(|bytes| bytes == word);
        is(b"key.certify")
    };
    let frames = frames(&segment(path, "journal"));
    frames.iter().rposition(said).unwrap().to_string()
}

/// A journal frame with these entries, each an action, a key and a payload, as anybody who can read
/// the file can make it: epoch, salt and commitment are those of the frame before.
fn said_by_nobody(path: &Path, entries: [[&str; 3]; 3]) -> Vec<u8> {
    let before = frames(&segment(path, "journal")).pop().unwrap();
    let last = FrameHeader::decode(&before).unwrap();
    let section = body(entries, last.time_max);
    let mut frame = before[..HEADER_BYTES].to_vec();
    let length = HEADER_BYTES + DIRECTORY_BYTES + section.len() + 32;
    frame[8..12].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    frame[12..16].copy_from_slice(&1_u32.to_le_bytes());
    frame[32..36].copy_from_slice(&3_u32.to_le_bytes());
    frame[40..48].copy_from_slice(&last.time_max.to_le_bytes());
    let mut directory = [0; DIRECTORY_BYTES];
    directory[4..8].copy_from_slice(&u32::try_from(section.len()).unwrap().to_le_bytes());
    directory[8..12].copy_from_slice(&3_u32.to_le_bytes());
    frame.extend_from_slice(&directory);
    frame.extend_from_slice(&section);
    frame.extend_from_slice(&[0; 32]);
    number_and_seal(&mut frame, &last);
    frame
}

/// A section body of version 2 with every column, not compressed.
fn body(entries: [[&str; 3]; 3], time: i64) -> Vec<u8> {
    let lengths = entries.map(|[_, _, payload]| payload.len() as u64);
    assert!(lengths.contains(&0) && lengths.iter().all(|length| *length < 128));
    let most = *lengths.iter().max().unwrap();
    let width = 64 - most.leading_zeros();
    let mut packed = vec![0xFF, 0x03, 3, 0, u8::try_from(width).unwrap()];
    let bits = (0..)
        .zip(lengths)
        .fold(0, |bits, (place, length)| bits | length << (place * width));
    packed.extend_from_slice(&bits.to_le_bytes()[..(3 * width as usize).div_ceil(8)]);
    packed.extend_from_slice(&time.to_le_bytes());
    packed.extend_from_slice(&[0, 0, 0, 0]);
    let mut plain: String = entries.iter().map(|[_, _, payload]| *payload).collect();
    let (actions, keys) = (entries.map(|entry| entry[0]), entries.map(|entry| entry[1]));
    let columns: [&[&str]; 8] = [
        &keys,
        &["probity"],
        &[""],
        &actions,
        &[""],
        &[""],
        &[""],
        &[""],
    ];
    for words in columns {
        packed.extend_from_slice(if words.len() == 1 { &[1, 0] } else { &[3, 2] });
        plain.extend(
            words
                .iter()
                .map(|word| char::from(u8::try_from(word.len()).unwrap())),
        );
        plain.extend(words.iter().copied());
    }
    let mut body = vec![0];
    for length in [packed.len(), plain.len()] {
        body.extend_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    }
    [body, packed, plain.into_bytes()].concat()
}

/// The readable entries about any subject, and the number of erased ones.
fn read(path: &Path, log: &str) -> (Vec<Vec<u8>>, usize) {
    let reader = Reader::open(path, &root(log)).unwrap();
    let (mut keys, mut erased) = (Vec::new(), 0);
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            keys.push(found.entry.key.to_vec());
            erased += usize::from(found.erased);
            Ok(())
        })
        .unwrap();
    (keys, erased)
}

fn verified(path: &Path, root: Option<RootKey>) -> Report {
    let options = VerifyOptions {
        root,
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

/// Expects that all readers report the `frame` behind the head of `stream` as foreign, and do not
/// believe it.
fn is_nobodys(path: &Path, log: &str, stream: usize, frame: &[u8]) {
    for root in [None, Some(root(log))] {
        let report = verified(path, root);
        assert_eq!(report.faults, [], "{log}");
        let stream = &report.streams[stream];
        assert_eq!((stream.unpublished_frames, stream.tail_bytes), (1, 0));
        assert_eq!(stream.unsigned_bytes, frame.len() as u64);
        assert!(!stream.unpublished_sealed, "{log}");
    }
    let reader = Reader::open(path, &root(log)).unwrap();
    let unsigned = reader.unsigned(&Filter::default()).unwrap();
    let unsigned: Vec<_> = unsigned.iter().map(|it| (it.frames, it.bytes)).collect();
    assert_eq!(unsigned, [(1, frame.len() as u64)], "{log}");
}

/// Without any key, one frame behind the head of the journal made entries "erased" for readers with
/// the root key. Verification reported that the log's keys had sealed it. In version 2 no frame
/// shows who sealed it: the header names its key by a commitment that anybody can copy.
#[test]
fn a_forged_frame_behind_the_head_of_an_older_journal_erases_and_creates_nothing() {
    let digest = "0".repeat(64);
    let folder = tempfile::tempdir().unwrap();
    for log in LOGS {
        let honest = older(folder.path(), log);
        let before = telling(&honest);
        let intact = read(&honest, log);
        assert_eq!((intact.0.len(), intact.1), (18, 0), "{log}");
        let slots = fs::read(honest.join("subjects/slots")).unwrap_or_default();
        let slots = slots.as_chunks::<96>().0.iter().map(|slot| {
            let pseudonym = slot[..16].iter().map(|byte| format!("{byte:02x}"));
            pseudonym.collect::<String>()
        });
        let mut forged: Vec<[[String; 3]; 3]> = Vec::new();
        let entry =
            |action: &str, key: &str, payload: &str| [action, key, payload].map(str::to_owned);
        for (number, pseudonym) in slots.enumerate() {
            forged.push([
                entry("before", &before, ""),
                entry("subjects", "1000", &digest),
                entry("subject.erase", &number.to_string(), &pseudonym),
            ]);
        }
        let config = "proofs=section cipher=danger-none compression=none erasable=no";
        forged.push([
            entry("before", &before, ""),
            entry("stream.create", "hr", config),
            entry("recover", "", "lost default 0 9\n"),
        ]);
        for entries in &forged {
            let copy = tempfile::tempdir().unwrap();
            let path = older(copy.path(), log);
            let entries = entries
                .each_ref()
                .map(|entry| entry.each_ref().map(String::as_str));
            let frame = said_by_nobody(&path, entries);
            add(&segment(&path, "journal"), &frame);
            assert_eq!(read(&path, log), intact, "{log}: {entries:?}");
            is_nobodys(&path, log, 0, &frame);
            assert_eq!(verified(&path, Some(root(log))).losses, []);
            let reader = Reader::open(&path, &root(log)).unwrap();
            assert_eq!(reader.streams().count(), 2, "{log}");
            let older = Older::read(&LogLocation::new(&path, None)).unwrap();
            assert_eq!(older.streams.len(), 1, "{log}");
        }
        fs::remove_dir_all(&honest).unwrap();
    }
}

/// A copy of a stream's last frame with the next numbers and other bytes was taken for the log's
/// own. No export went past it. It could not be told from a leftover of a crash, with or without a
/// key of the log.
#[test]
fn a_forged_frame_behind_the_head_of_an_older_stream_is_named_and_not_read() {
    for log in LOGS {
        let folder = tempfile::tempdir().unwrap();
        let path = older(folder.path(), log);
        let intact = read(&path, log);
        let frame = copied(&path, "default");
        add(&segment(&path, "default"), &frame);
        assert_eq!(read(&path, log), intact, "{log}");
        is_nobodys(&path, log, 1, &frame);
        let reader = Reader::open(&path, &root(log)).unwrap();
        let default = StreamName::default();
        assert_eq!(reader.entries(&default).unwrap(), 18);
        let refused = reader.prove(&default, 18, None);
        let is_unsigned = matches!(
            refused,
            Err(ProveError::Unsigned {
                index: 18,
                covered: 18,
                ..
            })
        );
        assert!(is_unsigned, "{log}: {:?}", refused.err());
        let mut count = 0;
        let read = reader.read_damaged::<LogError>(&Filter::default(), &mut |_| {
            count += 1;
            Ok(())
        });
        assert!(read.unwrap().is_none(), "{log}");
        assert_eq!(count, 18, "{log}");
    }
}

/// Only a head confirms a frame of version 2. Where the checkpoint is gone, the second copy does,
/// and the frames it covers are read past the damage.
#[test]
fn an_older_stream_without_its_checkpoint_is_read_as_far_as_its_second_copy_says() {
    for log in LOGS {
        let folder = tempfile::tempdir().unwrap();
        let path = older(folder.path(), log);
        let intact = read(&path, log);
        fs::remove_file(path.join("streams/default/checkpoint")).unwrap();
        let frame = copied(&path, "default");
        add(&segment(&path, "default"), &frame);
        let reader = Reader::open(&path, &root(log)).unwrap();
        let mut count = 0;
        let read = reader.read_damaged::<LogError>(&Filter::default(), &mut |_| {
            count += 1;
            Ok(())
        });
        assert!(read.unwrap().gaps.is_empty(), "{log}");
        assert_eq!(count, intact.0.len(), "{log}");
    }
}
