//! The owners of a row, and the person whose bag its record goes to.

use super::applier::Applier;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::path_end::ends;
use crate::statements::row::{at, picked, put};

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

impl Applier<'_> {
    /// Returns the principal whose bag takes the record of each row: the user, or else the one that
    /// [`super::principals::Principals::keeper`] names. Rows that nobody could ever bring back are
    /// refused.
    pub(super) fn keepers(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if let Some(user) = self.user.map(Value::principal) {
            return Ok(vec![user; rows.len()]);
        }
        let people = self.people(table, columns, rows)?;
        self.principals.meet(
            self.database,
            &people.iter().flat_map(People::all).collect::<Vec<_>>(),
        )?;
        let mut keepers = Vec::with_capacity(rows.len());
        let mut lost: u64 = 0;
        for of in &people {
            match self.principals.keeper(of) {
                Some(keeper) => keepers.push(keeper),
                None => lost = lost.saturating_add(1),
            }
        }
        if lost > 0 {
            return Err(Error::Unregistered {
                table: table.name.clone(),
                rows: lost,
            });
        }
        Ok(keepers)
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
        } = self.parted(table, columns, rows)?;
        self.count(table, read.len());
        for rows in [&mut read, &mut shared] {
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
                    if let Some(row) = rows.get_mut(index) {
                        put(columns, row, reader, placeholder);
                    }
                }
            }
        }
        owned.append(&mut shared);
        Ok(owned)
    }

    /// Splits rows by the role of the user in them; if nobody only reads, all count as owned.
    pub(super) fn parted(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Parted, Error> {
        let mut parted = Parted::default();
        if self.user.is_none() || table.readers.is_empty() {
            parted.owned = rows;
            return Ok(parted);
        }
        let owners = self.owners(table, columns, &rows)?;
        for (row, mut owners) in rows.into_iter().zip(owners) {
            owners.retain(|owner| !owner.is_nobody());
            let mine = |owner: &Value| self.principals.own.contains(&self.principals.name(owner));
            match (owners.iter().any(mine), owners.iter().all(mine)) {
                (true, true) => parted.owned.push(row),
                (true, false) => parted.shared.push(row),
                (false, _) => parted.read.push(row),
            }
        }
        Ok(parted)
    }

    /// Returns the rows whose record would not go to somebody who came back.
    pub(super) fn without_returned(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.principals.earlier.is_none() || self.user.is_some() {
            return Ok(rows);
        }
        let people = self.people(table, columns, &rows)?;
        self.principals.meet(
            self.database,
            &people.iter().flat_map(People::all).collect::<Vec<_>>(),
        )?;
        let mut people = people.iter();
        rows.retain(|_| {
            let keeper = people.next().and_then(|of| self.principals.keeper(of));
            keeper.is_none_or(|keeper| !self.principals.has_returned(&keeper))
        });
        Ok(rows)
    }

    /// Returns the rows without those of placeholders made by this disguise, which the next chunk
    /// would find among them.
    pub(super) fn without_made(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let id = &self.live.pseudo.id;
        if self.principals.earlier.is_none()
            || self.user.is_some()
            || table.name != self.live.pseudo.table
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
