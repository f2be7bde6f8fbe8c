//! Encodes rows to columns: the hot path of every sealer.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "columns are fixed in number, and counts and lengths are bounded by limits.rs"
)]

use alloc::vec::Vec;

use super::bits::{put_blocks, put_packed, put_pairs, width_of};
use super::dictionary::Dictionary;
use super::taken::put_taken;
use super::{ColumnSet, TEXTS_AT, form, text_bit};
use crate::row::{Row, TEXT_COLUMNS};
use crate::wire::put_varint;

/// Encodes rows to the columns of one section; reuses its memory from section to section.
#[derive(Default)]
pub struct Encoder {
    columns: Option<ColumnSet>,
    count: usize,
    dictionaries: [Dictionary; TEXT_COLUMNS],
    /// Numbers of the words of each column; empty while a column has had empty words only.
    numbers: [Vec<u32>; TEXT_COLUMNS],
    seed: u64,
    times: Vec<i64>,
    outcomes: Vec<u8>,
    taken: Vec<i64>,
    claimed: Vec<u8>,
    lengths: Vec<i64>,
    packed: Vec<u8>,
    plain: Vec<u8>,
    table: Vec<u32>,
    best: Vec<u32>,
}

/// A finished section body before compression.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Parts<'a> {
    /// Descriptors and packed numbers; never compressed, because they are dense already.
    pub packed: &'a [u8],
    /// Words, payloads and skewed numbers, to be compressed.
    pub plain: &'a [u8],
}

impl Encoder {
    /// Starts a section with `columns`; `seed` must be unpredictable to those who choose words.
    pub fn begin(&mut self, columns: ColumnSet, seed: u64) {
        self.columns = Some(columns);
        self.count = 0;
        self.seed = seed;
        for numbers in &mut self.numbers {
            numbers.clear();
        }
        self.times.clear();
        self.outcomes.clear();
        self.taken.clear();
        self.claimed.clear();
        self.lengths.clear();
        self.packed.clear();
        self.plain.clear();
    }

    /// Adds rows, one column at a time. A few dozen rows per call are best, so that they stay in
    /// the L1 cache.
    #[inline]
    pub fn extend(&mut self, rows: &[Row<'_>]) {
        let Some(columns) = self.columns else { return };
        for column in 0..TEXT_COLUMNS {
            if columns.has_text(column) {
                self.extend_text(column, rows);
            }
        }
        if columns.has(ColumnSet::TIME) {
            self.times.extend(rows.iter().map(|row| row.time));
            self.outcomes.extend(rows.iter().map(|row| row.outcome));
            self.taken.extend(rows.iter().map(|row| row.taken));
            self.claimed.extend(rows.iter().map(|row| row.claimed));
        }
        if columns.has(ColumnSet::PAYLOAD) {
            let lengths = rows.iter().map(|row| row.payload.len() as i64);
            self.lengths.extend(lengths);
            for row in rows {
                self.plain.extend_from_slice(row.payload);
            }
        }
        self.count += rows.len();
    }

    /// Adds the words of one text column; a column costs nothing until its first non-empty word.
    #[inline]
    fn extend_text(&mut self, column: usize, rows: &[Row<'_>]) {
        let words = rows.iter().map(|row| row.texts[column]);
        if self.numbers[column].is_empty() {
            if words.clone().all(<[u8]>::is_empty) {
                return;
            }
            self.dictionaries[column].reset(self.seed);
            if self.count > 0 {
                let empty = self.dictionaries[column].number(b"");
                self.numbers[column].resize(self.count, empty);
            }
        }
        self.dictionaries[column].number_all(words, &mut self.numbers[column]);
    }

    /// Ends the section.
    pub fn finish(&mut self) -> Parts<'_> {
        let Some(columns) = self.columns.take() else {
            return Parts {
                packed: &[],
                plain: &[],
            };
        };
        let there = self.with_values(columns);
        self.packed.extend_from_slice(&there.0.to_le_bytes());
        put_varint(&mut self.packed, self.count as u64);
        if there.has(ColumnSet::PAYLOAD) {
            put_blocks(&mut self.packed, &self.lengths);
        }
        if there.has(ColumnSet::TIME) {
            self.finish_times();
        }
        if there.has(ColumnSet::TAKEN) {
            put_taken(&mut self.packed, &self.taken, &self.times);
        }
        if there.has(ColumnSet::CLAIMED) {
            put_pairs(&mut self.packed, &self.claimed);
        }
        for column in 0..TEXT_COLUMNS {
            if there.has_text(column) {
                self.finish_text(column);
            }
        }
        Parts {
            packed: &self.packed,
            plain: &self.plain,
        }
    }

    /// Returns those of `columns` that have a value; times and outcomes are always among them.
    fn with_values(&self, columns: ColumnSet) -> ColumnSet {
        let mut there = columns.0 & ColumnSet::TIME;
        if !self.plain.is_empty() {
            there |= ColumnSet::PAYLOAD;
        }
        if self.taken.iter().any(|taken| *taken != 0) {
            there |= ColumnSet::TAKEN;
        }
        if self.claimed.iter().any(|claimed| *claimed != 0) {
            there |= ColumnSet::CLAIMED;
        }
        for column in 0..TEXT_COLUMNS {
            if !self.numbers[column].is_empty() {
                there |= text_bit(column);
            }
        }
        ColumnSet(there)
    }

    /// Writes times (the first, then differences between neighbours) and outcomes. Leaves `times`
    /// unchanged.
    fn finish_times(&mut self) {
        let first = self.times.first().copied().unwrap_or_default();
        // The first time is stored separately, because it would widen its block.
        self.packed.extend_from_slice(&first.to_le_bytes());
        self.lengths.clear();
        let pairs = self.times.windows(2);
        self.lengths
            .extend(pairs.map(|pair| pair[1].wrapping_sub(pair[0])));
        put_blocks(&mut self.packed, &self.lengths);
        put_pairs(&mut self.packed, &self.outcomes);
    }

    fn finish_text(&mut self, column: usize) {
        let dictionary = &self.dictionaries[column];
        let words = dictionary.len();
        put_varint(&mut self.packed, words as u64);
        for length in dictionary.lengths() {
            put_varint(&mut self.plain, u64::from(length));
        }
        self.plain.extend_from_slice(dictionary.words());
        let width = width_of(words.saturating_sub(1) as u64);
        if words <= 1 {
            self.packed.push(form::CONSTANT);
        } else if words == self.count {
            self.packed.push(form::IDENTITY);
        } else if let Some(parent) = self.parent(column) {
            self.packed.push(form::DERIVED);
            self.packed.push((TEXTS_AT + parent) as u8);
            put_packed(&mut self.packed, self.best.iter().copied(), width);
        } else {
            self.packed.push(form::PACKED);
            let numbers = self.numbers[column].iter().copied();
            put_packed(&mut self.packed, numbers, width);
        }
    }

    /// Returns the earlier column with the fewest words that determines this column's word, if
    /// deriving saves bytes. `best` then holds this column's number for each word of that column.
    fn parent(&mut self, column: usize) -> Option<usize> {
        let own = self.dictionaries[column].len();
        let mut fewest = self.count / 4 * 3 + 1;
        let mut found = None;
        for parent in 0..column {
            let words = if self.numbers[parent].is_empty() {
                0
            } else {
                self.dictionaries[parent].len()
            };
            if words >= own && words < fewest && self.follows(column, parent, words) {
                (fewest, found) = (words, Some(parent));
                core::mem::swap(&mut self.table, &mut self.best);
            }
        }
        found
    }

    /// Returns whether the word of `parent` determines that of `column`. `table` then holds the
    /// number in `column` for each word of `parent`.
    fn follows(&mut self, column: usize, parent: usize, words: usize) -> bool {
        self.table.clear();
        self.table.resize(words, u32::MAX);
        let both = self.numbers[parent].iter().zip(&self.numbers[column]);
        both.into_iter().all(|(p, n)| {
            let known = &mut self.table[*p as usize];
            if *known == u32::MAX {
                *known = *n;
            }
            *known == *n
        })
    }
}
