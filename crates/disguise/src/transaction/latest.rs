//! The operations of a database that no other one came after. The next entry names them (`after`), so that the log tells
//! what was committed, and what was done in one life of the database from what was done in another one.

use std::collections::BTreeSet;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Database, DatabaseErrorKind};
use crate::error::Error;
use crate::records::settings::damaged;
use crate::records::tables::{LATEST, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;
use crate::transaction::operation::{self, ID_BYTES, OperationId};

/// The rows that may stand without being latest ones. Each removal is a write of its own.
const COVERED_MAX: usize = 32;

/// The latest operations of a database.
pub(super) enum Latest {
    /// Nobody keeps them: no log tells of operations, or a program before prepared the database.
    Unkept,
    /// They are not known: a program before did the last ones.
    Unknown,
    /// These; several did not wait for each other.
    Known(Vec<OperationId>),
}

/// Returns the latest operations, outside of any transaction.
///
/// Within a serialisable transaction the read would meet the insertion of every other operation that runs at the
/// same time, so that of two one would always be tried again.
///
/// # Errors
/// [`Error::Database`]; [`Error::DamagedRow`] for a row that cannot be what was stored.
pub(super) fn read(database: &mut dyn TenantConnection) -> Result<Latest, Error> {
    let rows = match database.query(&format!("SELECT id, after FROM {LATEST}"), &[]) {
        Err(error) if error.kind == DatabaseErrorKind::Absent => return Ok(Latest::Unkept),
        rows => rows.map_err(uninstalled)?,
    };
    let (mut all, mut covered) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let [Value::Bytes(id), Value::Bytes(after)] = row.as_slice() else {
            return Err(damaged("latest operations"));
        };
        let id =
            OperationId::try_from(id.as_slice()).map_err(|_length| damaged("latest operations"))?;
        let (after, []) = after.as_chunks::<ID_BYTES>() else {
            return Err(damaged("latest operations"));
        };
        all.insert(id);
        covered.extend(after.iter().copied());
    }
    if all.is_empty() && operation::has_logged(database)? {
        return Ok(Latest::Unknown);
    }
    let over: Vec<OperationId> = all.intersection(&covered).copied().collect();
    if over.len() > COVERED_MAX {
        remove(database, &over);
    }
    Ok(Latest::Known(all.difference(&covered).copied().collect()))
}

/// Removes rows that later ones name. Where it fails, the next operation does it.
fn remove(database: &mut dyn TenantConnection, over: &[OperationId]) {
    let keys: Vec<Vec<Value>> = over.iter().map(|id| vec![key(*id)]).collect();
    delete_keys(database, LATEST, &["id".to_owned()], &keys).unwrap_or_default();
}

/// Notes an operation, in its transaction, that came after these.
pub(super) fn put(
    database: &mut dyn TenantConnection,
    id: OperationId,
    after: &[OperationId],
) -> Result<(), Error> {
    let row = vec![key(id), Value::Bytes(after.concat())];
    insert_all(database, LATEST, &["id", "after"], &[row])
}

/// Forgets all: what is done from now on is done in another database.
pub(super) fn clear(database: &mut dyn Database) -> Result<(), Error> {
    let done = database.execute(&format!("DELETE FROM {LATEST}"), &[]);
    done.map(drop).map_err(uninstalled)
}

fn key(id: OperationId) -> Value {
    Value::Bytes(id.to_vec())
}
