//! The folder `subjects/` as the writer keeps it: one slot per subject with its key and name, which
//! an erasure overwrites.
//!
//! `docs/format.md`, "Subject keys". The map from names to pseudonyms and keys is in memory as long
//! as the log is open.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use probity_format::DecodeError;
use probity_format::Version;
use probity_format::content::PSEUDONYM_BYTES;
use probity_format::keys::SubjectKey;
use probity_format::seal::{SubjectKeys, SubjectSection};
use probity_format::share::{self, PersonKey};
use probity_format::slot::{
    SLOT_BYTES, SLOT_LABEL_BYTES, Slot, SlotLabel, SlotsDigest, SubjectName, seal_slot,
};
use probity_format::stream::StreamId;
use probity_format::wrap::WrappingKey;

use crate::error::LogError;
use crate::files::Files;
use crate::journal::{History, SignedSlots};
use crate::keystore::{KeyStore, random, random_secret};
use crate::log_state::LogState;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::scan::read;
use crate::set_aside;
use crate::slots::{
    NAMED_EVERY, OTHER_PSEUDONYMS, Pseudonym, SLOTS, advice, broken, read_slots, readable,
    slot_length, surplus,
};

const FOLDER: &str = "subjects";
/// [`SLOT_BYTES`] as a length of a file.
#[expect(clippy::as_conversions, reason = "a small constant")]
const SLOT_LENGTH: u64 = SLOT_BYTES as u64;
/// Bytes of a slot that hold its key and name.
const SECRET_BYTES: usize = SLOT_BYTES - SLOT_LABEL_BYTES;

/// The slots of subjects. Unwrapped keys and names are kept only as long as the log is open.
#[derive(Default)]
pub(crate) struct SubjectStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<SubjectName, Known>,
    /// Slots that are durable.
    settled: SignedSlots,
    /// Slots made since, not written yet.
    pending: Vec<u8>,
    /// The digest with those too.
    digest: SlotsDigest,
    /// True when the file's name is durable.
    named: bool,
    /// Slots of subjects that the journal erased and that still hold a key.
    unfinished: Vec<u64>,
}

/// A subject with a key.
struct Known {
    slot: u64,
    pseudonym: Pseudonym,
    key: SubjectKey,
}

impl std::fmt::Debug for SubjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubjectStore").finish_non_exhaustive()
    }
}

impl SubjectStore {
    /// Loads the slots and makes them durable: a crash may have left them in memory alone.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn open(
        files: &Files,
        found: FoundSlots,
        history: &History,
        repairs: &mut RecoveryReport,
    ) -> Result<Self, LogError> {
        found.settle(files, history.slots.count, repairs)?;
        for slot in &found.unfinished {
            let range = *slot..slot.saturating_add(1);
            repairs.announce(files, Repair::of_log(RepairKind::Erased, range))?;
        }
        Ok(Self {
            state: Mutex::new(State {
                known: found.known,
                settled: SignedSlots {
                    count: found.count,
                    digest: found.digest,
                },
                pending: Vec::new(),
                digest: found.digest,
                named: false,
                unfinished: found.unfinished,
            }),
        })
    }

    /// The keys as a sealer of stream `stream` asks for them; keys that do not exist are made.
    pub(crate) fn for_stream<'a>(
        &'a self,
        core: &'a LogState,
        stream: StreamId,
    ) -> SealingKeys<'a> {
        SealingKeys {
            store: self,
            core,
            stream,
            failure: None,
        }
    }

    /// The slots that are durable.
    pub(crate) fn slots(&self) -> SignedSlots {
        self.lock().settled
    }

    /// The slot and pseudonym of the subject called `name`, which is durable then.
    pub(crate) fn find(
        &self,
        files: &Files,
        name: &str,
    ) -> Result<Option<(u64, Pseudonym)>, LogError> {
        let mut state = self.lock();
        let Some((slot, pseudonym)) = state
            .known
            .get(name)
            .map(|known| (known.slot, known.pseudonym))
        else {
            return Ok(None);
        };
        state.write_pending(files)?;
        Ok(Some((slot, pseudonym)))
    }

    /// Destroys the key and the name of the subject in `slot`; the journal must have published the
    /// erasure.
    pub(crate) fn destroy(&self, files: &Files, name: &str, slot: u64) -> Result<(), LogError> {
        self.lock().known.remove(name);
        overwrite(files, &[slot])
    }

    /// Destroys the keys left in slots whose erasure the journal has recorded and signed for by
    /// now.
    pub(crate) fn finish_erasures(&self, files: &Files) -> Result<(), LogError> {
        let unfinished = std::mem::take(&mut self.lock().unfinished);
        if unfinished.is_empty() {
            return Ok(());
        }
        overwrite(files, &unfinished)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Overwrites the keys and names in `slots`, durably. Their labels stay, because the journal signed
/// for them.
fn overwrite(files: &Files, slots: &[u64]) -> Result<(), LogError> {
    files.segment(SLOTS, false)?;
    let label = u64::try_from(SLOT_LABEL_BYTES).unwrap_or_default();
    for slot in slots {
        let offset = slot.saturating_mul(SLOT_LENGTH).saturating_add(label);
        files.write_at(SLOTS, &[0; SECRET_BYTES], offset)?;
    }
    files.sync(SLOTS)
}

/// The slots as an opening finds them.
#[derive(Default)]
pub(crate) struct FoundSlots {
    known: HashMap<SubjectName, Known>,
    /// Slots up to the last that is whole, and the digest over their labels; those that do not open
    /// count as void.
    count: u64,
    digest: SlotsDigest,
    /// The digest over those that the journal signed for.
    signed: SlotsDigest,
    /// Slots that were durable before the last of them were written: those are whole or were
    /// damaged later.
    durable: u64,
    /// Slots that do not open though no record says that they are erased.
    closed: Vec<u64>,
    /// Slots that the journal does not count, of subjects that have one already: the log makes no
    /// second one.
    doubled: Vec<u64>,
    unfinished: Vec<u64>,
    length: u64,
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
        let mut found = Self::default();
        let mut running = SlotsDigest::default();
        let signed = history.slots.count;
        let range = (0, readable(Version::V3, signed));
        found.length = read_slots(files, Version::V3, range, &mut |number, slot| {
            let next = number.saturating_add(1);
            let is_whole = found.take(number, slot, wrapping, history);
            // Behind the signed slots, a slot that is not whole becomes void.
            let is_kept = is_whole || number < signed;
            let label = if is_kept { slot.label() } else { VOID };
            running = running.then(&label);
            if is_kept {
                (found.count, found.digest) = (next, running);
            }
            if next == signed {
                found.signed = running;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Loads slot `number`; returns whether it is whole.
    fn take(
        &mut self,
        number: u64,
        slot: &Slot<'_>,
        wrapping: &WrappingKey,
        history: &History,
    ) -> bool {
        if history.erasures.contains_key(&number) {
            if !slot.is_empty() {
                self.unfinished.push(number);
            }
            return true;
        }
        if slot.is_void() {
            return false;
        }
        let Ok(secret) = slot.open(wrapping, number) else {
            self.closed.push(number);
            return false;
        };
        let is_counted = number < history.slots.count;
        if !is_counted && self.known.contains_key(&secret.name) {
            self.doubled.push(number);
            return false;
        }
        let label = slot.label();
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
    /// as durable.
    ///
    /// # Errors
    /// [`LogError::Broken`] with the slot, or the file.
    pub(crate) fn check(&self, history: &History) -> Result<(), LogError> {
        let signed = history.slots;
        let whole = self.length / SLOT_LENGTH;
        if let Some(reason) = surplus(whole, signed.count) {
            return Err(LogError::Broken {
                place: SLOTS.into(),
                reason,
            });
        }
        if whole < signed.count {
            let reason = format!(
                "holds {whole} slots, the journal signed for {}",
                signed.count
            );
            return Err(file_broken(&reason, history));
        }
        if let Some(first) = self.closed.first()
            && *first < self.durable.max(signed.count)
        {
            let reason = "the subject key does not open: it was changed, swapped or overwritten \
                          without a signed erasure";
            return Err(broken(*first, reason));
        }
        if self.signed != signed.digest {
            return Err(file_broken(OTHER_PSEUDONYMS, history));
        }
        Ok(())
    }

    /// Leaves a slot without a key for each of `subjects` whose key is gone, which was accepted. So
    /// no slot number that a frame may have used is reused.
    pub(crate) fn leave_out(&mut self, subjects: u64) {
        if subjects == 0 {
            return;
        }
        let stored = self.length.div_ceil(SLOT_LENGTH);
        let count = stored.max(self.count).saturating_add(subjects);
        while self.count < count {
            // The file has no slot there, or an invalid one.
            if self.closed.binary_search(&self.count).is_err() {
                self.closed.push(self.count);
            }
            self.digest = self.digest.then(&VOID);
            self.count = self.count.saturating_add(1);
        }
        self.closed.sort_unstable();
    }

    /// Writes the slots again that may not be durable, and sets aside those that do not open; see
    /// `Recovery::secure`.
    fn settle(
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
        let first = self.doubled.first().map_or(settled, |it| settled.min(*it));
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

    /// Returns whether slot `number` holds no key that may be used.
    fn is_void(&self, number: u64) -> bool {
        let (closed, doubled) = (&self.closed, &self.doubled);
        closed.binary_search(&number).is_ok() || doubled.binary_search(&number).is_ok()
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
        for (start, end) in stored.chain(tail) {
            let kind = if holds_zeros(files, start..end)? {
                RepairKind::Zeros
            } else {
                set_aside::copy(files, SLOTS, start..end)?;
                RepairKind::Slots
            };
            repairs.announce(files, Repair::of_log(kind, start..end))?;
        }
        Ok(())
    }
}

/// The label of a slot that nothing uses.
const VOID: SlotLabel = SlotLabel {
    pseudonym: [0; PSEUDONYM_BYTES],
    durable: 0,
};

fn file_broken(reason: &str, history: &History) -> LogError {
    let advice = advice(history.has_closed());
    LogError::Broken {
        place: SLOTS.into(),
        reason: format!("{reason}; {advice}"),
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

/// Finds and makes subject keys for one batch; [`SealingKeys::finish`] makes new ones durable.
pub(crate) struct SealingKeys<'a> {
    store: &'a SubjectStore,
    core: &'a LogState,
    stream: StreamId,
    failure: Option<LogError>,
}

impl SealingKeys<'_> {
    /// Must succeed before a frame sealed under these keys is written.
    pub(crate) fn finish(self) -> Result<(), LogError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut state = self.store.lock();
        let before = state.settled.count;
        state.write_pending(&self.core.files)?;
        let is_due = before / NAMED_EVERY < state.settled.count / NAMED_EVERY;
        drop(state);
        if is_due {
            let mut journal = self.core.streams.journal();
            journal.append_slots(self.core)?;
            // Verification counts only the slots that a checkpoint covers.
            self.core.publish_stream(journal.stream())?;
        }
        Ok(())
    }
}

impl State {
    /// Number of the next slot.
    fn next(&self) -> u64 {
        let pending = u64::try_from(self.pending.len()).unwrap_or(u64::MAX);
        let pending = pending / slot_length(Version::NEWEST);
        self.settled.count.saturating_add(pending)
    }

    /// Makes new slots durable.
    fn write_pending(&mut self, files: &Files) -> Result<(), LogError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        files.segment(SLOTS, true)?;
        let offset = self.settled.count.saturating_mul(SLOT_LENGTH);
        files.write_at(SLOTS, &self.pending, offset)?;
        files.sync(SLOTS)?;
        if !self.named {
            files.sync_folder(FOLDER)?;
            self.named = true;
        }
        self.settled = SignedSlots {
            count: self.next(),
            digest: self.digest,
        };
        self.pending.clear();
        Ok(())
    }

    /// Makes a key for the subject called `name`, under a pseudonym that only its slot links to the
    /// name.
    fn ensure(&mut self, keys: &KeyStore, name: &str) -> Result<(), LogError> {
        if self.known.contains_key(name) {
            return Ok(());
        }
        let slot = self.next();
        let key = SubjectKey::new(random_secret()?);
        let label = SlotLabel {
            pseudonym: random()?,
            durable: self.settled.count,
        };
        let sealed = seal_slot(&keys.wrapping, slot, &label, &key, name, random()?);
        let sealed = sealed.map_err(|error| broken(slot, error.reason))?;
        self.pending.extend_from_slice(&sealed);
        self.digest = self.digest.then(&label);
        let known = Known {
            slot,
            pseudonym: label.pseudonym,
            key,
        };
        self.known.insert(SubjectName::new(name), known);
        Ok(())
    }
}

impl SubjectKeys for SealingKeys<'_> {
    fn section_key(
        &mut self,
        subjects: &str,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        let error = DecodeError::new("subject key", 0, "cannot be made");
        let keys = self
            .core
            .keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.store.lock();
        for subject in subjects.split('\n') {
            if let Err(failure) = state.ensure(&keys, subject) {
                self.failure = Some(failure);
                return Err(error);
            }
        }
        let mut found = Vec::new();
        for subject in subjects.split('\n') {
            found.push(state.known.get(subject).ok_or(error)?);
        }
        let sealed = match found.as_slice() {
            [one] => Ok(alone(one, &self.stream, salt, frame, section)),
            several => together(several, &self.stream, salt, frame, section),
        };
        sealed.map_err(|failure| {
            self.failure = Some(failure);
            error
        })
    }
}

/// The keys for a section about one subject.
fn alone(
    known: &Known,
    stream: &StreamId,
    salt: &[u8; 32],
    frame: u64,
    section: u32,
) -> SubjectSection {
    let version = Version::NEWEST;
    SubjectSection {
        pseudonyms: known.pseudonym.to_vec(),
        key: SubjectKey::section_key(&[&known.key], version, stream, salt, frame, section),
        people: Vec::new(),
    }
}

/// The keys for a section about several subjects: a fresh key, of which each subject has a share.
fn together(
    known: &[&Known],
    stream: &StreamId,
    salt: &[u8; 32],
    frame: u64,
    section: u32,
) -> Result<SubjectSection, LogError> {
    let person = |(known, place): (&&Known, u8)| {
        PersonKey::new(&known.key, stream, salt, frame, section, place)
    };
    let people: Vec<PersonKey> = known.iter().zip(0..).map(person).collect();
    let pseudonyms = known.iter().map(|known| known.pseudonym);
    Ok(SubjectSection {
        pseudonyms: pseudonyms.collect::<Vec<_>>().concat(),
        key: share::section_key(random_secret()?.expose(), &people),
        people,
    })
}
