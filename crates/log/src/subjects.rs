//! The folder `subjects/` as the writer keeps it: one slot per subject with its key and name, which
//! an erasure overwrites.
//!
//! `docs/format.md`, "Subject keys". The map from names to pseudonyms and keys is in memory as long
//! as the log is open.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use probity_format::DecodeError;
use probity_format::Version;
use probity_format::keys::SubjectKey;
use probity_format::seal::{SubjectKeys, SubjectSection};
use probity_format::share::{self, PersonKey};
use probity_format::slot::{
    SLOT_BYTES, SLOT_LABEL_BYTES, SlotLabel, SlotsDigest, SubjectName, seal_slot,
};
use probity_format::stream::StreamId;
use probity_format::width::to_u64;

use crate::error::LogError;
use crate::files::Files;
use crate::found_slots::FoundSlots;
use crate::journal::{History, SignedSlots};
use crate::keystore::{KeyStore, random, random_secret};
use crate::log_state::LogState;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::slots::{NAMED_EVERY, Pseudonym, SLOTS, broken, slot_length};

pub(crate) const FOLDER: &str = "subjects";
/// [`SLOT_BYTES`] as a length of a file.
pub(crate) const SLOT_LENGTH: u64 = to_u64(SLOT_BYTES);
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
pub(crate) struct Known {
    pub(crate) slot: u64,
    pub(crate) pseudonym: Pseudonym,
    pub(crate) key: SubjectKey,
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
        let unfinished = found.unfinished.iter();
        let unfinished = unfinished.map(|slot| *slot..slot.saturating_add(1));
        let erased = unfinished.map(|slot| Repair::of_log(RepairKind::Erased, slot));
        // At once: each announcement writes all of them.
        repairs.announce_all(files, erased.collect())?;
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

    /// Returns whether slots hold keys of subjects that the journal erased.
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.lock().unfinished.is_empty()
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
    let label = to_u64(SLOT_LABEL_BYTES);
    for slot in slots {
        let offset = slot.saturating_mul(SLOT_LENGTH).saturating_add(label);
        files.write_at(SLOTS, &[0; SECRET_BYTES], offset)?;
    }
    files.sync(SLOTS)
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
        let pending = to_u64(self.pending.len());
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
        let sealed = sealed.map_err(|error| broken(Version::V3, slot, error.reason, false))?;
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
