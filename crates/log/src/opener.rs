//! Opens sealed frames for holders of the root key: for reading and for the keyed check.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use probity_format::content::PSEUDONYM_BYTES;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, RootKey, SectionKey, SubjectKey};
use probity_format::share::PersonKey;
use probity_format::slot::SlotsDigest;
use probity_format::stream::{StreamId, StreamName};
use probity_format::wrap::WrappingKey;
use probity_format::{Timestamp, Version};

use crate::accepted::AcceptedLoss;
use crate::epochs::{CertifiedEpochs, Epochs};
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::heads::Heads;
use crate::history::{read_history, read_history_to_write};
use crate::journal::{Erasure, History, SignedSlots};
use crate::keystore::{KeyStore, SigningKeyState, Witness};
use crate::known_epochs::KnownEpochs;
use crate::lost::Lost;
use crate::slot_ranges::SlotRanges;
use crate::slots::{
    DAMAGED, Pseudonym, Slots, Unopened, VOID, are_many, broken, read_slots, readable,
};

/// The keys that open a log's content.
pub(crate) struct Opener {
    pub(crate) master: MasterKey,
    wrapping: Arc<WrappingKey>,
    pub(crate) geometry: Geometry,
    pub(crate) version: Version,
    pub(crate) files: Files,
    slots: RwLock<Slots>,
    /// The slots of subjects that the journal erased, by pseudonym.
    erased: RwLock<HashMap<Pseudonym, u64>>,
    /// The slots that the journal signed for, and those of them that an accepted loss left void.
    signed: SignedSlots,
    void: SlotRanges,
    /// True where the file of slots is the one that was signed for, once that was asked.
    is_as_signed: OnceLock<bool>,
    pub(crate) epochs: RwLock<KnownEpochs>,
    /// Losses that were accepted.
    pub(crate) closed: Vec<AcceptedLoss>,
    /// The remedy for keys that are missing, once one was.
    pub(crate) remedy: OnceLock<&'static str>,
}

/// The means to open a section of subjects.
pub(crate) enum Subjects {
    Key(SectionKey),
    /// The key of each person's share in a section with shares; none for erased people, and at
    /// least one; with what is lost, where the key of another person is missing.
    People(Vec<Option<PersonKey>>, Option<Lost>),
    /// All of the subjects were erased, or one of them where the section has no shares.
    Erased,
    /// The key of one subject is missing, and no record says that it was erased.
    Lost(Lost),
}

impl Opener {
    /// Creates an opener; refuses a log in which a subject's key is damaged.
    pub(crate) fn new(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let opener = Self::new_past_damage(files, root, geometry)?;
        match opener.damaged_slots().first() {
            Some(first) => Err(broken(geometry.version(), *first, DAMAGED, false)),
            None => Ok(opener),
        }
    }

    /// Creates an opener like [`Opener::new`], also where a log of version 2 has damaged slots.
    pub(crate) fn new_past_damage(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let (master, wrapping) = KeyStore::open_for_reading(files, root, geometry)?;
        Self::with_keys(files, master, Arc::new(wrapping), geometry)
    }

    /// Creates an opener for the log's writer, which has the wrapping key.
    pub(crate) fn of_writer(
        files: &Files,
        wrapping: Arc<WrappingKey>,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let master = KeyStore::open_master(files, &wrapping, geometry)?;
        Self::with_keys(files, master, wrapping, geometry)
    }

    fn with_keys(
        files: &Files,
        master: MasterKey,
        wrapping: Arc<WrappingKey>,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let version = geometry.version();
        let counted = if are_many(files, version)? {
            counted(files, geometry, &master)?
        } else {
            0
        };
        let slots = Slots::read(files, &wrapping, version, counted)?;
        Ok(Self {
            master,
            wrapping,
            geometry: geometry.clone(),
            version,
            files: files.for_reading(),
            slots: RwLock::new(slots),
            erased: RwLock::default(),
            signed: SignedSlots::default(),
            void: SlotRanges::default(),
            is_as_signed: OnceLock::new(),
            epochs: RwLock::default(),
            closed: Vec::new(),
            remedy: OnceLock::new(),
        })
    }

    /// The epochs of a stream.
    pub(crate) fn epochs(&self, name: &StreamName, stream: StreamId) -> Epochs<'_> {
        Epochs::new(&self.master, self, name, stream)
    }

    /// The key that opens wrapped secrets.
    pub(crate) fn wrapping(&self) -> &WrappingKey {
        &self.wrapping
    }

    /// The content of the witness key's file, if the log has a witness key.
    pub(crate) fn witness(&self, geometry: &Geometry) -> Result<Option<Witness>, LogError> {
        let load = |_| Witness::load(&self.files, &self.wrapping, geometry);
        geometry.witness().map(load).transpose()
    }

    /// Takes over the content of `history`, as [`Opener::with_journal`].
    pub(crate) fn with_history(self, history: &History) -> Self {
        let epochs = CertifiedEpochs::of(history);
        let void = history.void_slots().cloned().unwrap_or_default();
        self.with_journal(
            (history.slots, void),
            &history.erasures,
            &history.losses,
            epochs,
        )
    }

    /// Takes over the journal's slots, erasures, certificates and accepted losses. The journal must
    /// be read after the slots: a key is destroyed after its erasure is signed.
    pub(crate) fn with_journal(
        mut self,
        (slots, void): (SignedSlots, SlotRanges),
        erasures: &BTreeMap<u64, Erasure>,
        losses: &[AcceptedLoss],
        certified: CertifiedEpochs,
    ) -> Self {
        self.closed = losses.to_vec();
        self.signed = slots;
        self.void = void;
        self.erased = RwLock::new(by_pseudonym(erasures));
        self.epochs = RwLock::new(KnownEpochs::new(certified));
        self
    }

    /// Treats the subjects with these pseudonyms as if no slot held their keys: the opening keeps
    /// none of them.
    pub(crate) fn without(self, unkept: &BTreeSet<Pseudonym>) -> Self {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.disown(unkept);
        drop(slots);
        self
    }

    /// The slot of the subject with this pseudonym, if the journal erased it.
    fn erased_slot(&self, pseudonym: &Pseudonym) -> Option<u64> {
        let erased = self.erased.read().unwrap_or_else(PoisonError::into_inner);
        erased.get(pseudonym).copied()
    }

    /// Returns whether the journal has erased the subject with this pseudonym by now. A key is
    /// overwritten after the erasure is signed for. So a key that vanishes during a read was erased
    /// only if the journal records it.
    pub(crate) fn is_erased_by_now(&self, pseudonym: &Pseudonym) -> bool {
        if self.erased_slot(pseudonym).is_none()
            && let Ok(history) = read_history(&self.files, &self.geometry, Some(&self.master))
        {
            // Callers hold the slots, so the keys stay until the next check.
            self.learn(by_pseudonym(&history.erasures));
        }
        self.erased_slot(pseudonym).is_some()
    }

    /// Takes over the erasures of the journal as it is now, and drops the keys that were read
    /// before: an erasure counts from its entry on, and the key may stay in its slot for a while.
    pub(crate) fn take_erasures(&self, erasures: &BTreeMap<u64, Erasure>) {
        let now = by_pseudonym(erasures);
        let pseudonyms: Vec<Pseudonym> = now.keys().copied().collect();
        // The erasures first: a key that is gone without one is missing.
        self.learn(now);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.forget(&pseudonyms);
    }

    fn learn(&self, erasures: HashMap<Pseudonym, u64>) {
        let mut erased = self.erased.write().unwrap_or_else(PoisonError::into_inner);
        erased.extend(erasures);
    }

    /// The key in the folder of keys that signs, as the journal knows it, and that journal: a certificate counts once a
    /// second copy covers it.
    pub(crate) fn signing_key(
        &self,
        geometry: &Geometry,
        heads: &Heads,
    ) -> Result<(SigningKeyState, History), LogError> {
        let (files, wrapping) = (&self.files, &*self.wrapping);
        let read_history =
            || match read_history_to_write(files, heads, geometry, (&self.master, wrapping)) {
                Err(error) if is_strange(&error) => {
                    read_history(files, geometry, Some(&self.master))
                }
                read => read,
            };
        SigningKeyState::settled((files, wrapping, geometry.origin()), read_history)
    }

    /// The slots that were durable and do not open, although no erasure is recorded.
    pub(crate) fn damaged_slots(&self) -> Vec<u64> {
        let slots = self.slots();
        let durable = match self.version {
            Version::V2 => slots.durable,
            _ => self.signed.count,
        };
        let is_damaged = |(number, slot): &(&u64, &Unopened)| {
            **number < durable && self.erased_slot(&slot.pseudonym) != Some(**number)
        };
        let damaged = slots.unopened().iter().filter(is_damaged);
        damaged.map(|(number, _)| *number).collect()
    }

    /// Reads slots again that a writer may have written since.
    pub(crate) fn refresh(&self) -> Result<(), LogError> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.may_grow(&self.files)? {
            slots.refresh(&self.files, &self.wrapping)?;
        }
        Ok(())
    }

    /// The slots as read last.
    pub(crate) fn slots(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pseudonym of the subject called `name`, if a slot of it opens.
    pub(crate) fn pseudonym_of(&self, name: &str) -> Result<Option<Pseudonym>, LogError> {
        let mut found = None;
        let range = (0, readable(self.version, self.signed.count));
        read_slots(&self.files, self.version, range, &mut |number, slot| {
            let label = slot.label();
            let is_live = !self.is_erased(&label.pseudonym);
            if let Some(secret) = slot.open(&self.wrapping, number).ok().filter(|_| is_live)
                && secret.name.expose() == name
            {
                // The first is the one that writers use.
                found.get_or_insert(label.pseudonym);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the means to open a section of the subjects with these pseudonyms.
    pub(crate) fn subject_key(
        &self,
        name: &StreamName,
        stream: &StreamId,
        frame: &Frame<'_>,
        tokens: &[u8],
        section: u32,
    ) -> Subjects {
        let (tokens, _) = tokens.as_chunks::<PSEUDONYM_BYTES>();
        if let Some(found) = self.subjects_now(&self.slots(), stream, frame, tokens, section) {
            return found;
        }
        if self.version == Version::V2 {
            return Subjects::Erased;
        }
        // A slot that cannot be read holds no key.
        drop(self.refresh());
        let is_recent = |token: &&Pseudonym| self.slots().is_recent(token);
        for token in tokens.iter().filter(is_recent) {
            let _known_by_now = self.is_erased_by_now(token);
        }
        let slots = self.slots();
        let found = self.subjects_now(&slots, stream, frame, tokens, section);
        found.unwrap_or_else(|| {
            let missing = tokens.iter().filter(|token| self.is_missing(&slots, token));
            let missing: Vec<Pseudonym> = missing.copied().collect();
            let slot = missing.iter().find_map(|token| slots.unopened_of(token));
            let has_shares = frame.clear.has_shares(section, tokens.len());
            let keys = has_shares.then(|| self.people(&slots, stream, frame, tokens, section));
            let keys = keys.filter(|keys| keys.iter().any(Option::is_some));
            let lost = Lost {
                section,
                slot: slot.map(|(number, _)| number),
                // A section that does not open at all is lost to everybody it is about.
                tokens: if keys.is_some() {
                    missing
                } else {
                    tokens.to_vec()
                },
                is_partly: keys.is_some(),
                accepted: self.closed_at(name, frame).filter(|_| slot.is_none()),
                remedy: self.remedy(),
            };
            match keys {
                Some(keys) => Subjects::People(keys, Some(lost)),
                None => Subjects::Lost(lost),
            }
        })
    }

    /// Returns the same as [`Opener::subject_key`], by the slots and erasures known now; nothing
    /// where a key is missing.
    fn subjects_now(
        &self,
        slots: &Slots,
        stream: &StreamId,
        frame: &Frame<'_>,
        tokens: &[Pseudonym],
        section: u32,
    ) -> Option<Subjects> {
        let has_shares = frame.clear.has_shares(section, tokens.len());
        let erased = tokens.iter().filter(|token| self.is_erased(token)).count();
        if erased == tokens.len() || (erased > 0 && !has_shares) {
            return Some(Subjects::Erased);
        }
        if has_shares {
            let is_lost = tokens.iter().any(|token| self.is_missing(slots, token));
            let people = || self.people(slots, stream, frame, tokens, section);
            return (!is_lost).then(|| Subjects::People(people(), None));
        }
        let keys = tokens.iter().map(|token| slots.key(token));
        let keys: Vec<&SubjectKey> = keys.collect::<Option<_>>()?;
        let header = &frame.clear.header;
        let (version, salt) = (header.version(), &header.salt);
        let key = SubjectKey::section_key(&keys, version, stream, salt, header.frame, section);
        Some(Subjects::Key(key))
    }

    /// The time at which it was accepted that sections of `frame` do not open, if the journal
    /// records that and no other keys are gone since.
    fn closed_at(&self, name: &StreamName, frame: &Frame<'_>) -> Option<Timestamp> {
        let number = frame.clear.header.frame;
        let mut closed = self.closed.iter();
        let closed = closed.find(|accepted| accepted.closes(name, number))?;
        self.are_slots_as_signed().then_some(closed.time)
    }

    /// Returns whether the file has the slots that the journal signed for; it may have keys again
    /// in those that an accepted loss left void.
    fn are_slots_as_signed(&self) -> bool {
        *self.is_as_signed.get_or_init(|| {
            let mut digest = SlotsDigest::default();
            let range = (0, self.signed.count);
            let read = read_slots(&self.files, self.version, range, &mut |number, slot| {
                let is_void = self.void.contains(number);
                let label = if is_void { VOID } else { slot.label() };
                digest = digest.then(&label);
                Ok(())
            });
            // A file that ends early, or cannot be read, is another one.
            read.is_ok() && digest == self.signed.digest
        })
    }

    /// Returns whether this pseudonym has neither a key nor a recorded erasure.
    pub(crate) fn is_missing(&self, slots: &Slots, pseudonym: &Pseudonym) -> bool {
        slots.key(pseudonym).is_none() && !self.is_erased(pseudonym)
    }

    /// Returns whether the journal, as read last, records the erasure of the subject with this
    /// pseudonym.
    fn is_erased(&self, pseudonym: &Pseudonym) -> bool {
        self.erased_slot(pseudonym).is_some()
    }

    /// The keys of the shares of all people who have one.
    fn people(
        &self,
        slots: &Slots,
        stream: &StreamId,
        frame: &Frame<'_>,
        tokens: &[Pseudonym],
        section: u32,
    ) -> Vec<Option<PersonKey>> {
        let header = &frame.clear.header;
        let (salt, frame) = (&header.salt, header.frame);
        let people = tokens.iter().zip(0..).map(|(token, place)| {
            let key = slots.key(token).filter(|_key| !self.is_erased(token))?;
            Some(PersonKey::new(key, stream, salt, frame, section, place))
        });
        people.collect()
    }
}

/// The most slots read for a log whose journal cannot be read; it bounds the time spent on an
/// endless file.
const SLOTS_UNCOUNTED_MAX: u64 = 1 << 22;

/// The number of slots that the journal counts. A damaged journal does not show its count, so the
/// bound stands in.
fn counted(files: &Files, geometry: &Geometry, master: &MasterKey) -> Result<u64, LogError> {
    match read_history(files, geometry, Some(master)) {
        Err(LogError::Broken { .. }) => Ok(SLOTS_UNCOUNTED_MAX),
        history => Ok(history?.slots.count),
    }
}

fn by_pseudonym(erasures: &BTreeMap<u64, Erasure>) -> HashMap<Pseudonym, u64> {
    let erasures = erasures.iter();
    erasures
        .map(|(slot, erasure)| (erasure.pseudonym, *slot))
        .collect()
}
