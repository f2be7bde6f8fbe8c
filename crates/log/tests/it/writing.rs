//! Appending: order, receipts, durability, closing, reopening, refusing.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and attacks reach around the storage"
)]

use std::path::Path;
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    AppendError, Log, LogError, LogLocation, Options, StreamConfig, StreamName, key_chain,
};

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn entry(key: &[u8]) -> Entry<'_> {
    Entry::new(
        Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap(),
        "read",
        key,
    )
}

fn created(path: &Path) -> Log {
    let (config, options) = (StreamConfig::default(), Options::default());
    Log::create(path, "example.com/log", &root(), config, options).unwrap()
}

fn create(path: &Path) {
    created(path).close().unwrap();
}

/// A caller had to open a log that it had just created, and its journal recorded two openings.
#[test]
fn a_created_log_is_open_and_its_journal_records_one_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = created(&path);
    assert_eq!(log.repairs(), &[]);
    assert!(matches!(
        Log::open(&path, &root(), Options::default()),
        Err(LogError::Locked { .. })
    ));
    let mut appender = log.appender(&StreamName::default()).unwrap();
    assert_eq!(appender.append_durable(&entry(b"first")).unwrap().index, 0);
    log.close().unwrap();
    assert_eq!(key_chain(&LogLocation::new(&path, None)).unwrap().len(), 1);
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert!(report.is_intact());
}

#[test]
fn receipts_count_from_zero_and_go_on_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let mut expected = 0;
    for _ in 0..3 {
        let log = Log::open(&path, &root(), Options::default()).unwrap();
        assert_eq!(log.repairs(), &[]);
        let mut appender = log.appender(&StreamName::default()).unwrap();
        for number in 0..100_u32 {
            appender
                .append(&entry(format!("k{number}").as_bytes()))
                .unwrap();
        }
        let receipt = appender.append_durable(&entry(b"last")).unwrap();
        expected += 100;
        assert_eq!(receipt.index, expected);
        expected += 1;
        log.close().unwrap();
        assert!(matches!(
            appender.append(&entry(b"late")),
            Err(AppendError::Closed)
        ));
    }
}

#[test]
fn entries_of_one_appender_keep_their_order_among_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let options = Options {
        sealers: 3,
        frame_entries_max: 50,
        ..Options::default()
    };
    let log = Log::open(&path, &root(), options).unwrap();
    std::thread::scope(|scope| {
        for producer in 0..4_u32 {
            let log = log.clone();
            scope.spawn(move || {
                let mut appender = log.appender(&StreamName::default()).unwrap();
                let mut tickets = Vec::new();
                for number in 0..2_000_u32 {
                    let key = format!("p{producer}:{number}");
                    tickets.push(appender.append(&entry(key.as_bytes())).unwrap());
                }
                let indices: Vec<u64> = tickets
                    .into_iter()
                    .map(|t| appender.wait(t).unwrap().index)
                    .collect();
                assert!(indices.is_sorted_by(|a, b| a < b));
            });
        }
    });
    log.close().unwrap();
}

#[test]
fn a_second_writer_and_a_wrong_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    assert!(matches!(
        Log::open(&path, &root(), Options::default()),
        Err(LogError::Locked { .. })
    ));
    log.close().unwrap();
    drop(log);
    let wrong = RootKey::new(Secret::new([8; 32]));
    assert!(matches!(
        Log::open(&path, &wrong, Options::default()),
        Err(LogError::WrongKey)
    ));
    Log::open(&path, &root(), Options::default())
        .unwrap()
        .close()
        .unwrap();
    assert!(matches!(
        Log::create(
            &path,
            "x",
            &root(),
            StreamConfig::default(),
            Options::default()
        ),
        Err(LogError::Exists { .. })
    ));
}

#[test]
fn entries_are_durable_soon_without_anybody_asking() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let ticket = appender.append(&entry(b"k")).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    log.on_commit(Box::new(move || {
        // The test may have ended already.
        let _ended = sender.send(());
    }));
    while appender.receipt(ticket).unwrap().is_none() {
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    log.close().unwrap();
}

#[test]
fn a_restored_older_copy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let copy = folder.path().join("copy");
    let status = std::process::Command::new("cp")
        .arg("-a")
        .args([&path, &copy])
        .status()
        .unwrap();
    assert!(status.success());
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    log.appender(&StreamName::default())
        .unwrap()
        .append_durable(&entry(b"k"))
        .unwrap();
    log.close().unwrap();
    drop(log);
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    let refused = Log::open(&path, &root(), Options::default()).unwrap_err();
    assert!(
        matches!(refused, LogError::RolledBack { .. }),
        "{refused:?}"
    );
}

#[test]
fn flushing_and_publishing_an_idle_log_returns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..3 {
        // Sealers sit waiting for work by the second round; they once kept a lock meanwhile.
        log.flush().unwrap();
        log.publish().unwrap();
        let ticket = appender.append(&entry(b"k")).unwrap();
        log.flush().unwrap();
        assert!(appender.receipt(ticket).unwrap().is_some());
    }
    log.close().unwrap();
}

#[test]
fn a_thread_of_the_log_that_ends_by_a_defect_leaves_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    log.on_commit(Box::new(|| panic!("a defect")));
    let mut appender = log.appender(&StreamName::default()).unwrap();
    // Its receipt comes before the callback, or the poison does.
    drop(appender.append_durable(&entry(b"one")));
    let refused = log.flush().unwrap_err();
    assert!(
        matches!(&refused, LogError::Poisoned(cause) if cause.to_string().contains("ended by a defect")),
        "{refused:?}"
    );
    assert!(matches!(log.close(), Err(LogError::Poisoned(_))));
    drop((appender, log));
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    log.close().unwrap();
}
