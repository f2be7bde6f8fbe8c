//! Rows with several owners: whoever leaves is replaced, the last one takes the row along.

use std::collections::BTreeSet;

use super::Applier;
use super::stake::Loss;
use crate::crypto::random;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::co_owned::{put_slots, slot};
use crate::records::section::{Change, Copied, Modified, PrincipalKind};
use crate::schema::ResolvedTable;
use crate::statements::overwrite::Write;
use crate::statements::row::{at, picked, put};
use crate::statements::table::existing;

/// A shared row that is being left.
struct Parting {
    identity: Vec<Value>,
    row: Vec<Value>,
    /// Owner column, owner and placeholder of each who leaves.
    leaving: Vec<(String, Value, Value)>,
    /// Placeholders in other columns of those who left before.
    departed: Vec<Value>,
    /// Somebody still owns the row.
    stays: bool,
}

impl Parting {
    /// Who leaves the row in this column, and their placeholder.
    fn leaver(&self, column: &str) -> Option<(&Value, &Value)> {
        let leaver = self.leaving.iter().find(|(name, _, _)| name == column);
        leaver.map(|(_, owner, made)| (owner, made))
    }
}

impl Applier<'_> {
    /// Whether `owner` is a placeholder of someone who left the row that it owns.
    pub(super) fn is_departed(&self, owner: &Value) -> bool {
        self.known
            .get(&self.name(owner))
            .is_some_and(|(_, standing)| *standing == PrincipalKind::Departed)
    }

    /// Parts rows that others own too from those that nobody else does.
    pub(super) fn split(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        if table.owners.len() < 2 || table.goes_whole() {
            return (Vec::new(), rows);
        }
        rows.into_iter().partition(|row| {
            let owners: BTreeSet<Vec<u8>> = table
                .owners
                .iter()
                .filter_map(|owner| at(columns, row, owner))
                .filter(|owner| !owner.is_nobody())
                .map(|owner| self.name(owner))
                .collect();
            match self.user {
                Some(_) => !owners.is_subset(&self.own),
                None => owners.len() > 1,
            }
        })
    }

    /// Takes the leaving owners out of shared rows; the last one takes the row along.
    pub(super) fn remove_shared(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Error> {
        let there = self.still_there(table, columns, &rows)?;
        let mut partings: Vec<Parting> = rows
            .into_iter()
            .map(|row| self.parting(table, columns, row, &there))
            .filter(|it| !it.leaving.is_empty())
            .collect();
        self.count(table, partings.len());
        let owners: Vec<Value> = partings
            .iter()
            .flat_map(|it| it.leaving.iter().map(|(_, owner, _)| owner.clone()))
            .collect();
        if owners.is_empty() {
            return Ok(());
        }
        let mut placeholders = self.make(&owners, true)?.into_iter();
        for it in &mut partings {
            for ((column, _, place), made) in it.leaving.iter_mut().zip(placeholders.by_ref()) {
                put(columns, &mut it.row, column, made.clone());
                *place = made;
            }
        }
        self.replace_leaving(number, table, &partings)?;
        self.remove_left(number, table, columns, &partings)
    }

    /// Those of shared rows that nobody owns any more once the user has left them.
    pub(super) fn left_by_all(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let there = self.still_there(table, columns, &rows)?;
        let partings = rows.into_iter();
        let partings = partings.map(|row| self.parting(table, columns, row, &there));
        let left = partings.filter(|it| !it.leaving.is_empty() && !it.stays);
        Ok(left.map(|it| it.row).collect())
    }

    fn parting(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        row: Vec<Value>,
        there: &BTreeSet<Vec<u8>>,
    ) -> Parting {
        let (mut leaving, mut departed, mut stays) = (Vec::new(), Vec::new(), false);
        let mut again = Vec::new();
        for column in &table.owners {
            let Some(owner) = at(columns, &row, column).filter(|it| !it.is_nobody()) else {
                continue;
            };
            let name = self.name(owner);
            let has_account = there.contains(&name) || there.contains(&owner.principal());
            let known = self.known.contains_key(&name) || has_account;
            let mine = match self.user {
                Some(_) => self.own.contains(&name),
                None => !self.has_returned(&name),
            };
            let left = (column.clone(), owner.clone(), Value::Null);
            if self.is_departed(owner) && mine {
                again.push(left);
            } else if self.is_departed(owner) {
                departed.push(owner.clone());
            } else if mine && known {
                leaving.push(left);
            } else {
                stays |= known;
            }
        }
        if leaving.is_empty() && !stays {
            // The application gave those who had left a row anew.
            leaving = again;
        } else {
            departed.extend(again.into_iter().map(|(_, owner, _)| owner));
        }
        Parting {
            identity: picked(columns, &row, &table.identity),
            row,
            leaving,
            departed,
            stays,
        }
    }

    /// Notes who leaves, and puts the placeholders into rows that stay.
    fn replace_leaving(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        partings: &[Parting],
    ) -> Result<(), Error> {
        for column in &table.owners {
            let mut writes = Vec::new();
            for it in partings.iter().filter(|it| it.stays) {
                writes.extend(it.leaver(column).map(|(_, made)| Write {
                    identity: &it.identity,
                    values: std::slice::from_ref(made),
                }));
            }
            self.overwrite(table, &[column], &writes)?;
            let mut written = self.written(table, column, &writes)?.into_iter();
            for it in partings {
                let Some((owner, made)) = it.leaver(column) else {
                    continue;
                };
                let now = if it.stays { written.next() } else { None };
                let after = now.and_then(|now| now.values.into_iter().next());
                let record = Modified {
                    identity: it.identity.clone(),
                    before: owner.clone(),
                    after: after.unwrap_or_else(|| made.clone()),
                };
                let change = Change::Decorrelated {
                    identity: table.identity.clone(),
                    column: column.clone(),
                    rows: vec![record],
                };
                let keeper = self.name(self.user.unwrap_or(owner));
                self.note_for(keeper, number, table, change)?;
            }
        }
        Ok(())
    }

    /// Removes rows that nobody owns any more and gives every owner a copy.
    fn remove_left(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        partings: &[Parting],
    ) -> Result<(), Error> {
        let left = || partings.iter().filter(|it| !it.stays);
        let rows: Vec<Vec<Value>> = left().map(|it| it.row.clone()).collect();
        self.stake(table, columns, &rows, Loss::Row)?;
        let (mut gone, mut slots) = (Vec::new(), Vec::new());
        for it in left() {
            let version = u64::from_le_bytes(random()?);
            let copy = |departed| Change::Copied {
                departed,
                columns: columns.to_vec(),
                rows: vec![Copied {
                    version,
                    row: it.row.clone(),
                }],
            };
            let number = number.saturating_add(1);
            let holders: BTreeSet<Vec<u8>> = it
                .leaving
                .iter()
                .map(|(_, owner, _)| self.name(self.user.unwrap_or(owner)))
                .collect();
            for holder in holders {
                self.note_for(holder, number, table, copy(false))?;
            }
            for holder in &it.departed {
                self.note_for(holder.principal(), number, table, copy(true))?;
            }
            slots.push((slot(self.salt, &table.name, &it.identity), version));
            gone.push(it.identity.clone());
        }
        put_slots(self.database, &slots)?;
        self.delete_in_order(table, &gone)
    }

    /// The owners of `rows` that have an account.
    fn still_there(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut seen = BTreeSet::new();
        let mut ids: Vec<Value> = Vec::new();
        for row in rows {
            for owner in table
                .owners
                .iter()
                .filter_map(|owner| at(columns, row, owner))
            {
                let name = owner.principal();
                if !owner.is_nobody() && !self.known.contains_key(&name) && seen.insert(name) {
                    ids.push(owner.clone());
                }
            }
        }
        let pseudo = &self.live.pseudo;
        existing(self.database, &pseudo.table, &pseudo.id, &ids)
    }
}
