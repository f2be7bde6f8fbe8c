//! The columns of a section: each field of all entries, stored column by column.
//!
//! `docs/format.md`, "Section body". Columns halve the stored size and compress faster than rows.
//! Words are stored once per frame, their numbers in as few bits as needed, and derived numbers not
//! at all. Only columns that gain by it are compressed.

mod bits;
mod decode;
mod decode_v2;
mod dictionary;
mod encode;
mod taken;

#[cfg(test)]
mod tests;

pub use decode::{Columns, Text};
pub use encode::{Encoder, Parts};

use crate::row::TEXT_COLUMNS;

/// The set of columns of a section: one bit each, in the order in which the columns are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSet(u16);

impl ColumnSet {
    /// Every column, for streams that are not erasable.
    pub const ALL: Self = Self(0xFFFF);
    /// Columns that identify or describe a subject: payload, key, subjects, idempotency.
    pub const SUBJECT: Self =
        Self(Self::PAYLOAD | text_bit(KEY) | text_bit(SUBJECTS) | text_bit(IDEMPOTENCY));
    /// The subject columns of a section about several people, whose names are in its shares.
    pub const PEOPLE: Self = Self(Self::SUBJECT.0 & !text_bit(SUBJECTS));
    /// The columns that may outlive a subject. The subjects column then holds pseudonyms, and the
    /// numbers of its words give each entry's subject section.
    pub const SHARED: Self = Self(Self::ALL.0 & !Self::SUBJECT.0 | text_bit(SUBJECTS));

    const PAYLOAD: u16 = 1;
    const TIME: u16 = 1 << 1;
    const TAKEN: u16 = 1 << 2;
    const CLAIMED: u16 = 1 << 3;

    const fn has_text(self, column: usize) -> bool {
        self.has(text_bit(column))
    }

    const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// Number of bits before those of the text columns.
const TEXTS_AT: usize = 4;

const _: () = assert!(TEXTS_AT + TEXT_COLUMNS == 16, "each column has a bit");

/// Returns the bit of text column `column`.
const fn text_bit(column: usize) -> u16 {
    1 << TEXTS_AT << column
}

/// Number of the key column in a row's texts.
pub(crate) const KEY: usize = 1;
/// Number of the subjects column in a row's texts.
pub(crate) const SUBJECTS: usize = 2;
/// Number of the actor column in a row's texts.
pub(crate) const ACTOR: usize = 5;
/// Number of the submitter column in a row's texts.
pub(crate) const SUBMITTER: usize = 8;
/// Number of the idempotency column in a row's texts.
pub(crate) const IDEMPOTENCY: usize = 11;

/// The forms in which the numbers of a text column are stored.
mod form {
    /// One word only; no numbers are stored.
    pub(super) const CONSTANT: u8 = 0;
    /// Each number in as few bits as the count of words needs.
    pub(super) const PACKED: u8 = 1;
    /// Entry i has word i.
    pub(super) const IDENTITY: u8 = 2;
    /// The word is derived from the word of another column: one number for each word of that
    /// column.
    pub(super) const DERIVED: u8 = 3;
}
