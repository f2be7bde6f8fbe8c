//! Present owners of rows: the key of a person's row may belong to somebody else's row since.

use std::collections::{BTreeMap, BTreeSet};

use super::owners::Owners;
use super::report::KeptReason;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::registry;
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::path_end::ends;
use crate::statements::row::{at, encoded, picked, put, whole_key};
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
    /// True if the row names somebody besides the returning person and their placeholders: their
    /// disguises may have overwritten it too, and their records are not open.
    pub(super) is_shared: bool,
}

/// The people whom a row names.
struct Named {
    /// Owners, by the row's own columns or along the path to them.
    owners: Vec<Value>,
    readers: Vec<Value>,
    /// True if the path to the owners breaks off.
    is_broken: bool,
}

impl Named {
    fn all(&self) -> impl Iterator<Item = &Value> {
        self.owners.iter().chain(&self.readers)
    }
}

impl Now {
    /// Returns whether the row has NULL in the first of these columns.
    pub(super) fn is_empty(&self) -> bool {
        self.values.first().is_some_and(Value::is_null)
    }

    /// Returns whether the row has `value` in the first of these columns.
    pub(super) fn holds(&self, value: &Value) -> bool {
        self.values.first().is_some_and(|it| it.same(value))
    }
}

impl Owners<'_, '_> {
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
        let people = self.named(table, &columns, &found)?;
        let strange = self.strangers(&people)?;
        let mut now: BTreeMap<Vec<u8>, Now> = BTreeMap::new();
        for (((name, values), strange), named) in held.into_iter().zip(strange).zip(&people) {
            let is_double = table.catalog.has_heirs && now.contains_key(&name);
            let is_other = |it: &Value| self.people.stranger(std::slice::from_ref(it)).is_some();
            let it = Now {
                values,
                strange,
                is_double,
                is_shared: named.as_ref().is_some_and(|it| it.all().any(is_other)),
            };
            now.insert(name, it);
        }
        Ok(now)
    }

    /// Returns for each of the removed `rows` of the bag with number `index` the reason why it is not
    /// one of the returning person or of their placeholders, if it is not. Owners decide, and readers
    /// if no owner is registered: then a record is kept for the readers. A row that named nobody when
    /// it went along with one of the person's is theirs to bring back, as long as nobody has come to
    /// these ids.
    fn strange(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Option<KeptReason>>, Error> {
        let people = self.named(table, columns, rows)?;
        let mut strange = self.strangers(&people)?;
        let nobody = self.others.nobody(index)?.clone();
        let named_nobody = |it: &Named| {
            let mut names = it.all().map(Value::principal);
            !it.is_broken && !it.owners.is_empty() && names.all(|name| nobody.contains(&name))
        };
        let in_doubt = people.iter().zip(&strange);
        let in_doubt = in_doubt.filter(|(_, strange)| strange.is_some());
        let in_doubt = in_doubt.filter_map(|(named, _)| named.as_ref());
        let in_doubt = in_doubt.filter(|it| named_nobody(it)).flat_map(Named::all);
        let in_doubt: Vec<Value> = in_doubt.cloned().collect();
        if in_doubt.is_empty() {
            return Ok(strange);
        }
        let names: Vec<Vec<u8>> = in_doubt.iter().map(Value::principal).collect();
        let mut there = self.people.users(self.database, &in_doubt)?;
        there.extend(registry::principals(self.database, &names)?.into_keys());
        for (strange, named) in strange.iter_mut().zip(&people) {
            let Some(named) = named else { continue };
            let mut names = named.all().map(Value::principal);
            if named_nobody(named) && !names.any(|name| there.contains(&name)) {
                *strange = None;
            }
        }
        Ok(strange)
    }

    /// Returns the people whom each of `rows` names; in a table without people there are none.
    fn named(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Option<Named>>, Error> {
        if table.owners.is_empty() && table.readers.is_empty() && table.path.is_none() {
            return Ok(rows.iter().map(|_| None).collect());
        }
        let of = |names: &[String], row: &Vec<Value>| -> Vec<Value> {
            let people = names.iter().filter_map(|it| at(columns, row, it));
            people.filter(|it| !it.is_nobody()).cloned().collect()
        };
        let mut people: Vec<Named> = rows
            .iter()
            .map(|row| Named {
                owners: of(&table.owners, row),
                readers: of(&table.readers, row),
                is_broken: false,
            })
            .collect();
        if let Some(path) = &table.path {
            let ends = ends(self.database, path, columns, rows)?;
            for (named, end) in people.iter_mut().zip(ends) {
                named.is_broken = end.is_empty();
                named
                    .owners
                    .extend(end.into_iter().filter(|it| !it.is_nobody()));
            }
        }
        self.people
            .meet(self.database, people.iter().flat_map(Named::all))?;
        Ok(people.into_iter().map(Some).collect())
    }

    /// Judges rows by the people whom they name, as [`Self::strange`] does.
    fn strangers(&mut self, people: &[Option<Named>]) -> Result<Vec<Option<KeptReason>>, Error> {
        let mut strange = Vec::with_capacity(people.len());
        let mut in_doubt = BTreeSet::new();
        for named in people {
            let Some(named) = named else {
                strange.push(None);
                continue;
            };
            let reason = self.people.stranger(&named.owners);
            if reason.is_some() && self.people.stranger(&named.readers).is_none() {
                let owners = named.owners.iter();
                in_doubt.extend(owners.map(|it| self.people.meant(&it.principal())));
            }
            strange.push(match reason {
                Some(KeptReason::OwnerMissing) if named.is_broken => {
                    Some(KeptReason::ParentMissing)
                }
                reason => reason,
            });
        }
        let in_doubt: Vec<Vec<u8>> = in_doubt.into_iter().collect();
        let registered = registry::principals(self.database, &in_doubt)?;
        for (strange, named) in strange.iter_mut().zip(people) {
            let Some(named) = named else { continue };
            let is_registered =
                |it: &Value| registered.contains_key(&self.people.meant(&it.principal()));
            let is_read = strange.is_some() && self.people.stranger(&named.readers).is_none();
            if is_read && !named.owners.iter().any(is_registered) {
                *strange = None;
            }
        }
        Ok(strange)
    }

    /// Moves rows that are owned through others, and would lie under somebody else's, to `kept`.
    pub(super) fn drop_strangers(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        ready: &mut Vec<(Vec<Value>, Vec<Value>)>,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<(), Error> {
        if table.path.is_none() {
            return Ok(());
        }
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let strange = self.strange((table, index), columns, &rows)?;
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
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<bool>, Error> {
        let Some(step) = table.path.as_ref().and_then(|path| path.steps.first()) else {
            return Ok(vec![true; rows.len()]);
        };
        let strange = self.strange((table, index), columns, rows)?;
        let key = |row: &Vec<Value>| whole_key(columns, row, &step.columns);
        let keys: Vec<Option<Vec<Value>>> = rows.iter().map(key).collect();
        let known: Vec<Vec<Value>> = keys.iter().flatten().cloned().collect();
        let there = present(self.database, &step.to_table, &step.to_columns, &known)?;
        let is_there = |key: &Vec<Value>| there.contains(&encoded(key));
        let may = keys.iter().zip(strange);
        Ok(may
            .map(|(key, strange)| strange.is_none() || !key.as_ref().is_some_and(is_there))
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
