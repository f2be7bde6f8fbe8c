//! A stop: how long it takes, and what becomes of the entries that the log has not taken by then.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use probity_format::keys::Secret;
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::storage::{Call, Directory, Fault, FaultPlan, Faulty};
use probity_log::{Log, LogLocation, Options, RootKey, StreamConfig, StreamName};
use probity_proxy::{
    Ending, EntrySink as _, Keeper, Keeping, LogSink, LogSource, MissedFile, OnLogFailure,
    ProxyConfig, Settled, SinkSource as _, settle,
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::{Redis, config, script, start, talk, wait};

const SHORT: Duration = Duration::from_millis(400);
/// Time that this machine may take beside.
const SLACK: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_mins(10);

/// Clients that were connecting to a server that said nothing kept a stopped proxy for as long as connecting may take. The stop tells them,
/// and whatever else a client waits for, the stop ends after both of its waits.
#[test]
fn a_stop_takes_its_two_waits_and_no_longer() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        connect_timeout: LONG,
        answer_timeout: LONG,
        reading_timeout: LONG,
        log_timeout: SHORT,
        stop_timeout: SHORT,
        ..config(&redis)
    });
    talk(address, &script("SET big 0123456789abcdef"), usize::MAX);
    let say = |text: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&script(text)).unwrap();
        socket
    };
    // One client waits for the server, one for the proxy's own question, one does not read, and one asks for what takes the server's time.
    let mut clients = vec![
        say("BLPOP user:1 0"),
        say("GET big\n".repeat(3_000).as_str()),
    ];
    wait(100);
    recorder.full.store(true, Ordering::SeqCst);
    clients.push(say("GET user:2"));
    wait(100);
    redis.pause();
    clients.extend([say("NOSUCH user:3"), say("PING")]);
    wait(100);
    let begun = Instant::now();
    proxy.stop();
    let took = begun.elapsed();
    redis.go_on();
    assert!(took < 2 * SHORT + SLACK, "{took:?}");
    let missed = recorder.missed.lock().unwrap().clone();
    let missed: u64 = missed.iter().map(|(count, _)| count).sum();
    assert!(missed >= 2, "{missed}");
    drop(clients);
}

/// The connecting client alone: it waits for nothing that a stop would wait for.
#[test]
fn a_client_that_connects_keeps_no_stop_waiting() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&ProxyConfig {
        connect_timeout: LONG,
        stop_timeout: LONG,
        ..config(&redis)
    });
    redis.pause();
    let client = TcpStream::connect(address).unwrap();
    wait(200);
    let begun = Instant::now();
    proxy.stop();
    let took = begun.elapsed();
    redis.go_on();
    assert!(took < SLACK, "{took:?}");
    drop(client);
}

/// A log in a folder of its own, and a thread that keeps its account.
struct Place {
    folder: TempDir,
    faulty: Arc<Faulty<Directory>>,
    source: Arc<LogSource>,
    keeper: Option<Keeper>,
}

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

impl Place {
    fn new(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let faulty = Arc::new(Faulty::new(Directory::new(&path), FaultPlan::none()));
        let heads = Arc::new(Directory::new(&folder.path().join("log.heads")));
        let places = LogLocation::on(Arc::clone(&faulty) as _, heads, "the log");
        let (config, clock) = (StreamConfig::default(), Arc::new(SystemClock::new()));
        let log = Log::create_at(&places, "log", &root(), config, options, clock).unwrap();
        let keeping = Keeping {
            reopen: None,
            file: MissedFile::prepare(&log, &path).unwrap(),
            handed_in: OnLogFailure::Forward,
            tell: Box::new(|_| ()),
        };
        let source = Arc::new(LogSource::new(log, StreamName::default()).unwrap());
        let keeper = Keeper::start(&source, keeping).unwrap();
        Self {
            folder,
            faulty,
            source,
            keeper: Some(keeper),
        }
    }

    fn finish(&mut self, most: Duration) -> Ending {
        self.keeper.take().unwrap().finish(most)
    }

    fn sink(&self) -> LogSink {
        self.source.open().unwrap()
    }

    /// A copy of what lies on the disk now.
    fn copied(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["log", "log.heads"] {
            copy(&self.folder.path().join(name), &folder.path().join(name));
        }
        folder
    }
}

fn append(sink: &mut LogSink, count: u64) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    for number in 0..count {
        let key = number.to_string();
        let taken = sink.append(&[Entry::new(time, "read", key.as_bytes())]);
        assert!(taken.is_ok());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for found in fs::read_dir(from).unwrap() {
        let found = found.unwrap();
        let target = to.join(found.file_name());
        if found.path().is_dir() {
            copy(&found.path(), &target);
        } else {
            fs::copy(found.path(), target).unwrap();
        }
    }
}

/// Opens the log in `folder` as the next process does: gives the entries that it has, and those that it says are missing.
fn next_process(folder: &Path) -> (u64, u64) {
    let path = folder.join("log");
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    let there = log.next_index(&StreamName::default()).unwrap();
    let missing = match settle(&log, &path).unwrap() {
        None => 0,
        Some(Settled::Counted(missed)) => missed.let_go,
        Some(other) => panic!("{other:?}"),
    };
    (there, missing)
}

/// A disk that stood still kept a stopped proxy until a supervisor killed it, and what it had let go was in no count then. The count is
/// written before the log is closed, and the process may end when its time is over: each entry is there or is counted.
#[test]
fn a_log_that_is_not_closed_in_time_leaves_its_count() {
    let mut place = Place::new(Options::default());
    let gate = Arc::new(Mutex::new(()));
    let held = Arc::clone(&gate);
    // Nothing becomes durable while the log's thread stands still in here.
    place.source.on_commit(Box::new(move || drop(held.lock())));
    let shut = gate.lock().unwrap();
    let mut sink = place.sink();
    append(&mut sink, 3);
    wait(300);
    let cut = place.copied();
    append(&mut sink, 5);
    let begun = Instant::now();
    let ending = place.finish(SHORT);
    assert!(ending.is_late && begun.elapsed() < SHORT + SLACK);
    assert!(ending.error.is_none() && ending.forgotten.is_none());
    let missing = ending.missing.total();
    assert!((5..=8).contains(&missing), "{missing}");
    // Of a process that ends now, what was written is there, and at a power cut what was synced: all of it, or all but the count.
    let killed = place.copied();
    let name = "log/missed";
    fs::copy(killed.path().join(name), cut.path().join(name)).unwrap();
    let (there, missing) = next_process(killed.path());
    assert_eq!(there + missing, 8);
    assert_eq!(next_process(cut.path()), (3, 5));
    drop(shut);
}

/// A disk that was full when the log was closed took entries with it that nothing counted: the log had not failed before. What was handed in
/// and did not become durable is missing, and the next process says how many.
#[test]
fn a_log_that_fails_while_it_is_closed_leaves_its_count() {
    let mut place = Place::new(Options {
        batch_age_max: LONG,
        group_interval: LONG,
        ..Options::default()
    });
    let mut sink = place.sink();
    append(&mut sink, 7);
    place
        .faulty
        .arm(FaultPlan::every(Fault::FULL).of(&[Call::WriteAt]));
    let ending = place.finish(LONG);
    assert!(ending.error.is_some() && !ending.is_late);
    assert_eq!(ending.missing.total(), 7);
    drop((sink, place.source));
    assert_eq!(next_process(place.folder.path()), (0, 7));
}

/// A log that is closed in order leaves no count, whatever was noted before it was closed.
#[test]
fn a_log_that_is_closed_in_time_leaves_no_count() {
    let mut place = Place::new(Options::default());
    let mut sink = place.sink();
    append(&mut sink, 7);
    let ending = place.finish(LONG);
    assert!(ending.error.is_none() && !ending.is_late);
    assert_eq!(ending.missing.total(), 0);
    drop((sink, place.source));
    assert_eq!(next_process(place.folder.path()), (7, 0));
}
