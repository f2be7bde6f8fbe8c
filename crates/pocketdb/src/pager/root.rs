//! The secure store: its layout, and the commit of a record in it.
//!
//! "Secure store" in `docs/pocketdb-format.md` gives every byte. The store is trusted to keep its content, and
//! only the engine can read it. A write may still be torn by a loss of power.

#![expect(
    clippy::indexing_slicing,
    reason = "decoding refuses numbers of parts out of bounds; no part in their place would hide rows"
)]

use zeroize::Zeroizing;

use crate::limits::{BAD_BLOCKS_MAX, PARTS_MAX, ROOT_RECORD_BYTES, TABLES_MAX};
use crate::pager::bytes::{part_mut, put, take, u16_at, u32_at, u64_at};
use crate::pager::directory_code::{DIRECTORY_CODE_BYTES, DirectoryCode};
use crate::pager::error::{Error, Result, SecureStoreError};
use crate::pager::ring::{RING_END, is_ring};
use crate::pager::seal::{Generations, MAC_BYTES, Seal, Since};
use crate::pager::secrets::SECRET_BYTES;
use crate::pager::side::SIDES;

/// First bytes of every secure store.
const MAGIC: &[u8; 8] = b"PRBPOCKT";
/// Format of the image and the store; increased when their bytes change.
pub const FORMAT: u16 = 9;
/// The format before, whose records bind no secret of generations; the first opening raises it.
const FORMAT_UNBOUND: u16 = 8;
/// The format before that, whose records have no code of the directory.
const FORMAT_UNCOUNTED: u16 = 7;
/// The oldest format that is read, whose pages are sealed in another form.
const FORMAT_OLDEST: u16 = 6;
/// Greatest number of wrong bits in the magic of a damaged store; other files have more.
const MAGIC_BITS_CHANGED: u32 = 8;
/// Offset of the format, which its complement follows.
const FORMAT_AT: usize = 8;
/// Offset of the first numbers of pages that are sealed in the present form.
const SINCE_AT: usize = 48;
/// Offset of the records.
pub(crate) const RECORDS_AT: usize = 512;
/// Offset of the two copies of the structure.
const STRUCTURE_AT: usize = RING_END;
/// Length of one copy of the structure in bytes.
pub(crate) const STRUCTURE_BYTES: usize = 4 * 1024;
/// Number of bytes of a copy that are authenticated at once.
const PIECE_BYTES: usize = 256;
/// Offset of the list of failed blocks.
const BAD_AT: usize = STRUCTURE_AT + 2 * STRUCTURE_BYTES;
/// Offset of the directory of units.
pub(crate) const DIRECTORY_AT: usize = BAD_AT + BAD_BLOCKS_MAX * 4;
/// Length of a directory entry in bytes.
pub(crate) const DIRECTORY_ENTRY_BYTES: usize = 16;
/// Offset of the tables in a record.
const TABLES_AT: usize = 112;

/// Offset of the description of the reorganised parts in a record, and of the first of them.
const PART_AT: usize = TABLES_AT + TABLES_MAX * 8;
const LEVELS_AT: usize = PART_AT + 20;
/// Length of the description of one part in bytes.
const LEVEL_BYTES: usize = 20;
/// Offset of the code of the directory in a record.
const DIRECTORY_CODE_AT: usize = LEVELS_AT + SIDES * LEVEL_BYTES;
const _: () = assert!(DIRECTORY_CODE_AT + DIRECTORY_CODE_BYTES <= ROOT_RECORD_BYTES - MAC_BYTES);

/// A small store that only the engine can read and write.
pub trait SecureStore {
    /// Returns the size of the store in bytes.
    fn capacity(&self) -> usize;
    /// Reads from `offset` into `out`; bytes never written read as zero.
    ///
    /// # Errors
    /// The store cannot be read.
    fn read(&mut self, offset: usize, out: &mut [u8])
    -> core::result::Result<(), SecureStoreError>;
    /// Writes `bytes` at `offset`. Before the next [`Self::sync`] has returned, a loss of power may
    /// keep any prefix of them.
    ///
    /// # Errors
    /// The store cannot be written; any prefix of the bytes may have been.
    fn write(&mut self, offset: usize, bytes: &[u8]) -> core::result::Result<(), SecureStoreError>;
    /// Waits until everything written survives a loss of power.
    ///
    /// # Errors
    /// The store cannot be written.
    fn sync(&mut self) -> core::result::Result<(), SecureStoreError>;
    /// Returns an unpredictable number, or zero without a source of them. An opening skips as many
    /// numbers, so that copies of a store do not continue with the same ones.
    ///
    /// # Errors
    /// The source fails.
    fn random(&mut self) -> core::result::Result<u32, SecureStoreError> {
        Ok(0)
    }
}

/// The reference to a page of the commit buffer, in its successor and in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Link {
    /// Its sequence number; zero for none.
    pub(crate) sequence: u64,
    /// Its page number.
    pub(crate) page: u32,
    /// Its authentication code.
    pub(crate) code: [u8; MAC_BYTES],
}

/// The committed rows of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TableState {
    /// Number of rows inserted, which is the last one's id.
    pub(crate) rows: u32,
    /// Number of units written.
    pub(crate) units: u32,
}

/// The valid copy of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StructureState {
    pub(crate) copy: u8,
    pub(crate) bytes: u32,
    pub(crate) code: [u8; MAC_BYTES],
}

/// The place of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CatalogueState {
    /// First page, in a block of its own; none if `bytes` is zero.
    pub(crate) page: u32,
    pub(crate) bytes: u32,
    pub(crate) epoch: u64,
}

/// A reorganised part: its place and its generation of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    /// Number of its side: of its owners and its generation of keys.
    pub(crate) side: u8,
    /// Number of pages of its two logs.
    pub(crate) body: u32,
    pub(crate) lists: u32,
    /// The first epoch of its generation; zero for a next part whose generation has not begun.
    pub(crate) since: u64,
}

/// The reorganised parts, and the part being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartState {
    /// Number of completed reorganisations; there is no part before the first.
    pub(crate) instance: u32,
    /// Number of completed tasks of the next one.
    pub(crate) tasks: u32,
    /// The parts in use, the oldest first, and their number.
    pub(crate) levels: [Level; PARTS_MAX],
    pub(crate) count: u8,
    /// Number of parts that are not merged into the next one.
    pub(crate) kept: u8,
    /// `true` while a next part is being built.
    pub(crate) building: bool,
    /// The next part.
    pub(crate) next: Level,
    /// The first sequence number of its generation.
    pub(crate) since_sequence: u64,
}

impl PartState {
    /// Returns the parts in use, the oldest first.
    pub(crate) fn live(&self) -> &[Level] {
        &self.levels[..usize::from(self.count)]
    }

    /// Returns the parts that are merged into the next one.
    pub(crate) fn merged(&self) -> &[Level] {
        &self.live()[usize::from(self.kept)..]
    }

    /// Returns the generation of the newest pages, apart from a part being built.
    pub(crate) fn present_side(&self) -> u8 {
        self.live().last().map_or(0, |level| level.side)
    }

    /// Returns whether pages exist under the keys of `side`.
    pub(crate) fn is_in_use(&self, side: u8) -> bool {
        side == self.present_side()
            || self.live().iter().any(|level| level.side == side)
            || self.next.since > 0 && self.next.side == side
    }

    /// Returns the state after the next part has replaced those merged into it.
    pub(crate) fn advanced(&self) -> Self {
        let mut after = Self {
            instance: self.instance + 1,
            count: self.kept + 1,
            kept: 0,
            tasks: 0,
            building: false,
            next: Level::default(),
            since_sequence: 0,
            ..*self
        };
        for (number, level) in after.levels.iter_mut().enumerate() {
            if number >= usize::from(self.kept) {
                *level = Level::default();
            }
        }
        after.levels[usize::from(self.kept)] = self.next;
        after
    }

    /// Returns the assignment of pages to generations.
    pub(crate) fn generations(&self) -> Generations {
        let mut generations = Generations {
            present: self.present_side(),
            ..Generations::default()
        };
        let next = (self.next.since > 0).then_some(&self.next);
        let spans = generations.spans.iter_mut();
        for (span, level) in spans.zip(self.live().iter().chain(next)) {
            *span = (level.since, level.side);
        }
        if let Some(level) = next {
            generations.next = Some((self.since_sequence, level.side));
        }
        generations
    }

    fn encode(&self, out: &mut [u8]) {
        put(out, PART_AT, &self.instance.to_le_bytes());
        put(out, PART_AT + 4, &self.tasks.to_le_bytes());
        let flags = [self.count, self.kept, u8::from(self.building)];
        put(out, PART_AT + 8, &flags);
        put(out, PART_AT + 12, &self.since_sequence.to_le_bytes());
        for (number, level) in self.levels.iter().chain([&self.next]).enumerate() {
            let at = LEVELS_AT + number * LEVEL_BYTES;
            put(out, at, &level.body.to_le_bytes());
            put(out, at + 4, &level.lists.to_le_bytes());
            put(out, at + 8, &level.since.to_le_bytes());
            put(out, at + 16, &[level.side]);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let level = |number: usize| {
            let at = LEVELS_AT + number * LEVEL_BYTES;
            let [side] = take(bytes, at + 16);
            Level {
                side,
                body: u32_at(bytes, at),
                lists: u32_at(bytes, at + 4),
                since: u64_at(bytes, at + 8),
            }
        };
        let [count, kept, building] = take(bytes, PART_AT + 8);
        let state = Self {
            instance: u32_at(bytes, PART_AT),
            tasks: u32_at(bytes, PART_AT + 4),
            levels: core::array::from_fn(level),
            count,
            kept,
            building: building == 1,
            next: level(PARTS_MAX),
            since_sequence: u64_at(bytes, PART_AT + 12),
        };
        if usize::from(count) > PARTS_MAX || kept > count || building > 1 {
            return Err(Error::Root("has a record that no engine writes"));
        }
        Ok(state)
    }
}

/// The record of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RootRecord {
    /// Number of the record, increased by one with each.
    pub(crate) sequence: u64,
    /// Number of the next write outside the buffer; never used twice.
    pub(crate) epoch: u64,
    /// Sequence number of the next buffer page to program.
    pub(crate) buffer_next: u64,
    /// Sequence number of the oldest buffer page still in use (the paper's Start).
    pub(crate) buffer_start: u64,
    /// The last committed buffer page (the paper's Dirty).
    pub(crate) tail: Link,
    /// Next page of the current block of units; a multiple of `BLOCK_PAGES` if there is none.
    pub(crate) unit_next: u32,
    /// Block at which the search for a free one begins.
    pub(crate) block_next: u32,
    pub(crate) structure: StructureState,
    pub(crate) catalogue: CatalogueState,
    pub(crate) part: PartState,
    /// The code of all entries of the directory that the record counts.
    pub(crate) directory: DirectoryCode,
    /// Every table, the two hidden ones first.
    pub(crate) tables: [TableState; TABLES_MAX],
}

impl RootRecord {
    /// Returns the record of an empty database.
    pub(crate) fn empty() -> Self {
        Self {
            sequence: 0,
            epoch: 1,
            buffer_next: 1,
            buffer_start: 1,
            tail: Link::default(),
            unit_next: 0,
            block_next: 0,
            structure: StructureState::default(),
            catalogue: CatalogueState::default(),
            part: PartState::default(),
            directory: DirectoryCode::default(),
            tables: [TableState::default(); TABLES_MAX],
        }
    }

    /// Returns the number of units of an owner of rows.
    pub(crate) fn units(&self, owner: u8) -> u32 {
        self.tables
            .get(usize::from(owner))
            .map_or(0, |state| state.units)
    }

    /// Encodes the record with `epoch` and `next` in the place of its own epoch and sequence number of the
    /// buffer.
    pub(crate) fn encode(&self, (epoch, next): (u64, u64), out: &mut [u8]) {
        put(out, 0, &self.sequence.to_le_bytes());
        put(out, 8, &epoch.to_le_bytes());
        put(out, 16, &next.to_le_bytes());
        put(out, 24, &self.buffer_start.to_le_bytes());
        put(out, 32, &self.tail.sequence.to_le_bytes());
        put(out, 40, &self.tail.code);
        put(out, 56, &self.tail.page.to_le_bytes());
        put(out, 60, &self.unit_next.to_le_bytes());
        put(out, 64, &self.block_next.to_le_bytes());
        put(out, 68, &self.structure.bytes.to_le_bytes());
        put(out, 72, &self.structure.code);
        put(out, 88, &[self.structure.copy]);
        put(out, 92, &self.catalogue.page.to_le_bytes());
        put(out, 96, &self.catalogue.bytes.to_le_bytes());
        put(out, 100, &self.catalogue.epoch.to_le_bytes());
        self.part.encode(out);
        put(out, DIRECTORY_CODE_AT, &self.directory);
        for (index, table) in self.tables.iter().enumerate() {
            put(out, TABLES_AT + index * 8, &table.rows.to_le_bytes());
            put(out, TABLES_AT + 4 + index * 8, &table.units.to_le_bytes());
        }
    }

    /// Decodes an authenticated record.
    ///
    /// A record that names more parts than there are is refused, not read as one without parts.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let [copy] = take(bytes, 88);
        if copy > 1 {
            return Err(Error::Root("has a record that no engine writes"));
        }
        let mut record = Self {
            sequence: u64_at(bytes, 0),
            epoch: u64_at(bytes, 8),
            buffer_next: u64_at(bytes, 16),
            buffer_start: u64_at(bytes, 24),
            tail: Link {
                sequence: u64_at(bytes, 32),
                page: u32_at(bytes, 56),
                code: take(bytes, 40),
            },
            unit_next: u32_at(bytes, 60),
            block_next: u32_at(bytes, 64),
            structure: StructureState {
                copy,
                bytes: u32_at(bytes, 68),
                code: take(bytes, 72),
            },
            catalogue: CatalogueState {
                page: u32_at(bytes, 92),
                bytes: u32_at(bytes, 96),
                epoch: u64_at(bytes, 100),
            },
            part: PartState::decode(bytes)?,
            directory: take(bytes, DIRECTORY_CODE_AT),
            tables: [TableState::default(); TABLES_MAX],
        };
        for (index, table) in record.tables.iter_mut().enumerate() {
            table.rows = u32_at(bytes, TABLES_AT + index * 8);
            table.units = u32_at(bytes, TABLES_AT + 4 + index * 8);
        }
        Ok(record)
    }
}

/// Writes the head of a new store: magic, format, size of the device and the image's secret.
pub(crate) fn format_store(
    store: &mut impl SecureStore,
    blocks: u32,
    secret: &[u8; 32],
) -> Result<()> {
    let mut head = Zeroizing::new([0u8; 64]);
    put(&mut *head, 0, MAGIC);
    put(&mut *head, FORMAT_AT, &format_bytes());
    put(&mut *head, 12, &blocks.to_le_bytes());
    put(&mut *head, 16, secret);
    store.write(0, &*head)?;
    Ok(store.sync()?)
}

/// Returns an error if the store has no room for a directory.
pub(crate) fn check_capacity(store: &impl SecureStore) -> Result<()> {
    if store.capacity() < DIRECTORY_AT + crate::pager::directory::CHUNK_BYTES {
        return Err(Error::ForeignRoot("is too small"));
    }
    Ok(())
}

/// The head of a secure store.
pub(crate) struct Head {
    /// Number of blocks of the device.
    pub(crate) blocks: u32,
    pub(crate) secret: Zeroizing<[u8; SECRET_BYTES]>,
    pub(crate) origin: Origin,
}

/// The form of a store before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The first numbers of pages sealed in the present form; `None` in a store of the oldest
    /// format.
    pub(crate) since: Option<Since>,
    /// `true` if the records have a code of the directory.
    pub(crate) is_counted: bool,
    /// `true` if the records bind the secrets of generations, and the format says so whole.
    pub(crate) is_bound: bool,
}

/// Reads the head.
pub(crate) fn read_head(store: &mut impl SecureStore) -> Result<Head> {
    let mut head = Zeroizing::new([0u8; 64]);
    store.read(0, &mut *head)?;
    let magic = head.iter().zip(MAGIC);
    let changed: u32 = magic.map(|(found, due)| (found ^ due).count_ones()).sum();
    match changed {
        0 => {}
        1..=MAGIC_BITS_CHANGED => return Err(Error::Root("is damaged")),
        _ if is_ring(store)? => return Err(Error::Root("is damaged")),
        _ if is_beginning(&*head) => return Err(Error::Root("was cut short")),
        // A file system may leave that of any file after a loss of power.
        _ if head.iter().all(|byte| *byte == 0) => return Err(Error::Root("begins with zeros")),
        _ => return Err(Error::ForeignRoot("is not one of a pocket database")),
    }
    let (format, check) = (u16_at(&*head, FORMAT_AT), u16_at(&*head, FORMAT_AT + 2));
    let since = Since {
        epoch: u64_at(&*head, SINCE_AT),
        sequence: u64_at(&*head, SINCE_AT + 8),
    };
    let before = [0, !FORMAT_UNCOUNTED, !FORMAT_UNBOUND];
    let since = match format {
        FORMAT if is_raised(check, FORMAT, &before) => Some(since),
        FORMAT_UNBOUND if is_raised(check, FORMAT_UNBOUND, &before[..2]) => Some(since),
        FORMAT_UNCOUNTED if is_raised(check, FORMAT_UNCOUNTED, &before[..1]) => Some(since),
        FORMAT_OLDEST if check == 0 => None,
        format if format > FORMAT && check == !format => return Err(Error::NewerFormat(format)),
        format if format < FORMAT_OLDEST && check == 0 => {
            let what = "has a format that this program no longer reads";
            return Err(Error::ForeignRoot(what));
        }
        _ => return Err(Error::Root("is damaged")),
    };
    Ok(Head {
        blocks: u32_at(&*head, 12),
        secret: Zeroizing::new(take(&*head, 16)),
        origin: Origin {
            since,
            is_counted: format >= FORMAT_UNBOUND,
            is_bound: format == FORMAT && check == !FORMAT,
        },
    })
}

/// Returns whether a head is the beginning of one, and behind it zeros, as a file that was cut within it reads.
fn is_beginning(head: &[u8]) -> bool {
    let magic = head.iter().zip(MAGIC);
    let same = magic.take_while(|(found, due)| found == due).count();
    same > 0 && head.iter().skip(same).all(|&byte| byte == 0)
}

fn format_bytes() -> [u8; 4] {
    let mut bytes = [0; 4];
    put(&mut bytes, 0, &FORMAT.to_le_bytes());
    put(&mut bytes, 2, &(!FORMAT).to_le_bytes());
    bytes
}

/// Returns whether `check`, the complement of a format, is right, or was torn by a loss of power
/// while the format was raised from one with a check of `before`.
fn is_raised(check: u16, format: u16, before: &[u16]) -> bool {
    let [low, _] = (!format).to_le_bytes();
    let torn = |&before: &u16| {
        let [_, high] = before.to_le_bytes();
        [before, u16::from_le_bytes([low, high])].contains(&check)
    };
    check == !format || before.iter().any(torn)
}

/// Raises a store of an earlier format, whose newest record has all codes. With
/// `since` these numbers are written first: they are ignored until the format is written, and an
/// opening that finds the old format writes them again.
pub(crate) fn raise_format(store: &mut impl SecureStore, since: Option<Since>) -> Result<()> {
    if let Some(since) = since {
        let mut numbers = [0; 16];
        put(&mut numbers, 0, &since.epoch.to_le_bytes());
        put(&mut numbers, 8, &since.sequence.to_le_bytes());
        store.write(SINCE_AT, &numbers)?;
        store.sync()?;
    }
    store.write(FORMAT_AT, &format_bytes())?;
    Ok(store.sync()?)
}

/// Returns the offset of a copy of the structure.
pub(crate) fn structure_at(copy: u8) -> usize {
    STRUCTURE_AT + usize::from(copy & 1) * STRUCTURE_BYTES
}

/// Computes the code of the first `bytes` bytes of a copy of the structure.
pub(crate) fn structure_code(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    copy: u8,
    bytes: u32,
) -> Result<[u8; MAC_BYTES]> {
    let (mut code, mut piece) = (seal.begin_root_code(), [0u8; PIECE_BYTES]);
    let bytes = (bytes as usize).min(STRUCTURE_BYTES);
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let piece = part_mut(&mut piece, 0, (bytes - at).min(PIECE_BYTES));
        store.read(structure_at(copy) + at, piece)?;
        seal.add_root_code(&mut code, piece);
    }
    Ok(code.finish())
}

/// Writes a failed block as number `number` of the list; it is stored as its number plus one.
pub(crate) fn write_bad(store: &mut impl SecureStore, number: usize, block: u32) -> Result<()> {
    Ok(store.write(BAD_AT + number * 4, &(block + 1).to_le_bytes())?)
}

/// Returns the failed block number `number`.
pub(crate) fn read_bad(store: &mut impl SecureStore, number: usize) -> Result<Option<u32>> {
    let mut bytes = [0u8; 4];
    store.read(BAD_AT + number * 4, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes).checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with more parts than there can be was read as one without any: all reorganised rows
    /// were gone, and nothing said so.
    #[test]
    fn a_record_with_parts_that_cannot_be_is_refused() {
        let record = RootRecord::empty();
        for (at, wrong) in [
            (PART_AT + 8, 4),
            (PART_AT + 9, 1),
            (PART_AT + 10, 2),
            (88, 2),
        ] {
            let mut bytes = [0; ROOT_RECORD_BYTES];
            record.encode((record.epoch, record.buffer_next), &mut bytes);
            assert_eq!(RootRecord::decode(&bytes), Ok(record));
            put(&mut bytes, at, &[wrong]);
            assert!(
                matches!(RootRecord::decode(&bytes), Err(Error::Root(_))),
                "{at}"
            );
        }
    }
}
