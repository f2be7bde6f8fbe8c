//! What a database has cost since it was created, kept in the secure store for whoever asks.
//!
//! Nothing depends on these numbers: they are written when a store is closed in order, and what
//! an opening without such an end did is missing from them.

use crate::bytes::{put, u64_at};
use crate::error::Result;
use crate::flash::{FlashCounters, Nand};
use crate::root::SecureStore;
use crate::seal::CipherCounters;
use crate::store::Store;

/// Where the numbers are in the secure store.
const USAGE_AT: usize = 64;
/// Bytes of the numbers.
const USAGE_BYTES: usize = 9 * 8;

/// Operations since a database was created, and the memory it was created for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory given at creation.
    pub memory_bytes: u64,
    /// Operations of the flash device.
    pub flash: FlashCounters,
    /// Operations of the cipher.
    pub cipher: CipherCounters,
    /// Records written to the secure store.
    pub root_writes: u64,
}

impl Usage {
    /// Reads the numbers of a secure store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(secure: &mut impl SecureStore) -> Result<Self> {
        let mut bytes = [0; USAGE_BYTES];
        secure.read(USAGE_AT, &mut bytes)?;
        let number = |at: usize| u64_at(&bytes, at * 8);
        Ok(Self {
            memory_bytes: number(0),
            flash: FlashCounters {
                page_reads: number(1),
                sector_reads: number(2),
                programs: number(3),
                erases: number(4),
            },
            cipher: CipherCounters {
                cipher_blocks: number(5),
                mac_blocks: number(6),
                tag_blocks: number(7),
            },
            root_writes: number(8),
        })
    }

    /// Writes the numbers.
    pub(crate) fn write(&self, secure: &mut impl SecureStore) -> Result<()> {
        let mut bytes = [0; USAGE_BYTES];
        let numbers = [
            self.memory_bytes,
            self.flash.page_reads,
            self.flash.sector_reads,
            self.flash.programs,
            self.flash.erases,
            self.cipher.cipher_blocks,
            self.cipher.mac_blocks,
            self.cipher.tag_blocks,
            self.root_writes,
        ];
        for (at, number) in numbers.into_iter().enumerate() {
            put(&mut bytes, at * 8, &number.to_le_bytes());
        }
        secure.write(USAGE_AT, &bytes)
    }
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Operations since the database was created, those of this opening included.
    ///
    /// # Errors
    /// The secure store cannot be read.
    pub fn usage(&mut self) -> Result<Usage> {
        let mut usage = Usage::read(&mut self.secure)?;
        let now = self.counters();
        usage.flash.page_reads += now.flash.page_reads;
        usage.flash.sector_reads += now.flash.sector_reads;
        usage.flash.programs += now.flash.programs;
        usage.flash.erases += now.flash.erases;
        usage.cipher.cipher_blocks += now.cipher.cipher_blocks;
        usage.cipher.mac_blocks += now.cipher.mac_blocks;
        usage.cipher.tag_blocks += now.cipher.tag_blocks;
        usage.root_writes += now.root_writes;
        Ok(usage)
    }

    /// Closes the store in order; an open transaction is lost.
    ///
    /// # Errors
    /// The secure store cannot be written.
    pub fn close(mut self) -> Result<(F, S)> {
        let usage = self.usage()?;
        usage.write(&mut self.secure)?;
        self.secure.sync()?;
        Ok(self.into_parts())
    }
}
