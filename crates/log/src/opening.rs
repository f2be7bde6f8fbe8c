//! Opens the frames of one stream, one after the other.

use std::collections::BTreeSet;

use probity_format::DecodeError;
use probity_format::compress::Decompressor;
use probity_format::content::{check_directory, pseudonyms};
use probity_format::frame::Frame;
use probity_format::keys::SectionKey;
use probity_format::stream::{Cipher, Proofs, StreamConfig, StreamId, StreamName};
use probity_format::tree::root_of;

use crate::epochs::{Epochs, Origin};
use crate::lost::{Lost, NEEDS_KEY};
use crate::opened::{OpenSection, Opened, Shares};
use crate::opener::{Opener, Subjects};
use crate::slots::Pseudonym;

/// One reader's tools: keeps the last epoch's key and the decompressor's memory.
pub(crate) struct Opening<'a> {
    opener: &'a Opener,
    name: StreamName,
    stream: StreamId,
    config: StreamConfig,
    decompressor: Decompressor,
    epochs: Epochs<'a>,
    /// Sections that did not open because their subjects were erased.
    pub(crate) erased: u64,
    /// Sections that did open though some of their people were erased.
    pub(crate) partly_erased: u64,
    /// Sections that did not open, or not for everybody, though they should.
    lost: Vec<Lost>,
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        opener: &'a Opener,
        name: &StreamName,
        stream: StreamId,
        config: StreamConfig,
    ) -> Self {
        Self {
            opener,
            name: name.clone(),
            stream,
            config,
            decompressor: Decompressor::default(),
            epochs: opener.epochs(name, stream),
            erased: 0,
            partly_erased: 0,
            lost: Vec::new(),
        }
    }

    /// The kind of proofs that the stream allows.
    pub(crate) const fn proofs(&self) -> Proofs {
        self.config.proofs
    }

    /// The sections of the frame opened last that did not open though their subjects were not
    /// erased.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// Takes the sections like [`Opening::take_lost`], without those whose loss was accepted.
    pub(crate) fn take_unexplained(&mut self) -> Vec<Lost> {
        let mut lost = self.take_lost();
        lost.retain(|lost| lost.accepted.is_none());
        lost
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

    /// Opens every section whose subjects were not erased, and whose loss was not accepted.
    ///
    /// # Errors
    /// When no holder of the master key sealed the frame as it is, or a section does not open.
    pub(crate) fn open(&mut self, frame: &Frame<'_>) -> Result<Opened, DecodeError> {
        let opened = self.open_what_opens(frame)?;
        if self.take_unexplained().is_empty() {
            return Ok(opened);
        }
        Err(DecodeError::new("frame", 0, NEEDS_KEY))
    }

    /// The pseudonyms of `frame`, by the sections that do not open for want of their keys.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub(crate) fn missing_keys(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Vec<Pseudonym>, DecodeError> {
        self.open_what_opens(frame)?;
        let slots = self.opener.slots();
        let mut missing = Vec::new();
        for tokens in self.take_unexplained().iter().map(|lost| &lost.tokens) {
            let gone = tokens
                .iter()
                .filter(|it| self.opener.is_missing(&slots, it));
            missing.extend(gone.copied());
        }
        Ok(missing)
    }

    /// Opens every section that has a key, and notes those that should open and do not: see
    /// [`Opening::take_lost`].
    ///
    /// # Errors
    /// As [`Opening::open`], but for those sections.
    pub(crate) fn open_what_opens(&mut self, frame: &Frame<'_>) -> Result<Opened, DecodeError> {
        self.lost.clear();
        // An opening that the journal no longer names cannot be judged. The caller has compared the
        // frame with what was signed, as with every frame of version 2.
        if self.epochs.origin(frame) == Origin::Foreign {
            let reason = "was not sealed with this log's keys";
            return Err(DecodeError::new("frame", 0, reason));
        }
        if !frame.clear.is_of(&self.stream, &self.config) {
            let reason = "is of another stream, or sealed in another way";
            return Err(DecodeError::new("frame", 0, reason));
        }
        let (shared, tokens) = self.open_shared(frame)?;
        let mut opened = Opened {
            version: frame.clear.header.version(),
            shared,
            subjects: Vec::new(),
        };
        for (number, tokens) in (1..).zip(&tokens) {
            let section = self.open_section(frame, tokens, number)?;
            opened.subjects.push(section);
        }
        Ok(opened)
    }

    /// Opens the shared section, which has the pseudonyms of each section of subjects.
    fn open_shared(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<(OpenSection, Vec<Vec<u8>>), DecodeError> {
        let key = self.epoch_section_key(frame, 0);
        let body = frame.open(0, key.as_ref(), &mut self.decompressor)?;
        let shared = OpenSection {
            body,
            key,
            shares: None,
        };
        let columns = shared.columns()?;
        check_directory(&frame.clear, &columns, self.config.erasable)?;
        let tokens = if self.config.erasable {
            pseudonyms(&columns).map(<[u8]>::to_vec).collect()
        } else {
            Vec::new()
        };
        drop(columns);
        Ok((shared, tokens))
    }

    /// The pseudonyms of the subjects of `frame`, which a holder of the log's keys sealed.
    ///
    /// # Errors
    /// When the shared section does not open.
    pub(crate) fn subjects_of(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<BTreeSet<Pseudonym>, DecodeError> {
        let (_, tokens) = self.open_shared(frame)?;
        let of_sections = tokens.iter().map(|tokens| tokens.as_chunks().0);
        Ok(of_sections.flatten().copied().collect())
    }

    /// Opens section `number`, which is about the subjects with these pseudonyms. Returns nothing,
    /// and notes the reason, where it cannot.
    fn open_section(
        &mut self,
        frame: &Frame<'_>,
        tokens: &[u8],
        number: u32,
    ) -> Result<Option<OpenSection>, DecodeError> {
        let is_sealed = self.config.cipher == Cipher::Aes256Gcm;
        let key = if tokens.is_empty() || !is_sealed {
            self.epoch_section_key(frame, number)
        } else {
            let opener = self.opener;
            match opener.subject_key(&self.name, &self.stream, frame, tokens, number) {
                Subjects::Key(key) => Some(key),
                Subjects::People(keys, lost) => {
                    let opened = frame.open_shared(number, &keys, &mut self.decompressor)?;
                    let missing = lost.as_ref().map_or(0, |lost| lost.tokens.len());
                    let is_partly = opened.people.closed() > missing;
                    self.lost.extend(lost);
                    self.partly_erased = self.partly_erased.saturating_add(u64::from(is_partly));
                    return Ok(Some(OpenSection {
                        body: opened.body,
                        key: Some(opened.key),
                        shares: Some(Shares {
                            keys,
                            people: opened.people,
                        }),
                    }));
                }
                Subjects::Erased => {
                    self.erased = self.erased.saturating_add(1);
                    return Ok(None);
                }
                Subjects::Lost(lost) => {
                    self.lost.push(lost);
                    return Ok(None);
                }
            }
        };
        let body = frame.open(number, key.as_ref(), &mut self.decompressor)?;
        Ok(Some(OpenSection {
            body,
            key,
            shares: None,
        }))
    }

    /// Checks the content against the frame's own counts, times and entry root. See
    /// [`Opening::take_lost`] as well.
    pub(crate) fn check(&mut self, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let opened = self.open_what_opens(frame)?;
        let error = |reason| DecodeError::new("frame content", 0, reason);
        let header = &frame.clear.header;
        let (mut count, mut min, mut max) = (0_u32, i64::MAX, i64::MIN);
        let mut leaves = Vec::new();
        let mut is_whole = true;
        let mut row = Vec::new();
        opened.for_each(&mut |visited| -> Result<(), DecodeError> {
            let time = visited.entry.time.nanoseconds();
            (min, max) = (min.min(time), max.max(time));
            is_whole &= visited.is_whole();
            if self.config.proofs == Proofs::Entry && is_whole {
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
            && is_whole
            && root_of(&leaves).as_bytes() != &header.entry_root
        {
            return Err(error("does not have the entry root the header says"));
        }
        Ok(())
    }
}
