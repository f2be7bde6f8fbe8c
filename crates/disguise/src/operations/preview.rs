//! The preview: checks and plans, before anything is changed.

use std::collections::BTreeMap;

use probity_format::Timestamp;

use super::accounts;
use super::options::Options;
use super::planner::Planner;
use crate::database::tenant::{TenantConnection, TenantScoped};
use crate::database::value::Value;
use crate::database::{CatalogTable, Database};
use crate::error::{Doing as _, Error};
use crate::plan::step::{PlannedStep, Step};
use crate::schema::Pseudo;
use crate::schema::generate::Generator;
use crate::schema::name_matching::{CatalogNames, Fitting};
use crate::spec::{Kind, Spec};
use crate::statements::table::{Inserted, counted, found, insert, list, select};
use crate::transaction::audit::written;
use crate::transaction::transactions::Transactions;

/// A look at what would be, from [`Engine::preview`](crate::Engine::preview).
pub struct Preview<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> Preview<'_, D> {
    /// Checks `spec` against the live schema without changing anything.
    ///
    /// # Errors
    /// [`Error::Spec`] with the place of the first fault.
    pub fn check(&mut self, spec: &Spec, named: &BTreeMap<String, Value>) -> Result<(), Error> {
        self.planner().check(spec, named)
    }

    /// Returns the declared foreign keys by which a row of one tenant could refer to a row of
    /// another, one sentence each. They are never followed to another tenant: referred rows are
    /// looked up among the rows of the same tenant.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn cross_tenant_keys(&mut self) -> Result<Vec<String>, Error> {
        self.transactions.refresh()?;
        Ok(self
            .transactions
            .application
            .described()?
            .1
            .cross_tenant_keys())
    }

    /// Returns cautions about the tables that `spec` touches, for a person to read before it is
    /// applied, one sentence each. They cover triggers, former versions of rows that the database
    /// keeps, and foreign keys from other schemas and databases. Names in the files that differ
    /// from those of the database come first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn cautions(&mut self, spec: &Spec) -> Result<Vec<String>, Error> {
        self.transactions.read_schema()?;
        let dialect = self.transactions.database.dialect();
        let (catalog, live) = self.transactions.application.described()?;
        let mut fitting = Fitting::new(CatalogNames::new(dialect, catalog));
        let spec = fitting.spec(spec);
        let mut cautions = live.notes.clone();
        cautions.append(&mut fitting.notes);
        cautions.append(&mut live.cautions(dialect, &spec));
        cautions.extend(self.scarce_ids()?);
        cautions.extend(accounts::nobodys(self.transactions)?);
        cautions.extend(self.caution_of_everybody()?);
        cautions.append(&mut self.cautions_of_description()?);
        Ok(cautions)
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
        self.transactions.refresh()?;
        self.transactions.need_tenant()?;
        if let Some(user) = user {
            accounts::refuse_nobody(self.transactions, user)?;
        }
        let dialect = self.transactions.database.dialect();
        let steps = self
            .planner()
            .planned(spec, named, user.map(std::slice::from_ref))?;
        let mut planned = Vec::with_capacity(steps.len());
        let refused = self.planner().left_behind(&steps, user)?;
        for (mut step, refused) in steps.into_iter().zip(refused) {
            let tenancy = &self.transactions.database.tenancy;
            step.chosen = tenancy.bound(dialect, &step.table, &step.chosen);
            let table = dialect.quote(&step.table);
            let statement = format!("SELECT COUNT(*) FROM {table} WHERE {}", step.chosen.sql);
            let parameters = &step.chosen.parameters;
            planned.push(PlannedStep {
                rows: counted(&mut self.transactions.database, &statement, parameters)?,
                placeholders: placeholders(&mut self.transactions.database, &step, user)?,
                access: self
                    .transactions
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

    /// Returns the planner of what is looked at.
    pub(super) fn planner(&mut self) -> Planner<'_, D> {
        Planner {
            open: self.transactions,
            redactors: &self.options.redactors,
        }
    }

    /// Lets the database take placeholders, and takes them back: what it refuses shows before anybody is disguised. Gives why it
    /// cannot be tried, where it cannot.
    ///
    /// # Errors
    /// [`Error::Placeholder`] with what the database says, [`Error::Spec`], [`Error::Database`].
    pub fn try_placeholder(&mut self, time: Timestamp) -> Result<Option<String>, Error> {
        self.transactions.refresh()?;
        self.transactions.need_tenant()?;
        let pseudo = self.transactions.application.pseudo().clone();
        let users = self
            .transactions
            .application
            .described()?
            .1
            .users()?
            .clone();
        if !users.is_transactional {
            return Ok(Some(format!(
                "no placeholder was tried, because changes to table {} cannot be undone",
                pseudo.table
            )));
        }
        refuse_without_target(&mut self.transactions.database, &pseudo, &users)?;
        self.transactions.begin()?;
        let tried = tried_placeholders(
            &mut self.transactions.database,
            &pseudo,
            &users,
            &written(time),
        );
        self.transactions
            .database
            .rollback()
            .doing("taking placeholders back")?;
        tried?;
        Ok(None)
    }

    /// The rows of `table` as they are now, by all columns.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn rows(&mut self, table: &str) -> Result<Vec<Vec<Value>>, Error> {
        self.transactions.refresh()?;
        self.transactions.need_tenant()?;
        let columns: Vec<String> = match self.transactions.application.described()?.1.table(table) {
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
        select(&mut self.transactions.database, table, &columns, &all, None)
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
