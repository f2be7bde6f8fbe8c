//! Rows and values that are read back after they were written, where a column may store another
//! value than the one given to it without an error.

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Column, Dialect, Family};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::overwrite::Write;
use crate::statements::own_row::as_stored;
use crate::statements::row::picked;
use crate::statements::stored::{Stored, holds, stored};

/// The point to which such a write is undone.
const POINT: &str = "probity_written";

/// One statement's write, which is undone where a column stores something else.
pub(crate) struct ReadBack<'w> {
    table: &'w ResolvedTable,
    columns: &'w [&'w str],
    writes: &'w [Write<'w>],
}

impl<'w> ReadBack<'w> {
    /// Begins a write of values that a column may change; nothing is returned for others. What
    /// triggers make of a row stays as they make it, so that nothing is read of their tables: see
    /// [`changed_by_type`].
    pub(crate) fn begin(
        database: &mut dyn TenantConnection,
        table: &'w ResolvedTable,
        columns: &'w [&'w str],
        writes: &'w [Write<'w>],
    ) -> Result<Option<Self>, Error> {
        let dialect = database.dialect();
        let mut all = writes.iter().flat_map(|it| columns.iter().zip(it.values));
        let is_sure = all.all(|(name, value)| cannot_change(dialect, table, name, value));
        if is_sure || !table.catalog.triggers.is_empty() {
            return Ok(None);
        }
        control(database, &format!("SAVEPOINT {POINT}"))?;
        Ok(Some(Self {
            table,
            columns,
            writes,
        }))
    }

    /// Reads the rows again after they were written. Where one has another value, all of them are
    /// undone, and the report names the column.
    pub(crate) fn end(self, database: &mut dyn TenantConnection) -> Result<Option<String>, Error> {
        let changed = self.changed(database)?;
        if changed.is_some() {
            undo(database)?;
        } else {
            control(database, &format!("RELEASE SAVEPOINT {POINT}"))?;
        }
        Ok(changed.map(|column| message(self.table, column)))
    }

    /// Returns a column that stores another value in one of the rows.
    fn changed(&self, database: &mut dyn TenantConnection) -> Result<Option<&'w Column>, Error> {
        let dialect = database.dialect();
        let rows = stored(database, self.table, self.columns, self.writes)?;
        for (write, row) in self.writes.iter().zip(rows) {
            for (index, (name, value)) in self.columns.iter().zip(write.values).enumerate() {
                let Some(column) = self.table.catalog.column(name) else {
                    continue;
                };
                if column.cannot_change(dialect, value) {
                    continue;
                }
                let Some(row) = &row else {
                    // The key became another one, or has NULL in it, so that nothing finds the row.
                    let is_key = self.table.identity.contains(&column.name);
                    let is_alone = self.table.catalog.primary_key == [*name];
                    let became_another = is_key && (is_alone || !value.is_null());
                    if became_another || !keeps_type(database, column, value)? {
                        return Ok(Some(column));
                    }
                    continue;
                };
                let now = row.values.get(index).unwrap_or(&Value::Null);
                if !column.is_same(dialect, value, now)
                    && !self.names(database, (name, value), row)?
                {
                    return Ok(Some(column));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether a column that names people or rows holds an equal value in another form.
    fn names(
        &self,
        database: &mut dyn TenantConnection,
        (name, value): (&str, &Value),
        row: &Stored,
    ) -> Result<bool, Error> {
        let mut names = self.table.people().chain(&self.table.identity);
        if !names.any(|it| it == name) {
            return Ok(false);
        }
        let value = std::slice::from_ref(value);
        holds(database, self.table, (&[name], value), row)
    }
}

/// Undoes what was written since [`ReadBack::begin`].
pub(crate) fn undo(database: &mut dyn TenantConnection) -> Result<(), Error> {
    control(database, &format!("ROLLBACK TO SAVEPOINT {POINT}"))?;
    control(database, &format!("RELEASE SAVEPOINT {POINT}"))
}

/// Returns the rows of an insertion as identities, with the values of those columns alone that may
/// be changed.
pub(crate) fn parts<'c>(
    dialect: Dialect,
    table: &ResolvedTable,
    columns: &'c [String],
    rows: &[Vec<Value>],
) -> (Vec<&'c str>, Vec<[Vec<Value>; 2]>) {
    if !table.catalog.triggers.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let doubtful = columns.iter().enumerate().filter(|(index, name)| {
        let mut values = rows.iter().filter_map(|row| row.get(*index));
        !values.all(|value| cannot_change(dialect, table, name, value))
    });
    let doubtful: Vec<String> = doubtful.map(|(_, name)| name.clone()).collect();
    if doubtful.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let rows = rows.iter().map(|row| {
        let parts = [table.identity.as_slice(), &doubtful];
        parts.map(|part| picked(columns, row, part))
    });
    let names = columns.iter().filter(|it| doubtful.contains(it));
    (names.map(String::as_str).collect(), rows.collect())
}

fn cannot_change(dialect: Dialect, table: &ResolvedTable, name: &str, value: &Value) -> bool {
    let column = table.catalog.column(name);
    column.is_none_or(|it| it.cannot_change(dialect, value))
}

/// Returns whether the type of a column keeps `value`.
fn keeps_type(
    database: &mut dyn TenantConnection,
    column: &Column,
    value: &Value,
) -> Result<bool, Error> {
    let dialect = database.dialect();
    let stored = as_stored(database, &[column], std::slice::from_ref(value));
    let stored = stored.doing("asking what a type makes of a value")?;
    let is_kept = |it: &[Value]| matches!(it, [it] if column.is_same(dialect, value, it));
    Ok(stored.is_some_and(|it| is_kept(&it)))
}

/// Returns the report of values of rows that the type of one of `columns` would change, in a table
/// with triggers: there nothing that is read back tells who changed it.
pub(crate) fn changed_by_type<'v>(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: impl Iterator<Item = &'v str>,
    rows: &(impl Iterator<Item = &'v [Value]> + Clone),
) -> Result<Option<String>, Error> {
    if table.catalog.triggers.is_empty() {
        return Ok(None);
    }
    let dialect = database.dialect();
    for (at, name) in columns.enumerate() {
        let Some(column) = table.catalog.column(name) else {
            continue;
        };
        for value in rows.clone().filter_map(|row| row.get(at)) {
            let is_sure = column.cannot_change(dialect, value);
            if !is_sure && !keeps_type(database, column, value)? {
                return Ok(Some(message(table, column)));
            }
        }
    }
    Ok(None)
}

/// Returns the report of values that `column` would store as others.
pub(crate) fn message(table: &ResolvedTable, column: &Column) -> String {
    let is_rounded = matches!(
        column.family(table.dialect),
        Family::Single | Family::Double
    );
    let advice = if table.dialect == Dialect::Mysql && is_rounded && column.decimals().is_some() {
        // ALTER TABLE left digits there that no statement writes.
        "give it the type FLOAT or DOUBLE, without digits, which holds all of them"
    } else {
        "give it the type that it had"
    };
    format!(
        "table {}, column {}: its type ({}) does not hold the value as it was; {advice}, or record an update whose sql says the new value",
        table.name, column.name, column.declared
    )
}

fn control(database: &mut dyn TenantConnection, sql: &str) -> Result<(), Error> {
    let done = database.execute(sql, &[]);
    done.doing("writing rows that are read back").map(drop)
}
