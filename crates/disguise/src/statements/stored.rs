//! Rows as the database stores them after a write: a column may keep a value in another form.

use std::collections::BTreeMap;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::held::held;
use crate::statements::overwrite::{Write, is_row};
use crate::statements::row::{encoded, moved};
use crate::statements::table::{list, select_keys, with};

/// A row as it is stored.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) identity: Vec<Value>,
    /// The values of the requested columns.
    pub(crate) values: Vec<Value>,
}

/// Returns whether a column keeps `value` unchanged. When in doubt it returns false, and the value
/// is read back.
pub(crate) fn keeps_form(table: &ResolvedTable, column: &str, value: &Value) -> bool {
    let is_plain = match value {
        Value::Null => true,
        Value::Int(_) => table.catalog.column(column).is_some_and(Column::is_integer),
        _ => false,
    };
    is_plain && table.catalog.triggers.is_empty()
}

/// Returns whether two values are the same in a column, though its type may have changed since one of
/// them was recorded.
pub(crate) fn is_same(table: &ResolvedTable, column: &str, one: &Value, other: &Value) -> bool {
    let column = table.catalog.column(column);
    column.map_or_else(
        || one.same(other),
        |it| it.is_same(table.dialect, one, other),
    )
}

/// Returns the rows into which `writes` were written, with their present values of `columns`. A row
/// that its key does not find, or not alone, is absent.
pub(crate) fn stored(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<Vec<Option<Stored>>, Error> {
    let keys: Vec<Vec<Value>> = writes
        .iter()
        .map(|write| {
            let values = columns.iter().zip(write.values);
            values.fold(write.identity.to_vec(), |key, (column, value)| {
                moved(table, &key, column, value)
            })
        })
        .collect();
    let mut wanted = table.identity.clone();
    wanted.extend(columns.iter().map(|column| (*column).to_owned()));
    let width = table.identity.len();
    let split = |mut identity: Vec<Value>| {
        let values = identity.split_off(width.min(identity.len()));
        Stored { identity, values }
    };
    let mut held: BTreeMap<Vec<u8>, Stored> = BTreeMap::new();
    for row in select_keys(database, &table.name, &wanted, &table.identity, &keys)? {
        let row = split(row);
        held.insert(encoded(&row.identity), row);
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(row) = held.get(&encoded(&key)) {
            found.push(Some(row.clone()));
            continue;
        }
        let mut rows = by_key(database, table, &wanted, &key)?;
        found.push(match (rows.pop(), rows.pop()) {
            (Some(row), None) => Some(split(row)),
            _ => None,
        });
    }
    Ok(found)
}

/// At most two rows with a key, as the database compares it.
fn by_key(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    wanted: &[String],
    key: &[Value],
) -> Result<Vec<Vec<Value>>, Error> {
    let dialect = database.dialect();
    let key = held(database, &table.name, &table.identity, key)?;
    let own = database.tenancy().and(dialect, &table.name, &table.name);
    let sql = format!(
        "SELECT {} FROM {} WHERE {}{} LIMIT 2",
        list(dialect, wanted),
        dialect.quote(&table.name),
        is_row(dialect, table),
        own.sql
    );
    database.query(&sql, &with(key, &own)).doing("reading rows")
}

/// Returns whether a row holds `values` in `columns`, as the database compares them.
pub(crate) fn holds(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    (columns, values): (&[&str], &[Value]),
    row: &Stored,
) -> Result<bool, Error> {
    let dialect = database.dialect();
    let mut parameters = row.identity.clone();
    let mut same = vec![is_row(dialect, table)];
    for (column, value) in columns.iter().zip(values) {
        same.push(equals(dialect, table, column, value));
        parameters.extend(Some(value.clone()).filter(|it| !it.is_null()));
    }
    let own = database.tenancy().and(dialect, &table.name, &table.name);
    let sql = format!(
        "SELECT COUNT(*) FROM {} WHERE {}{}",
        dialect.quote(&table.name),
        same.join(" AND "),
        own.sql
    );
    let answer = database.query(&sql, &with(parameters, &own));
    let answer = answer.doing("looking at what was overwritten")?;
    Ok(answer.concat() == [Value::Int(1)])
}

fn equals(dialect: Dialect, table: &ResolvedTable, column: &str, value: &Value) -> String {
    let name = dialect.quote(column);
    if value.is_null() {
        return format!("{name} IS NULL");
    }
    format!("{name} = {}", dialect.typed(table.catalog.column(column)))
}
