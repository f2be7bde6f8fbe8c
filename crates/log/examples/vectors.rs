//! Makes a small log for those who write a reader or a verifier of their own, with a hex dump of
//! its segments.
//!
//! Run with `cargo run -p probity-log --example vectors -- FOLDER`, a folder that is not there yet.
//! The log committed in `testdata/v3` was made so; each run draws other keys.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which writes its files around the log's storage"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::frame::{
    DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, FrameHeader,
};
use probity_format::keys::{RootKey, Secret};
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::{Claimed, Entry, Outcome as Ended, Subjects, Timestamp};
use probity_log::{Durability, Log, Options, Proofs, StreamConfig, StreamName};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The root key of the vectors: these bytes, 32 of them.
const ROOT: u8 = 0x76;
/// The claimed time of the entries, in nanoseconds since 1970.
const TIME: i64 = 1_700_000_000_000_000_000;

fn main() -> Outcome<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("names no folder to make")?;
    fs::create_dir(&folder)?;
    let root = RootKey::new(Secret::new([ROOT; 32]));
    fs::write(folder.join("root.key"), root.to_text().as_bytes())?;
    let log = folder.join("log");
    write_log(&log, &root)?;
    fs::write(folder.join("log.vkey"), first_key(&log)?)?;
    fs::write(folder.join("segments.hex"), dump(&log)?)?;
    Ok(())
}

/// The log's first verifier key, as its geometry has it: what `probity init` writes to `DIR.vkey`.
fn first_key(log: &Path) -> Outcome<String> {
    let geometry = fs::read_to_string(log.join("probity.toml"))?;
    let mut lines = geometry.lines();
    let anchor = lines.find_map(|line| line.strip_prefix("anchor = \"")?.strip_suffix('"'));
    Ok(format!("{}\n", anchor.ok_or("no anchor in the geometry")?))
}

/// A stream of three entries in two openings, one of four about people, of whom one is erased, and
/// one with every column.
fn write_log(path: &Path, root: &RootKey) -> Outcome<()> {
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let people = StreamName::new("people")?;
    let erasable = StreamConfig {
        proofs: Proofs::Entry,
        erasable: true,
        ..StreamConfig::default()
    };
    let plain = StreamName::default();
    Log::create(
        path,
        "vectors.example/log",
        root,
        StreamConfig::default(),
        options.clone(),
    )?
    .close()?;
    let log = Log::open(path, root, options.clone())?;
    log.create_stream(&people, erasable)?;
    append(
        &log,
        &plain,
        &[
            entry("read", b"ada:mail", "ada")?,
            entry("update", b"bob:name", "bob")?,
        ],
    )?;
    let about_all = [
        entry("read", b"mail", "ada")?,
        entry("read", b"mail", "bob")?,
        entry("read", b"mail", "ada\nbob")?,
        entry("read", b"mail", "")?,
    ];
    append(&log, &people, &about_all)?;
    write_columns(&log)?;
    log.erase("bob")?;
    log.close()?;
    let log = Log::open(path, root, options)?;
    append(&log, &plain, &[entry("delete", b"bob:name", "bob")?])?;
    log.close()?;
    Ok(())
}

/// A stream in which nobody is erased, of entries that differ in every column: their leaves can all
/// be computed.
fn write_columns(log: &Log) -> Outcome<()> {
    let name = StreamName::new("columns")?;
    let config = StreamConfig {
        proofs: Proofs::Entry,
        ..StreamConfig::default()
    };
    log.create_stream(&name, config)?;
    let mut appender = log.appender(&name)?;
    let (first, second) = (
        idempotency_digest("request 1")?,
        idempotency_digest("request 2")?,
    );
    let (policy, newer) = ([0x70; 32], [0x71; 32]);
    let plain = entry("read", b"ada:mail", "ada")?;
    let ruled = Entry {
        controller: "vectors",
        processor: "cloud",
        basis: "contract",
        policy: Some(&policy),
        rule: "support-reads",
        ..plain
    };
    let denied = Entry {
        outcome: Ended::Denied,
        idempotency: Some(&first),
        ..ruled
    };
    appender
        .append_batch(&[plain, ruled, denied])
        .map_err(|(_, error)| error)?;
    appender.set_submitter("gateway")?;
    appender.set_claimed(Claimed::NONE);
    let failed = Entry {
        outcome: Ended::Failed,
        idempotency: Some(&second),
        policy: Some(&newer),
        rule: "",
        ..ruled
    };
    let absent = Entry {
        outcome: Ended::Absent,
        payload: b"",
        ..entry("update", b"bob:name", "ada\nbob")?
    };
    appender
        .append_batch(&[failed, absent])
        .map_err(|(_, error)| error)?;
    appender.flush()?;
    Ok(())
}

fn entry(
    action: &'static str,
    key: &'static [u8],
    subjects: &'static str,
) -> Outcome<Entry<'static>> {
    let time = Timestamp::from_nanoseconds(TIME)?;
    Ok(Entry {
        subjects: Subjects::joined(subjects),
        actor: "clerk",
        purpose: "support",
        payload: b"by the counter",
        ..Entry::new(time, action, key)
    })
}

fn append(log: &Log, stream: &StreamName, entries: &[Entry<'_>]) -> Outcome<()> {
    let mut appender = log.appender(stream)?;
    appender.append_batch(entries).map_err(|(_, error)| error)?;
    appender.flush()?;
    Ok(())
}

/// The segments of all streams, each of their parts with its place and name.
fn dump(log: &Path) -> Outcome<String> {
    let mut out = String::new();
    for stream in ["journal", "heads", "default", "people", "columns"] {
        let mut paths = Vec::new();
        for found in fs::read_dir(log.join("streams").join(stream).join("segments"))? {
            paths.push(found?.path());
        }
        paths.sort();
        for path in paths {
            writeln!(out, "# {}", path.strip_prefix(log)?.display())?;
            put_segment(&mut out, &fs::read(&path)?)?;
        }
    }
    Ok(out)
}

fn put_segment(out: &mut String, bytes: &[u8]) -> Outcome<()> {
    let mut place = 0;
    put_part(
        out,
        bytes,
        &mut place,
        "segment header",
        SEGMENT_HEADER_BYTES,
    )?;
    while let Some(rest) = bytes.get(place..).filter(|rest| !rest.is_empty()) {
        let header = FrameHeader::decode(rest)?;
        let directory = usize::try_from(header.sections)? * DIRECTORY_ENTRY_BYTES;
        let sections =
            usize::try_from(header.length)? - FRAME_HEADER_BYTES - directory - FRAME_TRAILER_BYTES;
        let name = format!("frame {}: header", header.frame);
        put_part(out, bytes, &mut place, &name, FRAME_HEADER_BYTES)?;
        put_part(out, bytes, &mut place, "directory", directory)?;
        put_part(out, bytes, &mut place, "sections", sections)?;
        put_part(out, bytes, &mut place, "trailer", FRAME_TRAILER_BYTES)?;
    }
    Ok(())
}

/// The next `length` bytes in lines of 16, behind a line that names them.
fn put_part(
    out: &mut String,
    bytes: &[u8],
    place: &mut usize,
    name: &str,
    length: usize,
) -> Outcome<()> {
    writeln!(out, "{name}, {length} bytes")?;
    let part = bytes
        .get(*place..*place + length)
        .ok_or("a part ends beyond its segment")?;
    for line in part.chunks(16) {
        write!(out, "{place:06x} ")?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        writeln!(out)?;
        *place += line.len();
    }
    Ok(())
}
