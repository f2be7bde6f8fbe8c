//! The next rows of a disguise in chunks, step by step and in the order of their keys.

use super::dependent_rows::Met;
use super::{Applier, step_at};
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::database::{Dialect, PARAMETERS_MAX};
use crate::error::{Doing as _, Error};
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::spec::Kind;
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::{among, list};

/// In which order rows are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// From the least key to the greatest.
    Rising,
    /// The other way round.
    Falling,
}

impl Applier<'_> {
    /// Takes the next rows of `steps`, at most `rows` of them but for what goes together, and moves `place` behind them.
    pub(crate) fn advance(
        &mut self,
        steps: &[Step],
        place: &mut Place,
        rows: u32,
    ) -> Result<(), Error> {
        let all = usize::try_from(rows.max(1)).unwrap_or(usize::MAX);
        let mut left = all;
        while left > 0 {
            let at = place.step;
            let Some(step) = place.of(steps) else {
                break;
            };
            let table = self.table_of(step)?;
            let taken = match &step.kind {
                Kind::Remove if table.refers_to_itself() => {
                    self.advance_circle(steps, table, place, left)?
                }
                Kind::Decorrelate { group_by, owners } if !group_by.is_empty() => {
                    self.advance_groups(table, step, place, (owners, left, left == all))?
                }
                _ => self.advance_rows(steps, table, place, left)?,
            };
            self.leave_marks(at)?;
            left = left.saturating_sub(taken);
        }
        Ok(())
    }

    /// Takes the next rows of a step in which each row stands for itself; gives how many.
    fn advance_rows(
        &mut self,
        steps: &[Step],
        table: &ResolvedTable,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let Some(step) = place.of(steps) else {
            return Ok(0);
        };
        let mut keys = self.next_rows(
            table,
            &table.identity,
            &step.chosen,
            (place, Order::Rising),
            rows,
        )?;
        let Some(last) = keys.last() else {
            place.next();
            return Ok(0);
        };
        place.seen.clone_from(last);
        let count = keys.len();
        if moves_rows(table, &step.kind) {
            let names: Vec<Vec<u8>> = keys.iter().map(|key| encoded(key)).collect();
            let moved = self.moved_by(place.step, &names)?;
            let mut index = 0..count;
            keys.retain(|_| index.next().is_none_or(|index| !moved.contains(&index)));
        }
        if step.kind == Kind::Remove {
            self.remove_keys(steps, table, place.step, &keys)?;
        } else {
            self.run_keys(table, step, place.step, &keys)?;
        }
        Ok(count)
    }

    /// Removes the rows with these keys, and before them what is in the way.
    pub(super) fn remove_keys(
        &mut self,
        steps: &[Step],
        table: &ResolvedTable,
        number: u32,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        let (at, step) = step_at(steps, number)?;
        let refers = |it: &Step| {
            let child = self
                .live
                .table(&it.table)
                .filter(|_| it.kind == Kind::Remove);
            let mut references = child.iter().flat_map(|child| &child.references);
            references.any(|it| it.to_table == table.name)
        };
        let done = steps.get(..at).unwrap_or_default();
        if let Some(before) = at.checked_sub(1)
            && done.iter().any(refers)
        {
            let doomed = self.doomed(table, keys)?;
            self.take_along(steps, before, (table, &doomed), &mut Met::new())?;
        }
        self.run_keys(table, step, number, keys)
    }

    /// Looks at the next rows of `steps`, and refuses when records of some could be kept for nobody, or notes who has a stake in
    /// those of a user; says whether there are more. Nothing is changed.
    pub(crate) fn survey(
        &mut self,
        steps: &[Step],
        place: &mut Place,
        rows: usize,
    ) -> Result<bool, Error> {
        let Some(step) = place.of(steps) else {
            return Ok(false);
        };
        let table = self.table_of(step)?;
        let mut columns = table.identity.clone();
        let first = table.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        for column in table.people().chain(through) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let behind = (&*place, Order::Rising);
        let found = self.next_rows(table, &columns, &step.chosen, behind, rows)?;
        let Some(last) = found.last() else {
            place.next();
            return Ok(true);
        };
        place.seen = picked(&columns, last, &table.identity);
        match &step.kind {
            _ if self.user.is_some() => self.foresee(table, step, &columns, found)?,
            Kind::Modify { .. } => drop(self.keepers(table, &columns, &found)?),
            Kind::Remove => {
                let (shared, plain) = self.split(table, &columns, found);
                self.keepers(table, &columns, &plain)?;
                self.refuse_keyless(table, (&columns, &shared), &table.owners)?;
            }
            Kind::Decorrelate { owners, .. } => {
                self.refuse_keyless(table, (&columns, &found), owners)?;
            }
            Kind::Unlink { column } => {
                let column = std::slice::from_ref(column);
                self.refuse_keyless(table, (&columns, &found), column)?;
            }
        }
        Ok(true)
    }

    /// Refuses when one of `owners` names somebody who has an account and no key.
    fn refuse_keyless(
        &mut self,
        table: &ResolvedTable,
        (columns, rows): (&[String], &[Vec<Value>]),
        owners: &[String],
    ) -> Result<(), Error> {
        let named = rows
            .iter()
            .flat_map(|row| owners.iter().filter_map(|it| at(columns, row, it)));
        let named: Vec<&Value> = named.filter(|owner| !owner.is_nobody()).collect();
        self.meet(&named)?;
        let keyless = named
            .into_iter()
            .filter(|it| !self.known.contains_key(&it.principal()));
        let keyless: Vec<Value> = keyless.cloned().collect();
        self.refuse_unregistered(table, &keyless)
    }

    /// How many rows of a table were touched so far.
    pub(super) fn touched(&self, table: &ResolvedTable) -> u64 {
        self.applied.rows.get(&table.name).copied().unwrap_or(0)
    }

    /// Takes a step for the rows with these identities.
    pub(super) fn run_keys(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        number: u32,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let chosen = Fragment {
            sql: among(self.database.dialect(), &table.identity, keys.len()),
            parameters: keys.concat(),
        };
        let step = Step {
            chosen,
            ..step.clone()
        };
        self.run(number, &step)?;
        Ok(())
    }

    /// The next rows that `chosen` selects behind `place`, in the order of their keys.
    pub(super) fn next_rows(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        chosen: &Fragment,
        (place, order): (&Place, Order),
        rows: usize,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let dialect = self.database.dialect();
        let keys = table.identity.iter().map(|key| dialect.quote(key));
        let keys: Vec<String> = match order {
            Order::Rising => keys.collect(),
            Order::Falling => keys.map(|key| format!("{key} DESC")).collect(),
        };
        let behind = self.behind(table, chosen, (place, order));
        let width = table.identity.len().max(1);
        let most = PARAMETERS_MAX.checked_div(width).unwrap_or(1).min(rows);
        let sql = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {most}",
            list(dialect, columns),
            dialect.quote(&table.name),
            behind.sql,
            keys.join(",")
        );
        self.database
            .query(&sql, &behind.parameters)
            .doing("choosing the rows of a chunk")
    }

    /// What `chosen` selects of the tenant's rows behind `place`.
    pub(super) fn behind(
        &self,
        table: &ResolvedTable,
        chosen: &Fragment,
        (place, order): (&Place, Order),
    ) -> Fragment {
        let dialect = self.database.dialect();
        let bound = self.database.tenancy().bound(dialect, &table.name, chosen);
        let mut sql = format!("({})", bound.sql);
        let mut parameters = bound.parameters;
        if !place.seen.is_empty() {
            let sign = match order {
                Order::Rising => '>',
                Order::Falling => '<',
            };
            let keys = list(dialect, &table.identity);
            sql = format!("{sql} AND ({keys}) {sign} ({})", typed(dialect, table));
            parameters.extend_from_slice(&place.seen);
        }
        Fragment { sql, parameters }
    }
}

/// Whether the step changes the keys by which its rows are gone through.
fn moves_rows(table: &ResolvedTable, kind: &Kind) -> bool {
    match kind {
        Kind::Remove => false,
        Kind::Modify { column, .. } | Kind::Unlink { column } => table.identity.contains(column),
        Kind::Decorrelate { owners, .. } => owners.iter().any(|it| table.identity.contains(it)),
    }
}

/// A parameter for each column of the identity.
fn typed(dialect: Dialect, table: &ResolvedTable) -> String {
    let typed = table.identity.iter();
    let typed = typed.map(|key| dialect.typed(table.catalog.column(key)));
    typed.collect::<Vec<_>>().join(",")
}
