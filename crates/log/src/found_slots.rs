//! The file of slots as an opening for writing finds it: checked, and then made durable.
//!
//! `docs/format.md`, "Subject keys".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use probity_format::Version;
use probity_format::slot::{SLOT_BYTES, Slot, SlotsDigest, SubjectName};
use probity_format::wrap::WrappingKey;

use crate::advice;
use crate::error::LogError;
use crate::files::Files;
use crate::given_up::GivenUpSubjects;
use crate::journal::History;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::scan::read;
use crate::set_aside;
use crate::slot_ranges::SlotRanges;
use crate::slots::{
    MISNAMED, OTHER_PSEUDONYMS, Pseudonym, SLOTS, VOID, broken, read_slots, readable, surplus,
};
use crate::subjects::{FOLDER, Known, SLOT_LENGTH};

/// The slots as an opening finds them.
#[derive(Default)]
pub(crate) struct FoundSlots {
    pub(crate) known: HashMap<SubjectName, Known>,
    /// Slots up to the last that is whole, and the digest over their labels; those that do not open
    /// count as void.
    pub(crate) count: u64,
    pub(crate) digest: SlotsDigest,
    /// The digest over those that the journal signed for, as it names them.
    signed: SlotsDigest,
    /// Slots that an accepted loss left void and whose keys may be there again: the journal names
    /// them as void.
    given_up: GivenUpSlots,
    /// Slots that count as void now.
    void: SlotRanges,
    /// Slots that were durable before the last of them were written: those are whole or were
    /// damaged later.
    durable: u64,
    /// Slots that do not open though no record says that they are erased.
    closed: BTreeSet<u64>,
    /// Slots that the journal does not count, of subjects that have one already: the log makes no
    /// second one.
    doubled: BTreeSet<u64>,
    /// Slots that open, in the place of keys that were given up, of subjects whom no frame names.
    unnamed: BTreeSet<u64>,
    /// The pseudonyms of slots that open and are not kept.
    pub(crate) unkept: BTreeSet<Pseudonym>,
    pub(crate) unfinished: Vec<u64>,
    /// Slots with a key that the journal erases under another pseudonym, with its frame.
    misnamed: BTreeMap<u64, u64>,
    length: u64,
}

/// The slots that an accepted loss left void.
#[derive(Default)]
struct GivenUpSlots {
    slots: SlotRanges,
    /// The subjects of the frames whose keys were given up. A key of anybody else was never lost
    /// there.
    subjects: GivenUpSubjects,
}

impl FoundSlots {
    /// Reads all slots, and changes nothing.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn read(
        files: &Files,
        wrapping: &WrappingKey,
        history: &History,
    ) -> Result<Self, LogError> {
        Self::read_past(files, wrapping, history, GivenUpSlots::default())
    }

    /// Reads slots of which the journal names others than were signed for: keys that were put back
    /// after their loss was accepted, of `subjects`. Returns nothing unless all slots but those that
    /// the acceptance left void are the ones that the journal names, and none of a subject was named
    /// since.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn put_back(
        files: &Files,
        wrapping: &WrappingKey,
        history: &History,
        (subjects, accept_loss): (GivenUpSubjects, bool),
    ) -> Result<Option<Self>, LogError> {
        let Some(slots) = history.void_slots().cloned() else {
            return Ok(None);
        };
        let given_up = GivenUpSlots { slots, subjects };
        let mut found = Self::read_past(files, wrapping, history, given_up)?;
        found.refuse_unnamed()?;
        // A subject that was made since in a slot that the journal does not name yet would lose it.
        if found.check(history, accept_loss).is_err() || !found.doubled.is_empty() {
            return Ok(None);
        }
        // The journal names the slots anew only when there are more.
        found.extend_to(history.slots.count.saturating_add(1));
        Ok(Some(found))
    }

    fn read_past(
        files: &Files,
        wrapping: &WrappingKey,
        history: &History,
        given_up: GivenUpSlots,
    ) -> Result<Self, LogError> {
        let mut found = Self {
            given_up,
            ..Self::default()
        };
        let mut named = SlotsDigest::default();
        let mut running = SlotsDigest::default();
        let signed = history.slots.count;
        let range = (0, readable(Version::V3, signed));
        found.length = read_slots(files, Version::V3, range, &mut |number, slot| {
            let next = number.saturating_add(1);
            let is_whole = found.take(number, slot, wrapping, history);
            let is_given_up = found.is_given_up(number);
            // Behind the signed slots, a slot that is not whole becomes void.
            let is_kept = is_whole || number < signed && !is_given_up;
            let label = if is_kept { slot.label() } else { VOID };
            running = running.then(&label);
            named = named.then(if is_given_up { &VOID } else { &label });
            if is_kept {
                (found.count, found.digest) = (next, running);
            } else {
                found.void.add_one(number);
            }
            if next == signed {
                found.signed = named;
            }
            Ok(())
        })?;
        let stored = found.length / SLOT_LENGTH;
        if stored < signed && found.given_up.slots.contains_all(stored..signed) {
            found.signed = (stored..signed).fold(named, |digest, _| digest.then(&VOID));
        }
        Ok(found)
    }

    fn is_given_up(&self, number: u64) -> bool {
        self.given_up.slots.contains(number)
    }

    /// Notes the slots of an accepted loss whose keys are there again, and those that are void: a
    /// later opening takes their keys as well.
    pub(crate) fn note(&self, history: &History, repairs: &mut RecoveryReport) {
        let returned = self.known.values().map(|known| known.slot);
        let returned: SlotRanges = returned.filter(|slot| self.is_given_up(*slot)).collect();
        for slots in returned.iter() {
            repairs.note(Repair::of_log(RepairKind::Returned, slots));
        }
        // Of the slots that the journal names, only those of the accepted loss may be void.
        let first = if self.given_up.slots.is_empty() {
            history.slots.count
        } else {
            0
        };
        let void = self.void.iter();
        let void = void.map(|slots| slots.start.max(first)..slots.end.min(self.count));
        for slots in void.filter(|slots| !slots.is_empty()) {
            repairs.note(Repair::of_log(RepairKind::Void, slots));
        }
    }

    /// Loads slot `number`; returns whether it is whole.
    fn take(
        &mut self,
        number: u64,
        slot: &Slot<'_>,
        wrapping: &WrappingKey,
        history: &History,
    ) -> bool {
        if let Some(erasure) = history.erasures.get(&number) {
            if slot.is_empty() {
                return true;
            }
            if erasure.pseudonym == slot.label().pseudonym {
                self.unfinished.push(number);
            } else {
                self.misnamed.insert(number, erasure.frame);
            }
            return true;
        }
        if slot.is_void() {
            return false;
        }
        let Ok(secret) = slot.open(wrapping, number) else {
            self.closed.insert(number);
            return false;
        };
        let label = slot.label();
        let is_given_up = self.is_given_up(number);
        if is_given_up && !self.given_up.subjects.named.contains(&label.pseudonym) {
            self.unnamed.insert(number);
            self.closed.insert(number);
            self.unkept.insert(label.pseudonym);
            return false;
        }
        let is_counted = number < history.slots.count && !is_given_up;
        // A key that was put back of a subject that has another one is nobody's: with two slots of
        // one name an erasure would leave one behind.
        let other = self.known.get(&secret.name).map(|known| known.slot);
        if other.is_some_and(|other| !is_counted || self.is_given_up(other)) {
            self.doubled.insert(number);
            self.unkept.insert(label.pseudonym);
            return false;
        }
        self.durable = self.durable.max(label.durable);
        let known = Known {
            slot: number,
            pseudonym: label.pseudonym,
            key: secret.key,
        };
        self.known.insert(secret.name, known);
        true
    }

    /// Refuses slots that differ from what the journal signed for, or from what another slot counts
    /// as durable, unless the caller accepts that keys are lost which the journal does not count.
    ///
    /// # Errors
    /// [`LogError::Broken`] with the slot, or the file.
    pub(crate) fn check(&self, history: &History, accept_loss: bool) -> Result<(), LogError> {
        let signed = history.slots;
        let whole = self.length / SLOT_LENGTH;
        if let Some(reason) = surplus(whole, signed.count) {
            return Err(LogError::Broken {
                place: SLOTS.into(),
                reason,
            });
        }
        let is_short = |number| number < signed.count && !self.is_given_up(number);
        if (whole..signed.count).any(is_short) {
            let reason = format!(
                "holds {whole} slots, the journal signed for {}",
                signed.count
            );
            return Err(file_broken(&reason, history));
        }
        let durable = if accept_loss { 0 } else { self.durable };
        let settled = durable.max(signed.count);
        let is_damaged = |number: &&u64| **number < settled && !self.is_given_up(**number);
        if let Some(first) = self.closed.iter().find(is_damaged) {
            let reason = "the subject key does not open: it was changed, swapped or overwritten \
                          without a signed erasure";
            return Err(broken(Version::V3, *first, reason, history.has_closed()));
        }
        if self.signed != signed.digest {
            return Err(file_broken(OTHER_PSEUDONYMS, history));
        }
        match self.misnamed.first_key_value() {
            Some((slot, frame)) => Err(misnamed(*slot, *frame)),
            None => Ok(()),
        }
    }

    /// Leaves a slot without a key for each of `subjects` whose key is gone, which was accepted. So
    /// no slot number that a frame may have used is reused.
    pub(crate) fn leave_out(&mut self, subjects: u64) {
        if subjects == 0 {
            return;
        }
        let stored = self.length.div_ceil(SLOT_LENGTH);
        self.extend_to(stored.max(self.count).saturating_add(subjects));
    }

    /// Adds void slots up to number `count`, or to the end of the file.
    fn extend_to(&mut self, count: u64) {
        let count = count.max(self.length.div_ceil(SLOT_LENGTH));
        // Those behind the last whole slot come again.
        self.void.cut(self.count);
        while self.count < count {
            // The file has no slot there, or an invalid one.
            self.closed.insert(self.count);
            self.void.add_one(self.count);
            self.digest = self.digest.then(&VOID);
            self.count = self.count.saturating_add(1);
        }
    }

    /// Writes the slots again that may not be durable, and sets aside those that do not open; see
    /// `Recovery::secure`.
    pub(crate) fn settle(
        &self,
        files: &Files,
        signed: u64,
        repairs: &mut RecoveryReport,
    ) -> Result<(), LogError> {
        let settled = self.durable.max(signed);
        let end = self.count.saturating_mul(SLOT_LENGTH);
        if settled == self.count && self.length == end && self.doubled.is_empty() {
            return Ok(());
        }
        self.set_aside(files, repairs)?;
        let file = files.segment(SLOTS, self.length == 0)?;
        let mut slot = [0; SLOT_BYTES];
        let void = self.closed.iter().chain(&self.doubled).copied();
        let first = void.min().map_or(settled, |it| settled.min(it));
        for number in first..self.count {
            let offset = number.saturating_mul(SLOT_LENGTH);
            if self.is_void(number) {
                slot.fill(0);
            } else {
                read(files, SLOTS, &*file, &mut slot, offset)?;
            }
            files.write_at(SLOTS, &slot, offset)?;
        }
        files.attempt("cut", SLOTS, |_| file.set_length(end))?;
        files.sync(SLOTS)?;
        files.sync_folder(FOLDER)
    }

    /// Refuses keys that were put back of whom a frame that cannot be read may name.
    fn refuse_unnamed(&self) -> Result<(), LogError> {
        let Some((slot, place)) = self
            .unnamed
            .first()
            .zip(self.given_up.subjects.unread.as_ref())
        else {
            return Ok(());
        };
        Err(LogError::Broken {
            place: place.clone(),
            reason: format!(
                "it cannot be read, and may name the subject of a key that was put back in {SLOTS}, slot {slot}, without which that key would be set aside; nothing was changed: copy the whole folder of the log aside, and put the stream's segments back as well, each only from a copy of it that is no shorter than the present file"
            ),
        })
    }

    /// Returns whether slot `number` holds no key that may be used.
    fn is_void(&self, number: u64) -> bool {
        self.closed.contains(&number) || self.doubled.contains(&number)
    }

    /// Keeps a copy of every byte that is not kept in its place.
    fn set_aside(&self, files: &Files, repairs: &mut RecoveryReport) -> Result<(), LogError> {
        let slot = |number: &u64| {
            let start = number.saturating_mul(SLOT_LENGTH);
            (start, start.saturating_add(SLOT_LENGTH).min(self.length))
        };
        let end = self.count.saturating_mul(SLOT_LENGTH);
        // Behind the last whole slot everything is removed, also the part of a slot at the end.
        let tail = (end < self.length).then_some((end, self.length));
        let void = self.closed.iter().chain(&self.doubled);
        let within: BTreeSet<&u64> = void.filter(|number| **number < self.count).collect();
        let stored = within
            .into_iter()
            .map(slot)
            .filter(|(start, end)| start < end);
        // Neighbours are one: there may be very many.
        let (mut zeros, mut copied) = (Vec::new(), Vec::new());
        for (start, end) in stored.chain(tail) {
            let are_zeros = holds_zeros(files, start..end)?;
            if are_zeros && self.is_given_up(start / SLOT_LENGTH) {
                // As the journal names it.
                continue;
            }
            let bytes = if are_zeros { &mut zeros } else { &mut copied };
            join(bytes, start..end);
        }
        for bytes in &copied {
            set_aside::copy(files, SLOTS, bytes.clone())?;
        }
        let of_kind = |kind| move |bytes| Repair::of_log(kind, bytes);
        let zeros = zeros.into_iter().map(of_kind(RepairKind::Zeros));
        let copied = copied.into_iter().map(of_kind(RepairKind::Slots));
        // At once: each announcement writes all of them.
        repairs.announce_all(files, zeros.chain(copied).collect())
    }
}

/// Adds a range of bytes behind the others.
fn join(ranges: &mut Vec<Range<u64>>, next: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

/// The error for an erasure, in `frame` of the journal, of another subject than the one in `slot`.
fn misnamed(slot: u64, frame: u64) -> LogError {
    LogError::Broken {
        place: format!("stream journal, frame {frame}"),
        reason: format!(
            "{MISNAMED} {slot} holds, so that no key is destroyed: {}",
            advice::JOURNAL_END
        ),
    }
}

fn file_broken(reason: &str, history: &History) -> LogError {
    let advice = advice::slots(Version::V3, history.has_closed());
    let reason = match history.slots_uncovered_in() {
        None => format!("{reason}; {advice}"),
        Some(frame) => format!(
            "does not hold the {} slots that journal frame {frame} names, which no checkpoint covers: an older copy was put back, or another \
             hand with the log's keys sealed that frame; {advice}; and only where there is no newer one, {}",
            history.slots.count,
            advice::JOURNAL_END
        ),
    };
    LogError::Broken {
        place: SLOTS.into(),
        reason,
    }
}

/// Returns whether `range` of the slots holds only zeros: nothing is lost with them, and a crash
/// leaves them too.
fn holds_zeros(files: &Files, range: Range<u64>) -> Result<bool, LogError> {
    let file = files.segment(SLOTS, false)?;
    let mut slot = [0; SLOT_BYTES];
    let mut offset = range.start;
    while offset < range.end {
        let bytes = range.end.saturating_sub(offset).min(SLOT_LENGTH);
        let place = usize::try_from(bytes).unwrap_or_default();
        let piece = slot.get_mut(..place).unwrap_or_default();
        read(files, SLOTS, &*file, piece, offset)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        offset = offset.saturating_add(bytes);
    }
    Ok(true)
}
