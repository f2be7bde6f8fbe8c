//! Counts of refused credentials for each person, under the person's name in the log.

use probity_format::Timestamp;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::tables::REFUSALS;
use crate::records::tables::{bytes, uninstalled};

/// The time without a refusal after which a count begins again.
const KEPT_NANOSECONDS: i64 = 90 * 86_400 * 1_000_000_000;

/// The operation named in database errors.
const DOING: &str = "counting a refusal";

/// Counts one more refusal for `name`. Returns their number.
pub(crate) fn count(
    database: &mut dyn TenantConnection,
    name: &str,
    time: Timestamp,
) -> Result<u64, Error> {
    let (id, time) = (bytes(name.as_bytes()), Value::Int(time.nanoseconds()));
    let sql = format!("UPDATE {REFUSALS} SET refused = refused + 1, latest = ? WHERE id = ?");
    let counted = database.execute(&sql, &[time.clone(), id.clone()]);
    if counted.map_err(uninstalled)? == 0 {
        let sql = format!("INSERT INTO {REFUSALS} (id, refused, latest) VALUES (?, 1, ?)");
        database.execute(&sql, &[id.clone(), time]).doing(DOING)?;
    }
    let sql = format!("SELECT refused FROM {REFUSALS} WHERE id = ?");
    let rows = database.query(&sql, &[id]).doing(DOING)?;
    match rows.into_iter().flatten().next() {
        Some(Value::Int(count)) => Ok(u64::try_from(count).unwrap_or_default()),
        _ => Err(Error::Forged),
    }
}

/// Removes the counts of all tenants that did not grow for long.
pub(crate) fn remove_over(
    database: &mut dyn TenantConnection,
    time: Timestamp,
) -> Result<(), Error> {
    let sql = format!("DELETE FROM {REFUSALS} WHERE latest < ?");
    let before = time.nanoseconds().saturating_sub(KEPT_NANOSECONDS);
    let removed = database.execute(&sql, &[Value::Int(before)]);
    removed.map_err(uninstalled).map(drop)
}
