//! Rows removed with the rows they refer to in a chunk: made meanwhile, or of people who came back.

use std::collections::BTreeMap;

use super::applier::Loss;
use super::chunk::{Chunk, Met};
use super::record_owner::People;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::plan::step::Step;
use crate::schema::{Reference, ResolvedTable};
use crate::spec::Kind;
use crate::statements::row::{encoded, picked};
use crate::statements::table::{among, list, lists, select_keys};

impl Chunk<'_, '_> {
    /// Removes rows that steps up to `last` should have removed and that refer to the rows of
    /// `table` with these keys. A finished step left them alone or never saw them, and now they
    /// would prevent the removal. They come back with the rows they refer to.
    pub(super) fn take_along(
        &mut self,
        last: usize,
        (table, keys): (&ResolvedTable, &[Vec<Value>]),
        met: &mut Met,
    ) -> Result<(), Error> {
        let steps = self.steps;
        let steps_until = steps.iter().enumerate().take(last.saturating_add(1)).rev();
        for (number, step) in steps_until.filter(|(_, step)| step.kind == Kind::Remove) {
            let child = self.work.table_of(step)?;
            let refers = child
                .references
                .iter()
                .filter(|it| it.to_table == table.name);
            for reference in refers {
                let mut rows = self.referring(child, step, reference, (table, keys))?;
                rows.retain(|row| met.insert((child.name.clone(), encoded(row))));
                if rows.is_empty() {
                    continue;
                }
                self.take_along(last, (child, &rows), met)?;
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                self.whoever_came_back(|work| work.run_keys(child, step, number, &rows))?;
            }
        }
        Ok(())
    }

    /// Returns the keys of rows that `step` chooses and that refer to rows of `table` with these
    /// keys.
    pub(super) fn referring(
        &mut self,
        child: &ResolvedTable,
        step: &Step,
        reference: &Reference,
        (table, keys): (&ResolvedTable, &[Vec<Value>]),
    ) -> Result<Vec<Vec<Value>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let dialect = self.work.database.dialect();
        let own = self
            .work
            .database
            .tenancy()
            .and(dialect, &table.name, "probity_gone");
        let meant = self
            .work
            .database
            .tenancy()
            .bound(dialect, &child.name, &step.chosen);
        let mut found = Vec::new();
        for some in lists(keys, table.identity.len()) {
            let sql = format!(
                "SELECT {} FROM {} WHERE ({}) AND ({}) IN (SELECT {} FROM {} AS probity_gone WHERE {}{})",
                list(dialect, &child.identity),
                dialect.quote(&child.name),
                meant.sql,
                list(dialect, &reference.columns),
                list(dialect, &reference.to_columns),
                dialect.quote(&table.name),
                among(dialect, &table.identity, some.len()),
                own.sql
            );
            let mut parameters = meant.parameters.clone();
            parameters.extend(some.into_iter().flatten());
            parameters.extend_from_slice(&own.parameters);
            let rows = self.work.database.query(&sql, &parameters);
            found.append(&mut rows.doing("looking what refers to the rows of a chunk")?);
        }
        Ok(found)
    }

    /// Takes the people of the rows of users with these keys out of rows that somebody brought back
    /// while everybody leaves: the first `until` steps are done with such rows, or came before them.
    pub(super) fn leave_rows_of_returned(
        &mut self,
        until: usize,
        (users, keys): (&ResolvedTable, &[Vec<Value>]),
    ) -> Result<(), Error> {
        let principals = &self.work.principals;
        if !principals.has_anybody_returned(self.work.database)? {
            return Ok(());
        }
        let id = [self.work.live.pseudo.id.clone()];
        let ids = select_keys(self.work.database, &users.name, &id, &users.identity, keys)?;
        let steps = self.steps.iter().enumerate().take(until);
        for (number, step) in steps.filter(|(_, step)| step.kind == Kind::Remove) {
            let table = self.work.table_of(step)?;
            let columns = table.catalog.columns.iter();
            let columns: Vec<String> = columns.map(|it| it.name.clone()).collect();
            let mut found = BTreeMap::new();
            for column in table.people() {
                for row in self.naming(table, step, &columns, (column, &ids))? {
                    found.insert(encoded(&picked(&columns, &row, &table.identity)), row);
                }
            }
            let rows: Vec<Vec<Value>> = found.into_values().collect();
            let people = self.work.picker().people(table, &columns, &rows)?;
            self.work.principals.meet(
                self.work.database,
                &people.iter().flat_map(People::all).collect::<Vec<_>>(),
            )?;
            let rows = rows.iter().zip(&people);
            let stay = rows.filter(|(_, of)| self.work.principals.stays_with_returned(of));
            let keys: Vec<Vec<Value>> = stay
                .map(|(row, _)| picked(&columns, row, &table.identity))
                .collect();
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            self.run_keys(table, step, number, &keys)?;
        }
        Ok(())
    }

    /// Returns the rows that `step` chooses and that name one of `ids` in `column`.
    fn naming(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        columns: &[String],
        (column, ids): (&String, &[Vec<Value>]),
    ) -> Result<Vec<Vec<Value>>, Error> {
        let dialect = self.work.database.dialect();
        let tenancy = self.work.database.tenancy();
        let meant = tenancy.bound(dialect, &table.name, &step.chosen);
        let mut found = Vec::new();
        for some in lists(ids, 1) {
            let sql = format!(
                "SELECT {} FROM {} WHERE ({}) AND {}",
                list(dialect, columns),
                dialect.quote(&table.name),
                meant.sql,
                among(dialect, std::slice::from_ref(column), some.len()),
            );
            let mut parameters = meant.parameters.clone();
            parameters.extend(some.into_iter().flatten());
            let rows = self.work.database.query(&sql, &parameters);
            found.append(&mut rows.doing("looking for rows that somebody brought back")?);
        }
        Ok(found)
    }

    /// Returns the rows with these keys that a removal takes: neither those of people who came back
    /// nor those that name nobody.
    pub(super) fn doomed(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.work.user.is_some() {
            return Ok(keys.to_vec());
        }
        let columns = table.catalog.columns.iter();
        let columns: Vec<String> = columns.map(|it| it.name.clone()).collect();
        let rows = select_keys(
            self.work.database,
            &table.name,
            &columns,
            &table.identity,
            keys,
        )?;
        let taken = self.work.picker().taken(table, &columns, rows, Loss::Row)?;
        let keys = taken
            .rows
            .iter()
            .map(|row| picked(&columns, row, &table.identity));
        Ok(keys.collect())
    }
}
