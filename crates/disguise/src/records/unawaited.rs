//! Keys of rows for which removed rows do not wait.

use probity_format::DecodeError;
use probity_format::wire::Reader;

use super::bag::{Bag, LIST_MAX, put_names, take_names};
use super::repeat::{Values, Writer};
use super::shape::ShapeOf;
use crate::database::value::{Value, put_bytes, put_count, take_text};

/// Keys to which removed rows of a bag refer, and whose rows need not be there when they return: they
/// were not there either when the rows went, or they are in one circle with them and somebody else's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unawaited {
    /// The table of the rows that are referred to.
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
    pub(crate) keys: Vec<Vec<Value>>,
    /// The columns of the table when the keys were noted. Records of programs before have none.
    pub(crate) shape: ShapeOf,
}

impl Unawaited {
    pub(super) fn encode<'v>(&'v self, values: &mut Writer<'v>, out: &mut Vec<u8>) {
        values.begin();
        put_bytes(out, self.table.as_bytes());
        put_names(out, &self.columns);
        put_count(out, self.keys.len());
        for key in &self.keys {
            values.row(key.iter(), out);
        }
    }

    pub(super) fn decode(
        reader: &mut Reader<'_>,
        values: &mut Values,
    ) -> Result<Self, DecodeError> {
        values.begin();
        let table = take_text(reader)?;
        let columns = take_names(reader)?;
        let count = reader.length(LIST_MAX)?;
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(values.row(reader, columns.len())?);
        }
        Ok(Self {
            table,
            columns,
            keys,
            shape: ShapeOf::None,
        })
    }
}

impl Bag {
    /// Drops the keys for which removed rows do not wait, once the bag has no such rows.
    pub(super) fn drop_unawaited(&mut self) {
        let mut sections = self.sections.iter();
        if !sections.any(|it| it.whole_rows().is_some()) {
            self.unawaited.clear();
        }
    }
}
