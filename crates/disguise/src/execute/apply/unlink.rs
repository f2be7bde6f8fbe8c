//! References to people who leave become NULL, with a record for each person who leaves.

use std::collections::BTreeMap;

use super::applier::{Applier, Loss, StepOutcome};
use super::modify::overwrite;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::step::Step;
use crate::records::section::{Change, Modified};
use crate::schema::ResolvedTable;
use crate::statements::overwrite::Write;
use crate::statements::row::{at, picked};

impl Applier<'_> {
    /// Empties a column of the rows that a step selects.
    pub(super) fn unlink(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        step: &Step,
        column: &str,
    ) -> Result<StepOutcome, Error> {
        let mut columns = table.identity.clone();
        columns.push(column.to_owned());
        let first = table.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        for owner in table.owners.iter().chain(through) {
            if !columns.contains(owner) {
                columns.push(owner.clone());
            }
        }
        let Some(rows) = self.held(table, &columns, &step.chosen)? else {
            return Ok(StepOutcome::Pages);
        };
        let all: Vec<&Value> = rows
            .iter()
            .filter_map(|row| at(&columns, row, column))
            .collect();
        self.principals.meet_owners(self.database, &all)?;
        let emptied = self.unlink_column(number, table, &columns, &rows, column)?;
        // Of the others nobody leaves, or their people came back: in chunks, rounds go on while any
        // changes.
        self.applied.count(table, emptied.len());
        Ok(StepOutcome::None)
    }

    /// Empties one column of rows that name somebody who leaves there. Returns the numbers of these
    /// rows.
    pub(super) fn unlink_column(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
        column: &str,
    ) -> Result<Vec<(usize, Value)>, Error> {
        let (owners, chosen) = self.grouped(table, columns, rows, column, &[])?;
        let identity = |index: usize| {
            let row = rows.get(index).map(Vec::as_slice).unwrap_or_default();
            picked(columns, row, &table.identity)
        };
        let taken = chosen.iter().filter_map(|(row, _)| rows.get(*row).cloned());
        let taken: Vec<Vec<Value>> = taken.collect();
        self.stake(table, columns, &taken, Loss::Values)?;
        let identities: Vec<Vec<Value>> = chosen.iter().map(|(row, _)| identity(*row)).collect();
        let writes: Vec<Write<'_>> = identities
            .iter()
            .map(|identity| Write {
                identity,
                values: &[Value::Null],
            })
            .collect();
        overwrite(self.database, self.live, table, &[column], &writes)?;
        let user = self.user.map(Value::principal);
        let mut kept: BTreeMap<Vec<u8>, Vec<Modified>> = BTreeMap::new();
        let mut emptied = Vec::with_capacity(chosen.len());
        for ((index, group), identity) in chosen.into_iter().zip(identities) {
            let before = rows.get(index).and_then(|row| at(columns, row, column));
            let (Some(owner), Some(before)) = (owners.get(group), before) else {
                let what = "a reference that was emptied has no record of it";
                return Err(Error::Defect { what });
            };
            emptied.push((index, Value::Null));
            let keeper = user.clone().unwrap_or_else(|| owner.principal());
            kept.entry(keeper).or_default().push(Modified {
                identity,
                before: before.clone(),
                after: Value::Null,
            });
        }
        let records = kept.iter().map(|(keeper, rows)| (keeper, rows.as_slice()));
        self.note_keys(table, column, records)?;
        for (keeper, rows) in kept {
            let change = Change::Decorrelated {
                identity: table.identity.clone(),
                column: column.to_owned(),
                rows,
            };
            self.notes.add(keeper, number, table, change)?;
        }
        Ok(emptied)
    }
}
