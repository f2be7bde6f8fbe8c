//! The encoding of the catalogue; "Catalogue" in `docs/pocketdb-format.md`.

use alloc::vec::Vec;

use super::{Catalogue, ColumnDefinition, FIRST_TABLE, Kind, Layout, TableDefinition};
use crate::error::{Error, Result};
use crate::limits::COLUMNS_MAX;
use crate::pager::bytes::{small, u16_at};
use crate::pager::series::Series;
use crate::tables::id::{ColumnId, TableId};

/// The error for bytes that are no catalogue.
const DAMAGED: Error = Error::Root("has a damaged catalogue");

impl Catalogue {
    /// Returns the length of [`Self::encode`]'s result in bytes.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let tables = self.tables.iter().skip(FIRST_TABLE.place());
        let columns = tables.map(|table| usize::from(table.columns) * 7 + 3);
        1 + self.names.len() + columns.sum::<usize>()
    }

    /// Encodes every user table.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        out.push(small(self.named_tables().count()));
        for (number, table) in self
            .named_tables()
            .zip(self.tables.iter().skip(FIRST_TABLE.place()))
        {
            let layout = match table.layout {
                Layout::Keyed => 0,
                Layout::Columns => 1,
                Layout::Rows => 2,
            };
            out.extend_from_slice(&[table.name.bytes, layout, table.columns]);
            out.extend_from_slice(self.name(table.name).as_bytes());
            for column in self.columns_of(number) {
                let flags = u8::from(column.indexed) | u8::from(column.unique) << 1;
                let [low, high] = column.width.to_le_bytes();
                let kind = kind_number(column.kind);
                out.extend_from_slice(&[column.name.bytes, kind, low, high, flags]);
                out.extend_from_slice(&[column.target.number(), column.key.number()]);
                out.extend_from_slice(self.name(column.name).as_bytes());
            }
        }
        out
    }

    /// Decodes a catalogue; the bytes must be authenticated.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut catalogue = Self::new()?;
        let mut at = 1;
        // A new store has no catalogue, which is an empty one.
        for _ in 0..bytes.first().copied().unwrap_or(0) {
            at = catalogue
                .decode_table(bytes, at)
                .map_err(|_reason| DAMAGED)?;
        }
        catalogue.shrink();
        Ok(catalogue)
    }

    fn decode_table(&mut self, bytes: &[u8], mut at: usize) -> Result<usize> {
        let [name_bytes, layout, columns] = *field::<3>(bytes, at)?;
        let layout = match layout {
            0 => Layout::Keyed,
            1 => Layout::Columns,
            2 => Layout::Rows,
            _ => return Err(DAMAGED),
        };
        let text = |at: usize, count: u8| {
            let found = bytes.get(at..at + usize::from(count)).ok_or(DAMAGED)?;
            core::str::from_utf8(found).map_err(|_encoding| DAMAGED)
        };
        let name = text(at + 3, name_bytes)?;
        at += 3 + usize::from(name_bytes);
        // A copy, because the targets' names are borrowed while the catalogue changes.
        let before = self.clone();
        let mut definitions: Series<ColumnDefinition<'_>, COLUMNS_MAX> = Series::new();
        for _ in 0..columns {
            let [length, kind, _, _, flags, target, key] = *field::<7>(bytes, at)?;
            let kind = kind_of(kind, u16_at(bytes, at + 2))?;
            let reference = (kind == Kind::Reference).then(|| {
                let table = TableId::new(target);
                let column = before.column_name(table, ColumnId::new(key));
                (before.table_name(table), column)
            });
            let definition = ColumnDefinition {
                name: text(at + 7, length)?,
                kind,
                indexed: flags & 1 != 0,
                unique: flags & 2 != 0,
                reference,
            };
            definitions.push(definition, "the number of columns")?;
            at += 7 + usize::from(length);
        }
        self.install(&TableDefinition {
            name,
            columns: &definitions,
            layout,
        })?;
        Ok(at)
    }
}

fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::Position => 0,
        Kind::Integer => 1,
        Kind::Real => 2,
        Kind::Text(_) => 3,
        Kind::Reference => 4,
    }
}

fn kind_of(number: u8, width: u16) -> Result<Kind> {
    Ok(match number {
        0 => Kind::Position,
        1 => Kind::Integer,
        2 => Kind::Real,
        3 => Kind::Text(width),
        4 => Kind::Reference,
        _ => return Err(DAMAGED),
    })
}

/// Returns the `N` bytes at `at` of a catalogue, which may end before them.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<&[u8; N]> {
    let rest = bytes.get(at..).ok_or(DAMAGED)?;
    rest.first_chunk().ok_or(DAMAGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue with an unknown layout or type was read as one with another: a column of an
    /// unknown type became a reference.
    #[test]
    fn bytes_that_no_catalogue_has_are_refused() {
        let mut catalogue = Catalogue::new().unwrap();
        let column = ColumnDefinition {
            name: "day",
            kind: Kind::Integer,
            indexed: true,
            unique: false,
            reference: None,
        };
        let table = TableDefinition {
            name: "visits",
            columns: &[column],
            layout: Layout::Rows,
        };
        catalogue.add(&table).unwrap();
        let bytes = catalogue.encode();
        assert_eq!(Catalogue::decode(&bytes).unwrap().encode(), bytes);
        for end in 1..bytes.len() {
            let cut = bytes.get(..end).unwrap();
            assert!(Catalogue::decode(cut).is_err(), "{end}");
        }
        // Layout, type, and the first byte of both names.
        for at in [2, 11, 4, 17] {
            let mut changed = bytes.clone();
            *changed.get_mut(at).unwrap() = 0xFF;
            assert!(Catalogue::decode(&changed).is_err(), "{at}");
        }
    }
}
