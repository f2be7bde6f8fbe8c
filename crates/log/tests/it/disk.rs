//! A log on a disk that is full or read-only: promised entries stay, and errors name the file.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::error::Error as _;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Call, Directory, Fault, FaultPlan, Faulty, SmallDisk, Storage as _};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    AppendError, Durability, Log, LogError, LogLocation, Options, StreamConfig, StreamName,
};

const DISK_BYTES: u64 = 512 << 10;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        segment_bytes_max: 64 << 10,
        ..Options::default()
    }
}

/// The key and the payload, which does not compress, of entry `number`.
fn content(number: u64) -> (String, Vec<u8>) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    (format!("key-{number}"), noise.take(1000).collect())
}

fn append(log: &Log, number: u64) -> Result<u64, AppendError> {
    let mut appender = match log.appender(&StreamName::default()) {
        Err(LogError::Poisoned(cause)) => return Err(AppendError::Poisoned(cause)),
        appender => appender.unwrap(),
    };
    let (key, payload) = content(number);
    let digest = idempotency_digest(&key)?;
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        payload: &payload,
        idempotency: Some(&digest),
        ..Entry::new(time, "write", key.as_bytes())
    };
    appender.append_durable(&entry).map(|receipt| receipt.index)
}

/// Reads all entries back and compares them; returns their number.
fn read_all(path: &Path) -> u64 {
    let mut found: u64 = 0;
    Reader::open(path, &root())
        .unwrap()
        .read::<LogError>(&Filter::default(), &mut |entry| {
            let (key, payload) = content(entry.index);
            assert_eq!(entry.entry.key, key.as_bytes());
            assert_eq!(entry.entry.payload, payload);
            found = entry.index + 1;
            Ok(())
        })
        .unwrap();
    found
}

fn assert_intact(path: &Path) {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    assert_eq!(verify(path, &options).unwrap().faults, []);
}

/// The system's error at the bottom of `error`, and on which file.
fn storage_error(error: &LogError) -> (ErrorKind, String) {
    match error {
        LogError::Storage { source, name, .. } => (source.kind(), name.clone()),
        LogError::Poisoned(cause) => storage_error(cause),
        other => panic!("{other:?}"),
    }
}

fn fill(durability: Durability) {
    let Some(mut disk) = SmallDisk::mounted("a log on a full disk", DISK_BYTES) else {
        return;
    };
    let path = disk.path().join("log");
    let config = StreamConfig::default();
    let log = Log::create(
        &path,
        "example.com/log",
        &root(),
        config,
        options(durability),
    )
    .unwrap();
    let mut received: u64 = 0;
    let refused = loop {
        match append(&log, received) {
            Ok(index) => assert_eq!(index, received),
            Err(refused) => break refused,
        }
        received += 1;
        assert!(received < 10_000, "the disk takes more than it has");
    };
    assert!(received > 50, "{received}");
    let AppendError::Poisoned(cause) = refused else {
        panic!("{refused:?}");
    };
    let (kind, name) = storage_error(&cause);
    assert_eq!(kind, ErrorKind::StorageFull);
    assert!(cause.to_string().contains(&name), "{cause}");
    assert!(cause.source().is_some());
    // The log reports it from then on, closing too.
    assert!(matches!(
        append(&log, received),
        Err(AppendError::Poisoned(_))
    ));
    assert_eq!(
        storage_error(&log.close().unwrap_err()).0,
        ErrorKind::StorageFull
    );
    drop(log);
    // Still full: reading and verifying need no room.
    assert!(read_all(&path) >= received);
    assert_intact(&path);
    let rest = Directory::new(disk.path()).open("rest", true).unwrap();
    let mut written: u64 = 0;
    while rest.write_at(&[0; 4096], written).is_ok() {
        written += 4096;
    }
    let full = Log::open(&path, &root(), options(durability)).unwrap_err();
    assert_eq!(storage_error(&full).0, ErrorKind::StorageFull);
    assert!(read_all(&path) >= received);
    assert_intact(&path);
    // Room again, and everything goes on.
    disk.remount(&format!("size={}", 4 * DISK_BYTES)).unwrap();
    let log = Log::open(&path, &root(), options(durability)).unwrap();
    let next = read_all(&path);
    assert!(next >= received);
    // A caller that does not know where it stopped begins from the front: existing entries are not
    // written twice.
    for number in 0..=next {
        assert_eq!(append(&log, number).unwrap(), number);
    }
    log.close().unwrap();
    assert_eq!(read_all(&path), next + 1);
    assert_intact(&path);
}

#[test]
fn a_log_on_a_full_disk_says_so_keeps_what_it_promised_and_goes_on_with_more_room() {
    for durability in [Durability::Strict, Durability::Group, Durability::Relaxed] {
        fill(durability);
    }
}

#[test]
fn a_log_on_a_read_only_disk_is_read_and_verified_and_refuses_a_writer() {
    let Some(mut disk) = SmallDisk::mounted("a log on a read-only disk", DISK_BYTES) else {
        return;
    };
    let path = disk.path().join("log");
    let config = StreamConfig::default();
    let strict = || options(Durability::Strict);
    let log = Log::create(&path, "example.com/log", &root(), config, strict()).unwrap();
    for number in 0..10 {
        append(&log, number).unwrap();
    }
    log.close().unwrap();
    drop(log);
    disk.remount("ro").unwrap();
    assert_eq!(read_all(&path), 10);
    assert_intact(&path);
    let refused = Log::open(&path, &root(), strict()).unwrap_err();
    let (kind, name) = storage_error(&refused);
    assert_eq!(kind, ErrorKind::ReadOnlyFilesystem);
    assert_eq!(name, format!("{}/lock", path.display()));
    let other = disk.path().join("other");
    let refused = Log::create(&other, "example.com/log", &root(), config, strict()).unwrap_err();
    assert_eq!(storage_error(&refused).0, ErrorKind::ReadOnlyFilesystem);
    disk.remount("rw").unwrap();
    let log = Log::open(&path, &root(), strict()).unwrap();
    assert_eq!(log.repairs(), &[]);
    assert_eq!(append(&log, 10).unwrap(), 10);
    log.close().unwrap();
    assert_intact(&path);
}

/// A waiter for the journal waited for ever when a write to it failed: a reserved place was never
/// filled.
#[test]
fn nobody_waits_for_a_journal_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let made = Log::create(
        &path,
        "example.com/log",
        &root(),
        StreamConfig::default(),
        Options::default(),
    );
    made.unwrap().close().unwrap();
    let faulty = Arc::new(Faulty::new(Directory::new(&path), FaultPlan::none()));
    let heads = Arc::new(Directory::new(&folder.path().join("log.heads")));
    let places = LogLocation::on(Arc::clone(&faulty) as _, heads, "the log");
    let clock = Arc::new(SystemClock::new());
    let log = Log::open_at(&places, &root(), Options::default(), clock).unwrap();
    let full = FaultPlan::every(Fault::FULL).of(&[Call::WriteAt]);
    faulty.arm(full.on("streams/journal/segments"));
    let (log, together) = (Arc::new(log), Arc::new(Barrier::new(3)));
    let (sender, ended) = mpsc::channel();
    for number in 0..3 {
        let (log, sender, together) = (Arc::clone(&log), sender.clone(), Arc::clone(&together));
        std::thread::spawn(move || {
            let name = StreamName::new(&format!("s{number}")).unwrap();
            together.wait();
            let made = log.create_stream(&name, StreamConfig::default());
            sender.send(made.is_err()).unwrap();
        });
    }
    for _ in 0..3 {
        assert!(ended.recv_timeout(Duration::from_mins(1)).unwrap());
    }
    assert!(log.is_poisoned());
}
