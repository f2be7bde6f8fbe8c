//! What the program needs of memory, with the limit held by the system.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::path::Path;
use std::process::{Command, Output};

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::{Durability, Log, Options, StreamConfig, StreamName};

/// Frames of the log, each with a record of 192 bytes beside it: 29 MB of records, and as much of tiles.
const FRAMES: u64 = 150_000;
/// Address space given to the program, its code included, in KiB.
const ADDRESS_SPACE: u64 = 72 << 10;

/// A log whose frames hold one entry each.
fn many_frames(path: &Path) {
    let root = RootKey::new(Secret::new([7; 32]));
    let options = Options {
        frame_entries_max: 1,
        durability: Durability::Relaxed,
        ..Options::default()
    };
    let config = StreamConfig::default();
    Log::create(path, "example.com/frames", &root, config, options.clone()).unwrap();
    let log = Log::open(path, &root, options).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..FRAMES {
        appender
            .append(&Entry::new(time, "read", b"user:7"))
            .unwrap();
    }
    drop(appender);
    log.close().unwrap();
}

fn limited(folder: &Path, kibibytes: u64, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_probity");
    let script = format!("ulimit -v {kibibytes} && exec {program} {arguments}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder);
    command.output().unwrap()
}

#[test]
fn verification_takes_the_same_memory_however_many_frames_there_are() {
    let folder = tempfile::tempdir().unwrap();
    many_frames(&folder.path().join("log"));
    let verified = limited(folder.path(), ADDRESS_SPACE, "verify log --jobs 2 --json");
    let said = String::from_utf8(verified.stdout).unwrap();
    let complaint = String::from_utf8(verified.stderr).unwrap();
    assert!(verified.status.success(), "{said}{complaint}");
    assert!(said.contains(&format!("\"frames\":{FRAMES},")), "{said}");
    // The limit is one: in a tenth of it not even the program fits.
    let refused = limited(folder.path(), ADDRESS_SPACE / 10, "verify log");
    assert!(!refused.status.success());
}
