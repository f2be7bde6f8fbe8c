//! Values of `BIT` and `DECIMAL` columns of `MariaDB`: numbers, which earlier records have as bytes
//! and as texts.

use crate::database::column::whole_number;
use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};

/// Gives the values of such columns in sections the form in which the database has them.
pub(crate) fn as_numbers(live: &ResolvedSchema, dialect: Dialect, sections: &mut [Section]) {
    if dialect != Dialect::Mysql {
        return;
    }
    for section in sections {
        // Most tables have none: a record may have millions of values.
        let table = live.table(&section.table);
        let table = table.filter(|it| it.catalog.columns.iter().any(is_number));
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

fn is_number(column: &Column) -> bool {
    column.is_bits() || column.is_decimal()
}

fn of_value(table: &ResolvedTable, column: &str, value: &mut Value) {
    let Some(of) = table.catalog.column(column) else {
        return;
    };
    match value {
        Value::Bytes(bytes) if of.is_bits() => *value = Value::of_bits(bytes),
        Value::Text(text) if of.is_decimal() => {
            if let Some(number) = whole_number(text) {
                *value = number;
            }
        }
        _ => {}
    }
}
