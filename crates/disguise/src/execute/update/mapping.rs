//! Mappings, updates that are written down: new rows made of copies of columns, constants and SQL
//! expressions.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use super::Row;
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Catalog, CatalogTable, Column, Database, Dialect, placeholders};
use crate::error::{SpecError, UpdateError};
use crate::plan::likeness::declared;
use crate::spec::predicate::{Scope, check_expression};

/// The most bytes that a file of updates may have.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A mapping of the rows of one table to their new rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The name under which the database records it.
    pub(crate) name: String,
    /// The table whose rows it maps, by its old name.
    pub(crate) table: String,
    /// A row becomes one row for each of these whose condition it meets; none means that rows vanish.
    #[serde(default)]
    pub(crate) into: Vec<Target>,
}

/// The definition of one new row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) table: String,
    /// True if columns that are neither dropped nor listed here stay as they are.
    #[serde(default)]
    rest: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drop: Vec<String>,
    /// Old columns to copy, by the new column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    columns: BTreeMap<String, String>,
    /// Constants by the new column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, Constant>,
    /// Expressions over the old columns, by the new column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sql: BTreeMap<String, String>,
    /// A condition over the old columns.
    #[serde(default, rename = "where", skip_serializing_if = "String::is_empty")]
    condition: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Constant {
    Truth(bool),
    Number(i64),
    Fraction(f64),
    Text(String),
}

impl Constant {
    fn value(&self) -> Value {
        match self {
            Self::Truth(truth) => Value::Int(i64::from(*truth)),
            Self::Number(number) => Value::Int(*number),
            Self::Fraction(number) => Value::Real(*number),
            Self::Text(text) => Value::Text(text.clone()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    update: Vec<Mapping>,
}

impl Mapping {
    /// Parses a file of updates, TOML or JSON, in the order in which they are to be recorded.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn parse(text: &str) -> Result<Vec<Self>, SpecError> {
        if text.len() > FILE_BYTES_MAX {
            let what = format!("is longer than {FILE_BYTES_MAX} bytes");
            return Err(SpecError::new("the file", what));
        }
        let file: File = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| {
                let place = format!("line {}, column {}", error.line(), error.column());
                SpecError::new(place, error.to_string())
            })?
        } else {
            toml::from_str(text).map_err(|error| {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.unwrap_or_default().matches('\n').count();
                let place = format!("line {}", line.saturating_add(1));
                SpecError::new(place, error.message().to_owned())
            })?
        };
        Ok(file.update)
    }

    /// Returns the name under which the database records it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a mapping that does not lead to the present schema, after the migration. Rows of a
    /// table that `later` mappings take on are not of that schema yet.
    pub(crate) fn check(&self, catalog: &Catalog, later: &[Self]) -> Result<(), SpecError> {
        let wrong = |what| SpecError::new(format!("update {}", self.name), what);
        if self.name.is_empty() {
            return Err(SpecError::new("an update", "has no name"));
        }
        for target in &self.into {
            let conditions = Some(&target.condition).filter(|it| !it.is_empty());
            for expression in target.sql.values().chain(conditions) {
                check_expression(expression).map_err(wrong)?;
            }
            if later.iter().any(|it| it.table == target.table) {
                continue;
            }
            let Some(table) = catalog.get(&target.table) else {
                return Err(wrong(format!(
                    "table {} is not in the database",
                    target.table
                )));
            };
            let written = target.columns.keys().chain(target.values.keys());
            for column in written.chain(target.sql.keys()) {
                if table.column(column).is_none() {
                    let what = format!("table {} has no column {column}", target.table);
                    return Err(wrong(what));
                }
            }
        }
        Ok(())
    }

    /// Returns the rows that `row` becomes.
    pub(crate) fn rows(
        &self,
        database: &mut dyn Database,
        catalog: &Catalog,
        row: &Row,
    ) -> Result<Vec<(usize, Row)>, UpdateError> {
        let mut out = Vec::new();
        for (number, target) in self.into.iter().enumerate() {
            let mut query = Query::new(database.dialect(), catalog, row);
            for (column, expression) in &target.sql {
                query.ask(Some(column), expression).or_missing(row)?;
            }
            if !target.condition.is_empty() {
                query.ask(None, &target.condition).or_missing(row)?;
            }
            let worked_out = query.run(database)?;
            if worked_out.meets {
                out.push((number, target.built(row, worked_out.values)));
            }
        }
        Ok(out)
    }
}

impl Target {
    fn built(&self, row: &Row, worked_out: Vec<(String, Value)>) -> Row {
        let mut columns: Vec<(String, Value)> = Vec::new();
        if self.rest {
            let said = |name: &String| {
                self.columns.contains_key(name)
                    || self.values.contains_key(name)
                    || self.sql.contains_key(name)
                    || self.drop.contains(name)
            };
            let rest = row.columns.iter().filter(|(name, _)| !said(name));
            columns.extend(rest.cloned());
        }
        for (name, old) in &self.columns {
            if let Some(value) = row.value(old) {
                columns.push((name.clone(), value.clone()));
            }
        }
        let constant = |(name, it): (&String, &Constant)| (name.clone(), it.value());
        columns.extend(self.values.iter().map(constant));
        columns.extend(worked_out);
        Row {
            table: self.table.clone(),
            columns,
            is_whole: row.is_whole,
        }
    }
}

/// The database's results for the expressions of one target.
struct WorkedOut {
    values: Vec<(String, Value)>,
    meets: bool,
}

/// Expressions over one row.
struct Query<'a> {
    dialect: Dialect,
    live: Option<&'a CatalogTable>,
    row: &'a Row,
    alone: Catalog,
    asked: Vec<Option<String>>,
    sql: Vec<String>,
    parameters: Vec<Value>,
}

impl<'a> Query<'a> {
    fn new(dialect: Dialect, catalog: &'a Catalog, row: &'a Row) -> Self {
        let columns = row.columns.iter().map(|(name, _)| Column {
            name: name.clone(),
            declared: String::new(),
            nullable: true,
            ..Column::default()
        });
        let table = CatalogTable {
            columns: columns.collect(),
            ..CatalogTable::default()
        };
        Self {
            dialect,
            live: catalog.get(&row.table),
            row,
            alone: Catalog::from([(row.table.clone(), table)]),
            asked: Vec::new(),
            sql: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// Adds an expression for `column`, or the condition.
    fn ask(&mut self, column: Option<&String>, expression: &str) -> Asked {
        // The row is the only input; no table of the application is read.
        let (named, alone) = (BTreeMap::new(), TenantScope::none());
        let scope = Scope::new(self.dialect, &self.alone, (&named, &alone), &self.row.table);
        match scope.value(expression) {
            Ok(mut fragment) => {
                let sql = match column {
                    Some(_) => fragment.sql,
                    None => format!("CASE WHEN {} THEN 1 ELSE 0 END", fragment.sql),
                };
                self.sql.push(sql);
                self.parameters.append(&mut fragment.parameters);
                self.asked.push(column.cloned());
                Asked(Ok(()))
            }
            Err(what) => Asked(Err(what)),
        }
    }

    fn run(self, database: &mut dyn Database) -> Result<WorkedOut, UpdateError> {
        let mut out = WorkedOut {
            values: Vec::new(),
            meets: true,
        };
        if self.sql.is_empty() {
            return Ok(out);
        }
        let rows = match self.dialect {
            Dialect::Sqlite => self.ask_of_table(database)?,
            _ => self.ask_of_values(database)?,
        };
        for (asked, value) in self.asked.into_iter().zip(rows.into_iter().flatten()) {
            match asked {
                Some(column) => out.values.push((column, value)),
                None => out.meets = value.to_string() == "1",
            }
        }
        Ok(out)
    }

    /// Asks of a row of parameters with the types of the table's columns.
    fn ask_of_values(&self, database: &mut dyn Database) -> Result<Vec<Vec<Value>>, UpdateError> {
        let cells = self.row.columns.iter().map(|(name, _)| {
            let column = self.live.and_then(|table| table.column(name));
            let mark = match (self.dialect, column) {
                // A parameter without a type is text.
                (Dialect::Postgres, None) => "?::text".to_owned(),
                _ => self.dialect.typed(column),
            };
            format!("{mark} AS {}", self.dialect.quote(name))
        });
        let sql = format!(
            "SELECT {} FROM (SELECT {}) AS {}",
            self.sql.join(","),
            cells.collect::<Vec<_>>().join(","),
            self.dialect.quote(&self.row.table)
        );
        let parameters = [self.parameters.as_slice(), &self.values()].concat();
        Ok(database.query(&sql, &parameters)?)
    }

    /// Asks of the row in a temporary table: a parameter of `SQLite` has neither the affinity nor the
    /// collation of a column, so that a comparison would find something else.
    fn ask_of_table(&self, database: &mut dyn Database) -> Result<Vec<Vec<Value>>, UpdateError> {
        let quote = |name: &str| self.dialect.quote(name);
        let columns = self.row.columns.iter().map(|(name, _)| {
            let column = self.live.and_then(|table| table.column(name));
            let form = column.map(|it| declared(self.dialect, it));
            format!("{} {}", quote(name), form.unwrap_or_default())
        });
        let columns = columns.collect::<Vec<_>>().join(",");
        let mut name = DefaultHasher::new();
        columns.hash(&mut name);
        let place = format!(
            "temp.{}",
            quote(&format!("probity_row_{:016x}", name.finish()))
        );
        let marks = placeholders(self.row.columns.len());
        let empty = format!("DELETE FROM {place}");
        database.execute(
            &format!("CREATE TABLE IF NOT EXISTS {place} ({columns})"),
            &[],
        )?;
        database.execute(&empty, &[])?;
        database.execute(
            &format!("INSERT INTO {place} VALUES ({marks})"),
            &self.values(),
        )?;
        let sql = format!(
            "SELECT {} FROM {place} AS {}",
            self.sql.join(","),
            quote(&self.row.table)
        );
        let rows = database.query(&sql, &self.parameters)?;
        database.execute(&empty, &[])?;
        Ok(rows)
    }

    fn values(&self) -> Vec<Value> {
        let columns = self.row.columns.iter();
        columns.map(|(_, value)| value.clone()).collect()
    }
}

/// True if an expression could be asked.
struct Asked(Result<(), String>);

impl Asked {
    /// Turns a failed expression into an error. A record of one value lacks the other columns, so
    /// expressions over them are left out there.
    fn or_missing(self, row: &Row) -> Result<(), UpdateError> {
        match self.0 {
            Err(what) if row.is_whole => Err(UpdateError::Wrong(what)),
            _ => Ok(()),
        }
    }
}
