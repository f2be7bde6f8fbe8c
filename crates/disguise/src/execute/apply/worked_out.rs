//! Values of removed rows that the database works out. No record has them, and circles may lead over
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::Applier;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::{at, encoded, picked, whole_key};
use crate::statements::table::select_keys;

/// Such values by their columns, for each row by its table and key.
pub(super) type WorkedOut = BTreeMap<(String, Vec<u8>), BTreeMap<String, Value>>;

impl Applier<'_> {
    /// Notes such values of rows with these keys, which are about to be removed, as far as foreign
    /// keys lead from them or to them.
    pub(super) fn note_worked_out(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        let columns = in_keys(self.live, table);
        if columns.is_empty() {
            return Ok(());
        }
        let by = &table.identity;
        let wanted = [by.as_slice(), columns.as_slice()].concat();
        for row in select_keys(self.database, &table.name, &wanted, by, keys)? {
            let values = picked(&wanted, &row, &columns);
            let values = columns.iter().cloned().zip(values);
            let name = encoded(&picked(&wanted, &row, by));
            let known = self.notes.worked_out.entry((table.name.clone(), name));
            known.or_default().extend(values);
        }
        Ok(())
    }
}

/// Returns the values of a removed row of `table` in the columns `by`, those that the database worked
/// out among them, unless one is NULL.
pub(super) fn removed_key(
    (table, worked_out): (&ResolvedTable, &WorkedOut),
    (columns, row): (&[String], &[Value]),
    by: &[String],
) -> Option<Vec<Value>> {
    if !table.works_out(by) {
        return whole_key(columns, row, by);
    }
    let identity = encoded(&picked(columns, row, &table.identity));
    let values = worked_out.get(&(table.name.clone(), identity))?;
    let value = |column: &String| {
        at(columns, row, column)
            .or_else(|| values.get(column))
            .cloned()
    };
    let key: Option<Vec<Value>> = by.iter().map(value).collect();
    key.filter(|key| !key.iter().any(Value::is_null))
}

/// Returns the columns of foreign keys from and to a table that the database works out.
fn in_keys(live: &ResolvedSchema, table: &ResolvedTable) -> Vec<String> {
    let own = table.references.iter().flat_map(|it| &it.columns);
    let others = live.tables.values().flat_map(|it| &it.references);
    let others = others.filter(|it| it.to_table == table.name);
    let all = own.chain(others.flat_map(|it| &it.to_columns));
    let unseen = all.filter(|it| table.works_out(std::slice::from_ref(*it)));
    let unseen: BTreeSet<&String> = unseen.collect();
    unseen.into_iter().cloned().collect()
}
