//! Value indexes over units: key tags, Bloom filters and bounded chains of pointers.
//!
//! "Index" in `docs/pocketdb-format.md`. A row's pointer leads to the preceding row with the same key.
//! That row must be in the same unit or in the [`FILTER_UNITS`] units before. A pointer of zero
//! means that those units contain none, so a search continues before them.

use crate::error::{Error, Result};
use crate::limits::{FILTER_UNITS, KEY_BYTES_MAX, UNIT_ROWS};
use crate::pager::Pager;
use crate::pager::bytes::{has_bit, narrow, part, part_mut, short, small, take, u16_at};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::{KeyHash, PageIdentity, ROLE_FILTER, ROLE_KEY, TAG_BYTES};
use crate::tables::base::{Base, data_identity, owner_of};
use crate::tables::catalogue::{Catalogue, ID, Index, OWN};
use crate::tables::change::Tables;
use crate::tables::id::{ColumnId, ID_BYTES, RowId, TableId};
use crate::tables::keys::Listing;
use crate::tables::rows::pages_for;
use crate::tables::store::Store;

/// Bytes of one unit's filter: 16 bits for each row.
pub(super) const FILTER_BYTES: usize = UNIT_ROWS as usize * 2;
/// Bits that a key sets in its filter.
const FILTER_HASHES: u32 = 4;
/// Bytes of one unit's pointers, 12 bits each.
pub(super) const POINTER_BYTES: usize = UNIT_ROWS as usize * 3 / 2;
/// Offset of the pointers in a filter page.
pub(super) const POINTERS_AT: usize = FILTER_UNITS as usize * FILTER_BYTES;

/// A search for one key in the units of an index, from the newest row to the oldest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    index: Index,
    /// The index's rank among those of its table.
    rank: u16,
    pub(super) hash: KeyHash,
    next: Next,
    /// Unit of the last filter page used.
    cover: u32,
}

impl Cursor {
    /// Begins a search in units among the first `rows` rows.
    pub(crate) fn new<F: Nand, S: SecureStore>(
        base: &Base<F, S>,
        number: usize,
        hash: KeyHash,
        rows: u32,
    ) -> Result<Self> {
        let index = base.catalogue.index(number)?;
        let table = index.table;
        let first = base.catalogue.indexes_of(table).start;
        let rows = rows.min(base.placed(table));
        Ok(Self {
            index,
            rank: number_of(number - first),
            hash,
            next: rows
                .checked_sub(1)
                .map_or(Next::End, |row| Next::Unit(row / UNIT_ROWS)),
            cover: 0,
        })
    }

    /// Returns the next id in units, of rows that are in no reorganised part.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
    ) -> Result<Option<RowId>> {
        let reorganized = base.part_rows(self.index.table);
        loop {
            let found = match self.next {
                Next::End => return Ok(None),
                Next::Unit(unit) if unit < reorganized / UNIT_ROWS => None,
                Next::Unit(unit) => self.in_units(base, unit)?,
                Next::Chain(row) => self.in_chain(base, row)?,
            };
            match (found, self.next) {
                (Some(id), _) if !id.is_within(reorganized) => return Ok(found),
                (Some(_), _) => self.next = Next::End,
                (None, Next::Unit(unit)) if unit < reorganized / UNIT_ROWS => {
                    self.next = Next::End;
                }
                (None, _) => {}
            }
        }
    }

    fn in_units<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
        unit: u32,
    ) -> Result<Option<RowId>> {
        self.cover = unit;
        let found = self.in_cover(base, unit)?;
        // The filter page covered the units before, down to this one.
        let further = unit.checked_sub(FILTER_UNITS).map_or(Next::End, Next::Unit);
        self.next = found.map_or(further, Next::Chain);
        Ok(found.map(RowId::after))
    }

    fn in_chain<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
        row: u32,
    ) -> Result<Option<RowId>> {
        let unit = row / UNIT_ROWS;
        // A filter page has the pointers of three units: it serves until the chain leaves them.
        if unit > self.cover || self.cover - unit >= FILTER_UNITS {
            self.cover = unit;
        }
        let table = self.index.table;
        let rank = usize::from(self.rank);
        let frame = load_page(base, table, self.cover, rank, ROLE_FILTER)?;
        let at = POINTERS_AT + (self.cover - unit) as usize * POINTER_BYTES;
        let pointers = part(base.pager.arena.page(frame), at, POINTER_BYTES);
        let distance = pointer(pointers, row % UNIT_ROWS);
        // No row with the key in this unit and the three before: those were searched at insertion.
        if distance == 0 {
            let behind = unit.checked_sub(FILTER_UNITS + 1);
            self.next = behind.map_or(Next::End, Next::Unit);
            return Ok(None);
        }
        let outside = Error::Defect("a pointer leads to a row of its index");
        let before = row.checked_sub(distance).ok_or(outside)?;
        self.next = Next::Chain(before);
        Ok(Some(RowId::after(before)))
    }

    /// Returns the newest row with the key, counted from zero, in the units of `unit`'s filter page.
    pub(super) fn in_cover<F: Nand, S: SecureStore>(
        &self,
        base: &mut Base<F, S>,
        unit: u32,
    ) -> Result<Option<u32>> {
        let table = self.index.table;
        let rank = usize::from(self.rank);
        // The units before are in the reorganised parts.
        let units = (unit + 1).saturating_sub(base.first_unit(table));
        for back in 0..FILTER_UNITS.min(units) {
            let frame = load_page(base, table, unit, rank, ROLE_FILTER)?;
            let at = back as usize * FILTER_BYTES;
            let filter = part(base.pager.arena.page(frame), at, FILTER_BYTES);
            if !positions(&self.hash).all(|position| has_bit(filter, position)) {
                continue;
            }
            let epoch = base.pager.root.entry(owner_of(table), unit - back)?.epoch;
            let tag = base.pager.root.seal.tag(&self.hash, epoch);
            let frame = load_page(base, table, unit - back, rank, ROLE_KEY)?;
            if let Some(slot) = find_tag(base.pager.arena.page(frame), &tag) {
                return Ok(Some((unit - back) * UNIT_ROWS + slot));
            }
        }
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy)]
enum Next {
    /// Search filters from this unit down.
    Unit(u32),
    /// Follow the pointer of this row, counted from zero.
    Chain(u32),
    /// The search has ended.
    End,
}

/// A search for the rows whose indexed value is a key, from the newest to the oldest.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// From now on only smaller ids in the buffer are found.
    below: u32,
    cursor: Option<Cursor>,
    index: u16,
    hash: KeyHash,
    listing: Listing,
    /// The reorganisation that created the parts of the listing.
    instance: u32,
}

impl Search {
    /// Begins a search within an operation.
    pub(crate) fn new<F: Nand, S: SecureStore>(
        base: &mut Base<F, S>,
        index: usize,
        key: &[u8],
    ) -> Result<Self> {
        let entry = base.catalogue.index(index)?;
        let bytes = key_bytes(&base.catalogue, entry)?;
        if key.len() != bytes {
            let text = alloc::format!("a key of index {index} has {bytes} bytes");
            return Err(Error::Value(text));
        }
        Ok(Self {
            below: base.count(entry.table).saturating_add(1),
            cursor: None,
            index: number_of(index),
            hash: base.pager.root.seal.hash(number_of(index), trimmed(key)),
            listing: Listing::of(base, index, key)?,
            instance: base.instance(),
        })
    }

    /// Continues a search within an operation.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
    ) -> Result<Option<RowId>> {
        let index = base.catalogue.index(usize::from(self.index))?;
        let table = index.table;
        while self.cursor.is_none() {
            let rows = self.below - 1;
            if rows <= base.settled(table) {
                self.cursor = Some(Cursor::new(base, usize::from(self.index), self.hash, rows)?);
                break;
            }
            self.below = rows;
            let id = RowId::new(rows);
            if hash_row(base, self.index, index, id)? == self.hash {
                return Ok(Some(id));
            }
        }
        // Rows that were moved to units meanwhile were found while they were in the buffer.
        while let Some(cursor) = &mut self.cursor {
            match cursor.next(base)? {
                Some(id) if id.number() >= self.below => {}
                Some(id) => return Ok(Some(id)),
                None => break,
            }
        }
        self.listing.next(&mut base.pager)
    }
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Begins a search for the rows of `index`'s table whose indexed value is `key`.
    ///
    /// # Errors
    /// [`Error::Name`] for an index that does not exist, [`Error::Value`] for a key of another
    /// length.
    pub fn search(&mut self, index: usize, key: &[u8]) -> Result<Search> {
        self.usable()?;
        Search::new(&mut self.tables.base, index, key)
    }

    /// Returns the next id that `search` finds, always smaller than the one before.
    ///
    /// # Errors
    /// [`Error::Tampered`] when a page is not the one that was written, [`Error::Refused`] after
    /// a reorganisation.
    pub fn next(&mut self, search: &mut Search) -> Result<Option<RowId>> {
        self.usable()?;
        if search.instance != self.tables.base.instance() {
            let what = "going on with a search from before a reorganisation";
            return Err(Error::Refused(what.into()));
        }
        search.next(&mut self.tables.base)
    }

    /// Returns the number of the index of `table` on `column` of `source`, which is the
    /// table itself or one that it references. Without a column, the index on the ids of `source`.
    pub fn index(
        &self,
        table: TableId,
        source: TableId,
        column: Option<ColumnId>,
    ) -> Option<usize> {
        let column = column.unwrap_or(ID);
        if source == table {
            return self.tables.base.catalogue.find_index(table, OWN, column);
        }
        let mut slots = self.tables.base.catalogue.slots_of(table).iter();
        let slot = slots.position(|slot| slot.table == source)?;
        self.tables
            .base
            .catalogue
            .find_index(table, small(slot), column)
    }
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Hashes a value for a unit.
    ///
    /// While a new part is built that includes updates, the units after it must use the updated
    /// values too. Rows are found with either value, because updates lead to their rows by
    /// themselves.
    pub(crate) fn hash_placed(
        &mut self,
        number: u16,
        table: TableId,
        column: ColumnId,
        id: RowId,
    ) -> Result<KeyHash> {
        if column == ID || !self.base.pager.root.committed.part.building {
            return hash_value(&mut self.base, number, table, column, id);
        }
        let entry = self.base.catalogue.column_at(table, column)?;
        let mut value = [0u8; KEY_BYTES_MAX];
        let value = part_mut(&mut value, 0, usize::from(entry.width));
        self.latest(table, id, column, &entry, value)?;
        Ok(self.base.pager.root.seal.hash(number, trimmed(value)))
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Returns the number of rows of `table` that are in units or in reorganised parts.
    pub(crate) fn settled(&self, table: TableId) -> u32 {
        self.placed(table).max(self.part_rows(table))
    }
}

/// Converts an index number to the form that is hashed.
pub(crate) fn number_of(index: usize) -> u16 {
    short(index)
}

/// Returns a value without its trailing zeros.
pub(crate) fn trimmed(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|&byte| byte != 0);
    part(value, 0, end.map_or(0, |end| end + 1))
}

/// Returns the bits of a key in every filter of its index.
pub(super) fn positions(hash: &KeyHash) -> impl Iterator<Item = usize> {
    let (start, step) = (word24(hash, TAG_BYTES), word24(hash, TAG_BYTES + 3) | 1);
    let bits = narrow(FILTER_BYTES * 8);
    (0..FILTER_HASHES).map(move |number| ((start + number * step) % bits) as usize)
}

fn word24(hash: &KeyHash, at: usize) -> u32 {
    let [a, b, c] = take(hash, at);
    u32::from_le_bytes([a, b, c, 0])
}

/// Returns the slot that contains `tag`.
fn find_tag(page: &[u8], tag: &[u8; TAG_BYTES]) -> Option<u32> {
    let mut tags = part(page, 0, UNIT_ROWS as usize * TAG_BYTES).chunks_exact(TAG_BYTES);
    tags.position(|slot| slot == tag).map(narrow)
}

/// Reads the 12 bits of one pointer.
fn pointer(pointers: &[u8], slot: u32) -> u32 {
    let at = slot as usize * 3 / 2;
    (u32::from(u16_at(pointers, at)) >> (4 * (slot % 2))) & 0xFFF
}

/// Returns the length of a key of an index, in bytes.
pub(crate) fn key_bytes(catalogue: &Catalogue, index: Index) -> Result<usize> {
    let (table, column) = catalogue.source(index)?;
    if column == ID {
        return Ok(ID_BYTES);
    }
    let column = catalogue.column_at(table, column)?;
    Ok(usize::from(column.width))
}

/// Hashes the indexed value of one row.
fn hash_row<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    number: u16,
    index: Index,
    id: RowId,
) -> Result<KeyHash> {
    let own = index.table;
    let (table, column) = base.catalogue.source(index)?;
    let id = if index.slot == OWN {
        id
    } else {
        base.join_id(own, id, usize::from(index.slot))?
    };
    hash_value(base, number, table, column, id)
}

fn hash_value<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    number: u16,
    table: TableId,
    column: ColumnId,
    id: RowId,
) -> Result<KeyHash> {
    if column == ID {
        return Ok(hash_id(&mut base.pager, number, id));
    }
    let column = base.catalogue.column_at(table, column)?;
    let mut value = [0u8; KEY_BYTES_MAX];
    let value = part_mut(&mut value, 0, usize::from(column.width));
    base.value(table, id, &column, value)?;
    Ok(base.pager.root.seal.hash(number, trimmed(value)))
}

/// Hashes a row id.
pub(crate) fn hash_id<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    number: u16,
    id: RowId,
) -> KeyHash {
    pager.root.seal.hash(number, trimmed(&id.to_le_bytes()))
}

pub(super) fn load_page<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    table: TableId,
    unit: u32,
    rank: usize,
    role: u8,
) -> Result<usize> {
    let (own, all) = base.catalogue.widths(table);
    let entry = base.pager.root.entry(owner_of(table), unit)?;
    let pair = entry.page + pages_for(own) + pages_for(all - own) + 2 * narrow(rank);
    let page = if role == ROLE_KEY { pair } else { pair + 1 };
    Ok(base.pager.load(&PageIdentity {
        role,
        ..data_identity(page, entry.epoch, table, unit)
    })?)
}
