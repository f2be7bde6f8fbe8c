//! Mappings, updates that are written down: new rows made of copies of columns, constants and SQL
//! expressions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Row;
use super::question::{Now, Question};
use super::session::Session;
use super::typed::{Kind, Kinds, Typed, Use};
use crate::database::value::Value;
use crate::database::{Catalog, Database};
use crate::error::{SpecError, UpdateError};
use crate::spec::predicate::check_expression;

/// The expression for nothing.
const NULL: &str = "NULL";
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
    /// The time zone of the session that ran the migration, in which its expressions are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time_zone: Option<String>,
    /// The `DateStyle` of that session, on `PostgreSQL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) date_style: Option<String>,
    /// Its `IntervalStyle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interval_style: Option<String>,
    /// Its `bytea_output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytea_output: Option<String>,
    /// Its `extra_float_digits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extra_float_digits: Option<i8>,
    /// The types that columns of the table had when the migration found them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, String>,
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
    /// Such expressions, for rows that were hidden before they had the column: `default` leaves it to
    /// the database.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    added: BTreeMap<String, String>,
    /// A condition over the old columns.
    #[serde(default, rename = "where", skip_serializing_if = "String::is_empty")]
    condition: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Constant {
    Truth(bool),
    Number(i64),
    /// Not recorded any more: the database reads it otherwise than a migration's literal.
    Fraction(f64),
    Text(String),
}

impl Constant {
    /// Returns a truth as an expression: of a number, a column of texts would make digits.
    const fn expression(&self) -> Option<&'static str> {
        match self {
            Self::Truth(true) => Some("true"),
            Self::Truth(false) => Some("false"),
            Self::Number(_) | Self::Fraction(_) | Self::Text(_) => None,
        }
    }

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
        Session::of(self).check()?;
        self.check_found().map_err(wrong)?;
        for target in &self.into {
            let conditions = Some(&target.condition).filter(|it| !it.is_empty());
            let added = target.added.values().filter(|it| !is_left(it));
            for expression in target.sql.values().chain(added).chain(conditions) {
                check_expression(expression).map_err(wrong)?;
            }
            target.check_constants().map_err(wrong)?;
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
            let asked = target.sql.keys().chain(target.added.keys());
            for column in written.chain(asked) {
                if table.column(column).is_none() {
                    let what = format!("table {} has no column {column}", target.table);
                    return Err(wrong(what));
                }
            }
        }
        Ok(())
    }

    /// Returns whether it says settings of the session that ran the migration.
    pub(super) const fn says_settings(&self) -> bool {
        self.time_zone.is_some() || self.date_style.is_some() || self.says_forms()
    }

    /// Returns whether it says types that the migration found.
    pub(super) fn says_found(&self) -> bool {
        !self.was.is_empty()
    }

    /// Returns whether it says columns that were added.
    pub(super) fn says_added(&self) -> bool {
        self.into.iter().any(|it| !it.added.is_empty())
    }

    /// Returns whether it says how texts are made of intervals, bytes or rounded numbers.
    pub(super) const fn says_forms(&self) -> bool {
        self.interval_style.is_some()
            || self.bytea_output.is_some()
            || self.extra_float_digits.is_some()
    }

    /// Returns whether the database is asked for anything.
    pub(super) fn has_expressions(&self) -> bool {
        let mut into = self.into.iter();
        into.any(|it| {
            !it.sql.is_empty()
                || !it.added.is_empty()
                || !it.condition.is_empty()
                || !it.values.is_empty()
        })
    }

    /// Returns what its expressions do.
    pub(super) fn used(&self) -> Use {
        let mut used = Use::default();
        for target in &self.into {
            let asked = target.sql.values().chain(target.added.values());
            for expression in asked.chain([&target.condition]) {
                used.add(expression);
            }
        }
        used
    }

    /// Returns whether a constant is a text that `is` so.
    pub(super) fn has_text(&self, is: fn(&str) -> bool) -> bool {
        let mut constants = self.into.iter().flat_map(|it| it.values.values());
        constants.any(|it| matches!(it, Constant::Text(text) if is(text)))
    }

    /// Returns whether a row of its table gets another value in `column`, or none.
    pub(super) fn rewrites(&self, table: &str, column: &str) -> bool {
        let mut into = self.into.iter().filter(|it| it.table == self.table);
        self.table == table && into.any(|it| !it.keeps(column))
    }

    /// Returns the tables of its rows, each with the columns that expressions or constants make.
    pub(crate) fn makes(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &String>)> {
        let into = self.into.iter();
        into.map(|it| {
            let said = it.sql.keys().chain(it.values.keys());
            (it.table.as_str(), said.chain(it.added.keys()))
        })
    }

    /// Returns the rows that `row` becomes.
    pub(super) fn rows(
        &self,
        database: &mut dyn Database,
        now: Now<'_>,
        row: &Typed,
    ) -> Result<Vec<(usize, Typed)>, UpdateError> {
        let mut out = Vec::new();
        let row = &self.as_found(database, now, row)?;
        for (number, target) in self.into.iter().enumerate() {
            // A row that does not meet the condition may have values of which nothing can be made.
            let condition = self.sure_question(database, now, (target, row), Asks::Condition)?;
            let is_unsure = condition.lacks.condition;
            if !condition.run(database)?.meets {
                continue;
            }
            target.refuse_lacking(row)?;
            let values = self.sure_question(database, now, (target, row), Asks::Values)?;
            let is_lost = values.lacks.value;
            let mut made = target.built(row, values.run(database)?.values);
            made.lacks.condition |= is_unsure;
            made.lacks.value |= is_lost;
            out.push((number, made));
        }
        Ok(out)
    }

    /// Returns the question that a target asks of a row.
    fn question<'q>(
        &'q self,
        database: &dyn Database,
        now: Now<'q>,
        (target, row): (&'q Target, &'q Typed),
        asks: Asks,
    ) -> Result<Question<'q>, UpdateError> {
        let session = Session::of(self);
        let mut question = Question::new(database.dialect(), (now, session), row);
        if asks != Asks::Values && !target.condition.is_empty() {
            question.ask(None, &target.condition)?;
        }
        if asks == Asks::Condition {
            return Ok(question);
        }
        for (column, expression) in &target.sql {
            question.ask(Some((&target.table, column)), expression)?;
        }
        for (column, expression) in target.lacking(row) {
            if expression.trim().eq_ignore_ascii_case(NULL) {
                question.empty(column);
            } else if !is_left(expression) {
                question.ask(Some((&target.table, column)), expression)?;
            }
        }
        for (column, constant) in &target.values {
            match constant.expression() {
                Some(truth) => question.ask(Some((&target.table, column)), truth)?,
                None => question.give((&target.table, column), constant.value()),
            }
        }
        Ok(question)
    }

    /// Returns rows of NULL with the types of those that such a row becomes.
    pub(super) fn outlined(&self, row: &Typed) -> Vec<Typed> {
        let made = |target: &Target| {
            let columns = target.sql.keys().chain(target.values.keys());
            let added = target.lacking(row).map(|(name, _)| name);
            let columns = columns.chain(added);
            let columns = columns.map(|name| (name.clone(), Value::Null));
            target.built(row, columns.collect())
        };
        self.into.iter().map(made).collect()
    }

    /// Returns the question that a target asks of a row, once it has one meaning alone.
    fn sure_question<'q>(
        &'q self,
        database: &dyn Database,
        now: Now<'q>,
        of: (&'q Target, &'q Typed),
        asks: Asks,
    ) -> Result<Question<'q>, UpdateError> {
        let question = self.question(database, now, of, asks)?;
        question.refuse_uncertain()?;
        question.refuse_unsaid()?;
        Ok(question)
    }

    /// Returns the questions that it asks of such a row. Those that are wrong are left out: a refusal
    /// of what a question may mean is about nothing else.
    pub(super) fn askable<'q>(
        &'q self,
        database: &dyn Database,
        now: Now<'q>,
        row: &'q Typed,
    ) -> Vec<Question<'q>> {
        let asked = |target| self.question(database, now, (target, row), Asks::All).ok();
        self.into.iter().filter_map(asked).collect()
    }

    /// Tries the expressions over a row of NULL.
    pub(super) fn tried(
        &self,
        database: &mut dyn Database,
        now: Now<'_>,
        row: &Typed,
    ) -> Result<(), UpdateError> {
        for target in &self.into {
            let question = self.sure_question(database, now, (target, row), Asks::All)?;
            question.run(database)?;
        }
        Ok(())
    }
}

/// The part of a target that is asked of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Condition,
    Values,
    All,
}

impl Target {
    /// Refuses numbers that do not reach the database as they are written.
    fn check_constants(&self) -> Result<(), String> {
        let is_inexact = |it: &Constant| matches!(it, Constant::Fraction(_));
        let mut inexact = self.values.iter().filter(|(_, it)| is_inexact(it));
        match inexact.next() {
            None => Ok(()),
            Some((column, _)) => Err(format!(
                "the value of {column} has a fraction or more digits than an integer of 64 bits: write it as an expression, like sql = {{ {column} = \"2.5\" }}, \
                 of which the database makes what the migration's literal made"
            )),
        }
    }

    /// Refuses a whole row without a column that it copies: the database would fill in its default.
    fn refuse_lacking(&self, row: &Typed) -> Result<(), UpdateError> {
        let lacks = |(name, old): &(&String, &String)| {
            row.row.value(old).is_none() && !self.added.contains_key(*name)
        };
        let mut copied = self.columns.iter().filter(|_| row.row.is_whole);
        copied.find(lacks).map_or(Ok(()), |(name, old)| {
            Err(UpdateError::Wrong(format!(
                "copies column {old}, which a row of {} did not have when it was hidden: say what it is there, as added = {{ {name} = \"NULL\" }}",
                row.row.table
            )))
        })
    }

    /// Notes that a column is NULL in rows that would lack it.
    pub(super) fn note_null(&mut self, column: String) {
        self.added.entry(column).or_insert_with(|| NULL.to_owned());
    }

    /// Returns the columns that it copies.
    pub(super) fn copied(&self) -> impl Iterator<Item = &String> {
        self.columns.values()
    }

    /// Returns whether the column is left to the database.
    pub(super) fn leaves(&self, name: &str) -> bool {
        self.added.get(name).is_some_and(|it| is_left(it))
    }

    /// Returns the columns, with what is said of them, that a whole row would lack.
    fn lacking<'t>(&'t self, row: &'t Typed) -> impl Iterator<Item = (&'t String, &'t String)> {
        let whole = self.added.iter().filter(|_| row.row.is_whole);
        whole.filter(|(name, _)| {
            let is_copied = self.columns.get(*name).and_then(|old| row.row.value(old));
            let is_kept = self.keeps(name) && row.row.value(name).is_some();
            let is_made = self.sql.contains_key(*name) || self.values.contains_key(*name);
            is_copied.is_none() && !is_kept && !is_made
        })
    }

    /// Returns the columns that have the values of an old one.
    pub(super) fn places_of(&self, name: &str) -> impl Iterator<Item = String> {
        let kept = self.keeps(name).then(|| name.to_owned());
        let copied = self.columns.iter().filter(move |(_, old)| *old == name);
        let copied: Vec<String> = copied.map(|(new, _)| new.clone()).collect();
        kept.into_iter().chain(copied)
    }

    /// Returns whether a column keeps its name and its value.
    fn keeps(&self, name: &str) -> bool {
        let is_said = self.columns.contains_key(name)
            || self.values.contains_key(name)
            || self.sql.contains_key(name)
            || self.drop.iter().any(|it| it == name);
        self.rest && !is_said
    }

    /// Returns the columns of `table` that it makes of themselves: of another type.
    pub(super) fn retyped(&self, table: &str) -> impl Iterator<Item = &String> {
        let alone = |(column, expression): &(&String, &String)| {
            let named = expression.trim().trim_matches(['"', '`']);
            named.eq_ignore_ascii_case(column)
        };
        let is_own = self.table == table;
        let all = self.sql.iter().filter(move |_| is_own);
        all.filter(alone).map(|(column, _)| column)
    }

    fn built(&self, of: &Typed, worked_out: Vec<(String, Value)>) -> Typed {
        let Typed { row, kinds, .. } = of;
        let kept = row.columns.iter().filter(|(name, _)| self.keeps(name));
        let kept = kept.map(|(name, value)| (name, name, value));
        let copied = self.columns.iter();
        let copied = copied.filter_map(|(name, old)| Some((name, old, row.value(old)?)));
        let (mut columns, mut origin) = (Vec::new(), Kinds::new());
        let mut hidden = BTreeSet::new();
        for (name, old, value) in kept.chain(copied) {
            columns.push((name.clone(), value.clone()));
            origin.extend(kinds.get(old).map(|it| (name.clone(), it.clone())));
            if of.hides(old) {
                hidden.insert(name.clone());
            }
        }
        for (name, value) in worked_out {
            if self
                .sql
                .get(&name)
                .is_some_and(|it| looks_at_hidden(of, it))
            {
                hidden.insert(name.clone());
            }
            origin.insert(name.clone(), Kind::Made);
            columns.push((name, value));
        }
        let made = Row {
            table: self.table.clone(),
            columns,
            is_whole: row.is_whole,
        };
        of.mapped(made, origin, hidden)
    }
}

/// Returns whether an expression for a column that was added leaves it to the database.
fn is_left(expression: &str) -> bool {
    expression.trim().eq_ignore_ascii_case("default")
}

fn looks_at_hidden(row: &Typed, expression: &str) -> bool {
    if row.row.is_whole {
        return false;
    }
    let mut used = Use::default();
    used.add(expression);
    row.is_hidden_in(&used)
}
