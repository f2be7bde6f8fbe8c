//! Values as the types of columns make them, asked of no table of the application: of a temporary
//! table with one row, and on `PostgreSQL` of casts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::database::value::Value;
use crate::database::{Column, Database, DatabaseError, Dialect, placeholders};

const POINT: &str = "SAVEPOINT probity_types";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_types";
const RELEASE: &str = "RELEASE SAVEPOINT probity_types";

/// A temporary table for one row.
pub(crate) struct OwnRow {
    /// Its name, as statements have it.
    pub(crate) place: String,
}

impl OwnRow {
    /// Creates the table with columns of these names and types, and a row with these values in the
    /// first of them.
    pub(crate) fn with(
        database: &mut dyn Database,
        columns: &[(String, String)],
        values: &[Value],
    ) -> Result<Self, DatabaseError> {
        let dialect = database.dialect();
        // A TIMESTAMP takes NULL only where it is said.
        let end = match dialect {
            Dialect::Mysql => " NULL DEFAULT NULL",
            Dialect::Sqlite | Dialect::Postgres => "",
        };
        let cells = columns.iter();
        let cells = cells.map(|(name, kind)| format!("{} {kind}{end}", dialect.quote(name)));
        let cells = cells.collect::<Vec<_>>().join(",");
        let mut name = DefaultHasher::new();
        cells.hash(&mut name);
        let name = dialect.quote(&format!("probity_row_{:016x}", name.finish()));
        let place = match dialect {
            Dialect::Sqlite => format!("temp.{name}"),
            Dialect::Mysql | Dialect::Postgres => name,
        };
        let create = format!("CREATE TEMPORARY TABLE IF NOT EXISTS {place} ({cells})");
        database.execute(&create, &[])?;
        let row = Self { place };
        row.clear(database)?;
        let filled = columns.iter().take(values.len());
        let filled: Vec<String> = filled.map(|(name, _)| dialect.quote(name)).collect();
        let insert = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            row.place,
            filled.join(","),
            placeholders(values.len())
        );
        database.execute(&insert, values)?;
        Ok(row)
    }

    /// Takes the row out again.
    pub(crate) fn clear(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let empty = format!("DELETE FROM {}", self.place);
        database.execute(&empty, &[]).map(drop)
    }
}

/// Returns values as columns of these types store them; nothing if one of them does not take its
/// value.
pub(crate) fn as_stored(
    database: &mut dyn Database,
    columns: &[&Column],
    values: &[Value],
) -> Result<Option<Vec<Value>>, DatabaseError> {
    database.execute(POINT, &[])?;
    let stored = stored(database, columns, values);
    if stored.is_err() {
        database.execute(BACK, &[])?;
    }
    database.execute(RELEASE, &[])?;
    Ok(stored.ok())
}

fn stored(
    database: &mut dyn Database,
    columns: &[&Column],
    values: &[Value],
) -> Result<Vec<Value>, DatabaseError> {
    let dialect = database.dialect();
    if dialect == Dialect::Postgres {
        let cells = columns.iter().map(|it| format!("?::{}", it.assigned()));
        let sql = format!("SELECT {}", cells.collect::<Vec<_>>().join(","));
        return Ok(database.query(&sql, values)?.concat());
    }
    let cells = columns.iter().enumerate();
    let cells = cells.map(|(index, it)| (format!("c{index}"), it.declaration(dialect)));
    let cells: Vec<(String, String)> = cells.collect();
    let row = OwnRow::with(database, &cells, values)?;
    let names = cells.iter().map(|(name, _)| name.as_str());
    let names = names.collect::<Vec<_>>().join(",");
    let sql = format!("SELECT {names} FROM {}", row.place);
    let stored = database.query(&sql, &[])?.concat();
    row.clear(database)?;
    Ok(stored)
}
