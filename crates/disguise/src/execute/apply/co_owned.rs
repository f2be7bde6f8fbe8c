//! Rows with several owners: leaving owners are replaced, and the last one takes the row along.

use std::collections::BTreeSet;

use super::applier::{Applier, Loss};
use super::modify::overwrite;
use super::nobody::NamedInRow;
use super::placeholder::written;
use super::principals::Principals;
use super::row_picker::RowPicker;
use crate::crypto::random;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::co_owned::{put_slots, slot};
use crate::records::section::{Change, Copied, Modified};
use crate::schema::ResolvedTable;
use crate::statements::overwrite::Write;
use crate::statements::row::{at, picked, put};
use crate::statements::table::existing;

/// A shared row that is being left.
struct Parting {
    identity: Vec<Value>,
    row: Vec<Value>,
    /// Owner column, owner and placeholder of each leaving owner.
    leaving: Vec<(String, Value, Value)>,
    /// Placeholders in other columns, of people who left before.
    departed: Vec<Value>,
    /// True if the row still has an owner.
    stays: bool,
}

impl Parting {
    /// Returns the person who leaves the row in this column, and their placeholder.
    fn leaver(&self, column: &str) -> Option<(&Value, &Value)> {
        let leaver = self.leaving.iter().find(|(name, _, _)| name == column);
        leaver.map(|(_, owner, made)| (owner, made))
    }
}

/// The principals whose bags get copies of a row when its last owner leaves.
#[derive(Clone, Default)]
pub(super) struct Holders {
    /// Those who leave it now.
    pub(super) leaving: BTreeSet<Vec<u8>>,
    /// Placeholders of those who left it before.
    pub(super) departed: BTreeSet<Vec<u8>>,
}

/// A row of which several have copies.
pub(super) struct Held<'r> {
    pub(super) row: &'r [Value],
    pub(super) holders: &'r Holders,
    pub(super) named: &'r NamedInRow,
}

impl Applier<'_> {
    /// Notes copies of a row for all who hold it: whoever returns first brings it back. Returns its
    /// slot, and the version of the copies.
    pub(super) fn note_copies(
        &mut self,
        number: u32,
        (table, columns): (&ResolvedTable, &[String]),
        held: &Held<'_>,
    ) -> Result<(Vec<u8>, u64), Error> {
        let version = u64::from_le_bytes(random()?);
        let copy = |departed| Change::Copied {
            departed,
            columns: columns.to_vec(),
            rows: vec![Copied {
                version,
                row: held.row.to_vec(),
            }],
        };
        let number = number.saturating_add(1);
        let leaving = held.holders.leaving.iter().map(|it| (it, false));
        let departed = held.holders.departed.iter().map(|it| (it, true));
        for (holder, departed) in leaving.chain(departed) {
            self.notes.name_nobody(holder, held.named.nobody.clone())?;
            self.note_known(holder, held.named.known.clone())?;
            self.notes
                .add(holder.clone(), number, table, copy(departed))?;
        }
        let identity = picked(columns, held.row, &table.identity);
        Ok((slot(self.salt, &table.name, &identity), version))
    }
}

/// Rows of one table that have other owners, too.
pub(super) struct SharedRows<'w, 'a> {
    pub(super) work: &'w mut Applier<'a>,
    pub(super) table: &'w ResolvedTable,
    pub(super) columns: &'w [String],
}

impl SharedRows<'_, '_> {
    /// Takes the leaving owners out of shared rows. Of those that nobody owns any more, which the
    /// caller deletes, every owner gets a copy.
    pub(super) fn part(&mut self, number: u32, rows: Vec<Vec<Value>>) -> Result<(), Error> {
        let (table, columns) = (self.table, self.columns);
        let there = self.work.picker().still_there((table, columns), &rows)?;
        let mut partings: Vec<Parting> = rows
            .into_iter()
            .map(|row| self.work.principals.parting((table, columns), row, &there))
            .filter(|it| !it.leaving.is_empty())
            .collect();
        self.work.applied.count(table, partings.len());
        let owners: Vec<Value> = partings
            .iter()
            .flat_map(|it| it.leaving.iter().map(|(_, owner, _)| owner.clone()))
            .collect();
        if owners.is_empty() {
            return Ok(());
        }
        self.work.stake_owners(&owners);
        let mut placeholders = self.work.make(&owners, true)?.into_iter();
        for it in &mut partings {
            for ((column, _, place), made) in it.leaving.iter_mut().zip(placeholders.by_ref()) {
                put(columns, &mut it.row, column, made.clone());
                *place = made;
            }
        }
        self.replace_leaving(number, &partings)?;
        self.copy_left(number, &partings)
    }

    /// Notes the people who leave, and puts the placeholders into rows that stay.
    fn replace_leaving(&mut self, number: u32, partings: &[Parting]) -> Result<(), Error> {
        let table = self.table;
        for column in &table.owners {
            let mut writes = Vec::new();
            for it in partings.iter().filter(|it| it.stays) {
                writes.extend(it.leaver(column).map(|(_, made)| Write {
                    identity: &it.identity,
                    values: std::slice::from_ref(made),
                }));
            }
            overwrite(
                self.work.database,
                self.work.live,
                table,
                &[column],
                &writes,
            )?;
            let written = written(self.work.database, table, column, &writes)?;
            let mut written = written.into_iter();
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
                let keeper = self.work.principals.name(self.work.user.unwrap_or(owner));
                self.work.notes.add(keeper, number, table, change)?;
            }
        }
        Ok(())
    }

    /// Gives every owner a copy of rows that have no owner any more.
    fn copy_left(&mut self, number: u32, partings: &[Parting]) -> Result<(), Error> {
        let (table, columns) = (self.table, self.columns);
        let left = || partings.iter().filter(|it| !it.stays);
        let rows: Vec<Vec<Value>> = left().map(|it| it.row.clone()).collect();
        self.work.stake(table, columns, &rows, Loss::Row)?;
        let named = self.work.picker().named_in(table, columns, &rows)?;
        let mut slots = Vec::new();
        for (it, named) in left().zip(&named) {
            let held = Held {
                row: &it.row,
                holders: &self.work.principals.holders(it),
                named,
            };
            slots.push(self.work.note_copies(number, (table, columns), &held)?);
        }
        put_slots(self.work.database, &slots)
    }
}

impl RowPicker<'_, '_> {
    /// Returns the shared rows without any owner once the leaving people have left them.
    pub(super) fn left_by_all(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let there = self.still_there((table, columns), &rows)?;
        let partings = rows.into_iter();
        let partings = partings.map(|row| self.principals.parting((table, columns), row, &there));
        let left = partings.filter(|it| !it.leaving.is_empty() && !it.stays);
        Ok(left.map(|it| it.row).collect())
    }

    /// Returns for each of these shared rows who gets copies of it, or nothing if it stays for
    /// somebody.
    pub(super) fn held(
        &mut self,
        (table, columns): (&ResolvedTable, &[String]),
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Option<Holders>>, Error> {
        let there = self.still_there((table, columns), &rows)?;
        let partings = rows.into_iter();
        let partings = partings.map(|row| self.principals.parting((table, columns), row, &there));
        let goes = |it: &Parting| !it.leaving.is_empty() && !it.stays;
        let held = partings.map(|it| goes(&it).then(|| self.principals.holders(&it)));
        Ok(held.collect())
    }

    /// Returns the owners of `rows` that have an account.
    pub(super) fn still_there(
        &mut self,
        (table, columns): (&ResolvedTable, &[String]),
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
                if !owner.is_nobody()
                    && !self.principals.known.contains_key(&name)
                    && seen.insert(name)
                {
                    ids.push(owner.clone());
                }
            }
        }
        let pseudo = &self.principals.live.pseudo;
        existing(self.database, &pseudo.table, &pseudo.id, &ids)
    }
}

impl Principals<'_> {
    /// Splits rows into those with other owners and those without. Of a row without any registered
    /// owner, a disguise of everybody gives the record to a reader.
    pub(super) fn split(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        if table.owners.len() < 2 || table.goes_whole() {
            return (Vec::new(), rows);
        }
        rows.into_iter()
            .partition(|row| self.is_shared(table, columns, row))
    }

    /// Returns whether a row has other owners, too, of whom the last takes it along.
    pub(super) fn is_shared(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        row: &[Value],
    ) -> bool {
        if table.owners.len() < 2 || table.goes_whole() {
            return false;
        }
        let owners = table.owners.iter();
        let owners = owners.filter_map(|owner| at(columns, row, owner));
        let owners = owners.filter(|owner| !owner.is_nobody());
        let owners: BTreeSet<Vec<u8>> = owners.map(|it| self.name(it)).collect();
        let is_registered = |name: &Vec<u8>| self.known.contains_key(name);
        match self.user {
            Some(_) => !owners.is_subset(&self.own),
            None => owners.len() > 1 && owners.iter().any(is_registered),
        }
    }

    /// Returns who leaves a row, and whether anybody stays.
    fn parting(
        &self,
        (table, columns): (&ResolvedTable, &[String]),
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
            // The application gave the row to people who had left it.
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

    /// Returns who gets copies of a row that nobody owns any more.
    fn holders(&self, parting: &Parting) -> Holders {
        let leaving = parting.leaving.iter();
        let leaving = leaving.map(|(_, owner, _)| self.name(self.user.unwrap_or(owner)));
        Holders {
            leaving: leaving.collect(),
            departed: parting.departed.iter().map(Value::principal).collect(),
        }
    }
}
