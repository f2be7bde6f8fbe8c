//! A log that was opened often: an opening takes no longer than it must.

use std::collections::BTreeMap;

use crate::twice::{base, open};
use crate::world::World;

/// Openings before the one that is looked at.
const OPENINGS: usize = 40;
/// Most times that one opening reads a file, for one purpose and another.
const READS_MAX: usize = 12;

/// An opening compared every narrower form of a tile with the tile, and read the tile anew for
/// each. After a thousand openings the next one read one tile 490 times.
#[test]
fn an_opening_reads_a_tile_once_for_all_narrower_forms_of_it() {
    let world = World::of(base());
    for _ in 0..OPENINGS {
        open(&world.places()).unwrap().close().unwrap();
    }
    let again = World::of(world.memory.clone_live());
    open(&again.places()).unwrap().close().unwrap();
    let mut reads: BTreeMap<String, usize> = BTreeMap::new();
    for call in again.faulty.trace() {
        if call.name.contains("/tile/") {
            *reads.entry(call.name).or_default() += 1;
        }
    }
    let forms = reads.keys().filter(|name| name.contains("journal/tile/0/"));
    assert!(forms.count() >= OPENINGS, "{reads:?}");
    let most = reads.iter().max_by_key(|(_, count)| **count).unwrap();
    assert!(*most.1 <= READS_MAX, "{most:?}");
}
