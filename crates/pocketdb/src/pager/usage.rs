//! Operation counts of a database since its creation, kept in the secure store.
//!
//! The engine does not depend on these numbers, and the memory given has a [note](super::note) besides. They are written when a store is closed in order,
//! so they lack the operations of an opening that was interrupted.

use crate::pager::Pager;
use crate::pager::bytes::{put, u64_at};
use crate::pager::commit::Root;
use crate::pager::error::{Error, Result, SecureStoreError};
use crate::pager::flash::{FlashCounters, Nand};
use crate::pager::note::{read_memory, write_closed, write_memory};
use crate::pager::root::SecureStore;
use crate::pager::seal::CipherCounters;

/// Offset of the numbers in the secure store, between head and records.
const USAGE_AT: usize = 64;
/// Number of counters in one set of operations.
const OPERATIONS: usize = 8;
/// Greatest number of operations of one kind; a chip does fewer in any lifetime.
const OPERATIONS_MAX: u64 = 1 << 56;
/// Length of the numbers in bytes.
const USAGE_BYTES: usize = (2 + 2 * OPERATIONS) * 8;

/// Operations by type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    /// Operations of the flash device.
    pub flash: FlashCounters,
    /// Operations of the cipher.
    pub cipher: CipherCounters,
    /// Records written to the secure store.
    pub root_writes: u64,
}

/// Operations of a database, and its memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory given at creation.
    pub memory_given: u64,
    /// Greatest planned memory of an opening, in bytes; it is not measured.
    pub memory_planned: u64,
    /// Operations since the database was created.
    pub total: Operations,
    /// Operations of the last opening.
    pub last: Operations,
}

impl Operations {
    /// Returns the sum of these and `other`. Damaged numbers stay at the greatest one, beyond
    /// [`OPERATIONS_MAX`]: a commit is made already, and does not depend on them.
    fn plus(&self, other: &Self) -> Self {
        let mut sum = self.numbers();
        for (number, more) in sum.iter_mut().zip(other.numbers()) {
            *number = number.saturating_add(more);
        }
        Self::of(sum)
    }

    /// Returns the difference to the operations at an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut rest = self.numbers();
        for (number, less) in rest.iter_mut().zip(before.numbers()) {
            *number = number.saturating_sub(less);
        }
        Self::of(rest)
    }

    fn numbers(&self) -> [u64; OPERATIONS] {
        [
            self.flash.page_reads,
            self.flash.sector_reads,
            self.flash.programs,
            self.flash.erases,
            self.cipher.cipher_blocks,
            self.cipher.mac_blocks,
            self.cipher.tag_blocks,
            self.root_writes,
        ]
    }

    fn of(numbers: [u64; OPERATIONS]) -> Self {
        let [
            page_reads,
            sector_reads,
            programs,
            erases,
            cipher,
            mac,
            tag,
            root_writes,
        ] = numbers;
        Self {
            flash: FlashCounters {
                page_reads,
                sector_reads,
                programs,
                erases,
            },
            cipher: CipherCounters {
                cipher_blocks: cipher,
                mac_blocks: mac,
                tag_blocks: tag,
            },
            root_writes,
        }
    }
}

impl Usage {
    /// Reads the numbers of a secure store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(secure: &mut impl SecureStore) -> core::result::Result<Self, SecureStoreError> {
        let mut bytes = [0; USAGE_BYTES];
        secure.read(USAGE_AT, &mut bytes)?;
        let operations = |first: usize| {
            Operations::of(core::array::from_fn(|at| u64_at(&bytes, (first + at) * 8)))
        };
        Ok(Self {
            memory_given: u64_at(&bytes, 0),
            memory_planned: u64_at(&bytes, 8),
            total: operations(2),
            last: operations(2 + OPERATIONS),
        })
    }

    /// Returns whether numbers are greater than any database reaches.
    pub fn is_damaged(&self) -> bool {
        let sets = [self.total.numbers(), self.last.numbers()];
        sets.iter().flatten().any(|&number| number > OPERATIONS_MAX)
    }

    /// Writes the numbers to the secure store.
    pub(crate) fn write(
        &self,
        secure: &mut impl SecureStore,
    ) -> core::result::Result<(), SecureStoreError> {
        let mut bytes = [0; USAGE_BYTES];
        let sets = [self.total.numbers(), self.last.numbers()];
        let numbers = [self.memory_given, self.memory_planned].into_iter();
        for (at, number) in numbers.chain(sets.into_iter().flatten()).enumerate() {
            put(&mut bytes, at * 8, &number.to_le_bytes());
        }
        secure.write(USAGE_AT, &bytes)
    }
}

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Returns the operations since the opening.
    pub(crate) fn operations(&self) -> Operations {
        Operations {
            flash: self.flash.counters(),
            cipher: self.root.seal.counters,
            root_writes: self.root.writes,
        }
    }

    /// Adds the operations of this opening, which was given `memory` bytes and planned `planned`, to
    /// the sums, and notes that it was closed.
    pub(crate) fn close(&mut self, memory: usize, planned: usize) -> Result<()> {
        let before = Usage::read(&mut self.root.secure)?;
        let last = self.operations();
        // A store of an earlier version gets the note now; damage of one place is mended.
        let given = match read_memory(&mut self.root.secure, &mut self.root.seal) {
            Ok(given) => given.bytes,
            Err(Error::Root(_)) => memory as u64,
            Err(error) => return Err(error),
        };
        let usage = Usage {
            memory_given: given,
            memory_planned: before.memory_planned.max(planned as u64),
            total: before.total.plus(&last),
            last,
        };
        usage.write(&mut self.root.secure)?;
        let Root {
            secure,
            seal,
            committed,
            ..
        } = &mut self.root;
        write_memory(secure, seal, given)?;
        write_closed(secure, seal, committed.sequence)?;
        Ok(secure.sync()?)
    }
}
