//! Keys of subjects changed, exchanged, taken away and put back.
//!
//! S5 and S24 of the security review: damage to a key passed for an erasure, and the kind that
//! exchanged keys used slots of another length, so that it exchanged none. The slots are now signed
//! for, and their length is the library's.

use std::fs;
use std::ops::Range;

use probity_format::Version;
use probity_format::slot::{SLOT_BYTES, SLOT_LABEL_BYTES, Slot};
use probity_log::verify::FaultClass;

use super::{Kind, Place, flip};
use crate::random::Random;
use crate::world::{Look, Scene};

const SLOTS: &str = "log/subjects/slots";

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "a bit of a subject's slot",
            "36",
            FaultClass::Content,
            |s, r| {
                let place = any_slot(s, r);
                s.change(SLOTS, |slots| flip(slots, slot(place), r));
                found("")
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a bit of the last subject's slot",
            "36",
            FaultClass::Content,
            |s, r| {
                let place = count(s) - 1;
                s.change(SLOTS, |slots| flip(slots, slot(place), r));
                found("")
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a bit of a subject's pseudonym in its slot, without the root key",
            "36",
            FaultClass::Content,
            |s, r| {
                let place = r.below(count(s));
                let label = slot(place).start..slot(place).start + SLOT_LABEL_BYTES;
                s.change(SLOTS, |slots| flip(slots, label, r));
                found("")
            },
        ),
        Kind::new(
            "wrapped keys of two subjects exchanged",
            "36",
            FaultClass::Content,
            |s, r| {
                let (place, other) = two_slots(s, r);
                exchange(s, secret(place), secret(other));
                found(&format!(", slot {place}"))
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "slots of two subjects exchanged",
            "36",
            FaultClass::Content,
            |s, r| {
                let (place, other) = two_slots(s, r);
                exchange(s, slot(place), slot(other));
                found(&format!(", slot {place}"))
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a subject's key overwritten with zeros, without an erasure",
            "54",
            FaultClass::Content,
            |s, r| {
                let place = any_slot(s, r);
                s.change(SLOTS, |slots| slots[secret(place)].fill(0));
                found(&format!(", slot {place}"))
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a subject's slot overwritten with zeros",
            "54",
            FaultClass::Content,
            |s, r| {
                let place = r.below(count(s));
                s.change(SLOTS, |slots| slots[slot(place)].fill(0));
                found(&format!(", slot {place}"))
            },
        ),
        Kind::new(
            "slots of subjects cut off",
            "36",
            FaultClass::Missing,
            |s, r| {
                let bytes = r.below(count(s) * SLOT_BYTES);
                s.change(SLOTS, |slots| slots.truncate(bytes));
                found("")
            },
        ),
        Kind::new(
            "the slots of subjects gone",
            "36",
            FaultClass::Missing,
            |s, _| {
                s.remove(SLOTS);
                found("")
            },
        ),
        Kind::new(
            "an erased subject's slot put back from a backup",
            "58",
            FaultClass::Content,
            |s, _| {
                let backup = fs::read(s.world.older.join("subjects/slots")).unwrap();
                let place = erased(s);
                s.change(SLOTS, |slots| {
                    slots[slot(place)].copy_from_slice(&backup[slot(place)]);
                });
                found(&format!(", slot {place}"))
            },
        ),
        Kind::new(
            "something in an erased subject's slot",
            "58",
            FaultClass::Content,
            |s, r| {
                let place = erased(s);
                s.change(SLOTS, |slots| flip(slots, secret(place), r));
                found(&format!(", slot {place}"))
            },
        ),
    ]
}

fn found(place: &str) -> Place {
    Place::new("journal", format!("subjects/slots{place}"))
}

fn count(scene: &Scene<'_>) -> usize {
    scene.read(SLOTS).len() / SLOT_BYTES
}

const fn slot(place: usize) -> Range<usize> {
    place * SLOT_BYTES..(place + 1) * SLOT_BYTES
}

/// The secret part of a slot.
const fn secret(place: usize) -> Range<usize> {
    place * SLOT_BYTES + SLOT_LABEL_BYTES..(place + 1) * SLOT_BYTES
}

/// The slot of the subject that was erased.
fn erased(scene: &Scene<'_>) -> usize {
    let slots = scene.read(SLOTS);
    let is_empty = |bytes: &[u8]| Slot::parse(Version::V3, bytes).unwrap().is_empty();
    slots.chunks_exact(SLOT_BYTES).position(is_empty).unwrap()
}

/// A slot with a key.
fn any_slot(scene: &Scene<'_>, random: &mut Random) -> usize {
    let others = erased(scene);
    let place = random.below(count(scene) - 1);
    if place < others { place } else { place + 1 }
}

fn two_slots(scene: &Scene<'_>, random: &mut Random) -> (usize, usize) {
    let place = any_slot(scene, random);
    loop {
        let other = any_slot(scene, random);
        if other != place {
            return (place, other);
        }
    }
}

fn exchange(scene: &mut Scene<'_>, one: Range<usize>, other: Range<usize>) {
    scene.change(SLOTS, |slots| {
        let kept = slots[one.clone()].to_vec();
        slots.copy_within(other.clone(), one.start);
        slots[other].copy_from_slice(&kept);
    });
}
