//! Descriptions that say of a table otherwise than the stored one whose its rows are.

use super::engine::stored_description;
use super::preview::Preview;
use crate::database::Database;
use crate::error::Error;
use crate::records::settings;
use crate::schema::{ResolvedSchema, ResolvedTable};

impl<D: Database> Preview<'_, D> {
    /// Returns a caution for each table whose rows are other people's by this description than by
    /// the stored one, while somebody is registered: records made under that one may wait under this
    /// one.
    pub(super) fn cautions_of_description(&mut self) -> Result<Vec<String>, Error> {
        let database = &mut self.transactions.database;
        let (schema, pseudo) = match stored_description(database) {
            Ok(stored) => stored,
            Err(Error::NotInstalled) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if !settings::is_in_use(database)? {
            return Ok(Vec::new());
        }
        let dialect = database.dialect();
        let (catalog, live) = self.transactions.application.described()?;
        // One that does not fit the database any more says nothing of its rows.
        let Ok(stored) = ResolvedSchema::new(dialect, catalog.clone(), &schema, &pseudo) else {
            return Ok(Vec::new());
        };
        let changed = stored.tables.values().filter_map(|then| {
            let now = live.table(&then.name)?;
            let (whose_then, whose_now) = (whose(then), whose(now));
            (whose_then != whose_now).then_some((&then.name, whose_then, whose_now))
        });
        let told = changed.map(|(name, then, now)| {
            format!(
                "table {name}: {now}, and {then} in the stored description: what was hidden under that one may wait under this one with \"it is somebody else's row\", so reveal it first, or keep to that one"
            )
        });
        Ok(told.collect())
    }
}

/// Returns the columns that say whose the rows of a table are, for a person to read.
fn whose(table: &ResolvedTable) -> String {
    let mut parts = Vec::new();
    for (what, columns) in [("owners", &table.owners), ("readers", &table.readers)] {
        if !columns.is_empty() {
            parts.push(format!("{what} {}", columns.join(", ")));
        }
    }
    let path = table.path.iter().filter_map(|path| path.steps.first());
    parts.extend(path.map(|step| format!("the way through {}", step.columns.join(", "))));
    if parts.is_empty() {
        parts.push("nobody's rows".to_owned());
    }
    parts.join(", ")
}
