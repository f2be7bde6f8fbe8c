//! Columns of which an update does not say what rows get that were hidden before they were there: on
//! their return, the database would fill in what it fills in on that day.

use std::collections::BTreeSet;

use super::typed::Typed;
use super::{Mapping, Recorded};
use crate::database::tenant::TenantConnection;
use crate::database::{Catalog, CatalogTable, Column};
use crate::error::{Doing as _, Error, UpdateError};
use crate::records::shape::Shape;

/// Columns that are NULL in the rows of an update, each with the number of its target.
pub(crate) type Nulls = Vec<(usize, String)>;

impl Mapping {
    /// Refuses a mapping that copies a column which no row of those that may be hidden has, or that
    /// does not say a column which the present table has and such a row lacks. Returns those columns
    /// that it need not say, because they have no default, and are NULL wherever rows are there.
    /// `later` are the updates behind it: the tables that they take on are not as this one leads to.
    pub(super) fn unsaid_columns(
        &self,
        database: &mut dyn TenantConnection,
        (catalog, later): (&Catalog, &[Recorded]),
        rows: &[Typed],
    ) -> Result<Nulls, Error> {
        let rows = before_migration(catalog.get(&self.table), rows);
        let takes_on = |update: &Recorded, table: &str| {
            let mapping = update.mapping.as_ref();
            mapping.is_none_or(|it| it.table == table)
        };
        let mut nulls = Nulls::new();
        for (number, target) in self.into.iter().enumerate() {
            let mut copied = target.copied();
            let is_nowhere = |name: &&String| rows.iter().all(|it| it.row.value(name).is_none());
            if let Some(name) = copied.find(is_nowhere).filter(|_| !rows.is_empty()) {
                return Err(self.refusal(format!(
                    "copies column {name}, which no row of {} that is hidden has",
                    self.table
                )));
            }
            let table = catalog.get(&target.table);
            let table = table.filter(|_| !later.iter().any(|it| takes_on(it, &target.table)));
            let Some(table) = table else {
                continue;
            };
            let made = rows
                .iter()
                .filter_map(|it| self.outlined(it).into_iter().nth(number));
            let made: Vec<Typed> = made.collect();
            let unsaid = table.columns.iter().filter(|it| {
                let mut made = made.iter();
                !target.leaves(&it.name) && made.any(|row| row.row.value(&it.name).is_none())
            });
            for column in unsaid {
                if !is_empty(database, &target.table, column)? {
                    return Err(self.refusal(not_said(&target.table, &column.name)));
                }
                nulls.push((number, column.name.clone()));
            }
        }
        Ok(nulls)
    }

    /// Refuses a mapping of a table whose name rows have in other letters: it would concern none.
    pub(super) fn refuse_other_letters(
        &self,
        catalog: &Catalog,
        shapes: &[Shape],
        before: &[&Recorded],
    ) -> Result<(), Error> {
        let made = before.iter().filter_map(|it| it.mapping.as_ref());
        let made = made.flat_map(|it| it.into.iter().map(|it| it.table.as_str()));
        let hidden = shapes.iter().map(|it| it.table.as_str());
        let all: BTreeSet<&str> = made.chain(hidden).collect();
        let is_known = all.contains(&*self.table) || catalog.contains_key(&self.table);
        let mut alike = all.iter().filter(|it| it.eq_ignore_ascii_case(&self.table));
        match alike.next().filter(|_| !is_known) {
            None => Ok(()),
            Some(alike) => Err(self.refusal(format!(
                "is of table {}, and rows that are hidden are of {alike}: write the name as it was",
                self.table
            ))),
        }
    }

    pub(super) fn refusal(&self, what: String) -> Error {
        Error::Update {
            name: self.name.clone(),
            source: UpdateError::Wrong(what),
        }
    }
}

/// Returns the rows that were hidden before the migration: those with the columns of now are behind it
/// where others have others.
pub(super) fn before_migration<'r>(
    table: Option<&CatalogTable>,
    rows: &'r [Typed],
) -> Vec<&'r Typed> {
    let columns = table.map_or(&[][..], |it| it.columns.as_slice());
    let now: BTreeSet<&String> = columns.iter().map(|it| &it.name).collect();
    let is_of_now = |row: &&Typed| {
        let columns = row.row.columns.iter().map(|(name, _)| name);
        columns.collect::<BTreeSet<_>>() == now
    };
    if rows.iter().all(|it| is_of_now(&it)) {
        return rows.iter().collect();
    }
    rows.iter().filter(|it| !is_of_now(it)).collect()
}

/// Returns whether a column has no default, and no value in any row.
fn is_empty(
    database: &mut dyn TenantConnection,
    table: &str,
    column: &Column,
) -> Result<bool, Error> {
    if column.has_default || !column.nullable {
        return Ok(false);
    }
    let dialect = database.dialect();
    let sql = format!(
        "SELECT 1 FROM {} WHERE {} IS NOT NULL LIMIT 1",
        dialect.quote(table),
        dialect.quote(&column.name)
    );
    let found = database.query(&sql, &[]);
    Ok(found
        .doing("looking at a column that was added")?
        .is_empty())
}

fn not_said(table: &str, column: &str) -> String {
    format!(
        "does not say column {column} of {table}, which rows that are hidden do not have: say what the migration gave to the rows that were there, as added = {{ {column} = \"0\" }} or \"NULL\"; added = {{ {column} = \"default\" }} leaves it to the database on the day of their return"
    )
}
