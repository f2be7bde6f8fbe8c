//! Reads the file of slots, and keeps what a reader needs of it: the keys of subjects by pseudonym.
//!
//! `docs/format.md`, "Subject keys".

use std::collections::{BTreeMap, BTreeSet, HashMap};

use probity_format::Version;
use probity_format::content::PSEUDONYM_BYTES;
use probity_format::keys::SubjectKey;
use probity_format::slot::{Slot, SlotLabel, slot_bytes};
use probity_format::width::to_u64;
use probity_format::wrap::WrappingKey;

use crate::advice;
use crate::error::LogError;
use crate::files::Files;
use crate::scan::read_some;

/// The file of slots.
pub(crate) const SLOTS: &str = "subjects/slots";
/// Slots read at once.
const SLOTS_AT_ONCE: u64 = 2048;
/// Most slots behind those that the journal counts: a writer names them there [long
/// before](NAMED_EVERY).
const UNCOUNTED_MAX: u64 = 1 << 20;
/// A writer names its slots in the journal, and publishes it, whenever their number passes a
/// multiple of this, if no checkpoint did.
pub(crate) const NAMED_EVERY: u64 = 1 << 16;
/// The label of a slot that nothing uses.
pub(crate) const VOID: SlotLabel = SlotLabel {
    pseudonym: [0; PSEUDONYM_BYTES],
    durable: 0,
};
/// The fault of a slot that does not open.
pub(crate) const DAMAGED: &str = "the subject key does not open: it was changed or swapped";
/// The fault of a file of slots that the journal did not sign for.
pub(crate) const OTHER_PSEUDONYMS: &str = "holds other pseudonyms than the journal signed for";
/// The fault of an erasure that no writer of the log records, before the number of the slot.
pub(crate) const MISNAMED: &str = "erases another pseudonym than slot";
/// A subject outside its own sections.
pub(crate) type Pseudonym = [u8; PSEUDONYM_BYTES];

/// The bytes of a slot as a length of a file.
pub(crate) fn slot_length(version: Version) -> u64 {
    to_u64(slot_bytes(version))
}

/// The number of slots that are read where the journal counts `counted`. No writer leaves more
/// behind those, and a forged file may be endless.
pub(crate) const fn readable(version: Version, counted: u64) -> u64 {
    match version {
        // The journal does not count them.
        Version::V2 => u64::MAX,
        _ => counted.saturating_add(UNCOUNTED_MAX),
    }
}

/// Returns whether the file holds more slots than are read where the journal counts none.
pub(crate) fn are_many(files: &Files, version: Version) -> Result<bool, LogError> {
    Ok(stored_bytes(files)? / slot_length(version) > readable(version, 0))
}

/// The length of the file, 0 where there is none.
fn stored_bytes(files: &Files) -> Result<u64, LogError> {
    match files.open_read(SLOTS)? {
        Some(file) => files.attempt("measure", SLOTS, |_| file.length()),
        None => Ok(0),
    }
}

/// Returns the fault of a file of `stored` slots, if they are more than a writer leaves where the
/// journal counts `counted`.
pub(crate) fn surplus(stored: u64, counted: u64) -> Option<String> {
    (stored > readable(Version::V3, counted)).then(|| {
        format!(
            "holds {stored} slots, of which the journal counts {counted}: no writer leaves so many behind those; copy the present \
             folder aside, and put subjects/slots back from a copy that has at least those {counted}",
        )
    })
}

/// Calls `visit` for each whole slot from number `from` up to `to`; returns the length of the file,
/// 0 where there is none.
pub(crate) fn read_slots(
    files: &Files,
    version: Version,
    (from, to): (u64, u64),
    visit: &mut dyn FnMut(u64, &Slot<'_>) -> Result<(), LogError>,
) -> Result<u64, LogError> {
    let Some(file) = files.open_read(SLOTS)? else {
        return Ok(0);
    };
    let mut length = files.attempt("measure", SLOTS, |_| file.length())?;
    let slot_length = slot_length(version);
    let mut buffer = Vec::new();
    let mut number = from;
    while number < to.min(length / slot_length) {
        let some = to.min(length / slot_length).saturating_sub(number);
        let [offset, bytes] =
            [number, some.min(SLOTS_AT_ONCE)].map(|slots| slots.saturating_mul(slot_length));
        read_some(files, SLOTS, &*file, &mut buffer, (offset, bytes))?;
        let read = to_u64(buffer.len());
        if read < bytes {
            // An opening cut off the end since it was measured.
            length = offset.saturating_add(read);
        }
        for slot in buffer.chunks_exact(slot_bytes(version)) {
            let slot = Slot::parse(version, slot)
                .map_err(|error| broken(version, number, error.reason, false))?;
            visit(number, &slot)?;
            number = number.saturating_add(1);
        }
    }
    Ok(length)
}

/// The error for slot `number` with content that the log did not write; `has_closed` as for
/// [`advice::slots`].
pub(crate) fn broken(version: Version, number: u64, reason: &str, has_closed: bool) -> LogError {
    LogError::Broken {
        place: place(number),
        reason: format!("{reason}; {}", advice::slots(version, has_closed)),
    }
}

/// The name of slot `number` in reports.
pub(crate) fn place(number: u64) -> String {
    format!("{SLOTS}, slot {number}")
}

/// A slot without a key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unopened {
    /// The pseudonym in its label, which may be damaged too.
    pub(crate) pseudonym: Pseudonym,
    /// True when it was overwritten with zeros, rather than changed.
    pub(crate) is_empty: bool,
}

/// The keys of a log as a reader found them.
pub(crate) struct Slots {
    version: Version,
    keys: HashMap<Pseudonym, SubjectKey>,
    /// Subjects whose keys are not used, though slots hold them.
    disowned: BTreeSet<Pseudonym>,
    /// Subjects that the journal erased since the slots were read first.
    erased: BTreeSet<Pseudonym>,
    unopened: BTreeMap<u64, Unopened>,
    /// Slots up to the last that opens or is empty: those behind are being written, or torn.
    count: u64,
    /// The number of slots that were durable, as one of them records.
    pub(crate) durable: u64,
    /// The [`Slots::count`] of the first read.
    pub(crate) first_count: u64,
    /// Length of the file when it was read last, and whether it was read again since without having
    /// grown.
    length: u64,
    is_final: bool,
}

impl Slots {
    /// Reads the slots, of which the journal counts `counted`.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn read(
        files: &Files,
        wrapping: &WrappingKey,
        version: Version,
        counted: u64,
    ) -> Result<Self, LogError> {
        let mut slots = Self {
            version,
            keys: HashMap::new(),
            disowned: BTreeSet::new(),
            erased: BTreeSet::new(),
            unopened: BTreeMap::new(),
            count: 0,
            durable: 0,
            first_count: 0,
            length: 0,
            is_final: false,
        };
        slots.read_from(files, wrapping, (0, readable(version, counted)))?;
        slots.first_count = slots.count;
        Ok(slots)
    }

    /// Reads slots written since, and once more those that did not open: a writer may have been
    /// writing them.
    pub(crate) fn refresh(
        &mut self,
        files: &Files,
        wrapping: &WrappingKey,
    ) -> Result<(), LogError> {
        let length = stored_bytes(files)?;
        self.is_final = length == self.length;
        let retried = |(number, slot): (&u64, &Unopened)| (!slot.is_empty).then_some(*number);
        let first = self.unopened.iter().find_map(retried);
        let from = first.unwrap_or(self.count).min(self.count);
        self.unopened.retain(|number, _| *number < from);
        let to = readable(self.version, self.count);
        self.read_from(files, wrapping, (from, to))
    }

    /// Returns whether [`Slots::refresh`] may find anything new.
    pub(crate) fn may_grow(&self, files: &Files) -> Result<bool, LogError> {
        let length = stored_bytes(files)?;
        Ok(length != self.length || !self.is_final)
    }

    /// Forgets the keys of the subjects with these pseudonyms, and reads none of them again.
    pub(crate) fn disown(&mut self, unkept: &BTreeSet<Pseudonym>) {
        self.disowned.clone_from(unkept);
        self.keys.retain(|pseudonym, _| !unkept.contains(pseudonym));
    }

    /// Drops the keys of the subjects with these pseudonyms, which the journal erased, and reads
    /// none of them again.
    pub(crate) fn forget(&mut self, erased: &[Pseudonym]) {
        for pseudonym in erased {
            if self.keys.remove(pseudonym).is_some() {
                self.erased.insert(*pseudonym);
            }
        }
    }

    /// Reads the slots of `range`.
    fn read_from(
        &mut self,
        files: &Files,
        wrapping: &WrappingKey,
        range: (u64, u64),
    ) -> Result<(), LogError> {
        let version = self.version;
        self.length = read_slots(files, version, range, &mut |number, slot| {
            let next = number.saturating_add(1);
            let label = slot.label();
            if slot.is_void() {
                self.count = self.count.max(next);
                return Ok(());
            }
            if let Ok(secret) = slot.open(wrapping, number) {
                self.durable = self.durable.max(label.durable);
                let unused = [&self.disowned, &self.erased];
                if !unused.iter().any(|them| them.contains(&label.pseudonym)) {
                    self.keys.insert(label.pseudonym, secret.key);
                }
                self.count = self.count.max(next);
                return Ok(());
            }
            let is_empty = slot.is_empty();
            if is_empty {
                self.count = self.count.max(next);
            }
            let pseudonym = label.pseudonym;
            let was_read = || self.erased.contains(&pseudonym);
            if is_empty && (self.keys.contains_key(&pseudonym) || was_read()) {
                // Erased since it was read first.
                return Ok(());
            }
            let unopened = Unopened {
                pseudonym,
                is_empty,
            };
            self.unopened.insert(number, unopened);
            Ok(())
        })?;
        Ok(())
    }

    /// Returns whether any of them opened.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The key of the subject with this pseudonym.
    pub(crate) fn key(&self, pseudonym: &Pseudonym) -> Option<&SubjectKey> {
        self.keys.get(pseudonym)
    }

    /// The slot whose label has this pseudonym and that does not open.
    pub(crate) fn unopened_of(&self, pseudonym: &Pseudonym) -> Option<(u64, Unopened)> {
        let of_subject = |(_, slot): &(&u64, &Unopened)| slot.pseudonym == *pseudonym;
        let found = self.unopened.iter().find(of_subject);
        found.map(|(number, slot)| (*number, *slot))
    }

    /// Returns whether the subject was made and erased after the slots were read first, and so
    /// perhaps after the journal was.
    pub(crate) fn is_recent(&self, pseudonym: &Pseudonym) -> bool {
        let slot = self.unopened_of(pseudonym);
        slot.is_some_and(|(number, slot)| slot.is_empty && number >= self.first_count)
    }

    /// The slots that do not open, by number.
    pub(crate) const fn unopened(&self) -> &BTreeMap<u64, Unopened> {
        &self.unopened
    }
}
