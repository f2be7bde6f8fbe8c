//! Values of `BIT` columns of `MariaDB`: numbers, which earlier records have as bytes.

use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};

/// Gives the values of such columns in sections the form in which the database has them.
pub(crate) fn number_bits(live: &ResolvedSchema, dialect: Dialect, sections: &mut [Section]) {
    if dialect != Dialect::Mysql {
        return;
    }
    for section in sections {
        // Most tables have none: a record may have millions of values.
        let table = live.table(&section.table);
        let table = table.filter(|it| it.catalog.columns.iter().any(Column::is_bits));
        let Some(table) = table else {
            continue;
        };
        match &mut section.change {
            Change::Removed { columns, rows } => {
                for row in rows {
                    of_row(table, columns, row);
                }
            }
            Change::Copied { columns, rows, .. } => {
                for copy in rows {
                    of_row(table, columns, &mut copy.row);
                }
            }
            Change::Modified {
                identity,
                column,
                rows,
            }
            | Change::Decorrelated {
                identity,
                column,
                rows,
            } => {
                for Modified {
                    identity: key,
                    before,
                    after,
                } in rows
                {
                    of_row(table, identity, key);
                    of_value(table, column, before);
                    of_value(table, column, after);
                }
            }
        }
    }
}

fn of_row(table: &ResolvedTable, columns: &[String], row: &mut [Value]) {
    for (column, value) in columns.iter().zip(row) {
        of_value(table, column, value);
    }
}

fn of_value(table: &ResolvedTable, column: &str, value: &mut Value) {
    let of = table.catalog.column(column);
    if let Value::Bytes(bytes) = value
        && of.is_some_and(Column::is_bits)
    {
        *value = Value::of_bits(bytes);
    }
}
