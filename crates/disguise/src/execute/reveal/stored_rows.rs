//! Rows of a table as the database has them now, whoever owns them.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::row::{at, encoded};
use crate::statements::table::{select_keys, select_keys_of_all};

/// Returns the present values of rows, by identity.
pub(super) fn current(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    column: &str,
    rows: &[Modified],
) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
    let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
    let mut columns = table.identity.clone();
    columns.push(column.to_owned());
    let found = select_keys(database, &table.name, &columns, &table.identity, &keys)?;
    let mut current = BTreeMap::new();
    for mut row in found {
        if let Some(value) = row.pop() {
            current.insert(encoded(&row), value);
        }
    }
    Ok(current)
}

/// Returns which of the named rows exist.
pub(super) fn identities(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    keys: &[Vec<Value>],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let by = &table.identity;
    let rows = select_keys(database, &table.name, by, by, keys)?;
    Ok(rows.iter().map(|row| encoded(row)).collect())
}

/// Returns the named rows that exist as those of another tenant, if an identity is one row
/// whatever the tenant. Rows of this tenant were looked for before.
pub(super) fn moved_away(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    keys: &[Vec<Value>],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    if database.tenancy().of(&table.name).is_none() || table.is_keyed_by_tenant() {
        return Ok(BTreeSet::new());
    }
    let by = &table.identity;
    let rows = select_keys_of_all(database, &table.name, by, by, keys)?;
    Ok(rows.iter().map(|row| encoded(row)).collect())
}

/// Returns whether a removed row still belongs to the tenant: a migration may have given it to
/// another, or to nobody.
pub(super) fn is_of_tenant(
    database: &dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    row: &[Value],
) -> bool {
    let Some((column, tenant)) = database.tenancy().of(&table.name) else {
        return true;
    };
    at(columns, row, column).is_some_and(|it| it.principal() == tenant.principal())
}
