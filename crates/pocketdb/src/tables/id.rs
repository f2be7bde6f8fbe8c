//! The numbers of tables, columns and rows, each a type of its own, so that none stands for another.

use crate::pager::bytes::small;

/// A table of a store, by its number.
///
/// The first numbers belong to the engine. Operations refuse a number that no table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u8);

impl TableId {
    /// Returns the table with this number.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the table at this place of a list of tables, whose length a limit bounds.
    pub(crate) fn at(place: usize) -> Self {
        Self(small(place))
    }

    /// Returns its place in a list of tables.
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }

    /// Returns its bit in a set of tables.
    pub(crate) fn bit(self) -> u32 {
        1 << self.0
    }
}

impl core::fmt::Display for TableId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A column of a table, by its place among the table's columns, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(u8);

impl ColumnId {
    /// Returns the column at this place.
    pub const fn new(place: u8) -> Self {
        Self(place)
    }

    /// Returns its place.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the column at this place of a list of columns, whose length a limit bounds.
    pub(crate) fn at(place: usize) -> Self {
        Self(small(place))
    }

    /// Returns its place in a list of columns.
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }
}

impl core::fmt::Display for ColumnId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}
