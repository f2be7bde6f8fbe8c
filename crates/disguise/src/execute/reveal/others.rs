//! People whom records name beside the returning person: an account with such an id counts as theirs
//! only with the key that they had, or one that took its place.

use std::collections::{BTreeMap, BTreeSet};

use super::current_owner::Now;
use super::owners::Owners;
use super::report::KeptReason;
use super::{Due, Open};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::placeholder_succession::{self, Successor};
use crate::records::principal::Reach;
use crate::records::registry;
use crate::records::section::{Change, Modified};
use crate::records::succession::{self, Fingerprint, fingerprint};
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;

/// Others as far as a reveal has met them.
#[derive(Default)]
pub(super) struct Others {
    /// Whom each open bag knows by their keys.
    named: Vec<BTreeMap<Vec<u8>, Fingerprint>>,
    /// The names of nobody in the removed rows of each open bag.
    nobody: Vec<BTreeSet<Vec<u8>>>,
    /// For each open bag the number of the one that keeps the readers whom its rows lack.
    homes: Vec<usize>,
    /// Judgements of accounts, by the name in the users table and the key: true if that key is theirs.
    judged: BTreeMap<(Vec<u8>, Fingerprint), bool>,
    /// Names in the bag with a number under which somebody else has an account.
    replaced: BTreeSet<(usize, Vec<u8>)>,
}

impl Others {
    /// Takes up whom the open bags name, and finds out which bag keeps the readers whom rows of each
    /// bag lack: its own, or for a copy behind a placeholder that of the leaving which is undone.
    /// Nobody asks for the disguise that made the copy.
    pub(super) fn meet(reach: &Reach, opened: &[Open<'_>]) -> Self {
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
        Self {
            named: opened.iter().map(|it| it.bag.named.clone()).collect(),
            homes: opened.iter().enumerate().map(home).collect(),
            nobody: opened.iter().map(|it| it.bag.nobody.clone()).collect(),
            ..Self::default()
        }
    }

    /// Returns the names of nobody in the removed rows of the open bag with number `index`.
    pub(super) fn nobody(&self, index: usize) -> Result<&BTreeSet<Vec<u8>>, Error> {
        let what = "a section of a bag that is not open is due";
        self.nobody.get(index).ok_or(Error::Defect { what })
    }

    /// Gives the bags the notes of whom their records name now.
    pub(super) fn leave(&mut self, opened: &mut [Open<'_>]) {
        for (open, named) in opened.iter_mut().zip(std::mem::take(&mut self.named)) {
            open.bag.named = named;
        }
    }

    /// Returns the number of the bag that keeps a reader or a reference which a row of the bag with
    /// number `index` lacks, and notes there who the reader is. It is the bag itself where the other knows somebody else by
    /// that name; the disguise of the copy is then listed, and can be revealed.
    pub(super) fn home(
        &mut self,
        database: &mut dyn TenantConnection,
        index: usize,
        missing: &Change,
    ) -> Result<usize, Error> {
        let what = "a section of a bag that is not open lacks a reference";
        let home = *self.homes.get(index).ok_or(Error::Defect { what })?;
        let Change::Decorrelated { rows, .. } = missing else {
            return Ok(home);
        };
        if home == index {
            return Ok(index);
        }
        for row in rows {
            let name = row.before.principal();
            let key = |of: usize| self.named.get(of).and_then(|it| it.get(&name));
            let (here, there) = (key(index).copied(), key(home).copied());
            let Some(here) = here else { continue };
            if let Some(there) = there {
                let both = [(here, there), (there, here)];
                match succession::lead(database, &both)?.as_slice() {
                    // The older key leads to whatever the newer one leads to.
                    [_, true] => continue,
                    [true, _] => {}
                    _ => return Ok(index),
                }
            }
            if let Some(named) = self.named.get_mut(home) {
                named.insert(name, here);
            }
        }
        Ok(home)
    }
}

impl Owners<'_, '_> {
    /// Check C4 for whom rows of the bag with number `index` name: each who is there, as
    /// [`People::nearest`](super::people::People::nearest) says, and is who the bag says.
    pub(super) fn nearest(
        &mut self,
        index: usize,
        people: &[Value],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut nearest = self.people.nearest(self.database, people)?;
        let known = self.others.named.get(index);
        let Some(known) = known.filter(|it| !it.is_empty()) else {
            return Ok(nearest);
        };
        let mut accounts = BTreeMap::new();
        for name in nearest.keys() {
            let meant = self.people.meant(name);
            if let Some(key) = known.get(name).filter(|_| !self.people.is_own(&meant)) {
                accounts.insert(name.clone(), (meant, *key));
            }
        }
        self.judge(accounts.values().cloned().collect())?;
        for (name, account) in accounts {
            if !self.others.judged.get(&account).is_some_and(|it| *it) {
                nearest.remove(&name);
                self.others.replaced.insert((index, name));
            }
        }
        self.successors(index, people, &mut nearest)?;
        Ok(nearest)
    }

    /// Adds who took the place of placeholders of others that are gone, if they are there.
    fn successors(
        &mut self,
        index: usize,
        people: &[Value],
        nearest: &mut BTreeMap<Vec<u8>, Value>,
    ) -> Result<(), Error> {
        let known = self.others.named.get(index);
        let mut gone: BTreeMap<Vec<u8>, Fingerprint> = BTreeMap::new();
        for name in people.iter().map(Value::principal) {
            let key = known.and_then(|it| it.get(&name)).copied();
            let is_gone = !nearest.contains_key(&name) && !self.people.is_own(&name);
            gone.extend(key.filter(|_| is_gone).map(|key| (name, key)));
        }
        if gone.is_empty() {
            return Ok(());
        }
        let keys = gone.values().copied().collect();
        let found = placeholder_succession::successors(self.database, &keys)?;
        let all: Vec<Value> = found.values().flatten().map(|(_, id)| id.clone()).collect();
        let there = self.people.nearest(self.database, &all)?;
        let account = |(key, id): &Successor| (self.people.meant(&id.principal()), *key);
        let accounts = found.values().flatten();
        let accounts = accounts.filter(|(_, id)| there.contains_key(&id.principal()));
        let accounts: Vec<(Vec<u8>, Fingerprint)> = accounts.map(account).collect();
        self.judge(accounts)?;
        for (name, key) in gone {
            let mut way = found.get(&key).into_iter().flatten();
            let is_back = |(key, id): &&Successor| {
                let account = (self.people.meant(&id.principal()), *key);
                there.contains_key(&id.principal())
                    && self.others.judged.get(&account) == Some(&true)
            };
            if let Some((_, id)) = way.find(is_back) {
                nearest.insert(name, id.clone());
            }
        }
        Ok(())
    }

    /// Finds out which accounts are those of whoever had these keys.
    fn judge(&mut self, mut accounts: Vec<(Vec<u8>, Fingerprint)>) -> Result<(), Error> {
        accounts.retain(|it| !self.others.judged.contains_key(it));
        let names: Vec<Vec<u8>> = accounts.iter().map(|(name, _)| name.clone()).collect();
        let registered = registry::principals(self.database, &names)?;
        let (mut changed, mut pairs) = (Vec::new(), Vec::new());
        for (name, key) in accounts {
            let now = registered.get(&name);
            let now = now.map(|(public, _)| fingerprint(self.salt, public));
            match now.filter(|now| *now != key) {
                Some(now) => {
                    changed.push((name, key));
                    pairs.push((key, now));
                }
                None => drop(self.others.judged.insert((name, key), now.is_some())),
            }
        }
        let leads = succession::lead(self.database, &pairs)?;
        self.others.judged.extend(changed.into_iter().zip(leads));
        Ok(())
    }

    /// Returns the keys of those of `rows`, of which the bag with number `index` tells whom they named
    /// in `column`, that name somebody by an id which somebody else has by now: a row with such a key
    /// is theirs. One that holds the placeholder of the record is the one that is meant.
    pub(super) fn rows_of_others(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        (column, owner): (&str, bool),
        rows: &[Modified],
        current: &BTreeMap<Vec<u8>, Now>,
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let places = table.people_in_key(column);
        let known = self.others.named.get(index);
        if !owner || places.is_empty() || known.is_none_or(BTreeMap::is_empty) {
            return Ok(BTreeSet::new());
        }
        let of = |row: &Modified| -> Vec<Value> {
            let ids = places.iter().filter_map(|at| row.identity.get(*at));
            ids.cloned().collect()
        };
        let people: Vec<Vec<Value>> = rows.iter().map(of).collect();
        let all: Vec<Value> = people.iter().flatten().cloned().collect();
        self.nearest(index, &all)?;
        let replaced = &self.others.replaced;
        let is_other = |id: &Value| replaced.contains(&(index, id.principal()));
        let mut others = BTreeSet::new();
        for (row, people) in rows.iter().zip(people) {
            let key = encoded(&row.identity);
            let Some(now) = current.get(&key) else {
                continue;
            };
            let is_meant = !row.after.is_null() && now.holds(&row.after);
            if !is_meant && people.iter().any(is_other) {
                others.insert(key);
            }
        }
        Ok(others)
    }

    /// Returns the reason why a row of the bag with number `index` cannot go back to `owner`.
    pub(super) fn ownerless(&self, index: usize, owner: &Value) -> KeptReason {
        if self.others.replaced.contains(&(index, owner.principal())) {
            return KeptReason::OwnerReplaced;
        }
        self.people.ownerless(owner)
    }

    /// Returns whether the bag with number `index` knows by the key whom `id` names: nobody else
    /// counts as them.
    pub(super) fn is_known(&self, index: usize, id: &Value) -> bool {
        let known = self.others.named.get(index);
        let is_own = || self.people.means_own(id);
        known.is_some_and(|it| it.contains_key(&id.principal())) && !is_own()
    }
}
