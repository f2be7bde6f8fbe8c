//! Settings of a database: its salt, the description of the application, the list of updates.

use sha2::{Digest as _, Sha256};

use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::tables::{
    DECAYED, HOLDS, INTENTS, LOCATORS, PRINCIPALS, SCHEDULED, SETTINGS, bytes, uninstalled,
};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;

/// The setting that is the random salt of this database.
pub(crate) const SALT: &[u8] = b"salt";
/// The setting that lists the updates.
pub(crate) const UPDATES: &[u8] = b"updates";

/// Bytes of the salt.
pub(crate) const SALT_BYTES: usize = 16;
/// The bytes before and after all marks that tell a salt from another: they lie in a table of their
/// own, so that settings of another database are found out.
pub(crate) const SALT_MARKS: [&[u8]; 2] = [SALT_MARK, b"salt;"];
const SALT_MARK: &[u8] = b"salt:";

/// Returns the error for a setting that cannot be what was stored.
pub(crate) fn damaged(setting: &str) -> Error {
    Error::DamagedRow {
        table: SETTINGS,
        row: setting.to_owned(),
    }
}

/// Returns the mark of a salt.
fn salt_mark(salt: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise salt\0");
    hash.update(salt);
    let digest = hash.finalize();
    let digest = digest.iter().copied().take(SALT_BYTES);
    SALT_MARK.iter().copied().chain(digest).collect()
}

/// Refuses a salt that is not the one whose mark is there: under another one nobody's records, holds
/// and registrations are found.
pub(crate) fn refuse_other_salt(salt: &[u8], marks: &[Vec<u8>]) -> Result<(), Error> {
    let is_it = marks.is_empty() || marks.contains(&salt_mark(salt));
    if salt.len() == SALT_BYTES && is_it {
        return Ok(());
    }
    Err(damaged("salt"))
}

/// Returns the marks of salts, of which there is one; none in a database that a program before this
/// prepared.
pub(crate) fn salt_marks(database: &mut dyn Database) -> Result<Vec<Vec<u8>>, Error> {
    let sql = format!("SELECT mark FROM {DECAYED} WHERE mark > ? AND mark < ?");
    let rows = database.query(&sql, &SALT_MARKS.map(bytes));
    let marks = rows.map_err(uninstalled)?.into_iter().flatten();
    Ok(marks
        .filter_map(|mark| match mark {
            Value::Bytes(mark) => Some(mark),
            _ => None,
        })
        .collect())
}

/// Stores the mark of a salt.
pub(crate) fn put_salt_mark(database: &mut dyn TenantConnection, salt: &[u8]) -> Result<(), Error> {
    insert_all(
        database,
        DECAYED,
        &["mark"],
        &[vec![bytes(&salt_mark(salt))]],
    )
}

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
        Some(text) => String::from_utf8(text).map_err(|_bytes| damaged("description")),
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
