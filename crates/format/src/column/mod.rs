//! The columns of a section: fields of many entries side by side, in the form that packs best.
//!
//! `docs/format.md`, "Section body". Columns halve the stored size and are cheaper to compress
//! than rows: words are stored once a frame, their numbers in as many bits as needed, numbers that
//! follow from another column not at all, and only what is worth it goes through the compressor.

mod bits;
mod decode;
mod dictionary;
mod encode;

#[cfg(test)]
mod tests;

pub use decode::{Columns, Text};
pub use encode::{Encoder, Parts};

use crate::row::TEXT_COLUMNS;

/// Which columns a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSet(u16);

impl ColumnSet {
    /// Every column: what a stream that is not erasable seals together.
    pub const ALL: Self = Self(0x3FF);
    /// Columns that may outlive a subject; the subjects column then holds pseudonyms, and its word
    /// numbers say which subject section an entry's other columns are in.
    pub const SHARED: Self = Self(0x3FF & !(1 << KEY | Self::PAYLOAD));
    /// Columns that identify or describe a subject: key, subjects, payload.
    pub const SUBJECT: Self = Self(1 << KEY | 1 << SUBJECTS | Self::PAYLOAD);

    const PAYLOAD: u16 = 1 << TEXT_COLUMNS;
    const TIME: u16 = 1 << 9;

    const fn has_text(self, column: usize) -> bool {
        self.0 >> column & 1 == 1
    }

    const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// Number of the key column in a row's texts.
pub(crate) const KEY: usize = 1;
/// Number of the subjects column in a row's texts.
pub(crate) const SUBJECTS: usize = 2;
/// Number of the actor column in a row's texts.
const ACTOR: usize = 5;

/// The order in which text columns are written: those that others follow from come first.
const ORDER: [usize; TEXT_COLUMNS] = [KEY, ACTOR, SUBJECTS, 0, 3, 4, 6, 7];
/// How many of [`ORDER`] other columns may follow from.
const PARENTS: usize = 3;

/// How the numbers of a text column are stored.
mod form {
    /// One word only: nothing is stored.
    pub(super) const CONSTANT: u8 = 0;
    /// Each number in as few bits as the count of words needs.
    pub(super) const PACKED: u8 = 1;
    /// Entry i has word i.
    pub(super) const IDENTITY: u8 = 2;
    /// Each number is a byte among the compressed bytes: for skewed columns.
    pub(super) const BYTES: u8 = 3;
    /// The word follows from the word of another column; one number for each word of that.
    pub(super) const DERIVED: u8 = 4;
}
