//! Looking before anything is changed: checks and plans.

use std::collections::BTreeMap;

use probity_format::Timestamp;

use super::Engine;
use crate::audit::written;
use crate::cascade::{Referring, Whom, left_behind};
use crate::database::Database;
use crate::error::{Doing as _, Error};
use crate::plan::{Aim, PlannedStep, Step};
use crate::schema::Pseudo;
use crate::spec::{Kind, Spec};
use crate::table::{Inserted, insert, list, select};
use crate::value::Value;

impl<D: Database> Engine<D> {
    /// Checks `spec` against the live schema without changing anything.
    ///
    /// # Errors
    /// [`Error::Spec`] with the place of the first fault.
    pub fn check(&mut self, spec: &Spec, named: &BTreeMap<String, Value>) -> Result<(), Error> {
        spec.refuse_unknown(named, None)?;
        self.fits(spec, named)
    }

    /// The same whatever parameters beyond those of `spec` are given.
    pub(super) fn fits(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<(), Error> {
        self.refresh()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        Aim {
            dialect,
            catalog,
            live,
            named,
            owners: None,
            redactors: &self.redactors,
            tenancy: &self.database.tenancy,
        }
        .plan(spec)?;
        Ok(())
    }

    /// Shows the steps that `spec` would take, with the rows each would touch now; changes nothing.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::Database`].
    pub fn plan(
        &mut self,
        spec: &Spec,
        user: Option<&Value>,
        named: &BTreeMap<String, Value>,
    ) -> Result<Vec<PlannedStep>, Error> {
        spec.refuse_unknown(named, None)?;
        self.refresh()?;
        self.need_tenant()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        let owners = user.map(std::slice::from_ref);
        let steps = Aim {
            dialect,
            catalog,
            live,
            named,
            owners,
            redactors: &self.redactors,
            tenancy: &self.database.tenancy,
        }
        .plan(spec)?;
        let mut planned = Vec::with_capacity(steps.len());
        let refused = self.left_behind(&steps, user)?;
        for (mut step, refused) in steps.into_iter().zip(refused) {
            let tenancy = &self.database.tenancy;
            step.chosen = tenancy.bound(dialect, &step.table, &step.chosen);
            let table = dialect.quote(&step.table);
            let statement = format!("SELECT COUNT(*) FROM {table} WHERE {}", step.chosen.sql);
            let parameters = &step.chosen.parameters;
            planned.push(PlannedStep {
                rows: self.counted(&statement, parameters)?,
                placeholders: self.placeholders(&step, user)?,
                access: self
                    .database
                    .explain(&statement, parameters)
                    .doing("asking how rows are found")?,
                action: step.action(),
                table: step.table,
                statement,
                refused,
            });
        }
        Ok(planned)
    }

    /// For which rows each of the steps would be refused.
    pub(super) fn left_behind(
        &mut self,
        steps: &[Step],
        user: Option<&Value>,
    ) -> Result<Vec<Vec<Referring>>, Error> {
        let whom = user.map_or(Whom::Everybody, |_| Whom::Somebody);
        let Some((_, _, live)) = &self.live else {
            return Err(Error::NotInstalled);
        };
        let mut all = Vec::with_capacity(steps.len());
        for step in steps {
            all.push(match step.kind {
                Kind::Remove => left_behind(&mut self.database, (live, whom), steps, step)?,
                _ => Vec::new(),
            });
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
            Some((step, left)) => Err(left.refusal(&step.table)),
            None => Ok(()),
        }
    }

    /// How many placeholders a decorrelation would make: one for each row, or group, and owner column.
    pub(super) fn placeholders(&mut self, step: &Step, user: Option<&Value>) -> Result<u64, Error> {
        let Kind::Decorrelate { group_by, owners } = &step.kind else {
            return Ok(0);
        };
        let dialect = self.database.dialect();
        let table = dialect.quote(&step.table);
        let mut all: u64 = 0;
        for owner in owners {
            let column = dialect.quote(owner);
            let mut parameters = step.chosen.parameters.clone();
            let mut chosen = format!("({}) AND {column} IS NOT NULL", step.chosen.sql);
            if let Some(user) = user {
                chosen = format!("{chosen} AND {column} = ?");
                parameters.push(user.clone());
            }
            let rows = if group_by.is_empty() {
                format!("SELECT {column} FROM {table} WHERE {chosen}")
            } else {
                let groups = list(dialect, group_by);
                format!("SELECT DISTINCT {column}, {groups} FROM {table} WHERE {chosen}")
            };
            let count =
                self.counted(&format!("SELECT COUNT(*) FROM ({rows}) AS q"), &parameters)?;
            all = all.saturating_add(count);
        }
        Ok(all)
    }

    /// Lets the database take placeholders, and takes them back: what it refuses shows before anybody is disguised. Gives why it
    /// cannot be tried, where it cannot.
    ///
    /// # Errors
    /// [`Error::Placeholder`] with what the database says, [`Error::Spec`], [`Error::Database`].
    pub fn try_placeholder(&mut self, time: Timestamp) -> Result<Option<String>, Error> {
        self.refresh()?;
        self.need_tenant()?;
        let pseudo = self.pseudo.clone();
        let users = self.described()?.1.table(&pseudo.table);
        let users = users.ok_or(Error::NotInstalled)?;
        if !users.catalog.is_transactional {
            return Ok(Some(format!(
                "no placeholder was tried, because changes to table {} cannot be undone",
                pseudo.table
            )));
        }
        self.begin_transaction()?;
        let tried = self.tried_placeholders(&pseudo, &written(time));
        self.database.rollback().doing("taking placeholders back")?;
        tried?;
        Ok(None)
    }

    /// Two beside each other: a key that no two rows may share is not noticed with one.
    fn tried_placeholders(&mut self, pseudo: &Pseudo, now: &str) -> Result<(), Error> {
        let own = pseudo
            .columns
            .iter()
            .find(|(column, _)| *column == pseudo.id);
        let (_, generator) = own.ok_or(Error::Forged)?;
        let tenant = self.database.tenancy.of(&pseudo.table);
        let tenant = tenant.map(|(column, tenant)| (column.to_owned(), tenant.clone()));
        let mut columns: Vec<String> = pseudo.columns.iter().map(|(it, _)| it.clone()).collect();
        columns.extend(tenant.iter().map(|(column, _)| column.clone()));
        for _ in 0..2 {
            let id = generator.draw(&Value::Null, now)?;
            let mut row = pseudo.row(&id, now)?;
            row.extend(tenant.iter().map(|(_, tenant)| tenant.clone()));
            if insert(&mut self.database, &pseudo.table, &columns, &[row])? == Inserted::Refused {
                return Err(Error::Placeholder {
                    table: pseudo.table.clone(),
                    said: self.database.refusal.take().unwrap_or_default(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn counted(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, Error> {
        let counted = self
            .database
            .query(sql, parameters)
            .doing("counting rows")?;
        Ok(match counted.first().and_then(|row| row.first()) {
            Some(Value::Int(rows)) => rows.unsigned_abs(),
            _ => 0,
        })
    }

    /// The rows of `table` as they are now, by all columns.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn rows(&mut self, table: &str) -> Result<Vec<Vec<Value>>, Error> {
        self.refresh()?;
        self.need_tenant()?;
        let columns: Vec<String> = match self.described()?.1.table(table) {
            Some(table) => table
                .catalog
                .columns
                .iter()
                .map(|it| it.name.clone())
                .collect(),
            None => {
                return Err(Error::Value {
                    what: format!("there is no table {table}"),
                });
            }
        };
        let all = crate::predicate::Fragment {
            sql: "1=1".to_owned(),
            parameters: Vec::new(),
        };
        select(&mut self.database, table, &columns, &all, None)
    }
}
