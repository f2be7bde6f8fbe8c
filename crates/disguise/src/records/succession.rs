//! Keys that took the place of others: whom a record knows by an older key is still found by it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::crypto::suite::PublicKey;
use crate::crypto::{KEY_BYTES, derive, derive_salted, open_alone, random, seal_alone};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::placeholder_succession;
use crate::records::tables::{SUCCESSIONS, bytes, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};

/// Bytes of the name of a replaced key.
pub(super) const NAME_BYTES: usize = 16;
/// Bytes drawn for each row.
pub(super) const DRAWN_BYTES: usize = 16;
/// The most changes of a key that are followed. Whoever changed the key more often since a row went
/// counts as away there.
pub(super) const CHANGES_MAX: usize = 4_096;

/// A salted hash of a public key: by it a record knows whom its rows name.
pub(crate) type Fingerprint = [u8; KEY_BYTES];

/// Returns the fingerprint of a key.
pub(crate) fn fingerprint(salt: &[u8], public: &PublicKey) -> Fingerprint {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise fingerprint\0");
    hash.update(salt);
    hash.update(public.encode());
    hash.finalize().into()
}

/// Notes that each key of a pair took the place of the other, its former one. A row is found and
/// opened with the fingerprint of the former key alone, which is stored nowhere but in sealed
/// records: the table does not tell which placeholders changed their keys together.
pub(crate) fn put<'k>(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    changed: impl Iterator<Item = (&'k PublicKey, &'k PublicKey)>,
) -> Result<(), Error> {
    let mut rows = BTreeMap::new();
    let mut pairs = Vec::new();
    for (former, new) in changed {
        let (former, new) = (fingerprint(salt, former), fingerprint(salt, new));
        let (name, stored) = sealed(&former, new.to_vec())?;
        rows.insert(name, stored);
        pairs.push((former, new));
    }
    // A database that a program before prepared lacks the table, and says so.
    let sql = format!("SELECT COUNT(*) FROM {SUCCESSIONS} WHERE id = ?");
    database
        .query(&sql, &[bytes(&[0; NAME_BYTES])])
        .map_err(uninstalled)?;
    replace(database, rows)?;
    placeholder_succession::follow(database, &pairs)
}

/// Returns the name of the row about a former key, and its content under that key.
pub(super) fn sealed(
    former: &Fingerprint,
    mut content: Vec<u8>,
) -> Result<([u8; NAME_BYTES], Vec<u8>), Error> {
    let name = name(former)?;
    let drawn: [u8; DRAWN_BYTES] = random()?;
    let key = key(&drawn, former)?;
    seal_alone(&key, &name, &mut content)?;
    Ok((name, [drawn.as_slice(), &content].concat()))
}

/// Stores rows in the place of those that have their names: after a backup was restored a key may
/// be replaced once more.
pub(super) fn replace(
    database: &mut dyn TenantConnection,
    rows: BTreeMap<[u8; NAME_BYTES], Vec<u8>>,
) -> Result<(), Error> {
    let keys: Vec<Vec<Value>> = rows.keys().map(|name| vec![bytes(name)]).collect();
    delete_keys(database, SUCCESSIONS, &["id".to_owned()], &keys)?;
    let rows = rows.into_iter();
    let rows = rows.map(|(name, sealed)| vec![bytes(&name), Value::Bytes(sealed)]);
    insert_all(
        database,
        SUCCESSIONS,
        &["id", "sealed"],
        &rows.collect::<Vec<_>>(),
    )
}

/// Returns for each pair of keys whether the first is the second, or the second took its place, at
/// once or after others.
pub(crate) fn lead(
    database: &mut dyn TenantConnection,
    pairs: &[(Fingerprint, Fingerprint)],
) -> Result<Vec<bool>, Error> {
    let mut at: Vec<Option<Fingerprint>> = pairs.iter().map(|(from, _)| Some(*from)).collect();
    for _ in 0..CHANGES_MAX {
        let mut left = BTreeMap::new();
        for (now, (_, to)) in at.iter().zip(pairs) {
            if let Some(now) = now.filter(|now| now != to) {
                left.insert(now, None);
            }
        }
        if left.is_empty() {
            break;
        }
        successors(database, &mut left)?;
        for (now, (_, to)) in at.iter_mut().zip(pairs) {
            if let Some(it) = now.filter(|it| it != to) {
                *now = left.get(&it).copied().flatten();
            }
        }
    }
    let all = at.into_iter().zip(pairs);
    Ok(all.map(|(now, (_, to))| now == Some(*to)).collect())
}

/// Finds for each of these keys the one that took its place, if one did. A row that does not open,
/// or leads from a placeholder to its person, leads nowhere: it concerns one former key, whose rows
/// count as those of somebody away.
fn successors(
    database: &mut dyn TenantConnection,
    of: &mut BTreeMap<Fingerprint, Option<Fingerprint>>,
) -> Result<(), Error> {
    for (former, content) in opened(database, of.keys())? {
        of.insert(former, Fingerprint::try_from(content).ok());
    }
    Ok(())
}

/// Returns what the rows about these former keys hold, as far as there are any that open.
pub(super) fn opened<'f>(
    database: &mut dyn TenantConnection,
    of: impl Iterator<Item = &'f Fingerprint>,
) -> Result<BTreeMap<Fingerprint, Vec<u8>>, Error> {
    let mut names = BTreeMap::new();
    for former in of {
        names.insert(name(former)?.to_vec(), *former);
    }
    let keys: Vec<Vec<Value>> = names.keys().map(|name| vec![bytes(name)]).collect();
    let columns = ["id", "sealed"].map(str::to_owned);
    let mut opened = BTreeMap::new();
    for row in select_keys(database, SUCCESSIONS, &columns, &["id".to_owned()], &keys)? {
        let Ok([Value::Bytes(id), Value::Bytes(stored)]) = <[Value; 2]>::try_from(row) else {
            return Err(Error::Forged);
        };
        let former = names.get(&id).ok_or(Error::Forged)?;
        let Some((drawn, sealed)) = stored.split_at_checked(DRAWN_BYTES) else {
            continue;
        };
        let mut content = sealed.to_vec();
        let key = key(drawn, former)?;
        if open_alone(&key, &id, &mut content).is_ok() {
            opened.insert(*former, content);
        }
    }
    Ok(opened)
}

/// Returns the name of a replaced key.
fn name(former: &Fingerprint) -> Result<[u8; NAME_BYTES], Error> {
    derive(former, b"succession name", b"")
}

/// Returns the key under which the next one is sealed; it is another in each row.
fn key(drawn: &[u8], former: &Fingerprint) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
    derive_salted(drawn, former, b"succession key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SecretKey;
    use crate::database::tenant::{TenantScope, TenantScoped};
    use crate::database::{Database as _, Sqlite, Vocabulary};
    use crate::records::installation;

    const SALT: &[u8] = b"of this database";

    fn database() -> TenantScoped<Sqlite> {
        let mut database = TenantScoped {
            database: Sqlite::open(std::path::Path::new(":memory:")).unwrap(),
            tenancy: TenantScope::none(),
            vocabulary: Vocabulary::default(),
            refusal: None,
            shapes: crate::database::shape::Shapes::default(),
        };
        installation::create(&mut database).unwrap();
        database
    }

    fn keys(count: usize) -> Vec<PublicKey> {
        let made = |_| SecretKey::generate().unwrap().public().unwrap();
        (0..count).map(made).collect()
    }

    fn change(database: &mut TenantScoped<Sqlite>, keys: &[PublicKey]) {
        put(database, SALT, keys.iter().zip(keys.iter().skip(1))).unwrap();
    }

    fn leads(database: &mut TenantScoped<Sqlite>, from: &PublicKey, to: &PublicKey) -> bool {
        let pair = (fingerprint(SALT, from), fingerprint(SALT, to));
        lead(database, &[pair]).unwrap() == [true]
    }

    #[test]
    fn a_key_leads_to_those_that_took_its_place_and_to_no_other() {
        let mut database = database();
        let (one, other) = (keys(4), keys(2));
        change(&mut database, &one);
        change(&mut database, &other);
        for (from, of) in one.iter().enumerate() {
            for (to, then) in one.iter().enumerate() {
                assert_eq!(leads(&mut database, of, then), from <= to, "{from} {to}");
            }
            assert!(!leads(&mut database, of, &other[1]));
            assert!(!leads(&mut database, &other[0], of));
        }
        // After a backup was restored the person changes the key once more.
        let again = [one[0].clone(), keys(1).remove(0)];
        change(&mut database, &again);
        assert!(leads(&mut database, &one[0], &again[1]));
        assert!(!leads(&mut database, &one[0], &one[3]));
    }

    #[test]
    fn changes_are_followed_as_far_as_the_bound() {
        let mut database = database();
        let keys = keys(CHANGES_MAX + 2);
        change(&mut database, &keys);
        let last = keys.len() - 1;
        assert!(leads(&mut database, &keys[1], &keys[last]));
        assert!(!leads(&mut database, &keys[0], &keys[last]));
        // Keys that lead in a circle, as somebody who knows them may write them, end as well.
        let circle = [keys[last].clone(), keys[0].clone()];
        change(&mut database, &circle);
        assert!(!leads(&mut database, &keys[0], &PublicKey::X25519([0; 32])));
    }

    #[test]
    fn a_row_is_found_and_opened_by_the_former_key_alone() {
        let mut database = database();
        let keys = keys(3);
        change(&mut database, &keys[..2]);
        let rows = format!("SELECT id, sealed FROM {SUCCESSIONS}");
        let stored = database.query(&rows, &[]).unwrap().concat();
        let [id, sealed] = [0, 1].map(|at| match &stored[at] {
            Value::Bytes(bytes) => bytes.as_slice(),
            other => panic!("{other:?}"),
        });
        // Whoever has the database and its salt has all present keys.
        for present in [&keys[1], &keys[2]] {
            let present = fingerprint(SALT, present);
            assert_ne!(id, name(&present).unwrap());
            assert!(!sealed.windows(8).any(|it| *it == present[..8]));
            let mut content = sealed[DRAWN_BYTES..].to_vec();
            let key = key(&sealed[..DRAWN_BYTES], &present).unwrap();
            assert!(open_alone(&key, id, &mut content).is_err());
        }
        // A row under the name of another key leads nowhere.
        let moved = bytes(&name(&fingerprint(SALT, &keys[2])).unwrap());
        let sql = format!("UPDATE {SUCCESSIONS} SET id = ?");
        database.execute(&sql, &[moved]).unwrap();
        let pair = (fingerprint(SALT, &keys[2]), fingerprint(SALT, &keys[1]));
        assert_eq!(lead(&mut database, &[pair]).unwrap(), [false]);
    }
}
