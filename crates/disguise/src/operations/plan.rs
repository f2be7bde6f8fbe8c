//! Looking before anything is changed: checks and plans.

use std::collections::BTreeMap;

use probity_format::Timestamp;

use super::engine::Engine;
use crate::database::tenant::{TenantConnection, TenantScoped};
use crate::database::value::Value;
use crate::database::{CatalogTable, Database};
use crate::error::{Doing as _, Error};
use crate::plan::cascade::{Referring, Whom, left_behind};
use crate::plan::likeness::Spellings;
use crate::plan::step::{PlannedStep, Step};
use crate::schema::Pseudo;
use crate::schema::generate::Generator;
use crate::spec::{Kind, Spec};
use crate::statements::table::{Inserted, found, insert, list, select};
use crate::transaction::audit::written;

impl<D: Database> Engine<D> {
    /// Checks `spec` against the live schema without changing anything.
    ///
    /// # Errors
    /// [`Error::Spec`] with the place of the first fault.
    pub fn check(&mut self, spec: &Spec, named: &BTreeMap<String, Value>) -> Result<(), Error> {
        spec.refuse_unknown(named, None)?;
        self.fits(spec, named)
    }

    /// Checks that `spec` fits the database; parameters beyond its own are accepted.
    pub(super) fn fits(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<(), Error> {
        self.refresh()?;
        self.planned_by_id(spec, (named, &Spellings::new()), None)?;
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
        let steps = self.planned(spec, named, user.map(std::slice::from_ref))?;
        let mut planned = Vec::with_capacity(steps.len());
        let refused = self.left_behind(&steps, user)?;
        for (mut step, refused) in steps.into_iter().zip(refused) {
            let tenancy = &self.database.tenancy;
            step.chosen = tenancy.bound(dialect, &step.table, &step.chosen);
            let table = dialect.quote(&step.table);
            let statement = format!("SELECT COUNT(*) FROM {table} WHERE {}", step.chosen.sql);
            let parameters = &step.chosen.parameters;
            planned.push(PlannedStep {
                rows: counted(&mut self.database, &statement, parameters)?,
                placeholders: placeholders(&mut self.database, &step, user)?,
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
        for at in 0..steps.len() {
            all.push(left_behind(&mut self.database, (live, whom), steps, at)?);
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

    /// Lets the database take placeholders, and takes them back: what it refuses shows before anybody is disguised. Gives why it
    /// cannot be tried, where it cannot.
    ///
    /// # Errors
    /// [`Error::Placeholder`] with what the database says, [`Error::Spec`], [`Error::Database`].
    pub fn try_placeholder(&mut self, time: Timestamp) -> Result<Option<String>, Error> {
        self.refresh()?;
        self.need_tenant()?;
        let pseudo = self.pseudo.clone();
        let users = self.described()?.1.users()?.clone();
        if !users.is_transactional {
            return Ok(Some(format!(
                "no placeholder was tried, because changes to table {} cannot be undone",
                pseudo.table
            )));
        }
        refuse_without_target(&mut self.database, &pseudo, &users)?;
        self.begin_transaction()?;
        let tried = tried_placeholders(&mut self.database, &pseudo, &users, &written(time));
        self.database.rollback().doing("taking placeholders back")?;
        tried?;
        Ok(None)
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
        let all = crate::database::fragment::Fragment {
            sql: "1=1".to_owned(),
            parameters: Vec::new(),
        };
        select(&mut self.database, table, &columns, &all, None)
    }
}

/// Refuses placeholders that must refer to a user and are given none: nobody of them is there before the first.
fn refuse_without_target(
    database: &mut dyn TenantConnection,
    pseudo: &Pseudo,
    users: &CatalogTable,
) -> Result<(), Error> {
    let dialect = database.dialect();
    let own = users.foreign_keys.iter();
    for key in own.filter(|key| key.to_table == pseudo.table) {
        let ([column], [to]) = (key.columns.as_slice(), key.to_columns.as_slice()) else {
            continue;
        };
        if users.column(column).is_none_or(|it| it.nullable) {
            continue;
        }
        let mut generators = pseudo.columns.iter();
        let said = generators.find(|(it, _)| it == column);
        let named = match said.map(|(_, generator)| generator) {
            Some(Generator::ConstNum(number)) => Some(Value::Int(*number)),
            Some(Generator::ConstStr(text)) => Some(Value::Text(text.clone())),
            _ => None,
        };
        let there = match named {
            Some(named) => found(database, &pseudo.table, to, &[named])?,
            None => BTreeMap::new(),
        };
        if there.is_empty() {
            return Err(Error::Placeholder {
                table: pseudo.table.clone(),
                said: format!(
                    "column {} may not be NULL and must refer to a user; name one who never leaves",
                    dialect.quote(column)
                ),
            });
        }
    }
    Ok(())
}

/// Two beside each other: a key that no two rows may share is not noticed with one.
fn tried_placeholders<D: Database>(
    database: &mut TenantScoped<D>,
    pseudo: &Pseudo,
    users: &CatalogTable,
    now: &str,
) -> Result<(), Error> {
    let dialect = database.dialect();
    let own = pseudo
        .columns
        .iter()
        .find(|(column, _)| *column == pseudo.id);
    let (_, generator) = own.ok_or(Error::Forged)?;
    let tenant = database.tenancy.of(&pseudo.table);
    let tenant = tenant.map(|(column, tenant)| (column.to_owned(), tenant.clone()));
    let mut columns: Vec<String> = pseudo.columns.iter().map(|(it, _)| it.clone()).collect();
    columns.extend(tenant.iter().map(|(column, _)| column.clone()));
    for _ in 0..2 {
        let id = generator.draw_into((dialect, users.column(&pseudo.id)), &Value::Null, now)?;
        let mut row = pseudo.row((dialect, users), &id, now)?;
        row.extend(tenant.iter().map(|(_, tenant)| tenant.clone()));
        let into = (users.insert_into(), pseudo.table.as_str());
        if insert(database, into, &columns, &[row])? == Inserted::Refused {
            return Err(Error::Placeholder {
                table: pseudo.table.clone(),
                said: database.refusal.take().unwrap_or_default(),
            });
        }
    }
    Ok(())
}

pub(super) fn counted(
    database: &mut dyn TenantConnection,
    sql: &str,
    parameters: &[Value],
) -> Result<u64, Error> {
    let counted = database.query(sql, parameters).doing("counting rows")?;
    Ok(match counted.first().and_then(|row| row.first()) {
        Some(Value::Int(rows)) => rows.unsigned_abs(),
        _ => 0,
    })
}

/// Returns the number of placeholders that a decorrelation would make: one for each row, or group,
/// and owner column.
pub(super) fn placeholders(
    database: &mut dyn TenantConnection,
    step: &Step,
    user: Option<&Value>,
) -> Result<u64, Error> {
    let Kind::Decorrelate { group_by, owners } = &step.kind else {
        return Ok(0);
    };
    let dialect = database.dialect();
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
        let count = counted(
            database,
            &format!("SELECT COUNT(*) FROM ({rows}) AS q"),
            &parameters,
        )?;
        all = all.saturating_add(count);
    }
    Ok(all)
}
