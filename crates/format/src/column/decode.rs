//! Decodes columns to entries. The bytes are untrusted, so every count is checked before use.

use alloc::vec::Vec;
use core::ops::Range;

use super::bits::{blocks, packed, pairs, width_of};
use super::taken::taken;
use super::{ColumnSet, SUBJECTS, TEXTS_AT, decode_v2, form};
use crate::entry::Entry;
use crate::error::DecodeError;
use crate::limits::{FRAME_ENTRIES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::row::{Fields, TEXT_COLUMNS};
use crate::version::Version;
use crate::width::{to_u64, to_usize};
use crate::wire::Reader;

/// The columns of one opened section, borrowing its decompressed bytes.
#[non_exhaustive]
pub struct Columns<'a> {
    pub(super) set: ColumnSet,
    pub(super) count: usize,
    times: Vec<i64>,
    outcomes: Vec<u8>,
    taken: Vec<i64>,
    claimed: Vec<u8>,
    pub(super) texts: [Text<'a>; TEXT_COLUMNS],
    payloads: Vec<Range<usize>>,
    plain: &'a [u8],
}

/// One text column: its distinct words, and the word of each entry.
#[derive(Default)]
#[non_exhaustive]
pub struct Text<'a> {
    pub(super) words: Vec<&'a [u8]>,
    pub(super) numbers: Vec<u32>,
    pub(super) identity: bool,
}

impl<'a> Text<'a> {
    /// Returns the distinct words in order of first appearance.
    pub fn words(&self) -> &[&'a [u8]] {
        &self.words
    }

    /// Returns the number of entry `index`'s word.
    pub fn number(&self, index: usize) -> usize {
        if self.identity {
            return index;
        }
        self.numbers
            .get(index)
            .and_then(|number| usize::try_from(*number).ok())
            .unwrap_or_default()
    }

    /// Returns the word of entry `index`; empty if the column is absent.
    pub fn word(&self, index: usize) -> &'a [u8] {
        self.words
            .get(self.number(index))
            .copied()
            .unwrap_or_default()
    }
}

/// The unread rest of both parts of a section body.
pub(super) struct Parts<'r, 'a> {
    pub(super) packed: Reader<'r>,
    pub(super) plain: Reader<'a>,
}

impl<'a> Columns<'a> {
    /// Decodes a section body of a log of `version` from its packed part and its decompressed plain
    /// part.
    ///
    /// # Errors
    /// When the encoder of that version would not write these bytes. Words may be equal, and
    /// another allowed form may be chosen.
    pub fn decode(
        version: Version,
        packed_bytes: &[u8],
        plain: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let mut parts = Parts {
            packed: Reader::new(packed_bytes, "section columns"),
            plain: Reader::new(plain, "section words"),
        };
        let set = parts.packed.u16()?;
        let most = to_usize(FRAME_ENTRIES_MAX);
        let mut columns = Self {
            set: ColumnSet(set),
            count: parts.packed.length(most)?,
            times: Vec::new(),
            outcomes: Vec::new(),
            taken: Vec::new(),
            claimed: Vec::new(),
            texts: Default::default(),
            payloads: Vec::new(),
            plain,
        };
        match version {
            Version::V2 => {
                columns.set = decode_v2::set(set, &parts.packed)?;
                columns.decode_fixed(&mut parts)?;
                decode_v2::texts(&mut columns, &mut parts)?;
            }
            Version::V3 => {
                columns.check_set(&parts.packed)?;
                columns.decode_fixed(&mut parts)?;
                columns.decode_texts(&mut parts)?;
            }
        }
        parts.packed.finish()?;
        parts.plain.finish()?;
        Ok(columns)
    }

    /// Returns the set of columns that are present.
    pub const fn set(&self) -> ColumnSet {
        self.set
    }

    /// Returns whether text column `column` is present.
    pub(crate) const fn has_text(&self, column: usize) -> bool {
        self.set.has_text(column)
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no entries.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the time of entry `index`, in nanoseconds since 1970; 0 if the column is absent.
    pub fn time(&self, index: usize) -> i64 {
        self.times.get(index).copied().unwrap_or_default()
    }

    /// Returns the outcome code of entry `index`.
    pub fn outcome(&self, index: usize) -> u8 {
        self.outcomes.get(index).copied().unwrap_or_default()
    }

    /// Returns the time at which the log took entry `index`, in nanoseconds since 1970; 0 if there
    /// is none.
    pub fn taken(&self, index: usize) -> i64 {
        self.taken.get(index).copied().unwrap_or_default()
    }

    /// Returns the claimed fields of entry `index`, as [`Claimed::code`](crate::Claimed::code).
    pub fn claimed(&self, index: usize) -> u8 {
        self.claimed.get(index).copied().unwrap_or_default()
    }

    /// Returns text column `column`, numbered as in [`Row::texts`](crate::row::Row).
    pub fn text(&self, column: usize) -> Option<&Text<'a>> {
        self.texts.get(column)
    }

    /// Returns the words of entry `index`.
    pub fn texts(&self, index: usize) -> [&'a [u8]; TEXT_COLUMNS] {
        self.texts.each_ref().map(|text| text.word(index))
    }

    /// Returns the payload of entry `index`.
    pub fn payload(&self, index: usize) -> &'a [u8] {
        let range = self.payloads.get(index).cloned().unwrap_or_default();
        self.plain.get(range).unwrap_or_default()
    }

    /// Builds entry `index` from these columns alone.
    ///
    /// # Errors
    /// When a name is not UTF-8, or time or outcome are out of range.
    pub fn entry(&self, index: usize) -> Result<Entry<'a>, DecodeError> {
        self.entry_with(index, self.texts(index), self.payload(index))
    }

    /// Builds entry `index` with the given texts and payload and all other fields from these
    /// columns.
    ///
    /// # Errors
    /// The errors of [`Columns::entry`].
    pub fn entry_with<'b>(
        &self,
        index: usize,
        texts: [&'b [u8]; TEXT_COLUMNS],
        payload: &'b [u8],
    ) -> Result<Entry<'b>, DecodeError> {
        Fields {
            time: self.time(index),
            outcome: self.outcome(index),
            taken: self.taken(index),
            claimed: self.claimed(index),
            texts,
            payload,
        }
        .entry()
    }

    /// Checks that times are present, except in a section of subjects, which has no column of the
    /// shared section.
    fn check_set(&self, reader: &Reader<'_>) -> Result<(), DecodeError> {
        if self.count == 0 && self.set.0 & !ColumnSet::TIME != 0 {
            return Err(reader.error("has a column without values"));
        }
        let of_subject = self.set.0 & !ColumnSet::SUBJECT.0 == 0;
        if of_subject || self.set.has(ColumnSet::TIME) {
            return Ok(());
        }
        Err(reader.error("holds columns without times"))
    }

    /// Decodes the columns that are not texts.
    fn decode_fixed(&mut self, parts: &mut Parts<'_, 'a>) -> Result<(), DecodeError> {
        if self.set.has(ColumnSet::PAYLOAD) {
            self.payloads = payloads(parts, self.count)?;
        }
        if self.set.has(ColumnSet::TIME) {
            self.decode_times(&mut parts.packed)?;
        }
        if self.set.has(ColumnSet::TAKEN) {
            self.taken = taken(&mut parts.packed, &self.times)?;
        }
        if self.set.has(ColumnSet::CLAIMED) {
            self.claimed = pairs(&mut parts.packed, self.count)?;
            if self.claimed.iter().all(|claimed| *claimed == 0) {
                return Err(parts.packed.error("has a column without values"));
            }
        }
        Ok(())
    }

    fn decode_times(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let mut time = reader.i64()?;
        let differences = blocks(reader, self.count.saturating_sub(1))?;
        if self.count > 0 {
            self.times.push(time);
        } else if time != 0 {
            return Err(reader.error("has a time of no entry"));
        }
        for difference in differences {
            time = time.wrapping_add(difference);
            self.times.push(time);
        }
        self.outcomes = pairs(reader, self.count)?;
        Ok(())
    }

    fn decode_texts(&mut self, parts: &mut Parts<'_, 'a>) -> Result<(), DecodeError> {
        if self.set.has(ColumnSet::PAYLOAD) && self.payloads.iter().all(Range::is_empty) {
            return Err(parts.packed.error("has a column without values"));
        }
        for column in 0..TEXT_COLUMNS {
            if !self.set.has_text(column) {
                continue;
            }
            let text = self.decode_text(parts, column)?;
            if text.words.iter().all(|word| word.is_empty()) {
                return Err(parts.packed.error("has a column without values"));
            }
            if let Some(slot) = self.texts.get_mut(column) {
                *slot = text;
            }
        }
        // Each word of the subjects column has a section, and so do the entries about nobody.
        if let Some(text) = self.texts.get_mut(SUBJECTS)
            && self.count > 0
            && !self.set.has_text(SUBJECTS)
        {
            text.words.push(&[]);
        }
        Ok(())
    }

    fn decode_text(
        &self,
        parts: &mut Parts<'_, 'a>,
        column: usize,
    ) -> Result<Text<'a>, DecodeError> {
        let mut text = Text {
            words: words(parts, self.count)?,
            ..Text::default()
        };
        let distinct = text.words.len();
        let reader = &mut parts.packed;
        let width = width_for(distinct);
        match reader.u8()? {
            form::CONSTANT if distinct == 1 => return Ok(text),
            form::IDENTITY if distinct == self.count && distinct > 1 => {
                text.identity = true;
                return Ok(text);
            }
            form::PACKED if distinct > 1 => text.numbers = packed(reader, self.count, width)?,
            form::DERIVED if distinct > 1 => {
                let parent = usize::from(reader.u8()?).checked_sub(TEXTS_AT);
                let parent = parent.filter(|parent| *parent < column && self.set.has_text(*parent));
                text.numbers = self.derived(reader, parent, width)?;
            }
            _ => return Err(reader.error("has a text column of an unknown form")),
        }
        check_numbers(reader, &text.numbers, distinct)?;
        Ok(text)
    }

    /// Reads numbers that are derived from those of the column `parent`, which was decoded before.
    pub(super) fn derived(
        &self,
        reader: &mut Reader<'_>,
        parent: Option<usize>,
        width: u32,
    ) -> Result<Vec<u32>, DecodeError> {
        let Some(parent) = parent.and_then(|parent| self.texts.get(parent)) else {
            return Err(reader.error("has a column that follows from one not decoded yet"));
        };
        let table = packed(reader, parent.words.len(), width)?;
        let number = |index| table.get(parent.number(index)).copied().unwrap_or_default();
        Ok((0..self.count).map(number).collect())
    }
}

/// Reads the words of a column of `count` entries: their number, their lengths, their bytes.
pub(super) fn words<'a>(
    parts: &mut Parts<'_, 'a>,
    count: usize,
) -> Result<Vec<&'a [u8]>, DecodeError> {
    let distinct = parts.packed.length(count.max(1))?;
    let mut lengths = Vec::with_capacity(distinct);
    for _ in 0..distinct {
        lengths.push(parts.plain.length(KEY_BYTES_MAX)?);
    }
    let mut words = Vec::with_capacity(distinct);
    for length in lengths {
        words.push(parts.plain.take(length)?);
    }
    Ok(words)
}

/// Returns the bits that a word's number needs, with `distinct` words.
pub(super) fn width_for(distinct: usize) -> u32 {
    width_of(to_u64(distinct.saturating_sub(1)))
}

/// Checks that each word is used, and that words are numbered in order of first appearance.
pub(super) fn check_numbers(
    reader: &Reader<'_>,
    numbers: &[u32],
    distinct: usize,
) -> Result<(), DecodeError> {
    let mut next: u32 = 0;
    for number in numbers {
        if *number > next {
            return Err(reader.error("has words that are not in order of first appearance"));
        }
        next = next.max(number.saturating_add(1));
    }
    if usize::try_from(next) == Ok(distinct) {
        Ok(())
    } else {
        Err(reader.error("has another number of words than its entries name"))
    }
}

/// Reads the byte range of each entry's payload; payloads stand first among the decompressed bytes.
fn payloads(parts: &mut Parts<'_, '_>, count: usize) -> Result<Vec<Range<usize>>, DecodeError> {
    let mut ranges = Vec::with_capacity(count);
    for length in blocks(&mut parts.packed, count)? {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= PAYLOAD_BYTES_MAX);
        let Some(length) = length else {
            return Err(parts.packed.error("has a payload length out of range"));
        };
        let start = parts.plain.offset();
        parts.plain.take(length)?;
        ranges.push(start..parts.plain.offset());
    }
    Ok(ranges)
}
