//! Checks the slots of subjects against what the journal signed for: their labels without any key,
//! their keys with one.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Version;
use probity_format::slot::{Slot, SlotsDigest};
use probity_format::stream::StreamName;

use super::stored::{is_strange, open};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason, Verifier};
use crate::advice;
use crate::error::LogError;
use crate::journal::{Erasure, History, SignedSlots};
use crate::opener::Opener;
use crate::slot_ranges::SlotRanges;
use crate::slots::{
    MISNAMED, OTHER_PSEUDONYMS, SLOTS, VOID, place, read_slots, readable, slot_length, surplus,
};

/// The journal's statements about slots, as far as its checkpoint covers them: anything behind that
/// is no evidence.
#[derive(Default)]
pub(super) struct SlotsTold {
    /// Frames of the journal that its checkpoint covers.
    frames: u64,
    pub(super) slots: SignedSlots,
    /// The slots that the last accepted loss left void, where keys may be put back.
    pub(super) void: SlotRanges,
    /// All slots that the journal names as void.
    zeros: SlotRanges,
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
            self.void = history.void_slots().cloned().unwrap_or_default();
            self.zeros.clone_from(&history.void);
            self.has_closed = history.has_closed();
        }
    }

    /// The number of slots that the signed journal counts.
    pub(super) const fn count(&self) -> u64 {
        self.slots.count
    }

    /// Returns whether `history` has the frames that these statements are of.
    pub(super) fn is_within(&self, history: &History) -> bool {
        self.frames <= history.frames()
    }

    /// Returns whether `history` says nothing more of slots, and none behind those counts others as
    /// durable; `durable` is their number in the slots themselves.
    pub(super) fn is_all_of(&self, history: &History, durable: u64) -> bool {
        durable <= self.slots.count
            && history.slots == self.slots
            && history.erasures == self.erasures
    }

    /// The remedy where the file holds other slots than the journal names; `only_void` if they
    /// differ in those alone that an accepted loss left void.
    const fn advice(&self, only_void: bool) -> &'static str {
        if only_void {
            advice::SLOTS_RETURNED
        } else {
            advice::slots(Version::V3, self.has_closed)
        }
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
            let detail = format!(
                "is missing; {}",
                advice::slots(Version::V3, told.has_closed)
            );
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
        let signed = self.told.slots;
        let mut read = Labels::default();
        let length = read_slots(
            &self.verifier.files,
            Version::V3,
            (0, signed.count),
            &mut |number, slot| {
                read.take(self.told, number, slot);
                Ok(())
            },
        )?;
        for number in &read.put_back {
            let detail = "holds a key though the journal says that its subject is erased: it was put back; \
                          opening the log for writing destroys it";
            push(self.faults, FaultClass::Content, place(*number), detail);
        }
        // Where labels differ, they are what is wrong.
        let is_named = read.digest == signed.digest;
        for (number, frame) in read.misnamed.iter().filter(|_| is_named) {
            let (place, detail) = (
                format!("frame {frame}"),
                format!("{MISNAMED} {number} holds"),
            );
            push(self.faults, FaultClass::Journal, place, detail);
        }
        self.emptied(&read.emptied)?;
        self.compare(read, length);
        Ok(())
    }

    /// Reports a file that is too long, too short, or of other labels than were signed for.
    fn compare(&mut self, read: Labels, length: u64) {
        let (told, signed) = (self.told, self.told.slots);
        let whole = length / slot_length(Version::V3);
        if let Some(detail) = surplus(whole, signed.count) {
            push(self.faults, FaultClass::Content, SLOTS.into(), detail);
        }
        let only_void = read.differ_in_void_alone(told, whole);
        if whole < signed.count {
            let detail = format!(
                "holds {whole} slots, the journal signed for {}; {}",
                signed.count,
                told.advice(only_void)
            );
            push(self.faults, FaultClass::Missing, SLOTS.into(), detail);
        } else if read.digest != signed.digest {
            let detail = format!("{OTHER_PSEUDONYMS}; {}", told.advice(only_void));
            push(self.faults, FaultClass::Content, SLOTS.into(), detail);
            for number in read.void {
                push(self.faults, FaultClass::Content, place(number), "is zeros");
            }
        }
    }
}

/// The labels of the slots that the journal signed for.
#[derive(Default)]
struct Labels {
    digest: SlotsDigest,
    /// The digest with the slots that an accepted loss left void as the journal names them.
    past_void: SlotsDigest,
    /// Slots of zeros that the journal does not name as void.
    void: BTreeSet<u64>,
    /// Slots without a key and without an erasure.
    emptied: BTreeSet<u64>,
    /// Slots of subjects who were erased, with a key.
    put_back: BTreeSet<u64>,
    /// Slots with a key that the journal erases under another pseudonym, with its frame.
    misnamed: BTreeMap<u64, u64>,
}

impl Labels {
    fn take(&mut self, told: &SlotsTold, number: u64, slot: &Slot<'_>) {
        let is_void = told.void.contains(number);
        let label = slot.label();
        self.digest = self.digest.then(&label);
        self.past_void = self.past_void.then(if is_void { &VOID } else { &label });
        if slot.is_void() && !told.zeros.contains(number) {
            self.void.insert(number);
        }
        // The key is destroyed before any frame behind its erasure is written.
        let erasure = told.erasures.get(&number);
        let has_label = slot.is_empty() && !slot.is_void();
        if told.is_whole && has_label && erasure.is_none() {
            self.emptied.insert(number);
        }
        if let Some(erasure) = erasure.filter(|it| it.pseudonym != label.pseudonym)
            && !slot.is_empty()
        {
            self.misnamed.insert(number, erasure.frame);
            return;
        }
        let is_past = erasure.is_some_and(|erasure| erasure.frame.saturating_add(1) < told.frames);
        if is_past && !slot.is_empty() {
            self.put_back.insert(number);
        }
    }

    /// Returns whether the first `whole` slots, which were read, are the signed ones but for those
    /// that an accepted loss left void.
    fn differ_in_void_alone(&self, told: &SlotsTold, whole: u64) -> bool {
        let missing = whole..told.slots.count;
        if !told.void.contains_all(missing.clone()) {
            return false;
        }
        let digest = missing.fold(self.past_void, |it, _| it.then(&VOID));
        digest == told.slots.digest
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
            let advice = advice::slots(Version::V3, told.has_closed);
            format!("does not open: it was changed or swapped; {advice}")
        };
        push(faults, FaultClass::Content, place(*number), detail);
    }
    Ok(())
}

fn no_key(has_closed: bool) -> String {
    let advice = advice::slots(Version::V3, has_closed);
    format!("holds no key though no signed erasure says so; {advice}")
}

fn push(faults: &mut Faults, class: FaultClass, place: String, detail: impl Into<String>) {
    faults.push(Fault::new(class, &StreamName::journal(), place, detail));
}
