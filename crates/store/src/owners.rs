//! The owners of keys: the subjects that have any, and the slots of those that were erased.

use std::collections::BTreeSet;

use redb::{ReadableTable as _, ReadableTableMetadata as _, WriteTransaction};

use crate::fail::Fail;
use crate::record::number;
use crate::slots::Slots;
use crate::subject::Slot;
use crate::table::{Definition, ID_BYTES, LazyTable};

/// A digest of each subject's name, with its slot.
const SUBJECTS: Definition = Definition::new("subjects");
/// A slot, to how many keys it has and what its subject is found by.
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
    /// Slots that were destroyed, of which the file still says that they are to be.
    pub(crate) destroyed: Vec<Slot>,
}

/// The owners of keys within one transaction.
pub(crate) struct Owners<'txn> {
    /// The keys of subjects; none in a file of an older format, which knows no subjects.
    slots: Option<&'txn Slots>,
    subjects: LazyTable<'txn>,
    in_use: LazyTable<'txn>,
    erased: LazyTable<'txn>,
    erasures: &'txn mut Erasures,
    changed: bool,
}

impl<'txn> Owners<'txn> {
    pub(crate) const fn new(
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
        erasures: &'txn mut Erasures,
    ) -> Self {
        Self {
            slots,
            subjects: LazyTable::new(transaction, SUBJECTS),
            in_use: LazyTable::new(transaction, SLOTS),
            erased: LazyTable::new(transaction, ERASED),
            erasures,
            changed: false,
        }
    }

    /// Returns whether anything was written.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
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
        row.map(|(_, digest)| digest)
            .ok_or_else(|| Fail::broken("a subject"))
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
            self.in_use.table_mut()?.remove(id.as_slice())?;
        }
        let slot = slots.take();
        let slot = slot.map_err(|error| Fail::Store(redb::Error::Io(error)))?;
        self.put_slot(slot, digest)?;
        Ok(slot)
    }

    /// Makes `slot` the one of a subject that has no keys yet.
    fn put_slot(&mut self, slot: Slot, digest: &[u8]) -> Result<(), Fail> {
        self.changed = true;
        let id = slot.0.to_be_bytes();
        self.subjects.table_mut()?.insert(digest, id.as_slice())?;
        let row = [&0_u64.to_be_bytes()[..], digest].concat();
        let table = self.in_use.table_mut()?;
        table.insert(id.as_slice(), row.as_slice())?;
        Ok(())
    }

    /// Returns the number of a slot's keys, and the digest of its subject's name.
    fn row(&self, slot: Slot) -> Result<Option<(u64, Vec<u8>)>, Fail> {
        let id = slot.0.to_be_bytes();
        let Some(row) = self.in_use.table()?.get(id.as_slice())? else {
            return Ok(None);
        };
        let split = row.value().split_at_checked(ID_BYTES);
        let row = split.and_then(|(count, digest)| Some((number(count)?, digest.to_vec())));
        row.map(Some).ok_or_else(|| Fail::broken("a subject"))
    }

    /// Counts a key more or less of an owner.
    pub(crate) fn count(&mut self, slot: Slot, change: i64) -> Result<(), Fail> {
        if slot == Slot::NOBODY {
            return Ok(());
        }
        let row = self.row(slot)?;
        let counted = row.and_then(|(count, digest)| {
            let count = count.checked_add_signed(change)?;
            Some((count, digest))
        });
        let (count, digest) = counted.ok_or_else(|| Fail::broken("a subject"))?;
        if count == 0 {
            self.erasures.erasing.insert(slot);
        }
        let row = [&count.to_be_bytes()[..], &digest].concat();
        self.changed = true;
        let (id, table) = (slot.0.to_be_bytes(), self.in_use.table_mut()?);
        table.insert(id.as_slice(), row.as_slice())?;
        Ok(())
    }

    /// Removes subjects without any key from the tables, and returns their slots. These are to be
    /// destroyed once the removal is durable. Notes about slots that were destroyed are removed.
    pub(crate) fn end(&mut self) -> Result<Vec<Slot>, Fail> {
        let mut ended = Vec::new();
        for slot in std::mem::take(&mut self.erasures.erasing) {
            let Some((0, digest)) = self.row(slot)? else {
                continue;
            };
            let id = slot.0.to_be_bytes();
            self.in_use.table_mut()?.remove(id.as_slice())?;
            self.subjects.table_mut()?.remove(digest.as_slice())?;
            let erased = self.erased.table_mut()?;
            erased.insert(id.as_slice(), &[][..])?;
            ended.push(slot);
        }
        for slot in std::mem::take(&mut self.erasures.destroyed) {
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
}
