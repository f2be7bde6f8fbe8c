//! Removed shared rows: their names, and the versions of their copies.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::name::digits;
use crate::records::tables::{SHARED, bytes};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};

/// Returns the name of a shared row while it is removed.
pub(crate) fn slot(salt: &[u8], table: &str, identity: &[Value]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise slot\0");
    hash.update(salt);
    let mut framed = Vec::new();
    Value::from(table).encode(&mut framed);
    for value in identity {
        value.encode(&mut framed);
    }
    hash.update(&framed);
    hash.finalize().iter().copied().take(16).collect()
}

/// Notes that shared rows are removed, each under its slot and the version of its copies.
pub(crate) fn put_slots(
    database: &mut dyn TenantConnection,
    slots: &[(Vec<u8>, u64)],
) -> Result<(), Error> {
    let names: Vec<Vec<u8>> = slots.iter().map(|(slot, _)| slot.clone()).collect();
    remove_slots(database, &names)?;
    let rows: Vec<Vec<Value>> = slots
        .iter()
        .map(|(slot, version)| vec![bytes(slot), bytes(&version.to_le_bytes())])
        .collect();
    insert_all(database, SHARED, &["slot", "version"], &rows)
}

/// Returns the versions of those among `slots` whose rows are removed.
pub(crate) fn slots(
    database: &mut dyn TenantConnection,
    slots: &[Vec<u8>],
) -> Result<BTreeMap<Vec<u8>, u64>, Error> {
    let keys: Vec<Vec<Value>> = slots.iter().map(|slot| vec![bytes(slot)]).collect();
    slots_by(database, "slot", &keys)
}

fn slots_by(
    database: &mut dyn TenantConnection,
    by: &str,
    keys: &[Vec<Value>],
) -> Result<BTreeMap<Vec<u8>, u64>, Error> {
    let (columns, by) = (["slot", "version"].map(str::to_owned), [by.to_owned()]);
    let mut out = BTreeMap::new();
    for row in select_keys(database, SHARED, &columns, &by, keys)? {
        if let [Value::Bytes(slot), Value::Bytes(version)] = row.as_slice() {
            let version = <[u8; 8]>::try_from(version.as_slice());
            let version = version.map_err(|_length| Error::DamagedRow {
                table: SHARED,
                row: digits(slot),
            })?;
            out.insert(slot.clone(), u64::from_le_bytes(version));
        }
    }
    Ok(out)
}

/// Returns the slots of those among `versions` whose rows are removed.
pub(crate) fn slots_of(
    database: &mut dyn TenantConnection,
    versions: &[u64],
) -> Result<BTreeMap<Vec<u8>, u64>, Error> {
    let keys: Vec<Vec<Value>> = versions
        .iter()
        .map(|version| vec![bytes(&version.to_le_bytes())])
        .collect();
    slots_by(database, "version", &keys)
}

/// Voids the copies of rows that are back.
pub(crate) fn remove_slots(
    database: &mut dyn TenantConnection,
    slots: &[Vec<u8>],
) -> Result<(), Error> {
    let keys: Vec<Vec<Value>> = slots.iter().map(|slot| vec![bytes(slot)]).collect();
    delete_keys(database, SHARED, &["slot".to_owned()], &keys)?;
    Ok(())
}
