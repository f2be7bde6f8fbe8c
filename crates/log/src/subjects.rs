//! The folder `subjects/`: one wrapped key a subject, in slots that can be overwritten: the one store that forgets.
//!
//! `docs/format.md`, "Subject keys".

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use probity_format::keys::{Secret, SectionKey, SubjectKey, WRAPPED_BYTES};
use probity_format::seal::SubjectKeys;
use probity_format::stream::StreamId;
use probity_format::{DecodeError, Version};

use crate::core::Core;
use crate::error::LogError;
use crate::files::Files;
use crate::keystore::{KeyStore, random};
use crate::repairs::Repairs;
use crate::scan::read;

/// The file of slots.
const SLOTS: &str = "subjects/slots";
const FOLDER: &str = "subjects";
/// Bytes of what a slot's key is bound to: pseudonym, and how many slots were durable before it.
const LABEL_BYTES: usize = 16 + 8;
/// Bytes of one slot: label, wrapped key, padding.
const SLOT_BYTES: usize = LABEL_BYTES + WRAPPED_BYTES + 4;
/// Slots read at once.
const SLOTS_AT_ONCE: u64 = 8192;

/// What a slot's key is bound to: the subject's pseudonym, and how many slots were durable before it.
pub(crate) type SlotLabel = [u8; LABEL_BYTES];
/// Opens the wrapped key of the slot with a label.
type Unwrap<'a> = &'a dyn Fn(&SlotLabel, &[u8]) -> Result<Secret, LogError>;
/// Keys of subjects by pseudonym.
pub(crate) type Keys = HashMap<[u8; 16], SubjectKey>;

/// The keys of subjects. Unwrapped ones are kept only as long as the log is open.
#[derive(Default)]
pub(crate) struct SubjectStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Keys,
    /// Slots that are durable.
    settled: u64,
    /// Slots made since, not written yet.
    pending: Vec<u8>,
    /// Whether the file's name is durable.
    named: bool,
}

impl std::fmt::Debug for SubjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubjectStore").finish_non_exhaustive()
    }
}

impl SubjectStore {
    /// Reads the slots, and makes durable what is found: a crash may have left it in memory alone.
    pub(crate) fn open(
        files: &Files,
        unwrap: Unwrap<'_>,
        repairs: &mut Repairs,
    ) -> Result<Self, LogError> {
        let slots = Slots::read(files, unwrap)?;
        if let Some(first) = slots.damaged().first() {
            return Err(damaged_slot(*first));
        }
        slots.settle(files, repairs)?;
        Ok(Self {
            state: Mutex::new(State {
                keys: slots.keys,
                settled: slots.count,
                pending: Vec::new(),
                named: false,
            }),
        })
    }

    /// The keys as a sealer of stream `stream` asks for them; keys that do not exist are made.
    pub(crate) fn for_stream<'a>(&'a self, core: &'a Core, stream: StreamId) -> SealingKeys<'a> {
        SealingKeys {
            store: self,
            core,
            stream,
            failure: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys that are stored, for whoever reads, and the numbers of the slots that were damaged.
pub(crate) fn read_keys(files: &Files, unwrap: Unwrap<'_>) -> Result<(Keys, Vec<u64>), LogError> {
    let slots = Slots::read(files, unwrap)?;
    let damaged = slots.damaged().to_vec();
    Ok((slots.keys, damaged))
}

/// What to say of a slot that was durable and does not open.
pub(crate) fn damaged_slot(number: u64) -> LogError {
    LogError::Broken {
        place: format!("{SLOTS}, slot {number}"),
        reason: "the subject key does not open: it was changed or swapped".into(),
    }
}

/// The slots as found.
#[derive(Default)]
struct Slots {
    keys: Keys,
    /// Slots up to the last that is whole.
    count: u64,
    /// Slots that were durable before the last of them were written: those are whole or were damaged later.
    settled: u64,
    /// Slots that are not whole, in order.
    broken: Vec<u64>,
    length: u64,
}

impl Slots {
    fn read(files: &Files, unwrap: Unwrap<'_>) -> Result<Self, LogError> {
        let mut slots = Self::default();
        let Some(file) = files.open_read(SLOTS)? else {
            return Ok(slots);
        };
        slots.length = files.attempt("measure", SLOTS, |_| file.length())?;
        let all = slots.length / SLOT_LENGTH;
        let mut buffer = Vec::new();
        let mut number: u64 = 0;
        while number < all {
            let some = all.saturating_sub(number).min(SLOTS_AT_ONCE);
            let bytes = some.saturating_mul(SLOT_LENGTH);
            buffer.resize(usize::try_from(bytes).unwrap_or_default(), 0);
            let offset = number.saturating_mul(SLOT_LENGTH);
            read(files, SLOTS, &*file, &mut buffer, offset)?;
            for slot in buffer.chunks_exact(SLOT_BYTES) {
                slots.take(number, slot, unwrap);
                number = number.saturating_add(1);
            }
        }
        Ok(slots)
    }

    /// The slots that do not open though they were durable: behind what was, a crash leaves any part of a slot; before it
    /// nothing but an attack does.
    fn damaged(&self) -> &[u64] {
        let durable = self.broken.partition_point(|slot| *slot < self.settled);
        self.broken.get(..durable).unwrap_or_default()
    }

    fn take(&mut self, number: u64, slot: &[u8], unwrap: Unwrap<'_>) {
        let next = number.saturating_add(1);
        // An erased slot keeps its place and says nothing.
        if slot.iter().all(|byte| *byte == 0) {
            self.count = next;
            return;
        }
        let opened = slot
            .split_first_chunk::<LABEL_BYTES>()
            .and_then(|(label, rest)| {
                let wrapped = rest.get(..WRAPPED_BYTES)?;
                Some((label, unwrap(label, wrapped).ok()?))
            });
        let Some((label, secret)) = opened else {
            self.broken.push(number);
            return;
        };
        let (pseudonym, settled) = split(label);
        self.keys.insert(pseudonym, SubjectKey::new(secret));
        self.settled = self.settled.max(settled);
        self.count = next;
    }

    /// Writes the slots again that may not be durable, and zeros over torn ones; see `Recovery::secure`.
    fn settle(&self, files: &Files, repairs: &mut Repairs) -> Result<(), LogError> {
        let end = self.count.saturating_mul(SLOT_LENGTH);
        if self.settled == self.count && self.length == end {
            return Ok(());
        }
        if !self.broken.is_empty() || self.length != end {
            let torn = self.broken.len();
            let sentence = format!("{SLOTS}: removed {torn} torn keys, which nothing used");
            repairs.announce(files, sentence)?;
        }
        let file = files.segment(SLOTS, false)?;
        let mut slot = [0; SLOT_BYTES];
        for number in self.settled..self.count {
            let offset = number.saturating_mul(SLOT_LENGTH);
            if self.broken.binary_search(&number).is_ok() {
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
}

/// [`SLOT_BYTES`] as a length of a file.
#[expect(clippy::as_conversions, reason = "a small constant")]
const SLOT_LENGTH: u64 = SLOT_BYTES as u64;

fn label(pseudonym: &[u8; 16], settled: u64) -> SlotLabel {
    let mut label = [0; LABEL_BYTES];
    let (first, rest) = label.split_at_mut(pseudonym.len());
    first.copy_from_slice(pseudonym);
    rest.copy_from_slice(&settled.to_le_bytes());
    label
}

fn split(label: &SlotLabel) -> ([u8; 16], u64) {
    let (mut pseudonym, mut settled) = ([0; 16], [0; 8]);
    let (first, rest) = label.split_at(pseudonym.len());
    pseudonym.copy_from_slice(first);
    settled.copy_from_slice(rest);
    (pseudonym, u64::from_le_bytes(settled))
}

/// Gives and makes subject keys for one batch; [`SealingKeys::finish`] makes new ones durable.
pub(crate) struct SealingKeys<'a> {
    store: &'a SubjectStore,
    core: &'a Core,
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
        if state.pending.is_empty() {
            return Ok(());
        }
        let files = &self.core.files;
        files.segment(SLOTS, true)?;
        let offset = state.settled.saturating_mul(SLOT_LENGTH);
        files.write_at(SLOTS, &state.pending, offset)?;
        files.sync(SLOTS)?;
        if !state.named {
            files.sync_folder(FOLDER)?;
            state.named = true;
        }
        state.settled = state.next();
        state.pending.clear();
        Ok(())
    }
}

impl State {
    /// Number of the next slot.
    fn next(&self) -> u64 {
        let pending = u64::try_from(self.pending.len()).unwrap_or(u64::MAX) / SLOT_LENGTH;
        self.settled.saturating_add(pending)
    }

    fn ensure(&mut self, keys: &KeyStore, pseudonym: [u8; 16]) -> Result<(), LogError> {
        if self.keys.contains_key(&pseudonym) {
            return Ok(());
        }
        let secret = Secret::new(random()?);
        let label = label(&pseudonym, self.settled);
        let wrapped = keys.wrap_subject(&label, &secret)?;
        self.pending.extend_from_slice(&label);
        self.pending.extend_from_slice(&wrapped);
        let end = self.pending.len().next_multiple_of(SLOT_BYTES);
        self.pending.resize(end, 0);
        self.keys.insert(pseudonym, SubjectKey::new(secret));
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
    ) -> Result<(Vec<u8>, SectionKey), DecodeError> {
        let error = DecodeError::new("subject key", 0, "cannot be made");
        let keys = self
            .core
            .keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.store.lock();
        let tokens: Vec<[u8; 16]> = subjects
            .split('\n')
            .map(|subject| keys.master.pseudonym(subject))
            .collect();
        for token in &tokens {
            if let Err(failure) = state.ensure(&keys, *token) {
                self.failure = Some(failure);
                return Err(error);
            }
        }
        let found: Vec<&SubjectKey> = tokens
            .iter()
            .filter_map(|token| state.keys.get(token))
            .collect();
        let key =
            SubjectKey::section_key(&found, Version::NEWEST, &self.stream, salt, frame, section);
        Ok((tokens.concat(), key))
    }
}
