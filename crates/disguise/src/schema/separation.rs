//! Checks that a description keeps the tenants of a database apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::{CatalogTable, Column};
use crate::error::SpecError;
use crate::schema::{ResolvedSchema, ResolvedTable, Schema};

impl Schema {
    /// Returns the column of `table` that names the tenant of a row.
    pub(crate) fn tenant_column(&self, name: &str, table: &CatalogTable) -> Option<String> {
        let notes = self.notes.get(name);
        let said = notes.and_then(|notes| notes.tenant.clone());
        let shared = notes.is_some_and(|notes| notes.shared);
        let usual = self.tenant.as_ref().filter(|_| !shared);
        said.or_else(|| {
            usual
                .filter(|column| table.column(column).is_some())
                .cloned()
        })
    }
}

impl ResolvedSchema {
    /// Returns the tenant column of every table that has one.
    pub(crate) fn tenant_columns(&self) -> BTreeMap<String, String> {
        let tables = self.tables.values();
        tables
            .filter_map(|table| Some((table.name.clone(), table.tenant.clone()?)))
            .collect()
    }

    /// Returns the tables that are declared to be shared by all tenants.
    pub(crate) fn shared_tables(&self) -> BTreeSet<String> {
        let shared = self.tables.values().filter(|table| table.shared);
        shared.map(|table| table.name.clone()).collect()
    }

    /// Refuses tables whose rows belong to people and to no tenant, and other declarations that
    /// would mix tenants up.
    pub(crate) fn check_tenants(&self) -> Result<(), SpecError> {
        let Some(users) = self.table(&self.pseudo.table) else {
            return Ok(());
        };
        let Some(of_users) = &users.tenant else {
            let what = "has no tenant column, and people are those of a tenant";
            return Err(SpecError::new(format!("table {}", users.name), what));
        };
        if self.pseudo.columns.iter().any(|(name, _)| name == of_users) {
            let what = format!("fills column {of_users}, which holds the tenant");
            return Err(SpecError::new("the pseudoprincipal generator", what));
        }
        for table in self.tables.values() {
            self.check_tenant(table, users.catalog.column(of_users))
                .map_err(|what| SpecError::new(format!("table {}", table.name), what))?;
        }
        Ok(())
    }

    fn check_tenant(&self, table: &ResolvedTable, of_users: Option<&Column>) -> Result<(), String> {
        let Some(column) = &table.tenant else {
            if table.people().next().is_some() || table.path.is_some() {
                return Err(
                    "has rows that belong to people and no tenant column; name it under tenant, or say shared = true"
                        .to_owned(),
                );
            }
            return Ok(());
        };
        if table.people().any(|it| it == column) {
            return Err(format!(
                "column {column} holds the tenant, so it names no person"
            ));
        }
        let is_integer = |column: Option<&Column>| column.is_some_and(Column::is_integer);
        if is_integer(table.catalog.column(column)) != is_integer(of_users) {
            return Err(format!(
                "column {column} holds other values than the tenant column of {}",
                self.pseudo.table
            ));
        }
        let steps = table.path.iter().flat_map(|path| &path.steps);
        let to = table.references.iter().chain(steps).map(|it| &it.to_table);
        for to in to {
            let known = self.table(to);
            if known.is_some_and(|it| it.tenant.is_none() && !it.shared) {
                return Err(format!(
                    "refers to {to}, which has no tenant column; name it under tenant, or say shared = true"
                ));
            }
        }
        Ok(())
    }

    /// Returns the declared foreign keys by which a row of one tenant could refer to a row of
    /// another.
    pub(crate) fn cross_tenant_keys(&self) -> Vec<String> {
        let mut cross_tenant_keys = Vec::new();
        for table in self.tables.values() {
            for key in &table.catalog.foreign_keys {
                let to = self.table(&key.to_table).and_then(|it| it.tenant.as_ref());
                let (Some(from), Some(to)) = (&table.tenant, to) else {
                    continue;
                };
                let mut pairs = key.columns.iter().zip(&key.to_columns);
                if !pairs.any(|pair| pair == (from, to)) {
                    cross_tenant_keys.push(format!(
                        "foreign key {}({}) refers to {} without the tenant, so that a row of one tenant could refer to a row of another",
                        table.name,
                        key.columns.join(", "),
                        key.to_table
                    ));
                }
            }
        }
        cross_tenant_keys
    }
}
