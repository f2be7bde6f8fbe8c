//! People whom removed rows name and who have no account: a reveal does not wait for them.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::Applier;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::row::at;
use crate::statements::table::existing;

impl Applier<'_> {
    /// Returns for each row that goes the names by which it names nobody: they are neither
    /// registered nor in the users table. Of rows that name their owner alone there are none.
    pub(super) fn nobody(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<BTreeSet<Vec<u8>>>, Error> {
        let others: Vec<&String> = self.live.others(table).collect();
        if table.readers.is_empty() && others.len() < 2 {
            return Ok(vec![BTreeSet::new(); rows.len()]);
        }
        let named = |row: &Vec<Value>| -> Vec<Value> {
            let people = others.iter().filter_map(|it| at(columns, row, it));
            people.filter(|it| !it.is_nobody()).cloned().collect()
        };
        let named: Vec<Vec<Value>> = rows.iter().map(named).collect();
        self.principals
            .meet(self.database, &named.iter().flatten().collect::<Vec<_>>())?;
        let strangers = self.strangers(named.iter().flatten())?;
        let is_nobody = |name: &Vec<u8>| strangers.contains(name);
        let of = |of: &Vec<Value>| of.iter().map(Value::principal).filter(is_nobody).collect();
        Ok(named.iter().map(of).collect())
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
