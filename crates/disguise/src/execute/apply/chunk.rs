//! The next rows of a disguise in chunks, step by step and in the order of their keys.

use std::collections::BTreeSet;

use super::applier::{Applier, Loss, step_at};
use super::placeholder::refuse_unregistered;
use super::record_owner::People;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Dialect, PARAMETERS_MAX};
use crate::error::{Doing as _, Error};
use crate::plan::cascade::{Whom, left_behind_by};
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::spec::Kind;
use crate::statements::overwrite::{unfindable, unnamed_rows};
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::{among, list, lists};

/// Rows by their tables, so that no row is read twice.
pub(super) type Met = BTreeSet<(String, Vec<u8>)>;

/// The order in which rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ascending keys.
    Rising,
    /// Descending keys.
    Falling,
}

/// The number of rows that a chunk may still take.
#[derive(Clone, Copy)]
pub(super) enum Budget {
    /// The chunk has taken none so far, so that it may take one group of any size.
    Fresh(usize),
    /// The chunk has taken some.
    Left(usize),
}

impl Budget {
    pub(super) const fn rows(self) -> usize {
        match self {
            Self::Fresh(rows) | Self::Left(rows) => rows,
        }
    }
}

/// Steps that are taken a number of rows at a time.
pub(crate) struct Chunk<'w, 'a> {
    pub(super) work: &'w mut Applier<'a>,
    pub(super) steps: &'w [Step],
}

/// Rows that a step chooses and that were not read yet.
pub(super) struct Unseen<'s> {
    pub(super) table: &'s ResolvedTable,
    pub(super) chosen: &'s Fragment,
    pub(super) place: &'s Place,
    pub(super) order: Order,
}

impl Unseen<'_> {
    /// Reads the next unseen rows, in the order of their keys.
    pub(super) fn rows(
        &self,
        database: &mut dyn TenantConnection,
        columns: &[String],
        rows: usize,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let dialect = database.dialect();
        let table = self.table;
        if self.place.seen.is_empty() {
            self.refuse_unnamed(database)?;
        }
        let mut keys = self.keys(dialect);
        if self.order == Order::Falling {
            for key in &mut keys {
                key.push_str(" DESC");
            }
        }
        let behind = self.fragment(database);
        let width = table.identity.len().max(1);
        let most = PARAMETERS_MAX.checked_div(width).unwrap_or(1).min(rows);
        let sql = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {most}",
            list(dialect, columns),
            dialect.quote(&table.name),
            behind.sql,
            keys.join(",")
        );
        let found = database.query(&sql, &behind.parameters);
        let found = found.doing("choosing the rows of a chunk")?;
        let last = found.last();
        let last = last.map(|row| picked(columns, row, &table.identity));
        // The same rows would be found for ever.
        if last.is_some_and(|key| !key.is_empty() && key == self.place.seen) {
            return Err(unfindable(table));
        }
        Ok(found)
    }

    /// Selects all unseen rows of the tenant.
    pub(super) fn fragment(&self, database: &dyn TenantConnection) -> Fragment {
        let (table, place) = (self.table, self.place);
        let dialect = database.dialect();
        let bound = database.tenancy().bound(dialect, &table.name, self.chosen);
        let mut sql = format!("({})", bound.sql);
        let mut parameters = bound.parameters;
        if !place.seen.is_empty() {
            let sign = match self.order {
                Order::Rising => '>',
                Order::Falling => '<',
            };
            let keys = self.keys(dialect).join(",");
            sql = format!("{sql} AND ({keys}) {sign} ({})", typed(dialect, table));
            parameters.extend_from_slice(&place.seen);
        }
        Fragment { sql, parameters }
    }

    /// Returns the columns by which rows are ordered and looked for.
    fn keys(&self, dialect: Dialect) -> Vec<String> {
        let keys = self.table.identity.iter();
        keys.map(|key| compared(dialect, self.table, key)).collect()
    }

    /// Refuses when a row has NULL in its key: no page begins behind such a row, and none finds it.
    fn refuse_unnamed(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let dialect = database.dialect();
        let catalog = &self.table.catalog;
        let nullable = |key: &&String| catalog.column(key).is_some_and(|it| it.nullable);
        let keys = self.table.identity.iter().filter(nullable);
        let keys: Vec<String> = keys
            .map(|key| format!("{} IS NULL", dialect.quote(key)))
            .collect();
        if keys.is_empty() {
            return Ok(());
        }
        let chosen = self.fragment(database);
        let sql = format!(
            "SELECT COUNT(*) FROM {} WHERE {} AND ({})",
            dialect.quote(&self.table.name),
            chosen.sql,
            keys.join(" OR ")
        );
        let found = database.query(&sql, &chosen.parameters);
        let found = found.doing("choosing the rows of a chunk")?.concat();
        match found.as_slice() {
            [Value::Int(0)] => Ok(()),
            _ => Err(unnamed_rows(self.table)),
        }
    }
}

impl<'w, 'a> Chunk<'w, 'a> {
    pub(crate) fn new(work: &'w mut Applier<'a>, steps: &'w [Step]) -> Self {
        work.note_removals(steps);
        Self { work, steps }
    }

    /// Takes the next rows of `steps`, at most `rows` of them except for groups, and moves `place`
    /// behind them.
    pub(crate) fn advance(&mut self, place: &mut Place, rows: u32) -> Result<(), Error> {
        let all = usize::try_from(rows.max(1)).unwrap_or(usize::MAX);
        let mut left = all;
        while left > 0 {
            let at = place.step;
            let Some(step) = place.of(self.steps) else {
                break;
            };
            let table = self.work.table_of(step)?;
            let taken = match &step.kind {
                Kind::Remove if table.refers_to_itself() => {
                    self.advance_circle(table, place, left)?
                }
                Kind::Decorrelate { group_by, .. } if !group_by.is_empty() => {
                    let budget = if left == all {
                        Budget::Fresh(left)
                    } else {
                        Budget::Left(left)
                    };
                    self.advance_groups(table, step, place, budget)?
                }
                _ => self.advance_rows(table, place, left)?,
            };
            self.work.principals.leave_marks(self.work.database, at)?;
            left = left.saturating_sub(taken);
        }
        Ok(())
    }

    /// Takes the next rows of a step in which rows are independent. Returns their number.
    fn advance_rows(
        &mut self,
        table: &ResolvedTable,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let Some(step) = place.of(self.steps) else {
            return Ok(0);
        };
        let unseen = Unseen {
            table,
            chosen: &step.chosen,
            place,
            order: Order::Rising,
        };
        let mut keys = unseen.rows(self.work.database, &table.identity, rows)?;
        let Some(last) = keys.last() else {
            place.next();
            return Ok(0);
        };
        place.seen.clone_from(last);
        let count = keys.len();
        if moves_rows(table, &step.kind) {
            let names: Vec<Vec<u8>> = keys.iter().map(|key| encoded(key)).collect();
            let moved = self
                .work
                .principals
                .moved_by(self.work.database, place.step, &names)?;
            let mut index = 0..count;
            keys.retain(|_| index.next().is_none_or(|index| !moved.contains(&index)));
        }
        if step.kind == Kind::Remove {
            self.remove_keys(table, place.step, &keys)?;
        } else {
            self.run_keys(table, step, place.step, &keys)?;
        }
        Ok(count)
    }

    /// Removes the rows with these keys, after the rows that refer to them.
    pub(super) fn remove_keys(
        &mut self,
        table: &ResolvedTable,
        number: u32,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        let (at, step) = step_at(self.steps, number)?;
        let refers = |it: &Step| {
            let child = self
                .work
                .live
                .table(&it.table)
                .filter(|_| it.kind == Kind::Remove);
            let mut references = child.iter().flat_map(|child| &child.references);
            references.any(|it| it.to_table == table.name)
        };
        let done = self.steps.get(..at).unwrap_or_default();
        if table.name == self.work.live.pseudo.table {
            self.leave_rows_of_returned(at, (table, keys))?;
        }
        if let Some(before) = at.checked_sub(1)
            && done.iter().any(refers)
        {
            let doomed = self.doomed(table, keys)?;
            self.take_along(before, (table, &doomed), &mut Met::new())?;
        }
        self.run_keys(table, step, number, keys)
    }

    /// Checks the next rows of `steps` without a change. Refuses if records of some could be kept
    /// for nobody, and notes the people with a stake in the rows. Returns whether there are more.
    pub(crate) fn survey(&mut self, place: &mut Place, rows: usize) -> Result<bool, Error> {
        let Some(step) = place.of(self.steps) else {
            return Ok(false);
        };
        let at = place.step;
        let table = self.work.table_of(step)?;
        let (columns, mut found) = self.next_named(table, step, place, rows)?;
        if found.is_empty() {
            place.next();
            return Ok(true);
        }
        match &step.kind {
            _ if self.work.user.is_some() => {}
            Kind::Modify { .. } => {
                let taken = self
                    .work
                    .picker()
                    .taken(table, &columns, found, Loss::Values)?;
                self.work.applied.count_of_nobody(table, taken.of_nobody);
                found = taken.rows;
            }
            Kind::Remove => {
                let people = self.work.picker().people(table, &columns, &found)?;
                let people = people.iter().flat_map(People::all).collect::<Vec<_>>();
                self.work.principals.meet(self.work.database, &people)?;
                let (shared, plain) = self.work.principals.split(table, &columns, found);
                let taken = self
                    .work
                    .picker()
                    .taken(table, &columns, plain, Loss::Row)?;
                self.work.applied.count_of_nobody(table, taken.of_nobody);
                self.refuse_in_the_way(table, at, (&columns, &taken.rows))?;
                self.refuse_keyless(table, (&columns, &shared), &table.owners)?;
                found = [taken.rows, shared].concat();
            }
            Kind::Decorrelate { owners, .. } => {
                self.refuse_keyless(table, (&columns, &found), owners)?;
            }
            Kind::Unlink { column } => {
                let column = std::slice::from_ref(column);
                self.refuse_keyless(table, (&columns, &found), column)?;
            }
        }
        self.work.foresee(table, step, &columns, found)?;
        Ok(true)
    }

    /// Refuses if rows that no step takes refer to some of these rows, which a removal takes: the
    /// database would refuse it, after other chunks.
    fn refuse_in_the_way(
        &mut self,
        table: &ResolvedTable,
        number: u32,
        (columns, rows): (&[String], &[Vec<Value>]),
    ) -> Result<(), Error> {
        let (at, step) = step_at(self.steps, number)?;
        let dialect = self.work.database.dialect();
        let is_users = table.name == self.work.live.pseudo.table;
        let goes = |row: &&Vec<Value>| !is_users || self.work.principals.may_go(columns, row);
        let keys = rows.iter().filter(goes);
        let keys = keys.map(|row| picked(columns, row, &table.identity));
        let keys: Vec<Vec<Value>> = keys.collect();
        for some in lists(&keys, table.identity.len()) {
            let chosen = Fragment {
                sql: among(dialect, &table.identity, some.len()),
                parameters: some.concat(),
            };
            let taken = Step {
                chosen,
                ..step.clone()
            };
            let (whom, steps) = ((self.work.live, Whom::Everybody), (self.steps, at));
            let left = left_behind_by(self.work.database, whom, steps, &taken)?;
            if let Some(left) = left.into_iter().next() {
                return Err(left.refusal(&step.table));
            }
        }
        Ok(())
    }

    /// Returns the next rows of a step with the columns that say whom they name, and moves `place`
    /// behind them.
    pub(super) fn next_named(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        place: &mut Place,
        rows: usize,
    ) -> Result<(Vec<String>, Vec<Vec<Value>>), Error> {
        let mut columns = table.identity.clone();
        let first = table.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        for column in table.people().chain(through) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let unseen = Unseen {
            table,
            chosen: &step.chosen,
            place,
            order: Order::Rising,
        };
        let found = unseen.rows(self.work.database, &columns, rows)?;
        if let Some(last) = found.last() {
            place.seen = picked(&columns, last, &table.identity);
        }
        Ok((columns, found))
    }

    /// Refuses if one of `owners` names a user who has an account and no key.
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
        self.work.principals.meet(self.work.database, &named)?;
        let keyless = named
            .into_iter()
            .filter(|it| !self.work.principals.known.contains_key(&it.principal()));
        let keyless: Vec<Value> = keyless.cloned().collect();
        refuse_unregistered((self.work.database, self.work.live), table, &keyless)
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
            sql: among(self.work.database.dialect(), &table.identity, keys.len()),
            parameters: keys.concat(),
        };
        let step = Step {
            chosen,
            ..step.clone()
        };
        self.work.run(number, &step)?;
        Ok(())
    }

    /// Runs `work` with rows of people who came back treated like any others.
    pub(super) fn whoever_came_back(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.work.principals.set_whoever(true);
        // Whatever names nobody was counted by its own step.
        let counted = self.work.applied.of_nobody.clone();
        let done = work(self);
        self.work.applied.of_nobody = counted;
        self.work.principals.set_whoever(false);
        done
    }
}

/// Returns whether the step changes the keys by which its rows are read.
fn moves_rows(table: &ResolvedTable, kind: &Kind) -> bool {
    match kind {
        Kind::Remove => false,
        Kind::Modify { column, .. } | Kind::Unlink { column } => table.identity.contains(column),
        Kind::Decorrelate { owners, .. } => owners.iter().any(|it| table.identity.contains(it)),
    }
}

/// Returns a key column as the database compares it with a parameter. `MariaDB` sorts enumerations and
/// sets by their numbers, but compares them as texts.
fn compared(dialect: Dialect, table: &ResolvedTable, key: &str) -> String {
    let name = dialect.quote(key);
    let declared = table.catalog.column(key);
    let declared = declared.map(|it| it.declared.to_ascii_lowercase());
    let is_numbered = declared.is_some_and(|it| it.starts_with("enum(") || it.starts_with("set("));
    if dialect == Dialect::Mysql && is_numbered {
        format!("CONCAT({name})")
    } else {
        name
    }
}

/// A parameter for each column of the identity.
fn typed(dialect: Dialect, table: &ResolvedTable) -> String {
    let typed = table.identity.iter();
    let typed = typed.map(|key| dialect.typed(table.catalog.column(key)));
    typed.collect::<Vec<_>>().join(",")
}
