//! Rows whose parents are not there wait with them (check C3).

use std::collections::BTreeSet;

use super::put_back::{Ready, WholeRows, names_one_of};
use super::report::KeptReason;
use super::unawaited::Without;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedTable};
use crate::statements::row::{encoded, put, whole_key};
use crate::statements::table::present;

/// A reference of the rows that go back.
struct Parents<'t> {
    reference: &'t Reference,
    /// The keys of parents that are in the database.
    there: BTreeSet<Vec<u8>>,
    may_dangle: bool,
}

impl WholeRows<'_, '_> {
    /// Moves rows whose parents are missing to `kept`; parents may be among the rows themselves.
    pub(super) fn drop_orphans(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        ready: &mut Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<(), Error> {
        let live = self.owners.people.live;
        let mut parents = Vec::with_capacity(table.references.len());
        for reference in &table.references {
            let mut seen = BTreeSet::new();
            let keys = ready
                .iter()
                .filter_map(|(_, row)| whole_key(columns, row, &reference.columns));
            let keys: Vec<Vec<Value>> = keys.filter(|key| seen.insert(encoded(key))).collect();
            let by = &reference.to_columns;
            parents.push(Parents {
                reference,
                there: present(self.owners.database, &reference.to_table, by, &keys)?,
                may_dangle: live.may_dangle(table, reference),
            });
        }
        let nobody = self.owners.others.nobody(index)?.clone();
        // A row that goes, or whose column is emptied, may be the parent of others by another
        // reference.
        loop {
            let mut is_settled = true;
            for of in &parents {
                let by = &of.reference.to_columns;
                let own: BTreeSet<Vec<u8>> = if of.reference.to_table == table.name {
                    let rows = ready.iter();
                    rows.filter_map(|(_, row)| whole_key(columns, row, by))
                        .map(|key| encoded(&key))
                        .collect()
                } else {
                    BTreeSet::new()
                };
                let missing = |row: &[Value]| {
                    whole_key(columns, row, &of.reference.columns).filter(|key| {
                        let name = encoded(key);
                        let is_nobody = of.may_dangle && names_one_of(&nobody, key);
                        !is_nobody && !of.there.contains(&name) && !own.contains(&name)
                    })
                };
                for (original, mut row) in std::mem::take(ready) {
                    let without = missing(&row)
                        .map(|key| self.waits.without(live, (table, index), of.reference, &key));
                    match without {
                        Some(Without::Waits) => {
                            kept.push((original, KeptReason::ParentMissing));
                            is_settled = false;
                            continue;
                        }
                        Some(Without::Empty(column)) => {
                            put(columns, &mut row, column, Value::Null);
                            is_settled = false;
                        }
                        Some(Without::Dangles) | None => {}
                    }
                    ready.push((original, row));
                }
            }
            if is_settled {
                return Ok(());
            }
        }
    }
}
