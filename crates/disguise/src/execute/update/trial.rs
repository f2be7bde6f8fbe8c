//! Tries the expressions of a mapping when it is recorded, over rows of NULL of the types that hidden
//! rows have: a wrong name or type is told of at once, and not to whoever returns.

use std::sync::Arc;

use super::question::Now;
use super::session::Session;
use super::typed::Typed;
use super::unsaid::Nulls;
use super::{Mapping, Recorded, Row};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Catalog, Dialect};
use crate::error::{Doing as _, Error, UpdateError};
use crate::records::shape::{self, Shape, ShapeOf};

const SAVEPOINT: &str = "SAVEPOINT probity_trial";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_trial";
const RELEASE: &str = "RELEASE SAVEPOINT probity_trial";

impl Mapping {
    /// Refuses a mapping whose expressions the database takes of no rows that may be hidden, or that
    /// does not say what becomes of their columns; `later` are the updates from it on. Rows that updates
    /// `before` make are not known, and neither are those of programs before. Returns the columns that
    /// are NULL in its rows, though it does not say so.
    pub(crate) fn refuse_unaskable(
        &self,
        database: &mut dyn TenantConnection,
        catalog: &Catalog,
        (before, later): (&[&Recorded], &[Recorded]),
    ) -> Result<Nulls, Error> {
        let shapes = shape::all(database)?;
        self.refuse_other_letters(catalog, &shapes, before)?;
        let (rows, is_behind) = self.hidden_rows(catalog, shapes, before);
        // Of code nobody knows which columns it made.
        let nulls = if before.iter().all(|it| it.mapping.is_some()) {
            let later = later.get(1..).unwrap_or_default();
            self.unsaid_columns(database, (catalog, later), &rows)?
        } else {
            Nulls::new()
        };
        if self.has_expressions() {
            self.refuse_expressions(database, (catalog, before, later), (rows, is_behind))?;
        }
        Ok(nulls)
    }

    /// Returns the columns of which it says the types that the migration found.
    pub(crate) fn types_found(
        &self,
        database: &mut dyn TenantConnection,
        catalog: &Catalog,
        before: &[&Recorded],
    ) -> Result<Option<Arc<Shape>>, Error> {
        if !self.says_found() {
            return Ok(None);
        }
        let shapes = shape::all(database)?;
        let (rows, _) = self.hidden_rows(catalog, shapes, before);
        self.found(database, &rows)
    }

    /// Returns rows of NULL of its table, of the types that hidden rows have, and whether updates
    /// `before` may have made some.
    fn hidden_rows(
        &self,
        catalog: &Catalog,
        shapes: Vec<Shape>,
        before: &[&Recorded],
    ) -> (Vec<Typed>, bool) {
        let makes_some = |it: &&Recorded| {
            let mapping = it.mapping.as_ref();
            mapping.is_none_or(|it| it.into.iter().any(|into| into.table == self.table))
        };
        let is_behind = before.iter().any(makes_some);
        let rows = if is_behind {
            self.behind(catalog, shapes, before)
        } else {
            let shapes = shapes.into_iter();
            let shapes = shapes.filter(|it| it.table == self.table);
            shapes.map(nulls).collect()
        };
        (rows, is_behind)
    }

    /// Refuses expressions that the database takes of none of these rows.
    fn refuse_expressions(
        &self,
        database: &mut dyn TenantConnection,
        (catalog, before, later): (&Catalog, &[&Recorded], &[Recorded]),
        (rows, is_behind): (Vec<Typed>, bool),
    ) -> Result<(), Error> {
        let now = Now { catalog, later };
        let dialect = database.dialect();
        let named = |source| {
            let name = self.name.clone();
            Error::Update { name, source }
        };
        Session::of(self).refuse_turned(dialect).map_err(named)?;
        self.refuse_other_reading(database)?;
        self.refuse_lost_type(now, before)?;
        self.refuse_untold_types(dialect, now, &rows)?;
        // Shapes stay when the rows that had them are back.
        let (mut refused, mut found) = (None, Vec::new());
        for row in &rows {
            match apart(database, |database| self.as_found(database, now, row))? {
                Ok(row) => found.push(row),
                Err(source) => refused = Some(explained(dialect, source)),
            }
        }
        let rows = found;
        // Of settings the rows of every shape depend.
        let mut makes_money = false;
        for row in &rows {
            for question in self.askable(database, now, row) {
                question.refuse_unsaid().map_err(named)?;
                makes_money |= question.asked.iter().any(|it| it.typing.makes("money"));
            }
        }
        if makes_money {
            self.refuse_money(database)?;
        }
        for row in rows {
            let tried = if is_behind {
                let mut questions = self.askable(database, now, &row).into_iter();
                questions.try_for_each(|question| question.refuse_uncertain())
            } else {
                apart(database, |database| self.tried(database, now, &row))?
            };
            match tried {
                Ok(()) => return Ok(()),
                Err(source) => refused = Some(explained(dialect, source)),
            }
        }
        refused.map_or(Ok(()), |source| Err(named(source)))
    }

    /// Refuses to make a column anew of itself that an update `before` made with the type of now: that
    /// update was recorded after the next migration, and nothing says which type it led to.
    fn refuse_lost_type(&self, now: Now<'_>, before: &[&Recorded]) -> Result<(), Error> {
        let retyped = self.into.iter().flat_map(|it| it.retyped(&self.table));
        for column in retyped.filter(|it| !self.was.contains_key(*it)) {
            let makers = before.iter().rev();
            let mut makers = makers.filter_map(|it| Some((it, it.column(&self.table, column)?)));
            let Some((maker, then)) = makers.next() else {
                continue;
            };
            let live = now.column(&self.table, column);
            if live.is_some_and(|it| (&it.declared, &it.base) == (&then.declared, &then.base)) {
                let what = format!(
                    "makes column {column} of {} what update {} made of it: that was recorded when the column had the type of now, so that nothing says its type between the two; say it, as was = {{ {column} = \"text\" }}, or do what both do by one update by code",
                    self.table, maker.name
                );
                let source = UpdateError::Wrong(what);
                let name = self.name.clone();
                return Err(Error::Update { name, source });
            }
        }
        Ok(())
    }

    /// Returns rows of its table as updates `before` make them of hidden ones. A row that has the types
    /// of now may have been hidden behind them.
    fn behind(&self, catalog: &Catalog, shapes: Vec<Shape>, before: &[&Recorded]) -> Vec<Typed> {
        let mut rows = Vec::new();
        for shape in shapes {
            let live = catalog.get(&shape.table);
            let is_live = live.is_some_and(|it| Shape::of(&shape.table, it).id == shape.id);
            let row = nulls(shape);
            if is_live {
                rows.push(row.clone());
            }
            let mut made = vec![row];
            for update in before {
                made = made.iter().flat_map(|row| update.outlined(row)).collect();
            }
            rows.append(&mut made);
        }
        rows.retain(|it| it.row.table == self.table);
        rows
    }
}

/// Tries something over a row of NULL, and leaves nothing of that.
fn apart<T>(
    database: &mut dyn TenantConnection,
    tried: impl FnOnce(&mut dyn TenantConnection) -> Result<T, UpdateError>,
) -> Result<Result<T, UpdateError>, Error> {
    let doing = "trying an update";
    database.execute(SAVEPOINT, &[]).doing(doing)?;
    let tried = tried(database);
    database.execute(BACK, &[]).doing(doing)?;
    database.execute(RELEASE, &[]).doing(doing)?;
    Ok(tried)
}

/// Adds the reason that the database gave: the row was of NULL, so that the words have no value.
fn explained(dialect: Dialect, refused: UpdateError) -> UpdateError {
    let UpdateError::Database(error) = &refused else {
        return refused;
    };
    let words = error.said.without_values();
    let words = words.map_or_else(|| error.message.clone(), str::to_owned);
    let told = words.to_ascii_lowercase();
    let zone = match dialect {
        _ if !told.contains("time zone") && !told.contains("timezone") => "",
        Dialect::Postgres => {
            " (a distance from UTC needs no names of zones: time_zone = \"<-05>+05\" is five hours behind UTC, \"<+02>-02\" two ahead)"
        }
        _ => " (a distance from UTC needs no names of zones: time_zone = \"-05:00\")",
    };
    UpdateError::Wrong(format!(
        "the database refuses its settings or one of its expressions: {words}{zone}"
    ))
}

/// Returns a row of NULL of this shape.
fn nulls(shape: Shape) -> Typed {
    let columns = shape.columns.keys();
    let columns = columns.map(|name| (name.clone(), Value::Null)).collect();
    let row = Row::new(shape.table.clone(), columns);
    Typed::recorded(row, &ShapeOf::Known(shape.into()))
}
