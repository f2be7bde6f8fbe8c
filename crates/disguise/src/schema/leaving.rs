//! References to people who leave, and the rules for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::database::ForeignKey;
use crate::error::SpecError;
use crate::schema::{ResolvedSchema, ResolvedTable, TableNotes};

/// A rule for references to a person who is removed from the users table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLeave {
    /// The row goes, whoever else it names.
    Remove,
    /// The reference is set to NULL, and the person's records keep the old value.
    Null,
    /// A placeholder takes the person's place.
    Placeholder,
}

impl TableNotes {
    /// Returns the columns whose rows go, or stay, by their rule.
    pub(crate) fn leaving(&self, goes: bool) -> impl Iterator<Item = &String> {
        let all = self.on_leave.iter();
        let meant = all.filter(move |(_, how)| (**how == OnLeave::Remove) == goes);
        meant.map(|(column, _)| column)
    }
}

impl ResolvedTable {
    /// Returns whether a leaving owner takes a row along, whoever else owns it: a rule says so, or
    /// an owner is part of the key, so that no such row exists without its people.
    pub(crate) fn goes_whole(&self) -> bool {
        let said = |owner: &String| self.on_leave.get(owner) == Some(&OnLeave::Remove);
        let in_key = |owner: &String| self.identity.contains(owner);
        self.owners.len() > 1 && (self.owners.iter().all(said) || self.owners.iter().any(in_key))
    }

    /// Returns whether rows go with a leaving person without a transformation for it.
    pub(crate) fn takes_along(&self) -> bool {
        self.on_leave.values().any(|how| *how == OnLeave::Remove)
    }

    /// Returns the places in the key of those who name people, beside `column`: a row with such a key
    /// is that of whoever they mean.
    pub(crate) fn people_in_key(&self, column: &str) -> Vec<usize> {
        let key = self.identity.iter().enumerate();
        let is_person = |it: &String| it != column && self.people().any(|person| person == it);
        key.filter(|(_, it)| is_person(it))
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns whether a reference to a leaving person becomes NULL.
    pub(crate) fn unlinks(&self, column: &str) -> bool {
        self.on_leave.get(column) == Some(&OnLeave::Null)
    }
}

impl ResolvedSchema {
    /// Refuses rules for references that cannot be carried out.
    pub(crate) fn check_on_leave(&self) -> Result<(), SpecError> {
        for table in self.tables.values() {
            for (column, how) in &table.on_leave {
                self.check_leaving(table, column, *how).map_err(|what| {
                    SpecError::new(format!("table {}, on_leave of {column}", table.name), what)
                })?;
            }
        }
        Ok(())
    }

    fn check_leaving(
        &self,
        table: &ResolvedTable,
        column: &String,
        how: OnLeave,
    ) -> Result<(), String> {
        let is_users = table.name == self.pseudo.table;
        if is_users && *column == self.pseudo.id {
            return Err("is the id of the users, by which nobody is referred to".to_owned());
        }
        if how != OnLeave::Remove && !is_users && table.owners.contains(column) {
            return Err(
                "is an owner, with whom the row goes; name it under readers, or nowhere else"
                    .to_owned(),
            );
        }
        match how {
            OnLeave::Remove if is_users => Err("no user leaves with another".to_owned()),
            OnLeave::Remove if table.readers.contains(column) => {
                Err("is a reader, whose leaving removes no row".to_owned())
            }
            OnLeave::Remove => {
                let stays = |owner: &&String| table.on_leave.get(*owner) != Some(&OnLeave::Remove);
                match table.owners.iter().find(stays) {
                    Some(owner) if !table.goes_whole() => Err(format!(
                        "owner {owner} would stay with a row that is gone; say remove of it, too, or name it under readers"
                    )),
                    _ => Ok(()),
                }
            }
            OnLeave::Null if table.identity.contains(column) => {
                Err("is part of the key, so that it cannot be NULL".to_owned())
            }
            OnLeave::Null => match table.catalog.column(column) {
                Some(known) if known.nullable => Ok(()),
                _ => Err("may not be NULL; say placeholder".to_owned()),
            },
            OnLeave::Placeholder => Ok(()),
        }
    }

    /// Returns one sentence for each declared key of the users table to itself without a rule: a
    /// referred user could not leave.
    pub(crate) fn unsaid(&self) -> Vec<String> {
        let users = self.table(&self.pseudo.table);
        let keys = users.into_iter().flat_map(|it| &it.catalog.foreign_keys);
        let own = keys.filter(|key| key.to_table == self.pseudo.table);
        let unsaid = own.filter(|key| !self.is_said(&self.pseudo.table, &key.columns));
        let note = |key: &ForeignKey| {
            let why = if key.to_columns.contains(&self.pseudo.id) {
                "while nothing is said of it under on_leave"
            } else {
                "for the key leads to another column than their id"
            };
            format!(
                "users of {} refer to each other by foreign key ({}), and a user who is referred to cannot leave {why}",
                self.pseudo.table,
                key.columns.join(", ")
            )
        };
        unsaid.map(note).collect()
    }

    /// Returns whether a rule covers the references of `child` by these columns to users who leave.
    pub(crate) fn is_said(&self, child: &str, columns: &[String]) -> bool {
        let child = self.table(child);
        child.is_some_and(|child| {
            let tenant = |it: &&String| child.tenant.as_ref() != Some(*it);
            let mut columns = columns.iter().filter(tenant);
            columns
                .next()
                .is_some_and(|it| child.on_leave.contains_key(it))
                && columns.next().is_none()
        })
    }
}

/// The rules for the references of one table, by their columns.
pub(crate) type Said = BTreeMap<String, OnLeave>;
