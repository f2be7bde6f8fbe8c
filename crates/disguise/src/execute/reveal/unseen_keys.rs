//! Foreign keys over columns that the database works out. No record has such a column, so the rows
//! are asked once they are there, before the commit would be refused.

use std::collections::{BTreeMap, BTreeSet};

use super::late_keys::LateKeys;
use super::meanwhile::Reason;
use super::report::KeptReason;
use super::savepoint::Savepoint;
use super::write_back::is_constraint;
use crate::database::ForeignKey;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::Modified;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::overwrite::{Write, try_update_keys};
use crate::statements::row::{encoded, picked, whole_key};
use crate::statements::table::{present, select_keys};

/// Rows by their keys, each with its values in some columns.
type Values = BTreeMap<Vec<u8>, Vec<Value>>;

impl LateKeys<'_> {
    /// Returns the rows with these keys that refer to nothing by such a key.
    pub(super) fn leading_nowhere(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut nowhere = BTreeSet::new();
        for key in own_unseen(table) {
            let rows = self.values(table, &key.columns, keys)?;
            let to: Vec<Vec<Value>> = rows.values().cloned().collect();
            let there = present(self.database, &key.to_table, &key.to_columns, &to)?;
            let lost = rows
                .into_iter()
                .filter(|(_, to)| !there.contains(&encoded(to)));
            nowhere.extend(lost.map(|(row, _)| row));
        }
        Ok(nowhere)
    }

    /// Returns the rows that would refer to nothing by such a key, or would leave others so, if they
    /// got these values in `column`; found by writing them and rolling that back.
    pub(super) fn tried_unseen(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        ready: &[(Modified, Value)],
    ) -> Result<BTreeMap<Vec<u8>, Reason>, Error> {
        let keys: Vec<Vec<Value>> = ready.iter().map(|(row, _)| row.identity.clone()).collect();
        let mut before = Vec::new();
        for (child, key) in unseen_to(self.live, table) {
            let values = self.values(table, &key.to_columns, &keys)?;
            before.push((child, key, values));
        }
        let writes = ready.iter().map(|(row, target)| Write {
            identity: &row.identity,
            values: std::slice::from_ref(target),
        });
        let writes: Vec<Write<'_>> = writes.collect();
        let point = Savepoint::set(self.database, "probity_unseen", "trying a value")?;
        let mut found = BTreeMap::new();
        match try_update_keys(self.database, table, &[column], &writes) {
            Ok(()) => {
                let nowhere = self.leading_nowhere(table, &keys)?.into_iter();
                found.extend(nowhere.map(|row| (row, (KeptReason::ParentMissing, None))));
                for (child, key, values) in before {
                    let left = self.left_by(table, (child, key), values)?.into_iter();
                    found.extend(left.map(|row| (row, (KeptReason::ReferredTo, None))));
                }
            }
            // Written one by one, they are refused one by one.
            Err(error) if is_constraint(&error) => {}
            Err(error) => return Err(error),
        }
        point.end(self.database, false)?;
        Ok(found)
    }

    /// Returns the rows whose keys of before, to which rows of `child` refer, are there no more.
    fn left_by(
        &mut self,
        table: &ResolvedTable,
        (child, key): (&ResolvedTable, &ForeignKey),
        before: Values,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let all: Vec<Vec<Value>> = before.values().cloned().collect();
        let there = present(self.database, &table.name, &key.to_columns, &all)?;
        let mut gone = all;
        gone.retain(|it| !there.contains(&encoded(it)));
        let referred = present(self.database, &child.name, &key.columns, &gone)?;
        let is_left = |to: &[Value]| {
            let name = encoded(to);
            referred.contains(&name) && !there.contains(&name)
        };
        let left = before.into_iter().filter(|(_, to)| is_left(to));
        Ok(left.map(|(row, _)| row).collect())
    }

    /// The values in `columns` of the rows with these keys, where none of them is NULL.
    fn values(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        keys: &[Vec<Value>],
    ) -> Result<Values, Error> {
        let by = &table.identity;
        let wanted = [by.as_slice(), columns].concat();
        let rows = select_keys(self.database, &table.name, &wanted, by, keys)?;
        let of = |row: Vec<Value>| {
            let values = whole_key(&wanted, &row, columns)?;
            Some((encoded(&picked(&wanted, &row, by)), values))
        };
        Ok(rows.into_iter().filter_map(of).collect())
    }
}

/// Returns whether a change of a table may be refused at the commit for such a key.
pub(super) fn has_unseen_keys(live: &ResolvedSchema, table: &ResolvedTable) -> bool {
    has_own_unseen(table) || unseen_to(live, table).next().is_some()
}

/// The tables that refer to columns of this one that the database works out, with their keys.
fn unseen_to<'t>(
    live: &'t ResolvedSchema,
    table: &'t ResolvedTable,
) -> impl Iterator<Item = (&'t ResolvedTable, &'t ForeignKey)> {
    let keys = live.tables.values().flat_map(|child| {
        let keys = child.catalog.foreign_keys.iter();
        keys.map(move |key| (child, key))
    });
    keys.filter(move |(_, key)| {
        key.to_table == table.name && key.is_checked_late && table.works_out(&key.to_columns)
    })
}

/// Returns whether a table has such keys of its own.
pub(super) fn has_own_unseen(table: &ResolvedTable) -> bool {
    own_unseen(table).next().is_some()
}

/// The keys of a table over columns that the database works out, or to such of its own, which it may
/// check at the commit alone. It refuses others row by row.
fn own_unseen(table: &ResolvedTable) -> impl Iterator<Item = &ForeignKey> {
    let keys = table.catalog.foreign_keys.iter();
    keys.filter(|key| {
        let is_to_unseen = key.to_table == table.name && table.works_out(&key.to_columns);
        key.is_checked_late && (is_to_unseen || table.works_out(&key.columns))
    })
}
