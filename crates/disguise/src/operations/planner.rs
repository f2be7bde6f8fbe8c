//! The planner: the steps of a specification in the database as it is, and the rows they leave.

use std::collections::BTreeMap;

use super::written_id::UNHELD;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{Doing as _, Error, SpecError};
use crate::plan::cascade::{Referring, Whom, left_behind};
use crate::plan::decimal_keys;
use crate::plan::likeness::Spellings;
use crate::plan::step::{PlanContext, SCOPE, Step, are_many};
use crate::spec::redact::Redactors;
use crate::spec::{Kind, Spec};
use crate::statements::table::insert_all;
use crate::transaction::transactions::Transactions;

/// Finds the steps of specifications.
pub(super) struct Planner<'w, D: Database> {
    pub(super) open: &'w mut Transactions<D>,
    pub(super) redactors: &'w Redactors,
}

impl<D: Database> Planner<'_, D> {
    /// Returns the steps of `spec`, with rows that name the owners in another form than their ids.
    ///
    /// A row that belongs to two people is refused, and so is one that names somebody by a
    /// conversion that nothing declares.
    pub(super) fn planned(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
        owners: Option<&[Value]>,
    ) -> Result<Vec<Step>, Error> {
        let steps = self.planned_by_id(spec, (named, &Spellings::new()), owners)?;
        if let Some(owners) = owners.filter(|it| are_many(it)) {
            self.scope(owners)?;
        }
        let spellings = self.spellings(&steps, owners)?;
        let steps = if spellings.is_empty() {
            steps
        } else {
            self.planned_by_id(spec, (named, &spellings), owners)?
        };
        self.refuse_strange_values(&steps, owners.is_some())?;
        self.refuse_inexact_keys(&steps)?;
        Ok(steps)
    }

    /// Refuses rows that a statement could take for others.
    fn refuse_inexact_keys(&mut self, steps: &[Step]) -> Result<(), Error> {
        let (_, live) = self.open.application.described()?;
        let place = (self.open.database.dialect(), &self.open.database.tenancy);
        let asked = steps.iter().filter_map(|step| {
            let table = live.table(&step.table)?;
            let asked = decimal_keys::of_many_digits(place, table, step)?;
            Some((asked, decimal_keys::refusal(table)))
        });
        for (asked, what) in asked.collect::<Vec<_>>() {
            let rows = self.open.database.query(&asked.sql, &asked.parameters);
            if !rows.doing("looking at keys")?.is_empty() {
                return Err(Error::Value { what });
            }
        }
        Ok(())
    }

    /// Returns the steps of `spec`, whose rows name the owners as their ids do, or as `spellings`.
    pub(super) fn planned_by_id(
        &self,
        spec: &Spec,
        (named, spellings): (&BTreeMap<String, Value>, &Spellings),
        owners: Option<&[Value]>,
    ) -> Result<Vec<Step>, Error> {
        let (catalog, live) = self.open.application.described()?;
        let dialect = self.open.database.dialect();
        let is_unheld = |it: &Value| matches!(it, Value::Text(text) if dialect.refuses_text(text));
        if let Some((name, _)) = named.iter().find(|(_, it)| is_unheld(it)) {
            return Err(SpecError::of_parameter(name, UNHELD).into());
        }
        let context = PlanContext {
            dialect,
            catalog,
            live,
            named,
            owners,
            spellings,
            redactors: self.redactors,
            tenancy: &self.open.database.tenancy,
        };
        Ok(context.plan(spec)?)
    }

    /// Checks that `spec` fits the database, with these parameters and no others.
    pub(super) fn check(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<(), Error> {
        spec.refuse_unknown(named, None)?;
        self.fits(spec, named)
    }

    /// Checks that `spec` fits the database; parameters beyond its own are accepted.
    pub(super) fn fits(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<(), Error> {
        self.open.refresh()?;
        self.planned_by_id(spec, (named, &Spellings::new()), None)?;
        Ok(())
    }

    /// Lists the owners in a temporary table, where they are too many for a statement.
    fn scope(&mut self, owners: &[Value]) -> Result<(), Error> {
        let pseudo = self.open.application.pseudo();
        let of = self
            .open
            .application
            .described()?
            .1
            .table(&pseudo.table)
            .and_then(|table| table.catalog.column(&pseudo.id))
            .map(|column| column.declaration(self.open.database.dialect()));
        // Without the type of the ids the owners would be compared otherwise than they are.
        let what = "the column of the users' ids is not in the catalog";
        let of = of.ok_or(Error::Defect { what })?;
        let statements = [
            format!("CREATE TEMPORARY TABLE IF NOT EXISTS {SCOPE} (id {of})"),
            format!("DELETE FROM {SCOPE}"),
        ];
        for statement in statements {
            self.open
                .database
                .execute(&statement, &[])
                .doing("listing the owners")?;
        }
        let rows: Vec<Vec<Value>> = owners.iter().map(|id| vec![id.clone()]).collect();
        insert_all(&mut self.open.database, SCOPE, &["id"], &rows)
    }

    /// For which rows each of the steps would be refused.
    pub(super) fn left_behind(
        &mut self,
        steps: &[Step],
        user: Option<&Value>,
    ) -> Result<Vec<Vec<Referring>>, Error> {
        let whom = user.map_or(Whom::Everybody, |_| Whom::Somebody);
        let (_, live) = self.open.application.described()?;
        let mut all = Vec::with_capacity(steps.len());
        for at in 0..steps.len() {
            all.push(left_behind(
                &mut self.open.database,
                (live, whom),
                steps,
                at,
            )?);
        }
        Ok(all)
    }

    /// Refuses steps that would be refused because of rows that refer to what they remove.
    pub(super) fn refuse_left_behind(
        &mut self,
        steps: &[Step],
        user: Option<&Value>,
    ) -> Result<(), Error> {
        let all = self.left_behind(steps, user)?;
        let mut all = steps.iter().zip(all);
        let first = all.find_map(|(step, left)| Some((step, left.into_iter().next()?)));
        match first {
            Some((step, left)) if step.kind == Kind::Remove => Err(left.refusal(&step.table)),
            Some((step, left)) => Err(Error::Value {
                what: format!("changing the key of rows of {}: {left}", step.table),
            }),
            None => Ok(()),
        }
    }
}
