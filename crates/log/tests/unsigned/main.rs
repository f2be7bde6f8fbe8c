//! Frames behind the last signed head: those that the log's keys did not seal are never signed for,
//! believed or removed silently, and lost durable frames are reported.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

mod abandoned;
mod beyond;
mod expired;
mod fork;
mod holes;
mod keyless;
mod keys;
mod losses;
mod notes;
mod older;
mod sibling;
mod stolen_key;
mod strange;
mod tail;
mod uncovered;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::certificate::Certificate;
use probity_format::compress::Decompressor;
use probity_format::frame::{Frame, FrameHeader};
use probity_format::geometry::Geometry;
use probity_format::keys::{EpochSalt, MasterKey, RootKey, Secret};
use probity_format::note::SignedNote;
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys, SubjectSection};
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::stream::StreamId;
use probity_format::{DecodeError, Entry, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Compression, Durability, Log, LogError, Options, StreamConfig, StreamName};

const ORIGIN: &str = "example.com/log";
const JOURNAL: &str = "streams/journal/segments/00000000000000000000.seg";
const HEADS: &str = "streams/heads/segments/00000000000000000000.seg";
const DEFAULT: &str = "streams/default/segments/00000000000000000000.seg";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Nothing is signed for until the log is closed.
fn options() -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    }
}

fn time() -> Timestamp {
    Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap()
}

fn append(log: &Log, stream: &StreamName, key: &str) -> u64 {
    let mut appender = log.appender(stream).unwrap();
    let entry = Entry::new(time(), "write", key.as_bytes());
    appender.append_durable(&entry).unwrap().index
}

/// A log of three entries, closed in good order after its creation and after they were appended.
fn closed(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    let log = Log::create(&path, ORIGIN, &root(), StreamConfig::default(), options()).unwrap();
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for key in ["a", "b", "c"] {
        append(&log, &StreamName::default(), key);
    }
    log.close().unwrap();
    path
}

/// An erasable log without entries.
fn erasable(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(&path, ORIGIN, &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
    path
}

/// The state after the kill of a writer that gave strict receipts for the entries 3 to 7 and had
/// published nothing of them.
fn killed(folder: &Path) -> PathBuf {
    let path = closed(folder);
    let log = Log::open(&path, &root(), options()).unwrap();
    for (index, key) in (3..).zip(["d", "e", "f", "g", "h"]) {
        assert_eq!(append(&log, &StreamName::default(), key), index);
    }
    let copy = folder.join("killed");
    copy_folder(&path, &copy.join("log"));
    copy_folder(&folder.join("log.heads"), &copy.join("log.heads"));
    log.close().unwrap();
    copy.join("log")
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

fn add(file: &Path, bytes: &[u8]) {
    let mut content = fs::read(file).unwrap();
    content.extend_from_slice(bytes);
    fs::write(file, content).unwrap();
}

/// The repairs that the log reports, in words.
fn said(log: &Log) -> String {
    let repairs = log.repairs().iter().map(ToString::to_string);
    repairs.collect::<Vec<_>>().join("\n")
}

/// The frames of a segment, with their offsets.
fn frames(file: &Path) -> Vec<(usize, Vec<u8>)> {
    let content = fs::read(file).unwrap();
    let mut frames = Vec::new();
    let mut offset = SEGMENT_HEADER_BYTES;
    while offset < content.len() {
        let length = FrameHeader::decode(&content[offset..]).unwrap().length as usize;
        frames.push((offset, content[offset..offset + length].to_vec()));
        offset += length;
    }
    frames
}

/// A frame that is due behind the last of `file`, well formed in every respect, made without any
/// key of the log.
fn forged(path: &Path, file: &str, config: StreamConfig, entries: &[Entry<'_>]) -> Vec<u8> {
    // The epoch, its salt and its certificate are the log's own; the key under them cannot be.
    let master = MasterKey::new(Secret::new([1; 32]));
    sealed(&master, path, (file, config), entries)
}

/// A frame like [`forged`], under the key `master`.
fn sealed(
    master: &MasterKey,
    path: &Path,
    (file, config): (&str, StreamConfig),
    entries: &[Entry<'_>],
) -> Vec<u8> {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let name = StreamName::new(file.split('/').nth(1).unwrap()).unwrap();
    let id = StreamId::new(&geometry.fingerprint(), &name, &config);
    let last = frames(&path.join(file)).pop().unwrap().1;
    let last = Frame::parse(&last).unwrap().clear.header;
    let salt = EpochSalt::of_frame(last.version(), &last.salt);
    let epoch = master.epoch_key(&id, last.epoch, &salt);
    let epoch = epoch.certified_by(&certified(path, last.epoch));
    let place = FramePlace {
        stream: id,
        frame: last.frame + 1,
        first_entry: last.first_entry + u64::from(last.entries),
        seed: 1,
        fresh: [2; 16],
    };
    let mut rows = Vec::new();
    for entry in entries {
        let start = rows.len();
        rows.resize(start + row_bytes(entry), 0);
        encode_row(entry, &mut rows[start..]);
    }
    let mut out = Vec::new();
    let record = FrameSealer::new(config, Compression::DEFAULT)
        .unwrap()
        .seal(&place, &epoch, &[&rows], &mut Nobody, &mut out)
        .unwrap();
    out.truncate(record.length as usize);
    assert!(Frame::parse(&out).unwrap().is_whole());
    out
}

/// The key that frame `number` of the journal certifies.
fn certified(path: &Path, number: u32) -> [u8; 32] {
    let (_, frame) = frames(&path.join(JOURNAL)).swap_remove(number as usize);
    let frame = Frame::parse(&frame).unwrap();
    let body = frame.open(0, None, &mut Decompressor::default()).unwrap();
    let columns = body.columns().unwrap();
    let entries = (0..columns.len()).map(|place| columns.entry(place).unwrap());
    let mut certificates = entries.filter(|entry| entry.action == "key.certify");
    let note = SignedNote::parse(certificates.next().unwrap().payload).unwrap();
    *Certificate::parse(note.text()).unwrap().successor().key()
}

struct Nobody;

impl SubjectKeys for Nobody {
    fn section_key(
        &mut self,
        _subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        Err(DecodeError::new("subjects", 0, "are nobody"))
    }
}

fn intact(path: &Path) {
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let report = verify(path, &options).unwrap();
        assert!(report.is_intact(), "{:?}", report.faults);
    }
}

fn keys(path: &Path) -> Vec<String> {
    let mut keys = Vec::new();
    let reader = Reader::open(path, &root()).unwrap();
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            keys.push(String::from_utf8(found.entry.key.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
    keys
}

/// The journal's entries, as action, key and payload.
fn journal(path: &Path) -> Vec<[String; 3]> {
    let filter = Filter {
        stream: Some(StreamName::journal()),
        ..Filter::default()
    };
    let mut said = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Reader::open(path, &root())
        .unwrap()
        .read::<LogError>(&filter, &mut |found| {
            let entry = &found.entry;
            said.push([
                entry.action.to_owned(),
                text(entry.key),
                text(entry.payload),
            ]);
            Ok(())
        })
        .unwrap();
    said
}

/// The files that recovery set aside.
fn kept(path: &Path) -> Vec<Vec<u8>> {
    let files = fs::read_dir(path.join("set-aside"));
    let files = files.into_iter().flatten();
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}
