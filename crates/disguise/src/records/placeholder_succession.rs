//! Placeholders whose person is back: hidden rows of others that name one are led on to that person.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::wire::Reader;

use crate::crypto::{KEY_BYTES, derive, random};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::installation::is_current;
use crate::records::succession::{
    CHANGES_MAX, DRAWN_BYTES, Fingerprint, NAME_BYTES, opened, replace, sealed,
};
use crate::records::tables::{SUCCESSIONS, bytes};
use crate::statements::deletion::delete_keys;
use crate::statements::table::select_keys;

/// Bytes that encryption adds.
const TAG_BYTES: usize = 16;
/// Bytes of a mark: as many as a row about a changed key has.
const MARK_BYTES: usize = DRAWN_BYTES + KEY_BYTES + TAG_BYTES;

/// The account that took the place of a placeholder, with the fingerprint of its key.
pub(crate) type Successor = (Fingerprint, Value);

/// Marks placeholders that hidden rows of others name, by the fingerprints of their keys: where one
/// goes, the way to its person is noted. The rest of a mark is drawn.
pub(crate) fn mark(
    database: &mut dyn TenantConnection,
    placeholders: &BTreeSet<Fingerprint>,
) -> Result<(), Error> {
    if placeholders.is_empty() {
        return Ok(());
    }
    let mut rows = BTreeMap::new();
    for it in placeholders {
        rows.insert(mark_name(it)?, random::<MARK_BYTES>()?.to_vec());
    }
    replace(database, rows)
}

/// Returns those of these placeholders that are marked; none where a program before has prepared
/// the database, which may lack the table.
fn marked(
    database: &mut dyn TenantConnection,
    placeholders: &BTreeSet<Fingerprint>,
) -> Result<BTreeSet<Fingerprint>, Error> {
    if placeholders.is_empty() || !is_current(database)? {
        return Ok(BTreeSet::new());
    }
    let mut names = BTreeMap::new();
    for it in placeholders {
        names.insert(mark_name(it)?.to_vec(), *it);
    }
    let keys: Vec<Vec<Value>> = names.keys().map(|name| vec![bytes(name)]).collect();
    let by = ["id".to_owned()];
    let found = select_keys(database, SUCCESSIONS, &by, &by, &keys)?;
    let found = found.iter().flatten();
    Ok(found
        .filter_map(|id| names.get(&id.principal()).copied())
        .collect())
}

/// Marks the new keys of marked placeholders.
pub(super) fn follow(
    database: &mut dyn TenantConnection,
    changed: &[(Fingerprint, Fingerprint)],
) -> Result<(), Error> {
    let former = changed.iter().map(|(former, _)| *former).collect();
    let marked = marked(database, &former)?;
    let new = changed.iter().filter(|(former, _)| marked.contains(former));
    mark(database, &new.map(|(_, new)| *new).collect())
}

/// Notes who took the place of placeholders that go and are marked, in the place of the mark. What
/// is noted opens with the fingerprint of the placeholder's key alone, as sealed records have it.
/// A placeholder that takes the place of another is marked itself.
pub(crate) fn put(
    database: &mut dyn TenantConnection,
    gone: &BTreeMap<Fingerprint, (Successor, bool)>,
) -> Result<(), Error> {
    let marked = marked(database, &gone.keys().copied().collect())?;
    let (mut rows, mut marks, mut over) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for former in marked {
        let Some(((key, id), is_placeholder)) = gone.get(&former) else {
            continue;
        };
        let mut content = key.to_vec();
        id.encode(&mut content);
        let (name, stored) = sealed(&former, content)?;
        rows.insert(name, stored);
        over.push(vec![bytes(&mark_name(&former)?)]);
        if *is_placeholder {
            marks.insert(*key);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    delete_keys(database, SUCCESSIONS, &["id".to_owned()], &over)?;
    replace(database, rows)?;
    mark(database, &marks)
}

/// Returns for each of these placeholders who took its place, the nearest first.
pub(crate) fn successors(
    database: &mut dyn TenantConnection,
    placeholders: &BTreeSet<Fingerprint>,
) -> Result<BTreeMap<Fingerprint, Vec<Successor>>, Error> {
    let mut found: BTreeMap<Fingerprint, Vec<Successor>> = BTreeMap::new();
    let mut at: BTreeMap<Fingerprint, Fingerprint> =
        placeholders.iter().map(|it| (*it, *it)).collect();
    for _ in 0..CHANGES_MAX {
        let contents = opened(database, at.values())?;
        at = at
            .into_iter()
            .filter_map(|(from, now)| {
                let content = contents.get(&now)?;
                let (key, id) = content.split_first_chunk::<KEY_BYTES>()?;
                if !id.is_empty() {
                    let id = Value::decode(&mut Reader::new(id, "successor")).ok()?;
                    found.entry(from).or_default().push((*key, id));
                }
                Some((from, *key))
            })
            .collect();
        if at.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Returns the name of the mark of a placeholder.
fn mark_name(placeholder: &Fingerprint) -> Result<[u8; NAME_BYTES], Error> {
    derive(placeholder, b"succession mark", b"")
}
