//! Placeholder users: creates them and re-points rows to them.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::{Applier, StepOutcome};
use super::modify::overwrite;
use super::new_accounts::NewAccounts;
use crate::crypto::suite::Suite;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::step::Step;
use crate::records::principal::pseudo_key;
use crate::records::registry;
use crate::records::registry::KeyedPrincipal;
use crate::records::section::{Change, Modified, PrincipalKind, SpeaksFor};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::overwrite::Write;
use crate::statements::row::{at, encoded, moved, picked};
use crate::statements::stored::{Stored, keeps_form, stored};
use crate::statements::table::{existing, found};

/// The owner of each group, and for each row chosen the number of its group.
type Groups = (Vec<Value>, Vec<(usize, usize)>);

impl Applier<'_> {
    /// Makes a placeholder user for each owner and notes who speaks for it; `left` is true if the
    /// owners leave shared rows.
    pub(super) fn make(&mut self, owners: &[Value], left: bool) -> Result<Vec<Value>, Error> {
        let mut accounts = NewAccounts {
            database: &mut *self.database,
            live: self.live,
            now: self.now,
            known: &self.principals.known,
        };
        let ids = accounts.make(owners.len())?;
        let mut principals: Vec<KeyedPrincipal> = Vec::with_capacity(ids.len());
        for (owner, id) in owners.iter().zip(&ids) {
            let owner = &self.principals.spelled(owner).clone();
            let keeper = self.user.unwrap_or(owner).principal();
            let known = self.principals.known.get(&keeper);
            // Whoever has everything forgotten meanwhile opens nothing of it, whatever the suite.
            let suite = known.map_or_else(Suite::default, |(public, _)| public.suite());
            let bag = self.bag(owner)?;
            let index = u32::try_from(bag.speaks_for.len()).unwrap_or(u32::MAX);
            bag.speaks_for.push(SpeaksFor {
                old: owner.clone(),
                new: id.clone(),
                index,
                gone: false,
                left,
                retained: false,
            });
            let public = pseudo_key(suite, &bag.seed, index)?.public()?;
            let departed = left || self.principals.is_departed(owner);
            let standing = if departed {
                PrincipalKind::Departed
            } else {
                PrincipalKind::Placeholder
            };
            principals.push(KeyedPrincipal {
                name: id.principal(),
                public,
                standing,
            });
            self.principals.made.insert(id.principal());
        }
        registry::register(self.database, &principals)?;
        let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        self.applied.pseudoprincipals = self.applied.pseudoprincipals.saturating_add(count);
        Ok(ids)
    }

    pub(super) fn decorrelate(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        step: &Step,
        group_by: &[String],
        owners: &[String],
    ) -> Result<StepOutcome, Error> {
        let mut columns = table.identity.clone();
        for extra in owners.iter().chain(group_by) {
            if !columns.contains(extra) {
                columns.push(extra.clone());
            }
        }
        let Some(rows) = self.held(table, &columns, &step.chosen)? else {
            return Ok(StepOutcome::Pages);
        };
        let rows = self.picker().without_made(table, &columns, rows)?;
        let all: Vec<&Value> = rows
            .iter()
            .flat_map(|row| owners.iter().filter_map(|it| at(&columns, row, it)))
            .collect();
        self.principals.meet_owners(self.database, &all)?;
        let mut identities: Vec<Vec<Value>> = rows
            .iter()
            .map(|row| picked(&columns, row, &table.identity))
            .collect();
        let mut changed = BTreeSet::new();
        for column in owners {
            let placed = self.decorrelate_column(
                number,
                table,
                &columns,
                &rows,
                &mut identities,
                (column, group_by),
            )?;
            changed.extend(placed.into_iter().map(|(row, _)| row));
        }
        // Nobody whom the others name leaves.
        self.applied.count(table, changed.len());
        Ok(StepOutcome::None)
    }

    /// Re-points one column of rows. Returns the placeholders by the numbers of the rows.
    pub(super) fn decorrelate_column(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
        identities: &mut [Vec<Value>],
        (column, group_by): (&String, &[String]),
    ) -> Result<Vec<(usize, Value)>, Error> {
        let (wanted, chosen) = self.grouped(table, columns, rows, column, group_by)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ids = self.make(&wanted, false)?;
        let mut writes = Vec::with_capacity(chosen.len());
        for (index, group) in &chosen {
            let (Some(identity), Some(id)) = (identities.get(*index), ids.get(*group)) else {
                let what = "a row has no placeholder";
                return Err(Error::Defect { what });
            };
            writes.push(Write {
                identity,
                values: std::slice::from_ref(id),
            });
        }
        overwrite(self.database, self.live, table, &[column], &writes)?;
        let now = written(self.database, table, column, &writes)?;
        refuse_altered((self.database, self.live), (table, column), &writes, &now)?;
        let mut kept: BTreeMap<Vec<u8>, Vec<Modified>> = BTreeMap::new();
        let mut placed = Vec::with_capacity(chosen.len());
        let mut moved_to = Vec::new();
        let user = self.user.map(Value::principal);
        for ((index, group), now) in chosen.into_iter().zip(now) {
            let before = rows.get(index).and_then(|row| at(columns, row, column));
            let (Some(identity), Some(after), Some(owner), Some(before)) = (
                identities.get_mut(index),
                now.values.into_iter().next(),
                wanted.get(group),
                before,
            ) else {
                let what = "a row that got a placeholder has no record of it";
                return Err(Error::Defect { what });
            };
            *identity = now.identity;
            if table.identity.contains(column) {
                moved_to.push(encoded(identity));
            }
            placed.push((index, after.clone()));
            let keeper = user.clone().unwrap_or_else(|| owner.principal());
            kept.entry(keeper).or_default().push(Modified {
                identity: identity.clone(),
                before: before.clone(),
                after,
            });
        }
        self.principals.note_moved(&moved_to);
        let records = kept.iter().map(|(keeper, rows)| (keeper, rows.as_slice()));
        self.note_keys(table, column, records)?;
        for (keeper, rows) in kept {
            let change = Change::Decorrelated {
                identity: table.identity.clone(),
                column: column.clone(),
                rows,
            };
            self.notes.add(keeper, number, table, change)?;
        }
        Ok(placed)
    }

    /// Returns the placeholders needed for a column, one for each group, and the group of each
    /// chosen row.
    pub(super) fn grouped(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
        column: &str,
        group_by: &[String],
    ) -> Result<Groups, Error> {
        let mut groups: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut wanted: Vec<Value> = Vec::new();
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        let mut unregistered = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let Some(owner) = at(columns, row, column).filter(|it| !it.is_nobody()) else {
                continue;
            };
            let owner = self.principals.spelled(owner);
            let id = owner.principal();
            if !self.principals.is_meant(owner) {
                continue;
            }
            let lasting =
                self.principals.known.contains_key(&id) || self.principals.has_forgotten(&id);
            if self.user.is_none() && !lasting {
                unregistered.push(owner.clone());
                continue;
            }
            let mut key = vec![owner.clone()];
            key.extend(
                group_by
                    .iter()
                    .filter_map(|it| at(columns, row, it).cloned()),
            );
            if group_by.is_empty() {
                key.push(Value::UInt(u64::try_from(index).unwrap_or(u64::MAX)));
            }
            let next = wanted.len();
            let group = *groups.entry(encoded(&key)).or_insert(next);
            if group == next {
                wanted.push(owner.clone());
            }
            chosen.push((index, group));
        }
        refuse_unregistered((self.database, self.live), table, &unregistered)?;
        self.applied.count_of_nobody(table, unregistered.len());
        self.stake_owners(&wanted);
        Ok((wanted, chosen))
    }
}

/// Returns a row after a write of a value that its column keeps in the same form.
fn as_given(table: &ResolvedTable, column: &str, write: &Write<'_>) -> Stored {
    let values = write.values.iter();
    Stored {
        identity: values.fold(write.identity.to_vec(), |key, value| {
            moved(table, &key, column, value)
        }),
        values: write.values.to_vec(),
    }
}

/// Returns the values that rows hold in `column` after `writes`, each with the row's present
/// key.
pub(super) fn written(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    column: &str,
    writes: &[Write<'_>],
) -> Result<Vec<Stored>, Error> {
    let values = writes.iter().flat_map(|it| it.values);
    if values.into_iter().all(|it| keeps_form(table, column, it)) {
        return Ok(writes
            .iter()
            .map(|it| as_given(table, column, it))
            .collect());
    }
    let found = stored(database, table, &[column], writes)?;
    let left = found.iter().filter(|it| it.is_none()).count();
    if left == 0 {
        return Ok(found.into_iter().flatten().collect());
    }
    Err(Error::Database {
        doing: "updating rows",
        source: database.passed_over(&table.name, left),
    })
}

/// Refuses when a column stores the id of a placeholder as a value that is no id of it by the
/// comparison of the ids: nothing would find the row as the placeholder's.
fn refuse_altered(
    (database, live): (&mut dyn TenantConnection, &ResolvedSchema),
    (table, column): (&ResolvedTable, &str),
    writes: &[Write<'_>],
    now: &[Stored],
) -> Result<(), Error> {
    let given = writes.iter().flat_map(|it| it.values);
    let after = now.iter().flat_map(|it| &it.values);
    // A padded text has lost nothing.
    let is_kept = |one: &Value, other: &Value| {
        one.principal() == other.principal()
            || one.to_string().trim_end_matches(' ') == other.to_string().trim_end_matches(' ')
    };
    let other = given.zip(after).filter(|(one, other)| !is_kept(one, other));
    let other: Vec<(&Value, &Value)> = other.collect();
    if other.is_empty() {
        return Ok(());
    }
    let pseudo = &live.pseudo;
    let users = live.users()?;
    let asked: Vec<Value> = other.iter().map(|(_, after)| (*after).clone()).collect();
    let asked = users.compared(database.dialect(), &pseudo.id, &asked);
    let held = found(database, &pseudo.table, &pseudo.id, &asked)?;
    let is_it = |(given, after): &(&Value, &Value)| {
        let held = held.get(&after.principal());
        held.is_some_and(|it| it.principal() == given.principal())
    };
    if other.iter().all(is_it) {
        return Ok(());
    }
    Err(Error::Value {
        what: format!(
            "column {column} of {} stores the id of a placeholder as another value, which rounds or shortens it; give it the type of {} of {}",
            table.name, pseudo.id, pseudo.table
        ),
    })
}

/// Refuses owners that have an account but no key, because they can never come back; owners
/// without an account are nobody.
pub(super) fn refuse_unregistered(
    (database, live): (&mut dyn TenantConnection, &ResolvedSchema),
    table: &ResolvedTable,
    owners: &[Value],
) -> Result<(), Error> {
    let pseudo = &live.pseudo;
    let there = existing(database, &pseudo.table, &pseudo.id, owners)?;
    let rows = owners
        .iter()
        .filter(|owner| there.contains(&owner.principal()))
        .count();
    if rows > 0 {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        return Err(Error::Unregistered {
            table: table.name.clone(),
            rows,
        });
    }
    Ok(())
}
