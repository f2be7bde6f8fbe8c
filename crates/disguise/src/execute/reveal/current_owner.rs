//! Present owners of rows: the key of a person's row may belong to somebody else's row since.

use std::collections::{BTreeMap, BTreeSet};

use super::Revealer;
use super::report::KeptReason;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::registry;
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::path_end::ends;
use crate::statements::row::{at, encoded, picked, put};
use crate::statements::table::{present, select_keys};

/// A row as it is now.
pub(super) struct Now {
    /// The values of the columns asked for.
    pub(super) values: Vec<Value>,
    /// The reason why no values of the person may go into it, if it is not theirs.
    pub(super) strange: Option<KeptReason>,
    /// True if another row has the same identity, as is possible in a table that others inherit
    /// from.
    pub(super) is_double: bool,
}

impl Now {
    /// Returns whether the row has NULL in the first of these columns.
    pub(super) fn is_empty(&self) -> bool {
        self.values.first().is_some_and(Value::is_null)
    }

    /// Returns whether the first of these columns names one of `people`.
    pub(super) fn names(&self, people: &BTreeSet<Vec<u8>>) -> bool {
        let first = self.values.first();
        first.is_some_and(|it| people.contains(&it.principal()))
    }
}

impl Revealer<'_> {
    /// Returns the rows that `rows` name, by their identity, with their values of `asked`. Each is
    /// judged with the restored value of `column`, which may be the one that names the owner.
    pub(super) fn rows_now(
        &mut self,
        table: &ResolvedTable,
        asked: &[&str],
        rows: &[Modified],
    ) -> Result<BTreeMap<Vec<u8>, Now>, Error> {
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let mut columns = table.identity.clone();
        columns.extend(telling(table).cloned());
        let width = columns.len();
        let mut wanted = columns.clone();
        wanted.extend(asked.iter().map(|it| (*it).to_owned()));
        let by = &table.identity;
        let mut found = select_keys(self.database, &table.name, &wanted, by, &keys)?;
        let back = asked.first().filter(|it| tells(table, it));
        let said_before: BTreeMap<Vec<u8>, &Value> = match back {
            Some(_) => rows
                .iter()
                .map(|row| (encoded(&row.identity), &row.before))
                .collect(),
            None => BTreeMap::new(),
        };
        let mut held = Vec::with_capacity(found.len());
        for row in &mut found {
            let values = row.split_off(width.min(row.len()));
            let name = encoded(&picked(&columns, row, by));
            if let (Some(column), Some(before)) = (back, said_before.get(&name)) {
                put(&columns, row, column, (*before).clone());
            }
            held.push((name, values));
        }
        let strange = self.strange(table, &columns, &found)?;
        let mut now: BTreeMap<Vec<u8>, Now> = BTreeMap::new();
        for ((name, values), strange) in held.into_iter().zip(strange) {
            let is_double = table.catalog.has_heirs && now.contains_key(&name);
            let it = Now {
                values,
                strange,
                is_double,
            };
            now.insert(name, it);
        }
        Ok(now)
    }

    /// Returns for each of `rows` the reason why it is not one of the returning person or of their
    /// placeholders, if it is not. Owners decide, and readers if no owner is registered: then a
    /// record is kept for the readers.
    pub(super) fn strange(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Option<KeptReason>>, Error> {
        if table.owners.is_empty() && table.readers.is_empty() && table.path.is_none() {
            return Ok(vec![None; rows.len()]);
        }
        let of = |names: &[String], row: &Vec<Value>| -> Vec<Value> {
            let people = names.iter().filter_map(|it| at(columns, row, it));
            people.filter(|it| !it.is_nobody()).cloned().collect()
        };
        let ends = match &table.path {
            Some(path) => ends(self.database, path, columns, rows)?,
            None => Vec::new(),
        };
        let mut owners: Vec<Vec<Value>> = rows.iter().map(|row| of(&table.owners, row)).collect();
        for (owners, end) in owners.iter_mut().zip(&ends) {
            owners.extend(end.iter().filter(|it| !it.is_nobody()).cloned());
        }
        let readers: Vec<Vec<Value>> = rows.iter().map(|row| of(&table.readers, row)).collect();
        let all = owners.iter().chain(&readers).flatten();
        self.people.meet(self.database, all)?;
        let mut strange = Vec::with_capacity(rows.len());
        let mut in_doubt = BTreeSet::new();
        for (index, (owners, readers)) in owners.iter().zip(&readers).enumerate() {
            let reason = self.people.stranger(owners);
            if reason.is_some() && self.people.stranger(readers).is_none() {
                in_doubt.extend(owners.iter().map(|it| self.people.meant(&it.principal())));
            }
            let is_broken = ends.get(index).is_some_and(Vec::is_empty);
            strange.push(match reason {
                Some(KeptReason::OwnerMissing) if is_broken => Some(KeptReason::ParentMissing),
                reason => reason,
            });
        }
        let in_doubt: Vec<Vec<u8>> = in_doubt.into_iter().collect();
        let registered = registry::principals(self.database, &in_doubt)?;
        for ((strange, owners), readers) in strange.iter_mut().zip(&owners).zip(&readers) {
            let is_registered =
                |it: &Value| registered.contains_key(&self.people.meant(&it.principal()));
            let is_read = strange.is_some() && self.people.stranger(readers).is_none();
            if is_read && !owners.iter().any(is_registered) {
                *strange = None;
            }
        }
        Ok(strange)
    }

    /// Moves rows that are owned through others, and would lie under somebody else's, to `kept`.
    pub(super) fn drop_strangers(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &mut Vec<(Vec<Value>, Vec<Value>)>,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<(), Error> {
        if table.path.is_none() {
            return Ok(());
        }
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let strange = self.strange(table, columns, &rows)?;
        for ((original, row), strange) in std::mem::take(ready).into_iter().zip(strange) {
            match strange {
                None => ready.push((original, row)),
                Some(reason) => kept.push((original, reason)),
            }
        }
        Ok(())
    }

    /// Returns whether rows that wait for each other may go back if they are owned through others:
    /// the rows they refer to belong to the person, or wait too.
    pub(super) fn may_wait(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<bool>, Error> {
        let Some(step) = table.path.as_ref().and_then(|path| path.steps.first()) else {
            return Ok(vec![true; rows.len()]);
        };
        let strange = self.strange(table, columns, rows)?;
        let key = |row: &Vec<Value>| picked(columns, row, &step.columns);
        let keys: Vec<Vec<Value>> = rows.iter().map(key).collect();
        let there = present(self.database, &step.to_table, &step.to_columns, &keys)?;
        let may = keys.iter().zip(strange);
        Ok(may
            .map(|(key, strange)| strange.is_none() || !there.contains(&encoded(key)))
            .collect())
    }
}

/// Returns the columns that name the owner of a row.
fn telling(table: &ResolvedTable) -> impl Iterator<Item = &String> {
    let first = table.path.as_ref().and_then(|path| path.steps.first());
    let through = first.into_iter().flat_map(|step| &step.columns);
    table.people().chain(through)
}

/// Returns whether `column` names the owner of a row.
pub(super) fn tells(table: &ResolvedTable, column: &str) -> bool {
    telling(table).any(|it| it == column)
}
