//! What a reveal deletes under the reference policy: rows made meanwhile, and the accounts of placeholders, as far as no rows of others
//! refer to them.

use std::collections::{BTreeMap, BTreeSet};

use super::meanwhile::{Going, Names, Reason};
use super::{KeptReason, Revealer, add, row_name};
use crate::database::value::Value;
use crate::database::{DatabaseErrorKind, ForeignKey, OnDelete};
use crate::error::Error;
use crate::plan::cascade::referred;
use crate::records::hold::Held;
use crate::schema::{References, ResolvedTable};
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::{deletion, found, present, runs, select_keys};

/// Rows of a table that are to be deleted, each by its key and with the placeholders that it names.
struct Group<'l> {
    table: &'l ResolvedTable,
    by: Vec<String>,
    rows: Vec<(Vec<Value>, Names)>,
    /// Why some of them stay.
    reasons: BTreeMap<Vec<u8>, Reason>,
}

impl<'a> Revealer<'a> {
    /// Deletes rows that are nobody's but the placeholders', where the policy says so; gives the placeholders of those that stay.
    pub(super) fn delete_meanwhile(
        &mut self,
        named: &[(&'a ResolvedTable, &'a str)],
        going: &[Going],
    ) -> Result<Names, Error> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        let owned = named.iter().filter(|(table, column)| {
            let is_owner = table.owners.iter().any(|it| it == column);
            is_owner && self.policy(table) == References::Delete
        });
        let owned: BTreeMap<&str, &'a ResolvedTable> =
            owned.map(|(it, _)| (&*it.name, *it)).collect();
        if owned.is_empty() {
            return Ok(Names::new());
        }
        let held = Held::all(self.database)?;
        let person = std::iter::once(&self.person.0);
        if held.refuse_any(self.salt, person).is_err() {
            // Nothing of a person who is held is destroyed, by their own reveal neither.
            return Ok(Names::new());
        }
        for table in owned.into_values() {
            groups.extend(self.deletable(table, going, &held)?);
        }
        self.delete_unreferred(&mut groups, |_, _| true, true)?;
        let mut kept = Names::new();
        for group in groups {
            for (key, placeholders) in group.rows {
                self.stays(group.table, &key, None, group.reasons.get(&encoded(&key)));
                kept.extend(placeholders);
            }
        }
        Ok(kept)
    }

    /// The rows of a table that are nobody's but the placeholders'. A row from before of which a record does not know any more where
    /// it is may be among those of its placeholder, which are all left.
    fn deletable(
        &mut self,
        table: &'a ResolvedTable,
        going: &[Going],
        held: &Held,
    ) -> Result<Option<Group<'a>>, Error> {
        let out_of_reach = &table.catalog.referrers;
        let cascades = out_of_reach
            .iter()
            .any(|it| it.on_delete == OnDelete::Change);
        let by = match (table.identity.as_slice(), table.owners.as_slice()) {
            ([], [owner]) if table.readers.is_empty() => vec![owner.clone()],
            ([], _) => return Ok(None),
            (identity, _) => identity.to_vec(),
        };
        if cascades {
            return Ok(None);
        }
        let names: Names = self.going.difference(&self.doubtful).cloned().collect();
        let mut columns = by.clone();
        columns.extend(table.people().filter(|it| !by.contains(it)).cloned());
        let keys: Vec<Vec<Value>> = going.iter().map(|(id, _)| vec![id.clone()]).collect();
        let mut rows: BTreeMap<Vec<u8>, (Vec<Value>, Names)> = BTreeMap::new();
        for owner in &table.owners {
            let owner = std::slice::from_ref(owner);
            for row in select_keys(self.database, &table.name, &columns, owner, &keys)? {
                let of = |wanted: &[String]| -> Vec<&Value> {
                    let people = wanted.iter().filter_map(|it| at(&columns, &row, it));
                    people.filter(|it| !it.is_nobody()).collect()
                };
                let owners: Names = self.meant_of(&of(&table.owners))?.into_iter().collect();
                let readers = self.meant_of(&of(&table.readers))?;
                let people = owners.iter().chain(&readers);
                let is_free = held.refuse_any(self.salt, people).is_ok();
                let key = picked(&columns, &row, &by);
                let is_recorded = self.recorded.contains(&row_name(table, &key));
                if is_free && !is_recorded && owners.is_subset(&names) {
                    rows.insert(encoded(&key), (key, owners));
                }
            }
        }
        Ok(Some(Group {
            table,
            by,
            rows: rows.into_values().collect(),
            reasons: BTreeMap::new(),
        }))
    }

    /// Deletes rows to which no others refer by keys that count, again and again while that frees more of them. What is left has a
    /// reason.
    fn delete_unreferred(
        &mut self,
        groups: &mut [Group<'_>],
        counts: impl Fn(&ResolvedTable, &ForeignKey) -> bool,
        is_told: bool,
    ) -> Result<(), Error> {
        let live = self.live;
        loop {
            let mut helped = false;
            for group in groups.iter_mut().filter(|it| !it.rows.is_empty()) {
                let of = (group.table, group.by.as_slice());
                let keys: Vec<Vec<Value>> = group.rows.iter().map(|(key, _)| key.clone()).collect();
                let referred = referred(self.database, live, of, &keys, &counts)?;
                let (stay, free): (Vec<_>, Vec<_>) = std::mem::take(&mut group.rows)
                    .into_iter()
                    .partition(|(key, _)| referred.contains_key(&encoded(key)));
                let reasons = referred.into_iter();
                group.reasons = reasons
                    .map(|(key, by)| (key, (KeptReason::ReferredTo, Some(by))))
                    .collect();
                group.rows = stay;
                let before = free.len();
                let left = self.delete_each(group, free, is_told)?;
                helped |= left.len() < before;
                group.rows.extend(left);
            }
            if !helped {
                return Ok(());
            }
        }
    }

    /// Deletes rows as far as the database lets them go; gives the others.
    fn delete_each(
        &mut self,
        group: &mut Group<'_>,
        rows: Vec<(Vec<Value>, Names)>,
        is_told: bool,
    ) -> Result<Vec<(Vec<Value>, Names)>, Error> {
        let (table, by) = (&group.table.name, &group.by);
        let keys: Vec<Vec<Value>> = rows.iter().map(|(key, _)| key.clone()).collect();
        let (mut left, mut deleted) = (BTreeSet::new(), 0);
        for run in runs(&keys, by.len()) {
            let mut asked = vec![run];
            let mut done = self.attempt(table, by, run)?;
            if done.is_none() {
                asked = run.chunks(1).collect();
            }
            for some in asked {
                if run.len() != some.len() {
                    done = self.attempt(table, by, some)?;
                }
                let said = match done {
                    Some(_) => None,
                    None => self.database.refusal().map(str::to_owned),
                };
                let count = done.unwrap_or(0);
                deleted = count.saturating_add(deleted);
                if usize::try_from(count).is_ok_and(|count| count >= some.len()) {
                    continue;
                }
                // A trigger may keep a row without a word.
                for key in present(self.database, table, by, some)? {
                    let reason = (KeptReason::Refused, said.clone());
                    group.reasons.insert(key.clone(), reason);
                    left.insert(key);
                }
            }
        }
        if is_told {
            let deleted = usize::try_from(deleted).unwrap_or(usize::MAX);
            add(&mut self.revealed.deleted, table, deleted);
        }
        let rows = rows.into_iter();
        Ok(rows
            .filter(|(key, _)| left.contains(&encoded(key)))
            .collect())
    }

    /// Takes the accounts out of the users table to which nothing refers; gives the others.
    pub(super) fn delete_accounts(&mut self, going: &[Going]) -> Result<Names, Error> {
        let live = self.live;
        let Some(users) = live.table(&live.pseudo.table) else {
            return Err(Error::NotInstalled);
        };
        let ids: Vec<Value> = going.iter().map(|(id, _)| id.clone()).collect();
        let has_spellings = ids.iter().any(Value::has_spellings);
        let mut held = BTreeMap::new();
        if has_spellings {
            // The account may be spelled in another way by now.
            held = found(self.database, &users.name, &live.pseudo.id, &ids)?;
        }
        let rows = ids.into_iter().map(|id| {
            let name = id.principal();
            let id = held.get(&name).cloned().unwrap_or(id);
            (vec![id], Names::from([name]))
        });
        let mut groups = [Group {
            table: users,
            by: vec![live.pseudo.id.clone()],
            rows: rows.collect(),
            reasons: BTreeMap::new(),
        }];
        // No row names them any more in a column of which somebody said so, but perhaps in another spelling.
        let is_open = |child: &ResolvedTable, key: &ForeignKey| {
            let is_person = |it: &String| live.others(child).any(|column| column == it);
            let is_plain = key.to_columns == [live.pseudo.id.as_str()];
            has_spellings || live.has_tenants || !is_plain || !key.columns.iter().all(is_person)
        };
        self.delete_unreferred(&mut groups, is_open, false)?;
        let mut kept = Names::new();
        for group in groups {
            for (key, names) in group.rows {
                if self.references != References::Retain {
                    self.stays(users, &key, None, group.reasons.get(&encoded(&key)));
                }
                kept.extend(names);
            }
        }
        Ok(kept)
    }

    /// Deletes rows by keys that fit into one statement, all of them or none; gives how many, and nothing where something refers to
    /// one of them.
    fn attempt(
        &mut self,
        table: &str,
        by: &[String],
        keys: &[Vec<Value>],
    ) -> Result<Option<u64>, Error> {
        let (sql, parameters) = deletion(self.database, table, by, keys);
        match self.database.attempt(&sql, &parameters) {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.kind == DatabaseErrorKind::Constraint => Ok(None),
            Err(source) => Err(Error::Database {
                doing: "deleting rows",
                source,
            }),
        }
    }
}
