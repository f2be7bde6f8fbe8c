//! Every storage call of a writer's life fails once, in every way, and a crash happens at every
//! moment: promised entries are there afterwards, and verification finds no fault.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod check;
mod contradicted;
mod creation;
mod erasure;
mod kept;
mod ledger;
mod loss;
mod one_head;
mod openings;
mod put_back;
mod remembered;
mod scenario;
mod twice;
mod workload;
mod world;

use std::sync::{Arc, Mutex};

use probity_log::storage::{Call, Fault, FaultPlan};

use ledger::{Ledger, Promise};
use scenario::{Expected, Scenario, Seen, calls, checked, for_each, live};
use workload::Size;
use world::World;

/// The seed of the states after power losses; `CRASH_SEED` replaces it.
const SEED: u64 = 20_260_801;

fn seed() -> u64 {
    let seed = std::env::var("CRASH_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    println!("CRASH_SEED={seed}");
    seed
}

/// One scenario for each call among `of`, or among all calls, that is tried.
fn each_call(
    name: &str,
    size: Size,
    of: &[Call],
    expected: Expected,
    fault: Fault,
    plan: impl Fn(u64) -> FaultPlan,
) -> Vec<Scenario> {
    let numbers = calls(size, of);
    let count = numbers.len();
    assert!(count > 5, "{name}: only {count} calls");
    let seed = seed();
    let scenario = |number| Scenario {
        name: format!("{name}, call {number}"),
        plan: if of.is_empty() {
            plan(number)
        } else {
            plan(number).of(of)
        },
        error: fault,
        expected,
        size,
        forgets: false,
        seed: seed.wrapping_add(number),
    };
    numbers.into_iter().map(scenario).collect()
}

fn run(scenarios: &[Scenario]) {
    let seen = Seen::default();
    for_each(scenarios, |scenario| scenario.run(&seen));
    println!("{} lives, {} states", scenarios.len(), seen.count());
}

#[test]
fn undisturbed_the_life_leaves_an_intact_log() {
    for size in [Size::SHORT, Size::LONG] {
        let world = World::new();
        let ledger = Ledger::default();
        live(&world, &ledger, size).unwrap();
        let facts = ledger.now();
        for image in [
            world.memory.clone_live(),
            world.memory.crash_losing_all_unsynced(),
        ] {
            let repairs = checked("undisturbed", image, &facts, Promise::Durable);
            assert_eq!(repairs, []);
        }
    }
}

fn refused(size: Size) {
    let fault = Fault::INPUT_OUTPUT;
    let plan = |number| FaultPlan::nth(number, fault);
    run(&each_call(
        "refused",
        size,
        &[],
        Expected::Stops,
        fault,
        plan,
    ));
}

/// The calls whose execution makes a difference.
fn changing() -> Vec<Call> {
    let changes = |call: &Call| call.changes();
    Call::ALL.into_iter().filter(changes).collect()
}

fn persisted(size: Size) {
    let fault = Fault::INPUT_OUTPUT.persisted();
    let plan = |number| FaultPlan::nth(number, fault);
    let name = "done though reported failed";
    run(&each_call(
        name,
        size,
        &changing(),
        Expected::Stops,
        fault,
        plan,
    ));
}

fn half_done(size: Size) {
    let fault = Fault::INPUT_OUTPUT.half_persisted();
    let plan = |number| FaultPlan::nth(number, fault);
    run(&each_call(
        "half done",
        size,
        &[Call::WriteAt],
        Expected::Stops,
        fault,
        plan,
    ));
}

fn transient(size: Size) {
    let fault = Fault::INTERRUPTED;
    let plan = |number| FaultPlan::nth(number, fault);
    run(&each_call(
        "interrupted",
        size,
        &[],
        Expected::GoesOn,
        fault,
        plan,
    ));
}

fn transient_persisted(size: Size) {
    let fault = Fault::INTERRUPTED.persisted();
    let plan = |number| FaultPlan::nth(number, fault);
    run(&each_call(
        "interrupted though done",
        size,
        &changing(),
        Expected::GoesOn,
        fault,
        plan,
    ));
}

fn transient_half(size: Size) {
    let fault = Fault::WOULD_BLOCK.half_persisted();
    let plan = |number| FaultPlan::nth(number, fault);
    let of = [Call::WriteAt];
    run(&each_call(
        "half done for now",
        size,
        &of,
        Expected::GoesOn,
        fault,
        plan,
    ));
}

fn full(size: Size) {
    let fault = Fault::FULL;
    let plan = |number| FaultPlan::from(number, fault);
    let name = "full from then on";
    run(&each_call(
        name,
        size,
        &changing(),
        Expected::Stops,
        fault,
        plan,
    ));
}

fn forgotten(size: Size) {
    let fault = Fault::INPUT_OUTPUT;
    let plan = |number| FaultPlan::nth(number, fault);
    let name = "not synced and forgotten";
    let mut scenarios = each_call(name, size, &[Call::Sync], Expected::Stops, fault, plan);
    for scenario in &mut scenarios {
        scenario.forgets = true;
    }
    run(&scenarios);
}

/// Checks the state after a crash at each moment: the number of the next call, the storage, the
/// facts.
fn crashed(size: Size, losses: u64) {
    let world = World::new();
    let ledger = Ledger::default();
    let moments = Arc::new(Mutex::new(Vec::new()));
    let numbers = calls(size, &[]);
    let count = numbers.len();
    let seed = seed();
    for number in numbers {
        let (memory, ledger, moments) =
            (world.memory.clone(), ledger.clone(), Arc::clone(&moments));
        world.faulty.before(number, move || {
            // The facts first: promises made until then must be in the images.
            let facts = ledger.now();
            let mut images = vec![
                (memory.clone_live(), Promise::Written),
                (memory.crash_losing_all_unsynced(), Promise::Durable),
            ];
            for loss in 0..losses {
                let seed = seed
                    .wrapping_add(number)
                    .wrapping_mul(31)
                    .wrapping_add(loss);
                images.push((memory.crash(seed), Promise::Durable));
            }
            moments.lock().unwrap().push((number, facts, images));
        });
    }
    live(&world, &ledger, size).unwrap();
    let trace = world.faulty.trace();
    let mut moments = std::mem::take(&mut *moments.lock().unwrap());
    // The threads of one life take turns as they do, and may need fewer calls.
    assert!(moments.len() * 10 > count * 9, "{} moments", moments.len());
    let end = [
        (world.memory.clone_live(), Promise::Written),
        (world.memory.crash_losing_all_unsynced(), Promise::Durable),
        (world.memory.crash(seed), Promise::Durable),
    ];
    moments.push((world.faulty.calls(), ledger.now(), end.to_vec()));
    let seen = Seen::default();
    for_each(&moments, |(number, facts, images)| {
        for (which, (image, promise)) in images.iter().enumerate() {
            if !seen.is_new(image, facts, *promise) {
                continue;
            }
            let next = trace.get(usize::try_from(*number).unwrap());
            let context = format!("crash before call {number} ({next:?}), image {which}");
            checked(&context, image.clone_live(), facts, *promise);
        }
    });
    println!("{} moments, {} states", moments.len(), seen.count());
}

#[test]
fn a_call_refused_stops_the_log_and_loses_nothing() {
    refused(Size::SHORT);
}

#[test]
fn a_call_done_though_reported_failed_stops_the_log_and_loses_nothing() {
    persisted(Size::SHORT);
}

#[test]
fn a_write_half_done_stops_the_log_and_loses_nothing() {
    half_done(Size::SHORT);
}

#[test]
fn a_sync_that_fails_and_takes_the_bytes_along_loses_nothing() {
    forgotten(Size::SHORT);
}

#[test]
fn a_fault_that_passes_is_not_noticed() {
    transient(Size::SHORT);
    transient_persisted(Size::SHORT);
    transient_half(Size::SHORT);
}

#[test]
fn a_full_disk_stops_the_log_and_loses_nothing() {
    full(Size::SHORT);
}

#[test]
fn a_crash_at_any_moment_loses_nothing_promised() {
    crashed(Size::SHORT, 1);
}

fn each_way(size: Size) {
    for work in [
        refused,
        persisted,
        half_done,
        transient,
        transient_persisted,
        transient_half,
        full,
        forgotten,
    ] {
        work(size);
    }
}

#[test]
#[ignore = "takes minutes; the tests above try some calls of each kind"]
fn every_call_of_a_short_life() {
    each_way(Size::SHORT_WHOLE);
    crashed(Size::SHORT_WHOLE, 1);
}

#[test]
#[ignore = "takes minutes; the tests above are its short form"]
fn all_of_it_at_length() {
    each_way(Size::LONG);
    crashed(Size::LONG, 8);
}
