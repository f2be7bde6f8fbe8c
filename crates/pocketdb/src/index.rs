//! Value indexes over units: key tags, Bloom filters and bounded chains of pointers.
//!
//! Section 6 of `docs/pocketdb.md`. A row's pointer leads to the row before it with the same key
//! if that one is in the same unit or in the [`FILTER_UNITS`] units before; a pointer of zero says
//! that those units hold none, so a search goes on behind them.

use alloc::vec::Vec;

use crate::bytes::{narrow, part, put, u16_at, u32_at};
use crate::error::{Error, Result};
use crate::flash::Nand;
use crate::limits::{FILTER_UNITS, INDEXES_MAX, UNIT_ROWS};
use crate::root::SecureStore;
use crate::seal::{MAC_BYTES, PAYLOAD_BYTES, PageIdentity, ROLE_FILTER, ROLE_KEY};
use crate::store::{Store, data_identity, data_pages, vec_of};

/// Bytes of a key tag.
const TAG_BYTES: usize = 10;
/// Bytes of one unit's filter: 16 bits for each row.
const FILTER_BYTES: usize = UNIT_ROWS as usize * 2;
/// Bits that a key sets in its filter.
const FILTER_HASHES: usize = 4;
/// Bytes of one unit's pointers, 12 bits each.
const POINTER_BYTES: usize = UNIT_ROWS as usize * 3 / 2;
/// Where the pointers begin in a filter page.
const POINTERS_AT: usize = FILTER_UNITS as usize * FILTER_BYTES;
/// Longest key.
const KEY_BYTES_MAX: u8 = 128;
/// Separates filter positions from key tags.
const FILTER_DOMAIN: u64 = 1 << 32;
/// Separates the noise in slots without a tag from key tags.
const NOISE_DOMAIN: u64 = 1 << 33;

/// The part of a table's row that an index searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexKey {
    /// The table.
    pub table: u8,
    /// First byte of the key in the row.
    pub at: u16,
    /// Bytes of the key.
    pub bytes: u8,
}

/// A search for one key, from the newest row to the oldest.
#[derive(Debug, Clone)]
pub struct Cursor {
    index: usize,
    key: Vec<u8>,
    /// Only smaller ids are found from now on.
    below: u32,
    next: Next,
    /// Unit of the filter page that served last.
    cover: u32,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    /// Compare the rows in the commit buffer.
    Waiting,
    /// Search filters from this unit down.
    Unit(u32),
    /// Follow the pointer of this row, counted from zero.
    Chain(u32),
    /// There is nothing more.
    End,
}

/// Role of the page at `offset` behind the rows of a unit.
pub(crate) fn role(offset: u32) -> u8 {
    if offset.is_multiple_of(2) {
        ROLE_KEY
    } else {
        ROLE_FILTER
    }
}

/// The schema as the secure store keeps it; refuses keys outside their row.
pub(crate) fn encode_schema(widths: &[u16], indexes: &[IndexKey]) -> Result<Vec<u8>> {
    if indexes.len() > INDEXES_MAX {
        return Err(Error::Limit("the number of indexes"));
    }
    let mut schema = Vec::new();
    schema.extend_from_slice(&narrow(widths.len()).to_le_bytes());
    for width in widths {
        schema.extend_from_slice(&width.to_le_bytes());
    }
    for index in indexes {
        let width = widths.get(usize::from(index.table)).copied().unwrap_or(0);
        let end = u32::from(index.at) + u32::from(index.bytes);
        if index.bytes == 0 || index.bytes > KEY_BYTES_MAX || end > u32::from(width) {
            return Err(Error::Limit("the key of an index"));
        }
        schema.extend_from_slice(&[index.table, index.bytes]);
        schema.extend_from_slice(&index.at.to_le_bytes());
    }
    Ok(schema)
}

/// The widths and indexes in an authenticated schema.
pub(crate) fn decode_schema(schema: &[u8]) -> (Vec<u16>, Vec<IndexKey>) {
    let tables = u32_at(schema, 0) as usize;
    let widths = part(schema, 4, tables * 2)
        .chunks_exact(2)
        .map(|bytes| u16_at(bytes, 0));
    let rest = schema.get(4 + tables * 2..).unwrap_or(&[]);
    let indexes = rest.chunks_exact(4).filter_map(|bytes| match bytes {
        [table, length, low, high] => {
            let at = u16::from_le_bytes([*low, *high]);
            Some(IndexKey {
                table: *table,
                at,
                bytes: *length,
            })
        }
        _ => None,
    });
    (widths.collect(), indexes.collect())
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Begins a search for the rows whose indexed part is `key`.
    ///
    /// # Errors
    /// [`Error::Name`] for an index that is not there, [`Error::Value`] for a key of another
    /// length.
    pub fn search(&self, index: usize, key: &[u8]) -> Result<Cursor> {
        let unknown = || Error::Name(alloc::format!("there is no index {index}"));
        let layout = self.indexes.get(index).copied().ok_or_else(unknown)?;
        if key.len() != usize::from(layout.bytes) {
            let text = alloc::format!("a key of index {index} has {} bytes", layout.bytes);
            return Err(Error::Value(text));
        }
        let below = self.count(usize::from(layout.table)).saturating_add(1);
        Ok(Cursor {
            index,
            key: key.to_vec(),
            below,
            next: Next::Waiting,
            cover: 0,
        })
    }

    /// The next id that `cursor` finds, always smaller than the one before.
    ///
    /// # Errors
    /// [`Error::Tampered`] when a page is not the one that was written.
    pub fn next(&mut self, cursor: &mut Cursor) -> Result<Option<u32>> {
        self.usable()?;
        let table = self.index_table(cursor.index)?;
        loop {
            let found = match cursor.next {
                Next::End => return Ok(None),
                Next::Waiting => self.next_waiting(cursor, table)?,
                Next::Unit(unit) => self.next_in_units(cursor, unit)?,
                Next::Chain(row) => self.next_in_chain(cursor, row)?,
            };
            if let Some(id) = found
                && id < cursor.below
            {
                cursor.below = id;
                return Ok(Some(id));
            }
        }
    }

    /// The indexes of `table`, by their number.
    pub(crate) fn indexes_of(&self, table: usize) -> impl Iterator<Item = usize> + '_ {
        let own = move |(_, key): &(usize, &IndexKey)| usize::from(key.table) == table;
        self.indexes
            .iter()
            .enumerate()
            .filter(own)
            .map(|(number, _)| number)
    }

    /// Builds and programs the pair of pages of every index, behind the rows of a new unit.
    pub(crate) fn place_indexes(
        &mut self,
        table: usize,
        unit: u32,
        start: u32,
        epoch: u64,
    ) -> Result<()> {
        let mut page = start;
        for index in 0..self.indexes.len() {
            if self.index_table(index)? != table {
                continue;
            }
            self.build_pair(table, unit, index, epoch)?;
            let first = data_identity(page, epoch, table, unit);
            self.program_unit_page(
                &PageIdentity {
                    role: ROLE_KEY,
                    ..first
                },
                false,
            )?;
            let second = data_identity(page + 1, epoch, table, unit);
            self.program_unit_page(
                &PageIdentity {
                    role: ROLE_FILTER,
                    ..second
                },
                true,
            )?;
            page += 2;
        }
        Ok(())
    }

    /// Fills the two pages being built with tags, filters and pointers of one index.
    fn build_pair(&mut self, table: usize, unit: u32, index: usize, epoch: u64) -> Result<()> {
        self.open_page.fill(0);
        self.work_page.fill(0);
        self.carry_filters(unit, index)?;
        for at in (UNIT_ROWS as usize * TAG_BYTES..PAYLOAD_BYTES).step_by(MAC_BYTES) {
            // The rest of the page looks like tags: nothing tells where they end.
            let noise = self.seal.tag(
                NOISE_DOMAIN | index as u64,
                epoch,
                &narrow(at).to_le_bytes(),
            );
            put(&mut self.open_page, at, &noise);
        }
        let unknown = Error::Limit("the number of indexes");
        let layout = self.indexes.get(index).copied().ok_or(unknown)?;
        let mut row = vec_of(usize::from(self.width(table)?));
        for slot in 0..UNIT_ROWS {
            let rank = unit * UNIT_ROWS + slot;
            self.read_waiting(table, rank + 1, &mut row)?;
            let key = part(&row, usize::from(layout.at), usize::from(layout.bytes));
            let tag = self.seal.tag(index as u64, epoch, key);
            let distance = if let Some(before) = find_tag(&self.open_page, &tag, slot) {
                // Only the last occurrence keeps its tag: no two are ever equal.
                let noise =
                    self.seal
                        .tag(NOISE_DOMAIN | index as u64, epoch, &before.to_le_bytes());
                put(
                    &mut self.open_page,
                    before as usize * TAG_BYTES,
                    part(&noise, 0, TAG_BYTES),
                );
                slot - before
            } else {
                self.find_behind(unit, index, key)?
                    .map_or(0, |found| rank - found)
            };
            put(
                &mut self.open_page,
                slot as usize * TAG_BYTES,
                part(&tag, 0, TAG_BYTES),
            );
            for position in self.positions(index, key) {
                set_bit(&mut self.work_page, position);
            }
            set_pointer(&mut self.work_page, slot, distance);
        }
        Ok(())
    }

    /// Takes over the filters and pointers of the units just before `unit`.
    fn carry_filters(&mut self, unit: u32, index: usize) -> Result<()> {
        let Some(before) = unit.checked_sub(1) else {
            return Ok(());
        };
        let kept = FILTER_UNITS as usize - 1;
        let frame = self.load_index_page(before, index, ROLE_FILTER)?;
        let Self {
            frames, work_page, ..
        } = self;
        let page = frames.get(frame).map_or(&[][..], |frame| &frame.bytes);
        put(work_page, FILTER_BYTES, part(page, 0, kept * FILTER_BYTES));
        let pointers = part(page, POINTERS_AT, kept * POINTER_BYTES);
        put(work_page, POINTERS_AT + POINTER_BYTES, pointers);
        Ok(())
    }

    /// The newest row with `key` in the [`FILTER_UNITS`] units before `unit`.
    fn find_behind(&mut self, unit: u32, index: usize, key: &[u8]) -> Result<Option<u32>> {
        match unit.checked_sub(1) {
            Some(before) => self.find_in_cover(before, index, key),
            None => Ok(None),
        }
    }

    /// The newest row with `key` in `unit` and the other units that its filter page covers.
    fn find_in_cover(&mut self, unit: u32, index: usize, key: &[u8]) -> Result<Option<u32>> {
        let positions = self.positions(index, key);
        let table = self.index_table(index)?;
        for back in 0..FILTER_UNITS.min(unit + 1) {
            let frame = self.load_index_page(unit, index, ROLE_FILTER)?;
            let filter = part(
                self.frame(frame),
                back as usize * FILTER_BYTES,
                FILTER_BYTES,
            );
            if !positions.iter().all(|&position| has_bit(filter, position)) {
                continue;
            }
            let (_, epoch) = self.unit_place(table, unit - back)?;
            let tag = self.seal.tag(index as u64, epoch, key);
            let frame = self.load_index_page(unit - back, index, ROLE_KEY)?;
            if let Some(slot) = find_tag(self.frame(frame), &tag, UNIT_ROWS) {
                return Ok(Some((unit - back) * UNIT_ROWS + slot));
            }
        }
        Ok(None)
    }

    fn index_table(&self, index: usize) -> Result<usize> {
        let layout = self
            .indexes
            .get(index)
            .ok_or(Error::Limit("the number of indexes"))?;
        Ok(usize::from(layout.table))
    }

    fn load_index_page(&mut self, unit: u32, index: usize, role: u8) -> Result<usize> {
        let table = self.index_table(index)?;
        let rank = narrow(
            self.indexes_of(table)
                .take_while(|&number| number < index)
                .count(),
        );
        let (start, epoch) = self.unit_place(table, unit)?;
        let pair = start + data_pages(usize::from(self.width(table)?)) + 2 * rank;
        let page = if role == ROLE_KEY { pair } else { pair + 1 };
        self.load(&PageIdentity {
            role,
            ..data_identity(page, epoch, table, unit)
        })
    }

    /// The bits of `key` in every filter of `index`.
    fn positions(&mut self, index: usize, key: &[u8]) -> [usize; FILTER_HASHES] {
        let hash = self.seal.tag(FILTER_DOMAIN | index as u64, 0, key);
        core::array::from_fn(|part| u32_at(&hash, part * 4) as usize % (FILTER_BYTES * 8))
    }

    fn next_waiting(&mut self, cursor: &mut Cursor, table: usize) -> Result<Option<u32>> {
        let id = cursor.below.saturating_sub(1);
        if id <= self.placed(table) {
            cursor.next = id
                .checked_sub(1)
                .map_or(Next::End, |row| Next::Unit(row / UNIT_ROWS));
            return Ok(None);
        }
        let mut row = vec_of(usize::from(self.width(table)?));
        self.read_waiting(table, id, &mut row)?;
        let at = self
            .indexes
            .get(cursor.index)
            .map_or(0, |layout| usize::from(layout.at));
        if part(&row, at, cursor.key.len()) == cursor.key {
            return Ok(Some(id));
        }
        cursor.below = id;
        Ok(None)
    }

    fn next_in_units(&mut self, cursor: &mut Cursor, unit: u32) -> Result<Option<u32>> {
        cursor.cover = unit;
        let found = self.find_in_cover(unit, cursor.index, &cursor.key)?;
        let further = unit.checked_sub(FILTER_UNITS).map_or(Next::End, Next::Unit);
        cursor.next = found.map_or(further, Next::Chain);
        Ok(found.map(|row| row + 1))
    }

    fn next_in_chain(&mut self, cursor: &mut Cursor, row: u32) -> Result<Option<u32>> {
        let unit = row / UNIT_ROWS;
        if unit > cursor.cover || cursor.cover - unit >= FILTER_UNITS {
            cursor.cover = unit;
        }
        let frame = self.load_index_page(cursor.cover, cursor.index, ROLE_FILTER)?;
        let at = POINTERS_AT + (cursor.cover - unit) as usize * POINTER_BYTES;
        let distance = pointer(part(self.frame(frame), at, POINTER_BYTES), row % UNIT_ROWS);
        if distance == 0 {
            let behind = unit.checked_sub(FILTER_UNITS + 1);
            cursor.next = behind.map_or(Next::End, Next::Unit);
            return Ok(None);
        }
        let before = row.saturating_sub(distance);
        cursor.next = Next::Chain(before);
        Ok(Some(before + 1))
    }
}

/// The last of the first `slots` slots that holds `tag`.
fn find_tag(page: &[u8], tag: &[u8; 16], slots: u32) -> Option<u32> {
    let mut tags = part(page, 0, slots as usize * TAG_BYTES).chunks_exact(TAG_BYTES);
    tags.rposition(|slot| tag.starts_with(slot)).map(narrow)
}

fn set_bit(filter: &mut [u8], position: usize) {
    if let Some(byte) = filter.get_mut(position / 8) {
        *byte |= 1 << (position % 8);
    }
}

fn has_bit(filter: &[u8], position: usize) -> bool {
    filter
        .get(position / 8)
        .is_some_and(|byte| byte & (1 << (position % 8)) != 0)
}

/// Writes the 12 bits of one pointer of the newest unit of a filter page.
fn set_pointer(page: &mut [u8], slot: u32, distance: u32) {
    debug_assert!(
        distance < 1 << 12,
        "the bound keeps distances under 12 bits"
    );
    let at = POINTERS_AT + slot as usize * 3 / 2;
    let shift = 4 * (slot % 2);
    let both = u32::from(u16_at(page, at)) | (distance & 0xFFF) << shift;
    put(page, at, part(&both.to_le_bytes(), 0, 2));
}

/// Reads the 12 bits of one pointer.
fn pointer(pointers: &[u8], slot: u32) -> u32 {
    let at = slot as usize * 3 / 2;
    (u32::from(u16_at(pointers, at)) >> (4 * (slot % 2))) & 0xFFF
}
