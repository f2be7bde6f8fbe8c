//! The keys of the databases and their owners: found by a hash of their names, sealed for their
//! subjects.

use std::sync::Arc;

use redb::{ReadableTable as _, ReadableTableMetadata as _};

use crate::fail::Fail;
use crate::record::{Record, Value, number};
use crate::rows::{Rows, of_database, of_database_mut};
use crate::subject::{Id, Slot, SubjectKeys};
use crate::table::{Bytes, Definition, ID_BYTES, KeyRow};

/// A digest of each subject's name, with its slot.
pub(crate) const SUBJECTS: Definition = Definition::new("subjects");
/// A slot, to how many keys it has and what its subject is found by.
pub(crate) const SLOTS: Definition = Definition::new("slots");
/// Slots that are still to be destroyed.
pub(crate) const ERASED: Definition = Definition::new("erased");

/// Before the name of a key about nobody.
const PLAIN: u8 = 0;
/// Before the slot and the sealed name of a subject's key.
const OWNED: u8 = 1;
/// The names of keys are sealed for no value.
const NO_ID: u64 = 0;

impl<'txn> Rows<'txn> {
    pub(crate) fn record(&self, db: usize, key: &[u8]) -> Result<Option<Record>, Fail> {
        let table = self.keys(db)?;
        let plain = self.key_row(Slot::NOBODY, key)?;
        if let Some(value) = table.get(plain.as_slice())? {
            return Record::decode(value.value(), Slot::NOBODY).map(Some);
        }
        let Some((owner, name)) = self.owned_row(db, key)? else {
            return Ok(None);
        };
        let Some((value, keys)) = table.get(name.as_slice())?.zip(self.subject_keys(owner)?) else {
            return Ok(None);
        };
        let value = keys.open_value(NO_ID, value.value())?;
        Record::decode(&value, owner).map(Some)
    }

    /// Returns the owner of an existing key, or of one that will be created.
    pub(crate) fn owner_for(&mut self, db: usize, key: &[u8]) -> Result<Slot, Fail> {
        match self.owner_there(db, key)? {
            Some(owner) => Ok(owner),
            None => self.owner_of_new(key),
        }
    }

    /// Returns the owner of a key that will be created.
    fn owner_of_new(&mut self, key: &[u8]) -> Result<Slot, Fail> {
        let Some(digest) = self.slots.and_then(|slots| slots.digest(key)) else {
            return Ok(Slot::NOBODY);
        };
        self.slot_of(&digest)
    }

    pub(crate) fn put_record(
        &mut self,
        db: usize,
        key: &[u8],
        record: &Record,
    ) -> Result<(), Fail> {
        let before = self.owner_there(db, key)?;
        let owner = match (&record.value, before) {
            (Value::Rows(body), _) => body.id.owner,
            (Value::Short { .. }, Some(before)) => before,
            (Value::Short { .. }, None) => self.owner_of_new(key)?,
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
            self.count(before, -1)?;
        }
        if before != Some(owner) {
            self.count(owner, 1)?;
        }
        let name = self.key_row(owner, key)?;
        let mut value = Vec::with_capacity(64);
        record.encode(&mut value);
        if let Some(keys) = self.subject_keys(owner)? {
            value = keys.seal_value(NO_ID, &value)?;
        }
        self.keys_mut(db)?
            .insert(name.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove_record(&mut self, db: usize, key: &[u8]) -> Result<(), Fail> {
        let Some(owner) = self.owner_there(db, key)? else {
            return Ok(());
        };
        let name = self.key_row(owner, key)?;
        self.keys_mut(db)?.remove(name.as_slice())?;
        self.facts.is_removing = true;
        self.count(owner, -1)
    }

    pub(crate) fn keys_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(self.keys(db)?.len()?)
    }

    /// The keys of a database from a place in the order of hashes on.
    pub(crate) fn keys_from(
        &self,
        db: usize,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<KeyRow, Fail>>, Fail> {
        let start = hash.to_be_bytes();
        let range = self.keys(db)?.range::<&[u8]>(start.as_slice()..)?;
        Ok(range.filter_map(|guards| {
            let row = guards.map_err(Fail::from);
            row.and_then(|(name, value)| self.opened_row(name.value(), value.value()))
                .transpose()
        }))
    }

    /// Forgets all keys of a database; their values' rows stay.
    pub(crate) fn clear_keys(&mut self, db: usize) -> Result<(), Fail> {
        let mut owners = Vec::new();
        if !self.slots_table.table()?.is_empty()? {
            for row in self.keys_from(db, 0)? {
                owners.push(row?.owner);
            }
        }
        for owner in owners {
            self.count(owner, -1)?;
        }
        self.changed = true;
        self.facts.is_removing = true;
        of_database_mut(&mut self.keys, db)?.clear()?;
        of_database_mut(&mut self.deadlines, db)?.clear()
    }

    // Deadlines; their keys are there.

    pub(crate) fn put_deadline(
        &mut self,
        db: usize,
        deadline: u64,
        key: &[u8],
    ) -> Result<(), Fail> {
        self.changed = true;
        let owner = self.owner_for(db, key)?;
        let row = self.deadline_row(deadline, key, owner)?;
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
        self.changed = true;
        let owner = self.owner_for(db, key)?;
        let row = self.deadline_row(deadline, key, owner)?;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        table.remove(row.as_slice())?;
        Ok(())
    }

    /// Returns the keys whose deadline has come, at most `most` of them, the earliest first.
    pub(crate) fn due(&self, db: usize, now: u64, most: usize) -> Result<Vec<Vec<u8>>, Fail> {
        let end = now.saturating_add(1).to_be_bytes();
        let table = of_database(&self.deadlines, db)?.table()?;
        let mut due = Vec::new();
        for row in table.range::<&[u8]>(..end.as_slice())? {
            if due.len() == most {
                break;
            }
            let (row, _) = row?;
            let name = row.value().get(ID_BYTES..).unwrap_or_default();
            due.extend(self.opened_name(name)?.map(|(_, name)| name));
        }
        Ok(due)
    }

    /// Returns the number of keys with a deadline.
    pub(crate) fn deadlines_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(of_database(&self.deadlines, db)?.table()?.len()?)
    }

    // Subjects.

    /// The keys of a subject; none for nobody.
    pub(crate) fn subject_keys(&self, owner: Slot) -> Result<Option<Arc<SubjectKeys>>, Fail> {
        let Some(slots) = self.slots.filter(|_| owner != Slot::NOBODY) else {
            return Ok(None);
        };
        let keys = slots.keys(owner)?;
        keys.map(Some)
            .ok_or_else(|| Fail::broken("a value of a subject whose key is destroyed"))
    }

    /// A new id for a value of `owner`.
    pub(crate) fn id_of(&mut self, owner: Slot) -> Result<Id, Fail> {
        let number = self.new_number()?;
        Ok(Id { number, owner })
    }

    /// The slot of a subject, a fresh one if it has none.
    pub(crate) fn slot_of(&mut self, digest: &[u8]) -> Result<Slot, Fail> {
        let Some(slots) = self.slots else {
            return Ok(Slot::NOBODY);
        };
        let known = self.subjects.table()?.get(digest)?;
        if let Some(known) = known.and_then(|known| number(known.value())).map(Slot) {
            if slots.keys(known)?.is_some() {
                return Ok(known);
            }
            // Older data was put back, of before the erasure of a subject that now comes back.
            let id = known.0.to_be_bytes();
            self.slots_table.table_mut()?.remove(id.as_slice())?;
        }
        let slot = slots.take();
        let slot = slot.map_err(|error| Fail::Store(redb::Error::Io(error)))?;
        self.put_slot(slot, digest)?;
        Ok(slot)
    }

    /// Makes `slot` the one of a subject that has no keys yet.
    pub(crate) fn put_slot(&mut self, slot: Slot, digest: &[u8]) -> Result<(), Fail> {
        self.changed = true;
        let id = slot.0.to_be_bytes();
        self.subjects.table_mut()?.insert(digest, id.as_slice())?;
        let row = [&0_u64.to_be_bytes()[..], digest].concat();
        let table = self.slots_table.table_mut()?;
        table.insert(id.as_slice(), row.as_slice())?;
        Ok(())
    }

    /// Returns the number of a slot's keys, and the digest of its subject's name.
    pub(crate) fn slot_row(&self, slot: Slot) -> Result<Option<(u64, Vec<u8>)>, Fail> {
        let id = slot.0.to_be_bytes();
        let Some(row) = self.slots_table.table()?.get(id.as_slice())? else {
            return Ok(None);
        };
        let split = row.value().split_at_checked(ID_BYTES);
        let row = split.and_then(|(count, digest)| Some((number(count)?, digest.to_vec())));
        row.map(Some).ok_or_else(|| Fail::broken("a subject"))
    }

    fn count(&mut self, slot: Slot, change: i64) -> Result<(), Fail> {
        if slot == Slot::NOBODY {
            return Ok(());
        }
        let row = self.slot_row(slot)?;
        let counted = row.and_then(|(count, digest)| {
            let count = count.checked_add_signed(change)?;
            Some((count, digest))
        });
        let (count, digest) = counted.ok_or_else(|| Fail::broken("a subject"))?;
        if count == 0 {
            self.facts.erasing.insert(slot);
        }
        let row = [&count.to_be_bytes()[..], &digest].concat();
        self.changed = true;
        let (id, table) = (slot.0.to_be_bytes(), self.slots_table.table_mut()?);
        table.insert(id.as_slice(), row.as_slice())?;
        Ok(())
    }

    /// Removes subjects without any key from the tables, and returns their slots. These are to be
    /// destroyed once the removal is durable. Notes about slots that were destroyed are removed.
    pub(crate) fn end_subjects(&mut self) -> Result<Vec<Slot>, Fail> {
        let mut ended = Vec::new();
        for slot in std::mem::take(&mut self.facts.erasing) {
            let Some((0, digest)) = self.slot_row(slot)? else {
                continue;
            };
            let id = slot.0.to_be_bytes();
            self.slots_table.table_mut()?.remove(id.as_slice())?;
            self.subjects.table_mut()?.remove(digest.as_slice())?;
            let erased = self.erased.table_mut()?;
            erased.insert(id.as_slice(), &[][..])?;
            ended.push(slot);
        }
        for slot in std::mem::take(&mut self.facts.destroyed) {
            let id = slot.0.to_be_bytes();
            self.erased.table_mut()?.remove(id.as_slice())?;
        }
        Ok(ended)
    }

    /// Slots that a crash may have left undestroyed.
    pub(crate) fn left_undestroyed(&self) -> Result<Vec<Slot>, Fail> {
        let mut left = Vec::new();
        for row in self.erased.table()?.iter()? {
            let slot = number(row?.0.value()).map(Slot);
            left.push(slot.ok_or_else(|| Fail::broken("a slot"))?);
        }
        Ok(left)
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

    /// Finds a key about a subject; returns its owner and its row. The hash finds it, because its
    /// subject is not known before.
    fn owned_row(&self, db: usize, key: &[u8]) -> Result<Option<(Slot, Vec<u8>)>, Fail> {
        if self.slots.is_none() || self.slots_table.table()?.is_empty()? {
            return Ok(None);
        }
        let start = self.hash(key).to_be_bytes();
        for row in self.keys(db)?.range::<&[u8]>(start.as_slice()..)? {
            let (name, _) = row?;
            let Some(rest) = name.value().strip_prefix(&start) else {
                break;
            };
            let found = self.opened_name(rest)?.filter(|(_, name)| name == key);
            if let Some((owner, _)) = found {
                return Ok(Some((owner, name.value().to_vec())));
            }
        }
        Ok(None)
    }

    /// A row of a table of keys; none where its subject was erased.
    fn opened_row(&self, name: &[u8], value: &[u8]) -> Result<Option<KeyRow>, Fail> {
        let split = name.split_at_checked(ID_BYTES);
        let (hash, name) = split.ok_or_else(|| Fail::broken("a key"))?;
        let hash = number(hash).ok_or_else(|| Fail::broken("a key"))?;
        let Some((owner, key)) = self.opened_name(name)? else {
            return Ok(None);
        };
        let record = match self.subject_keys(owner)? {
            Some(keys) => keys.open_value(NO_ID, value)?,
            None => value.to_vec(),
        };
        Ok(Some(KeyRow {
            owner,
            hash,
            key,
            record,
        }))
    }

    /// Returns the owner and the name of a key; none if its subject was erased.
    fn opened_name(&self, name: &[u8]) -> Result<Option<(Slot, Vec<u8>)>, Fail> {
        let Some(slots) = self.slots else {
            return Ok(Some((Slot::NOBODY, name.to_vec())));
        };
        match name.split_first() {
            Some((&PLAIN, name)) => Ok(Some((Slot::NOBODY, name.to_vec()))),
            Some((&OWNED, rest)) => {
                let split = rest.split_first_chunk::<ID_BYTES>();
                let (slot, sealed) = split.ok_or_else(|| Fail::broken("a key"))?;
                let slot = Slot(u64::from_be_bytes(*slot));
                let Some(keys) = slots.keys(slot)? else {
                    return Ok(None);
                };
                Ok(Some((slot, keys.open_name(NO_ID, sealed)?)))
            }
            _ => Err(Fail::broken("a key")),
        }
    }

    fn key_row(&self, owner: Slot, key: &[u8]) -> Result<Vec<u8>, Fail> {
        let mut row = self.hash(key).to_be_bytes().to_vec();
        self.put_name(&mut row, owner, key)?;
        Ok(row)
    }

    fn deadline_row(&self, deadline: u64, key: &[u8], owner: Slot) -> Result<Vec<u8>, Fail> {
        let mut row = deadline.to_be_bytes().to_vec();
        self.put_name(&mut row, owner, key)?;
        Ok(row)
    }

    fn put_name(&self, row: &mut Vec<u8>, owner: Slot, key: &[u8]) -> Result<(), Fail> {
        if let Some(keys) = self.subject_keys(owner)? {
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

    fn keys(&self, db: usize) -> Result<&redb::Table<'txn, Bytes, Bytes>, Fail> {
        of_database(&self.keys, db)?.table()
    }

    fn keys_mut(&mut self, db: usize) -> Result<&mut redb::Table<'txn, Bytes, Bytes>, Fail> {
        self.changed = true;
        of_database_mut(&mut self.keys, db)?.table_mut()
    }
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
