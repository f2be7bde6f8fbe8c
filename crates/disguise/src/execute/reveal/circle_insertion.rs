//! The insertion of rows of a circle: as they were where the database lets them, else with references
//! that are empty until all are in.

use std::collections::BTreeMap;

use super::circle::{Circles, Group, Spelled, Waiting, among, hidden, holds, is_among, key};
use super::unawaited::Keys;
use super::write_back::is_constraint;
use crate::database::Matching;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::lax;
use crate::statements::overwrite::{Write, try_update_keys};
use crate::statements::row::{encoded, picked, put};
use crate::statements::table::{Inserted, present, try_insert};

impl Circles<'_, '_> {
    /// Inserts rows, repeatedly while that brings more in. Returns whether all are in.
    ///
    /// A row goes in as it was where the database may check its references later. Else those
    /// references are empty at first whose rows are not in yet.
    pub(super) fn insert_groups(
        &mut self,
        groups: &mut [Group<'_>],
        there: &[Keys],
        spelled: &Spelled,
    ) -> Result<bool, Error> {
        let live = self.work.owners.people.live;
        loop {
            let known = among(groups, |it| it.is_in);
            let (mut helped, mut all) = (false, true);
            for (group, there) in groups.iter_mut().zip(there) {
                let of = (group.table, group.columns.as_slice(), group.is_late);
                let (columns, dangling) = (&group.columns, &group.dangling);
                let is_met = |reference: &Reference, key: &[Value]| {
                    dangling.allows(reference, key)
                        || holds(there, reference, key)
                        || is_among(&known, spelled, reference, key)
                };
                for it in group.rows.iter_mut().filter(|it| !it.is_in) {
                    let unmet = |reference: &&Reference| {
                        let key = key((of.0, columns), reference, &it.row);
                        key.is_some_and(|key| !is_met(reference, &key))
                    };
                    let empty = emptied(live, group.table, group.references.iter().filter(unmet));
                    self.insert_waiting(of, it, empty)?;
                    helped |= it.is_in;
                    all &= it.is_in;
                }
            }
            if !all && !helped {
                helped = self.insert_own_circles(groups, spelled)?;
            }
            if all || !helped {
                return Ok(all);
            }
        }
    }

    /// Inserts a row as it was, or with the columns `empty` empty for a while.
    fn insert_waiting(
        &mut self,
        (table, columns, is_late): (&ResolvedTable, &[String], bool),
        it: &mut Waiting,
        empty: Vec<String>,
    ) -> Result<(), Error> {
        it.emptied.clear();
        if is_late || empty.is_empty() {
            it.is_in = self.insert(table, columns, &it.row)?;
        }
        if !it.is_in && !empty.is_empty() {
            let mut row = it.row.clone();
            for column in &empty {
                put(columns, &mut row, column, Value::Null);
            }
            it.is_in = self.insert(table, columns, &row)?;
            it.emptied = empty;
        }
        Ok(())
    }

    /// Notes rows as not in that refer to nothing by a column, or to one, which the database works
    /// out. Returns whether there are none.
    pub(super) fn all_lead_on(&mut self, groups: &mut [Group<'_>]) -> Result<bool, Error> {
        let hidden = hidden(groups);
        let mut all = true;
        for group in groups {
            let identity = |it: &Waiting| picked(&group.columns, &it.row, &group.table.identity);
            let keys: Vec<Vec<Value>> = group.rows.iter().map(identity).collect();
            let nowhere = self
                .work
                .write_back()
                .late_keys()
                .leading_nowhere(group.table, &keys)?;
            for it in &mut group.rows {
                it.is_in = !nowhere.contains(&encoded(&identity(it)));
            }
            for reference in group.references.iter().filter(|it| hidden.contains(it)) {
                let of = |it: &Waiting| key((group.table, &group.columns), reference, &it.row);
                let keys: Vec<Vec<Value>> = group.rows.iter().filter_map(of).collect();
                let by = &reference.to_columns;
                let there = present(self.work.owners.database, &reference.to_table, by, &keys)?;
                for it in &mut group.rows {
                    it.is_in &= of(it).is_none_or(|key| {
                        group.dangling.allows(reference, &key) || there.contains(&encoded(&key))
                    });
                }
            }
            all &= group.rows.iter().all(|it| it.is_in);
        }
        Ok(all)
    }

    /// Inserts a row. Returns whether the database took it.
    fn insert(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        row: &[Value],
    ) -> Result<bool, Error> {
        let one = [row.to_vec()];
        let mut done = try_insert(self.work.owners.database, table, columns, &one)?;
        if done == Inserted::Refused {
            done = lax::insert(self.work.owners.database, table, columns, row)?;
        }
        Ok(done == Inserted::All)
    }

    /// Writes the references that were empty at first, and notes the rows as not in for which the
    /// database refuses that. Returns whether there are none.
    pub(super) fn refill(&mut self, groups: &mut [Group<'_>]) -> Result<bool, Error> {
        let mut all = true;
        for group in groups {
            let mut alike: BTreeMap<Vec<String>, Vec<&mut Waiting>> = BTreeMap::new();
            for it in group.rows.iter_mut().filter(|it| !it.emptied.is_empty()) {
                alike.entry(it.emptied.clone()).or_default().push(it);
            }
            for (emptied, mut rows) in alike {
                let of = (group.table, group.columns.as_slice(), emptied.as_slice());
                if self.fill(of, &rows)? {
                    continue;
                }
                // One refused row keeps no other away.
                for it in &mut rows {
                    it.is_in = self.fill(of, std::slice::from_ref(it))?;
                    all &= it.is_in;
                }
            }
        }
        Ok(all)
    }

    /// Writes the columns `emptied` of rows. Returns whether the database took them.
    fn fill(
        &mut self,
        (table, columns, emptied): (&ResolvedTable, &[String], &[String]),
        rows: &[&mut Waiting],
    ) -> Result<bool, Error> {
        let of = |it: &&mut Waiting| {
            let parts = [table.identity.as_slice(), emptied];
            parts.map(|part| picked(columns, &it.row, part))
        };
        let picked: Vec<[Vec<Value>; 2]> = rows.iter().map(of).collect();
        let names: Vec<&str> = emptied.iter().map(String::as_str).collect();
        let writes = picked
            .iter()
            .map(|[identity, values]| Write { identity, values });
        let writes: Vec<Write<'_>> = writes.collect();
        match try_update_keys(self.work.owners.database, table, &names, &writes) {
            Ok(()) => Ok(true),
            Err(error) if is_constraint(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the columns of `references` that are empty for a while. Of a key that is either NULL as a
/// whole or not at all, all are or none; of any other, one is enough, which may not be part of a key
/// to which rows refer.
fn emptied<'t>(
    live: &ResolvedSchema,
    table: &ResolvedTable,
    references: impl Iterator<Item = &'t Reference>,
) -> Vec<String> {
    let is_free = |name: &&String| {
        let is_nullable = table.catalog.column(name).is_some_and(|it| it.nullable);
        is_nullable && !table.identity.contains(name)
    };
    let mut empty: Vec<String> = Vec::new();
    for reference in references.filter(|it| table.declares(it)) {
        let mut keys = table.catalog.foreign_keys.iter();
        let is_full =
            keys.any(|key| key.columns == reference.columns && key.matching == Matching::Full);
        if !is_full {
            empty.extend(
                live.least_shared(table, &reference.columns, is_free)
                    .cloned(),
            );
        } else if reference.columns.iter().all(|it| is_free(&it)) {
            empty.extend(reference.columns.iter().cloned());
        }
    }
    empty.sort_unstable();
    empty.dedup();
    empty
}
