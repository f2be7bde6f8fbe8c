//! Keys that the database may check at the commit alone: a reveal checks them earlier, so that the
//! commit is not refused.

use std::collections::{BTreeMap, BTreeSet};

use super::meanwhile::Reason;
use super::report::KeptReason;
use super::unseen_keys::has_unseen_keys;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseErrorKind, ForeignKey, LateElsewhere, OnUpdate};
use crate::error::{Doing as _, Error};
use crate::plan::cascade::{may_empty, referred};
use crate::records::section::Modified;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::{encoded, picked, put, whole_key};
use crate::statements::table::{present, select_keys};

/// Makes `PostgreSQL` check deferred constraints now, and from then on at once.
const AT_ONCE: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Keys that the database may check at the commit alone.
pub(super) struct LateKeys<'d> {
    pub(super) database: &'d mut dyn TenantConnection,
    pub(super) live: &'d ResolvedSchema,
}

impl LateKeys<'_> {
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
            let by = &table.identity;
            // Rows of one table that refer to each other by the column itself change together.
            let changes_along =
                key.to_table == table.name && key.to_columns.iter().any(|it| it == column);
            let along: &[String] = if changes_along { &key.to_columns } else { &[] };
            let wanted = [by, key.columns.as_slice(), along].concat();
            let found = select_keys(self.database, &table.name, &wanted, by, &rows)?;
            let mut parents: Vec<(Vec<u8>, Vec<Value>)> = Vec::new();
            let mut changing = BTreeSet::new();
            for mut row in found {
                let name = encoded(&picked(&wanted, &row, by));
                let Some(target) = targets.get(&name) else {
                    continue;
                };
                put(&wanted, &mut row, column, (*target).clone());
                if let Some(to) = whole_key(&wanted, &row, &key.columns) {
                    parents.push((name, to));
                }
                changing.insert(encoded(&picked(&wanted, &row, along)));
            }
            let asked: Vec<Vec<Value>> = parents.iter().map(|(_, to)| to.clone()).collect();
            let mut there = present(self.database, &key.to_table, &key.to_columns, &asked)?;
            if changes_along {
                there.extend(changing);
            }
            let gone = parents.into_iter();
            let gone = gone.filter(|(_, to)| !there.contains(&encoded(to)));
            orphans.extend(gone.map(|(name, _)| name));
        }
        Ok(orphans)
    }
}

/// Does `work`, while the database checks deferred keys at once if `is_needed`. It cannot while a
/// key is violated: then nothing is done, and nothing returned.
pub(super) fn checked_at_once<T>(
    database: &mut dyn TenantConnection,
    is_needed: bool,
    work: impl FnOnce(&mut dyn TenantConnection) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    if !is_needed {
        return work(database).map(Some);
    }
    if !begins(database, AT_ONCE)? {
        return Ok(None);
    }
    let done = work(database)?;
    let late = database.defer_foreign_keys();
    late.doing("deferring foreign keys")?;
    Ok(Some(done))
}

/// The way in which keys out of sight are checked before the commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// There are none.
    Nothing,
    /// With each statement, until they are deferred again.
    AtOnce,
    /// All keys together, once all rows are in.
    Together,
    /// Not at all: one is violated already.
    Violated,
}

/// Has the database check at once those keys of `tables` at which nothing else looks before the
/// commit, where their names are theirs alone.
pub(super) fn check_elsewhere<'t>(
    database: &mut dyn TenantConnection,
    tables: impl Iterator<Item = &'t ResolvedTable>,
) -> Result<Elsewhere, Error> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for table in tables {
        match &table.catalog.late_elsewhere {
            LateElsewhere::None => {}
            LateElsewhere::Named(keys) => drop(names.insert(keys)),
            LateElsewhere::Ambiguous => return Ok(Elsewhere::Together),
        }
    }
    if names.is_empty() {
        return Ok(Elsewhere::Nothing);
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let at_once = format!("SET CONSTRAINTS {names} IMMEDIATE");
    Ok(if begins(database, &at_once)? {
        Elsewhere::AtOnce
    } else {
        Elsewhere::Violated
    })
}

/// Has the database check all keys now, and defer them again. Returns false where one is violated.
pub(super) fn all_hold(database: &mut dyn TenantConnection) -> Result<bool, Error> {
    let done = checked_at_once(database, true, |_| Ok(()))?;
    Ok(done.is_some())
}

/// Has the database check keys at once. Returns false where one is violated.
fn begins(database: &mut dyn TenantConnection, at_once: &str) -> Result<bool, Error> {
    match database.attempt(at_once, &[]) {
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

/// Returns whether referring or referred rows must be checked before `columns` of a table
/// change. `owner` is true when people get back the columns that name them.
pub(super) fn must_look(
    live: &ResolvedSchema,
    table: &ResolvedTable,
    (columns, owner): (&[&str], bool),
) -> bool {
    let changes = |child: &ResolvedTable, key: &ForeignKey| {
        columns
            .iter()
            .any(|it| refuses_change(child, key, table, it))
    };
    let mut children = live.tables.values();
    let is_held = children.any(|child| {
        let mut keys = child.catalog.foreign_keys.iter();
        keys.any(|key| key.to_table == table.name && changes(child, key))
    });
    let is_late = |column: &&str| own_keys(table, (column, owner)).next().is_some();
    let is_unseen = |column: &&str| is_late_elsewhere(table, column);
    is_held
        || may_empty(live, table, columns)
        || has_unseen_keys(live, table)
        || columns.iter().any(|it| is_late(it) || is_unseen(it))
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
    table.catalog.late_elsewhere != LateElsewhere::None || is_referred_late(table, Some(column))
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
