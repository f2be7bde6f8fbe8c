//! The witness key: a permanent key that signs every checkpoint of the journal. Its loss is found,
//! and it alone proves nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::note::{SignedNote, VerifierKey};
use probity_log::clock::SystemClock;
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{FaultClass, VerifyOptions, verify_at};
use probity_log::{Log, LogError, LogLocation, Options, Repair, RepairKind, StreamConfig};

const KEY: &str = "keys/witness.key";
const CHECKPOINT: &str = "streams/journal/checkpoint";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

struct World {
    memory: Memory,
    places: LogLocation,
}

impl World {
    fn new() -> Self {
        let memory = Memory::new();
        let storage = Arc::new(memory.clone());
        let places = LogLocation::on(storage, Arc::new(Memory::new()), "the log");
        let config = StreamConfig::default();
        let (options, clock) = (Options::default(), Arc::new(SystemClock::new()));
        Log::create_at(
            &places,
            "example.com/log",
            &root(),
            config,
            options,
            clock as _,
        )
        .unwrap()
        .close()
        .unwrap();
        Self { memory, places }
    }

    fn open(&self) -> Result<Log, LogError> {
        let clock = Arc::new(SystemClock::new());
        Log::open_at(&self.places, &root(), Options::default(), clock)
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.memory.read(path, 65_536).unwrap()).unwrap()
    }

    fn geometry(&self) -> Geometry {
        Geometry::parse(&self.text("probity.toml")).unwrap()
    }

    /// The classes and places of all faults, with the root key or without.
    fn faults(&self, root: Option<RootKey>) -> Vec<(FaultClass, String)> {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let report = verify_at(&self.places, &options).unwrap();
        let faults = report.faults.into_iter();
        faults.map(|fault| (fault.class, fault.place)).collect()
    }
}

fn verifies(note: &SignedNote, key: &VerifierKey) -> bool {
    note.verify(std::slice::from_ref(key)).is_ok()
}

/// A foreign witness that holds one key for a log refused the journal after every opening, because
/// another key had signed it.
#[test]
fn every_checkpoint_of_the_journal_bears_a_line_of_a_key_that_stays() {
    let world = World::new();
    let witness = world.geometry().witness().unwrap().clone();
    let mut signers = Vec::new();
    for _ in 0..4 {
        world.open().unwrap().close().unwrap();
        let note = SignedNote::parse(world.text(CHECKPOINT).as_bytes()).unwrap();
        assert_eq!(note.signatures().len(), 2);
        assert!(verifies(&note, &witness));
        assert_eq!(note.text().lines().next(), Some(witness.name()));
        signers.push(note.signatures()[0].id());
        let other = SignedNote::parse(world.text("streams/default/checkpoint").as_bytes()).unwrap();
        assert_eq!(other.signatures().len(), 1);
    }
    signers.sort_unstable();
    signers.dedup();
    assert_eq!(signers.len(), 4, "the signing key moved on");
    assert!(!signers.contains(&witness.id()));
    assert_eq!(world.faults(Some(root())), []);
}

#[test]
fn a_witness_key_that_is_gone_or_another_logs_stops_the_writer_and_is_a_fault() {
    let (world, other) = (World::new(), World::new());
    let kept = world.memory.read(KEY, 4096).unwrap();
    let another = other.memory.read(KEY, 4096).unwrap();
    let mut changed = kept.clone();
    changed[40] ^= 1;
    let attacks = [
        (None, FaultClass::Missing, "backup of this log"),
        (Some(another), FaultClass::KeyChain, "backup of this log"),
        (Some(changed), FaultClass::KeyChain, "backup of this log"),
        (Some(Vec::new()), FaultClass::KeyChain, "backup of this log"),
    ];
    for (stored, class, advice) in attacks {
        match &stored {
            Some(bytes) => world.memory.replace(KEY, bytes).unwrap(),
            None => world.memory.remove(KEY).unwrap(),
        }
        assert_eq!(world.faults(Some(root())), [(class, KEY.to_owned())]);
        assert_eq!(world.faults(None), [], "keys are no evidence without one");
        let refused = world.open().unwrap_err();
        assert!(
            matches!(&refused, LogError::Broken { place, reason } if place == KEY && reason.contains(advice)),
            "{refused}"
        );
    }
    world.memory.replace(KEY, &kept).unwrap();
    world.open().unwrap().close().unwrap();
    assert_eq!(world.faults(Some(root())), []);
}

#[test]
fn a_checkpoint_without_the_line_of_the_witness_key_is_a_fault_and_the_next_opening_signs_it() {
    let world = World::new();
    let foreign = World::new().text(CHECKPOINT);
    let theirs = foreign.trim_end().rsplit_once('\n').unwrap().1;
    for attack in 0..3 {
        let note = world.text(CHECKPOINT);
        let (rest, line) = note.trim_end().rsplit_once('\n').unwrap();
        // Within the signature, before the letters that pad it.
        let mut wrong = line.to_owned().into_bytes();
        let at = wrong.len() - 10;
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = String::from_utf8(wrong).unwrap();
        let changed = match attack {
            0 => format!("{rest}\n"),
            1 => format!("{rest}\n{theirs}\n"),
            _ => format!("{rest}\n{wrong}\n"),
        };
        world
            .memory
            .replace(CHECKPOINT, changed.as_bytes())
            .unwrap();
        let found = (FaultClass::Checkpoint, CHECKPOINT.to_owned());
        assert_eq!(world.faults(None), [found]);
        let log = world.open().unwrap();
        let repairs = log.repairs();
        let is_witness = |repair: &Repair| repair.kind == RepairKind::Witness;
        assert!(repairs.iter().any(is_witness), "{repairs:?}");
        log.close().unwrap();
        assert_eq!(world.faults(Some(root())), []);
    }
}

#[test]
fn the_line_of_the_witness_key_alone_proves_nothing() {
    let world = World::new();
    let note = world.text(CHECKPOINT);
    let (text, lines) = note.split_once("\n\n").unwrap();
    let line = lines.trim_end().rsplit_once('\n').unwrap().1;
    let alone = format!("{text}\n\n{line}\n");
    world.memory.replace(CHECKPOINT, alone.as_bytes()).unwrap();
    let found = (FaultClass::Checkpoint, CHECKPOINT.to_owned());
    assert_eq!(world.faults(None)[0], found);
}
