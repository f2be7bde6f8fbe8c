//! The owners of a row, and the person whose bag its record goes to.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::{Applier, Loss};
use super::co_owned::Holders;
use super::row_picker::RowPicker;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::path_end::ends;
use crate::statements::row::{at, picked, put};
use crate::statements::table::existing;

/// Rows by the role of the user in them.
#[derive(Default)]
pub(super) struct Parted {
    /// Rows of the user alone.
    pub(super) owned: Vec<Vec<Value>>,
    /// Rows with several owners, the user among them.
    pub(super) shared: Vec<Vec<Value>>,
    /// Rows that the user only reads.
    pub(super) read: Vec<Vec<Value>>,
}

/// The rows that a step takes.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) rows: Vec<Vec<Value>>,
    /// The principal whose bag gets the record of each row.
    pub(super) keepers: Vec<Vec<u8>>,
    /// The number of rows left as they are, because nobody whom they name is registered or has an
    /// account.
    pub(super) of_nobody: usize,
    /// The number of rows that nobody is registered for and whose owner or reader has an account.
    pub(super) keyless: usize,
    /// The number of rows of nobody that go along with others; they are the last of `rows`.
    pub(super) along: usize,
    /// Those of them that go with shared rows, by their keys: all who have copies of the other row
    /// have copies of these.
    pub(super) held: BTreeMap<Vec<u8>, Holders>,
}

/// The people whom a row names.
pub(super) struct People {
    pub(super) owners: Vec<Value>,
    pub(super) readers: Vec<Value>,
}

impl People {
    /// Returns the owners, followed by the readers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.owners.iter().chain(&self.readers)
    }
}

impl RowPicker<'_, '_> {
    /// Returns the rows that a step takes. Refuses where somebody has an account and no key, because
    /// they could never bring their rows back.
    pub(super) fn taken(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
        loss: Loss,
    ) -> Result<Taken, Error> {
        let taken = self.looked_at(table, columns, rows, loss)?;
        if taken.keyless == 0 {
            return Ok(taken);
        }
        Err(Error::Unregistered {
            table: table.name.clone(),
            rows: u64::try_from(taken.keyless).unwrap_or(u64::MAX),
        })
    }

    /// Returns the rows that a step would take, each with the principal whose bag gets its record:
    /// the user, or else the one that [`super::principals::Principals::keeper`] names. A disguise
    /// of everybody takes neither rows of people who came back nor rows that name nobody, unless
    /// they go whole along with others.
    pub(super) fn looked_at(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
        loss: Loss,
    ) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        if let Some(user) = self.principals.user.map(Value::principal) {
            taken.keepers = vec![user; rows.len()];
            taken.rows = rows;
            return Ok(taken);
        }
        let people = self.people(table, columns, &rows)?;
        self.principals.meet(
            self.database,
            &people.iter().flat_map(People::all).collect::<Vec<_>>(),
        )?;
        let mut unkept = Vec::new();
        for (row, of) in rows.into_iter().zip(&people) {
            let keeper = self.principals.keeper(of).map(|keeper| {
                // A row that goes whole goes with whoever of its owners leaves.
                let leaving = || self.principals.leaving_owner(of);
                let stays = table.goes_whole() && self.principals.has_returned(&keeper);
                stays.then(leaving).flatten().unwrap_or(keeper)
            });
            match keeper {
                Some(keeper) if self.principals.has_returned(&keeper) => {}
                Some(keeper) => {
                    taken.rows.push(row);
                    taken.keepers.push(keeper);
                }
                None => unkept.push((row, of)),
            }
        }
        let mut named: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for id in unkept.iter().flat_map(|(_, of)| of.all()) {
            if !id.is_nobody() {
                named.insert(id.principal(), id.clone());
            }
        }
        let named: Vec<Value> = named.into_values().collect();
        let pseudo = &self.principals.live.pseudo;
        let there = existing(self.database, &pseudo.table, &pseudo.id, &named)?;
        let is_there = |it: &Value| there.contains(&it.principal());
        let (keyless, of_nobody): (Vec<_>, Vec<_>) = unkept
            .into_iter()
            .partition(|(_, of)| of.all().any(is_there));
        taken.keyless = keyless.len();
        let of_nobody: Vec<Vec<Value>> = of_nobody.into_iter().map(|(row, _)| row).collect();
        taken.of_nobody = match loss {
            Loss::Row => self.take_of_nobody((table, columns), of_nobody, &mut taken)?,
            Loss::Values => of_nobody.len(),
        };
        Ok(taken)
    }

    /// Returns the people whom each row names.
    pub(super) fn people(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<People>, Error> {
        let owners = self.owners(table, columns, rows)?;
        let people = owners.into_iter().zip(rows).map(|(owners, row)| {
            let readers = table.readers.iter();
            let readers = readers.filter_map(|it| at(columns, row, it).cloned());
            People {
                owners,
                readers: readers.collect(),
            }
        });
        Ok(people.collect())
    }

    /// Returns the owners of each row, by its own columns or along the path to them.
    pub(super) fn owners(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>, Error> {
        let own = |row: &Vec<Value>| -> Vec<Value> {
            let owners = table.owners.iter();
            owners
                .filter_map(|it| at(columns, row, it).cloned())
                .collect()
        };
        match &table.path {
            None => Ok(rows.iter().map(own).collect()),
            Some(path) => ends(self.database, path, columns, rows),
        }
    }

    /// Splits rows by the role in them of those who leave; if nobody only reads, all count as owned.
    /// Of everybody all leave who have not come back.
    pub(super) fn parted(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Parted, Error> {
        let mut parted = Parted::default();
        let all_leave = self.principals.user.is_none() && !self.principals.has_somebody_returned();
        if all_leave || table.readers.is_empty() {
            parted.owned = rows;
            return Ok(parted);
        }
        let people = self.people(table, columns, &rows)?;
        for (row, mut people) in rows.into_iter().zip(people) {
            people.owners.retain(|owner| !owner.is_nobody());
            let owners = &people.owners;
            if self.principals.user.is_none() && !self.principals.stays_with_returned(&people) {
                parted.owned.push(row);
                continue;
            }
            let mine = |owner: &Value| self.principals.leaves(&self.principals.name(owner));
            match (owners.iter().any(mine), owners.iter().all(mine)) {
                (true, true) => parted.owned.push(row),
                (true, false) => parted.shared.push(row),
                (false, _) => parted.read.push(row),
            }
        }
        Ok(parted)
    }

    /// Returns the rows without those of placeholders made by this disguise, which the next chunk
    /// would find among them.
    pub(super) fn without_made(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let id = &self.principals.live.pseudo.id;
        if self.principals.earlier.is_none()
            || self.principals.user.is_some()
            || table.name != self.principals.live.pseudo.table
        {
            return Ok(rows);
        }
        let ids: Vec<&Value> = rows.iter().filter_map(|row| at(columns, row, id)).collect();
        self.principals.meet(self.database, &ids)?;
        rows.retain(|row| {
            at(columns, row, id).is_none_or(|id| !self.principals.made.contains(&id.principal()))
        });
        Ok(rows)
    }
}

impl Applier<'_> {
    /// Takes the user out of rows that name them as a reader and are not theirs alone. Returns the
    /// rows of which they are an owner.
    pub(super) fn leave_as_reader(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let Parted {
            mut owned,
            mut shared,
            mut read,
        } = self.picker().parted(table, columns, rows)?;
        let mut left = BTreeSet::new();
        for (rows, is_read) in [(&mut read, true), (&mut shared, false)] {
            let identity = |row: &Vec<Value>| picked(columns, row, &table.identity);
            let mut identities: Vec<Vec<Value>> = rows.iter().map(identity).collect();
            for reader in &table.readers {
                let made = if table.unlinks(reader) {
                    self.unlink_column(number, table, columns, rows, reader)?
                } else {
                    let step = (reader, &[][..]);
                    self.decorrelate_column(number, table, columns, rows, &mut identities, step)?
                };
                for (index, placeholder) in made {
                    left.extend(Some(index).filter(|_| is_read));
                    if let Some(row) = rows.get_mut(index) {
                        put(columns, row, reader, placeholder);
                    }
                }
            }
        }
        // Of those whose readers all came back nothing changed.
        self.applied.count(table, left.len());
        owned.append(&mut shared);
        Ok(owned)
    }
}
