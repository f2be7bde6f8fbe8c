//! The root: what the secure store says of the pages, and the commits that change it.

use alloc::boxed::Box;

use crate::limits::BAD_BLOCKS_MAX;
use crate::pager::directory::{Places, Structure};
use crate::pager::error::{Error, Result};
use crate::pager::recovery::NUMBERS_PER_OPENING;
use crate::pager::ring::{is_full, write_record};
use crate::pager::root::{RootRecord, SecureStore, read_bad, write_bad};
use crate::pager::seal::Seal;
use crate::pager::secrets::ChainSlot;

/// The changes of the secure store that must be synced before a record refers to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    /// Nothing.
    Nothing,
    /// Directory entries were written, but may not be durable yet.
    Entries,
    /// The structure differs from its copy.
    Structure,
}

/// The secure store: records, the directory, and the keys of pages.
pub(crate) struct Root<S: SecureStore> {
    pub(crate) secure: S,
    /// Boxed, because it is large and the root is moved.
    pub(crate) seal: Box<Seal>,
    pub(crate) committed: RootRecord,
    /// Owner and rank of each chunk of the directory.
    pub(super) structure: Structure,
    pub(super) places: Places,
    pub(super) pending: Pending,
    /// Number of records written since the opening.
    pub(super) writes: u64,
    /// Epoch and sequence number in the last record.
    pub(super) noted: (u64, u64),
    /// True until this opening programs a page: until then its records have the numbers noted.
    pub(super) keeps_noted: bool,
    /// Place of the secret from which the next generation's is derived.
    pub(super) chain: ChainSlot,
}

impl<S: SecureStore> Root<S> {
    /// Makes the chunks freed since the last record free once the next record is valid.
    pub(crate) fn keep_disowned(&mut self) {
        self.pending = Pending::Structure;
    }

    /// Commits `record`.
    pub(crate) fn finish(&mut self, record: &RootRecord) -> Result<()> {
        if self.pending != Pending::Nothing {
            // The data that the record refers to must be durable before it.
            self.secure.sync()?;
            self.pending = Pending::Nothing;
        }
        let begins = self.begins_generation(record);
        self.write(record)?;
        self.seal.turn(record.part.generations());
        if begins {
            self.turn_chain()?;
        }
        Ok(())
    }

    /// Returns an epoch that no other write has.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        let epoch = self.committed.epoch;
        self.committed.epoch += 1;
        epoch
    }

    /// Returns the epoch and the sequence number that a record with these next ones has.
    ///
    /// An opening that programmed no page notes none: with further ones, pages that another opening of an
    /// older copy programmed would look like older ones.
    pub(super) fn numbers_to_note(&self, epoch: u64, next: u64) -> (u64, u64) {
        if self.keeps_noted {
            self.noted
        } else {
            (epoch, next)
        }
    }

    /// Writes a record that refers to nothing new.
    fn write(&mut self, record: &RootRecord) -> Result<()> {
        let numbers = self.numbers_to_note(record.epoch, record.buffer_next);
        write_record(&mut self.secure, &mut self.seal, record, numbers)?;
        self.writes += 1;
        self.noted = numbers;
        self.committed = *record;
        Ok(())
    }

    /// Writes the same state until the ring is full, as each new one is: an earlier version left slots
    /// empty, and a record that is gone from such a ring is not missed.
    pub(super) fn fill_ring(&mut self) -> Result<()> {
        while !is_full(&self.committed) {
            // Each by itself: of two that a loss of power meets, the later one may be there alone.
            let record = RootRecord {
                sequence: self.committed.sequence + 1,
                ..self.committed
            };
            self.write(&record)?;
        }
        Ok(())
    }

    /// Records the numbers in use, long before the numbers that the next opening skips are used up.
    pub(crate) fn keep_numbers(&mut self, next: u64) -> Result<()> {
        let epoch = self.committed.epoch;
        let near = |number: u64, noted| number.abs_diff(noted) < NUMBERS_PER_OPENING / 2;
        let (noted_epoch, noted_next) = self.noted;
        if near(epoch, noted_epoch) && near(next, noted_next) {
            return Ok(());
        }
        // A page is about to be programmed.
        self.keeps_noted = false;
        // The record commits nothing else: a transaction or an attempt is in progress.
        let record = RootRecord {
            sequence: self.committed.sequence + 1,
            buffer_next: next,
            ..self.committed
        };
        self.write(&record)
    }

    /// Adds a block to the list of failed blocks.
    pub(super) fn note_bad(&mut self, block: u32) -> Result<()> {
        let (known, number) = self.find_bad(block)?;
        if known {
            return Ok(());
        }
        if number == BAD_BLOCKS_MAX {
            return Err(Error::Limit("the number of failed blocks"));
        }
        self.pending = self.pending.max(Pending::Entries);
        write_bad(&mut self.secure, number, block)
    }

    /// Returns whether `block` failed.
    pub(crate) fn is_bad(&mut self, block: u32) -> Result<bool> {
        Ok(self.find_bad(block)?.0)
    }

    /// Returns whether `block` is on the list of failed blocks, and its index. If it is not, the
    /// index is the length of the list.
    fn find_bad(&mut self, block: u32) -> Result<(bool, usize)> {
        for number in 0..BAD_BLOCKS_MAX {
            match read_bad(&mut self.secure, number)? {
                Some(bad) if bad == block => return Ok((true, number)),
                Some(_) => {}
                None => return Ok((false, number)),
            }
        }
        Ok((false, BAD_BLOCKS_MAX))
    }
}
