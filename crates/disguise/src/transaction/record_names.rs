//! The names of records, credentials and kept answers in entries, and their removal by these names,
//! which needs no key.

use std::collections::BTreeSet;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::credential;
use crate::records::deadline::{self, Record};
use crate::records::name::record;
use crate::records::tables::{BAGS, CREDENTIALS, LOCATORS, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::transaction::once;

/// The names in entries of what exists.
#[derive(Default)]
pub(crate) struct RecordNames {
    /// Those of records, credentials and kept answers.
    pub(crate) all: BTreeSet<String>,
    /// Those of records alone.
    pub(crate) records: BTreeSet<String>,
}

/// Returns the names in entries of the existing records and credentials.
pub(crate) fn record_names(
    database: &mut dyn TenantConnection,
    salt: &[u8],
) -> Result<RecordNames, Error> {
    let mut records = BTreeSet::new();
    for table in [LOCATORS, BAGS] {
        for id in all_ids(database, table)? {
            records.insert(record(salt, &id));
        }
    }
    let mut names = records.clone();
    for it in credentials(database)? {
        names.extend(it.called.iter().map(|name| record(salt, name)));
    }
    let answers = once::kept(database)?;
    names.extend(answers.iter().map(|(_, called)| record(salt, called)));
    Ok(RecordNames {
        all: names,
        records,
    })
}

/// Removes the records and credentials whose names `meant` chooses. Returns their number.
pub(crate) fn remove_records(
    database: &mut dyn TenantConnection,
    meant: impl Fn(&[u8]) -> bool,
) -> Result<u64, Error> {
    let mut removed: u64 = 0;
    for (table, kind) in [(LOCATORS, Record::Locator), (BAGS, Record::Part)] {
        let mut ids = all_ids(database, table)?;
        ids.retain(|id| meant(id));
        let ending: Vec<_> = ids.iter().map(|id| (kind, id.clone())).collect();
        deadline::remove(database, &ending)?;
        removed = removed.saturating_add(delete_ids(database, table, ids)?);
    }
    let mut answers = once::kept(database)?;
    answers.retain(|(_, called)| meant(called));
    once::empty(database, answers.into_iter().map(|(id, _)| id).collect())?;
    let mut gone = credentials(database)?;
    gone.retain(|it| it.called.iter().any(|name| meant(name)));
    let ids = gone.into_iter().map(|it| it.id).collect();
    Ok(removed.saturating_add(delete_ids(database, CREDENTIALS, ids)?))
}

/// A row of a password or a token, with its own name, and the name of all rows of its key.
struct Called {
    id: Vec<u8>,
    called: [Vec<u8>; 2],
}

fn credentials(database: &mut dyn TenantConnection) -> Result<Vec<Called>, Error> {
    let rows = database.query(&format!("SELECT id, holder FROM {CREDENTIALS}"), &[]);
    let called = |row: Vec<Value>| {
        // A row that was passed over would stay when it is to be destroyed.
        let row = <[Value; 2]>::try_from(row);
        let [id, holder] = row.map_err(|_row| Error::Forged)?;
        let (id, holder) = (id.principal(), holder.principal());
        let called = [credential::named(&id, &holder), holder];
        Ok(Called { id, called })
    };
    let rows = rows.map_err(uninstalled)?.into_iter();
    rows.map(called).collect()
}

fn all_ids(database: &mut dyn TenantConnection, table: &str) -> Result<Vec<Vec<u8>>, Error> {
    let rows = database.query(&format!("SELECT id FROM {table}"), &[]);
    let ids = rows.map_err(uninstalled)?.into_iter().flatten();
    Ok(ids.map(|id| id.principal()).collect())
}

fn delete_ids(
    database: &mut dyn TenantConnection,
    table: &str,
    ids: Vec<Vec<u8>>,
) -> Result<u64, Error> {
    let keys: Vec<Vec<Value>> = ids.into_iter().map(|id| vec![Value::Bytes(id)]).collect();
    delete_keys(database, table, &["id".to_owned()], &keys)
}
