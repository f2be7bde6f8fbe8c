//! Rows of which `SQLite` takes no change, foretold.

use super::preview::Preview;
use crate::database::Database;
use crate::error::Error;
use crate::plan::step::Step;
use crate::spec::Kind;
use crate::statements::table::counted;
use crate::statements::unchangeable::{own_keys, unchangeable};

impl<D: Database> Preview<'_, D> {
    /// Returns one sentence for each step that would change such rows.
    pub(super) fn unchangeable_rows(&mut self, steps: &[Step]) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        for step in steps {
            let columns: Vec<&str> = match &step.kind {
                Kind::Remove => continue,
                Kind::Modify { column, .. } | Kind::Unlink { column } => vec![column],
                Kind::Decorrelate { owners, .. } => owners.iter().map(String::as_str).collect(),
            };
            let (_, live) = self.transactions.application.described()?;
            let table = live.table(&step.table).cloned();
            let database = &mut self.transactions.database;
            let dialect = database.database.dialect();
            let Some((table, orphans)) = table
                .and_then(|it| unchangeable(dialect, &it, &columns).map(|orphans| (it, orphans)))
            else {
                continue;
            };
            let chosen = database.tenancy.bound(dialect, &step.table, &step.chosen);
            let sql = format!(
                "SELECT COUNT(*) FROM {} WHERE ({}) AND ({orphans})",
                dialect.quote(&step.table),
                chosen.sql
            );
            let rows = counted(database, &sql, &chosen.parameters)?;
            if rows > 0 {
                told.push(format!(
                    "changing rows of {}: {rows} of them refer to a row of the same table that is not there ({}), and SQLite takes no change of such a row; PRAGMA foreign_key_check({}) lists them",
                    step.table,
                    own_keys(&table),
                    dialect.quote(&step.table)
                ));
            }
        }
        Ok(told)
    }
}
