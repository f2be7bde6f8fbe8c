//! Set-based deletions from one table.

use super::table::{among, limit, list, lists, select_keys, with};
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseErrorKind, Dialect};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;

/// Deletes the rows whose `by` columns are among `keys`.
pub(crate) fn delete_keys(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    keys: &[Vec<Value>],
) -> Result<u64, Error> {
    let mut count: u64 = 0;
    for asked in lists(keys, by.len()) {
        let (sql, parameters) = deletion(database, table, by, &asked);
        let done = database.execute(&sql, &parameters).doing("deleting rows")?;
        count = count.saturating_add(done);
    }
    Ok(count)
}

/// Deletes rows as [`delete_keys`] does, and refuses if any of them is left: a trigger may keep it.
pub(crate) fn destroy_keys(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    keys: &[Vec<Value>],
) -> Result<(), Error> {
    let gone = delete_keys(database, table, by, keys)?;
    if usize::try_from(gone).is_ok_and(|gone| gone >= keys.len()) {
        return Ok(());
    }
    let left = select_keys(database, table, by, by, keys)?.len();
    if left == 0 {
        return Ok(());
    }
    let source = database.passed_over(table, left);
    Err(Error::Database {
        doing: "destroying records",
        source,
    })
}

/// Returns the statement that deletes the rows whose `by` columns are among `keys`, and its
/// parameters.
pub(crate) fn deletion(
    database: &dyn TenantConnection,
    table: &str,
    by: &[String],
    keys: &[Vec<Value>],
) -> (String, Vec<Value>) {
    let dialect = database.dialect();
    let own = database.tenancy().and(dialect, table, table);
    let sql = format!(
        "DELETE FROM {} WHERE {}{}",
        dialect.quote(table),
        among(dialect, by, keys.len()),
        own.sql
    );
    (sql, with(keys.concat(), &own))
}

/// The outcome of a deletion of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// All of them are gone, so many by the statement itself.
    All(u64),
    /// Rows refer to one of them; all still exist.
    Refused,
}

/// Deletes rows by one list of keys, all of them or none, which is no reason to give up.
pub(crate) fn try_delete_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    keys: &[Vec<Value>],
) -> Result<Deleted, Error> {
    let (sql, parameters) = deletion(database, &table.name, &table.identity, keys);
    match database.attempt(&sql, &parameters) {
        Ok(gone) => Ok(Deleted::All(gone)),
        Err(error) if error.kind == DatabaseErrorKind::Constraint => Ok(Deleted::Refused),
        Err(source) => Err(Error::Database {
            doing: "deleting rows",
            source,
        }),
    }
}

/// Deletes the rows that `chosen` selects.
pub(crate) fn delete(
    database: &mut dyn TenantConnection,
    table: &str,
    chosen: &Fragment,
) -> Result<u64, Error> {
    let dialect = database.dialect();
    let chosen = database.tenancy().bound(dialect, table, chosen);
    let sql = format!("DELETE FROM {} WHERE {}", dialect.quote(table), chosen.sql);
    database
        .execute(&sql, &chosen.parameters)
        .doing("deleting rows")
}

/// Returns whether [`take`] can say at most how many rows it deletes.
pub(crate) fn takes(database: &dyn TenantConnection, table: &ResolvedTable) -> bool {
    // On other databases a trigger may keep a row, which shows only in its absence from the
    // returned rows.
    let has_place = table.catalog.row_place.is_some() && table.catalog.triggers.is_empty();
    database.returns_deleted() && (database.dialect() == Dialect::Mysql || has_place)
}

/// Deletes rows that `chosen` selects, at most `most` of them, and returns them; only for a table
/// that [`takes`] accepts.
pub(crate) fn take(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    chosen: &Fragment,
    most: Option<u32>,
) -> Result<Vec<Vec<Value>>, Error> {
    let dialect = database.dialect();
    let chosen = database.tenancy().bound(dialect, &table.name, chosen);
    let name = dialect.quote(&table.name);
    let some = format!("{}{}", chosen.sql, limit(most));
    let meant = match (&table.catalog.row_place, dialect, most) {
        (Some(place), Dialect::Sqlite, Some(_)) => {
            format!("{place} IN (SELECT {place} FROM {name} WHERE {some})")
        }
        (Some(place), Dialect::Postgres, Some(_)) => {
            format!("{place} = ANY(ARRAY(SELECT {place} FROM {name} WHERE {some}))")
        }
        _ => some,
    };
    let columns = list(dialect, columns);
    let sql = format!("DELETE FROM {name} WHERE {meant} RETURNING {columns}");
    database
        .query(&sql, &chosen.parameters)
        .doing("deleting rows")
}
