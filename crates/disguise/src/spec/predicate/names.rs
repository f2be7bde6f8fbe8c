//! Names in conditions: without quotes they are found as the database folds them, with quotes exactly.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::Scope;
use crate::database::{CatalogTable, Dialect};
use crate::schema::name_matching::CatalogNames;

impl<'a> Scope<'a> {
    pub(super) fn column(&self, name: &Ident) -> Result<String, String> {
        let holders: Vec<(&String, &str)> = self
            .tables
            .iter()
            .filter_map(|(alias, table)| Some((alias, self.called(table, name)?)))
            .collect();
        match holders.as_slice() {
            [(alias, column)] => Ok(self.name(alias, column)),
            [] => Err(format!("there is no column {}", name.value)),
            _ => Err(format!("column {} is in several tables", name.value)),
        }
    }

    pub(super) fn qualified(&self, alias: &Ident, column: &Ident) -> Result<String, String> {
        let said = self.folded(alias);
        let exact = self.tables.iter().find(|(known, _)| *known == said);
        let mut others = self.tables.iter();
        let found = exact.or_else(|| others.find(|(known, _)| self.is_called(known, alias)));
        let Some((alias, table)) = found else {
            return Err(format!("there is no table {} here", alias.value));
        };
        match self.called(table, column) {
            Some(column) => Ok(self.name(alias, column)),
            None => Err(format!("table {table} has no column {}", column.value)),
        }
    }

    /// Returns the table that the database would find by a name.
    pub(super) fn table(&self, name: &ObjectName) -> Option<&'a str> {
        if let [ObjectNamePart::Identifier(alone)] = name.0.as_slice() {
            let folded = self.names().table(&self.folded(alone));
            if folded.is_some() || self.is_exact(alone) {
                return folded;
            }
        }
        self.names()
            .table(&name.to_string().replace(['"', '`'], ""))
    }

    /// Returns whether the database takes a name for that of a table or an alias.
    pub(super) fn is_called(&self, known: &str, said: &Ident) -> bool {
        if self.is_exact(said) {
            return known == said.value;
        }
        self.names().is_called(known, &said.value)
    }

    /// The column as the table calls it.
    pub(super) fn called(&self, table: &str, column: &Ident) -> Option<&'a str> {
        let table = self.catalog.get(table)?;
        if self.of_edna {
            return self.names().column(table, &column.value);
        }
        column_written(self.dialect, self.names(), table, column)
    }

    const fn names(&self) -> CatalogNames<'a> {
        CatalogNames::new(self.dialect, self.catalog).of_edna(self.of_edna)
    }

    fn name(&self, alias: &str, column: &str) -> String {
        format!(
            "{}.{}",
            self.dialect.quote(alias),
            self.dialect.quote(column)
        )
    }

    fn folded(&self, name: &Ident) -> String {
        if self.of_edna {
            return name.value.clone();
        }
        folded(self.dialect, name)
    }

    fn is_exact(&self, name: &Ident) -> bool {
        !self.of_edna && is_exact(self.dialect, name)
    }
}

/// Returns the column of `table` that the database would find by a name as an expression has it. A
/// name without quotes that `PostgreSQL` would not find, since it folds it, is that of the column which
/// is written so.
pub(crate) fn column_written<'c>(
    dialect: Dialect,
    names: CatalogNames<'c>,
    table: &'c CatalogTable,
    name: &Ident,
) -> Option<&'c str> {
    let found = table.column(&folded(dialect, name));
    let found = found.map(|it| it.name.as_str());
    if is_exact(dialect, name) {
        return found;
    }
    found.or_else(|| names.column(table, &name.value))
}

/// Returns the name that the database looks for first.
fn folded(dialect: Dialect, name: &Ident) -> String {
    if dialect == Dialect::Postgres && name.quote_style.is_none() {
        name.value.to_ascii_lowercase()
    } else {
        name.value.clone()
    }
}

/// Returns whether no other name will do.
const fn is_exact(dialect: Dialect, name: &Ident) -> bool {
    matches!(dialect, Dialect::Postgres) && name.quote_style.is_some()
}
