//! Ends of paths: follows rows to their owners, over existing rows and removed ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::path::Path;
use crate::statements::row::{encoded, picked};
use crate::statements::table::{found, select_keys};

/// Rows in records that the database no longer has, by their tables, each run with its columns.
#[derive(Default)]
pub(crate) struct RemovedRows<'r>(BTreeMap<&'r str, Vec<RemovedRun<'r>>>);

/// Rows with the same columns.
type RemovedRun<'r> = (&'r [String], Vec<&'r [Value]>);

impl<'r> RemovedRows<'r> {
    pub(crate) fn add(
        &mut self,
        table: &'r str,
        columns: &'r [String],
        rows: impl Iterator<Item = &'r [Value]>,
    ) {
        let runs = self.0.entry(table).or_default();
        runs.push((columns, rows.collect()));
    }

    /// Returns the rows of `table` with one of `keys` in the columns `by`, by their key.
    pub(crate) fn by_key(
        &self,
        table: &str,
        by: &[String],
        keys: &BTreeSet<Vec<u8>>,
    ) -> BTreeMap<Vec<u8>, Vec<RemovedRow<'r>>> {
        let mut rows: BTreeMap<Vec<u8>, Vec<RemovedRow<'r>>> = BTreeMap::new();
        for (columns, run) in self.0.get(table).into_iter().flatten() {
            for row in run {
                let key = encoded(&picked(columns, row, by));
                if keys.contains(&key) {
                    rows.entry(key).or_default().push((*columns, *row));
                }
            }
        }
        rows
    }
}

/// A row, with its columns.
type RemovedRow<'r> = (&'r [String], &'r [Value]);

/// The owners to which a path leads from a row: one, unless a row on the way was removed and another has its key since.
#[derive(Default, Clone)]
pub(crate) struct PathEnd {
    pub(crate) owners: Vec<Value>,
    /// A row on the way is nowhere.
    pub(crate) is_lost: bool,
}

/// Follows `path` from each row to the owner at its end, one query for each step; nothing if a row
/// on the way is missing.
pub(crate) fn ends(
    database: &mut dyn TenantConnection,
    path: &Path,
    columns: &[String],
    rows: &[Vec<Value>],
) -> Result<Vec<Vec<Value>>, Error> {
    let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
    let ends = ends_over(database, path, (columns, &rows), &RemovedRows::default())?;
    Ok(ends.into_iter().map(|it| it.owners).collect())
}

/// Follows `path` as [`ends`] does, also over rows that were removed.
pub(crate) fn ends_over(
    database: &mut dyn TenantConnection,
    path: &Path,
    (columns, rows): (&[String], &[&[Value]]),
    removed: &RemovedRows<'_>,
) -> Result<Vec<PathEnd>, Error> {
    let mut steps = path.steps.iter().peekable();
    let first = steps.peek().map(|first| first.columns.as_slice());
    let first = first.unwrap_or_default();
    let mut ends: Vec<PathEnd> = vec![PathEnd::default(); rows.len()];
    let mut at: Vec<Vec<Vec<Value>>> = Vec::with_capacity(rows.len());
    for (row, end) in rows.iter().zip(&mut ends) {
        let key = picked(columns, row, first);
        end.is_lost = key.len() < first.len();
        at.push(vec![key]);
    }
    while let Some(step) = steps.next() {
        let by = &step.to_columns;
        let wanted = match steps.peek() {
            Some(next) => next.columns.clone(),
            None => vec![path.owner.clone()],
        };
        for keys in &mut at {
            // Whatever refers to nothing belongs to nobody.
            keys.retain(|key| key.len() == by.len() && !key.iter().any(Value::is_null));
        }
        let next = following(database, (&step.to_table, by, &wanted), &at, removed)?;
        for (keys, end) in at.iter_mut().zip(&mut ends) {
            let before = std::mem::take(keys);
            for key in &before {
                match next.get(&encoded(key)) {
                    Some(more) => keys.extend(more.iter().cloned()),
                    None => end.is_lost = true,
                }
            }
        }
    }
    for (owners, end) in at.into_iter().zip(&mut ends) {
        end.owners = owners.into_iter().flatten().collect();
    }
    Ok(ends)
}

/// Returns the values in the columns `wanted` of the rows that have one of `keys` in the columns
/// `by`, grouped by these keys as given.
fn following(
    database: &mut dyn TenantConnection,
    (table, by, wanted): (&str, &[String], &[String]),
    keys: &[Vec<Vec<Value>>],
    removed: &RemovedRows<'_>,
) -> Result<BTreeMap<Vec<u8>, Vec<Vec<Value>>>, Error> {
    let mut seen = BTreeSet::new();
    let keys = keys.iter().flatten();
    let keys = keys.filter(|key| seen.insert(encoded(key)));
    let keys: Vec<Vec<Value>> = keys.cloned().collect();
    let columns = [by, wanted].concat();
    let mut next: BTreeMap<Vec<u8>, Vec<Vec<Value>>> = BTreeMap::new();
    for mut row in select_keys(database, table, &columns, by, &keys)? {
        let rest = row.split_off(by.len().min(row.len()));
        // A key names one row.
        next.insert(encoded(&row), vec![rest]);
    }
    for (asked, held) in spellings_of(database, table, by, &keys, &next)? {
        if let Some(rest) = next.get(&held).cloned() {
            next.insert(asked, rest);
        }
    }
    for (key, rows) in removed.by_key(table, by, &seen) {
        let whole = rows
            .iter()
            .map(|(columns, row)| picked(columns, row, wanted));
        let whole = whole.filter(|row| row.len() == wanted.len());
        next.entry(key).or_default().extend(whole);
    }
    next.retain(|_, rows| !rows.is_empty());
    Ok(next)
}

/// Returns the spellings in `table` of those of `keys`, of one column, that `known` lacks.
fn spellings_of(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    keys: &[Vec<Value>],
    known: &BTreeMap<Vec<u8>, Vec<Vec<Value>>>,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let is_unknown = |key: &Vec<Value>| !known.contains_key(&encoded(key));
    let ([by], true) = (by, keys.iter().any(is_unknown)) else {
        return Ok(BTreeMap::new());
    };
    let unknown = keys.iter().filter(|key| is_unknown(key));
    let unknown: Vec<Value> = unknown.flatten().cloned().collect();
    let mut held = found(database, table, by, &unknown)?;
    let held = unknown.into_iter().filter_map(|it| {
        let held = held.remove(&it.principal())?;
        Some((encoded(&[it]), encoded(&[held])))
    });
    Ok(held.collect())
}
