//! Columns back to entries: for untrusted bytes, so every count is checked before it is believed.

use alloc::vec::Vec;
use core::ops::Range;

use super::bits::{blocks, packed, width_of};
use super::{ColumnSet, ORDER, PARENTS, form};
use crate::entry::Entry;
use crate::error::DecodeError;
use crate::limits::{FRAME_ENTRIES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::row::{TEXT_COLUMNS, entry_of};
use crate::version::Version;
use crate::wire::Reader;

/// The columns of one opened section, borrowing its decompressed bytes.
#[non_exhaustive]
pub struct Columns<'a> {
    set: ColumnSet,
    count: usize,
    times: Vec<i64>,
    outcomes: Vec<u8>,
    texts: [Text<'a>; TEXT_COLUMNS],
    payloads: Vec<Range<usize>>,
    plain: &'a [u8],
}

/// One text column: its words, and which entry has which.
#[derive(Default)]
#[non_exhaustive]
pub struct Text<'a> {
    words: Vec<&'a [u8]>,
    numbers: Vec<u32>,
    identity: bool,
}

impl<'a> Text<'a> {
    /// The distinct words in order of first appearance.
    pub fn words(&self) -> &[&'a [u8]] {
        &self.words
    }

    /// The number of entry `index`'s word.
    pub fn number(&self, index: usize) -> usize {
        if self.identity {
            return index;
        }
        self.numbers
            .get(index)
            .and_then(|number| usize::try_from(*number).ok())
            .unwrap_or_default()
    }

    /// The word of entry `index`; empty where the column is absent.
    pub fn word(&self, index: usize) -> &'a [u8] {
        self.words
            .get(self.number(index))
            .copied()
            .unwrap_or_default()
    }
}

impl<'a> Columns<'a> {
    /// Takes a section body of a log of `version` apart: its packed bytes and its decompressed bytes.
    ///
    /// # Errors
    /// On anything the encoder of that version would not write.
    pub fn decode(
        version: Version,
        packed_bytes: &[u8],
        plain: &'a [u8],
    ) -> Result<Self, DecodeError> {
        match version {
            Version::V2 | Version::V3 => {}
        }
        let mut reader = Reader::new(packed_bytes, "section columns");
        let mut words = Reader::new(plain, "section words");
        let set = ColumnSet(reader.u16()?);
        if set != ColumnSet::ALL && set != ColumnSet::SHARED && set != ColumnSet::SUBJECT {
            return Err(reader.error("holds an unknown set of columns"));
        }
        let count = reader.length(usize::try_from(FRAME_ENTRIES_MAX).unwrap_or_default())?;
        let mut columns = Self {
            set,
            count,
            times: Vec::new(),
            outcomes: Vec::new(),
            texts: Default::default(),
            payloads: Vec::new(),
            plain,
        };
        if set.has(ColumnSet::PAYLOAD) {
            columns.payloads = payloads(&mut reader, &mut words, count)?;
        }
        if set.has(ColumnSet::TIME) {
            columns.decode_times(&mut reader)?;
        }
        for (place, column) in ORDER.into_iter().enumerate() {
            if set.has_text(column) {
                let text = columns.decode_text(&mut reader, &mut words, place)?;
                if let Some(slot) = columns.texts.get_mut(column) {
                    *slot = text;
                }
            }
        }
        reader.finish()?;
        words.finish()?;
        Ok(columns)
    }

    /// Which columns there are.
    pub const fn set(&self) -> ColumnSet {
        self.set
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The time of entry `index`, in nanoseconds since 1970; 0 where the column is absent.
    pub fn time(&self, index: usize) -> i64 {
        self.times.get(index).copied().unwrap_or_default()
    }

    /// The outcome code of entry `index`.
    pub fn outcome(&self, index: usize) -> u8 {
        self.outcomes.get(index).copied().unwrap_or_default()
    }

    /// Text column `column`, numbered as in [`Row::texts`](crate::row::Row).
    pub fn text(&self, column: usize) -> Option<&Text<'a>> {
        self.texts.get(column)
    }

    /// The words of entry `index`.
    pub fn texts(&self, index: usize) -> [&'a [u8]; TEXT_COLUMNS] {
        self.texts.each_ref().map(|text| text.word(index))
    }

    /// The payload of entry `index`.
    pub fn payload(&self, index: usize) -> &'a [u8] {
        let range = self.payloads.get(index).cloned().unwrap_or_default();
        self.plain.get(range).unwrap_or_default()
    }

    /// Entry `index`, from these columns alone.
    ///
    /// # Errors
    /// When a name is not UTF-8, or time or outcome are out of range.
    pub fn entry(&self, index: usize) -> Result<Entry<'a>, DecodeError> {
        entry_of(
            self.time(index),
            self.outcome(index),
            self.texts(index),
            self.payload(index),
        )
    }

    /// Entry `index` with time and outcome from these columns and everything else given.
    ///
    /// # Errors
    /// As [`Columns::entry`].
    pub fn entry_with<'b>(
        &self,
        index: usize,
        texts: [&'b [u8]; TEXT_COLUMNS],
        payload: &'b [u8],
    ) -> Result<Entry<'b>, DecodeError> {
        entry_of(self.time(index), self.outcome(index), texts, payload)
    }

    fn decode_times(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let first = reader.i64()?;
        let differences = blocks(reader, self.count.saturating_sub(1))?;
        let mut time = first;
        if self.count > 0 {
            self.times.push(time);
        }
        for difference in differences {
            time = time.wrapping_add(difference);
            self.times.push(time);
        }
        match reader.u8()? {
            0 => {
                let outcome = reader.u8()?;
                self.outcomes.resize(self.count, outcome);
            }
            2 => {
                let outcomes = packed(reader, self.count, 2)?;
                self.outcomes
                    .extend(outcomes.iter().map(|outcome| outcome.to_le_bytes()[0]));
            }
            _ => return Err(reader.error("has outcomes of an unknown width")),
        }
        Ok(())
    }

    fn decode_text(
        &self,
        reader: &mut Reader<'_>,
        words: &mut Reader<'a>,
        place: usize,
    ) -> Result<Text<'a>, DecodeError> {
        let distinct = reader.length(self.count.max(1))?;
        let mut lengths = Vec::with_capacity(distinct);
        for _ in 0..distinct {
            lengths.push(words.length(KEY_BYTES_MAX)?);
        }
        let mut text = Text::default();
        for length in lengths {
            text.words.push(words.take(length)?);
        }
        let width = width_of(u64::try_from(distinct.saturating_sub(1)).unwrap_or(u64::MAX));
        match reader.u8()? {
            form::CONSTANT if distinct <= 1 => {}
            form::IDENTITY if distinct == self.count => text.identity = true,
            form::PACKED => text.numbers = packed(reader, self.count, width)?,
            form::BYTES => {
                text.numbers = words
                    .take(self.count)?
                    .iter()
                    .copied()
                    .map(u32::from)
                    .collect();
            }
            form::DERIVED => text.numbers = self.derived(reader, place, width)?,
            _ => return Err(reader.error("has a text column of an unknown form")),
        }
        let in_range =
            |number: &u32| usize::try_from(*number).is_ok_and(|number| number < distinct);
        if !text.numbers.iter().all(in_range) {
            return Err(reader.error("has a word number out of range"));
        }
        Ok(text)
    }

    /// Numbers that follow from a column decoded before.
    fn derived(
        &self,
        reader: &mut Reader<'_>,
        place: usize,
        width: u32,
    ) -> Result<Vec<u32>, DecodeError> {
        let parent = usize::from(reader.u8()?);
        let known = ORDER
            .into_iter()
            .take(place.min(PARENTS))
            .any(|column| column == parent);
        let Some(parent) = self.texts.get(parent).filter(|_| known) else {
            return Err(reader.error("has a column that follows from one not decoded yet"));
        };
        let table = packed(reader, parent.words.len(), width)?;
        let number = |index| table.get(parent.number(index)).copied().unwrap_or_default();
        Ok((0..self.count).map(number).collect())
    }
}

/// Where each entry's payload lies; payloads stand first among the decompressed bytes.
fn payloads(
    reader: &mut Reader<'_>,
    words: &mut Reader<'_>,
    count: usize,
) -> Result<Vec<Range<usize>>, DecodeError> {
    let mut ranges = Vec::with_capacity(count);
    for length in blocks(reader, count)? {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= PAYLOAD_BYTES_MAX);
        let Some(length) = length else {
            return Err(reader.error("has a payload length out of range"));
        };
        let start = words.offset();
        words.take(length)?;
        ranges.push(start..words.offset());
    }
    Ok(ranges)
}
