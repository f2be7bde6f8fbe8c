//! The numbers of tables, columns and rows, each a type of its own, so that none stands for another.

use crate::pager::bytes::small;

/// Length of a stored row id in bytes.
pub(crate) const ID_BYTES: usize = 4;

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

/// A row of a table, by its rank of insertion, counted from one.
///
/// No row has the number zero. Operations refuse a number that no row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u32);

impl RowId {
    /// Returns the row with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the row with `rank` rows before it.
    pub(crate) fn after(rank: u32) -> Self {
        Self(rank + 1)
    }

    /// Returns the rows after the first `before` ones, up to the first `rows` ones.
    pub(crate) fn between(before: u32, rows: u32) -> impl Iterator<Item = Self> {
        (before + 1..=rows).map(Self)
    }

    /// Returns the number of rows before it.
    pub(crate) fn rank(self) -> u32 {
        self.0 - 1
    }

    /// Returns whether it is one of the first `rows` rows.
    pub(crate) fn is_within(self, rows: u32) -> bool {
        self.0 <= rows
    }

    /// Returns the row that these bytes of a join row or a list name.
    pub(crate) fn from_le_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    /// Returns its bytes in a join row or a list.
    pub(crate) fn to_le_bytes(self) -> [u8; ID_BYTES] {
        self.0.to_le_bytes()
    }

    /// Returns its bytes where they are sorted by their numbers.
    pub(crate) fn to_be_bytes(self) -> [u8; ID_BYTES] {
        self.0.to_be_bytes()
    }
}

impl core::fmt::Display for RowId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}
