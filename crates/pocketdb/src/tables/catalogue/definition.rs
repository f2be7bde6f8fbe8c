//! The definitions of tables, as the catalogue keeps them.

use crate::tables::catalogue::{Catalogue, Column, ColumnDefinition, ID, Kind, Layout};
use crate::tables::id::TableId;

impl Catalogue {
    /// Returns the columns of a table as they are defined, each with the type of its values: that of
    /// a reference is its key's.
    pub(crate) fn definitions(
        &self,
        table: TableId,
    ) -> impl Iterator<Item = (ColumnDefinition<'_>, Kind)> {
        let columns = self.column_ids(table).zip(self.columns_of(table));
        columns.map(move |(number, column)| {
            let is_reference = column.kind == Kind::Reference;
            let definition = ColumnDefinition {
                name: self.column_name(table, number),
                kind: column.kind,
                indexed: column.indexed,
                unique: column.unique,
                reference: is_reference
                    .then(|| (self.table_name(column.target), self.key_name(column))),
            };
            (definition, self.kind_of_values(column))
        })
    }

    /// Returns how a table groups its columns.
    pub(crate) fn layout(&self, table: TableId) -> Layout {
        let entry = self.entry(table);
        entry.map_or_else(|_| Layout::default(), |entry| entry.layout)
    }

    /// Returns the name of the column that a reference leads to; none where that table has no position.
    fn key_name(&self, column: &Column) -> &str {
        if column.key != ID {
            return self.column_name(column.target, column.key);
        }
        let columns = self.columns_of(column.target);
        let mut columns = self.column_ids(column.target).zip(columns);
        let position = columns.find(|(_, found)| found.kind == Kind::Position);
        position.map_or("", |(number, _)| self.column_name(column.target, number))
    }

    fn kind_of_values(&self, column: &Column) -> Kind {
        match column.kind {
            Kind::Reference if column.key == ID => Kind::Integer,
            Kind::Reference => {
                let key = self.column_at(column.target, column.key);
                key.map_or(Kind::Integer, |key| key.kind)
            }
            kind => kind,
        }
    }
}
