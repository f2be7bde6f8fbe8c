//! Set-based statements over one table: select and insert many rows at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{
    DatabaseError, DatabaseErrorKind, Dialect, INSERT_INTO, PARAMETERS_MAX, Said, placeholders,
    tuples,
};
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::held::held;
use crate::statements::outcome::{Done, inserted, is_there};
use crate::statements::overwrite::Write;
use crate::statements::read_back::{ReadBack, changed_by_type, parts, undo};
use crate::statements::row::encoded;

/// The most rows or keys in one statement.
const ROWS_MAX: usize = 1_024;

/// The most keys of several columns in one statement: `PostgreSQL` plans a look into the index for
/// each, and above some hundreds reads the whole table for all of them.
const TUPLES_MAX: usize = 128;

/// The most questions in one statement, below what every engine takes as columns of an answer.
const QUESTIONS_MAX: usize = 256;

/// The number of values that a query about one key counts as, so that a statement has few enough
/// queries.
const QUESTION_WIDTH: usize = 60;

/// Up to this number, rows are inserted by one statement of exactly their number; beyond, in runs
/// of powers of two. A statement that was prepared for another number costs one more round trip,
/// and so does each further run.
const EXACT_ROWS_MAX: usize = 64;

/// Returns the number of tuples of `width` values that fit into one statement, a power of two.
pub(crate) fn rows_max(width: usize) -> usize {
    let most = PARAMETERS_MAX.checked_div(width.max(1)).unwrap_or(1);
    power_of_two(most.clamp(1, ROWS_MAX))
}

/// Returns the greatest power of two that is not above `count`, which is not zero.
const fn power_of_two(count: usize) -> usize {
    match count.checked_ilog2() {
        Some(log) => 1 << log,
        None => 1,
    }
}

/// Cuts `rows` of `width` values into runs that fit into one statement each.
pub(crate) fn runs<T>(mut rows: &[T], width: usize) -> impl Iterator<Item = &[T]> {
    let most = rows_max(width);
    std::iter::from_fn(move || {
        let count = match rows.len() {
            0 => return None,
            few if few <= most.min(EXACT_ROWS_MAX) => few,
            many => power_of_two(many.min(most)),
        };
        let (run, rest) = rows.split_at(count);
        rows = rest;
        Some(run)
    })
}

/// Cuts `keys` of `width` values into lists for one statement each. Their lengths are powers of
/// two, so that few texts are prepared: the last key is repeated, which does not change the result.
pub(crate) fn lists<T: Clone>(keys: &[T], width: usize) -> impl Iterator<Item = Vec<T>> {
    let most = if width > 1 { TUPLES_MAX } else { ROWS_MAX };
    lists_of(keys, rows_max(width).min(most))
}

/// Cuts `rows` of `width` values likewise, for statements that join them as a table.
pub(crate) fn joined_lists<T: Clone>(rows: &[T], width: usize) -> impl Iterator<Item = Vec<T>> {
    lists_of(rows, rows_max(width))
}

fn lists_of<T: Clone>(keys: &[T], most: usize) -> impl Iterator<Item = Vec<T>> {
    keys.chunks(most).map(|some| {
        let mut list = some.to_vec();
        if let Some(last) = some.last() {
            list.resize(some.len().next_power_of_two(), last.clone());
        }
        list
    })
}

pub(crate) fn list(dialect: Dialect, columns: &[String]) -> String {
    columns
        .iter()
        .map(|column| dialect.quote(column))
        .collect::<Vec<_>>()
        .join(",")
}

/// `(a,b) IN (...)` over `rows` keys.
pub(crate) fn among(dialect: Dialect, columns: &[String], rows: usize) -> String {
    if let [column] = columns {
        return format!("{} IN ({})", dialect.quote(column), placeholders(rows));
    }
    let values = if dialect == Dialect::Sqlite {
        "VALUES "
    } else {
        ""
    };
    format!(
        "({}) IN ({values}{})",
        list(dialect, columns),
        tuples(rows, columns.len())
    )
}

/// Returns `parameters` followed by those of `own`.
pub(crate) fn with(mut parameters: Vec<Value>, own: &Fragment) -> Vec<Value> {
    parameters.extend_from_slice(&own.parameters);
    parameters
}

/// Returns the count that a query gives, of rows.
pub(crate) fn counted(
    database: &mut dyn TenantConnection,
    sql: &str,
    parameters: &[Value],
) -> Result<u64, Error> {
    let rows = database.query(sql, parameters).doing("counting rows")?;
    count_of(&rows)
}

/// Returns the count in the only row of an answer.
pub(crate) fn count_of(rows: &[Vec<Value>]) -> Result<u64, Error> {
    match rows.first().and_then(|row| row.first()) {
        Some(Value::Int(count)) => Ok(count.unsigned_abs()),
        _ => Err(Error::Defect {
            what: "the database counted rows, and the answer is no number",
        }),
    }
}

/// Returns the rows that `chosen` selects, at most `most` of them.
pub(crate) fn select(
    database: &mut dyn TenantConnection,
    table: &str,
    columns: &[String],
    chosen: &Fragment,
    most: Option<u32>,
) -> Result<Vec<Vec<Value>>, Error> {
    let dialect = database.dialect();
    let chosen = database.tenancy().bound(dialect, table, chosen);
    let sql = format!(
        "SELECT {} FROM {} WHERE {}{}",
        list(dialect, columns),
        dialect.quote(table),
        chosen.sql,
        limit(most)
    );
    database
        .query(&sql, &chosen.parameters)
        .doing("reading rows")
}

pub(super) fn limit(most: Option<u32>) -> String {
    most.map_or_else(String::new, |most| format!(" LIMIT {most}"))
}

/// Returns the rows whose `by` columns are among `keys`.
pub(crate) fn select_keys(
    database: &mut dyn TenantConnection,
    table: &str,
    columns: &[String],
    by: &[String],
    keys: &[Vec<Value>],
) -> Result<Vec<Vec<Value>>, Error> {
    let own = database.tenancy().and(database.dialect(), table, table);
    select_keys_of(database, table, columns, (by, keys), &own)
}

/// Selects among the rows of all tenants: only to learn whether a key is taken or a row has moved.
pub(crate) fn select_keys_of_all(
    database: &mut dyn TenantConnection,
    table: &str,
    columns: &[String],
    by: &[String],
    keys: &[Vec<Value>],
) -> Result<Vec<Vec<Value>>, Error> {
    select_keys_of(database, table, columns, (by, keys), &Fragment::default())
}

fn select_keys_of(
    database: &mut dyn TenantConnection,
    table: &str,
    columns: &[String],
    (by, keys): (&[String], &[Vec<Value>]),
    own: &Fragment,
) -> Result<Vec<Vec<Value>>, Error> {
    let dialect = database.dialect();
    let mut out = Vec::new();
    for asked in lists(keys, by.len()) {
        let asked: Result<Vec<Vec<Value>>, Error> = asked
            .iter()
            .map(|key| held(database, table, by, key))
            .collect();
        let asked = asked?;
        let sql = format!(
            "SELECT {} FROM {} WHERE {}{}",
            list(dialect, columns),
            dialect.quote(table),
            among(dialect, by, asked.len()),
            own.sql
        );
        out.append(
            &mut database
                .query(&sql, &with(asked.concat(), own))
                .doing("reading rows by key")?,
        );
    }
    Ok(out)
}

/// Returns those of `columns` that name any of `ids`; one statement asks about many of them.
pub(crate) fn naming<'c>(
    database: &mut dyn TenantConnection,
    columns: &[(&'c ResolvedTable, &'c str)],
    ids: &[Value],
) -> Result<Vec<(&'c ResolvedTable, &'c str)>, Error> {
    let mut found = Vec::new();
    for some in columns.chunks(QUESTIONS_MAX) {
        let mut named = vec![false; some.len()];
        for asked in lists(ids, some.len()) {
            let (sql, parameters) = who_names(database, some, &asked);
            let rows = database
                .query(&sql, &parameters)
                .doing("looking who is named")?;
            for (named, answer) in named.iter_mut().zip(rows.iter().flatten()) {
                *named |= *answer != Value::Int(0);
            }
        }
        let named = some.iter().zip(named).filter(|(_, named)| *named);
        found.extend(named.map(|(column, _)| *column));
    }
    Ok(found)
}

/// Returns the query for the number of rows of each of `columns` that name one of `ids`. It counts,
/// although one row would do: a planner that expects to find one soon reads the whole table in
/// order, and mostly there is none.
fn who_names(
    database: &dyn TenantConnection,
    columns: &[(&ResolvedTable, &str)],
    ids: &[Value],
) -> (String, Vec<Value>) {
    let dialect = database.dialect();
    let mut questions = Vec::with_capacity(columns.len());
    let mut parameters = Vec::new();
    for (table, column) in columns {
        let own = database.tenancy().and(dialect, &table.name, &table.name);
        questions.push(format!(
            "(SELECT COUNT(*) FROM {} WHERE {}{})",
            dialect.quote(&table.name),
            among(dialect, &[(*column).to_owned()], ids.len()),
            own.sql
        ));
        let ids = table.catalog.compared(dialect, column, ids);
        parameters.extend(with(ids, &own));
    }
    (format!("SELECT {}", questions.join(",")), parameters)
}

/// The outcome of an insertion of many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// All rows are in.
    All,
    /// A key was taken or a constraint refused; none of the rows is in.
    Refused,
}

/// Inserts `rows`, all of them or none, which is no reason to give up.
pub(crate) fn try_insert(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Inserted, Error> {
    if would_change(database, table, columns, rows)? {
        return Ok(Inserted::Refused);
    }
    let done = insert_and_read(database, table, columns, rows)?;
    let Done::Passed(left) = done else {
        return Ok(done.outcome());
    };
    if let [row] = rows
        && is_there(database, table, columns, row)?
    {
        return Ok(Inserted::All);
    }
    let source = database.passed_over(&table.name, left);
    if rows.len() == 1 {
        return Ok(Inserted::Refused);
    }
    // The database does not say which of them are in. Tables where that may happen have triggers,
    // and take their rows one by one.
    Err(Error::Database {
        doing: "inserting rows",
        source,
    })
}

/// Inserts `rows` in one statement. Some may be in even when the outcome is a refusal, so the caller
/// must then roll back. More rows than a statement takes are refused.
pub(crate) fn insert_together(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Inserted, Error> {
    if rows.len() > rows_max(columns.len()) || would_change(database, table, columns, rows)? {
        return Ok(Inserted::Refused);
    }
    Ok(insert_and_read(database, table, columns, rows)?.outcome())
}

/// Inserts rows, and reads those values back that a column may store as others. Where one does, no
/// row is in.
fn insert_and_read(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Done, Error> {
    let (names, parts) = parts(database.dialect(), table, columns, rows);
    let writes = parts
        .iter()
        .map(|[identity, values]| Write { identity, values });
    let writes: Vec<Write<'_>> = writes.collect();
    let read_back = ReadBack::begin(database, table, &names, &writes)?;
    let done = attempt_insertion(database, table, columns, rows)?;
    let Some(read_back) = read_back else {
        return Ok(done);
    };
    if done != Done::All {
        undo(database)?;
        return Ok(done);
    }
    let Some(message) = read_back.end(database)? else {
        return Ok(done);
    };
    database.refuse(message);
    Ok(Done::Refused)
}

/// Returns whether the type of a column would change a value of one of the rows, which then counts as
/// refused, in a table with triggers.
fn would_change(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<bool, Error> {
    let columns = columns.iter().map(String::as_str);
    let rows = rows.iter().map(Vec::as_slice);
    let changed = changed_by_type(database, table, columns, &rows)?;
    let would_change = changed.is_some();
    if let Some(message) = changed {
        database.refuse(message);
    }
    Ok(would_change)
}

fn attempt_insertion(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Done, Error> {
    let into = (table.catalog.insert_into(), table.name.as_str());
    let sql = insertion(database.dialect(), into, columns, rows.len());
    let done = database.attempt(&sql, &rows.concat());
    inserted(done, rows.len())
}

/// Returns the statement that inserts a number of rows; `into` is its start.
pub(crate) fn insertion(
    dialect: Dialect,
    (into, table): (&str, &str),
    columns: &[String],
    rows: usize,
) -> String {
    format!(
        "{into} {} ({}) {}VALUES {}",
        dialect.quote(table),
        list(dialect, columns),
        dialect.own_values(),
        tuples(rows, columns.len())
    )
}

/// Inserts `rows`; some may be in even when one is refused, so the caller must then give up.
pub(crate) fn insert(
    database: &mut dyn TenantConnection,
    into: (&str, &str),
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Inserted, Error> {
    if rows.is_empty() {
        return Ok(Inserted::All);
    }
    if database.dialect() != Dialect::Sqlite {
        for run in runs(rows, columns.len()) {
            let sql = insertion(database.dialect(), into, columns, run.len());
            let done = database.execute(&sql, &run.concat());
            let done = inserted(done, run.len())?;
            if done != Done::All {
                return Ok(refused(database, into, done));
            }
        }
        return Ok(Inserted::All);
    }
    // A statement for many rows would keep a journal of its own, and copy each page into it.
    let sql = insertion(Dialect::Sqlite, into, columns, 1);
    let done = database.execute_each(&sql, rows);
    let done = inserted(done, rows.len())?;
    Ok(refused(database, into, done))
}

/// Returns the outcome, and notes the report about skipped rows.
fn refused(database: &mut dyn TenantConnection, (_, table): (&str, &str), done: Done) -> Inserted {
    if let Done::Passed(rows) = done {
        // The caller reads the report from the connection.
        drop(database.passed_over(table, rows));
    }
    done.outcome()
}

/// Returns the batches of `rows` that go into one statement when each may be refused, or skipped by
/// a trigger.
pub(crate) fn insertions<'r>(
    dialect: Dialect,
    table: &ResolvedTable,
    rows: &'r [Vec<Value>],
    width: usize,
) -> Box<dyn Iterator<Item = &'r [Vec<Value>]> + 'r> {
    match dialect {
        Dialect::Sqlite => Box::new(rows.chunks(1)),
        Dialect::Postgres if !table.catalog.triggers.is_empty() => Box::new(rows.chunks(1)),
        _ => Box::new(runs(rows, width)),
    }
}

/// Inserts rows that nothing should refuse. Only another operation at the same time can have one of
/// their keys: the next try finds what that left.
pub(crate) fn insert_all(
    database: &mut dyn TenantConnection,
    table: &str,
    columns: &[&str],
    rows: &[Vec<Value>],
) -> Result<(), Error> {
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    if insert(database, (INSERT_INTO, table), &columns, rows)? == Inserted::Refused {
        return Err(Error::Database {
            doing: "inserting rows",
            source: DatabaseError {
                kind: DatabaseErrorKind::Conflict,
                message: format!("another operation has just written the same row of {table}"),
                said: Said::default(),
            },
        });
    }
    Ok(())
}

/// Returns those of `ids` that exist in the column `id` of `table`, as principals. They are
/// returned as given, though the table may have them in another spelling.
pub(crate) fn existing(
    database: &mut dyn TenantConnection,
    table: &str,
    id: &str,
    ids: &[Value],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    Ok(found(database, table, id, ids)?.into_keys().collect())
}

/// Returns those of `ids` that exist, each with its value in the table.
pub(crate) fn found(
    database: &mut dyn TenantConnection,
    table: &str,
    id: &str,
    ids: &[Value],
) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
    let keys: Vec<Vec<Value>> = ids.iter().map(|id| vec![id.clone()]).collect();
    let column = [id.to_owned()];
    let rows = select_keys(database, table, &column, &column, &keys)?;
    let held = rows.into_iter().flatten();
    let held: BTreeMap<Vec<u8>, Value> = held.map(|it| (it.principal(), it)).collect();
    let mut found = BTreeMap::new();
    let mut others = Vec::new();
    for key in keys {
        let name = key.iter().map(Value::principal).next().unwrap_or_default();
        match held.get(&name) {
            Some(same) => drop(found.insert(name, same.clone())),
            None if key.iter().any(Value::has_spellings) => others.push(key),
            None => {}
        }
    }
    for (key, held) in spelled(database, table, &column, others)? {
        found.extend(key.iter().map(|it| (it.principal(), held.clone())));
    }
    Ok(found)
}

/// Returns those of `keys` that the columns `by` of `table` have, each encoded as given, though the
/// table may have it in another spelling.
pub(crate) fn present(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    keys: &[Vec<Value>],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let rows = select_keys(database, table, by, by, keys)?;
    let mut present: BTreeSet<Vec<u8>> = rows.iter().map(|row| encoded(row)).collect();
    // A number may be there as one with more digits after the point, or as a text.
    let others = keys.iter().filter(|key| !present.contains(&encoded(key)));
    let others = others.cloned().collect();
    let spelled = spelled(database, table, by, others)?;
    present.extend(spelled.iter().map(|(key, _)| encoded(key)));
    Ok(present)
}

/// Returns those of `keys` that `table` has in another spelling, with its values of the first
/// column. Only the database knows equal values, so each is asked for.
fn spelled(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    mut keys: Vec<Vec<Value>>,
) -> Result<Vec<(Vec<Value>, Value)>, Error> {
    keys.retain(|key| !key.iter().any(Value::is_null));
    let (Some(first), dialect) = (by.first(), database.dialect()) else {
        return Ok(Vec::new());
    };
    let own = database.tenancy().and(dialect, table, table);
    let same: Vec<String> = by
        .iter()
        .map(|column| format!("{} = ?", dialect.quote(column)))
        .collect();
    let question = format!(
        "(SELECT {} FROM {} WHERE {}{} LIMIT 1)",
        dialect.quote(first),
        dialect.quote(table),
        same.join(" AND "),
        own.sql
    );
    let mut spelled = Vec::new();
    for some in keys.chunks(QUESTIONS_MAX) {
        for asked in lists(some, QUESTION_WIDTH.max(by.len())) {
            let sql = format!("SELECT {}", vec![question.as_str(); asked.len()].join(","));
            let mut parameters = Vec::new();
            for key in &asked {
                parameters.append(&mut with(held(database, table, by, key)?, &own));
            }
            let answer = database.query(&sql, &parameters);
            let answer = answer.doing("looking for another spelling")?.concat();
            let held = asked.into_iter().zip(answer);
            spelled.extend(held.filter(|(_, held)| !held.is_null()));
        }
    }
    Ok(spelled)
}
