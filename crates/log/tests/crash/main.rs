//! Every storage call of a writer's life fails once, in every way, and every moment is one of a crash:
//! what was promised is there afterwards, and verification says intact.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed"
)]

mod check;
mod ledger;
mod workload;
mod world;

use std::time::Instant;

use check::check;
use ledger::{Ledger, Promise};
use workload::Writer;
use world::World;

#[test]
fn undisturbed_the_life_leaves_an_intact_log() {
    let world = World::new();
    let ledger = Ledger::default();
    let start = Instant::now();
    Writer { places: &world.places(), ledger: &ledger, next: 0 }.run().unwrap();
    println!("life: {:?}, {} calls", start.elapsed(), world.faulty.calls());
    for (n, t) in world.faulty.trace().iter().enumerate() { println!("{n} {t}"); }
    let start = Instant::now();
    let repairs = check(world.memory.clone_live(), &ledger.now(), Promise::Durable);
    println!("check: {:?}", start.elapsed());
    assert_eq!(repairs, [] as [String; 0]);
}
