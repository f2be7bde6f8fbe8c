//! Many streams with few files open: file handles stay within the bound, memory does not grow with
//! what is written.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

use std::fs;
use std::path::Path;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Durability, Log, Options, StreamConfig, StreamName};

/// Files that the process has open apart from the log's segments: its output, the lock, and those
/// that a replacement or a listing takes for a moment, on each of the log's threads.
const OTHER_FILES: usize = 24;
/// The limit of memory growth between the first round of entries and the last.
const GROWTH_KIB_MAX: usize = 24 << 10;
/// Rounds of one entry for each stream.
const ROUNDS: u64 = 10;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn name(number: u64) -> StreamName {
    StreamName::new(&format!("tenant-{number}")).unwrap()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory in use, in KiB.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.unwrap().split_whitespace().next();
    words.unwrap().parse().unwrap()
}

/// Writes to every stream in turn, which is the worst order for files kept open.
fn round(log: &Log, streams: u64, round: u64) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let payload = [b'x'; 200];
    for number in 0..streams {
        let mut appender = log.appender(&name(number)).unwrap();
        let entry = Entry {
            payload: &payload,
            ..Entry::new(time, "write", b"key")
        };
        appender.append(&entry).unwrap();
        // The drop hands over the open chunk: queue memory is not measured here.
        drop(appender);
    }
    log.flush().unwrap();
    if round.is_multiple_of(3) {
        log.publish().unwrap();
    }
}

fn write_to(path: &Path, streams: u64, open_files_max: usize) {
    let options = Options {
        durability: Durability::Relaxed,
        open_files_max,
        segment_bytes_max: 4096,
        ..Options::default()
    };
    let config = StreamConfig::default();
    let log = Log::create(path, "example.com/many", &root(), config, options.clone()).unwrap();
    for number in 0..streams {
        log.create_stream(&name(number), config).unwrap();
    }
    let (mut first, mut files_max) = (0, 0);
    for number in 0..ROUNDS {
        round(&log, streams, number);
        files_max = files_max.max(open_files());
        if number == 0 {
            first = memory();
        }
    }
    let grown = memory().saturating_sub(first);
    println!(
        "{streams} streams, {open_files_max} files: {files_max} open, {first} KiB after the first round, \
         {grown} KiB more after {ROUNDS}"
    );
    assert!(files_max <= open_files_max + OTHER_FILES, "{files_max}");
    assert!(grown <= GROWTH_KIB_MAX, "{grown} KiB");
    log.close().unwrap();
    let log = Log::open(path, &root(), options).unwrap();
    assert_eq!(log.repairs(), &[]);
    assert!(open_files() <= open_files_max + OTHER_FILES);
    round(&log, streams, 1);
    log.close().unwrap();
    let report = verify(path, &VerifyOptions::default()).unwrap();
    assert_eq!(report.faults, []);
    let entries: u64 = report.streams.iter().map(|stream| stream.entries).sum();
    assert!(entries >= streams * (ROUNDS + 1), "{entries}");
}

#[test]
fn streams_beyond_the_open_files_cost_neither_handles_nor_memory() {
    let folder = tempfile::tempdir().unwrap();
    write_to(&folder.path().join("log"), 30, 4);
}

#[test]
#[ignore = "takes minutes on a disk; the test above is its short form"]
fn two_thousand_streams_are_written_with_sixty_four_files() {
    let folder = tempfile::tempdir().unwrap();
    write_to(&folder.path().join("log"), 2_000, 64);
}
