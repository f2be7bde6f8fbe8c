//! Checks the slots of subjects against what the journal signed for: their labels without any key,
//! their keys with one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use probity_format::Version;
use probity_format::slot::SlotsDigest;
use probity_format::stream::StreamName;

use super::stored::{is_strange, open};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason, Verifier};
use crate::error::LogError;
use crate::journal::{Erasure, History, SignedSlots};
use crate::opener::Opener;
use crate::slots::{
    OTHER_PSEUDONYMS, PUT_BACK, SLOTS, advice, place, read_slots, readable, slot_length, surplus,
};

/// The journal's statements about slots, as far as its checkpoint covers them: anything behind that
/// is no evidence.
#[derive(Default)]
pub(super) struct SlotsTold {
    /// Frames of the journal that its checkpoint covers.
    frames: u64,
    pub(super) slots: SignedSlots,
    /// The slots that an accepted loss left void.
    pub(super) void: Vec<Range<u64>>,
    /// True when the journal records an accepted loss of keys.
    has_closed: bool,
    pub(super) erasures: BTreeMap<u64, Erasure>,
    /// True when the journal was read to its end: otherwise it may have more statements.
    pub(super) is_whole: bool,
}

impl SlotsTold {
    /// The statements of a journal with `frames` published frames. All count where its checkpoint
    /// is gone, which is a fault of its own.
    pub(super) fn new(frames: Option<u64>) -> Self {
        Self {
            frames: frames.unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    /// Takes over the slots and erasures known after frame `frame` was read.
    pub(super) fn look(&mut self, history: &History, frame: u64) {
        if frame < self.frames {
            self.slots = history.slots;
            self.void = history.void_slots().to_vec();
            self.has_closed = history.has_closed();
        }
    }

    /// The remedy where the file holds other slots than the journal names.
    fn advice(&self) -> String {
        let addition = if self.has_closed { PUT_BACK } else { "" };
        format!("{}{addition}", advice(self.has_closed))
    }

    /// Adds the erasures of the whole journal.
    pub(super) fn finish(&mut self, history: &History) {
        self.frames = self.frames.min(history.frames());
        let erasures = history.erasures.iter();
        let published = erasures.filter(|(_, erasure)| erasure.frame < self.frames);
        self.erasures = published.map(|(slot, erasure)| (*slot, *erasure)).collect();
    }
}

impl Verifier<'_> {
    /// Compares the slots with the journal's statements about them.
    ///
    /// The journal was read before, so its statements about slots are true of them now.
    pub(super) fn check_slots(
        &self,
        told: &SlotsTold,
        opener: Option<&Opener>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if told.slots.count == 0 || self.geometry.version() == Version::V2 {
            return Ok(());
        }
        let is_there = match self.files.open_read(SLOTS) {
            Err(error) if is_strange(&error) => false,
            file => file?.is_some(),
        };
        if is_there {
            let mut check = LabelCheck {
                verifier: self,
                told,
                faults,
            };
            check.all()?;
        } else {
            let detail = format!("is missing; {}", advice(told.has_closed));
            push(faults, FaultClass::Missing, SLOTS.into(), detail);
        }
        match opener {
            Some(opener) if is_there => check_keys(told, opener, faults),
            _ => Ok(()),
        }
    }

    /// Takes slots without a key for erased where a damaged frame of the journal may record it, and
    /// lists them.
    pub(super) fn presume_erasures(
        &self,
        told: &mut SlotsTold,
        unchecked: &mut Names,
    ) -> Result<(), LogError> {
        if self.geometry.version() == Version::V2 || open(&self.files, SLOTS)?.is_none() {
            return Ok(());
        }
        let frame = u64::MAX;
        let range = (0, readable(Version::V3, told.slots.count));
        let _length = read_slots(&self.files, Version::V3, range, &mut |number, slot| {
            let is_told = told.erasures.contains_key(&number);
            if slot.is_empty() && !slot.is_void() && !is_told {
                let pseudonym = slot.label().pseudonym;
                told.erasures.insert(number, Erasure { pseudonym, frame });
                unchecked.push(place(number), UncheckedReason::Undecided);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// The comparison of the slots, as far as they show without a key, with the journal's statements.
struct LabelCheck<'c> {
    verifier: &'c Verifier<'c>,
    told: &'c SlotsTold,
    faults: &'c mut Faults,
}

impl LabelCheck<'_> {
    /// Reports slots without a key that have no signed erasure, not by now either: an erasure is
    /// signed for before the key is destroyed.
    fn emptied(&mut self, emptied: &BTreeSet<u64>) -> Result<(), LogError> {
        if emptied.is_empty() {
            return Ok(());
        }
        let now = self.verifier.read_journal()?.slots.erasures;
        for number in emptied.iter().filter(|number| !now.contains_key(number)) {
            let detail = no_key(self.told.has_closed);
            push(self.faults, FaultClass::Content, place(*number), detail);
        }
        Ok(())
    }

    /// Checks the number of the slots, their labels, and that erased ones hold nothing.
    fn all(&mut self) -> Result<(), LogError> {
        let (told, signed) = (self.told, self.told.slots);
        let (mut at_signed, mut running) = (SlotsDigest::default(), SlotsDigest::default());
        let (mut void, mut emptied) = (BTreeSet::new(), BTreeSet::new());
        let range = (0, signed.count);
        let length = read_slots(
            &self.verifier.files,
            Version::V3,
            range,
            &mut |number, slot| {
                running = running.then(&slot.label());
                let next = number.saturating_add(1);
                if next == signed.count {
                    at_signed = running;
                }
                if next <= signed.count && slot.is_void() {
                    void.insert(number);
                }
                // The key is destroyed before any frame behind its erasure is written.
                let erasure = told.erasures.get(&number);
                let has_label = slot.is_empty() && !slot.is_void();
                if told.is_whole && next <= signed.count && has_label && erasure.is_none() {
                    emptied.insert(number);
                }
                let is_past =
                    erasure.is_some_and(|erasure| erasure.frame.saturating_add(1) < told.frames);
                if is_past && !slot.is_empty() {
                    let detail = "holds a key though the journal says that its subject is erased: it was put back; \
                              opening the log for writing destroys it";
                    push(self.faults, FaultClass::Content, place(number), detail);
                }
                Ok(())
            },
        )?;
        self.emptied(&emptied)?;
        let whole = length / slot_length(Version::V3);
        if let Some(detail) = surplus(whole, signed.count, told.has_closed) {
            push(self.faults, FaultClass::Content, SLOTS.into(), detail);
        }
        if whole < signed.count {
            let detail = format!(
                "holds {whole} slots, the journal signed for {}; {}",
                signed.count,
                told.advice()
            );
            push(self.faults, FaultClass::Missing, SLOTS.into(), detail);
        } else if at_signed != signed.digest {
            let detail = format!("{OTHER_PSEUDONYMS}; {}", told.advice());
            push(self.faults, FaultClass::Content, SLOTS.into(), detail);
            for number in void {
                push(self.faults, FaultClass::Content, place(number), "is zeros");
            }
        }
        Ok(())
    }
}

/// Checks that each signed slot opens or is erased.
fn check_keys(told: &SlotsTold, opener: &Opener, faults: &mut Faults) -> Result<(), LogError> {
    opener.refresh()?;
    let slots = opener.slots();
    for (number, slot) in slots.unopened() {
        // A slot that was made after the first read may have been erased after the journal was
        // read.
        let is_recent = slot.is_empty && *number >= slots.first_count;
        if *number >= told.slots.count
            || told.erasures.contains_key(number)
            || is_recent && opener.is_erased_by_now(&slot.pseudonym)
        {
            continue;
        }
        let detail = if slot.is_empty {
            no_key(told.has_closed)
        } else {
            let advice = advice(told.has_closed);
            format!("does not open: it was changed or swapped; {advice}")
        };
        push(faults, FaultClass::Content, place(*number), detail);
    }
    Ok(())
}

fn no_key(has_closed: bool) -> String {
    let advice = advice(has_closed);
    format!("holds no key though no signed erasure says so; {advice}")
}

fn push(faults: &mut Faults, class: FaultClass, place: String, detail: impl Into<String>) {
    faults.push(Fault::new(class, &StreamName::journal(), place, detail));
}
