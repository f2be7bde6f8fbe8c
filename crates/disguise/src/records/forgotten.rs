//! Names of forgotten records, kept after the records are destroyed. If somebody puts old rows back
//! into the tables, they open nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::crypto::{KEY_BYTES, SecretKey};
use crate::database::tenant::TenantConnection;
use crate::error::Error;
use crate::records::credential;
use crate::records::name::{NAME_BYTES, digits, record_name, undigits};
use crate::records::stored::{Found, mailbox, part_id};
use crate::records::tables::FORGOTTEN;
use crate::records::tables::bytes;
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;

const COLUMNS: [&str; 2] = ["id", "mailbox"];
/// The mailbox of names whose locators lay in an unknown place; it is read with every other.
pub(crate) const ANY_MAILBOX: &[u8] = b"";

/// A name and the mailbox that it is looked for with.
pub(crate) type Forgotten = (Vec<u8>, Vec<u8>);

/// Returns the name of a bag, which its key fixes: it is that of its first part, and a bag stored
/// again has another.
pub(crate) fn bag_name(salt: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>, Error> {
    Ok(record_name(salt, &part_id(key, 0)?).to_vec())
}

/// Returns the name of a person's key. Only the key gives it, so it reveals nothing about the
/// owner.
pub(crate) fn key_name(salt: &[u8], key: &SecretKey) -> Result<Vec<u8>, Error> {
    Ok(record_name(salt, &credential::holder(key)?).to_vec())
}

/// Notes bags that were opened; none of their names is noted yet.
pub(crate) fn put_bags(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    found: &[&Found],
) -> Result<(), Error> {
    let mut names = BTreeMap::new();
    for it in found {
        names.insert(bag_name(salt, &it.locator.key)?, &it.mailbox);
    }
    let rows = names.iter();
    let rows = rows.map(|(name, mailbox)| vec![bytes(name), bytes(mailbox)]);
    insert_all(database, FORGOTTEN, &COLUMNS, &rows.collect::<Vec<_>>())
}

/// Returns the name of a person's key that opens nothing any more.
pub(crate) fn key(salt: &[u8], key: &SecretKey) -> Result<Forgotten, Error> {
    Ok((key_name(salt, key)?, mailbox(salt, &key.public()?, true)))
}

/// Returns the names of the rows of all passwords and tokens that wrap `key`.
pub(crate) fn credentials(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    key: &SecretKey,
) -> Result<Vec<Forgotten>, Error> {
    let rows = credential::names(database, key)?;
    rows.iter().map(|row| credential(salt, key, row)).collect()
}

/// Returns the name of a row of a password or token that wraps `key`.
pub(crate) fn credential(salt: &[u8], key: &SecretKey, row: &[u8]) -> Result<Forgotten, Error> {
    let name = record_name(salt, row).to_vec();
    Ok((name, mailbox(salt, &key.public()?, true)))
}

/// Returns the names in the form of an entry.
pub(crate) fn telling(names: &[Forgotten]) -> Vec<String> {
    names.iter().map(|(name, _)| digits(name)).collect()
}

/// Parses a name from an entry, which lacks the mailbox of the locator.
pub(crate) fn told(name: &str) -> Option<Forgotten> {
    let name = undigits::<NAME_BYTES>(name)?;
    Some((name.to_vec(), ANY_MAILBOX.to_vec()))
}

/// Notes names, of which some may be noted already.
pub(crate) fn put(database: &mut dyn TenantConnection, names: &[Forgotten]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    let new: Vec<&Forgotten> = names.iter().filter(|(name, _)| seen.insert(name)).collect();
    let keys: Vec<_> = new.iter().map(|(name, _)| vec![bytes(name)]).collect();
    let rows = new.iter();
    let rows = rows.map(|(name, mailbox)| vec![bytes(name), bytes(mailbox)]);
    let rows: Vec<_> = rows.collect();
    delete_keys(database, FORGOTTEN, &["id".to_owned()], &keys)?;
    insert_all(database, FORGOTTEN, &COLUMNS, &rows)
}
