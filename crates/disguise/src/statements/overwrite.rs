//! Updates of many rows with values of their own: all columns and as many rows as fit in one
//! statement.

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseError, DatabaseErrorKind, Dialect, Said, repeated};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::outcome::are_same;
use crate::statements::read_back::{ReadBack, changed_by_type, undo};
use crate::statements::stored::{Stored, holds, stored};
use crate::statements::table::{among, joined_lists, present, rows_max, with};
use crate::statements::unchangeable::refuse_unchangeable;

/// The name of a list of new values, which no table of an application has.
const LIST: &str = "probity_values";

/// A write to a row: its identity, and a new value for each column.
#[derive(Clone)]
pub(crate) struct Write<'a> {
    pub(crate) identity: &'a [Value],
    pub(crate) values: &'a [Value],
}

impl<'a> Write<'a> {
    /// Names the row without any values to write.
    pub(crate) const fn of_nothing(identity: &'a [Value]) -> Self {
        Self {
            identity,
            values: &[],
        }
    }
}

/// A function that runs a statement and returns the number of changed rows.
type Run = fn(&mut dyn TenantConnection, &str, &[Value]) -> Result<u64, DatabaseError>;

/// Writes values of its own into each row. A row that the database silently skips counts as
/// refused, like one that breaks a constraint. A caller must give up after a refusal.
pub(crate) fn update_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    update_as_given(database, table, columns, writes, execute)
}

/// Writes like [`update_keys`], but the caller may go on after a refusal, though rows may have been
/// written before it.
pub(crate) fn try_update_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let values = writes.iter().map(|it| it.values);
    if let Some(message) = changed_by_type(database, table, columns.iter().copied(), &values)? {
        return Err(Error::Database {
            doing: "updating rows",
            source: database.refuse(message),
        });
    }
    // Each list is one statement, which can be undone.
    let width = written_width(database.dialect(), table, columns.len());
    let most = rows_max(width).min(database.dialect().changes_max());
    for some in writes.chunks(most) {
        let Some(read_back) = ReadBack::begin(database, table, columns, some)? else {
            update_as_given(database, table, columns, some, attempt)?;
            continue;
        };
        if let Err(error) = update_as_given(database, table, columns, some, attempt) {
            if is_constraint(&error) {
                undo(database)?;
            }
            return Err(error);
        }
        if let Some(message) = read_back.end(database)? {
            return Err(Error::Database {
                doing: "updating rows",
                source: database.refuse(message),
            });
        }
    }
    Ok(())
}

/// Returns whether a key or another constraint refused a statement.
pub(crate) fn is_constraint(error: &Error) -> bool {
    matches!(
        error,
        Error::Database { source, .. }
            if matches!(source.kind, DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint)
    )
}

/// Writes like [`try_update_keys`] to all rows that hold some values in `column`: each write has
/// such a value as its identity, which may have many rows.
pub(crate) fn try_update_all(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    column: &str,
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let by_value = ResolvedTable {
        identity: vec![column.to_owned()],
        ..table.clone()
    };
    let done = write_keys(database, &by_value, &[column], writes, attempt)?;
    let is_all = usize::try_from(done).is_ok_and(|done| done >= writes.len());
    if is_all && table.catalog.triggers.is_empty() {
        return Ok(());
    }
    let changing = writes.iter().filter(|it| it.identity != it.values);
    let keys: Vec<Vec<Value>> = changing.map(|it| it.identity.to_vec()).collect();
    let left = present(database, &table.name, &by_value.identity, &keys)?.len();
    refuse_left(database, table, left)
}

/// Writes like [`update_keys`] where columns may store values in another form; the caller checks
/// whether a trigger replaced them.
pub(crate) fn update_drawn(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let done = write_keys(database, table, columns, writes, execute)?;
    refuse_more(table, writes, done)?;
    refuse_passed_over(database, table, columns, writes, Some(done))
}

fn execute(
    database: &mut dyn TenantConnection,
    sql: &str,
    values: &[Value],
) -> Result<u64, DatabaseError> {
    database.execute(sql, values)
}

fn attempt(
    database: &mut dyn TenantConnection,
    sql: &str,
    values: &[Value],
) -> Result<u64, DatabaseError> {
    database.attempt(sql, values)
}

fn update_as_given(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
    run: Run,
) -> Result<(), Error> {
    let done = write_keys(database, table, columns, writes, run)?;
    refuse_more(table, writes, done)?;
    let told = Some(done).filter(|_| table.catalog.triggers.is_empty());
    refuse_passed_over(database, table, columns, writes, told)
}

/// Refuses when more rows were changed than named, because the others may be anybody's. They are
/// overwritten by now, so the caller may only roll back.
fn refuse_more(table: &ResolvedTable, writes: &[Write<'_>], done: u64) -> Result<(), Error> {
    if usize::try_from(done).is_ok_and(|done| done <= writes.len()) {
        return Ok(());
    }
    Err(several_rows(table, "updating rows", "overwritten"))
}

/// Returns the error for a change of more rows than were named.
pub(crate) fn several_rows(table: &ResolvedTable, doing: &'static str, done: &str) -> Error {
    let message = format!(
        "table {}: several rows have one identity ({}), so that a row of somebody else would be {done}",
        table.name,
        table.identity.join(", ")
    );
    Error::Database {
        doing,
        source: DatabaseError {
            kind: DatabaseErrorKind::Other,
            message,
            said: Said::default(),
        },
    }
}

/// Returns the error for rows that their own key does not find: the database compares values of
/// such a type otherwise than it gives them out.
pub(crate) fn unfindable(table: &ResolvedTable) -> Error {
    let message = format!(
        "table {}: rows are not found by the values that the database gives of their key ({})",
        table.name,
        table.identity.join(", ")
    );
    Error::Database {
        doing: "looking for rows by their key",
        source: DatabaseError {
            kind: DatabaseErrorKind::Other,
            message,
            said: Said::default(),
        },
    }
}

/// Returns the error for overwritten rows that their key finds no more: no record could.
pub(crate) fn lost_rows(table: &ResolvedTable, rows: usize) -> Error {
    let message = format!(
        "table {}: {rows} of the rows that were overwritten have another key ({}) since, or are gone, as a trigger may cause it (triggers of the table: {}), so that nothing would bring them back",
        table.name,
        table.identity.join(", "),
        table.catalog.triggers.join(", ")
    );
    Error::Database {
        doing: "updating rows",
        source: DatabaseError {
            kind: DatabaseErrorKind::Other,
            message,
            said: Said::default(),
        },
    }
}

/// Returns the error for rows that no statement can name.
pub(crate) fn unnamed_rows(table: &ResolvedTable) -> Error {
    let message = format!(
        "table {}: rows have NULL in their identity ({}), so that a disguise in parts would leave them in clear; give them a key, or leave them out by a condition",
        table.name,
        table.identity.join(", ")
    );
    Error::Database {
        doing: "choosing the rows of a chunk",
        source: DatabaseError {
            kind: DatabaseErrorKind::Other,
            message,
            said: Said::default(),
        },
    }
}

/// Refuses when rows do not hold the written values. This is checked if the database reported fewer
/// rows, or if triggers make its count meaningless.
fn refuse_passed_over(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
    told: Option<u64>,
) -> Result<(), Error> {
    let told = told.map(|told| usize::try_from(told).unwrap_or(usize::MAX));
    if told.is_some_and(|told| told >= writes.len()) {
        return Ok(());
    }
    // Columns that name people or rows may hold another form of an equal value.
    let names = |it: &&str| table.people().chain(&table.identity).any(|name| name == it);
    let are_names = columns.iter().all(names);
    let mut left: usize = 0;
    for (write, now) in writes.iter().zip(stored(database, table, columns, writes)?) {
        let is_written = match &now {
            Some(Stored { values, .. }) if are_same(values, write.values) => true,
            Some(now) if are_names => holds(database, table, (columns, write.values), now)?,
            _ => false,
        };
        left = left.saturating_add(usize::from(!is_written));
    }
    refuse_left(database, table, left)
}

fn refuse_left(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    left: usize,
) -> Result<(), Error> {
    if left == 0 {
        return Ok(());
    }
    Err(Error::Database {
        doing: "updating rows",
        source: database.passed_over(&table.name, left),
    })
}

fn write_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
    run: Run,
) -> Result<u64, Error> {
    if writes.is_empty() {
        return Ok(0);
    }
    let dialect = database.dialect();
    let own = database.tenancy().and(dialect, &table.name, &table.name);
    if dialect == Dialect::Sqlite {
        refuse_unchangeable(database, table, columns, writes)?;
        return update_each(database, (table, &own), columns, writes);
    }
    let width = written_width(dialect, table, columns.len());
    let mut changed: u64 = 0;
    for some in writes.chunks(dialect.changes_max()) {
        for list in joined_lists(some, width) {
            let (mut sql, parameters) = match dialect {
                Dialect::Mysql => case_by_case(dialect, table, columns, &list),
                _ => through_list(dialect, table, columns, &list),
            };
            sql.push_str(&own.sql);
            let values = with(parameters, &own);
            let done = run(database, &sql, &values).doing("updating rows")?;
            changed = changed.saturating_add(done);
        }
    }
    Ok(changed)
}

/// Returns the number of parameters for each row of an update of so many columns.
fn written_width(dialect: Dialect, table: &ResolvedTable, columns: usize) -> usize {
    let keys = table.identity.len();
    let width = match dialect {
        // The identity comes with each value, and once more.
        Dialect::Mysql => keys.saturating_add(1).saturating_mul(columns),
        _ => columns,
    };
    width.saturating_add(keys)
}

/// Returns `a = ? AND b = ?` for an identity.
pub(crate) fn is_row(dialect: Dialect, table: &ResolvedTable) -> String {
    let equal = table.identity.iter();
    let equal: Vec<String> = equal
        .map(|key| format!("{} = ?", dialect.quote(key)))
        .collect();
    equal.join(" AND ")
}

/// Returns `a = ?, b = ?` for columns, with the expression of `value` for each mark.
fn assigned(dialect: Dialect, columns: &[&str], value: impl Fn(usize, &str) -> String) -> String {
    let all = columns.iter().enumerate();
    let all: Vec<String> = all
        .map(|(index, column)| {
            let column = dialect.quote(column);
            format!("{column} = {}", value(index, &column))
        })
        .collect();
    all.join(", ")
}

/// Returns `, c = c` for each column that the database would set to the time of the update.
pub(crate) fn unstamped(dialect: Dialect, table: &ResolvedTable, written: &[&str]) -> String {
    let stamped = table.catalog.stamped.iter();
    let others = stamped.filter(|column| !written.contains(&column.as_str()));
    let kept = others.map(|column| {
        let column = dialect.quote(column);
        format!(", {column} = {column}")
    });
    kept.collect()
}

/// Runs an update for each row: in the same process a prepared statement beats a join with a list
/// of values.
fn update_each(
    database: &mut dyn TenantConnection,
    (table, own): (&ResolvedTable, &Fragment),
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<u64, Error> {
    let dialect = database.dialect();
    let sql = format!(
        "{} {} SET {} WHERE {}{}",
        table.catalog.update(),
        dialect.quote(&table.name),
        assigned(dialect, columns, |_, _| "?".to_owned()),
        is_row(dialect, table),
        own.sql
    );
    let rows: Vec<Vec<Value>> = writes
        .iter()
        .map(|write| [write.values, write.identity, &own.parameters].concat())
        .collect();
    database.execute_each(&sql, &rows).doing("updating rows")
}

/// Runs an update from a list of identities and values.
fn through_list(
    dialect: Dialect,
    table: &ResolvedTable,
    columns: &[&str],
    run: &[Write<'_>],
) -> (String, Vec<Value>) {
    let target = dialect.quote(&table.name);
    let keys = (0..table.identity.len()).map(|index| format!("k{index}"));
    let names: Vec<String> = keys
        .chain((0..columns.len()).map(|index| format!("v{index}")))
        .collect();
    let equal: Vec<String> = table
        .identity
        .iter()
        .zip(&names)
        .map(|(key, name)| format!("{target}.{} = {LIST}.{name}", dialect.quote(key)))
        .collect();
    let typed: Vec<String> = table
        .identity
        .iter()
        .map(String::as_str)
        .chain(columns.iter().copied())
        .map(|name| dialect.typed(table.catalog.column(name)))
        .collect();
    let sql = format!(
        "WITH {LIST}({}) AS (VALUES {}) UPDATE {target} SET {} FROM {LIST} WHERE {}",
        names.join(","),
        repeated(run.len(), &typed.join(",")),
        assigned(dialect, columns, |index, _| format!("{LIST}.v{index}")),
        equal.join(" AND ")
    );
    let parameters = run.iter().flat_map(|write| [write.identity, write.values]);
    (sql, parameters.flatten().cloned().collect())
}

/// Runs an update that compares each row with the identities. A list would have a collation of its
/// own, which conflicts with that of a text column.
fn case_by_case(
    dialect: Dialect,
    table: &ResolvedTable,
    columns: &[&str],
    run: &[Write<'_>],
) -> (String, Vec<Value>) {
    let among = among(dialect, &table.identity, run.len());
    let target = dialect.quote(&table.name);
    let mut parameters = Vec::new();
    let set = if let [only] = run {
        parameters.extend_from_slice(only.values);
        assigned(dialect, columns, |_, _| "?".to_owned())
    } else {
        for index in 0..columns.len() {
            for write in run {
                parameters.extend_from_slice(write.identity);
                parameters.extend(write.values.get(index).cloned());
            }
        }
        let case = format!(" WHEN {} THEN ?", is_row(dialect, table)).repeat(run.len());
        assigned(dialect, columns, |_, column| {
            format!("CASE{case} ELSE {column} END")
        })
    };
    for write in run {
        parameters.extend_from_slice(write.identity);
    }
    let stamps = unstamped(dialect, table, columns);
    (
        format!("UPDATE {target} SET {set}{stamps} WHERE {among}"),
        parameters,
    )
}
