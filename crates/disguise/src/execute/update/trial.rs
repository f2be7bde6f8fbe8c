//! Tries the expressions of a mapping when it is recorded, over rows of NULL of the types that hidden
//! rows have: a wrong name or type is told of at once, and not to whoever returns.

use super::question::Now;
use super::typed::{Kind, Typed};
use super::{Mapping, Recorded, Row};
use crate::database::Catalog;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error, UpdateError};
use crate::records::shape::{self, Shape, ShapeOf};

const SAVEPOINT: &str = "SAVEPOINT probity_trial";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_trial";
const RELEASE: &str = "RELEASE SAVEPOINT probity_trial";

impl Mapping {
    /// Refuses a mapping whose expressions the database takes of no rows that may be hidden; `later`
    /// are the updates from it on. Rows that updates `before` make are not known, and neither are
    /// those of programs before.
    pub(crate) fn refuse_unaskable(
        &self,
        database: &mut dyn TenantConnection,
        catalog: &Catalog,
        (before, later): (&[&Recorded], &[Recorded]),
    ) -> Result<(), Error> {
        let makes_some = |it: &&Recorded| {
            let mapping = it.mapping.as_ref();
            mapping.is_none_or(|it| it.into.iter().any(|into| into.table == self.table))
        };
        if !self.has_expressions() {
            return Ok(());
        }
        let now = Now { catalog, later };
        if before.iter().any(makes_some) {
            return self.refuse_unsaid_behind(database, now, before);
        }
        let mut refused = None;
        let shapes = shape::all(database)?.into_iter();
        let rows = shapes.filter(|it| it.table == self.table).map(nulls);
        let rows: Vec<Typed> = rows.collect();
        // Of settings the rows of every shape depend.
        for row in &rows {
            self.refuse_unsaid(database, now, row)
                .map_err(|source| Error::Update {
                    name: self.name.clone(),
                    source,
                })?;
        }
        for row in rows {
            let doing = "trying an update";
            database.execute(SAVEPOINT, &[]).doing(doing)?;
            let tried = self.tried(database, now, &row);
            database.execute(BACK, &[]).doing(doing)?;
            database.execute(RELEASE, &[]).doing(doing)?;
            match tried {
                Ok(()) => return Ok(()),
                Err(source) => refused = Some(explained(source)),
            }
        }
        refused.map_or(Ok(()), |source| {
            let name = self.name.clone();
            Err(Error::Update { name, source })
        })
    }

    /// Refuses expressions over rows that updates `before` make, if a column that they name had times
    /// in a zone in any of the tables that the rows come from, and the mapping says no zone.
    fn refuse_unsaid_behind(
        &self,
        database: &mut dyn TenantConnection,
        now: Now<'_>,
        before: &[&Recorded],
    ) -> Result<(), Error> {
        let tables = before.iter().filter_map(|it| it.mapping.as_ref());
        let tables: Vec<&str> = tables
            .map(|it| it.table.as_str())
            .chain([self.table.as_str()])
            .collect();
        for shape in shape::all(database)? {
            if tables.contains(&shape.table.as_str()) {
                let row = self.with_made(nulls_in(&self.table, shape), now);
                let refused = self.refuse_unsaid(database, now, &row);
                refused.map_err(|source| Error::Update {
                    name: self.name.clone(),
                    source,
                })?;
            }
        }
        Ok(())
    }
}

impl Mapping {
    /// Adds the columns that the table has now: an update before may have made them.
    fn with_made(&self, mut row: Typed, now: Now<'_>) -> Typed {
        let there = now.catalog.get(&self.table).into_iter();
        for column in there.flat_map(|it| &it.columns) {
            if row.row.value(&column.name).is_none() {
                row.row.columns.push((column.name.clone(), Value::Null));
                row.kinds.insert(column.name.clone(), Kind::Made);
            }
        }
        row
    }
}

/// Adds the reason that the database gave: the row was of NULL, so that the words have no value.
fn explained(refused: UpdateError) -> UpdateError {
    let UpdateError::Database(error) = &refused else {
        return refused;
    };
    let words = error.said.without_values();
    let words = words.map_or_else(|| error.message.clone(), str::to_owned);
    let told = words.to_ascii_lowercase();
    let zone = if told.contains("time zone") || told.contains("timezone") {
        " (a distance from UTC needs no names of zones: time_zone = \"-05:00\")"
    } else {
        ""
    };
    UpdateError::Wrong(format!(
        "the database refuses its settings or one of its expressions: {words}{zone}"
    ))
}

/// Returns a row of NULL of this shape.
fn nulls(shape: Shape) -> Typed {
    let table = shape.table.clone();
    nulls_in(&table, shape)
}

/// Returns a row of NULL of this shape as one of `table`.
fn nulls_in(table: &str, shape: Shape) -> Typed {
    let columns = shape.columns.keys();
    let columns = columns.map(|name| (name.clone(), Value::Null)).collect();
    let row = Row::new(table.to_owned(), columns);
    Typed::recorded(row, &ShapeOf::Known(shape.into()))
}
