//! Removals in one go: the keeper of each record, rows that go along, and rows that prevent it.

use std::collections::BTreeMap;

use super::applier::{Applier, Loss, StepOutcome};
use super::co_owned::{Held, SharedRows};
use super::order::Deletion;
use super::record_owner::Taken;
use crate::database::Catalog;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::cascade::refuse_cascade;
use crate::plan::step::Step;
use crate::records::co_owned::put_slots;
use crate::records::registry;
use crate::records::section::Change;
use crate::schema::ResolvedTable;
use crate::statements::deletion::{delete, take};
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::{among, lists};

impl Applier<'_> {
    /// Removes the rows that a step chooses.
    pub(super) fn remove(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        step: &Step,
    ) -> Result<StepOutcome, Error> {
        let columns = table.catalog.columns.iter();
        let columns: Vec<String> = columns.map(|it| it.name.clone()).collect();
        let users = table.name == self.live.pseudo.table;
        if self.principals.has_no_other_say(table) && self.takes(table) {
            refuse_cascade(self.database, self.catalog, (table, &step.chosen), &[])?;
            // All of these rows go, so they need not be read twice.
            let rows = take(self.database, table, &columns, &step.chosen, self.most)?;
            let rest = if self.is_most(rows.len()) {
                StepOutcome::Same
            } else {
                StepOutcome::None
            };
            self.applied.count(table, rows.len());
            if users {
                // Known already, unless the database treats another form of an id as equal.
                let ids = rows.iter();
                let ids: Vec<&Value> = ids
                    .filter_map(|row| at(&columns, row, &self.live.pseudo.id))
                    .collect();
                self.principals.meet(self.database, &ids)?;
            }
            let taken = self.picker().taken(table, &columns, rows, Loss::Row)?;
            self.note_removed(number, table, &columns, taken)?;
            return Ok(rest);
        }
        let Some(rows) = self.held(table, &columns, &step.chosen)? else {
            return Ok(StepOutcome::Pages);
        };
        let selected = rows.len();
        if self.user.is_none() || users || table.people().count() > 1 {
            let people: Vec<&Value> = rows
                .iter()
                .flat_map(|row| table.people().filter_map(|it| at(&columns, row, it)))
                .collect();
            self.principals.meet(self.database, &people)?;
        }
        let mut rows = self.leave_as_reader(number, table, &columns, rows)?;
        if users {
            rows.retain(|row| self.principals.may_go(&columns, row));
        }
        let (shared, plain) = self.principals.split(table, &columns, rows);
        let plain = self.picker().taken(table, &columns, plain, Loss::Row)?;
        self.applied.count_of_nobody(table, plain.of_nobody);
        let whole = shared.is_empty() && plain.rows.len() == selected && !table.refers_to_itself();
        self.applied.count(table, plain.rows.len());
        let left = self.picker().left_by_all(table, &columns, shared.clone())?;
        let going = plain.rows.iter().chain(&left);
        let going: Vec<Vec<Value>> = going
            .map(|it| picked(&columns, it, &table.identity))
            .collect();
        if users || going.len() < selected {
            refuse_cascade_of((self.database, self.catalog), table, &going)?;
        } else {
            refuse_cascade(self.database, self.catalog, (table, &step.chosen), &going)?;
        }
        self.note_worked_out(table, &going)?;
        self.note_removed(number, table, &columns, plain)?;
        if whole {
            let gone = delete(self.database, &table.name, &step.chosen)?;
            self.deletion(table).refuse_left(&going, gone)?;
            return Ok(StepOutcome::None);
        }
        let mut shared_rows = SharedRows {
            work: self,
            table,
            columns: &columns,
        };
        shared_rows.part(number, shared)?;
        // All together, for any of them may refer to any other.
        self.deletion(table).in_order(&going)?;
        Ok(StepOutcome::None)
    }

    /// Begins a removal of rows of `table`, which are noted already.
    pub(super) fn deletion<'s>(&'s mut self, table: &'s ResolvedTable) -> Deletion<'s> {
        Deletion {
            database: &mut *self.database,
            live: self.live,
            table,
        }
    }

    /// Notes rows about to be removed, each for its keeper, and the registrations that go with rows of users.
    fn note_removed(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        taken: Taken,
    ) -> Result<(), Error> {
        let Taken {
            rows,
            keepers,
            along,
            held,
            ..
        } = taken;
        let users = table.name == self.live.pseudo.table;
        self.stake(table, columns, &rows, Loss::Row)?;
        let mut kept: BTreeMap<Vec<u8>, Vec<Vec<Value>>> = BTreeMap::new();
        let mut accounts: Vec<Vec<u8>> = Vec::new();
        let named = self.picker().named_along(table, columns, (&rows, along))?;
        let mut slots = Vec::new();
        for ((row, keeper), named) in rows.into_iter().zip(keepers).zip(named) {
            let holders = held.get(&encoded(&picked(columns, &row, &table.identity)));
            if let Some(holders) = holders {
                let held = Held {
                    row: &row,
                    holders,
                    named: &named,
                };
                slots.push(self.note_copies(number, (table, columns), &held)?);
                continue;
            }
            self.notes.name_nobody(&keeper, named.nobody)?;
            self.note_known(&keeper, named.known)?;
            if users && let Some(id) = at(columns, &row, &self.live.pseudo.id) {
                let name = id.principal();
                if let Some((public, standing)) = self.principals.known.get(&name).cloned() {
                    let bag = self.notes.bag_of(keeper.clone())?;
                    bag.principals.push((id.clone(), public, standing));
                    accounts.push(name);
                }
            }
            kept.entry(keeper).or_default().push(row);
        }
        put_slots(self.database, &slots)?;
        registry::unregister(self.database, &accounts)?;
        for (keeper, rows) in kept {
            let columns = columns.to_vec();
            self.notes
                .add(keeper, number, table, Change::Removed { columns, rows })?;
        }
        Ok(())
    }
}

/// Refuses when rows that refer to those with these keys would silently change: some of the
/// chosen rows stay, like the placeholders of the disguise itself and rows of nobody.
fn refuse_cascade_of(
    (database, catalog): (&mut dyn TenantConnection, &Catalog),
    table: &ResolvedTable,
    keys: &[Vec<Value>],
) -> Result<(), Error> {
    let dialect = database.dialect();
    for some in lists(keys, table.identity.len()) {
        let chosen = Fragment {
            sql: among(dialect, &table.identity, some.len()),
            parameters: some.concat(),
        };
        refuse_cascade(database, catalog, (table, &chosen), keys)?;
    }
    Ok(())
}
