//! The owners of keys: the subjects that have any, and the slots of those that were erased.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::{ReadableTable as _, ReadableTableMetadata as _, TableHandle as _, WriteTransaction};

use crate::facts::{FACTS, SLOT_FACT};
use crate::fail::Fail;
use crate::key_file::random;
use crate::record::number;
use crate::slots::Slots;
use crate::subject::{CHECK_BYTES, Slot, SubjectKeys};
use crate::table::{Definition, ID_BYTES, LazyTable};

/// A digest of each subject's name, with its slot.
const SUBJECTS: Definition = Definition::new("subjects");
/// A slot, to how many keys it has, by what its key is known, and what its subject is found by.
const SLOTS: Definition = Definition::new("slots");
/// Slots that are still to be destroyed.
const ERASED: Definition = Definition::new("erased");
/// The tables that only [`Owners`] opens.
pub(crate) const DEFINITIONS: [Definition; 3] = [SUBJECTS, SLOTS, ERASED];

/// Erasures that outlive a transaction.
#[derive(Debug, Default)]
pub(crate) struct Erasures {
    /// Subjects that had no key left at some moment of the transaction.
    erasing: BTreeSet<Slot>,
    /// Slots that were given to subjects since the last commit: no data of theirs was ever durable.
    fresh: BTreeSet<Slot>,
    /// Slots of subjects that are in the tables no more, to be destroyed once that is durable.
    ended: Vec<Slot>,
    /// Slots that were destroyed, of which the file still says that they are to be.
    pub(crate) destroyed: Vec<Slot>,
}

/// Bytes of the digest of a subject's name.
const DIGEST_BYTES: usize = 32;

/// A subject that has keys.
struct Row {
    /// The number of its keys.
    count: u64,
    /// By which its slot's key is known; none in a file of an older format.
    check: Option<[u8; CHECK_BYTES]>,
    digest: Vec<u8>,
}

impl Row {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_at_checked(ID_BYTES)?;
        let (check, digest) = rest.split_at_checked(rest.len().checked_sub(DIGEST_BYTES)?)?;
        Some(Self {
            count: number(count)?,
            check: match check {
                [] => None,
                check => Some(check.try_into().ok()?),
            },
            digest: digest.to_vec(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let check = self.check.as_ref().map_or(&[][..], |check| &check[..]);
        [&self.count.to_be_bytes()[..], check, &self.digest].concat()
    }
}

/// The owners of keys within one transaction.
pub(crate) struct Owners<'txn> {
    transaction: &'txn WriteTransaction,
    /// The keys of subjects; none in a file of an older format, which knows no subjects.
    slots: Option<&'txn Slots>,
    subjects: LazyTable<'txn>,
    in_use: LazyTable<'txn>,
    erased: LazyTable<'txn>,
    erasures: &'txn mut Erasures,
    /// Number of writes.
    changes: u64,
}

impl<'txn> Owners<'txn> {
    pub(crate) const fn new(
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
        erasures: &'txn mut Erasures,
    ) -> Self {
        Self {
            transaction,
            slots,
            subjects: LazyTable::new(transaction, SUBJECTS),
            in_use: LazyTable::new(transaction, SLOTS),
            erased: LazyTable::new(transaction, ERASED),
            erasures,
            changes: 0,
        }
    }

    /// Returns whether a file has the tables of owners, which an opening makes.
    pub(crate) fn are_known(transaction: &WriteTransaction) -> Result<bool, redb::Error> {
        let mut tables = transaction.list_tables()?;
        Ok(tables.any(|it| it.name() == ERASED.name()))
    }

    /// Returns how often something was written.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns whether no subject has a slot.
    pub(crate) fn is_empty(&self) -> Result<bool, Fail> {
        Ok(self.in_use.table()?.is_empty()?)
    }

    /// Returns the owner of a key that will be created.
    pub(crate) fn of_new(&mut self, key: &[u8]) -> Result<Slot, Fail> {
        let Some(digest) = self.slots.and_then(|slots| slots.digest(key)) else {
            return Ok(Slot::NOBODY);
        };
        self.slot_of(&digest)
    }

    /// Returns the digest of the name of a subject that is there.
    pub(crate) fn digest_of(&self, slot: Slot) -> Result<Vec<u8>, Fail> {
        let row = self.row(slot)?;
        row.map(|row| row.digest)
            .ok_or_else(|| Fail::broken("a subject"))
    }

    /// The slot of a subject, a fresh one if it has none.
    pub(crate) fn slot_of(&mut self, digest: &[u8]) -> Result<Slot, Fail> {
        let Some(slots) = self.slots else {
            return Ok(Slot::NOBODY);
        };
        let known = self.subjects.table()?.get(digest)?;
        if let Some(known) = known.and_then(|known| number(known.value())).map(Slot) {
            match self.keys(slots, known) {
                // The subject had no key left and returns before the commit. What it had must not
                // open by its new keys.
                Ok(Some(_keys)) if self.is_given_up(known)? => self.end_slot(known, digest)?,
                Ok(Some(_keys)) => return Ok(known),
                // Older data was put back, of before the erasure of a subject that now comes back.
                Ok(None) => {
                    let id = known.0.to_be_bytes();
                    self.in_use.table_mut()?.remove(id.as_slice())?;
                }
                // Nothing is left of what the damaged key was for.
                Err(Fail::Damaged(_)) if self.is_unused(known)? => self.end_slot(known, digest)?,
                Err(fail) => return Err(fail),
            }
        }
        let slot = slots.take();
        let slot = slot.map_err(|error| Fail::Store(redb::Error::Io(error)))?;
        self.put_slot(slots, slot, digest)?;
        Ok(slot)
    }

    /// Refuses a key that would be sealed for a subject whose own key is damaged.
    pub(crate) fn check_new(&self, key: &[u8]) -> Result<(), Fail> {
        let Some((slots, digest)) = self.slots.zip(self.slots.and_then(|it| it.digest(key))) else {
            return Ok(());
        };
        let known = self.subjects.table()?.get(digest.as_slice())?;
        let Some(known) = known.and_then(|known| number(known.value())).map(Slot) else {
            return Ok(());
        };
        match self.keys(slots, known) {
            Err(Fail::Damaged(_)) if self.is_unused(known)? => Ok(()),
            keys => keys.map(drop),
        }
    }

    /// Returns whether no key of its subject is left of a slot.
    fn is_unused(&self, slot: Slot) -> Result<bool, Fail> {
        Ok(self.row(slot)?.is_some_and(|row| row.count == 0))
    }

    /// Returns whether its subject has lost the last key since the last commit, of some that may be
    /// durable.
    fn is_given_up(&self, slot: Slot) -> Result<bool, Fail> {
        let erasures = &*self.erasures;
        let was_last = erasures.erasing.contains(&slot) && !erasures.fresh.contains(&slot);
        Ok(was_last && self.is_unused(slot)?)
    }

    /// Removes a subject from the tables. Its slot is to be destroyed once that is durable.
    fn end_slot(&mut self, slot: Slot, digest: &[u8]) -> Result<(), Fail> {
        self.changes += 1;
        let id = slot.0.to_be_bytes();
        self.in_use.table_mut()?.remove(id.as_slice())?;
        self.subjects.table_mut()?.remove(digest)?;
        self.erased.table_mut()?.insert(id.as_slice(), &[][..])?;
        self.erasures.ended.push(slot);
        Ok(())
    }

    /// Returns how many subjects have keys that were met damaged, and how many keys of the store
    /// those subjects have.
    pub(crate) fn damaged(&self) -> Result<(usize, u64), Fail> {
        let damaged = self.slots.map(Slots::damaged).unwrap_or_default();
        let mut keys = 0_u64;
        for slot in &damaged {
            keys += self.row(*slot)?.map_or(0, |row| row.count);
        }
        Ok((damaged.len(), keys))
    }

    /// Returns the keys of a subject, once the data says that they are its own; none if they were destroyed.
    pub(crate) fn keys(&self, slots: &Slots, slot: Slot) -> Result<Option<Arc<SubjectKeys>>, Fail> {
        let Some(keys) = slots.keys(slot)? else {
            return Ok(None);
        };
        if !keys.is_proven.load(Ordering::Relaxed) {
            let row = self.row(slot)?;
            let row = row.ok_or_else(|| Fail::broken("the subject of a key"))?;
            if row.check.is_some_and(|check| check != keys.check) {
                return Err(slots.is_of_another_time(slot));
            }
            keys.is_proven.store(true, Ordering::Relaxed);
        }
        Ok(Some(keys))
    }

    /// Makes `slot` the one of a subject that has no keys yet.
    fn put_slot(&mut self, slots: &Slots, slot: Slot, digest: &[u8]) -> Result<(), Fail> {
        let keys = slots.keys(slot)?.filter(|_| slot != Slot::NOBODY);
        let keys = keys.ok_or_else(|| Fail::broken("a key that nobody had"))?;
        let id = slot.0.to_be_bytes();
        if self.in_use.table()?.get(id.as_slice())?.is_some() {
            return Err(Fail::broken("a key of a subject that another was to get"));
        }
        self.changes += 1;
        let mut facts = self.transaction.open_table(FACTS)?;
        let given = facts.get(SLOT_FACT)?.map_or(0, |value| value.value());
        facts.insert(SLOT_FACT, given.max(slot.0.saturating_add(1)))?;
        drop(facts);
        self.subjects.table_mut()?.insert(digest, id.as_slice())?;
        let row = Row {
            count: 0,
            check: Some(keys.check),
            digest: digest.to_vec(),
        };
        let table = self.in_use.table_mut()?;
        table.insert(id.as_slice(), row.encode().as_slice())?;
        self.erasures.fresh.insert(slot);
        Ok(())
    }

    /// Returns what the data says of a slot in use.
    fn row(&self, slot: Slot) -> Result<Option<Row>, Fail> {
        let id = slot.0.to_be_bytes();
        let Some(row) = self.in_use.table()?.get(id.as_slice())? else {
            return Ok(None);
        };
        let row = Row::decode(row.value());
        row.map(Some).ok_or_else(|| Fail::broken("a subject"))
    }

    /// Counts a key more or less of an owner.
    pub(crate) fn count(&mut self, slot: Slot, change: i64) -> Result<(), Fail> {
        if slot == Slot::NOBODY {
            return Ok(());
        }
        let counted = self.row(slot)?.and_then(|row| {
            let count = row.count.checked_add_signed(change)?;
            Some(Row { count, ..row })
        });
        let row = counted.ok_or_else(|| Fail::broken("a subject"))?;
        if row.count == 0 {
            self.erasures.erasing.insert(slot);
        }
        self.changes += 1;
        let (id, table) = (slot.0.to_be_bytes(), self.in_use.table_mut()?);
        table.insert(id.as_slice(), row.encode().as_slice())?;
        Ok(())
    }

    /// Removes subjects without any key from the tables, and returns their slots. These are to be
    /// destroyed once the removal is durable. Notes about slots that were destroyed are removed.
    pub(crate) fn end(&mut self) -> Result<Vec<Slot>, Fail> {
        self.erasures.fresh.clear();
        for slot in std::mem::take(&mut self.erasures.erasing) {
            let Some(Row {
                count: 0, digest, ..
            }) = self.row(slot)?
            else {
                continue;
            };
            self.end_slot(slot, &digest)?;
        }
        for slot in std::mem::take(&mut self.erasures.destroyed) {
            let id = slot.0.to_be_bytes();
            self.erased.table_mut()?.remove(id.as_slice())?;
        }
        Ok(std::mem::take(&mut self.erasures.ended))
    }

    /// Returns the slots that were given to subjects which are there no more. Each is destroyed, or
    /// is to be: no slot is given twice.
    pub(crate) fn unused(&self) -> Result<Vec<Slot>, Fail> {
        let facts = self.transaction.open_table(FACTS)?;
        let given = facts.get(SLOT_FACT)?.map_or(0, |value| value.value());
        let (mut unused, mut next) = (Vec::new(), Slot::NOBODY.0 + 1);
        for row in self.in_use.table()?.iter()? {
            let slot = number(row?.0.value()).ok_or_else(|| Fail::broken("a slot"))?;
            unused.extend((next..slot).map(Slot));
            next = slot.saturating_add(1);
        }
        unused.extend((next..given).map(Slot));
        Ok(unused)
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
}

/// Puts back what the data said of subjects with keys, `slots`, where it is lost. Of a subject whose
/// name nothing tells any more, later keys have another slot.
pub(crate) fn put_back(write: &WriteTransaction, slots: &BTreeSet<Slot>) -> Result<(), Fail> {
    let mut digests = BTreeMap::new();
    for row in write.open_table(SUBJECTS)?.iter()? {
        let (digest, slot) = row?;
        digests.extend(number(slot.value()).map(|slot| (Slot(slot), digest.value().to_vec())));
    }
    let mut table = write.open_table(SLOTS)?;
    for slot in slots {
        let id = slot.0.to_be_bytes();
        let known = table
            .get(id.as_slice())?
            .map(|row| Row::decode(row.value()));
        if known.flatten().is_some() {
            continue;
        }
        let drawn = || random().map_err(|error| Fail::Store(redb::Error::Io(error)));
        let known = digests.remove(slot);
        let digest = known.map_or_else(|| Ok(drawn()?.to_vec()), Ok::<_, Fail>)?;
        let row = Row {
            count: 0,
            check: None,
            digest,
        };
        table.insert(id.as_slice(), row.encode().as_slice())?;
    }
    Ok(())
}
