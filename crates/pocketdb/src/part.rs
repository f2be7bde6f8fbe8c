//! Reorganised parts: rows by column groups, and for every index its keys in order.
//!
//! Section 10 of `docs/pocketdb.md`. A part is written once, to two logs: one for the lists of
//! ids, one for everything else. What begins where is in the secure store, one entry for each
//! section and index. Each part has a side, that is a set of owners and a generation of keys; there
//! is one side more than parts in use, so that the next one can be built beside them.

use crate::bytes::{narrow, part, u32_at};
use crate::catalogue::{Column, ID};
use crate::directory::{Entry, TEMPORARY};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, Nand};
use crate::limits::{COLUMNS_MAX, INDEXES_MAX, KEY_BYTES_MAX, PARTS_MAX, TABLES_MAX};
use crate::list::List;
use crate::root::SecureStore;
use crate::seal::{PAYLOAD_BYTES, ROLE_LIST, ROLE_PART};
use crate::store::{Store, rows_per_page};

/// Sides: one for each part in use and one for the part being built.
pub(crate) const SIDES: usize = PARTS_MAX + 1;
const SIDES_NUMBER: u8 = 4;
/// The first owner of the logs of a part and of the entries that say what begins where.
const BODIES: u8 = 18;
const LISTS: u8 = BODIES + SIDES_NUMBER;
const CONTENTS: u8 = LISTS + SIDES_NUMBER;
const _: () = assert!(
    SIDES == SIDES_NUMBER as usize
        && TABLES_MAX <= BODIES as usize
        && CONTENTS + SIDES_NUMBER <= TEMPORARY,
    "an owner is a table, one of these, or that of the temporary log"
);
/// The section that tells which rows of a table live, one bit each.
pub(crate) const LIVE: u32 = 0;
/// The section of join rows.
pub(crate) const JOINS: u32 = 1;
/// The section of the first group of columns.
pub(crate) const GROUPS: u32 = 2;
/// Sections that a table has at most.
pub(crate) const SECTIONS_MAX: u32 = 35;
const _: () = assert!(SECTIONS_MAX as usize == COLUMNS_MAX + GROUPS as usize + 1);
/// Rows whose bits one page holds.
pub(crate) const LIVE_PER_PAGE: u32 = 16_256;
const _: () = assert!(LIVE_PER_PAGE as usize == PAYLOAD_BYTES * 8);
/// Bytes of an id in a list, and of the number of ids before a key's.
pub(crate) const ID_BYTES: usize = 4;
/// Ids of one page of a list.
pub(crate) const IDS_PER_PAGE: u32 = 508;
const _: () = assert!(IDS_PER_PAGE as usize == PAYLOAD_BYTES / ID_BYTES);
/// Levels of an index at most: fifteen keys of the greatest width on a page of the upper ones.
const LEVELS_MAX: usize = 12;

/// The side whose owner of a log this is.
pub(crate) fn side_number(owner: u8) -> u8 {
    owner.wrapping_sub(BODIES) % SIDES_NUMBER
}

/// The numbers of all sides.
pub(crate) fn all_sides() -> core::ops::Range<u8> {
    0..SIDES_NUMBER
}

/// The owners of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Side {
    pub(crate) body: u8,
    pub(crate) lists: u8,
    pub(crate) contents: u8,
}

impl Side {
    /// The owners of side number `number`.
    pub(crate) fn new(number: u8) -> Self {
        let number = number % SIDES_NUMBER;
        Self {
            body: BODIES + number,
            lists: LISTS + number,
            contents: CONTENTS + number,
        }
    }

    /// All of them.
    pub(crate) fn owners(self) -> [u8; 3] {
        [self.body, self.lists, self.contents]
    }
}

/// What memory holds of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) side: Side,
    /// Rows of each table that are older than those of the part.
    first: [u32; TABLES_MAX],
    /// The last row of each table that the part holds; those between are in it, deleted ones included.
    rows: [u32; TABLES_MAX],
    /// Tables that lack some of them, one bit each.
    holes: u32,
}

impl Part {
    /// The last row of `table` in the part.
    pub(crate) fn rows(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Rows of `table` that are older than those of the part.
    pub(crate) fn first(&self, table: usize) -> u32 {
        self.first.get(table).copied().unwrap_or(0)
    }

    /// Rows of `table` in the part.
    pub(crate) fn own(&self, table: usize) -> u32 {
        self.rows(table).saturating_sub(self.first(table))
    }

    /// Where the part keeps rows of `table`.
    pub(crate) fn spot(&self, table: usize) -> Spot {
        Spot {
            side: self.side,
            first: self.first(table),
        }
    }

    /// Whether some rows of `table` in the part are deleted.
    pub(crate) fn has_holes(&self, table: usize) -> bool {
        self.holes >> table & 1 == 1
    }
}

/// Where a row of a part is: whose owners, and how many rows are older than the part's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) side: Side,
    first: u32,
}

impl Spot {
    /// The rank of the row `id` in the part.
    fn rank(self, id: u32) -> u32 {
        id.saturating_sub(self.first + 1)
    }
}

/// Ids of a piece of one list.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    lists: u8,
    /// First page of the list of the index.
    page: u32,
    next: u32,
    end: u32,
}

/// Ids of one key, the newest first, or of several keys, part by part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listing {
    /// Of every part, the newest first.
    pieces: [Piece; PARTS_MAX],
}

impl Listing {
    /// Ids left.
    pub(crate) fn left(&self) -> u32 {
        let left = |piece: &Piece| piece.end.saturating_sub(piece.next);
        self.pieces.iter().map(left).sum()
    }
}

/// Where an index is in a part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keys {
    /// First page of the records.
    pub(crate) page: u32,
    /// Different keys.
    pub(crate) count: u32,
    /// First page of the ids.
    pub(crate) list: u32,
    /// Bytes of a key.
    pub(crate) width: usize,
}

impl Keys {
    /// Records of one page: a key and how many ids are before its own.
    pub(crate) fn per_page(&self) -> u32 {
        narrow(PAYLOAD_BYTES / (self.width + ID_BYTES))
    }

    /// Pages of records; one record more than there are keys ends the last list.
    pub(crate) fn record_pages(&self) -> u32 {
        (self.count + 1).div_ceil(self.per_page())
    }

    /// Pages of the levels above the records, each with the first keys of the pages below.
    pub(crate) fn levels(&self) -> Result<List<u32, LEVELS_MAX>> {
        let mut levels = List::new();
        let per_page = narrow(PAYLOAD_BYTES / self.width.max(1));
        let mut below = self.count.div_ceil(self.per_page());
        while below > 1 {
            below = below.div_ceil(per_page);
            levels.push(below, "the levels of an index")?;
        }
        Ok(levels)
    }

    /// All pages but those of the ids.
    pub(crate) fn pages(&self) -> Result<u32> {
        Ok(self.record_pages() + self.levels()?.iter().sum::<u32>())
    }
}

/// The number of the entry of a section.
pub(crate) fn section_number(table: usize, section: u32) -> u32 {
    narrow(INDEXES_MAX) + narrow(table) * SECTIONS_MAX + section
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Rows of `table` in parts, those dropped from hidden tables included.
    pub(crate) fn part_rows(&self, table: usize) -> u32 {
        self.parts.last().map_or(0, |part| part.rows(table))
    }

    /// Rows of a hidden table that no part lacks any more.
    pub(crate) fn dropped(&self, table: usize) -> u32 {
        self.parts.first().map_or(0, |part| part.first(table))
    }

    /// Where a row is in a part; nothing when it came later than all parts.
    pub(crate) fn spot(&self, table: usize, id: u32) -> Option<Spot> {
        let part = self.parts.iter().find(|part| id <= part.rows(table))?;
        Some(part.spot(table))
    }

    /// The sides of the parts with rows of `table`, the newest first.
    fn sides_with(&self, table: usize) -> [Option<Side>; PARTS_MAX] {
        let mut sides = [None; PARTS_MAX];
        let parts = self.parts.iter().rev().filter(|part| part.own(table) > 0);
        for (place, part) in sides.iter_mut().zip(parts) {
            *place = Some(part.side);
        }
        sides
    }

    /// Reads what memory holds of the parts in use.
    pub(crate) fn read_parts(&mut self) -> Result<()> {
        self.parts = List::new();
        let state = self.committed.part;
        for level in state.live() {
            let part = self.read_part_state(Side::new(level.side))?;
            self.parts.push(part, "the number of parts")?;
        }
        Ok(())
    }

    /// Reads what memory holds of the part on `side`.
    pub(crate) fn read_part_state(&mut self, side: Side) -> Result<Part> {
        let mut found = Part {
            side,
            ..Part::default()
        };
        for table in 0..self.catalogue.len() {
            let Some(entry) = self.section(side, table, LIVE)? else {
                continue;
            };
            // The last row and those that are older than all; behind, whether some do not live.
            let (rows, first) = halves(entry.epoch);
            if let Some(place) = found.rows.get_mut(table) {
                *place = rows;
            }
            if let Some(place) = found.first.get_mut(table) {
                *place = first;
            }
            found.holes |= u32::from(entry.rows) << table;
        }
        Ok(found)
    }

    /// The entry of a section; nothing for a table that is younger than the part.
    pub(crate) fn section(
        &mut self,
        side: Side,
        table: usize,
        section: u32,
    ) -> Result<Option<Entry>> {
        self.entry_if_any(side.contents, section_number(table, section))
    }

    /// Reads the page of a section that holds record number `number`; returns its frame.
    fn section_frame(
        &mut self,
        side: Side,
        table: usize,
        section: u32,
        page: u32,
    ) -> Result<usize> {
        let start = self.section(side, table, section)?.unwrap_or_default().page;
        self.log_load(side.body, ROLE_PART, start + page)
    }

    /// Copies the value of a column of a row of a part.
    pub(crate) fn value_in(
        &mut self,
        spot: Spot,
        table: usize,
        id: u32,
        column: &Column,
        out: &mut [u8],
    ) -> Result<()> {
        let width = usize::from(column.group_width);
        let section = GROUPS + u32::from(column.group);
        let at = usize::from(column.group_at);
        self.section_bytes(spot, (table, section), id, (width, at), out)
    }

    /// Copies bytes of a row of a hidden table, which is in a part; its columns lie together.
    pub(crate) fn hidden_in(
        &mut self,
        spot: Spot,
        table: usize,
        id: u32,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let width = self.catalogue.widths(table).0;
        self.section_bytes(spot, (table, GROUPS), id, (width, at), out)
    }

    fn section_bytes(
        &mut self,
        spot: Spot,
        (table, section): (usize, u32),
        id: u32,
        (width, at): (usize, usize),
        out: &mut [u8],
    ) -> Result<()> {
        let per_page = rows_per_page(width);
        let row = spot.rank(id);
        let frame = self.section_frame(spot.side, table, section, row / per_page)?;
        let at = (row % per_page) as usize * width + at;
        out.copy_from_slice(part(self.arena.page(frame), at, out.len()));
        Ok(())
    }

    /// One id of a join row of a part.
    pub(crate) fn join_id_in(
        &mut self,
        spot: Spot,
        table: usize,
        id: u32,
        slot: usize,
    ) -> Result<u32> {
        let (own, all) = self.catalogue.widths(table);
        let mut bytes = [0; ID_BYTES];
        let place = (all - own, slot * ID_BYTES);
        self.section_bytes(spot, (table, JOINS), id, place, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Whether the row is one of a part that was deleted before the part was made.
    pub(crate) fn is_hole(&mut self, table: usize, id: u32) -> Result<bool> {
        let mut parts = self.parts.iter();
        match parts.find(|part| id <= part.rows(table)) {
            Some(part) if part.has_holes(table) => {
                let spot = part.spot(table);
                Ok(!self.lives_in(spot, table, id)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether a part holds the row as one that lives.
    pub(crate) fn lives_in(&mut self, spot: Spot, table: usize, id: u32) -> Result<bool> {
        let row = spot.rank(id);
        let frame = self.section_frame(spot.side, table, LIVE, row / LIVE_PER_PAGE)?;
        let bit = row % LIVE_PER_PAGE;
        let byte = part(self.arena.page(frame), (bit / 8) as usize, 1);
        Ok(byte.first().is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
    }

    /// Where the keys of an index are in the part on `side`.
    pub(crate) fn keys(&mut self, side: Side, index: usize) -> Result<Keys> {
        let entry = self
            .entry_if_any(side.contents, narrow(index))?
            .unwrap_or_default();
        let width = self.key_bytes(self.catalogue.index(index)?)?;
        let (count, list) = halves(entry.epoch);
        Ok(Keys {
            page: entry.page,
            count,
            list,
            width,
        })
    }

    /// The rows of all parts with `key` in an index.
    pub(crate) fn listing(&mut self, index: usize, key: &[u8]) -> Result<Listing> {
        let entry = self.catalogue.index(index)?;
        // Ids are kept in the order of their numbers.
        let mut ordered = [0u8; KEY_BYTES_MAX];
        let ordered = ordered.get_mut(..key.len()).unwrap_or(&mut []);
        ordered.copy_from_slice(key);
        if entry.column == ID {
            ordered.reverse();
        }
        let mut listing = Listing::default();
        let sides = self.sides_with(usize::from(entry.table));
        for (piece, side) in listing.pieces.iter_mut().zip(sides.into_iter().flatten()) {
            *piece = self.piece_of(side, index, ordered)?;
        }
        Ok(listing)
    }

    fn piece_of(&mut self, side: Side, index: usize, key: &[u8]) -> Result<Piece> {
        let keys = self.keys(side, index)?;
        let Some(number) = self.last_key_up_to(side, &keys, key)? else {
            return Ok(Piece::default());
        };
        let mut found = [0u8; KEY_BYTES_MAX];
        let found = found.get_mut(..keys.width).unwrap_or(&mut []);
        let next = self.record(side, &keys, number, found)?;
        if found != key {
            return Ok(Piece::default());
        }
        let end = self.record(side, &keys, number + 1, found)?;
        Ok(Piece {
            lists: side.lists,
            page: keys.list,
            next,
            end,
        })
    }

    /// The rows of all parts whose keys in an index lie between two bounds, part by part and there
    /// key by key.
    ///
    /// A bound is a key and whether it belongs to the range itself.
    pub(crate) fn listing_between(
        &mut self,
        index: usize,
        low: Option<(&[u8], bool)>,
        high: Option<(&[u8], bool)>,
    ) -> Result<Listing> {
        let table = usize::from(self.catalogue.index(index)?.table);
        let mut listing = Listing::default();
        let sides = self.sides_with(table);
        for (piece, side) in listing.pieces.iter_mut().zip(sides.into_iter().flatten()) {
            *piece = self.piece_between(side, index, low, high)?;
        }
        Ok(listing)
    }

    fn piece_between(
        &mut self,
        side: Side,
        index: usize,
        low: Option<(&[u8], bool)>,
        high: Option<(&[u8], bool)>,
    ) -> Result<Piece> {
        let keys = self.keys(side, index)?;
        let first = match low {
            Some((key, included)) => self.keys_below(side, &keys, key, !included)?,
            None => 0,
        };
        let last = match high {
            Some((key, included)) => self.keys_below(side, &keys, key, included)?,
            None => keys.count,
        };
        let mut key = [0u8; KEY_BYTES_MAX];
        let key = key.get_mut(..keys.width).unwrap_or(&mut []);
        Ok(Piece {
            lists: side.lists,
            page: keys.list,
            next: self.record(side, &keys, first, key)?,
            end: self.record(side, &keys, last.max(first), key)?,
        })
    }

    /// How many keys are below `key`, or not above it.
    fn keys_below(&mut self, side: Side, keys: &Keys, key: &[u8], or_equal: bool) -> Result<u32> {
        let Some(last) = self.last_key_up_to(side, keys, key)? else {
            return Ok(0);
        };
        let mut found = [0u8; KEY_BYTES_MAX];
        let found = found.get_mut(..keys.width).unwrap_or(&mut []);
        self.record(side, keys, last, found)?;
        Ok(if found == key && !or_equal {
            last
        } else {
            last + 1
        })
    }

    /// The next id of a listing.
    pub(crate) fn next_listed(&mut self, listing: &mut Listing) -> Result<Option<u32>> {
        let mut pieces = listing.pieces.iter_mut();
        let Some(piece) = pieces.find(|piece| piece.next < piece.end) else {
            return Ok(None);
        };
        let id = self.list_id(piece.lists, piece.page, piece.next)?;
        piece.next += 1;
        Ok(Some(id))
    }

    /// The id number `number` of the list that begins at `page`.
    pub(crate) fn list_id(&mut self, lists: u8, page: u32, number: u32) -> Result<u32> {
        let frame = self.log_load(lists, ROLE_LIST, page + number / IDS_PER_PAGE)?;
        let at = (number % IDS_PER_PAGE) as usize * ID_BYTES;
        Ok(u32_at(self.arena.page(frame), at))
    }

    /// Copies a key and returns how many ids are before its own.
    pub(crate) fn record(
        &mut self,
        side: Side,
        keys: &Keys,
        number: u32,
        key: &mut [u8],
    ) -> Result<u32> {
        let page = keys.page + number / keys.per_page();
        let frame = self.log_load(side.body, ROLE_PART, page)?;
        let at = (number % keys.per_page()) as usize * (keys.width + ID_BYTES);
        let page = self.arena.page(frame);
        key.copy_from_slice(part(page, at, keys.width));
        Ok(u32_at(page, at + keys.width))
    }

    /// The number of the last key that does not exceed `key`.
    fn last_key_up_to(&mut self, side: Side, keys: &Keys, key: &[u8]) -> Result<Option<u32>> {
        let levels = keys.levels()?;
        let mut page = 0;
        let mut end = keys.page + keys.pages()?;
        for (rank, &pages) in levels.iter().enumerate().rev() {
            end -= pages;
            let below = match rank.checked_sub(1).and_then(|rank| levels.get(rank)) {
                Some(&pages) => pages,
                None => keys.count.div_ceil(keys.per_page()),
            };
            let per_page = narrow(PAYLOAD_BYTES / keys.width.max(1));
            let count = per_page.min(below - page * per_page);
            let frame = self.log_load(side.body, ROLE_PART, end + page)?;
            let bytes = self.arena.page(frame);
            let rank = partition(count, |at| {
                part(bytes, at as usize * keys.width, keys.width) <= key
            });
            page = page * per_page + rank.saturating_sub(1);
        }
        let per_page = keys.per_page();
        let count = per_page.min(keys.count - page * per_page);
        if count == 0 {
            return Ok(None);
        }
        let frame = self.log_load(side.body, ROLE_PART, keys.page + page)?;
        let bytes = self.arena.page(frame);
        let width = keys.width + ID_BYTES;
        let rank = partition(count, |at| {
            part(bytes, at as usize * width, keys.width) <= key
        });
        Ok((page * per_page + rank).checked_sub(1))
    }

    /// Tells where the parts in use lie on the device: runs of pages, each its first page and how
    /// many, in the order in which they were written. They stay as they are until the next
    /// reorganisation has ended.
    ///
    /// # Errors
    /// The secure store cannot be read.
    pub fn part_pages(&mut self, run: &mut dyn FnMut(u32, u32)) -> Result<()> {
        self.usable()?;
        let state = self.committed.part;
        for level in state.live() {
            let side = Side::new(level.side);
            for (owner, pages) in [(side.body, level.body), (side.lists, level.lists)] {
                for block in 0..pages.div_ceil(BLOCK_PAGES) {
                    let first = self.entry(owner, block)?.page;
                    run(first, (pages - block * BLOCK_PAGES).min(BLOCK_PAGES));
                }
            }
        }
        Ok(())
    }

    /// Reads every page of the parts in use.
    pub(crate) fn verify_parts(&mut self) -> Result<u64> {
        let mut checked = 0;
        for number in 0..self.parts.len() {
            let part = self.parts.get(number).copied();
            checked += self.verify_part(&part.ok_or(Error::Root("lacks a part"))?)?;
        }
        Ok(checked)
    }

    fn verify_part(&mut self, part: &Part) -> Result<u64> {
        let side = part.side;
        let mut checked = 0u64;
        for table in 0..self.catalogue.len() {
            if part.own(table) == 0 {
                continue;
            }
            for section in 0..SECTIONS_MAX {
                let pages = self.section_pages(table, section, part.own(table));
                for page in 0..pages {
                    self.section_frame(side, table, section, page)?;
                }
                checked += u64::from(pages);
            }
            for index in self.catalogue.indexes_of(table) {
                checked += self.verify_keys(side, index)?;
            }
        }
        Ok(checked)
    }

    fn verify_keys(&mut self, side: Side, index: usize) -> Result<u64> {
        let keys = self.keys(side, index)?;
        let pages = keys.pages()?;
        for page in 0..pages {
            self.log_load(side.body, ROLE_PART, keys.page + page)?;
        }
        let mut key = [0u8; KEY_BYTES_MAX];
        let key = key.get_mut(..keys.width).unwrap_or(&mut []);
        let ids = self.record(side, &keys, keys.count, key)?;
        let lists = ids.div_ceil(IDS_PER_PAGE);
        for page in 0..lists {
            self.log_load(side.lists, ROLE_LIST, keys.list + page)?;
        }
        Ok(u64::from(pages + lists))
    }

    /// Pages of a section with `rows` rows; none for one that the table does not have.
    pub(crate) fn section_pages(&self, table: usize, section: u32, rows: u32) -> u32 {
        let width = match section {
            LIVE => return rows.div_ceil(LIVE_PER_PAGE),
            JOINS => {
                let (own, all) = self.catalogue.widths(table);
                all - own
            }
            _ => self.catalogue.group_width(table, section - GROUPS),
        };
        if width == 0 {
            return 0;
        }
        rows.div_ceil(rows_per_page(width))
    }
}

/// The lower and the upper half of a number.
fn halves(number: u64) -> (u32, u32) {
    let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    (low(number), low(number >> 32))
}

/// How many of the first `count` numbers fulfil `low`, which holds up to some number and then never.
fn partition(count: u32, low: impl Fn(u32) -> bool) -> u32 {
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from + (to - from) / 2;
        if low(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_an_index_end_in_one_page() {
        let keys = |count| Keys {
            page: 0,
            count,
            list: 0,
            width: 10,
        };
        // 145 records and 203 upper keys fit on a page.
        assert_eq!(keys(0).pages().unwrap(), 1);
        assert_eq!(keys(144).pages().unwrap(), 1);
        assert_eq!(keys(145).pages().unwrap(), 2);
        assert_eq!(keys(146).pages().unwrap(), 3);
        assert_eq!(&*keys(100_000).levels().unwrap(), &[4, 1]);
    }

    #[test]
    fn a_partition_is_where_the_condition_ends() {
        for end in 0..10 {
            assert_eq!(partition(9, |number| number < end), end.min(9));
        }
    }
}
