//! Expressions over one row, asked of the database. The row has the types and collations that its
//! columns had when it was recorded: by others, a comparison would find something else.

use std::collections::BTreeMap;

use sqlparser::ast::Ident;

use super::Recorded;
use super::conversion::{class, numbers};
use super::session::{Session, Setting};
use super::typed::{Kind, Lacks, Typed, Use};
use super::typing::{Letters, Typing};
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Catalog, CatalogTable, Column, Database, DatabaseError, Dialect};
use crate::error::UpdateError;
use crate::schema::name_matching::CatalogNames;
use crate::spec::predicate::{Like, Scope, column_written};
use crate::statements::own_row::OwnRow;

/// The name of the only column where no expression names one.
const NOTHING: &str = "nothing";

/// The most letters of a column that stands in a row of a temporary table of `MariaDB`.
const LETTERS_MAX: usize = 1_024;

const POINT: &str = "SAVEPOINT probity_session";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_session";
const RELEASE: &str = "RELEASE SAVEPOINT probity_session";

/// The database's results for the expressions of one target.
pub(super) struct WorkedOut {
    pub(super) values: Vec<(String, Value)>,
    pub(super) meets: bool,
}

/// The tables as they are now, and the update that asks with those after it.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) later: &'a [Recorded],
}

impl<'a> Now<'a> {
    /// Returns a column as it was when the update that asks was recorded, or, where that is not known,
    /// as it is now, if no later update makes its values anew.
    pub(super) fn column(&self, table: &str, name: &str) -> Option<&'a Column> {
        let asking = self.later.first();
        if let Some(then) = asking.and_then(|it| it.column(table, name)) {
            return Some(then);
        }
        let after = self.later.get(1..).unwrap_or_default();
        let column = self.catalog.get(table)?.column(name)?;
        (!is_rewritten(after, table, name)).then_some(column)
    }
}

/// Returns whether one of the updates makes values of the column anew.
fn is_rewritten(updates: &[Recorded], table: &str, column: &str) -> bool {
    let mut mappings = updates.iter().map(|it| it.mapping.as_ref());
    mappings.any(|it| it.is_none_or(|it| it.rewrites(table, column)))
}

/// One expression.
pub(super) struct Asked<'a> {
    /// The column that gets its value; nothing for a condition.
    pub(super) column: Option<String>,
    /// That column, if its type is known: the value is what it makes of it.
    pub(super) into: Option<&'a Column>,
    sql: String,
    /// The expression where `LIKE` tells letters of another case apart.
    exact: Option<String>,
    pub(super) parameters: Vec<Value>,
    pub(super) used: Use,
    pub(super) typing: Typing,
}

impl Asked<'_> {
    /// Returns the expression as one of the type of its column. `PostgreSQL` assigns fewer types to
    /// one another than it casts, and assigns a text without the spaces that it has no room for.
    fn assignable(&self, dialect: Dialect, setting: &Setting) -> String {
        let Some(into) = self.into.filter(|_| dialect == Dialect::Postgres) else {
            return self.under(setting).to_owned();
        };
        let made = format!("({})::{}", self.sql, into.assigned());
        let Some(room) = into.letters_max() else {
            return made;
        };
        format!(
            "(SELECT CASE WHEN rtrim(substr(made::text, {room} + 1), ' ') = '' \
             THEN made::{}::text ELSE made::text END \
             FROM (SELECT {made} AS made) AS assigned)",
            into.kind()
        )
    }

    /// Returns the expression as it is asked under a setting.
    fn under(&self, setting: &Setting) -> &str {
        let exact = self.exact.as_ref().filter(|_| setting.likes_exactly());
        exact.unwrap_or(&self.sql)
    }

    /// Returns the part of the update that it is, for messages.
    pub(super) fn place(&self) -> String {
        let column = self.column.as_ref();
        column.map_or_else(|| "where".to_owned(), |it| format!("column {it}"))
    }
}

/// Expressions over one row.
pub(super) struct Question<'a> {
    pub(super) dialect: Dialect,
    pub(super) now: Now<'a>,
    pub(super) session: Session<'a>,
    pub(super) row: &'a Typed,
    alone: Catalog,
    used: Use,
    pub(super) asked: Vec<Asked<'a>>,
    pub(super) lacks: Lacks,
    /// Values of columns of which no type is known.
    given: Vec<(String, Value)>,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        dialect: Dialect,
        (now, session): (Now<'a>, Session<'a>),
        row: &'a Typed,
    ) -> Self {
        let columns = row.row.columns.iter().map(|(name, _)| Column {
            name: name.clone(),
            nullable: true,
            ..Column::default()
        });
        let table = CatalogTable {
            columns: columns.collect(),
            ..CatalogTable::default()
        };
        Self {
            dialect,
            now,
            session,
            row,
            alone: Catalog::from([(row.row.table.clone(), table)]),
            used: Use::default(),
            asked: Vec::new(),
            lacks: Lacks::default(),
            given: Vec::new(),
        }
    }

    /// Adds an expression for a column of a table, or the condition. A record of one value lacks
    /// the other columns, so expressions over them are left out there.
    pub(super) fn ask(
        &mut self,
        column: Option<(&str, &String)>,
        expression: &str,
    ) -> Result<(), UpdateError> {
        // The row is the only input; no table of the application is read.
        let (named, alone) = (BTreeMap::new(), TenantScope::none());
        let of = &self.row.row.table;
        let scope = Scope::new(self.dialect, &self.alone, (&named, &alone), of);
        let exact = scope.clone().with_like(Like::Exact).value(expression);
        let mut used = Use::default();
        used.add(expression);
        let fragment = match scope.with_like(Like::Folded).value(expression) {
            Ok(fragment) => fragment,
            Err(what) if self.row.row.is_whole => return Err(UpdateError::Wrong(what)),
            Err(_lacking) => {
                let is_hidden = self.row.is_hidden_in(&used);
                self.lacks.condition |= is_hidden && column.is_none();
                self.lacks.value |= is_hidden && column.is_some();
                return Ok(());
            }
        };
        self.used.add(expression);
        let into = column.and_then(|(table, name)| self.now.column(table, name));
        self.refuse_two_meanings(into, expression)?;
        let becomes = into.map(|it| class(self.dialect, it));
        let typing = Typing::of(self.dialect, (expression, becomes.as_deref()), &|name| {
            self.class_of(name)
        });
        let asked = |sql: String| match column {
            Some(_) => sql,
            None => format!("CASE WHEN {sql} THEN 1 ELSE 0 END"),
        };
        let exact = exact.ok().map(|it| it.sql);
        let exact = exact.filter(|it| *it != fragment.sql).map(asked);
        self.asked.push(Asked {
            typing: typing.map_err(UpdateError::Wrong)?,
            column: column.map(|(_, name)| name.clone()),
            into,
            sql: asked(fragment.sql),
            exact,
            parameters: fragment.parameters,
            used,
        });
        Ok(())
    }

    /// Returns the class of a column of the row, as it was recorded, or, if an update made it, as the
    /// table has it.
    fn class_of(&self, name: &Ident) -> Option<String> {
        let of = &self.row.row.table;
        let names = CatalogNames::new(self.dialect, &self.alone);
        let name = column_written(self.dialect, names, self.alone.get(of)?, name)?;
        let column = match self.row.kinds.get(name)? {
            Kind::Recorded(it) => it,
            Kind::Made => self.now.column(of, name)?,
        };
        Some(class(self.dialect, column))
    }

    /// Adds NULL for a column.
    pub(super) fn empty(&mut self, column: &str) {
        self.given.push((column.to_owned(), Value::Null));
    }

    /// Adds a value for a column of a table, of which the type of the column makes its own.
    pub(super) fn give(&mut self, (table, column): (&str, &String), value: Value) {
        let Some(into) = self.now.column(table, column) else {
            self.given.push((column.clone(), value));
            return;
        };
        let (of, letters) = match &value {
            Value::Text(text) => ("text", Some(Letters::of(text))),
            _ => (numbers(self.dialect), None),
        };
        let becomes = class(self.dialect, into);
        self.asked.push(Asked {
            column: Some(column.clone()),
            into: Some(into),
            typing: Typing::of_constant(of, letters, &becomes),
            sql: "?".to_owned(),
            exact: None,
            parameters: vec![value],
            used: Use::default(),
        });
    }

    pub(super) fn run(mut self, database: &mut dyn Database) -> Result<WorkedOut, UpdateError> {
        let mut out = WorkedOut {
            values: std::mem::take(&mut self.given),
            meets: true,
        };
        if self.asked.is_empty() {
            return Ok(out);
        }
        let values = self.answers(database)?;
        for (asked, value) in self.asked.into_iter().zip(values) {
            match asked.column {
                Some(column) => out.values.push((column, value)),
                None => out.meets = value.to_string() == "1",
            }
        }
        Ok(out)
    }

    /// Returns the answers under the settings of the migration. Those that the update does not say
    /// must have no part in them.
    fn answers(&self, database: &mut dyn Database) -> Result<Vec<Value>, UpdateError> {
        let columns = self.columns()?;
        self.refuse_fleeting(&columns)?;
        if !self
            .asked
            .iter()
            .any(|it| it.typing.may_depend(self.dialect))
        {
            return Ok(self.answer(database, &columns, &Setting::own(self.dialect))?);
        }
        let settings = self.session.settings(self.dialect);
        let values = self.answer(database, &columns, &settings.main)?;
        for other in &settings.others {
            database.execute(POINT, &[])?;
            let found = self.answer(database, &columns, other);
            if found.is_err() {
                database.execute(BACK, &[])?;
                Setting::own(self.dialect).make(database)?;
            }
            database.execute(RELEASE, &[])?;
            let found = found.unwrap_or_default();
            for (index, (asked, value)) in self.asked.iter().zip(&values).enumerate() {
                if !found.get(index).is_some_and(|it| it.same(value)) {
                    return Err(depending(asked, self.dialect));
                }
            }
        }
        Ok(values)
    }

    fn answer(
        &self,
        database: &mut dyn Database,
        columns: &[(Column, Value)],
        setting: &Setting,
    ) -> Result<Vec<Value>, DatabaseError> {
        if self.dialect == Dialect::Postgres && *setting == Setting::own(self.dialect) {
            self.ask_of_values(database, columns)
        } else {
            self.ask_of_table(database, columns, setting)
        }
    }

    /// Returns the columns that the expressions name, as they were, with their values.
    fn columns(&self) -> Result<Vec<(Column, Value)>, UpdateError> {
        let columns = self.row.row.columns.iter();
        let columns = columns.filter(|(name, _)| self.used.names(name));
        let columns: Result<Vec<_>, UpdateError> = columns
            .map(|(name, value)| {
                let column = Column {
                    name: name.clone(),
                    ..self.column(name, value)?
                };
                Ok((self.of_words(column)?, value.clone()))
            })
            .collect();
        let mut columns: Vec<(Column, Value)> = columns?;
        if columns.is_empty() {
            let nothing = Column {
                name: NOTHING.to_owned(),
                declared: "INTEGER".to_owned(),
                ..Column::default()
            };
            columns.push((nothing, Value::Null));
        }
        Ok(columns)
    }

    fn column(&self, name: &str, value: &Value) -> Result<Column, UpdateError> {
        let of = &self.row.row.table;
        let live = self.now.catalog.get(of).and_then(|it| it.column(name));
        let is_anew = is_rewritten(self.now.later, of, name);
        let found = match (self.row.kinds.get(name), live) {
            (Some(Kind::Recorded(column)), _) => Some(column.clone()),
            // The column may have had another type before this update than it has now.
            (Some(Kind::Made), Some(live)) if !is_anew => Some(live.clone()),
            (Some(Kind::Made) | None, live) => self.used.certain(self.dialect, live, value),
        };
        found.ok_or_else(|| {
            let what = format!(
                "an expression names column {name} of table {of}, of which the record does not say the type, so that it may find something else than the migration did; do the update by code, or without that expression"
            );
            UpdateError::Wrong(what)
        })
    }

    /// Returns a column of an enumeration of `PostgreSQL` whose words are others now as one of texts:
    /// the type of then is gone. Texts have another order than words.
    fn of_words(&self, column: Column) -> Result<Column, UpdateError> {
        if self.dialect != Dialect::Postgres || column.members.is_empty() {
            return Ok(column);
        }
        let mut all = self.now.catalog.values().flat_map(|it| &it.columns);
        let now = all.find(|it| it.kind() == column.kind() && !it.members.is_empty());
        if now.is_some_and(|now| has_words(now, &column)) {
            return Ok(column);
        }
        let mut asked = self.asked.iter().map(|it| &it.used);
        if !asked.any(|used| used.meets(&column.name) && used.orders()) {
            return Ok(Column {
                name: column.name,
                declared: "text".to_owned(),
                nullable: true,
                ..Column::default()
            });
        }
        if now.is_none() {
            return Ok(column);
        }
        Err(UpdateError::Wrong(format!(
            "an expression orders the words of column {}, whose enumeration had others when the row was hidden: compare them by = or IN alone, or do the update by code",
            column.name
        )))
    }

    /// Asks of a row of parameters.
    fn ask_of_values(
        &self,
        database: &mut dyn Database,
        columns: &[(Column, Value)],
    ) -> Result<Vec<Value>, DatabaseError> {
        let mut cells = Vec::new();
        let asked = self.asked.iter().flat_map(|it| &it.parameters);
        let mut parameters: Vec<Value> = asked.cloned().collect();
        for (column, value) in columns {
            // A column of a subquery has its collation as one of a table has it.
            let collation = column.collation.as_deref();
            let collation = collation.map_or_else(String::new, |it| format!(" COLLATE {it}"));
            let name = self.dialect.quote(&column.name);
            cells.push(format!("?::{}{collation} AS {name}", column.kind()));
            parameters.push(value.clone());
        }
        let own = Setting::own(self.dialect);
        let asked = self
            .asked
            .iter()
            .map(|it| it.assignable(self.dialect, &own));
        let sql = format!(
            "SELECT {} FROM (SELECT {}) AS {}",
            asked.collect::<Vec<_>>().join(","),
            cells.join(","),
            self.dialect.quote(&self.row.row.table)
        );
        Ok(database.query(&sql, &parameters)?.concat())
    }

    /// Asks of the row in a temporary table: parameters of `SQLite` have neither affinity nor
    /// collation, and `MariaDB` has types to which it casts nothing. Columns of that table take the
    /// answers, and make of them what the columns of the migration made. The row is written and the
    /// answers are read under the settings of the engine, whatever those of the question are.
    fn ask_of_table(
        &self,
        database: &mut dyn Database,
        columns: &[(Column, Value)],
        setting: &Setting,
    ) -> Result<Vec<Value>, DatabaseError> {
        let dialect = self.dialect;
        let made = |index: usize| format!("probity_made_{index}");
        let cells = columns.iter();
        let mut cells: Vec<(String, String)> = cells
            .map(|(it, _)| (it.name.clone(), roomy(dialect, it)))
            .collect();
        let (mut set, mut given, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        let mut parameters = Vec::new();
        for (index, it) in self.asked.iter().enumerate() {
            let Some(into) = it.into else {
                asked.push(it.under(setting).to_owned());
                parameters.extend_from_slice(&it.parameters);
                continue;
            };
            let kind = match dialect {
                Dialect::Postgres if into.letters_max().is_some() => "text".to_owned(),
                Dialect::Postgres => into.assigned(),
                Dialect::Sqlite | Dialect::Mysql => roomy(dialect, into),
            };
            cells.push((made(index), kind));
            set.push(format!(
                "{} = {}",
                made(index),
                it.assignable(dialect, setting)
            ));
            given.extend_from_slice(&it.parameters);
        }
        let values: Vec<Value> = columns.iter().map(|(_, value)| value.clone()).collect();
        let row = OwnRow::with(database, &cells, &values)?;
        let named = format!("{} AS {}", row.place, dialect.quote(&self.row.row.table));
        let is_own = *setting == Setting::own(dialect);
        if !is_own {
            setting.make(database)?;
        }
        let answered = answered(
            database,
            (&format!("UPDATE {named} SET {}", set.join(",")), &given),
            (
                &format!("SELECT {} FROM {named}", asked.join(",")),
                &parameters,
            ),
        );
        if !is_own {
            Setting::own(dialect).make(database)?;
        }
        let mut answered = answered?.into_iter();
        let names = self
            .asked
            .iter()
            .enumerate()
            .filter(|(_, it)| it.into.is_some());
        let names: Vec<String> = names.map(|(index, _)| made(index)).collect();
        let mut stored = Vec::new().into_iter();
        if !names.is_empty() {
            let sql = format!("SELECT {} FROM {}", names.join(","), row.place);
            stored = database.query(&sql, &[])?.concat().into_iter();
        }
        row.clear(database)?;
        let next = self.asked.iter().map(|it| match it.into {
            Some(_) => stored.next(),
            None => answered.next(),
        });
        Ok(next.map(|it| it.unwrap_or(Value::Null)).collect())
    }
}

/// Returns the declaration of a column of a temporary table. Long ones of `MariaDB` stand in no row
/// beside others, so that they become such as stand beside it; they have no shorter values.
fn roomy(dialect: Dialect, column: &Column) -> String {
    let declared = column.declaration(dialect);
    let is_long = column.length_max().is_some_and(|it| it > LETTERS_MAX);
    let Some((kind, rest)) = declared.split_once(')').filter(|_| is_long) else {
        return declared;
    };
    match kind.split('(').next() {
        Some("varchar") if dialect == Dialect::Mysql => format!("longtext{rest}"),
        Some("varbinary") if dialect == Dialect::Mysql => format!("longblob{rest}"),
        _ => declared,
    }
}

/// Returns whether an enumeration has all words of another one, in their order.
fn has_words(column: &Column, of: &Column) -> bool {
    let mut all = column.members.iter();
    of.members.iter().all(|word| all.any(|it| it == word))
}

/// Makes the columns of answers, and returns what is asked besides; a statement that has nothing to
/// do is left out.
fn answered(
    database: &mut dyn Database,
    (update, given): (&str, &[Value]),
    (select, parameters): (&str, &[Value]),
) -> Result<Vec<Value>, DatabaseError> {
    if !update.ends_with("SET ") {
        database.execute(update, given)?;
    }
    if select.starts_with("SELECT  FROM") {
        return Ok(Vec::new());
    }
    Ok(database.query(select, parameters)?.concat())
}

fn depending(asked: &Asked<'_>, dialect: Dialect) -> UpdateError {
    let advice = match dialect {
        Dialect::Mysql => {
            "say the zone of the migration, as time_zone = \"+02:00\"; what sql_mode or the connection decides no update can say: say trim(...) for the text of a CHAR, leave sql out where the new type is of the same family, or do the update by code"
        }
        Dialect::Sqlite => {
            "LIKE finds letters of another case or not (PRAGMA case_sensitive_like): say lower(...) LIKE for the one, and substr(...) = for the other, or do the update by code"
        }
        Dialect::Postgres => {
            "say those of the migration, as time_zone = \"Europe/Berlin\", date_style, interval_style, bytea_output or extra_float_digits, or do the update by code"
        }
    };
    let place = asked.place();
    UpdateError::Wrong(format!(
        "what it finds for {place} of a row depends on settings of the session, which the update does not say: {advice}"
    ))
}
