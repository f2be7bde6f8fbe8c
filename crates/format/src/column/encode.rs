//! Rows to columns: the hot path of every sealer.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "columns are fixed in number, and counts and lengths are bounded by limits.rs"
)]

use alloc::vec::Vec;

use super::bits::{put_blocks, put_packed, width_of};
use super::dictionary::Dictionary;
use super::{ColumnSet, ORDER, PARENTS, form};
use crate::row::{Row, TEXT_COLUMNS};
use crate::wire::put_varint;

/// Turns rows into the columns of one section; keeps its memory from section to section.
#[derive(Default)]
pub struct Encoder {
    columns: Option<ColumnSet>,
    dictionaries: [Dictionary; TEXT_COLUMNS],
    numbers: [Vec<u32>; TEXT_COLUMNS],
    times: Vec<i64>,
    outcomes: Vec<u8>,
    lengths: Vec<i64>,
    packed: Vec<u8>,
    plain: Vec<u8>,
    table: Vec<u32>,
}

/// A finished section body before compression.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Parts<'a> {
    /// Descriptors and packed numbers: as dense as they get, never compressed.
    pub packed: &'a [u8],
    /// Words, payloads and skewed numbers: what the compressor is for.
    pub plain: &'a [u8],
}

impl Encoder {
    /// Starts a section of `columns`; `seed` must not be predictable to those who choose words.
    pub fn begin(&mut self, columns: ColumnSet, seed: u64) {
        self.columns = Some(columns);
        for column in 0..TEXT_COLUMNS {
            if columns.has_text(column) {
                self.dictionaries[column].reset(seed);
            }
            self.numbers[column].clear();
        }
        self.times.clear();
        self.outcomes.clear();
        self.lengths.clear();
        self.packed.clear();
        self.plain.clear();
    }

    /// Adds rows, a column at a time: a few dozen at once are best, so that they stay in the first cache.
    #[inline]
    pub fn extend(&mut self, rows: &[Row<'_>]) {
        let Some(columns) = self.columns else { return };
        for column in 0..TEXT_COLUMNS {
            if columns.has_text(column) {
                let words = rows.iter().map(|row| row.texts[column]);
                self.dictionaries[column].number_all(words, &mut self.numbers[column]);
            }
        }
        if columns.has(ColumnSet::TIME) {
            self.times.extend(rows.iter().map(|row| row.time));
            self.outcomes.extend(rows.iter().map(|row| row.outcome));
        }
        if columns.has(ColumnSet::PAYLOAD) {
            let lengths = rows.iter().map(|row| row.payload.len() as i64);
            self.lengths.extend(lengths);
            for row in rows {
                self.plain.extend_from_slice(row.payload);
            }
        }
    }

    /// Ends the section.
    pub fn finish(&mut self) -> Parts<'_> {
        let Some(columns) = self.columns.take() else {
            return Parts {
                packed: &[],
                plain: &[],
            };
        };
        let count = ORDER
            .iter()
            .map(|column| self.numbers[*column].len())
            .max()
            .unwrap_or_default()
            .max(self.times.len());
        self.packed.extend_from_slice(&columns.0.to_le_bytes());
        put_varint(&mut self.packed, count as u64);
        if columns.has(ColumnSet::PAYLOAD) {
            put_blocks(&mut self.packed, &self.lengths);
        }
        if columns.has(ColumnSet::TIME) {
            self.finish_times();
        }
        for (place, column) in ORDER.into_iter().enumerate() {
            if columns.has_text(column) {
                self.finish_text(columns, place, column);
            }
        }
        Parts {
            packed: &self.packed,
            plain: &self.plain,
        }
    }

    /// Times as differences from the entry before, outcomes in two bits each.
    fn finish_times(&mut self) {
        let mut before = 0;
        for time in &mut self.times {
            let difference = time.wrapping_sub(before);
            before = *time;
            *time = difference;
        }
        // The first difference is the time itself; it stands apart so that it widens no block.
        let (first, rest) = self
            .times
            .split_first()
            .map_or((0, &[][..]), |(f, r)| (*f, r));
        self.packed.extend_from_slice(&first.to_le_bytes());
        put_blocks(&mut self.packed, rest);
        let same = self
            .outcomes
            .iter()
            .all(|outcome| *outcome == self.outcomes[0]);
        let width = if same { 0 } else { 2 };
        self.packed.push(width);
        if same {
            self.packed
                .push(self.outcomes.first().copied().unwrap_or_default());
        } else {
            let outcomes = self.outcomes.iter().map(|outcome| u32::from(*outcome));
            put_packed(&mut self.packed, outcomes, u32::from(width));
        }
    }

    fn finish_text(&mut self, columns: ColumnSet, place: usize, column: usize) {
        let dictionary = &self.dictionaries[column];
        let words = dictionary.len();
        put_varint(&mut self.packed, words as u64);
        for length in dictionary.lengths() {
            put_varint(&mut self.plain, u64::from(length));
        }
        self.plain.extend_from_slice(dictionary.words());
        let count = self.numbers[column].len();
        let width = width_of(words.saturating_sub(1) as u64);
        if words <= 1 {
            self.packed.push(form::CONSTANT);
        } else if words == count {
            self.packed.push(form::IDENTITY);
        } else if let Some(parent) = self.parent(columns, place, column) {
            self.packed.push(form::DERIVED);
            self.packed.push(parent as u8);
            put_packed(&mut self.packed, self.table.iter().copied(), width);
        } else if words <= 256 && is_skewed(&self.numbers[column], width) {
            self.packed.push(form::BYTES);
            self.plain
                .extend(self.numbers[column].iter().map(|number| *number as u8));
        } else {
            self.packed.push(form::PACKED);
            put_packed(
                &mut self.packed,
                self.numbers[column].iter().copied(),
                width,
            );
        }
    }

    /// A column already written whose word decides this column's word, if that saves anything;
    /// `table` then holds this column's number for each word of that.
    fn parent(&mut self, columns: ColumnSet, place: usize, column: usize) -> Option<usize> {
        let count = self.numbers[column].len();
        for parent in ORDER.into_iter().take(place.min(PARENTS)) {
            let words = if columns.has_text(parent) {
                self.dictionaries[parent].len()
            } else {
                0
            };
            if words < self.dictionaries[column].len() || words > count / 4 * 3 {
                continue;
            }
            self.table.clear();
            self.table.resize(words, u32::MAX);
            let follows = self.numbers[parent]
                .iter()
                .zip(&self.numbers[column])
                .all(|(p, n)| {
                    let known = &mut self.table[*p as usize];
                    if *known == u32::MAX {
                        *known = *n;
                    }
                    *known == *n
                });
            if follows {
                return Some(parent);
            }
        }
        None
    }
}

/// Whether an entropy coder would save at least a fifth of the packed bits of `numbers`, all below 256.
fn is_skewed(numbers: &[u32], width: u32) -> bool {
    let mut counts = [0_u32; 256];
    for number in numbers {
        counts[*number as u8 as usize] += 1;
    }
    let total = numbers.len() as u64;
    let ideal: u64 = counts
        .iter()
        .map(|count| {
            u64::from(*count) * log2_256(total).saturating_sub(log2_256(u64::from(*count)))
        })
        .sum();
    ideal / 256 * 5 < total * u64::from(width) * 4
}

/// The binary logarithm in 256ths, linear between powers of two: good to a tenth of a bit.
fn log2_256(value: u64) -> u64 {
    let whole = u64::from(width_of(value).saturating_sub(1));
    let fraction = if whole >= 8 {
        value >> (whole - 8)
    } else {
        value << (8 - whole)
    };
    whole * 256 + (fraction & 0xFF)
}
