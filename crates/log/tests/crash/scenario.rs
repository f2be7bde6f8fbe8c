//! One life with one fault, and the checks afterwards; many of them run side by side.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use probity_log::Repair;
use probity_log::storage::{Call, Fault, FaultPlan, Memory};

use crate::check::check;
use crate::ledger::{Facts, Ledger, Promise};
use crate::workload::{Size, Stopped, Writer};
use crate::world::World;

/// Longest that all scenarios under way may take until one ends; waits within a life end far
/// earlier.
const HANG: Duration = Duration::from_mins(2);

/// Lives a writer's life in `world`.
pub(crate) fn live(world: &World, ledger: &Ledger, size: Size) -> Result<(), Stopped> {
    let places = world.places();
    let mut writer = Writer {
        places: &places,
        ledger,
        size,
        next: 0,
    };
    writer.run()
}

/// The expected effect of a fault on the writer's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The life ends with an error that names the fault.
    Stops,
    /// The life goes on as if nothing had happened.
    GoesOn,
}

/// A fault and its expected effect.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) plan: FaultPlan,
    pub(crate) error: Fault,
    pub(crate) expected: Expected,
    pub(crate) size: Size,
    /// True when the system drops the bytes that the failed call was to sync.
    pub(crate) forgets: bool,
    pub(crate) seed: u64,
}

impl Scenario {
    /// Lives one life, then checks the state for a new process, and the state if the power failed
    /// too.
    pub(crate) fn run(&self, seen: &Seen) {
        let world = World::new();
        let ledger = Ledger::default();
        world.faulty.arm(self.plan.clone());
        let ended = live(&world, &ledger, self.size);
        let met = world.faulty.trace().into_iter().find(|t| t.fault.is_some());
        let context = format!("{}, met by {met:?}", self.name);
        match (self.expected, &ended, &met) {
            (_, Ok(()), None) => {}
            (Expected::GoesOn, Ok(()), Some(_)) => {}
            (Expected::Stops, Err(stopped), Some(_)) => {
                let (text, wanted) = (chain(&**stopped), self.error.error().to_string());
                assert!(text.contains(&wanted), "{context}: reported as {text:?}");
            }
            _ => panic!(
                "{context}: ended with {ended:?}, expected that it {:?}",
                self.expected
            ),
        }
        if let Some(met) = met.filter(|_| self.forgets) {
            world.memory.forget_unsynced(&met.name);
        }
        let facts = ledger.now();
        let power = (
            "a loss of power",
            world.memory.crash(self.seed),
            Promise::Durable,
        );
        let kill = ("a kill", world.memory.clone_live(), Promise::Written);
        // After a life that went on to its end they differ in little.
        let kill = Some(kill).filter(|_| ended.is_err());
        for (what, image, promise) in kill.into_iter().chain([power]) {
            if !seen.is_new(&image, &facts, promise) {
                continue;
            }
            checked(&format!("{context}, then {what}"), image, &facts, promise);
        }
    }
}

/// The states that were checked already: of two equal ones the first is enough.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashSet<u64>>);

impl Seen {
    /// Returns whether neither `image` was checked with these facts and this promise, nor with the
    /// stronger promise.
    pub(crate) fn is_new(&self, image: &Memory, facts: &impl Hash, promise: Promise) -> bool {
        let key = |promise: Promise| {
            let mut hasher = DefaultHasher::new();
            (image.state(), promise).hash(&mut hasher);
            facts.hash(&mut hasher);
            hasher.finish()
        };
        let mut seen = self.0.lock().unwrap();
        !seen.contains(&key(Promise::Written)) && seen.insert(key(promise))
    }

    /// The number of states that were checked.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Runs [`check`], and panics with the context when it fails.
pub(crate) fn checked(
    context: &str,
    image: Memory,
    facts: &Facts,
    promise: Promise,
) -> Vec<Repair> {
    catch_unwind(AssertUnwindSafe(|| check(image, facts, promise)))
        .unwrap_or_else(|_told| panic!("{context}"))
}

/// Runs `job` for each of `jobs`, on all cores; a panic in one of them ends all, and so does a
/// hang.
pub(crate) fn for_each<T: Sync>(jobs: &[T], job: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) * 2;
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                while let Some(one) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    job(one);
                    sender.send(()).unwrap();
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(HANG) {
                Ok(()) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // Threads that hang cannot be joined.
                    eprintln!("nothing ended in {HANG:?}: something hangs");
                    std::process::abort();
                }
            }
        }
    });
}

/// The calls of an undisturbed life that are tried, by their number among those of the kinds `of`,
/// or among all calls. Calls on files whose names differ in digits alone are of one kind. Of each
/// pair of kinds that follow each other the first and the last are tried: the moment between two
/// calls is what differs.
pub(crate) fn calls(size: Size, of: &[Call]) -> Vec<u64> {
    let world = World::new();
    live(&world, &Ledger::default(), size).unwrap();
    let trace = world.faulty.trace().into_iter();
    let mut before = None;
    let kinds = trace.filter_map(|traced| {
        let kind = (traced.call, traced.name.replace(char::is_numeric, ""));
        let pair = (before.replace(kind.clone()), kind);
        (of.is_empty() || of.contains(&traced.call)).then_some(pair)
    });
    let kinds: Vec<_> = kinds.collect();
    let mut ends = BTreeMap::new();
    for (number, kind) in kinds.iter().enumerate() {
        let (_, last) = ends.entry(kind).or_insert((number, number));
        *last = number;
    }
    let ends: BTreeSet<usize> = ends.into_values().flat_map(<[usize; 2]>::from).collect();
    let numbers = 0..kinds.len();
    let chosen = numbers.filter(|number| number % size.step == 0 || ends.contains(number));
    let chosen: Vec<u64> = chosen.map(|number| number.try_into().unwrap()).collect();
    println!("{} of {} calls", chosen.len(), kinds.len());
    chosen
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
