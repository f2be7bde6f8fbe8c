//! Definitions and references that a catalogue refuses, in the words of its errors, with the limits.

use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, ROW_BYTES_MAX, TABLES_MAX};
use crate::pager::buffer::ROW_FIT_BYTES;
use crate::tables::catalogue::Catalogue;
use crate::tables::id::TableId;
use crate::tables::value::Value;

/// The hidden tables are none of these.
pub(super) const TOO_MANY_TABLES: &str = "the number of tables, which is 16 at most,";
const _: () = assert!(TABLES_MAX - 2 == 16);
pub(super) const ROW_TOO_WIDE: &str = "the width of a row, which is 1997 bytes at most,";
const _: () = assert!(ROW_FIT_BYTES == ROW_BYTES_MAX && ROW_BYTES_MAX == 1_997);
pub(super) const KEY_TOO_WIDE: &str = "the width of an indexed column, which is 128 bytes at most,";
const _: () = assert!(KEY_BYTES_MAX == 128);
/// A table whose rows take no room.
pub(super) const NO_VALUE: &str = "a table with no column beside its INTEGER PRIMARY KEY";

/// Returns an error if `name` is no name that a statement can write.
pub(super) fn check_name(name: &str) -> Result<()> {
    let mut letters = name.bytes();
    let first = letters
        .next()
        .is_some_and(|letter| letter.is_ascii_alphabetic() || letter == b'_');
    let rest = letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    if !first || !rest || name.len() > NAME_BYTES_MAX {
        return Err(Error::Name(alloc::format!("{name:?} is not a name")));
    }
    Ok(())
}

impl Catalogue {
    /// Returns the refusal of a value that refers to no row of `target`.
    pub(crate) fn no_row(&self, target: TableId, value: &Value<'_>) -> Error {
        let name = self.table_name(target);
        Error::Key(alloc::format!("{name} has no row {value}"))
    }
}
