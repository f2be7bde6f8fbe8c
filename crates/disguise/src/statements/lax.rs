//! Values that `MariaDB` stores but refuses in its strict mode: those of an enumeration for an
//! invalid value.
//!
//! Such rows and values go back as they were, or not at all: after a write with errors turned into
//! warnings, they are read again.

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Column, Dialect, INSERT_INTO};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::deletion::delete_keys;
use crate::statements::outcome::{Done, are_same, inserted, is_there};
use crate::statements::overwrite::unstamped;
use crate::statements::table::{Inserted, insertion, select_keys};

/// Returns whether `value` may be the one that an enumeration stores for an invalid value.
fn is_error(dialect: Dialect, column: Option<&Column>, value: &Value) -> bool {
    let is_enumeration = column.is_some_and(|it| it.declared.starts_with("enum("));
    let is_empty = matches!(value, Value::Text(text) if text.is_empty());
    dialect == Dialect::Mysql && is_enumeration && is_empty
}

/// Inserts a row that the database refused, if only such a value was the reason.
pub(crate) fn insert(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    row: &[Value],
) -> Result<Inserted, Error> {
    let dialect = database.dialect();
    let mut values = columns.iter().zip(row);
    if !values.any(|(name, value)| is_error(dialect, table.catalog.column(name), value)) {
        return Ok(Inserted::Refused);
    }
    let sql = insertion(dialect, (INSERT_INTO, &table.name), columns, 1);
    let sql = sql.replacen("INSERT", "INSERT IGNORE", 1);
    let done = database.attempt(&sql, row);
    if inserted(done, 1)? != Done::All {
        return Ok(Inserted::Refused);
    }
    if is_there(database, table, columns, row)? {
        return Ok(Inserted::All);
    }
    let keys = [crate::statements::row::picked(
        columns,
        row,
        &table.identity,
    )];
    delete_keys(database, &table.name, &table.identity, &keys)?;
    Ok(Inserted::Refused)
}

/// Writes a value that the database refused into a row that holds `now`, if only its kind was the
/// reason. Returns whether it was written.
pub(crate) fn write(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    (column, identity): (&str, &[Value]),
    (value, now): (&Value, &Value),
) -> Result<bool, Error> {
    let dialect = database.dialect();
    if !is_error(dialect, table.catalog.column(column), value) {
        return Ok(false);
    }
    let keys = [identity.to_vec()];
    let by = &table.identity;
    let own = database.tenancy().and(dialect, &table.name, &table.name);
    let sql = format!(
        "UPDATE IGNORE {} SET {} = ?{} WHERE {}{}",
        dialect.quote(&table.name),
        dialect.quote(column),
        unstamped(dialect, table, &[column]),
        crate::statements::table::among(dialect, by, 1),
        own.sql
    );
    let mut put = |value: &Value| -> Result<bool, Error> {
        let parameters = [std::slice::from_ref(value), identity, &own.parameters].concat();
        let done = database.execute(&sql, &parameters);
        done.doing("updating rows")?;
        let wanted = [column.to_owned()];
        let held = select_keys(database, &table.name, &wanted, by, &keys)?.concat();
        Ok(are_same(&held, std::slice::from_ref(value)))
    };
    if put(value)? {
        return Ok(true);
    }
    put(now)?;
    Ok(false)
}
