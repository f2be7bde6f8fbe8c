//! Values of its own for each of many rows, all columns and as many rows as fit by one statement.

use std::collections::BTreeMap;

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseError, Dialect, repeated};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::outcome::are_same;
use crate::statements::row::{encoded, moved};
use crate::statements::table::{among, lists, select_keys, with};

/// What to write into a row: its identity, and a new value for each column.
#[derive(Clone)]
pub(crate) struct Write<'a> {
    pub(crate) identity: &'a [Value],
    pub(crate) values: &'a [Value],
}

/// Runs a statement, and gives how many rows it changed.
type Run = fn(&mut dyn TenantConnection, &str, &[Value]) -> Result<u64, DatabaseError>;

/// Writes values of its own into each row. A row that the database passes over without an error is refused like one that breaks
/// a constraint; a caller that hears of a refusal gives up.
pub(crate) fn update_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    update_as_given(database, table, columns, writes, execute)
}

/// Does as [`update_keys`], but a refusal is no reason to give up, though rows may have been written before it.
pub(crate) fn try_update_keys(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let attempt: Run = |database, sql, values| database.attempt(sql, values);
    update_as_given(database, table, columns, writes, attempt)
}

/// Does as [`update_keys`] for values that columns may store in another form; the caller sees whether a trigger put others in their
/// place.
pub(crate) fn update_drawn(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let done = write_keys(database, table, columns, writes, execute)?;
    refuse_passed_over(database, table, columns, writes, Some(done))
}

fn execute(
    database: &mut dyn TenantConnection,
    sql: &str,
    values: &[Value],
) -> Result<u64, DatabaseError> {
    database.execute(sql, values)
}

fn update_as_given(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
    run: Run,
) -> Result<(), Error> {
    let done = write_keys(database, table, columns, writes, run)?;
    let told = Some(done).filter(|_| table.catalog.triggers.is_empty());
    refuse_passed_over(database, table, columns, writes, told)
}

/// Refuses when rows do not hold what was written into them. That is looked at where the database told of fewer rows, or where
/// what it told says nothing because triggers may have changed them.
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
    let found = select_keys(database, &table.name, &wanted, &table.identity, &keys)?;
    let mut held: BTreeMap<Vec<u8>, Vec<Value>> = BTreeMap::new();
    for mut key in found {
        let values = key.split_off(table.identity.len().min(key.len()));
        held.insert(encoded(&key), values);
    }
    let is_written = |(key, write): &(&Vec<Value>, &Write<'_>)| {
        let now = held.get(&encoded(key));
        now.is_some_and(|now| are_same(now, write.values))
    };
    let left = keys.iter().zip(writes).filter(|it| !is_written(it)).count();
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
        return update_each(database, (table, &own), columns, writes);
    }
    let keys = table.identity.len();
    let width = match dialect {
        // The identity comes with each value, and once more.
        Dialect::Mysql => keys.saturating_add(1).saturating_mul(columns.len()),
        _ => columns.len(),
    };
    let width = width.saturating_add(keys);
    let mut changed: u64 = 0;
    for some in writes.chunks(dialect.changes_max()) {
        for list in lists(some, width) {
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

/// `a = ? AND b = ?` for an identity.
pub(crate) fn is_row(dialect: Dialect, table: &ResolvedTable) -> String {
    let equal = table.identity.iter();
    let equal: Vec<String> = equal
        .map(|key| format!("{} = ?", dialect.quote(key)))
        .collect();
    equal.join(" AND ")
}

/// `a = ?, b = ?` for columns, each with what `value` gives in the place of the mark.
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

/// `, c = c` for each column that the database would set to the time of the update.
pub(crate) fn unstamped(dialect: Dialect, table: &ResolvedTable, written: &[&str]) -> String {
    let stamped = table.catalog.stamped.iter();
    let others = stamped.filter(|column| !written.contains(&column.as_str()));
    let kept = others.map(|column| {
        let column = dialect.quote(column);
        format!(", {column} = {column}")
    });
    kept.collect()
}

/// An update for each row: in the same process a statement prepared once beats a join with a list of values.
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

/// An update from a list of identities and values.
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
        .map(|(key, name)| format!("{target}.{} = m.{name}", dialect.quote(key)))
        .collect();
    let typed: Vec<String> = table
        .identity
        .iter()
        .map(String::as_str)
        .chain(columns.iter().copied())
        .map(|name| dialect.typed(table.catalog.column(name)))
        .collect();
    let sql = format!(
        "WITH m({}) AS (VALUES {}) UPDATE {target} SET {} FROM m WHERE {}",
        names.join(","),
        repeated(run.len(), &typed.join(",")),
        assigned(dialect, columns, |index, _| format!("m.v{index}")),
        equal.join(" AND ")
    );
    let parameters = run.iter().flat_map(|write| [write.identity, write.values]);
    (sql, parameters.flatten().cloned().collect())
}

/// An update that compares each row with the identities; a list would have a collation of its own, which clashes with
/// that of a text column.
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
