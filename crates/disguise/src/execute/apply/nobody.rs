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
        let mut unknown: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for id in named.iter().flatten() {
            let name = self.principals.name(id);
            if !self.principals.known.contains_key(&name) && !self.principals.own.contains(&name) {
                unknown.insert(id.principal(), id.clone());
            }
        }
        let ids: Vec<Value> = unknown.values().cloned().collect();
        let pseudo = &self.live.pseudo;
        let there = existing(self.database, &pseudo.table, &pseudo.id, &ids)?;
        let is_nobody = |name: &Vec<u8>| unknown.contains_key(name) && !there.contains(name);
        let of = |of: &Vec<Value>| of.iter().map(Value::principal).filter(is_nobody).collect();
        Ok(named.iter().map(of).collect())
    }
}
