//! Value indexes over units: key tags, Bloom filters and bounded chains of pointers.
//!
//! "Index" in `docs/pocketdb-format.md`. A row's pointer leads to the preceding row with the same key.
//! That row must be in the same unit or in the [`FILTER_UNITS`] units before. A pointer of zero
//! means that those units contain none, so a search continues before them.

use crate::error::{Error, Result};
use crate::limits::{FILTER_UNITS, KEY_BYTES_MAX, UNIT_ROWS};
use crate::pager::arena::Area;
use crate::pager::bytes::{
    has_bit, narrow, part, part_mut, put, set_bit, short, small, take, u16_at,
};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::{KeyHash, PAYLOAD_BYTES, PageIdentity, ROLE_FILTER, ROLE_KEY, TAG_BYTES};
use crate::tables::base::{Base, data_identity, owner_of};
use crate::tables::catalogue::{ID, Index, OWN};
use crate::tables::change::Tables;
use crate::tables::hashes::{HASH_BYTES, Hashes};
use crate::tables::id::{ColumnId, ID_BYTES, RowId, TableId};
use crate::tables::keys::Listing;
use crate::tables::rows::pages_for;
use crate::tables::store::Store;
use crate::tables::unit::Site;

/// Bytes of one unit's filter: 16 bits for each row.
const FILTER_BYTES: usize = UNIT_ROWS as usize * 2;
/// Bits that a key sets in its filter.
const FILTER_HASHES: u32 = 4;
/// Bytes of one unit's pointers, 12 bits each.
const POINTER_BYTES: usize = UNIT_ROWS as usize * 3 / 2;
/// Offset of the pointers in a filter page.
const POINTERS_AT: usize = FILTER_UNITS as usize * FILTER_BYTES;
/// The value for no slot; a unit has fewer slots.
const NO_SLOT: u8 = u8::MAX;

/// A search for one key in the units of an index, from the newest row to the oldest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    index: Index,
    /// The index's rank among those of its table.
    rank: u16,
    hash: KeyHash,
    next: Next,
    /// Unit of the last filter page used.
    cover: u32,
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

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Begins a search for the rows of `index`'s table whose indexed value is `key`.
    ///
    /// # Errors
    /// [`Error::Name`] for an index that does not exist, [`Error::Value`] for a key of another
    /// length.
    pub fn search(&mut self, index: usize, key: &[u8]) -> Result<Search> {
        self.usable()?;
        self.tables.base.begin_search(index, key)
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
        self.tables.base.next_found(search)
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
        if column == ID || !self.base.pager.committed.part.building {
            return self.base.hash_value(number, table, column, id);
        }
        let entry = self.base.catalogue.column_at(table, column)?;
        let mut value = [0u8; KEY_BYTES_MAX];
        let value = part_mut(&mut value, 0, usize::from(entry.width));
        self.latest(table, id, column, &entry, value)?;
        Ok(self.base.pager.seal.hash(number, trimmed(value)))
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Begins a search within an operation.
    pub(crate) fn begin_search(&mut self, index: usize, key: &[u8]) -> Result<Search> {
        let entry = self.catalogue.index(index)?;
        let bytes = self.key_bytes(entry)?;
        if key.len() != bytes {
            let text = alloc::format!("a key of index {index} has {bytes} bytes");
            return Err(Error::Value(text));
        }
        Ok(Search {
            below: self.count(entry.table).saturating_add(1),
            cursor: None,
            index: number_of(index),
            hash: self.pager.seal.hash(number_of(index), trimmed(key)),
            listing: self.listing(index, key)?,
            instance: self.instance(),
        })
    }

    /// Continues a search within an operation.
    pub(crate) fn next_found(&mut self, search: &mut Search) -> Result<Option<RowId>> {
        let index = self.catalogue.index(usize::from(search.index))?;
        let table = index.table;
        while search.cursor.is_none() {
            let rows = search.below - 1;
            if rows <= self.settled(table) {
                search.cursor = Some(self.cursor(usize::from(search.index), search.hash, rows)?);
                break;
            }
            search.below = rows;
            let id = RowId::new(rows);
            if self.hash_row(search.index, index, id)? == search.hash {
                return Ok(Some(id));
            }
        }
        // Rows that were moved to units meanwhile were found while they were in the buffer.
        while let Some(cursor) = &mut search.cursor {
            match self.advance(cursor)? {
                Some(id) if id.number() >= search.below => {}
                Some(id) => return Ok(Some(id)),
                None => break,
            }
        }
        self.next_listed(&mut search.listing)
    }

    /// Returns the number of rows of `table` that are in units or in reorganised parts.
    pub(crate) fn settled(&self, table: TableId) -> u32 {
        self.placed(table).max(self.part_rows(table))
    }

    /// Returns the length of a key of an index, in bytes.
    pub(crate) fn key_bytes(&self, index: Index) -> Result<usize> {
        let (table, column) = self.catalogue.source(index)?;
        if column == ID {
            return Ok(ID_BYTES);
        }
        let column = self.catalogue.column_at(table, column)?;
        Ok(usize::from(column.width))
    }

    /// Hashes the indexed value of one row.
    fn hash_row(&mut self, number: u16, index: Index, id: RowId) -> Result<KeyHash> {
        let own = index.table;
        let (table, column) = self.catalogue.source(index)?;
        let id = if index.slot == OWN {
            id
        } else {
            self.join_id(own, id, usize::from(index.slot))?
        };
        self.hash_value(number, table, column, id)
    }

    /// Hashes a row id.
    pub(crate) fn hash_id(&mut self, number: u16, id: RowId) -> KeyHash {
        self.pager.seal.hash(number, trimmed(&id.to_le_bytes()))
    }

    fn hash_value(
        &mut self,
        number: u16,
        table: TableId,
        column: ColumnId,
        id: RowId,
    ) -> Result<KeyHash> {
        if column == ID {
            return Ok(self.hash_id(number, id));
        }
        let column = self.catalogue.column_at(table, column)?;
        let mut value = [0u8; KEY_BYTES_MAX];
        let value = part_mut(&mut value, 0, usize::from(column.width));
        self.value(table, id, &column, value)?;
        Ok(self.pager.seal.hash(number, trimmed(value)))
    }

    /// Begins a search in units among the first `rows` rows.
    pub(crate) fn cursor(&self, number: usize, hash: KeyHash, rows: u32) -> Result<Cursor> {
        let index = self.catalogue.index(number)?;
        let table = index.table;
        let first = self.catalogue.indexes_of(table).start;
        let rows = rows.min(self.placed(table));
        Ok(Cursor {
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
    pub(crate) fn advance(&mut self, cursor: &mut Cursor) -> Result<Option<RowId>> {
        let reorganized = self.part_rows(cursor.index.table);
        loop {
            let found = match cursor.next {
                Next::End => return Ok(None),
                Next::Unit(unit) if unit < reorganized / UNIT_ROWS => None,
                Next::Unit(unit) => self.next_in_units(cursor, unit)?,
                Next::Chain(row) => self.next_in_chain(cursor, row)?,
            };
            match (found, cursor.next) {
                (Some(id), _) if !id.is_within(reorganized) => return Ok(found),
                (Some(_), _) => cursor.next = Next::End,
                (None, Next::Unit(unit)) if unit < reorganized / UNIT_ROWS => {
                    cursor.next = Next::End;
                }
                (None, _) => {}
            }
        }
    }

    /// Builds and programs the pair of pages of one index, given the hashes of the unit's rows.
    #[inline(never)] // Keeps its local variables off the stack while hashes are made.
    pub(crate) fn build_index(
        &mut self,
        site: &mut Site,
        number: usize,
        hashes: Hashes,
        pair: Area,
    ) -> Result<()> {
        self.build_pair(site, number, hashes, pair)?;
        self.program_unit_page(site, ROLE_KEY, pair, 0)?;
        self.program_unit_page(site, ROLE_FILTER, pair, 1)
    }

    /// Fills the two pages of `pair` with the tags, filters and pointers of one index.
    fn build_pair(
        &mut self,
        site: &Site,
        number: usize,
        (hashes, at): Hashes,
        pair: Area,
    ) -> Result<()> {
        self.pager.arena.area_mut(pair).fill(0);
        let before = site.unit.checked_sub(1);
        let mut behind = match before.filter(|&unit| unit >= self.first_unit(site.table)) {
            Some(before) => {
                let first = self.catalogue.indexes_of(site.table).start;
                self.carry_filters(site.table, before, number - first, pair)?;
                Some(self.cursor(number, [0; HASH_BYTES], site.unit * UNIT_ROWS)?)
            }
            None => None,
        };
        // Within the unit the rows find each other in memory; only a key's first row looks back.
        let mut seen = Seen::new();
        for slot in 0..UNIT_ROWS {
            let hash_at = at + slot as usize * HASH_BYTES;
            let area = self.pager.arena.area(hashes);
            let hash: KeyHash = take(area, hash_at);
            let same =
                |other: u8| part(area, at + usize::from(other) * HASH_BYTES, HASH_BYTES) == hash;
            let row = site.unit * UNIT_ROWS + slot;
            let distance = match seen.insert(slot, &hash, same) {
                Some(before) => slot - u32::from(before),
                None => match &mut behind {
                    Some(cursor) => {
                        cursor.hash = hash;
                        let found = self.find_in_cover(cursor, site.unit - 1)?;
                        found.map_or(0, |found| row - found)
                    }
                    None => 0,
                },
            };
            let filter = self.pager.arena.area_page(pair, 1);
            positions(&hash).for_each(|position| set_bit(filter, position));
            set_pointer(filter, slot, distance);
        }
        self.write_tags(site, number, &seen, (at, hashes), pair);
        Ok(())
    }

    /// Writes the tags of the rows that are the last with their key, and noise in the other slots.
    fn write_tags(
        &mut self,
        site: &Site,
        number: usize,
        seen: &Seen,
        (at, hashes): (usize, Area),
        pair: Area,
    ) {
        let slots = narrow(PAYLOAD_BYTES.div_ceil(TAG_BYTES));
        for slot in 0..slots {
            // One tag for each key: equal tags would show equal keys.
            let tag = if slot < UNIT_ROWS && seen.is_last(slot) {
                let hash = take(
                    self.pager.arena.area(hashes),
                    at + slot as usize * HASH_BYTES,
                );
                self.pager.seal.tag(&hash, site.epoch)
            } else {
                self.pager.seal.noise(number_of(number), slot, site.epoch)
            };
            let place = slot as usize * TAG_BYTES;
            let page = self.pager.arena.area_page(pair, 0);
            let room = PAYLOAD_BYTES.saturating_sub(place).min(TAG_BYTES);
            put(page, place, part(&tag, 0, room));
        }
    }

    /// Copies the filters and pointers of `before` and the units before it.
    fn carry_filters(
        &mut self,
        table: TableId,
        before: u32,
        rank: usize,
        pair: Area,
    ) -> Result<()> {
        let kept = FILTER_UNITS as usize - 1;
        let frame = self.load_index_page(table, before, rank, ROLE_FILTER)?;
        self.pager
            .arena
            .copy_to_page(frame, 0, kept * FILTER_BYTES, (pair, 1), FILTER_BYTES);
        let pointers = kept * POINTER_BYTES;
        let to = POINTERS_AT + POINTER_BYTES;
        self.pager
            .arena
            .copy_to_page(frame, POINTERS_AT, pointers, (pair, 1), to);
        Ok(())
    }

    /// Returns the newest row with the key, counted from zero, in the units of `unit`'s filter page.
    fn find_in_cover(&mut self, cursor: &Cursor, unit: u32) -> Result<Option<u32>> {
        let table = cursor.index.table;
        let rank = usize::from(cursor.rank);
        // The units before are in the reorganised parts.
        let units = (unit + 1).saturating_sub(self.first_unit(table));
        for back in 0..FILTER_UNITS.min(units) {
            let frame = self.load_index_page(table, unit, rank, ROLE_FILTER)?;
            let at = back as usize * FILTER_BYTES;
            let filter = part(self.pager.arena.page(frame), at, FILTER_BYTES);
            if !positions(&cursor.hash).all(|position| has_bit(filter, position)) {
                continue;
            }
            let epoch = self.pager.entry(owner_of(table), unit - back)?.epoch;
            let tag = self.pager.seal.tag(&cursor.hash, epoch);
            let frame = self.load_index_page(table, unit - back, rank, ROLE_KEY)?;
            if let Some(slot) = find_tag(self.pager.arena.page(frame), &tag) {
                return Ok(Some((unit - back) * UNIT_ROWS + slot));
            }
        }
        Ok(None)
    }

    fn load_index_page(
        &mut self,
        table: TableId,
        unit: u32,
        rank: usize,
        role: u8,
    ) -> Result<usize> {
        let (own, all) = self.catalogue.widths(table);
        let entry = self.pager.entry(owner_of(table), unit)?;
        let pair = entry.page + pages_for(own) + pages_for(all - own) + 2 * narrow(rank);
        let page = if role == ROLE_KEY { pair } else { pair + 1 };
        Ok(self.pager.load(&PageIdentity {
            role,
            ..data_identity(page, entry.epoch, table, unit)
        })?)
    }

    fn next_in_units(&mut self, cursor: &mut Cursor, unit: u32) -> Result<Option<RowId>> {
        cursor.cover = unit;
        let found = self.find_in_cover(cursor, unit)?;
        // The filter page covered the units before, down to this one.
        let further = unit.checked_sub(FILTER_UNITS).map_or(Next::End, Next::Unit);
        cursor.next = found.map_or(further, Next::Chain);
        Ok(found.map(RowId::after))
    }

    fn next_in_chain(&mut self, cursor: &mut Cursor, row: u32) -> Result<Option<RowId>> {
        let unit = row / UNIT_ROWS;
        // A filter page has the pointers of three units: it serves until the chain leaves them.
        if unit > cursor.cover || cursor.cover - unit >= FILTER_UNITS {
            cursor.cover = unit;
        }
        let table = cursor.index.table;
        let rank = usize::from(cursor.rank);
        let frame = self.load_index_page(table, cursor.cover, rank, ROLE_FILTER)?;
        let at = POINTERS_AT + (cursor.cover - unit) as usize * POINTER_BYTES;
        let pointers = part(self.pager.arena.page(frame), at, POINTER_BYTES);
        let distance = pointer(pointers, row % UNIT_ROWS);
        // No row with the key in this unit and the three before: those were searched at insertion.
        if distance == 0 {
            let behind = unit.checked_sub(FILTER_UNITS + 1);
            cursor.next = behind.map_or(Next::End, Next::Unit);
            return Ok(None);
        }
        let outside = Error::Defect("a pointer leads to a row of its index");
        let before = row.checked_sub(distance).ok_or(outside)?;
        cursor.next = Next::Chain(before);
        Ok(Some(RowId::after(before)))
    }
}

/// A hash table of a unit's slots by key, which finds equal keys.
struct Seen {
    first: [u8; 256],
    next: [u8; UNIT_ROWS as usize],
    last: [bool; UNIT_ROWS as usize],
}

impl Seen {
    fn new() -> Self {
        Self {
            first: [NO_SLOT; 256],
            next: [NO_SLOT; UNIT_ROWS as usize],
            last: [true; UNIT_ROWS as usize],
        }
    }

    /// Adds a slot; returns the last earlier slot for which `same` holds.
    fn insert(&mut self, slot: u32, hash: &KeyHash, same: impl Fn(u8) -> bool) -> Option<u8> {
        let [bucket, ..] = *hash;
        let number = u8::try_from(slot).unwrap_or(NO_SLOT);
        let head = self.first.get_mut(usize::from(bucket))?;
        let mut before = *head;
        if let Some(next) = self.next.get_mut(slot as usize) {
            *next = before;
        }
        *head = number;
        while before != NO_SLOT && !same(before) {
            before = self
                .next
                .get(usize::from(before))
                .copied()
                .unwrap_or(NO_SLOT);
        }
        let found = (before != NO_SLOT).then_some(before)?;
        if let Some(last) = self.last.get_mut(usize::from(found)) {
            *last = false;
        }
        Some(found)
    }

    fn is_last(&self, slot: u32) -> bool {
        self.last.get(slot as usize).copied().unwrap_or(false)
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
fn positions(hash: &KeyHash) -> impl Iterator<Item = usize> {
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

/// Writes the 12 bits of one pointer of the newest unit of a filter page.
fn set_pointer(page: &mut [u8], slot: u32, distance: u32) {
    assert!(
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
