//! Idempotency keys in a log that is damaged or cannot be read: no key passes for a new one.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use probity_log::clock::SystemClock;
use probity_log::storage::{Call, Fault, FaultPlan, Faulty, Memory};
use probity_log::{AppendError, Durability, Log, LogLocation, Options, Repair, StreamConfig};

use crate::idempotency::{
    append, appender, entry, erasable, key, new_log, open, payloads, root, said,
};

/// Frames that the log did not write hold unknown keys: an entry might be written twice.
#[test]
fn keys_that_cannot_be_read_are_not_taken_for_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = new_log(folder.path(), StreamConfig::default());
    let log = Log::open(
        &path,
        &root(),
        Options {
            durability: Durability::Strict,
            ..Options::default()
        },
    )
    .unwrap();
    for number in 0..4 {
        append(&log, number, &[b'x'; 100]).unwrap();
    }
    log.close().unwrap();
    let folder = path.join("streams/default/segments");
    let segment = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&segment).unwrap();
    // Within the tag of the second frame's section, before the root that ends the frame.
    let middle = bytes.len() / 2 - 48;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let log = open(&path);
    let refused = append(&log, 0, &[b'x'; 100]).unwrap_err();
    assert!(matches!(refused, AppendError::KeysUnread(_)), "{refused:?}");
    let cause = refused.source().unwrap().to_string();
    assert!(cause.contains("stream default, frame "), "{cause}");
    let plain = appender(&log)
        .append_durable(&entry(None, b"plain"))
        .unwrap();
    assert_eq!(said(plain), (4, false));
    log.close().unwrap();
}

/// A disk that does not answer once is no reason to write an entry twice, nor to stop the log.
#[test]
fn a_fault_while_keys_are_read_refuses_the_entry_and_the_next_attempt_reads_again() {
    let (files, heads) = (Memory::new(), Memory::new());
    let open = |faulty: &Arc<Faulty<Memory>>, heads: &Memory| {
        let clock = Arc::new(SystemClock::new());
        let places = LogLocation::on(Arc::clone(faulty) as _, Arc::new(heads.clone()), "the log");
        Log::open_at(&places, &root(), Options::default(), clock).unwrap()
    };
    let never = Arc::new(Faulty::new(files.clone(), FaultPlan::none()));
    let places = LogLocation::on(Arc::clone(&never) as _, Arc::new(heads.clone()), "the log");
    let clock = Arc::new(SystemClock::new());
    let (config, options) = (erasable(), Options::default());
    Log::create_at(&places, "example.com/log", &root(), config, options, clock)
        .unwrap()
        .close()
        .unwrap();
    let log = open(&never, &heads);
    assert_eq!(append(&log, 1, b"x").unwrap(), (0, false));
    log.close().unwrap();
    let mut refused = 0;
    for number in 0..1000 {
        let (files, heads) = (files.clone_live(), heads.clone_live());
        let faulty = Arc::new(Faulty::new(files, FaultPlan::none()));
        let log = open(&faulty, &heads);
        let calls = [Call::OpenRead, Call::Read, Call::ReadAt];
        faulty.arm(FaultPlan::nth(number, Fault::INPUT_OUTPUT).of(&calls));
        let appended = append(&log, 1, b"x");
        let faults = faulty.faults();
        faulty.arm(FaultPlan::none());
        match appended {
            Err(AppendError::KeysUnread(_)) => refused += 1,
            appended => assert_eq!(appended.unwrap(), (0, true), "fault {number}"),
        }
        assert_eq!(append(&log, 1, b"x").unwrap(), (0, true), "fault {number}");
        log.close().unwrap();
        if faults == 0 {
            break;
        }
    }
    assert!(refused > 5 && refused < 900, "{refused}");
}

/// A log of 300 keyed entries in frames of their own, in segments of as many bytes at most.
fn frames(folder: &Path, segment_bytes_max: u64) -> PathBuf {
    let path = new_log(folder, StreamConfig::default());
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        segment_bytes_max,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    let mut appender = appender(&log);
    for number in 0..300 {
        let key = key(number);
        appender.append_durable(&entry(Some(&key), b"x")).unwrap();
    }
    log.close().unwrap();
    path
}

/// Puts record 119 of the first bundle in the place of record 120, which is as long.
fn exchange(path: &Path) {
    let bundle = path.join("streams/default/tile/entries/000");
    let mut bytes = fs::read(&bundle).unwrap();
    // The length of a record, and the record.
    let size = 2 + 104;
    bytes.copy_within(119 * size..120 * size, 120 * size);
    fs::write(&bundle, bytes).unwrap();
}

/// One record of an older bundle in the place of its neighbour hid the key of its frame, and the
/// entry was written twice. The record is now compared with the tree. Where an opening reads past
/// it, it rebuilds the tree from the frames.
#[test]
fn an_exchanged_record_hides_no_key_from_an_opening_that_meets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = frames(folder.path(), 64 << 20);
    exchange(&path);
    let log = open(&path);
    let said = log.repairs().iter().map(Repair::line);
    assert_eq!(said.collect::<Vec<_>>(), ["tree default 0 300"]);
    assert_eq!(append(&log, 120, b"x").unwrap(), (120, true));
    assert_eq!(append(&log, 119, b"x").unwrap(), (119, true));
    assert_eq!(append(&log, 300, b"x").unwrap(), (300, false));
    log.close().unwrap();
    assert_eq!(payloads(&path).len(), 301);
}

/// If no opening reads past such a record, the keys in the frame are unknown. Entries with keys are
/// refused, and entries without go on. A damaged tile confirms no record either.
#[test]
fn an_exchanged_record_or_a_damaged_tile_refuses_entries_with_keys() {
    let damages: [fn(&Path); 2] = [exchange, |path| {
        let tile = path.join("streams/default/tile/0/000");
        let mut bytes = fs::read(&tile).unwrap();
        bytes[120 * 32] ^= 1;
        fs::write(tile, bytes).unwrap();
    }];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = frames(folder.path(), 4096);
        damage(&path);
        let log = open(&path);
        assert_eq!(log.repairs(), &[]);
        for number in [120, 119, 300] {
            let refused = append(&log, number, b"x").unwrap_err();
            assert!(matches!(refused, AppendError::KeysUnread(_)), "{refused:?}");
            let cause = refused.source().unwrap().to_string();
            assert!(cause.contains("streams/default, bundle 0"), "{cause}");
        }
        let plain = appender(&log).append_durable(&entry(None, b"plain"));
        assert_eq!(plain.map(said).unwrap(), (300, false));
        log.close().unwrap();
    }
}
