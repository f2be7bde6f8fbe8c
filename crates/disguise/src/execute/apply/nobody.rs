//! People whom rows that are hidden name: those without an account, for whom a reveal does not wait,
//! and those who are registered, whom it knows by their keys.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::Applier;
use super::principals::Principals;
use super::row_picker::RowPicker;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::Modified;
use crate::records::succession::{Fingerprint, fingerprint};
use crate::schema::ResolvedTable;
use crate::statements::row::at;
use crate::statements::table::existing;

/// The people whom a row names and who are registered, with the fingerprints of their keys.
pub(super) type KnownInRow = BTreeMap<Vec<u8>, Fingerprint>;

/// The people whom a row that goes names.
#[derive(Clone, Default)]
pub(super) struct NamedInRow {
    /// The names of those who are neither registered nor in the users table.
    pub(super) nobody: BTreeSet<Vec<u8>>,
    /// Those who are registered.
    pub(super) known: KnownInRow,
}

impl Applier<'_> {
    /// Notes in the bags of their keepers whose the rows are in which a record speaks of `column`, as
    /// far as their keys say so: whoever has the id later has a row with the same key.
    pub(super) fn note_keys<'v>(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        records: impl Iterator<Item = (&'v Vec<u8>, &'v [Modified])>,
    ) -> Result<(), Error> {
        let places = table.people_in_key(column);
        if places.is_empty() {
            return Ok(());
        }
        let mut people: Vec<(&Vec<u8>, &Value)> = Vec::new();
        for (keeper, rows) in records {
            let ids = rows.iter();
            let ids = ids.flat_map(|row| places.iter().filter_map(|at| row.identity.get(*at)));
            people.extend(ids.filter(|it| !it.is_nobody()).map(|id| (keeper, id)));
        }
        let ids: Vec<&Value> = people.iter().map(|(_, id)| *id).collect();
        self.principals.meet(self.database, &ids)?;
        let known = self.principals.fingerprints(ids.into_iter());
        let mut of_keepers: BTreeMap<&Vec<u8>, KnownInRow> = BTreeMap::new();
        for (keeper, id) in people {
            let name = id.principal();
            if let Some(key) = known.get(&name) {
                of_keepers.entry(keeper).or_default().insert(name, *key);
            }
        }
        for (keeper, known) in of_keepers {
            self.note_known(keeper, known)?;
        }
        Ok(())
    }

    /// Notes in the bag of `keeper` whom a row names beside the person themselves.
    pub(super) fn note_known(&mut self, keeper: &[u8], mut known: KnownInRow) -> Result<(), Error> {
        let is_users = self
            .user
            .is_some_and(|user| user.principal().as_slice() == keeper);
        let principals = &self.principals;
        known.retain(|name, _| {
            let is_own = principals.own.contains(name) || principals.made.contains(name);
            name.as_slice() != keeper && !(is_users && is_own)
        });
        if !known.is_empty() {
            self.notes.bag_of(keeper.to_vec())?.named.append(&mut known);
        }
        Ok(())
    }
}

impl Applier<'_> {
    /// Returns the placeholders that the records name beside their people.
    pub(super) fn placeholders_named(&self) -> BTreeSet<Fingerprint> {
        let named = self.notes.bags.values().flat_map(|bag| bag.named.values());
        let named: BTreeSet<Fingerprint> = named.copied().collect();
        if named.is_empty() {
            return named;
        }
        let known = self.principals.known.values();
        let placeholders = known.filter(|(_, standing)| !standing.is_person());
        let keys = placeholders.map(|(public, _)| fingerprint(self.salt, public));
        keys.filter(|key| named.contains(key)).collect()
    }
}

impl RowPicker<'_, '_> {
    /// Returns for each row that goes whom it names. Of rows that name their owner alone there is
    /// nobody to tell of.
    pub(super) fn named_in(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<NamedInRow>, Error> {
        let Some(named) = self.named(table, columns, rows)? else {
            return Ok(vec![NamedInRow::default(); rows.len()]);
        };
        let strangers = self.strangers(named.iter().flatten())?;
        let keys = self.principals.fingerprints(named.iter().flatten());
        let of = |of: &Vec<Value>| {
            let mut all = NamedInRow::default();
            for name in of.iter().map(Value::principal) {
                if let Some(key) = keys.get(&name) {
                    all.known.insert(name, *key);
                } else if strangers.contains(&name) {
                    all.nobody.insert(name);
                }
            }
            all
        };
        Ok(named.iter().map(of).collect())
    }

    /// Returns for each row the people whom it names, who are met then; nothing where rows name
    /// their owner alone.
    fn named(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Option<Vec<Vec<Value>>>, Error> {
        let others: Vec<&String> = self.principals.live.others(table).collect();
        if table.readers.is_empty() && others.len() < 2 {
            return Ok(None);
        }
        let named = |row: &Vec<Value>| -> Vec<Value> {
            let people = others.iter().filter_map(|it| at(columns, row, it));
            people.filter(|it| !it.is_nobody()).cloned().collect()
        };
        let named: Vec<Vec<Value>> = rows.iter().map(named).collect();
        self.principals
            .meet(self.database, &named.iter().flatten().collect::<Vec<_>>())?;
        Ok(Some(named))
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
        let pseudo = &self.principals.live.pseudo;
        let there = existing(self.database, &pseudo.table, &pseudo.id, &ids)?;
        let names = unknown.into_keys();
        Ok(names.filter(|name| !there.contains(name)).collect())
    }
}

impl Principals<'_> {
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
                && let Some((public, _)) = self.known.get(&self.name(id))
            {
                known.insert(name, fingerprint(self.notes.salt, public));
            }
        }
        known
    }
}
