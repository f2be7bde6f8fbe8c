//! Sides: the owners of a reorganised part's logs and places, and its generation of keys.
//!
//! There is one more side than parts in use, so that the next part can be built beside them.

use crate::limits::{PARTS_MAX, TABLES_MAX};
use crate::pager::directory::TEMPORARY;

/// Number of sides: one for each part in use and one for the part being built.
pub(crate) const SIDES: usize = PARTS_MAX + 1;
const SIDES_NUMBER: u8 = 4;
/// The first owner number of the logs of a part and of the entries with its places.
const BODIES: u8 = 18;
const LISTS: u8 = BODIES + SIDES_NUMBER;
const CONTENTS: u8 = LISTS + SIDES_NUMBER;
const _: () = assert!(
    SIDES == SIDES_NUMBER as usize
        && TABLES_MAX <= BODIES as usize
        && CONTENTS + SIDES_NUMBER <= TEMPORARY,
    "an owner is a table, one of these, or that of the temporary log"
);

/// Returns the side of a log's owner.
pub(crate) fn side_number(owner: u8) -> u8 {
    owner.wrapping_sub(BODIES) % SIDES_NUMBER
}

/// Returns the numbers of all sides.
pub(crate) fn all_sides() -> core::ops::Range<u8> {
    0..SIDES_NUMBER
}

/// Returns the owners of units.
pub(crate) fn tables() -> core::ops::Range<u8> {
    0..BODIES
}

/// Returns the owners of the bodies of all sides.
pub(crate) fn bodies() -> core::ops::Range<u8> {
    BODIES..LISTS
}

/// Returns the owners of the lists of all sides.
pub(crate) fn lists() -> core::ops::Range<u8> {
    LISTS..CONTENTS
}

/// The owners of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Side {
    pub(crate) body: u8,
    pub(crate) lists: u8,
    pub(crate) contents: u8,
}

impl Side {
    /// Returns the owners of side number `number`.
    pub(crate) fn new(number: u8) -> Self {
        let number = number % SIDES_NUMBER;
        Self {
            body: BODIES + number,
            lists: LISTS + number,
            contents: CONTENTS + number,
        }
    }

    /// Returns all three owners.
    pub(crate) fn owners(self) -> [u8; 3] {
        [self.body, self.lists, self.contents]
    }
}
