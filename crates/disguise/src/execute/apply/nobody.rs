//! People whom rows that are hidden name: those without an account, for whom a reveal does not wait,
//! and those who are registered, whom it knows by their keys.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::Applier;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::succession::{Fingerprint, fingerprint};
use crate::schema::ResolvedTable;
use crate::statements::row::at;
use crate::statements::table::existing;

/// The people whom a row names, as far as its record must tell who they were.
#[derive(Clone, Default)]
pub(super) struct NamedInRow {
    /// The names by which it names nobody: neither registered nor in the users table.
    pub(super) nobody: BTreeSet<Vec<u8>>,
    /// The names of those who are registered, with the fingerprints of their keys.
    pub(super) named: BTreeMap<Vec<u8>, Fingerprint>,
}

impl Applier<'_> {
    /// Returns for each row that goes whom it names. Of rows that name their owner alone there is
    /// nobody.
    pub(super) fn named(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<NamedInRow>, Error> {
        let others: Vec<&String> = self.live.others(table).collect();
        if table.readers.is_empty() && others.len() < 2 {
            return Ok(vec![NamedInRow::default(); rows.len()]);
        }
        let named = |row: &Vec<Value>| -> Vec<Value> {
            let people = others.iter().filter_map(|it| at(columns, row, it));
            people.filter(|it| !it.is_nobody()).cloned().collect()
        };
        let named: Vec<Vec<Value>> = rows.iter().map(named).collect();
        self.principals
            .meet(self.database, &named.iter().flatten().collect::<Vec<_>>())?;
        let strangers = self.strangers(named.iter().flatten())?;
        let known = self.fingerprints(named.iter().flatten());
        let of = |row: &Vec<Value>| {
            let names = || row.iter().map(Value::principal);
            let known = |name: Vec<u8>| known.get(&name).map(|key| (name, *key));
            NamedInRow {
                nobody: names().filter(|name| strangers.contains(name)).collect(),
                named: names().filter_map(known).collect(),
            }
        };
        Ok(named.iter().map(of).collect())
    }

    /// Returns the fingerprints of the keys of those of `ids`, which were met before, who are
    /// registered, by the names that rows have for them.
    pub(super) fn fingerprints<'v>(
        &self,
        ids: impl Iterator<Item = &'v Value>,
    ) -> BTreeMap<Vec<u8>, Fingerprint> {
        let mut known = BTreeMap::new();
        for id in ids {
            let name = id.principal();
            if !known.contains_key(&name)
                && let Some((public, _)) = self.principals.known.get(&self.principals.name(id))
            {
                known.insert(name, fingerprint(self.salt, public));
            }
        }
        known
    }

    /// Notes in the bag of `keeper` whom its rows name beside the person themselves.
    pub(super) fn note_named(&mut self, keeper: &[u8], mut row: NamedInRow) -> Result<(), Error> {
        let is_users = self
            .user
            .is_some_and(|user| user.principal().as_slice() == keeper);
        let principals = &self.principals;
        row.named.retain(|name, _| {
            let is_own = principals.own.contains(name) || principals.made.contains(name);
            name.as_slice() != keeper && !(is_users && is_own)
        });
        self.notes.name(keeper, row)
    }

    /// Returns the names of those of `ids`, which were met before, that are neither registered nor
    /// in the users table. Whoever had theirs destroyed in the middle of chunks counts as registered.
    pub(super) fn strangers<'v>(
        &mut self,
        ids: impl Iterator<Item = &'v Value>,
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let principals = &self.principals;
        let mut unknown: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for id in ids.filter(|it| !it.is_nobody()) {
            let name = principals.name(id);
            let is_registered = principals.known.contains_key(&name)
                || principals.own.contains(&name)
                || principals.has_forgotten(&name);
            if !is_registered {
                unknown.insert(id.principal(), id.clone());
            }
        }
        let ids: Vec<Value> = unknown.values().cloned().collect();
        let pseudo = &self.live.pseudo;
        let there = existing(self.database, &pseudo.table, &pseudo.id, &ids)?;
        let names = unknown.into_keys();
        Ok(names.filter(|name| !there.contains(name)).collect())
    }
}
