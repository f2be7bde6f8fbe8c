//! Deletions of a reveal under the reference policy: rows made meanwhile, and the accounts of
//! placeholders, unless rows of others refer to them.

use std::collections::{BTreeMap, BTreeSet};

use super::late_keys::{checked_at_once, is_referred_late};
use super::meanwhile::{Going, Names, Placeholders, Reason};
use super::report::{KeptReason, Report, add};
use super::row_name;
use super::savepoint::Savepoint;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseErrorKind, Dialect, ForeignKey, OnDelete};
use crate::error::Error;
use crate::plan::cascade::referred;
use crate::records::hold::Held;
use crate::schema::{References, ResolvedSchema, ResolvedTable};
use crate::statements::deletion::deletion;
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::{found, present, runs, select_keys};

/// Rows of a table that are to be deleted, each by its key and with the placeholders that it names.
struct Group<'l> {
    table: &'l ResolvedTable,
    by: Vec<String>,
    /// True if each key identifies one row.
    is_keyed: bool,
    rows: Vec<(Vec<Value>, Names)>,
    /// The reasons why some of them stay.
    reasons: BTreeMap<Vec<u8>, Reason>,
}

/// The deletion of rows to which nothing refers that stays.
struct Deletion<'d> {
    database: &'d mut dyn TenantConnection,
    live: &'d ResolvedSchema,
    report: &'d mut Report,
}

const DOING: &str = "deleting rows";

impl<'a> Placeholders<'_, 'a> {
    fn deletion(&mut self) -> Deletion<'_> {
        Deletion {
            database: &mut *self.work.database,
            live: self.work.live,
            report: &mut self.work.report,
        }
    }

    /// Deletes rows that only the placeholders own, if the policy says so, and returns the
    /// placeholders of the rows that stay.
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
        let held = Held::all(self.work.database)?;
        let person = std::iter::once(&self.work.people.person.0);
        if held.refuse_any(self.work.salt, person).is_err() {
            // Rows of a held person are never destroyed, not even by their own reveal.
            return Ok(Names::new());
        }
        for table in owned.into_values() {
            groups.extend(self.deletable(table, going, &held)?);
        }
        self.deletion()
            .delete_unreferred(&mut groups, |_, _| true, true)?;
        let mut kept = Names::new();
        for group in groups {
            for (key, placeholders) in group.rows {
                self.stays(group.table, &key, None, group.reasons.get(&encoded(&key)));
                kept.extend(placeholders);
            }
        }
        Ok(kept)
    }

    /// Returns the rows of a table that only the placeholders own. If a record has lost its row,
    /// the row may be among those of its placeholder, so all of these are left alone.
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
        // A row may belong to an inheriting table, to which others refer by keys of its own.
        if cascades || table.catalog.has_heirs {
            return Ok(None);
        }
        let names: Names = self
            .work
            .going
            .difference(&self.work.notes.doubtful)
            .cloned()
            .collect();
        let mut columns = by.clone();
        columns.extend(table.people().filter(|it| !by.contains(it)).cloned());
        let keys: Vec<Vec<Value>> = going.iter().map(|(id, _)| vec![id.clone()]).collect();
        let mut rows: BTreeMap<Vec<u8>, (Vec<Value>, Names)> = BTreeMap::new();
        for owner in &table.owners {
            let owner = std::slice::from_ref(owner);
            for row in select_keys(self.work.database, &table.name, &columns, owner, &keys)? {
                let of = |wanted: &[String]| -> Vec<&Value> {
                    let people = wanted.iter().filter_map(|it| at(&columns, &row, it));
                    people.filter(|it| !it.is_nobody()).collect()
                };
                let owners: Names = self
                    .work
                    .people
                    .meant_of(self.work.database, &of(&table.owners))?
                    .into_iter()
                    .collect();
                let readers = self
                    .work
                    .people
                    .meant_of(self.work.database, &of(&table.readers))?;
                let people = owners.iter().chain(&readers);
                let is_free = held.refuse_any(self.work.salt, people).is_ok();
                let key = picked(&columns, &row, &by);
                let is_recorded = self.work.recorded.contains(&row_name(table, &key));
                if is_free && !is_recorded && owners.is_subset(&names) {
                    rows.insert(encoded(&key), (key, owners));
                }
            }
        }
        Ok(Some(Group {
            table,
            by,
            is_keyed: !table.identity.is_empty(),
            rows: rows.into_values().collect(),
            reasons: BTreeMap::new(),
        }))
    }

    /// Removes the accounts from the users table to which nothing refers. Returns the others.
    pub(super) fn delete_accounts(&mut self, going: &[Going]) -> Result<Names, Error> {
        let live = self.work.live;
        let Some(users) = live.table(&live.pseudo.table) else {
            return Err(Error::NotInstalled);
        };
        let ids: Vec<Value> = going.iter().map(|(id, _)| id.clone()).collect();
        let has_spellings = ids.iter().any(Value::has_spellings);
        let mut held = BTreeMap::new();
        if has_spellings {
            // The account may be spelled in another way by now.
            held = found(self.work.database, &users.name, &live.pseudo.id, &ids)?;
        }
        let rows = ids.into_iter().map(|id| {
            let name = id.principal();
            let id = held.get(&name).cloned().unwrap_or(id);
            (vec![id], Names::from([name]))
        });
        let mut groups = [Group {
            table: users,
            by: vec![live.pseudo.id.clone()],
            is_keyed: true,
            rows: rows.collect(),
            reasons: BTreeMap::new(),
        }];
        // No row names them any more in a declared column, but perhaps in another spelling.
        let is_loose = self.work.database.dialect() == Dialect::Sqlite;
        let is_open = |child: &ResolvedTable, key: &ForeignKey| {
            let is_person = |it: &String| live.others(child).any(|column| column == it);
            let is_plain = key.to_columns == [live.pseudo.id.as_str()];
            // On `SQLite` a column of another type may name them in a form that only the foreign
            // key treats as equal.
            is_loose
                || has_spellings
                || live.has_tenants
                || !is_plain
                || !key.columns.iter().all(is_person)
        };
        self.deletion()
            .delete_unreferred(&mut groups, is_open, false)?;
        let mut kept = Names::new();
        for group in groups {
            for (key, names) in group.rows {
                if self.work.references != References::Retain {
                    self.stays(users, &key, None, group.reasons.get(&encoded(&key)));
                }
                kept.extend(names);
            }
        }
        Ok(kept)
    }
}

impl Deletion<'_> {
    /// Deletes rows to which no others refer by keys that count, repeatedly while that frees more
    /// of them. The rest gets a reason.
    fn delete_unreferred(
        &mut self,
        groups: &mut [Group<'_>],
        counts: impl Fn(&ResolvedTable, &ForeignKey) -> bool,
        is_told: bool,
    ) -> Result<(), Error> {
        let is_late = |it: &Group<'_>| !it.rows.is_empty() && is_referred_late(it.table, None);
        let is_late = groups.iter().any(is_late);
        let done = checked_at_once(self.database, is_late, |database| {
            let mut checked = Deletion {
                database,
                live: self.live,
                report: &mut *self.report,
            };
            checked.delete_free(groups, counts, is_told)
        })?;
        if done.is_some() {
            return Ok(());
        }
        let said = self.database.refusal().map(str::to_owned);
        for group in groups {
            let keys = group.rows.iter().map(|(key, _)| encoded(key));
            let reason = (KeptReason::Refused, said.clone());
            group.reasons = keys.map(|key| (key, reason.clone())).collect();
        }
        Ok(())
    }

    fn delete_free(
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

    /// Deletes rows as far as the database lets them go. Returns the others.
    fn delete_each(
        &mut self,
        group: &mut Group<'_>,
        rows: Vec<(Vec<Value>, Names)>,
        is_told: bool,
    ) -> Result<Vec<(Vec<Value>, Names)>, Error> {
        let (table, by) = (&group.table.name, group.by.as_slice());
        let keys: Vec<Vec<Value>> = rows.iter().map(|(key, _)| key.clone()).collect();
        let (mut left, mut deleted) = (BTreeSet::new(), 0);
        for run in runs(&keys, by.len()) {
            let mut asked = vec![run];
            let mut done = self.attempt(group, run)?;
            if done.is_err() {
                asked = run.chunks(1).collect();
            }
            for some in asked {
                if run.len() != some.len() {
                    done = self.attempt(group, some)?;
                }
                let count = *done.as_ref().unwrap_or(&0);
                let said = done.as_ref().err().cloned().flatten();
                deleted = count.saturating_add(deleted);
                if usize::try_from(count).is_ok_and(|count| count >= some.len()) {
                    continue;
                }
                // A trigger may silently keep a row.
                for key in present(self.database, table, by, some)? {
                    let reason = (KeptReason::Refused, said.clone());
                    group.reasons.insert(key.clone(), reason);
                    left.insert(key);
                }
            }
        }
        if is_told {
            let deleted = usize::try_from(deleted).unwrap_or(usize::MAX);
            add(&mut self.report.revealed.deleted, table, deleted);
        }
        let rows = rows.into_iter();
        Ok(rows
            .filter(|(key, _)| left.contains(&encoded(key)))
            .collect())
    }

    /// Deletes rows by keys that fit into one statement, exactly these or none. Returns their
    /// number, or the report if rows refer to one of them or a key has several rows.
    fn attempt(
        &mut self,
        group: &Group<'_>,
        keys: &[Vec<Value>],
    ) -> Result<Result<u64, Option<String>>, Error> {
        let table = group.table;
        let (mut sql, parameters) = deletion(self.database, &table.name, &group.by, keys);
        if table.catalog.has_heirs {
            // A row of an inheriting table with the key belongs to somebody else.
            sql = sql.replacen("DELETE FROM ", "DELETE FROM ONLY ", 1);
        }
        let point = Savepoint::set(self.database, "probity_deletion", DOING)?;
        let mut is_kept = true;
        let done = match self.database.attempt(&sql, &parameters) {
            Ok(done) => {
                let is_more = usize::try_from(done).is_ok_and(|done| done > keys.len());
                if group.is_keyed && is_more {
                    is_kept = false;
                    let said = format!("table {}, more rows than one have this key", table.name);
                    Err(Some(said))
                } else {
                    Ok(done)
                }
            }
            Err(error) if error.kind == DatabaseErrorKind::Constraint => {
                Err(self.database.refusal().map(str::to_owned))
            }
            Err(source) => {
                return Err(Error::Database {
                    doing: DOING,
                    source,
                });
            }
        };
        point.end(self.database, is_kept)?;
        Ok(done)
    }
}
