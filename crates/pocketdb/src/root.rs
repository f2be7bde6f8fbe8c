//! The secure store: what the token keeps inside, and how a commit becomes final in it.
//!
//! Section 3 of `docs/pocketdb.md` gives every byte. The store is trusted to keep what it was
//! given and to be read by nobody else; a write of it may still be torn by a loss of power.

use crate::bytes::{part, put, take, u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES, TABLES_MAX};
use crate::seal::{MAC_BYTES, Seal};

/// First bytes of every secure store.
const MAGIC: &[u8; 8] = b"PRBPOCKT";
/// Format of the image and the store; grows when bytes change.
pub const FORMAT: u16 = 1;
/// Where the records begin.
const RECORDS_AT: usize = 512;
/// Where the two copies of the schema begin.
pub(crate) const SCHEMA_AT: usize = RECORDS_AT + RECORD_SLOTS * ROOT_RECORD_BYTES;
/// Bytes of one copy of the schema.
pub(crate) const SCHEMA_BYTES: usize = 8 * 1024;
/// Where the directory of units begins.
pub(crate) const DIRECTORY_AT: usize = SCHEMA_AT + 2 * SCHEMA_BYTES;
/// Bytes of one directory entry: start page, epoch and table of a unit.
pub(crate) const DIRECTORY_ENTRY_BYTES: usize = 16;

/// A small store that nobody but the engine reads or writes.
pub trait SecureStore {
    /// Bytes of the store.
    fn capacity(&self) -> usize;
    /// Fills `out` from `offset`; what was never written reads as zero.
    ///
    /// # Errors
    /// The store cannot be read.
    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<()>;
    /// Writes `bytes` at `offset` and returns once they survive a loss of power.
    ///
    /// # Errors
    /// The store cannot be written; any prefix of the bytes may have been.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()>;
}

/// Rows of one table as committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TableState {
    /// Rows inserted; the last one's id.
    pub(crate) rows: u32,
    /// Units written to their place; each holds a fixed number of rows.
    pub(crate) units: u32,
}

/// The state that one commit makes final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RootRecord {
    /// Grows by one with every record.
    pub(crate) sequence: u64,
    /// Epoch of the next unit attempt.
    pub(crate) epoch: u64,
    /// Next page of the unit area.
    pub(crate) unit_next: u32,
    /// Sequence number of the next buffer page to program.
    pub(crate) buffer_next: u64,
    /// Sequence number of the oldest buffer page that still matters (the paper's Start).
    pub(crate) buffer_start: u64,
    /// Sequence number of the last committed buffer page, if any (the paper's Dirty).
    pub(crate) buffer_last: u64,
    /// Code of that page.
    pub(crate) buffer_code: [u8; MAC_BYTES],
    /// Which copy of the schema holds, and its length and code.
    pub(crate) schema_copy: u8,
    /// Bytes of the schema.
    pub(crate) schema_bytes: u32,
    /// Code of the schema.
    pub(crate) schema_code: [u8; MAC_BYTES],
    /// Chunks of the directory in use.
    pub(crate) directory_chunks: u32,
    /// Every table, the two hidden ones first.
    pub(crate) tables: [TableState; TABLES_MAX],
}

impl RootRecord {
    /// The state of an empty database.
    pub(crate) fn empty(unit_next: u32) -> Self {
        Self {
            sequence: 0,
            epoch: 1,
            unit_next,
            buffer_next: 1,
            buffer_start: 1,
            buffer_last: 0,
            buffer_code: [0; MAC_BYTES],
            schema_copy: 0,
            schema_bytes: 0,
            schema_code: [0; MAC_BYTES],
            directory_chunks: 0,
            tables: [TableState::default(); TABLES_MAX],
        }
    }

    fn encode(&self, out: &mut [u8]) {
        put(out, 0, &self.sequence.to_le_bytes());
        put(out, 8, &self.epoch.to_le_bytes());
        put(out, 16, &self.buffer_next.to_le_bytes());
        put(out, 24, &self.buffer_start.to_le_bytes());
        put(out, 32, &self.buffer_last.to_le_bytes());
        put(out, 40, &self.buffer_code);
        put(out, 56, &self.schema_code);
        put(out, 72, &self.unit_next.to_le_bytes());
        put(out, 76, &self.schema_bytes.to_le_bytes());
        put(out, 80, &self.directory_chunks.to_le_bytes());
        put(out, 84, &[self.schema_copy]);
        for (index, table) in self.tables.iter().enumerate() {
            put(out, 88 + index * 8, &table.rows.to_le_bytes());
            put(out, 92 + index * 8, &table.units.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut record = Self::empty(u32_at(bytes, 72));
        record.sequence = u64_at(bytes, 0);
        record.epoch = u64_at(bytes, 8);
        record.buffer_next = u64_at(bytes, 16);
        record.buffer_start = u64_at(bytes, 24);
        record.buffer_last = u64_at(bytes, 32);
        record.buffer_code = take(bytes, 40);
        record.schema_code = take(bytes, 56);
        record.schema_bytes = u32_at(bytes, 76);
        record.directory_chunks = u32_at(bytes, 80);
        record.schema_copy = part(bytes, 84, 1).first().copied().unwrap_or(0) & 1;
        for (index, table) in record.tables.iter_mut().enumerate() {
            table.rows = u32_at(bytes, 88 + index * 8);
            table.units = u32_at(bytes, 92 + index * 8);
        }
        record
    }
}

/// Writes the head of a new store: magic, format, size of the device and the image's secret.
pub(crate) fn format_store(
    store: &mut impl SecureStore,
    blocks: u32,
    secret: &[u8; 32],
) -> Result<()> {
    if store.capacity() < DIRECTORY_AT + DIRECTORY_ENTRY_BYTES {
        return Err(Error::Root("is too small"));
    }
    let mut head = [0u8; 64];
    put(&mut head, 0, MAGIC);
    put(&mut head, 8, &FORMAT.to_le_bytes());
    put(&mut head, 12, &blocks.to_le_bytes());
    put(&mut head, 16, secret);
    store.write(0, &head)
}

/// Reads the head; returns the number of blocks and the image's secret.
pub(crate) fn read_head(store: &mut impl SecureStore) -> Result<(u32, [u8; 32])> {
    let mut head = [0u8; 64];
    store.read(0, &mut head)?;
    if head.first_chunk::<8>() != Some(MAGIC) {
        return Err(Error::Root("is not one of a pocket database"));
    }
    let format = u16_at(&head, 8);
    if format > FORMAT {
        return Err(Error::NewerFormat(format));
    }
    Ok((u32_at(&head, 12), take(&head, 16)))
}

/// Makes `record` the state of the database; this single write is the commit.
pub(crate) fn write_record(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    record: &RootRecord,
) -> Result<()> {
    let mut bytes = [0u8; ROOT_RECORD_BYTES];
    record.encode(&mut bytes);
    let body = part(&bytes, 0, ROOT_RECORD_BYTES - MAC_BYTES);
    let code = seal.root_code(body);
    put(&mut bytes, ROOT_RECORD_BYTES - MAC_BYTES, &code);
    let slot = usize::try_from(record.sequence % RECORD_SLOTS as u64).unwrap_or(0);
    store.write(RECORDS_AT + slot * ROOT_RECORD_BYTES, &bytes)
}

/// The newest intact record.
///
/// At most one record can be torn, the one after the newest; any other damage is refused.
pub(crate) fn read_newest(store: &mut impl SecureStore, seal: &mut Seal) -> Result<RootRecord> {
    let mut newest: Option<RootRecord> = None;
    let mut damaged = 0;
    for slot in 0..RECORD_SLOTS {
        let mut bytes = [0u8; ROOT_RECORD_BYTES];
        store.read(RECORDS_AT + slot * ROOT_RECORD_BYTES, &mut bytes)?;
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        let body = part(&bytes, 0, ROOT_RECORD_BYTES - MAC_BYTES);
        if seal.root_code(body) != take::<MAC_BYTES>(&bytes, ROOT_RECORD_BYTES - MAC_BYTES) {
            damaged += 1;
            continue;
        }
        let record = RootRecord::decode(body);
        if newest.is_none_or(|best| best.sequence < record.sequence) {
            newest = Some(record);
        }
    }
    match newest {
        Some(record) if damaged <= 1 => Ok(record),
        _ => Err(Error::Root("is damaged")),
    }
}
