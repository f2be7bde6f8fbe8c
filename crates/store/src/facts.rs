//! The facts of a store, which outlive a transaction, and the tables that a transaction opens with
//! them.

use std::cell::Cell;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use crate::fail::Fail;
use crate::owners::Erasures;
use crate::records::Records;
use crate::rows::Rows;
use crate::slots::Slots;

/// Facts about the store itself.
pub(crate) const FACTS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("facts");

/// Ids that are taken out of the file at once.
const IDS_AT_ONCE: u64 = 1024;
const ID_FACT: &str = "next id";
/// The first slot that was never given to a subject; none before the first was given.
pub(crate) const SLOT_FACT: &str = "next slot";
const SECRET_FACTS: [&str; 2] = ["secret 0", "secret 1"];

/// Facts of the store that outlive a transaction.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Under which rows are placed.
    secret: [u64; 2],
    ids: Ids,
    /// True if removed data may still lie in free blocks of the file.
    pub(crate) is_removing: Cell<bool>,
    pub(crate) erasures: Erasures,
}

/// Numbers that no value ever had. They are taken out of the file many at once.
#[derive(Debug)]
pub(crate) struct Ids {
    next: u64,
    end: u64,
}

impl Facts {
    /// Reads the store's facts, or makes those of a new store from unpredictable numbers.
    pub(crate) fn load(transaction: &WriteTransaction, guess: [u64; 2]) -> Result<Self, Fail> {
        let mut table = transaction.open_table(FACTS)?;
        let mut secret = guess;
        for (name, part) in SECRET_FACTS.into_iter().zip(&mut secret) {
            let known = table.get(name)?.map(|value| value.value());
            match known {
                Some(known) => *part = known,
                None => drop(table.insert(name, *part)?),
            }
        }
        let next_id = table.get(ID_FACT)?.map_or(1, |value| value.value());
        Ok(Self {
            secret,
            ids: Ids {
                next: next_id,
                end: next_id,
            },
            is_removing: Cell::new(false),
            erasures: Erasures::default(),
        })
    }

    /// The tables within a transaction: the records of keys, and the rows of their values.
    pub(crate) fn tables<'txn>(
        &'txn mut self,
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
    ) -> (Records<'txn>, Rows<'txn>) {
        let Self {
            secret,
            ids,
            is_removing,
            erasures,
        } = self;
        (
            Records::new(transaction, slots, *secret, erasures, is_removing),
            Rows::new(transaction, slots, *secret, ids, is_removing),
        )
    }
}

/// Raises the number of the next value above `last`, where the number itself was lost.
pub(crate) fn pass(transaction: &WriteTransaction, last: u64) -> Result<(), Fail> {
    let mut table = transaction.open_table(FACTS)?;
    let next = table.get(ID_FACT)?.map_or(1, |value| value.value());
    table.insert(ID_FACT, next.max(last.saturating_add(1)))?;
    Ok(())
}

impl Ids {
    /// Returns whether the next number is to be taken out of the file first.
    pub(crate) const fn is_spent(&self) -> bool {
        self.next == self.end
    }

    /// Takes numbers out of the file.
    pub(crate) fn reserve(&mut self, transaction: &WriteTransaction) -> Result<(), Fail> {
        let end = self.end.saturating_add(IDS_AT_ONCE);
        let mut table = transaction.open_table(FACTS)?;
        table.insert(ID_FACT, end)?;
        self.end = end;
        Ok(())
    }

    /// The next number, once it is out of the file.
    pub(crate) const fn take(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }
}
