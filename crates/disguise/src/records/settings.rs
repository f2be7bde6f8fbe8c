//! Settings of a database: its salt, the description of the application, the list of updates.

use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::tables::{
    HOLDS, INTENTS, LOCATORS, PRINCIPALS, SCHEDULED, SETTINGS, bytes, uninstalled,
};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;

/// The setting that is the random salt of this database.
pub(crate) const SALT: &[u8] = b"salt";
/// The setting that lists the updates.
pub(crate) const UPDATES: &[u8] = b"updates";

/// Stores the description of the application.
pub(crate) fn put_description(
    database: &mut dyn TenantConnection,
    text: &str,
) -> Result<(), Error> {
    put_setting(database, b"description", text.as_bytes())
}

/// Returns the description of the application that was stored last.
pub(crate) fn description(database: &mut dyn Database) -> Result<String, Error> {
    match setting(database, b"description")? {
        Some(text) => String::from_utf8(text).map_err(|_bytes| Error::Forged),
        None => Err(Error::NotInstalled),
    }
}

/// Returns the list of updates as it was stored last.
pub(crate) fn updates(database: &mut dyn TenantConnection) -> Result<Option<Vec<u8>>, Error> {
    setting(database, UPDATES)
}

/// Stores the list of updates.
pub(crate) fn put_updates(database: &mut dyn TenantConnection, text: &[u8]) -> Result<(), Error> {
    put_setting(database, UPDATES, text)
}

pub(crate) fn put_setting(
    database: &mut dyn TenantConnection,
    name: &[u8],
    value: &[u8],
) -> Result<(), Error> {
    let by = ["name".to_owned()];
    delete_keys(database, SETTINGS, &by, &[vec![bytes(name)]])?;
    insert_all(
        database,
        SETTINGS,
        &["name", "value"],
        &[vec![bytes(name), bytes(value)]],
    )
}

pub(crate) fn setting(database: &mut dyn Database, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let sql = format!("SELECT value FROM {SETTINGS} WHERE name = ?");
    let rows = database.query(&sql, &[bytes(name)]).map_err(uninstalled)?;
    Ok(match rows.into_iter().flatten().next() {
        Some(Value::Bytes(value)) => Some(value),
        _ => None,
    })
}

/// Returns the random salt of this database.
pub(crate) fn own_salt(database: &mut dyn Database) -> Result<Vec<u8>, Error> {
    setting(database, SALT)?.ok_or(Error::NotInstalled)
}

/// Returns the salt of the current tenant's records, or of this database if there are no tenants.
pub(crate) fn salt(database: &mut dyn TenantConnection) -> Result<Vec<u8>, Error> {
    let salt = own_salt(database)?;
    Ok(database.tenancy().salt(salt))
}

/// Returns whether anybody is registered or anything is hidden.
pub(crate) fn is_in_use(database: &mut dyn TenantConnection) -> Result<bool, Error> {
    for table in [PRINCIPALS, LOCATORS, SCHEDULED, INTENTS, HOLDS] {
        let rows = database.query(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]);
        if !rows.map_err(uninstalled)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
