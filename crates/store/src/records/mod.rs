//! The records of keys and their deadlines: found by a hash of the key's name, sealed for its owner.

mod unread;

use std::cell::Cell;

use redb::{ReadableTable as _, ReadableTableMetadata as _, WriteTransaction};

use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::owners::{Erasures, Owners};
use crate::record::{Record, Value, number};
use crate::siphash::siphash;
use crate::slots::{Slots, keys_of};
use crate::subject::Slot;
use crate::table::{BytesTable, Definition, ID_BYTES, LazyTable};

/// The keys of each database: hash and key, to the key's record.
const KEYS: [Definition; DATABASES] = [
    Definition::new("keys.0"),
    Definition::new("keys.1"),
    Definition::new("keys.2"),
    Definition::new("keys.3"),
    Definition::new("keys.4"),
    Definition::new("keys.5"),
    Definition::new("keys.6"),
    Definition::new("keys.7"),
    Definition::new("keys.8"),
    Definition::new("keys.9"),
    Definition::new("keys.10"),
    Definition::new("keys.11"),
    Definition::new("keys.12"),
    Definition::new("keys.13"),
    Definition::new("keys.14"),
    Definition::new("keys.15"),
];
/// The keys that expire of each database: deadline and key.
const DEADLINES: [Definition; DATABASES] = [
    Definition::new("deadlines.0"),
    Definition::new("deadlines.1"),
    Definition::new("deadlines.2"),
    Definition::new("deadlines.3"),
    Definition::new("deadlines.4"),
    Definition::new("deadlines.5"),
    Definition::new("deadlines.6"),
    Definition::new("deadlines.7"),
    Definition::new("deadlines.8"),
    Definition::new("deadlines.9"),
    Definition::new("deadlines.10"),
    Definition::new("deadlines.11"),
    Definition::new("deadlines.12"),
    Definition::new("deadlines.13"),
    Definition::new("deadlines.14"),
    Definition::new("deadlines.15"),
];
/// The tables that only [`Records`] opens.
pub(crate) const DEFINITIONS: [[Definition; DATABASES]; 2] = [KEYS, DEADLINES];

/// Before the name of a key about nobody.
const PLAIN: u8 = 0;
/// Before the slot and the sealed name of a subject's key.
const OWNED: u8 = 1;
/// The names of keys are sealed for no value.
const NO_ID: u64 = 0;

/// Returns the slot of the subject of a key in a row of a table of keys; none for nobody.
pub(crate) fn slot_in(row: &[u8]) -> Option<Slot> {
    let name = row.get(ID_BYTES..)?.strip_prefix(&[OWNED])?;
    name.first_chunk()
        .map(|slot| Slot(u64::from_be_bytes(*slot)))
}

/// The owner of a key, and its row.
type OwnedRow = (Slot, Vec<u8>);
/// The owner and the row of a key that does not open, and the reason.
type Closed = (Slot, Vec<u8>, String);

/// The records of the keys of every database within one transaction.
pub(crate) struct Records<'txn> {
    /// The keys of subjects; none in a file of an older format, which knows no subjects.
    slots: Option<&'txn Slots>,
    /// Under which keys are placed.
    secret: [u64; 2],
    keys: [LazyTable<'txn>; DATABASES],
    deadlines: [LazyTable<'txn>; DATABASES],
    owners: Owners<'txn>,
    is_removing: &'txn Cell<bool>,
    /// Number of writes.
    changes: u64,
}

/// A key of a database and its record.
pub(crate) struct KeyRow {
    pub(crate) owner: Slot,
    hash: u64,
    key: Vec<u8>,
    record: Vec<u8>,
}

impl KeyRow {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn record(&self) -> Result<Record, Fail> {
        Record::decode(&self.record, self.owner)
    }
}

/// A key that does not open, and has no record that could be read.
pub(crate) struct Unread {
    pub(crate) owner: Slot,
    /// The key's name, where that opens.
    pub(crate) name: Option<Vec<u8>>,
    /// The reason.
    pub(crate) what: String,
}

/// A row of a table of keys.
pub(crate) enum Found {
    Key(KeyRow),
    Damaged(Unread),
}

/// The name in a row of a table of keys or of deadlines.
enum Name {
    Opened(Slot, Vec<u8>),
    /// Its subject was erased.
    Erased,
    Damaged(Slot, String),
}

impl<'txn> Records<'txn> {
    pub(crate) fn new(
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
        secret: [u64; 2],
        erasures: &'txn mut Erasures,
        is_removing: &'txn Cell<bool>,
    ) -> Self {
        let lazy = |definition| LazyTable::new(transaction, definition);
        Self {
            slots,
            secret,
            keys: KEYS.map(lazy),
            deadlines: DEADLINES.map(lazy),
            owners: Owners::new(transaction, slots, erasures),
            is_removing,
            changes: 0,
        }
    }

    /// Returns how often something was written.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes + self.owners.changes()
    }

    /// The record of a key, whether or not it has expired.
    pub(crate) fn read(&self, db: usize, key: &[u8]) -> Result<Option<Record>, Fail> {
        let table = self.keys(db)?;
        let plain = self.key_row(Slot::NOBODY, key)?;
        if let Some(value) = table.get(plain.as_slice())? {
            return Record::decode(value.value(), Slot::NOBODY).map(Some);
        }
        let Some((owner, name)) = self.owned_row(db, key)? else {
            return Ok(None);
        };
        let Some((value, keys)) = table.get(name.as_slice())?.zip(keys_of(self.slots, owner)?)
        else {
            return Ok(None);
        };
        let value = keys.open_value(NO_ID, value.value())?;
        Record::decode(&value, owner).map(Some)
    }

    /// Refuses a key that is damaged, or would be sealed for a subject whose own key is. A command
    /// that changes several keys asks before it changes the first.
    pub(crate) fn check(&self, db: usize, key: &[u8]) -> Result<(), Fail> {
        self.owner_there(db, key)?;
        self.owners.check_new(key)
    }

    /// Returns how many subjects have keys that were met damaged, and how many keys of the store
    /// those subjects have.
    pub(crate) fn damaged(&self) -> Result<(usize, u64), Fail> {
        self.owners.damaged()
    }

    /// Returns the owner of an existing key, or of one that will be created.
    pub(crate) fn owner_for(&mut self, db: usize, key: &[u8]) -> Result<Slot, Fail> {
        match self.owner_there(db, key)? {
            Some(owner) => Ok(owner),
            None => self.owners.of_new(key),
        }
    }

    /// Returns the slot of a subject that `source`, another file, knows as `owner`.
    pub(crate) fn slot_of(&mut self, source: &Records<'_>, owner: Slot) -> Result<Slot, Fail> {
        let digest = source.owners.digest_of(owner)?;
        self.owners.slot_of(&digest)
    }

    pub(crate) fn put(&mut self, db: usize, key: &[u8], record: &Record) -> Result<(), Fail> {
        let before = self.owner_there(db, key)?;
        let owner = match (&record.value, before) {
            (Value::Rows(body), _) => body.id.owner,
            (Value::Short { .. }, Some(before)) => before,
            (Value::Short { .. }, None) => self.owners.of_new(key)?,
        };
        self.put_owned(db, key, record, before, owner)
    }

    /// Puts a record for `owner` where there is none, or that of `before`.
    pub(crate) fn put_owned(
        &mut self,
        db: usize,
        key: &[u8],
        record: &Record,
        before: Option<Slot>,
        owner: Slot,
    ) -> Result<(), Fail> {
        if let Some(before) = before.filter(|before| *before != owner) {
            let name = self.key_row(before, key)?;
            self.keys_mut(db)?.remove(name.as_slice())?;
            self.owners.count(before, -1)?;
        }
        if before != Some(owner) {
            self.owners.count(owner, 1)?;
        }
        let name = self.key_row(owner, key)?;
        let mut value = Vec::with_capacity(64);
        record.encode(&mut value);
        if let Some(keys) = keys_of(self.slots, owner)? {
            value = keys.seal_value(NO_ID, &value)?;
        }
        self.keys_mut(db)?
            .insert(name.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Result<(), Fail> {
        let Some(owner) = self.owner_there(db, key)? else {
            return Ok(());
        };
        let name = self.key_row(owner, key)?;
        self.keys_mut(db)?.remove(name.as_slice())?;
        self.is_removing.set(true);
        self.owners.count(owner, -1)
    }

    pub(crate) fn keys_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(self.keys(db)?.len()?)
    }

    /// The keys of a database from a place in the order of hashes on, without those that do not
    /// open.
    pub(crate) fn keys_from(
        &self,
        db: usize,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<KeyRow, Fail>>, Fail> {
        let found = self.found_from(db, hash)?;
        Ok(found.filter_map(|row| match row {
            Ok(Found::Key(row)) => Some(Ok(row)),
            Ok(Found::Damaged(_)) => None,
            Err(fail) => Some(Err(fail)),
        }))
    }

    /// As [`Self::keys_from`], with those that do not open.
    pub(crate) fn found_from(
        &self,
        db: usize,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<Found, Fail>>, Fail> {
        let start = hash.to_be_bytes();
        let range = self.keys(db)?.range::<&[u8]>(start.as_slice()..)?;
        Ok(range.filter_map(|guards| {
            let row = guards.map_err(Fail::from);
            row.and_then(|(name, value)| self.opened_row(name.value(), value.value()))
                .transpose()
        }))
    }

    /// Forgets all keys of a database; their values' rows stay.
    pub(crate) fn clear(&mut self, db: usize) -> Result<(), Fail> {
        let mut owners = Vec::new();
        if !self.owners.is_empty()? {
            for row in self.found_from(db, 0)? {
                owners.push(match row? {
                    Found::Key(row) => row.owner,
                    Found::Damaged(unread) => unread.owner,
                });
            }
        }
        for owner in owners {
            self.owners.count(owner, -1)?;
        }
        self.changes += 1;
        self.is_removing.set(true);
        of_database_mut(&mut self.keys, db)?.clear()?;
        of_database_mut(&mut self.deadlines, db)?.clear()
    }

    /// Forgets all keys of every database; their values' rows stay.
    pub(crate) fn clear_all(&mut self) -> Result<(), Fail> {
        for db in 0..DATABASES {
            self.clear(db)?;
        }
        Ok(())
    }

    // Deadlines; their keys are there.

    pub(crate) fn put_deadline(
        &mut self,
        db: usize,
        deadline: u64,
        key: &[u8],
    ) -> Result<(), Fail> {
        let row = self.changing_deadline(db, deadline, key)?;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        table.insert(row.as_slice(), &[][..])?;
        Ok(())
    }

    pub(crate) fn remove_deadline(
        &mut self,
        db: usize,
        deadline: u64,
        key: &[u8],
    ) -> Result<(), Fail> {
        let row = self.changing_deadline(db, deadline, key)?;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        table.remove(row.as_slice())?;
        Ok(())
    }

    /// Counts a change of a deadline, and returns its row.
    fn changing_deadline(&mut self, db: usize, deadline: u64, key: &[u8]) -> Result<Vec<u8>, Fail> {
        self.changes += 1;
        let owner = self.owner_for(db, key)?;
        self.deadline_row(deadline, key, owner)
    }

    /// Returns the keys whose deadline has come, at most `most` of them, the earliest first, and
    /// whether there are keys among them that do not open.
    pub(crate) fn due(
        &self,
        db: usize,
        now: u64,
        most: usize,
    ) -> Result<(Vec<Vec<u8>>, bool), Fail> {
        let end = now.saturating_add(1).to_be_bytes();
        let table = of_database(&self.deadlines, db)?.table()?;
        let (mut due, mut is_damaged) = (Vec::new(), false);
        for row in table.range::<&[u8]>(..end.as_slice())? {
            if due.len() == most {
                break;
            }
            let (row, _) = row?;
            let name = row.value().get(ID_BYTES..).unwrap_or_default();
            match self.opened_name(name)? {
                Name::Opened(_, name) => due.push(name),
                Name::Damaged(..) => is_damaged = true,
                Name::Erased => {}
            }
        }
        Ok((due, is_damaged))
    }

    /// Returns the number of keys with a deadline.
    pub(crate) fn deadlines_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(of_database(&self.deadlines, db)?.table()?.len()?)
    }

    // Rows of keys.

    /// Returns the owner of an existing key.
    fn owner_there(&self, db: usize, key: &[u8]) -> Result<Option<Slot>, Fail> {
        let plain = self.key_row(Slot::NOBODY, key)?;
        if self.keys(db)?.get(plain.as_slice())?.is_some() {
            return Ok(Some(Slot::NOBODY));
        }
        Ok(self.owned_row(db, key)?.map(|(owner, _)| owner))
    }

    /// Finds a key about a subject; returns its owner and its row.
    fn owned_row(&self, db: usize, key: &[u8]) -> Result<Option<(Slot, Vec<u8>)>, Fail> {
        match self.owned_rows(db, key)? {
            (None, Some((_, _, what))) => Err(Fail::Damaged(what)),
            (found, _) => Ok(found),
        }
    }

    /// Finds the row of a key about a subject, and one that does not open and has the same hash.
    /// The hash finds it, because its subject is not known before.
    fn owned_rows(
        &self,
        db: usize,
        key: &[u8],
    ) -> Result<(Option<OwnedRow>, Option<Closed>), Fail> {
        if self.slots.is_none() || self.owners.is_empty()? {
            return Ok((None, None));
        }
        let mut damaged = None;
        let start = siphash(self.secret, key).to_be_bytes();
        for row in self.keys(db)?.range::<&[u8]>(start.as_slice()..)? {
            let (name, _) = row?;
            let Some(rest) = name.value().strip_prefix(&start) else {
                break;
            };
            match self.opened_name(rest)? {
                Name::Opened(owner, found) if found == key && owner != Slot::NOBODY => {
                    return Ok((Some((owner, name.value().to_vec())), damaged));
                }
                Name::Damaged(owner, what) => {
                    damaged = Some((owner, name.value().to_vec(), what));
                }
                Name::Opened(..) | Name::Erased => {}
            }
        }
        Ok((None, damaged))
    }

    /// A row of a table of keys; none where its subject was erased.
    fn opened_row(&self, name: &[u8], value: &[u8]) -> Result<Option<Found>, Fail> {
        let split = name.split_at_checked(ID_BYTES);
        let (hash, name) = split.ok_or_else(|| Fail::broken("a key"))?;
        let hash = number(hash).ok_or_else(|| Fail::broken("a key"))?;
        let unread = |owner, name, what| Found::Damaged(Unread { owner, name, what });
        let (owner, key) = match self.opened_name(name)? {
            Name::Opened(owner, key) => (owner, key),
            Name::Erased => return Ok(None),
            Name::Damaged(owner, what) => return Ok(Some(unread(owner, None, what))),
        };
        let opened = match keys_of(self.slots, owner)? {
            Some(keys) => keys.open_value(NO_ID, value),
            None => Ok(value.to_vec()),
        };
        match opened {
            Ok(record) => Ok(Some(Found::Key(KeyRow {
                owner,
                hash,
                key,
                record,
            }))),
            Err(Fail::Damaged(what)) => Ok(Some(unread(owner, Some(key), what))),
            Err(fail) => Err(fail),
        }
    }

    /// Returns the owner and the name of a key.
    fn opened_name(&self, name: &[u8]) -> Result<Name, Fail> {
        let Some(slots) = self.slots else {
            return Ok(Name::Opened(Slot::NOBODY, name.to_vec()));
        };
        match name.split_first() {
            Some((&PLAIN, name)) => Ok(Name::Opened(Slot::NOBODY, name.to_vec())),
            Some((&OWNED, rest)) => {
                let split = rest.split_first_chunk::<ID_BYTES>();
                let (slot, sealed) = split.ok_or_else(|| Fail::broken("a key"))?;
                let slot = Slot(u64::from_be_bytes(*slot));
                let opened = match self.owners.keys(slots, slot) {
                    Ok(Some(keys)) => keys.open_name(NO_ID, sealed),
                    Ok(None) => return Ok(Name::Erased),
                    Err(fail) => Err(fail),
                };
                match opened {
                    Ok(name) => Ok(Name::Opened(slot, name)),
                    Err(Fail::Damaged(what)) => Ok(Name::Damaged(slot, what)),
                    Err(fail) => Err(fail),
                }
            }
            _ => Err(Fail::broken("a key")),
        }
    }

    fn key_row(&self, owner: Slot, key: &[u8]) -> Result<Vec<u8>, Fail> {
        let mut row = siphash(self.secret, key).to_be_bytes().to_vec();
        self.put_name(&mut row, owner, key)?;
        Ok(row)
    }

    fn deadline_row(&self, deadline: u64, key: &[u8], owner: Slot) -> Result<Vec<u8>, Fail> {
        let mut row = deadline.to_be_bytes().to_vec();
        self.put_name(&mut row, owner, key)?;
        Ok(row)
    }

    fn put_name(&self, row: &mut Vec<u8>, owner: Slot, key: &[u8]) -> Result<(), Fail> {
        if let Some(keys) = keys_of(self.slots, owner)? {
            row.push(OWNED);
            row.extend_from_slice(&owner.0.to_be_bytes());
            row.extend_from_slice(&keys.seal_name(NO_ID, key)?);
            return Ok(());
        }
        if self.slots.is_some() {
            row.push(PLAIN);
        }
        row.extend_from_slice(key);
        Ok(())
    }

    fn keys(&self, db: usize) -> Result<&BytesTable<'txn>, Fail> {
        of_database(&self.keys, db)?.table()
    }

    fn keys_mut(&mut self, db: usize) -> Result<&mut BytesTable<'txn>, Fail> {
        self.changes += 1;
        of_database_mut(&mut self.keys, db)?.table_mut()
    }
}

fn of_database<T>(tables: &[T; DATABASES], db: usize) -> Result<&T, Fail> {
    tables
        .get(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

fn of_database_mut<T>(tables: &mut [T; DATABASES], db: usize) -> Result<&mut T, Fail> {
    tables
        .get_mut(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

#[cfg(test)]
mod tests {
    use crate::directory::tests::{ask, is_there};
    use crate::store::{Options, Store};
    use crate::subject::SubjectOf;

    /// A reader with the data and the store's key reads nothing of a subject whose key is gone. No
    /// page holds its data in clear.
    #[test]
    fn no_page_holds_what_belongs_to_a_subject_even_for_those_with_the_stores_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let options = Options {
            subject_of: SubjectOf::new(|key| key.starts_with(b"u").then(|| b"marker".to_vec())),
            ..Options::default()
        };
        let store = Store::open(&path, options).unwrap();
        let long = b"long-marker".repeat(5000);
        ask(
            &store,
            &[b"SET", b"u:marker", b"short-marker", b"EX", b"1000"],
        );
        ask(&store, &[b"SET", b"ulong", &long]);
        ask(&store, &[b"APPEND", b"ulong", b"end-marker"]);
        ask(&store, &[b"HSET", b"uh", b"field-marker", b"value-marker"]);
        ask(&store, &[b"SADD", b"us", b"member-marker", b"1"]);
        ask(&store, &[b"ZADD", b"uz", b"1", b"scored-marker"]);
        ask(&store, &[b"RPUSH", b"ul", b"item-marker"]);
        ask(&store, &[b"SET", b"other", b"visible"]);
        assert!(!is_there(&path, b"marker"));
        assert!(is_there(&path, b"visible") && is_there(&path, b"other"));
        store.rewrite().unwrap();
        assert!(!is_there(&path, b"marker") && is_there(&path, b"visible"));
    }
}
