//! Publishing beside commits: no receipt waits for it, and only durable frames are signed for.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and power is lost at any time"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::storage::{Call, FaultPlan, Faulty, Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{Appender, Durability, Log, LogLocation, Options, StreamConfig, StreamName};

/// Longer than any run: timed work does not happen.
const NEVER: Duration = Duration::from_hours(1);
/// Longest wait for work that must not wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// The seed of the states after power losses; `PUBLISHING_SEED` replaces it.
const SEED: u64 = 20_260_803;
/// Losses of power of a relaxed log.
const LOSSES: u64 = 30;
/// Losses after which the log begins anew, so that checking stays cheap.
const LOSSES_PER_LOG: u64 = 10;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn entry() -> Entry<'static> {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    Entry::new(time, "write", b"key")
}

/// A new log on two storages in memory, open for writing.
struct Bench {
    faulty: Arc<Faulty<Memory>>,
    heads: Memory,
    log: Log,
}

impl Bench {
    fn new(options: &Options) -> Self {
        let faulty = Arc::new(Faulty::new(Memory::new(), FaultPlan::none()));
        let heads = Memory::new();
        let places = LogLocation::on(Arc::clone(&faulty) as _, Arc::new(heads.clone()), "the log");
        Log::create_at(
            &places,
            "example.com/publishing",
            &root(),
            StreamConfig::default(),
            options.clone(),
            Arc::new(SystemClock::new()),
        )
        .unwrap()
        .close()
        .unwrap();
        let log = open(&places, options);
        Self { faulty, heads, log }
    }

    fn appender(&self) -> Appender {
        self.log.appender(&StreamName::default()).unwrap()
    }
}

fn open(places: &LogLocation, options: &Options) -> Log {
    let clock = Arc::new(SystemClock::new());
    Log::open_at(places, &root(), options.clone(), clock).unwrap()
}

#[test]
fn receipts_are_given_while_a_checkpoint_is_being_published() {
    let options = Options {
        checkpoint_interval: NEVER,
        ..Options::default()
    };
    let begun = |bench: &Bench| bench.appender().append_durable(&entry()).unwrap().index;
    // Without a clock in it, every run makes the same calls.
    let before = Bench::new(&options);
    assert_eq!(begun(&before), 0);
    let calls = before.faulty.calls();
    before.log.publish().unwrap();
    let published = before
        .faulty
        .trace()
        .into_iter()
        .skip(usize::try_from(calls).unwrap());
    let (at, _) = (calls..)
        .zip(published)
        .find(|(_, traced)| {
            traced.call == Call::Replace && traced.name == "streams/default/checkpoint"
        })
        .unwrap();
    let bench = Bench::new(&options);
    let (reached, is_reached) = channel();
    let (released, is_released) = channel::<()>();
    bench.faulty.before(at, move || {
        reached.send(()).unwrap();
        is_released.recv().unwrap();
    });
    assert_eq!(begun(&bench), 0);
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| bench.log.publish());
        is_reached.recv_timeout(PATIENCE).unwrap();
        for index in 1..10 {
            assert_eq!(begun(&bench), index);
        }
        bench.log.flush().unwrap();
        assert!(!publishing.is_finished());
        released.send(()).unwrap();
        publishing.join().unwrap().unwrap();
    });
    bench.log.close().unwrap();
    assert_eq!(
        bench
            .faulty
            .trace()
            .get(usize::try_from(at).unwrap())
            .unwrap()
            .call,
        Call::Replace
    );
}

#[test]
fn a_relaxed_log_signs_only_for_what_is_durable() {
    let seed = std::env::var("PUBLISHING_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    println!("PUBLISHING_SEED={seed}");
    let options = Options {
        durability: Durability::Relaxed,
        group_interval: Duration::ZERO,
        checkpoint_interval: Duration::ZERO,
        batch_age_max: Duration::from_micros(50),
        ..Options::default()
    };
    for first in (0..LOSSES).step_by(usize::try_from(LOSSES_PER_LOG).unwrap()) {
        let bench = Bench::new(&options);
        let mut signed = 0;
        let (done, rests) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut appender = bench.appender();
                while !done.load(Ordering::Relaxed) {
                    if !rests.load(Ordering::Relaxed) {
                        appender.append(&entry()).unwrap();
                        appender.push();
                    }
                    std::thread::sleep(Duration::from_micros(20));
                }
            });
            let _whatever_happens = Done(&done);
            for loss in first..first + LOSSES_PER_LOG {
                rests.store(false, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
                let left = moment(&bench, seed.wrapping_add(loss));
                // The log must not grow while it is checked: otherwise each check would take longer
                // than the one before.
                rests.store(true, Ordering::Relaxed);
                signed += usize::from(left.0.read("default", 65_536).is_ok());
                check_left(left, &options);
            }
        });
        assert!(signed > 0, "nothing was signed for at any loss");
        bench.log.close().unwrap();
    }
}

/// Ends the appending thread, after a failure too.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The state after a loss of power at one moment: the second copies of the heads, and possible
/// states of the log.
fn moment(bench: &Bench, seed: u64) -> (Memory, [Memory; 2]) {
    let notes = |heads: &Memory| {
        ["default", "journal", "heads"].map(|stream| heads.read(stream, 65_536).unwrap_or_default())
    };
    loop {
        let heads = bench.heads.clone_live();
        let log = bench.faulty.inner();
        let logs = [log.crash_losing_all_unsynced(), log.crash(seed)];
        // Equal before and after: no head was advanced meanwhile.
        if notes(&heads) == notes(&bench.heads.clone_live()) {
            return (heads, logs);
        }
    }
}

/// Checks that the state after a loss of power is intact, and opens.
fn check_left((heads, logs): (Memory, [Memory; 2]), options: &Options) {
    for log in logs {
        let heads = Arc::new(heads.clone_live());
        let places = LogLocation::on(Arc::new(log), heads, "what is left");
        let report = verify_at(&places, &VerifyOptions::default()).unwrap();
        assert_eq!(report.faults, []);
        open(&places, options).close().unwrap();
    }
}

/// Each publication leaves partial tiles and bundles of its size. They stayed for good: 400
/// entries, one a second, made a thousand files. They are now removed by the publication that makes
/// their full form.
#[test]
fn partial_tiles_go_once_their_full_form_is_there() {
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: NEVER,
        ..Options::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = StreamConfig::default();
    let log = Log::create(&path, "example.com/publishing", &root(), config, options).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..300 {
        appender.append_durable(&entry()).unwrap();
        log.publish().unwrap();
    }
    log.close().unwrap();
    for stream in ["default", "heads"] {
        for kind in ["tile/0", "tile/entries"] {
            let folder = path.join(format!("streams/{stream}/{kind}"));
            let names = std::fs::read_dir(&folder).unwrap();
            let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            assert_eq!(names, ["000", "001.p"], "{}", folder.display());
        }
    }
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = probity_log::verify::verify(&path, &options).unwrap();
    assert!(report.is_intact(), "{:?}", report.faults);
}
