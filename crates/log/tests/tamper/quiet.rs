//! No alarm without damage: over logs that are being written to, opened anew, killed, and
//! recovered.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, Options, StreamConfig, StreamName};

use crate::campaign::number;
use crate::random::Random;
use crate::world::{ORIGIN, append, configs, root};

/// Verifications of a live log in the gate; `TAMPER_LIVE` takes their place.
const LIVE: u64 = 60;
/// Processes killed in the gate; `TAMPER_KILLS` takes their place.
const KILLS: u64 = 6;
/// The seed of the moments at which processes are killed; `TAMPER_SEED` takes its place.
const SEED: u64 = 20_260_801;
/// Tells the child process which log to write.
const CHILD: &str = "TAMPER_CHILD";

fn options() -> Options {
    Options {
        segment_bytes_max: 4096,
        frame_entries_max: 3,
        checkpoint_interval: Duration::from_millis(2),
        ..Options::default()
    }
}

fn create(path: &Path) {
    Log::create(path, ORIGIN, &root(), StreamConfig::default(), options())
        .unwrap()
        .close()
        .unwrap();
}

/// One session of a busy writer: every stream grows, one more comes into being, checkpoints are
/// published.
fn session(path: &Path, round: u32) {
    let log = Log::open(path, &root(), options()).unwrap();
    for (name, config) in configs() {
        log.create_stream(&StreamName::new(name).unwrap(), config)
            .unwrap();
    }
    let extra = StreamName::new(&format!("extra-{round}")).unwrap();
    log.create_stream(&extra, StreamConfig::default()).unwrap();
    for turn in 0..4 {
        for (name, _) in configs() {
            append(&log, name, turn * 10..turn * 10 + 10);
        }
        append(&log, extra.as_str(), 0..3);
        log.publish().unwrap();
    }
    log.close().unwrap();
}

fn faults(path: &Path, keyed: bool) -> Vec<String> {
    let options = VerifyOptions {
        root: keyed.then(root),
        ..VerifyOptions::default()
    };
    let report = verify(path, &options).unwrap();
    report.faults.iter().map(ToString::to_string).collect()
}

fn live(verifications: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                session(&path, round);
                round += 1;
            }
            round
        });
        let mut found = Vec::new();
        for verification in 0..verifications {
            found = faults(&path, verification % 3 == 0);
            if !found.is_empty() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        let rounds = writer.join().unwrap();
        assert!(found.is_empty(), "{found:?}");
        println!("{verifications} verifications over {rounds} sessions");
    });
}

#[test]
fn a_log_that_is_written_to_and_opened_anew_meanwhile_raises_no_alarm() {
    live(number("TAMPER_LIVE", LIVE));
}

#[test]
#[ignore = "takes many minutes; run it with --ignored"]
fn a_live_log_raises_no_alarm_in_a_thousand_verifications() {
    live(number("TAMPER_LIVE", 1_000));
}

/// The process that is killed; without its variable it has nothing to do.
#[test]
#[ignore = "is started and killed by the tests of killed processes"]
fn writer_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    for round in 0.. {
        session(Path::new(&path), round);
    }
}

fn kill(kills: u64) {
    let seed = number("TAMPER_SEED", SEED);
    println!("TAMPER_SEED={seed}");
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "quiet::writer_until_killed", "--ignored"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The child writes until it is killed; the seed decides the moment.
        std::thread::sleep(Duration::from_millis(20 + random.next() % 300));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(faults(&path, false), [""; 0], "killed, round {round}");
        let log = Log::open(&path, &root(), options()).unwrap();
        assert_eq!(faults(&path, false), [""; 0], "recovering, round {round}");
        log.close().unwrap();
        assert_eq!(faults(&path, true), [""; 0], "recovered, round {round}");
    }
}

#[test]
fn a_log_whose_writer_was_killed_raises_no_alarm_before_or_after_recovery() {
    kill(number("TAMPER_KILLS", KILLS));
}

#[test]
#[ignore = "takes many minutes; run it with --ignored"]
fn two_hundred_killed_writers_raise_no_alarm() {
    kill(number("TAMPER_KILLS", 200));
}
