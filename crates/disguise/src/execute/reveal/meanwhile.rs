//! Rows made while placeholders owned things, under the reference policy: deleted, moved to the
//! returning person, or left.

use std::collections::{BTreeMap, BTreeSet};

use super::Revealer;
use super::late_keys::{checked_at_once, is_referred_late};
use super::report::{KeptReason, add, cell_name};
use super::write_back::is_constraint;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{ForeignKey, OnUpdate};
use crate::error::Error;
use crate::plan::cascade::{emptying_unseen, referred};
use crate::schema::{References, ResolvedTable};
use crate::statements::overwrite::{Write, try_update_all, try_update_keys};
use crate::statements::row::{encoded, put};
use crate::statements::table::{naming, present, select_keys};

/// A placeholder that is about to go, and its successor.
pub(super) type Going = (Value, Value);

/// The names of placeholders.
pub(super) type Names = BTreeSet<Vec<u8>>;

/// The reason why a row stays, and the table that refers to it or the report of the database.
pub(super) type Reason = (KeptReason, Option<String>);

/// Reasons by row and column.
type Reasons = BTreeMap<Vec<u8>, Reason>;

/// A row that names a placeholder.
struct Named<'l> {
    table: &'l ResolvedTable,
    column: &'l str,
    identity: Vec<Value>,
    placeholder: Vec<u8>,
}

/// The placeholders that stay.
#[derive(Default)]
pub(super) struct Stays {
    /// Placeholders that a policy leaves for good.
    pub(super) retained: Names,
    /// Placeholders that cannot go, with a reported reason.
    pub(super) waiting: Names,
}

/// The placeholders of a revealed disguise that are to go.
pub(super) struct Placeholders<'w, 'a> {
    pub(super) work: &'w mut Revealer<'a>,
}

impl<'a> Placeholders<'_, 'a> {
    /// Applies the reference policy to the rows that still name placeholders about to go, and
    /// removes these from the users table. Those that cannot go without harm to others leave
    /// `going`.
    pub(super) fn let_go(&mut self, going: &mut Vec<Going>) -> Result<Stays, Error> {
        let live = self.work.live;
        let columns: Vec<(&ResolvedTable, &str)> = live.people_columns().collect();
        let all = going.clone();
        let ids: Vec<Value> = going.iter().map(|(id, _)| id.clone()).collect();
        let mut stays = Stays::default();
        let named = naming(self.work.database, &columns, &ids)?;
        for place in &named {
            if self.policy(place.0) == References::Retain {
                let there = self.still_naming(std::slice::from_ref(place), going)?;
                stays
                    .retained
                    .extend(there.into_iter().map(|it| it.placeholder));
            }
        }
        leave(going, &stays.retained);
        let kept = self.delete_meanwhile(&named, going)?;
        leave(going, &kept);
        stays.waiting.extend(kept);
        let kept = self.move_meanwhile(&named, going)?;
        leave(going, &kept);
        stays.waiting.extend(kept);
        let kept = self.delete_accounts(going)?;
        leave(going, &kept);
        match self.work.references {
            References::Retain => stays.retained.extend(kept),
            References::Delete | References::Recorrelate => stays.waiting.extend(kept),
        }
        self.count_retained(&named, all, &stays.retained)?;
        Ok(stays)
    }

    /// Counts the accounts of placeholders that stay for good, and the rows that name them. No
    /// later reveal tells of these.
    fn count_retained(
        &mut self,
        named: &[(&'a ResolvedTable, &'a str)],
        mut all: Vec<Going>,
        retained: &Names,
    ) -> Result<(), Error> {
        all.retain(|(id, _)| retained.contains(&id.principal()));
        if all.is_empty() {
            return Ok(());
        }
        let mut met = BTreeSet::new();
        for it in self.still_naming(named, &all)? {
            // A row may name placeholders in several columns.
            let row = cell_name(&it.table.name, &it.identity, None);
            if it.table.identity.is_empty() || met.insert(row) {
                add(&mut self.work.report.revealed.retained, &it.table.name, 1);
            }
        }
        let users = &self.work.live.pseudo.table;
        add(&mut self.work.report.revealed.retained, users, all.len());
        Ok(())
    }

    /// Returns whether a policy may delete rows.
    pub(super) fn may_delete(&self) -> bool {
        let mut tables = self.work.live.tables.values();
        tables.any(|table| self.policy(table) == References::Delete)
    }

    pub(super) fn policy(&self, table: &ResolvedTable) -> References {
        table.meanwhile.unwrap_or(self.work.references)
    }

    /// Returns the rows that name one of `going` in one of these columns.
    fn still_naming(
        &mut self,
        columns: &[(&'a ResolvedTable, &'a str)],
        going: &[Going],
    ) -> Result<Vec<Named<'a>>, Error> {
        let dialect = self.work.database.dialect();
        let ids: Vec<Value> = going.iter().map(|(id, _)| id.clone()).collect();
        let names: Names = going.iter().map(|(id, _)| id.principal()).collect();
        let mut rows = Vec::new();
        for (table, column) in columns {
            let by = [(*column).to_owned()];
            let mut wanted = table.identity.clone();
            wanted.extend_from_slice(&by);
            let keys = table.catalog.compared(dialect, column, &ids);
            let keys: Vec<Vec<Value>> = keys.into_iter().map(|it| vec![it]).collect();
            let found = select_keys(self.work.database, &table.name, &wanted, &by, &keys)?;
            let named: Vec<&Value> = found.iter().filter_map(|row| row.last()).collect();
            let named = self.work.people.meant_of(self.work.database, &named)?;
            for (mut identity, placeholder) in found.into_iter().zip(named) {
                identity.truncate(table.identity.len());
                if names.contains(&placeholder) {
                    rows.push(Named {
                        table,
                        column,
                        identity,
                        placeholder,
                    });
                }
            }
        }
        Ok(rows)
    }

    /// Moves rows to the returning person, repeatedly while that helps. Returns the placeholders
    /// that rows still name; each row is reported.
    fn move_meanwhile(
        &mut self,
        named: &[(&'a ResolvedTable, &'a str)],
        going: &[Going],
    ) -> Result<Names, Error> {
        let mut moved = BTreeMap::new();
        let mut reasons = BTreeMap::new();
        let mut last = usize::MAX;
        let left = loop {
            let rows = self.still_naming(named, going)?;
            if rows.is_empty() || rows.len() >= last {
                break rows;
            }
            last = rows.len();
            for place in named {
                let of =
                    |it: &&Named<'_>| (&*it.table.name, it.column) == (&*place.0.name, place.1);
                let rows: Vec<&Named<'a>> = rows.iter().filter(of).collect();
                self.move_rows(*place, &rows, going, &mut reasons)?;
            }
            let later = rows.into_iter().filter(|it| {
                let mut keys = checked_later(it.table, it.column);
                !it.table.identity.is_empty() && keys.next().is_some()
            });
            moved.extend(later.map(|it| {
                let cell = cell_name(&it.table.name, &it.identity, Some(it.column));
                (cell, it)
            }));
        };
        let mut kept = self.take_back(moved.into_values().collect(), going)?;
        for it in left {
            let cell = cell_name(&it.table.name, &it.identity, Some(it.column));
            self.stays(it.table, &it.identity, Some(it.column), reasons.get(&cell));
            kept.insert(it.placeholder);
        }
        Ok(kept)
    }

    /// Moves rows of one column to the returning person, except those to which others refer by a
    /// key that would change.
    fn move_rows(
        &mut self,
        (table, column): (&ResolvedTable, &str),
        rows: &[&Named<'_>],
        going: &[Going],
        reasons: &mut Reasons,
    ) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let cell = |it: &Named<'_>| cell_name(&table.name, &it.identity, Some(column));
        let changes = |_: &ResolvedTable, key: &ForeignKey| {
            key.on_update != OnUpdate::Follow && key.to_columns.iter().any(|it| it == column)
        };
        let keys: Vec<Vec<Value>> = rows.iter().map(|it| it.identity.clone()).collect();
        let of = (table, table.identity.as_slice());
        let referred = match of.1 {
            [] => BTreeMap::new(),
            _ => referred(self.work.database, self.work.live, of, &keys, changes)?,
        };
        if let Some(by) = emptying_unseen(table, &[column]) {
            let reason = (KeptReason::ReferredTo, Some(format!("table {}", by.table)));
            reasons.extend(rows.iter().map(|it| (cell(it), reason.clone())));
            return Ok(());
        }
        for it in rows {
            if let Some(by) = referred.get(&encoded(&it.identity)) {
                reasons.insert(cell(it), (KeptReason::ReferredTo, Some(by.clone())));
            }
        }
        let is_late = is_referred_late(table, Some(column));
        let moved = checked_at_once(self.work.database, is_late, |database| {
            let of = (&referred, &mut *reasons);
            move_free(database, (table, column), rows, going, of)
        })?;
        if moved.is_none() {
            let said = self.work.database.refusal().map(str::to_owned);
            let reason = (KeptReason::Refused, said);
            reasons.extend(rows.iter().map(|it| (cell(it), reason.clone())));
        }
        Ok(())
    }

    /// Moves rows back under their placeholders if, under the returning person, they would refer to
    /// nothing by a key that the database checks at the commit alone. Returns these placeholders.
    fn take_back(&mut self, mut moved: Vec<Named<'a>>, going: &[Going]) -> Result<Names, Error> {
        let ids: BTreeMap<Vec<u8>, &Going> =
            going.iter().map(|it| (it.0.principal(), it)).collect();
        let mut kept = Names::new();
        loop {
            let mut broken = Vec::new();
            let mut whole = Vec::new();
            for it in moved {
                let Some((id, target)) = ids.get(&it.placeholder) else {
                    continue;
                };
                let mut now = it.identity.clone();
                put(&it.table.identity, &mut now, it.column, target.clone());
                if self.is_broken(&it, &now)? {
                    broken.push((it, now, id.clone()));
                } else {
                    whole.push(it);
                }
            }
            if broken.is_empty() {
                return Ok(kept);
            }
            for (it, now, id) in broken {
                let write = Write {
                    identity: &now,
                    values: std::slice::from_ref(&id),
                };
                try_update_keys(self.work.database, it.table, &[it.column], &[write])?;
                let column = Some(it.column);
                self.work.report.keep(
                    &it.table.name,
                    &it.identity,
                    column,
                    KeptReason::ParentMissing,
                );
                kept.insert(it.placeholder);
            }
            moved = whole;
        }
    }

    /// Returns whether the row with the identity `now` refers to a missing one, by a key that holds
    /// the column of the placeholder.
    fn is_broken(&mut self, it: &Named<'_>, now: &[Value]) -> Result<bool, Error> {
        for key in checked_later(it.table, it.column) {
            let by = &it.table.identity;
            let keys = [now.to_vec()];
            let found = select_keys(self.work.database, &it.table.name, &key.columns, by, &keys)?;
            for to in found {
                let whole = !to.iter().any(Value::is_null);
                let to = [to];
                if whole
                    && present(self.work.database, &key.to_table, &key.to_columns, &to)?.is_empty()
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reports a row that stays as it is.
    pub(super) fn stays(
        &mut self,
        table: &ResolvedTable,
        identity: &[Value],
        column: Option<&str>,
        reason: Option<&Reason>,
    ) {
        // Without a reason, a trigger kept the row.
        let (reason, said) = reason.cloned().unwrap_or((KeptReason::Refused, None));
        if let Some(said) = said {
            let cell = cell_name(&table.name, identity, column);
            self.work.report.refusals.insert(cell, said);
        }
        self.work.report.keep(&table.name, identity, column, reason);
    }
}

/// Moves rows to the returning person, except those that are `referred` to.
fn move_free(
    database: &mut dyn TenantConnection,
    (table, column): (&ResolvedTable, &str),
    rows: &[&Named<'_>],
    going: &[Going],
    (referred, reasons): (&BTreeMap<Vec<u8>, String>, &mut Reasons),
) -> Result<(), Error> {
    let cell = |it: &Named<'_>| cell_name(&table.name, &it.identity, Some(column));
    let named: Names = rows.iter().map(|it| it.placeholder.clone()).collect();
    let moving = going
        .iter()
        .filter(|(id, _)| named.contains(&id.principal()));
    let moving: Vec<Write<'_>> = moving.map(write).collect();
    if referred.is_empty() {
        match try_update_all(database, table, column, &moving) {
            Ok(()) => return Ok(()),
            Err(error) if is_constraint(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let targets: BTreeMap<Vec<u8>, &Going> =
        going.iter().map(|it| (it.0.principal(), it)).collect();
    for it in rows
        .iter()
        .filter(|it| !referred.contains_key(&encoded(&it.identity)))
    {
        let Some(to) = targets.get(&it.placeholder) else {
            continue;
        };
        let written = match it.identity.as_slice() {
            [] => try_update_all(database, table, column, &[write(to)]),
            identity => {
                let write = Write {
                    identity,
                    ..write(to)
                };
                try_update_keys(database, table, &[column], &[write])
            }
        };
        match written {
            Ok(()) => {}
            Err(error) if is_constraint(&error) => {
                let said = database.refusal().map(str::to_owned);
                reasons.insert(cell(it), (KeptReason::Refused, said));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn leave(going: &mut Vec<Going>, names: &Names) {
    going.retain(|(id, _)| !names.contains(&id.principal()));
}

fn write((id, target): &Going) -> Write<'_> {
    Write {
        identity: std::slice::from_ref(id),
        values: std::slice::from_ref(target),
    }
}

/// Returns the declared keys that hold `column`, refer to more than the person, and are checked at
/// the commit.
fn checked_later<'t>(
    table: &'t ResolvedTable,
    column: &'t str,
) -> impl Iterator<Item = &'t ForeignKey> {
    let keys = table.catalog.foreign_keys.iter();
    keys.filter(move |key| {
        let mut others = table.references.iter().map(|it| &it.columns);
        key.is_checked_late
            && key.columns.iter().any(|it| it == column)
            && others.any(|it| *it == key.columns)
    })
}
