//! The shape of elements and units: as much of an owner's rows as the pager must know.

use crate::pager::error::{Error, Result};

/// The elements and units of one owner of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Length of an element in bytes: a row with its join row.
    element: u16,
    /// Number of pages of a unit.
    pages: u16,
    /// The first unit in use; those before are in reorganised parts.
    first_unit: u32,
}

impl Shape {
    /// Returns the shape of elements of `element` bytes and units of `pages` pages, in use from
    /// number `first_unit` on.
    pub(crate) fn new(element: usize, pages: u32, first_unit: u32) -> Result<Self> {
        let too_wide = |_range| Error::Limit("the width of a row");
        Ok(Self {
            element: u16::try_from(element).map_err(too_wide)?,
            pages: u16::try_from(pages).map_err(too_wide)?,
            first_unit,
        })
    }

    /// Returns the length of an element in bytes.
    pub(crate) fn element(self) -> usize {
        usize::from(self.element)
    }

    /// Returns the first unit in use.
    pub(crate) fn first_unit(self) -> u32 {
        self.first_unit
    }

    /// Returns the number of pages of a unit.
    pub(crate) fn pages(self) -> u32 {
        u32::from(self.pages)
    }
}
