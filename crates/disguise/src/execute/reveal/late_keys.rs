//! Keys that the database may check at the commit alone: a reveal checks them earlier, so that the
//! commit is not refused.

use std::collections::{BTreeMap, BTreeSet};

use super::Revealer;
use super::meanwhile::Reason;
use super::report::KeptReason;
use crate::database::value::Value;
use crate::database::{DatabaseErrorKind, ForeignKey, OnUpdate, Property};
use crate::error::{Doing as _, Error};
use crate::plan::cascade::{may_empty, referred};
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::row::{encoded, picked, put};
use crate::statements::table::{present, select_keys};

/// Makes `PostgreSQL` check deferred constraints now, and from then on at once.
const AT_ONCE: &str = "SET CONSTRAINTS ALL IMMEDIATE";

impl Revealer<'_> {
    /// Returns whether referring or referred rows must be checked before `columns` of a table
    /// change. `owner` is true when people get back the columns that name them.
    pub(super) fn must_look(
        &self,
        table: &ResolvedTable,
        (columns, owner): (&[&str], bool),
    ) -> bool {
        let changes = |child: &ResolvedTable, key: &ForeignKey| {
            columns
                .iter()
                .any(|it| refuses_change(child, key, table, it))
        };
        let mut children = self.live.tables.values();
        let is_held = children.any(|child| {
            let mut keys = child.catalog.foreign_keys.iter();
            keys.any(|key| key.to_table == table.name && changes(child, key))
        });
        let is_late = |column: &&str| own_keys(table, (column, owner)).next().is_some();
        let is_unseen = |column: &&str| is_late_elsewhere(table, column);
        is_held
            || may_empty(self.live, table, columns)
            || self.has_unseen_keys(table)
            || columns.iter().any(|it| is_late(it) || is_unseen(it))
    }

    /// Returns the reasons why rows may not get these values in `column`: others refer to the key
    /// that it is part of, or they would refer to nothing.
    pub(super) fn in_the_way(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        ready: &[(Modified, Value)],
    ) -> Result<BTreeMap<Vec<u8>, Reason>, Error> {
        let live = self.live;
        let keys: Vec<Vec<Value>> = ready.iter().map(|(row, _)| row.identity.clone()).collect();
        let of = (table, table.identity.as_slice());
        let changes =
            |child: &ResolvedTable, key: &ForeignKey| refuses_change(child, key, table, column);
        let referred = referred(self.database, live, of, &keys, changes)?.into_iter();
        let mut found: BTreeMap<Vec<u8>, Reason> = referred
            .map(|(key, by)| (key, (KeptReason::ReferredTo, Some(by))))
            .collect();
        let orphans = self.orphans(table, (column, owner), ready)?.into_iter();
        found.extend(orphans.map(|key| (key, (KeptReason::ParentMissing, None))));
        Ok(found)
    }

    /// Returns the rows that would refer to nothing by a key that is checked at the commit.
    fn orphans(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        ready: &[(Modified, Value)],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut orphans = BTreeSet::new();
        for key in own_keys(table, (column, owner)) {
            let targets = ready
                .iter()
                .map(|(row, target)| (encoded(&row.identity), target));
            let targets: BTreeMap<Vec<u8>, &Value> = targets.collect();
            let rows: Vec<Vec<Value>> = ready.iter().map(|(row, _)| row.identity.clone()).collect();
            let mut wanted = table.identity.clone();
            wanted.extend_from_slice(&key.columns);
            let by = &table.identity;
            let found = select_keys(self.database, &table.name, &wanted, by, &rows)?;
            let mut parents: Vec<(Vec<u8>, Vec<Value>)> = Vec::new();
            for row in found {
                let name = encoded(&picked(&wanted, &row, by));
                let (Some(target), Some(of)) =
                    (targets.get(&name), row.get(table.identity.len()..))
                else {
                    continue;
                };
                let mut to = of.to_vec();
                put(&key.columns, &mut to, column, (*target).clone());
                if !to.iter().any(Value::is_null) {
                    parents.push((name, to));
                }
            }
            let asked: Vec<Vec<Value>> = parents.iter().map(|(_, to)| to.clone()).collect();
            let mut there = present(self.database, &key.to_table, &key.to_columns, &asked)?;
            if key.to_table == table.name && key.to_columns.iter().any(|it| it == column) {
                let of = (rows.as_slice(), &targets);
                there.extend(self.changing_along(table, (&key.to_columns, column), of)?);
            }
            let gone = parents.into_iter();
            let gone = gone.filter(|(_, to)| !there.contains(&encoded(to)));
            orphans.extend(gone.map(|(name, _)| name));
        }
        Ok(orphans)
    }

    /// Returns the keys that rows of a table have once `column` of each has its value of `targets`:
    /// rows of one table that refer to each other by the column itself change together.
    fn changing_along(
        &mut self,
        table: &ResolvedTable,
        (columns, column): (&[String], &str),
        (rows, targets): (&[Vec<Value>], &BTreeMap<Vec<u8>, &Value>),
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let by = &table.identity;
        let wanted = [by.as_slice(), columns].concat();
        let found = select_keys(self.database, &table.name, &wanted, by, rows)?;
        let mut keys = BTreeSet::new();
        for row in found {
            let target = targets.get(&encoded(&picked(&wanted, &row, by)));
            let (Some(target), Some(key)) = (target, row.get(by.len()..)) else {
                continue;
            };
            let mut key = key.to_vec();
            put(columns, &mut key, column, (*target).clone());
            keys.insert(encoded(&key));
        }
        Ok(keys)
    }

    /// Makes the database check deferred keys at once, until [`Self::check_late`]. Returns whether
    /// it does: it cannot while a key is violated.
    pub(super) fn check_at_once(&mut self) -> Result<bool, Error> {
        match self.database.attempt(AT_ONCE, &[]) {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind,
                    DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint
                ) =>
            {
                Ok(false)
            }
            Err(source) => Err(Error::Database {
                doing: "checking keys",
                source,
            }),
        }
    }

    /// Lets foreign keys be checked at the commit again.
    pub(super) fn check_late(&mut self) -> Result<(), Error> {
        let done = self.database.defer_foreign_keys();
        done.doing("deferring foreign keys")
    }
}

/// Returns the keys of a table that hold `column` and are checked at the commit. Of owner columns,
/// only keys to more than the person count, who is looked up anyway.
fn own_keys<'t>(
    table: &'t ResolvedTable,
    (column, owner): (&'t str, bool),
) -> impl Iterator<Item = &'t ForeignKey> {
    let is_among = move |names: &[String]| names.iter().any(|it| it == column);
    let keys = table.catalog.foreign_keys.iter();
    keys.filter(move |key| {
        let mut others = table.references.iter().map(|it| &it.columns);
        let counts = !owner || others.any(|it| *it == key.columns);
        key.is_checked_late && is_among(&key.columns) && counts
    })
}

/// Returns whether a change of `column` may be refused at the commit for a key to or from a table
/// out of reach.
pub(super) fn is_late_elsewhere(table: &ResolvedTable, column: &str) -> bool {
    table.catalog.has(Property::RefersElsewhereLate) || is_referred_late(table, Some(column))
}

/// Returns whether tables out of reach refer to rows of this one by a key that is checked at the
/// commit. With `column`, only keys to a column that changes count; without, any key, as for a
/// removal.
pub(super) fn is_referred_late(table: &ResolvedTable, column: Option<&str>) -> bool {
    let mut unseen = table.catalog.referrers.iter();
    unseen.any(|key| {
        let is_meant = column.is_none_or(|column| {
            key.on_update == OnUpdate::Refuse && key.to_columns.iter().any(|it| it == column)
        });
        key.is_checked_late && is_meant
    })
}

/// Returns whether rows of `child` that refer by `key` to rows of `table` refuse a change of
/// `column`. Rows of one table that refer to each other by the column itself change together.
fn refuses_change(
    child: &ResolvedTable,
    key: &ForeignKey,
    table: &ResolvedTable,
    column: &str,
) -> bool {
    let holds = |names: &[String]| names.iter().any(|it| it == column);
    let changes_along = child.name == table.name && holds(&key.columns);
    key.on_update == OnUpdate::Refuse && holds(&key.to_columns) && !changes_along
}
