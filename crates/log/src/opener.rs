//! Opens sealed frames for whoever holds the root key: for reading and for the keyed check.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use probity_format::column::Columns;
use probity_format::compress::Decompressor;
use probity_format::content::{Content, PSEUDONYM_BYTES, check_directory, pseudonyms};
use probity_format::frame::{Body, Frame, entry_leaf};
use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, RootKey, SectionKey, SubjectKey};
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::fill_salts;
use probity_format::stream::{Cipher, Proofs, StreamConfig, StreamId};
use probity_format::tree::{Hash, root_of};
use probity_format::wrap::WrappingKey;
use probity_format::{DecodeError, Entry, Version};

use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::Files;
use crate::journal::{Erasure, SignedSlots};
use crate::keystore::{KeyStore, Witness};
use crate::slots::{DAMAGED, Pseudonym, Slots, Unopened, broken};

/// The keys that open a log's content.
pub(crate) struct Opener {
    pub(crate) master: MasterKey,
    wrapping: WrappingKey,
    version: Version,
    files: Files,
    slots: RwLock<Slots>,
    /// The slots of subjects that the journal erased, by pseudonym.
    erased: HashMap<Pseudonym, u64>,
    /// Slots that the journal signed for.
    signed: u64,
}

/// What there is to open a section of subjects with.
enum Subjects {
    Key(SectionKey),
    /// One of them was erased.
    Erased,
    /// The key of one is not there, and nothing says that it was erased.
    Lost(Lost),
}

/// A section that does not open though its subjects were not erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) section: u32,
    /// The slot that should hold the key, where one has its pseudonym.
    pub(crate) slot: Option<u64>,
}

impl Opener {
    /// Refuses a log of which a subject's key is damaged.
    pub(crate) fn new(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let opener = Self::new_past_damage(files, root, geometry)?;
        match opener.damaged_slots().first() {
            Some(first) => Err(broken(*first, DAMAGED)),
            None => Ok(opener),
        }
    }

    /// As [`Opener::new`], also where a log of version 2 has damaged slots.
    pub(crate) fn new_past_damage(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let (master, wrapping) = KeyStore::open_for_reading(files, root, &geometry.fingerprint())?;
        let version = geometry.version();
        let slots = Slots::read(files, &wrapping, version)?;
        Ok(Self {
            master,
            wrapping,
            version,
            files: files.for_reading(),
            slots: RwLock::new(slots),
            erased: HashMap::new(),
            signed: 0,
        })
    }

    /// What stands in the file of the witness key, if the log has one.
    pub(crate) fn witness(&self, geometry: &Geometry) -> Result<Option<Witness>, LogError> {
        let load = |_| Witness::load(&self.files, &self.wrapping, geometry);
        geometry.witness().map(load).transpose()
    }

    /// Takes up what the journal erased. It must be read after the slots: a key is destroyed after its erasure is signed.
    pub(crate) fn with_erasures(
        mut self,
        slots: SignedSlots,
        erasures: &BTreeMap<u64, Erasure>,
    ) -> Self {
        self.signed = slots.count;
        let by_pseudonym = erasures.iter();
        self.erased = by_pseudonym
            .map(|(slot, erasure)| (erasure.pseudonym, *slot))
            .collect();
        self
    }

    /// The slots that do not open though they were durable and nobody erased them.
    pub(crate) fn damaged_slots(&self) -> Vec<u64> {
        let slots = self.slots();
        let durable = match self.version {
            Version::V2 => slots.durable,
            _ => self.signed,
        };
        let is_damaged = |(number, slot): &(&u64, &Unopened)| {
            **number < durable && self.erased.get(&slot.pseudonym) != Some(*number)
        };
        let damaged = slots.unopened().iter().filter(is_damaged);
        damaged.map(|(number, _)| *number).collect()
    }

    /// Looks at slots again that a writer may have written since.
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

    /// The key of a section of subjects.
    fn subject_key(
        &self,
        stream: &StreamId,
        frame: &Frame<'_>,
        tokens: &[u8],
        section: u32,
    ) -> Subjects {
        let (tokens, _) = tokens.as_chunks::<PSEUDONYM_BYTES>();
        if tokens.iter().any(|token| self.erased.contains_key(token)) {
            return Subjects::Erased;
        }
        let header = &frame.clear.header;
        let derive = |slots: &Slots| {
            let keys: Option<Vec<&SubjectKey>> =
                tokens.iter().map(|token| slots.key(token)).collect();
            keys.map(|keys| {
                let (version, salt) = (header.version(), &header.salt);
                SubjectKey::section_key(&keys, version, stream, salt, header.frame, section)
            })
        };
        if let Some(key) = derive(&self.slots()) {
            return Subjects::Key(key);
        }
        if self.version == Version::V2 {
            return Subjects::Erased;
        }
        // What cannot be read holds no key.
        drop(self.refresh());
        let slots = self.slots();
        if let Some(key) = derive(&slots) {
            return Subjects::Key(key);
        }
        let missing = tokens.iter().find(|token| slots.key(token).is_none());
        let slot = missing.and_then(|token| slots.unopened_of(token));
        match slot {
            // Made and erased since the journal was read.
            Some((number, slot)) if slot.is_empty && number >= slots.first_count => {
                Subjects::Erased
            }
            slot => Subjects::Lost(Lost {
                section,
                slot: slot.map(|(number, _)| number),
            }),
        }
    }
}

/// One reader's tools: keeps the last epoch's key and the decompressor's memory.
pub(crate) struct Opening<'a> {
    opener: &'a Opener,
    stream: StreamId,
    config: StreamConfig,
    decompressor: Decompressor,
    epochs: Epochs<'a>,
    /// Sections that did not open because their subjects were erased.
    pub(crate) erased: u64,
    /// Sections that did not open though they should.
    lost: Vec<Lost>,
}

/// An opened frame: its shared section, and its subject sections as far as their keys exist.
pub(crate) struct Opened {
    shared: OpenSection,
    /// By section number minus one; `None` where erased.
    subjects: Vec<Option<OpenSection>>,
}

/// The body of a section and the key that opened it, where there is a cipher.
struct OpenSection {
    body: Body,
    key: Option<SectionKey>,
}

impl<'a> Opening<'a> {
    pub(crate) fn new(opener: &'a Opener, stream: StreamId, config: StreamConfig) -> Self {
        Self {
            opener,
            stream,
            config,
            decompressor: Decompressor::default(),
            epochs: Epochs::new(&opener.master, stream),
            erased: 0,
            lost: Vec::new(),
        }
    }

    /// What can be proved of the stream.
    pub(crate) const fn proofs(&self) -> Proofs {
        self.config.proofs
    }

    /// The sections of the frame checked last that did not open though their subjects were not erased.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// The key of section `number` where it is sealed under the epoch's key.
    pub(crate) fn epoch_section_key(
        &mut self,
        frame: &Frame<'_>,
        number: u32,
    ) -> Option<SectionKey> {
        let header = &frame.clear.header;
        if self.config.cipher != Cipher::Aes256Gcm {
            return None;
        }
        let key = self.epochs.key(header);
        Some(key.section_key(&header.salt, header.frame, number))
    }

    /// Opens every section whose subjects were not erased.
    ///
    /// # Errors
    /// When no holder of the master key sealed the frame as it is, or a section does not open.
    pub(crate) fn open(&mut self, frame: &Frame<'_>) -> Result<Opened, DecodeError> {
        let opened = self.open_what_opens(frame)?;
        if self.take_lost().is_empty() {
            return Ok(opened);
        }
        let reason = "needs the key of a subject that subjects/slots does not hold though no signed \
                      erasure says so; restore the folder subjects/ from a backup";
        Err(DecodeError::new("frame", 0, reason))
    }

    /// Opens every section there is a key for, and notes those that should open and do not.
    fn open_what_opens(&mut self, frame: &Frame<'_>) -> Result<Opened, DecodeError> {
        self.lost.clear();
        if !self.epochs.authenticate(frame) {
            let reason = "was not sealed with this log's keys";
            return Err(DecodeError::new("frame", 0, reason));
        }
        if !frame.clear.is_of(&self.stream, &self.config) {
            let reason = "is of another stream, or sealed in another way";
            return Err(DecodeError::new("frame", 0, reason));
        }
        let key = self.epoch_section_key(frame, 0);
        let body = frame.open(0, key.as_ref(), &mut self.decompressor)?;
        let mut opened = Opened {
            shared: OpenSection { body, key },
            subjects: Vec::new(),
        };
        let columns = opened.shared.columns()?;
        check_directory(&frame.clear, &columns, self.config.erasable)?;
        if !self.config.erasable {
            drop(columns);
            return Ok(opened);
        }
        let tokens: Vec<Vec<u8>> = pseudonyms(&columns).map(<[u8]>::to_vec).collect();
        drop(columns);
        let is_sealed = self.config.cipher == Cipher::Aes256Gcm;
        for (number, tokens) in (1..).zip(&tokens) {
            let key = if is_sealed && !tokens.is_empty() {
                match self.opener.subject_key(&self.stream, frame, tokens, number) {
                    Subjects::Key(key) => Some(key),
                    gone => {
                        match gone {
                            Subjects::Lost(lost) => self.lost.push(lost),
                            _ => self.erased = self.erased.saturating_add(1),
                        }
                        opened.subjects.push(None);
                        continue;
                    }
                }
            } else {
                self.epoch_section_key(frame, number)
            };
            let body = frame.open(number, key.as_ref(), &mut self.decompressor)?;
            opened.subjects.push(Some(OpenSection { body, key }));
        }
        Ok(opened)
    }

    /// Checks that the content is what the frame says: counts, times, entry root. See [`Opening::take_lost`] as well.
    pub(crate) fn check(&mut self, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let opened = self.open_what_opens(frame)?;
        let error = |reason| DecodeError::new("frame content", 0, reason);
        let header = &frame.clear.header;
        let (mut count, mut min, mut max) = (0_u32, i64::MAX, i64::MIN);
        let mut leaves = Vec::new();
        let mut erased = false;
        let mut row = Vec::new();
        opened.for_each(&mut |visited| -> Result<(), DecodeError> {
            let time = visited.entry.time.nanoseconds();
            (min, max) = (min.min(time), max.max(time));
            if self.config.proofs == Proofs::Entry {
                erased |= visited.erased;
                leaves.push(visited.leaf(&mut row)?);
            }
            count = count.saturating_add(1);
            Ok(())
        })?;
        if count != header.entries || min != header.time_min || max != header.time_max {
            return Err(error(
                "has another count of entries or other times than the header says",
            ));
        }
        if self.config.proofs == Proofs::Entry
            && !erased
            && root_of(&leaves).as_bytes() != &header.entry_root
        {
            return Err(error("does not have the entry root the header says"));
        }
        Ok(())
    }
}

/// One entry of an opened frame.
pub(crate) struct Visited<'a> {
    /// Place in the frame.
    pub(crate) index: usize,
    pub(crate) entry: Entry<'a>,
    /// Number of the section that holds its subject columns.
    pub(crate) section: u32,
    /// Whether that section is gone.
    pub(crate) erased: bool,
    /// The key of the section that the entry's salt comes from.
    key: Option<&'a SectionKey>,
}

impl Visited<'_> {
    /// The entry's salt and its row.
    pub(crate) fn salted_row(&self, row: &mut Vec<u8>) -> Result<[u8; 16], DecodeError> {
        row.clear();
        row.resize(row_bytes(&self.entry), 0);
        encode_row(&self.entry, row);
        let mut salt = [0; 16];
        fill_salts(self.key.map(SectionKey::salt_key), self.index, &mut salt)?;
        Ok(salt)
    }

    /// The entry's leaf in the tree over the frame's entries.
    pub(crate) fn leaf(&self, row: &mut Vec<u8>) -> Result<Hash, DecodeError> {
        let salt = self.salted_row(row)?;
        Ok(entry_leaf(&salt, row))
    }
}

impl OpenSection {
    fn columns(&self) -> Result<Columns<'_>, DecodeError> {
        self.body.columns()
    }
}

impl Opened {
    /// Calls `visit` for each entry in order.
    pub(crate) fn for_each<E: From<DecodeError>>(
        &self,
        visit: &mut dyn FnMut(&Visited<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = self.shared.columns()?;
        let content = if self.subjects.is_empty() {
            Content::together(shared)
        } else {
            let mut subjects = Vec::with_capacity(self.subjects.len());
            for section in &self.subjects {
                subjects.push(section.as_ref().map(OpenSection::columns).transpose()?);
            }
            Content::by_subject(shared, subjects)?
        };
        content.for_each(&mut |placed| {
            visit(&Visited {
                index: placed.place,
                entry: placed.entry,
                section: placed.section,
                erased: !placed.open,
                key: self.section_key(placed.section),
            })
        })
    }

    /// The key of section `number`, where there is a cipher and the section is open.
    pub(crate) fn section_key(&self, number: u32) -> Option<&SectionKey> {
        let section = match usize::try_from(number).unwrap_or(usize::MAX).checked_sub(1) {
            None => Some(&self.shared),
            Some(place) => self.subjects.get(place).and_then(Option::as_ref),
        };
        section.and_then(|section| section.key.as_ref())
    }
}
