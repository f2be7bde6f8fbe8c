//! Rows with several owners: whoever leaves is replaced, the last one takes the row along.

use std::collections::BTreeSet;

use super::{Work, at, picked, put};
use crate::error::Error;
use crate::record::{Change, Modified};
use crate::schema::Known;
use crate::store::{SHARED, bytes, slot};
use crate::table::{Write, delete_keys, existing, insert_all, select_keys, update_keys};
use crate::value::Value;

impl Work<'_> {
    /// Parts rows that others own too from those that nobody else does.
    pub(super) fn split(
        &self,
        table: &Known,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        if table.owners.len() < 2 {
            return (Vec::new(), rows);
        }
        rows.into_iter().partition(|row| {
            let owners: BTreeSet<Vec<u8>> = table
                .owners
                .iter()
                .filter_map(|owner| at(columns, row, owner))
                .filter(|owner| !owner.is_nobody())
                .map(Value::principal)
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
        table: &Known,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.count(table, rows.len());
        let there = self.still_there(table, columns, &rows)?;
        let mut gone = Vec::new();
        for row in rows {
            let identity = picked(columns, &row, &table.identity);
            let mut disguised = row.clone();
            let mut leaving: Vec<(String, Value, Value)> = Vec::new();
            let mut stays = false;
            for column in &table.owners {
                let Some(owner) = at(columns, &row, column)
                    .filter(|it| !it.is_nobody())
                    .cloned()
                else {
                    continue;
                };
                let mine = self.user.is_none() || self.own.contains(&owner.principal());
                stays |= !mine && there.contains(&owner.principal());
                let pseudo = self
                    .known
                    .get(&owner.principal())
                    .is_some_and(|(_, pseudo)| *pseudo);
                let agreed = if pseudo && !mine {
                    owner.clone()
                } else {
                    self.agreed(table, column, &identity, mine)?
                };
                put(columns, &mut disguised, column, agreed.clone());
                if mine {
                    leaving.push((column.clone(), owner, agreed));
                }
            }
            for (column, owner, agreed) in &leaving {
                self.make(&[(owner.clone(), Some(agreed.clone()))])?;
                let record = Modified {
                    identity: identity.clone(),
                    before: owner.clone(),
                    after: agreed.clone(),
                };
                let change = Change::Decorrelated {
                    identity: table.identity.clone(),
                    column: column.clone(),
                    rows: vec![record],
                };
                self.note(owner, number, table, change)?;
                if stays {
                    let write = Write {
                        identity: &identity,
                        guard: None,
                        value: agreed,
                    };
                    update_keys(self.database, table, column, &[write])?;
                }
                let (columns, rows) = (columns.to_vec(), vec![disguised.clone()]);
                let change = Change::Removed {
                    shared: true,
                    columns,
                    rows,
                };
                self.note(owner, number.saturating_add(1), table, change)?;
            }
            if !stays {
                gone.push(identity);
            }
        }
        delete_keys(self.database, &table.name, &table.identity, &gone)?;
        Ok(())
    }

    /// The owners of `rows` that are persons with an account.
    pub(super) fn still_there(
        &mut self,
        table: &Known,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut ids: Vec<Value> = Vec::new();
        for row in rows {
            for owner in table
                .owners
                .iter()
                .filter_map(|owner| at(columns, row, owner))
            {
                let pseudo = self
                    .known
                    .get(&owner.principal())
                    .is_some_and(|(_, pseudo)| *pseudo);
                if !owner.is_nobody() && !pseudo {
                    ids.push(owner.clone());
                }
            }
        }
        let pseudo = &self.live.pseudo;
        existing(self.database, &pseudo.table, &pseudo.id, &ids)
    }

    /// The placeholder that all owners of a shared row agreed on for one of its columns.
    pub(super) fn agreed(
        &mut self,
        table: &Known,
        column: &str,
        identity: &[Value],
        leaving: bool,
    ) -> Result<Value, Error> {
        let slot = slot(self.salt, &table.name, column, identity);
        let (columns, by) = (["pseudo".to_owned()], ["slot".to_owned()]);
        let found = select_keys(self.database, SHARED, &columns, &by, &[vec![bytes(&slot)]])?;
        if let Some(Value::Bytes(stored)) = found.into_iter().flatten().next() {
            let mut reader = probity_format::wire::Reader::new(&stored, "shared placeholder");
            let agreed = Value::decode(&mut reader)?;
            let pseudo = &self.live.pseudo;
            let taken = leaving
                && !existing(
                    self.database,
                    &pseudo.table,
                    &pseudo.id,
                    std::slice::from_ref(&agreed),
                )?
                .is_empty();
            if !taken {
                return Ok(agreed);
            }
            delete_keys(self.database, SHARED, &by, &[vec![bytes(&slot)]])?;
        }
        let agreed = self.free_ids(1)?.into_iter().next().ok_or(Error::Forged)?;
        let mut stored = Vec::new();
        agreed.encode(&mut stored);
        insert_all(
            self.database,
            SHARED,
            &["slot", "pseudo"],
            &[vec![bytes(&slot), Value::Bytes(stored)]],
        )?;
        Ok(agreed)
    }
}
