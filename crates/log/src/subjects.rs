//! The folder `subjects/`: one wrapped key a subject, in slots that can be overwritten: the one store that forgets.
//!
//! `docs/format.md`, "Subject keys".

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use probity_format::DecodeError;
use probity_format::keys::{Secret, SectionKey, SubjectKey, WRAPPED_BYTES};
use probity_format::seal::SubjectKeys;
use probity_format::stream::StreamId;

use crate::core::Core;
use crate::error::LogError;
use crate::files::Files;
use crate::keystore::{KeyStore, random};

/// The file of slots.
pub(crate) const SLOTS: &str = "subjects/slots";
/// Bytes of one slot: pseudonym, wrapped key, padding.
const SLOT_BYTES: usize = 16 + WRAPPED_BYTES + 12;
/// Most slots read: the file's bound.
const SLOTS_BYTES_MAX: u64 = 8 << 30;

/// Opens the wrapped key of the subject with a pseudonym.
type Unwrap<'a> = &'a dyn Fn(&[u8; 16], &[u8]) -> Result<Secret, LogError>;

/// The keys of subjects. Unwrapped ones are kept only as long as the log is open.
#[derive(Default)]
pub(crate) struct SubjectStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: HashMap<[u8; 16], SubjectKey>,
    slots: u64,
    unsynced: bool,
}

impl std::fmt::Debug for SubjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubjectStore").finish_non_exhaustive()
    }
}

impl SubjectStore {
    /// Reads the slots; one that a crash tore at the end was never used and is written again.
    pub(crate) fn open(files: &Files, unwrap: Unwrap<'_>) -> Result<Self, LogError> {
        let (keys, slots) = read_slots(files, unwrap)?;
        Ok(Self {
            state: Mutex::new(State {
                keys,
                slots,
                unsynced: false,
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

/// Keys by pseudonym, and the number of slots.
type Slots = (HashMap<[u8; 16], SubjectKey>, u64);

/// Reads the slots; one that a crash tore at the end was never used and is written again.
pub(crate) fn read_slots(files: &Files, unwrap: Unwrap<'_>) -> Result<Slots, LogError> {
    let content = files.read(SLOTS, SLOTS_BYTES_MAX)?.unwrap_or_default();
    let mut keys = HashMap::new();
    let mut count: u64 = 0;
    let mut slots = content.chunks(SLOT_BYTES).peekable();
    while let Some(slot) = slots.next() {
        let last = slots.peek().is_none();
        let Some((pseudonym, rest)) = slot.split_first_chunk::<16>() else {
            break;
        };
        let wrapped = rest.get(..WRAPPED_BYTES).unwrap_or_default();
        // An erased slot keeps its place and says nothing.
        if slot.iter().any(|byte| *byte != 0) {
            match unwrap(pseudonym, wrapped) {
                Ok(secret) => drop(keys.insert(*pseudonym, SubjectKey::new(secret))),
                Err(_) if last => break,
                Err(_) => {
                    return Err(LogError::Broken {
                        place: format!("{SLOTS}, slot {count}"),
                        reason: "the subject key does not open: it was changed or swapped".into(),
                    });
                }
            }
        }
        count = count.saturating_add(1);
    }
    Ok((keys, count))
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
        if std::mem::take(&mut state.unsynced) {
            self.core.files.sync(SLOTS)?;
            self.core.files.sync_folder("subjects")?;
        }
        Ok(())
    }

    fn ensure(&self, state: &mut State, keys: &KeyStore, token: [u8; 16]) -> Result<(), LogError> {
        if state.keys.contains_key(&token) {
            return Ok(());
        }
        let secret = Secret::new(random()?);
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        slot.extend_from_slice(&token);
        slot.extend_from_slice(&keys.wrap_subject(&token, &secret)?);
        slot.resize(SLOT_BYTES, 0);
        let bytes = u64::try_from(SLOT_BYTES).unwrap_or_default();
        self.core.files.segment(SLOTS, true)?;
        self.core
            .files
            .write_at(SLOTS, &slot, state.slots.saturating_mul(bytes))?;
        state.slots = state.slots.saturating_add(1);
        state.unsynced = true;
        state.keys.insert(token, SubjectKey::new(secret));
        Ok(())
    }
}

impl SubjectKeys for SealingKeys<'_> {
    fn section_key(
        &mut self,
        subjects: &str,
        epoch_salt: &[u8; 32],
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
            if let Err(failure) = self.ensure(&mut state, &keys, *token) {
                self.failure = Some(failure);
                return Err(error);
            }
        }
        let found: Vec<&SubjectKey> = tokens
            .iter()
            .filter_map(|token| state.keys.get(token))
            .collect();
        let key = SubjectKey::section_key(&found, &self.stream, epoch_salt, frame, section);
        Ok((tokens.concat(), key))
    }
}
