//! The registered principals: their public keys, and whether they are people.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::crypto::suite::PublicKey;
use crate::database::placeholders;
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::name::digits;
use crate::records::section::PrincipalKind;
use crate::records::tables::{LOCATORS, PRINCIPALS, bytes, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, lists, select_keys};

/// A principal, its public key and its standing.
pub(crate) struct KeyedPrincipal {
    pub(crate) name: Vec<u8>,
    pub(crate) public: PublicKey,
    pub(crate) standing: PrincipalKind,
}

/// Principal to public key and standing.
pub(crate) type Registered = BTreeMap<Vec<u8>, (PublicKey, PrincipalKind)>;

/// The longest id of a user that is stored as it is.
const ID_BYTES_MAX: usize = 15;
/// Bytes of the hash that replaces a longer id, so that no index grows with the ids; no shorter id
/// has this length.
pub(crate) const ID_HASH_BYTES: usize = 16;

/// Returns the name of a principal in the engine's tables. With tenants it is always a hash of the
/// tenant and the id.
pub(crate) fn named(tenancy: &TenantScope, id: &[u8]) -> Value {
    if id.len() <= ID_BYTES_MAX && tenancy.tag().is_empty() {
        return bytes(id);
    }
    let mut hash = Sha256::new();
    hash.update(b"probity disguise principal\0");
    hash.update(tenancy.tag());
    hash.update(id);
    Value::Bytes(
        hash.finalize()
            .iter()
            .copied()
            .take(ID_HASH_BYTES)
            .collect(),
    )
}

/// Returns whether anybody but `user` is registered, or has records, of whatever tenant.
pub(crate) fn has_others(
    database: &mut dyn TenantConnection,
    user: Option<&Value>,
) -> Result<bool, Error> {
    let own = user.map(|user| named(database.tenancy(), &user.principal()));
    let own = own.map(|it| it.principal());
    for table in [PRINCIPALS, LOCATORS] {
        let rows = database.query(&format!("SELECT id FROM {table} LIMIT 2"), &[]);
        let mut ids = rows.map_err(uninstalled)?.into_iter().flatten();
        if ids.any(|id| Some(id.principal()) != own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the public keys and standing of those among `ids` that are registered.
pub(crate) fn principals(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<Registered, Error> {
    let mut meant: BTreeMap<Vec<u8>, &[u8]> = BTreeMap::new();
    let mut keys: Vec<Vec<Value>> = Vec::with_capacity(ids.len());
    for id in ids {
        let name = named(database.tenancy(), id);
        if meant.insert(name.principal(), id).is_none() {
            keys.push(vec![name]);
        }
    }
    let columns = ["id", "public_key", "standing"].map(str::to_owned);
    let mut out = BTreeMap::new();
    for row in select_keys(database, PRINCIPALS, &columns, &["id".to_owned()], &keys)? {
        if let [Value::Bytes(name), Value::Bytes(public), Value::Int(code)] = row.as_slice()
            && let Some(id) = meant.get(name)
        {
            let registration = registration(public, *code).map_err(damaged(&digits(name)))?;
            out.insert(id.to_vec(), registration);
        }
    }
    Ok(out)
}

/// Names the row of a registration that is damaged. A suite that this program does not know is none.
pub(crate) fn damaged(row: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::Forged => Error::DamagedRow {
            table: PRINCIPALS,
            row: row.to_owned(),
        },
        other => other,
    }
}

/// Parses a public key and a standing as they are stored.
pub(crate) fn registration(public: &[u8], code: i64) -> Result<(PublicKey, PrincipalKind), Error> {
    let standing = PrincipalKind::from_code(code).ok_or(Error::Forged)?;
    Ok((PublicKey::decode(public)?, standing))
}

/// Registers principals.
pub(crate) fn register(
    database: &mut dyn TenantConnection,
    principals: &[KeyedPrincipal],
) -> Result<(), Error> {
    let rows: Vec<Vec<Value>> = principals
        .iter()
        .map(|it| {
            let code = Value::Int(i64::from(it.standing.code()));
            vec![
                named(database.tenancy(), &it.name),
                Value::Bytes(it.public.encode()),
                code,
            ]
        })
        .collect();
    insert_all(
        database,
        PRINCIPALS,
        &["id", "public_key", "standing"],
        &rows,
    )
}

/// Gives registered principals new public keys; others stay unregistered. A registration under the
/// id of a placeholder with another key than that of `former` is left as it is.
pub(crate) fn change_keys(
    database: &mut dyn TenantConnection,
    keys: &BTreeMap<Vec<u8>, PublicKey>,
    former: &BTreeMap<Vec<u8>, PublicKey>,
) -> Result<(), Error> {
    let names: Vec<Vec<u8>> = keys.keys().cloned().collect();
    let registered = principals(database, &names)?;
    let changed = keys.iter().filter_map(|(name, public)| {
        let (known, standing) = registered.get(name)?;
        if former.get(name).is_some_and(|former| former != known) {
            return None;
        }
        Some(KeyedPrincipal {
            name: name.clone(),
            public: public.clone(),
            standing: *standing,
        })
    });
    register_anew(database, &registered, changed.collect())
}

/// Notes that the people of placeholders, who had left, are back.
pub(crate) fn return_departed(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<(), Error> {
    let [standing, left] =
        [PrincipalKind::Placeholder, PrincipalKind::Departed].map(|it| i64::from(it.code()));
    let keys = ids.iter().map(|id| named(database.tenancy(), id));
    let keys: Vec<Value> = keys.collect();
    for list in lists(&keys, 1) {
        let marks = placeholders(list.len());
        let sql = format!(
            "UPDATE {PRINCIPALS} SET standing = {standing} WHERE standing = {left} AND id IN ({marks})"
        );
        database.execute(&sql, &list).doing("noting who returned")?;
    }
    Ok(())
}

/// Registers principals for which `known`, the registrations so far, has another key or none.
pub(crate) fn register_anew(
    database: &mut dyn TenantConnection,
    known: &Registered,
    mut principals: Vec<KeyedPrincipal>,
) -> Result<(), Error> {
    let public = |name: &[u8]| known.get(name).map(|(public, _)| public);
    principals.retain(|it| public(&it.name) != Some(&it.public));
    let names = principals.iter().map(|it| it.name.clone());
    let changed: Vec<Vec<u8>> = names.filter(|name| known.contains_key(name)).collect();
    unregister(database, &changed)?;
    register(database, &principals)
}

/// Removes registrations.
pub(crate) fn unregister(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<(), Error> {
    let keys = ids.iter().map(|id| vec![named(database.tenancy(), id)]);
    let keys: Vec<Vec<Value>> = keys.collect();
    delete_keys(database, PRINCIPALS, &["id".to_owned()], &keys)?;
    Ok(())
}

/// Removes a registration by its stored name.
pub(crate) fn unregister_named(
    database: &mut dyn TenantConnection,
    name: Vec<u8>,
) -> Result<(), Error> {
    let key = [vec![Value::Bytes(name)]];
    delete_keys(database, PRINCIPALS, &["id".to_owned()], &key)?;
    Ok(())
}
