//! Placeholders for readers who are not there, in rows that go back to their owners without them.

use std::collections::{BTreeMap, BTreeSet};

use super::meanwhile::Names;
use super::{Due, Open, Revealer, Sections};
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::execute::apply::Accounts;
use crate::records::principal::pseudo_key;
use crate::records::registry::KeyedPrincipal;
use crate::records::section::{Change, Modified, PrincipalKind, SpeaksFor};
use crate::records::{deadline, registry};
use crate::schema::ResolvedTable;
use crate::statements::row::{at, put};
use crate::statements::table::delete_keys;

/// The point to which a failed try rolls back.
const SAVEPOINT: &str = "SAVEPOINT probity_stand_in";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_stand_in";
const RELEASE: &str = "RELEASE SAVEPOINT probity_stand_in";

/// Placeholders in the place of readers who are missing.
#[derive(Default)]
pub(crate) struct StandIns {
    /// True if some are made where rows wait for readers.
    pub(super) is_on: bool,
    /// Those that were made, until they are linked to their readers.
    made: Vec<StandIn>,
    /// For each open bag the number of the one that keeps the readers whom its rows lack.
    homes: Vec<usize>,
}

/// A placeholder that was made for a reader.
struct StandIn {
    /// The number of the open bag with the record of the row.
    bag: usize,
    reader: Value,
    placeholder: Value,
}

impl Revealer<'_> {
    /// Finds out which bag keeps the readers whom rows of each bag lack: its own, or for a copy behind
    /// a placeholder that of the leaving which is undone. Nobody asks for the disguise that made the
    /// copy.
    pub(super) fn find_homes(&mut self, opened: &[Open<'_>]) {
        let reach = self.reach;
        let home = |(index, open): (usize, &Open<'_>)| {
            let placeholder = open.reached.placeholder.as_ref();
            let left = placeholder.and_then(|it| reach.left(it));
            let left = left.filter(|_| open.due == Due::Copies);
            let is_of = |name: &Vec<u8>, open: &Open<'_>| {
                let mut links = open.bag.speaks_for.iter();
                let is_due = matches!(open.due, Due::Changes | Due::All);
                is_due && links.any(|link| link.new.principal() == *name)
            };
            let found = left.and_then(|name| opened.iter().position(|it| is_of(&name, it)));
            found.unwrap_or(index)
        };
        self.stand_ins.homes = opened.iter().enumerate().map(home).collect();
    }

    /// Returns the number of the bag that keeps the readers whom rows of a bag lack.
    pub(super) fn home(&self, index: usize) -> usize {
        self.stand_ins.homes.get(index).copied().unwrap_or(index)
    }

    /// Returns whether rows of `due` may go back with a placeholder in a reader's place.
    pub(super) fn may_stand_in(&self, due: &Sections) -> bool {
        due.iter().any(|(_, section)| {
            let is_row = matches!(
                section.change,
                Change::Removed { .. } | Change::Copied { .. }
            );
            let table = self.live.table(&section.table).filter(|_| is_row);
            table.is_some_and(|table| table.readers.iter().any(|it| must_name(table, it)))
        })
    }

    /// Puts placeholders into rows that nothing but readers keeps from going back, where the column
    /// may not be NULL. `owned` has each row as it would go back, if it would. Returns the
    /// placeholders. A row of which the reader is part of the key waits, and so does one that names
    /// a placeholder of the returning person.
    pub(super) fn stand_in(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: &[Vec<Value>],
        owned: &mut [Option<Vec<Value>>],
    ) -> Result<Vec<Value>, Error> {
        if !self.stand_ins.is_on || !table.readers.iter().any(|it| must_name(table, it)) {
            return Ok(Vec::new());
        }
        let waiting = rows.iter().zip(owned).filter(|(_, owned)| owned.is_none());
        let (waiting, places): (Vec<_>, Vec<_>) = waiting.unzip();
        let lacking = self.lacking((table, index), columns, &waiting)?;
        let mut bare = Vec::with_capacity(waiting.len());
        for (row, lacking) in waiting.iter().zip(&lacking) {
            let mut row = (*row).clone();
            for column in lacking {
                put(columns, &mut row, column, Value::Null);
            }
            bare.push(row);
        }
        let bare = self.owners_back((table, index), columns, &bare, &BTreeSet::new())?;
        let mut free = Vec::new();
        for ((row, lacking), place) in bare.into_iter().zip(lacking).zip(places) {
            if let (Some(row), false) = (row, lacking.is_empty()) {
                free.push((row, lacking, place));
            }
        }
        let wanted = free.iter().map(|(_, lacking, _)| lacking.len()).sum();
        let made = self.made(wanted)?;
        let mut ids = made.iter();
        for (mut row, lacking, place) in free {
            for (column, id) in lacking.into_iter().zip(ids.by_ref()) {
                put(columns, &mut row, column, id.clone());
            }
            *place = (!made.is_empty()).then_some(row);
        }
        Ok(made)
    }

    /// Returns the columns of readers who are missing from each of `rows`.
    fn lacking<'t>(
        &mut self,
        (table, index): (&'t ResolvedTable, usize),
        columns: &[String],
        rows: &[&Vec<Value>],
    ) -> Result<Vec<Vec<&'t String>>, Error> {
        let live = self.live;
        let mut lacking = vec![Vec::new(); rows.len()];
        for reader in table.readers.iter().filter(|it| must_name(table, it)) {
            let alone = |row: &&Vec<Value>| {
                let mut row = (*row).clone();
                for other in live.others(table).filter(|it| *it != reader) {
                    put(columns, &mut row, other, Value::Null);
                }
                row
            };
            let alone: Vec<Vec<Value>> = rows.iter().map(alone).collect();
            let back = self.owners_back((table, index), columns, &alone, &BTreeSet::new())?;
            for ((row, back), lacking) in rows.iter().zip(back).zip(&mut lacking) {
                let is_own = at(columns, row, reader).is_some_and(|it| self.people.means_own(it));
                if back.is_none() && !is_own {
                    lacking.push(reader);
                }
            }
        }
        Ok(lacking)
    }

    /// Makes accounts of placeholders; none if the users table takes none.
    fn made(&mut self, count: usize) -> Result<Vec<Value>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let doing = "making placeholders for readers";
        self.database.execute(SAVEPOINT, &[]).doing(doing)?;
        let mut accounts = Accounts {
            database: &mut *self.database,
            live: self.live,
            now: self.now,
        };
        let made = accounts.free_ids(count, |_| false);
        let made = made.and_then(|ids| accounts.insert(&ids));
        let made = match made {
            Err(Error::Placeholder { .. } | Error::NoFreeId { .. }) => {
                self.database.execute(BACK, &[]).doing(doing)?;
                Vec::new()
            }
            made => made?,
        };
        self.database.execute(RELEASE, &[]).doing(doing)?;
        Ok(made)
    }

    /// Notes the placeholders of `made` that rows which are back name, each with its reader in the
    /// row as recorded, and removes the accounts of the others.
    pub(super) fn settle_stand_ins(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        back: &[(Vec<Value>, Vec<Value>)],
        made: Vec<Value>,
    ) -> Result<(), Error> {
        let mut readers: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for (original, row) in back {
            for column in &table.readers {
                if let (Some(reader), Some(now)) =
                    (at(columns, original, column), at(columns, row, column))
                {
                    readers.insert(now.principal(), reader.clone());
                }
            }
        }
        let mut unused = Vec::new();
        for placeholder in made {
            match readers.remove(&placeholder.principal()) {
                Some(reader) => self.stand_ins.made.push(StandIn {
                    bag: self.home(index),
                    reader,
                    placeholder,
                }),
                None => unused.push(vec![placeholder]),
            }
        }
        let pseudo = &self.live.pseudo;
        let by = std::slice::from_ref(&pseudo.id);
        delete_keys(self.database, &pseudo.table, by, &unused)?;
        Ok(())
    }

    /// Registers the placeholders that were made for readers, and links them to these in the bags
    /// of the owner, who replaces them once the readers are back.
    pub(super) fn link_stand_ins(&mut self, opened: &mut [Open<'_>]) -> Result<(), Error> {
        for it in std::mem::take(&mut self.stand_ins.made) {
            let what = "a row came back from a bag that is not open";
            let open = opened.get_mut(it.bag).ok_or(Error::Defect { what })?;
            let links = open.bag.speaks_for.iter();
            let index = links.map(|link| link.index.saturating_add(1)).max();
            let index = index.unwrap_or(0);
            let suite = open.reached.public.suite();
            let name = it.placeholder.principal();
            let public = pseudo_key(suite, &open.bag.seed, index)?.public()?;
            open.bag.speaks_for.push(SpeaksFor {
                old: it.reader,
                new: it.placeholder,
                index,
                gone: false,
                left: false,
                retained: false,
            });
            let standing = PrincipalKind::Placeholder;
            let end = open.reached.found.locator.origin.expires;
            let made = BTreeMap::from([(name.clone(), end)]);
            let row = KeyedPrincipal {
                name,
                public,
                standing,
            };
            registry::register(self.database, &[row])?;
            deadline::put_fleeting(self.database, &made)?;
        }
        Ok(())
    }

    /// Returns the names of other people's placeholders among the values of a reader's column that
    /// may not be NULL, except those that `records` put there. One of them may stand in for a
    /// placeholder of the returning person, whose account was away when the owner took the row back.
    pub(super) fn standing_in<'v>(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        values: impl Iterator<Item = &'v Value>,
        records: &[Modified],
    ) -> Result<Names, Error> {
        let is_reader = table.readers.iter().any(|it| it == column);
        if !owner || !is_reader || !must_name(table, column) {
            return Ok(Names::new());
        }
        let others = values.filter(|it| !it.is_nobody() && !self.people.means_own(it));
        let mut names: Names = others.map(Value::principal).collect();
        for record in records {
            names.remove(&record.after.principal());
        }
        let names: Vec<Vec<u8>> = names.into_iter().collect();
        let registered = registry::principals(self.database, &names)?;
        let registered = registered.into_iter();
        let placeholders = registered.filter(|(_, (_, standing))| !standing.is_person());
        Ok(placeholders.map(|(name, _)| name).collect())
    }
}

/// Returns whether a row must name somebody in the column, which is no part of its key.
fn must_name(table: &ResolvedTable, column: &str) -> bool {
    let known = table.catalog.column(column);
    known.is_some_and(|it| !it.nullable) && !table.identity.iter().any(|it| it == column)
}
