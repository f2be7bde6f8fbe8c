//! Segments that are cut anew, which the format allows, and frames of another version than the
//! log's, which it does not.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and files are changed around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::{RootKey, Secret};
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name, segment_first_frame};
use probity_format::{Entry, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{Fault, FaultClass, VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName};

/// Entries of the sample, each in a frame of its own.
const ENTRIES: u64 = 40;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Puts a segment end behind every few frames.
fn open(path: &Path) -> Log {
    let options = Options {
        segment_bytes_max: 4096,
        ..Options::default()
    };
    Log::open(path, &root(), options).unwrap()
}

fn append(log: &Log, number: u64) {
    let key = format!("key-{number}");
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        payload: &[7; 300],
        ..Entry::new(time, "write", key.as_bytes())
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    assert_eq!(appender.append_durable(&entry).unwrap().index, number);
}

/// A log with several segments of `default`.
fn sample(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    let (config, options) = (StreamConfig::default(), Options::default());
    Log::create(&path, "example.com/log", &root(), config, options)
        .unwrap()
        .close()
        .unwrap();
    let log = open(&path);
    for number in 0..ENTRIES {
        append(&log, number);
    }
    log.close().unwrap();
    assert!(firsts(&path).len() > 3);
    path
}

fn segment(path: &Path, first: u64) -> PathBuf {
    path.join("streams/default").join(segment_file_name(first))
}

/// The frames with which the segments of `default` begin.
fn firsts(path: &Path) -> Vec<u64> {
    let files = fs::read_dir(path.join("streams/default/segments")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut firsts: Vec<u64> = names
        .filter_map(|name| segment_first_frame(&name))
        .collect();
    firsts.sort_unstable();
    firsts
}

/// The offset of each frame in a segment, and the end of the last.
fn bounds(content: &[u8]) -> Vec<usize> {
    let mut bounds = vec![SEGMENT_HEADER_BYTES];
    let mut offset = SEGMENT_HEADER_BYTES;
    while offset < content.len() {
        offset += FrameHeader::decode(&content[offset..]).unwrap().length as usize;
        bounds.push(offset);
    }
    bounds
}

/// Cuts the segment that begins with frame `first` before its frame `at`, counted from 0.
fn split(path: &Path, first: u64, at: usize) {
    let content = fs::read(segment(path, first)).unwrap();
    let (before, behind) = content.split_at(bounds(&content)[at]);
    fs::write(segment(path, first), before).unwrap();
    let header = &content[..SEGMENT_HEADER_BYTES];
    let next = segment(path, first + at as u64);
    fs::write(next, [header, behind].concat()).unwrap();
}

/// Makes one segment of two that follow one another.
fn merge(path: &Path, first: u64, second: u64) {
    let mut content = fs::read(segment(path, first)).unwrap();
    content.extend_from_slice(&fs::read(segment(path, second)).unwrap()[SEGMENT_HEADER_BYTES..]);
    fs::write(segment(path, first), content).unwrap();
    fs::remove_file(segment(path, second)).unwrap();
}

fn faults(path: &Path, root: Option<RootKey>) -> Vec<Fault> {
    let options = VerifyOptions {
        root,
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap().faults
}

/// Expects `entries` entries that can be read and proved, in a log that is intact.
fn is_whole(path: &Path, entries: u64) {
    for root in [None, Some(root())] {
        assert_eq!(faults(path, root), []);
    }
    let reader = Reader::open(path, &root()).unwrap();
    let mut next = 0;
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            assert_eq!(found.entry.key, format!("key-{next}").as_bytes());
            next += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(next, entries);
    for index in [0, entries / 2, entries - 1] {
        let proof = reader.prove(&StreamName::default(), index, None).unwrap();
        assert_eq!(proof.proved.index, index);
    }
}

/// Cuts between segments are no evidence, as the document states. A stream with other cuts is
/// intact, read, proved and written on, wherever the cuts are.
#[test]
fn segments_that_are_split_or_merged_are_intact_and_written_on() {
    let cuts: [fn(&Path); 5] = [
        |path| split(path, 0, 1),
        |path| split(path, firsts(path)[1], 3),
        |path| {
            let last = *firsts(path).last().unwrap();
            split(path, last, 1);
        },
        |path| {
            let firsts = firsts(path);
            merge(path, firsts[0], firsts[1]);
        },
        |path| {
            let mut firsts = firsts(path);
            let (last, before) = (firsts.pop().unwrap(), firsts.pop().unwrap());
            merge(path, before, last);
        },
    ];
    for (number, cut) in cuts.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = sample(folder.path());
        let before = firsts(&path);
        cut(&path);
        assert_ne!(firsts(&path), before, "cut {number}");
        is_whole(&path, ENTRIES);
        for more in 0..2 {
            let log = open(&path);
            assert_eq!(log.repairs(), &[], "cut {number}");
            append(&log, ENTRIES + more);
            log.close().unwrap();
            is_whole(&path, ENTRIES + more + 1);
        }
    }
}

/// A substitute for a frame: the same numbers, in a frame of the other version.
fn in_place_of(frame: &[u8], other: &[u8], is_older: bool) -> Vec<u8> {
    let mut other = other.to_vec();
    let stream = if is_older { (56, 52) } else { (52, 56) };
    let id = frame[stream.1..stream.1 + 32].to_vec();
    other[16..32].copy_from_slice(&frame[16..32]);
    other[stream.0..stream.0 + 32].copy_from_slice(&id);
    let sealed = Frame::parse(&other).unwrap().sealed_root();
    let trailer = other.len() - 32;
    other[trailer..].copy_from_slice(sealed.as_bytes());
    assert!(Frame::parse(&other).unwrap().is_whole());
    other
}

fn older(folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v2/section");
    let path = folder.join("section");
    copy_folder(&from, &path);
    path
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let place = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_folder(&file.path(), &place);
        } else {
            fs::copy(file.path(), place).unwrap();
        }
    }
}

/// Expects that only the frames of `default` are wrong, and that a changed byte of the journal is
/// found beside them.
fn is_named(path: &Path, root: &dyn Fn() -> RootKey, journal: &str) {
    for root in [None, Some(root())] {
        let faults = faults(path, root);
        assert!(!faults.is_empty());
        let is_frame = |fault: &Fault| {
            fault.stream == "default"
                && matches!(fault.class, FaultClass::Frame | FaultClass::Segment)
        };
        assert!(faults.iter().all(is_frame), "{faults:?}");
    }
    let journal = path.join("streams/journal").join(journal);
    let mut content = fs::read(&journal).unwrap();
    let place = content.len() - 40;
    content[place] ^= 1;
    fs::write(journal, content).unwrap();
    let faults = faults(path, None);
    let streams: Vec<&str> = faults.iter().map(|fault| fault.stream.as_str()).collect();
    assert!(
        streams.contains(&"default") && streams.contains(&"journal"),
        "{faults:?}"
    );
}

/// A whole frame of the other version in the place of one, with its numbers, is invalid in a log of
/// this version. It is reported, and the other streams are checked all the same.
#[test]
fn a_frame_of_another_version_is_named_and_the_other_streams_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (older(folder.path()), sample(folder.path()));
    let old_segment = old.join("streams/default/segments/00000000.seg");
    let (old_content, new_content) = (
        fs::read(&old_segment).unwrap(),
        fs::read(segment(&new, 0)).unwrap(),
    );
    let old_start = 128;
    let old_length = FrameHeader::decode(&old_content[old_start..])
        .unwrap()
        .length as usize;
    let old_frame = &old_content[old_start..old_start + old_length];
    let new_bounds = bounds(&new_content);
    let new_frame = &new_content[new_bounds[0]..new_bounds[1]];
    let in_new = [
        &new_content[..new_bounds[0]],
        &in_place_of(new_frame, old_frame, true),
        &new_content[new_bounds[1]..],
    ];
    fs::write(segment(&new, 0), in_new.concat()).unwrap();
    let in_old = [
        &old_content[..old_start],
        &in_place_of(old_frame, new_frame, false),
        &old_content[old_start + old_length..],
    ];
    fs::write(&old_segment, in_old.concat()).unwrap();
    is_named(&new, &root, &segment_file_name(0));
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v2/section.key");
    let key = || RootKey::from_text(&fs::read_to_string(&key).unwrap()).unwrap();
    is_named(&old, &key, "segments/00000000.seg");
}
