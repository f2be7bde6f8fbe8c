//! The sorted keys of an index in reorganised parts, and the lists of ids for them.
//!
//! Records are in key order. Each contains a key and the number of ids of all smaller keys. Above
//! them are levels of first keys, up to one page.

use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, PARTS_MAX};
use crate::pager::Pager;
use crate::pager::bytes::{narrow, part, part_mut, take, u32_at};
use crate::pager::flash::Nand;
use crate::pager::list::List;
use crate::pager::root::SecureStore;
use crate::pager::seal::{PAYLOAD_BYTES, ROLE_LIST, ROLE_PART};
use crate::pager::side::Side;
use crate::tables::base::Base;
use crate::tables::catalogue::ID;
use crate::tables::id::{ID_BYTES, RowId, TableId};
use crate::tables::index::key_bytes;
use crate::tables::part::halves;

/// Number of ids per page of a list.
pub(crate) const IDS_PER_PAGE: u32 = 508;
const _: () = assert!(IDS_PER_PAGE as usize == PAYLOAD_BYTES / ID_BYTES);
/// Greatest number of levels of an index: fifteen keys of the greatest width fit on a page of the
/// upper levels.
const LEVELS_MAX: usize = 12;

/// A range of ids of one list.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    lists: u8,
    /// First page of the index's list.
    page: u32,
    next: u32,
    end: u32,
}

/// The ids of one key, the newest first, or of several keys, part by part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listing {
    /// One piece for every part, the newest part first.
    pieces: [Piece; PARTS_MAX],
}

impl Listing {
    /// Returns the number of ids left.
    pub(crate) fn left(&self) -> u32 {
        let left = |piece: &Piece| piece.end.saturating_sub(piece.next);
        self.pieces.iter().map(left).sum()
    }

    /// Returns the ids in all parts with `key` in an index.
    pub(crate) fn of<F: Nand, S: SecureStore>(
        base: &mut Base<F, S>,
        index: usize,
        key: &[u8],
    ) -> Result<Self> {
        let entry = base.catalogue.index(index)?;
        // Ids are sorted by their numbers.
        let mut ordered = [0u8; KEY_BYTES_MAX];
        let ordered = part_mut(&mut ordered, 0, key.len());
        ordered.copy_from_slice(key);
        if entry.column == ID {
            ordered.reverse();
        }
        let mut listing = Self::default();
        let sides = sides_with(base, entry.table);
        for (piece, side) in listing.pieces.iter_mut().zip(sides.into_iter().flatten()) {
            *piece = piece_of(base, side, index, ordered)?;
        }
        Ok(listing)
    }

    /// Returns the ids in all parts whose keys in an index are between two bounds.
    ///
    /// They are ordered by part, and within a part by key. A bound is a key and a flag:
    /// `true` if it is inclusive.
    pub(crate) fn between<F: Nand, S: SecureStore>(
        base: &mut Base<F, S>,
        index: usize,
        low: Option<(&[u8], bool)>,
        high: Option<(&[u8], bool)>,
    ) -> Result<Self> {
        let table = base.catalogue.index(index)?.table;
        let mut listing = Self::default();
        let sides = sides_with(base, table);
        for (piece, side) in listing.pieces.iter_mut().zip(sides.into_iter().flatten()) {
            *piece = piece_between(base, side, index, low, high)?;
        }
        Ok(listing)
    }

    /// Returns the next id of a listing.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
    ) -> Result<Option<RowId>> {
        let mut pieces = self.pieces.iter_mut();
        let Some(piece) = pieces.find(|piece| piece.next < piece.end) else {
            return Ok(None);
        };
        let id = list_id(pager, piece.lists, piece.page, piece.next)?;
        piece.next += 1;
        Ok(Some(id))
    }
}

/// The place of an index in a part.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keys {
    /// The side of the part that has them.
    pub(crate) side: Side,
    /// First page of the records.
    pub(crate) page: u32,
    /// Number of distinct keys.
    pub(crate) count: u32,
    /// First page of the ids.
    pub(crate) list: u32,
    /// Length of a key in bytes.
    pub(crate) width: usize,
}

impl Keys {
    /// Returns the number of records per page: a key and the number of ids before its own.
    pub(crate) fn per_page(&self) -> u32 {
        narrow(PAYLOAD_BYTES / (self.width + ID_BYTES))
    }

    /// Returns the number of pages of records; one more record than keys ends the last list.
    pub(crate) fn record_pages(&self) -> u32 {
        (self.count + 1).div_ceil(self.per_page())
    }

    /// Returns the number of pages of each level above the records, with the first keys of the
    /// pages below.
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

    /// Returns the number of all pages without those of the ids.
    pub(crate) fn pages(&self) -> Result<u32> {
        Ok(self.record_pages() + self.levels()?.iter().sum::<u32>())
    }

    /// Copies a key and returns the number of ids before its own.
    pub(crate) fn record<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        number: u32,
        key: &mut [u8],
    ) -> Result<u32> {
        let page = self.page + number / self.per_page();
        let frame = pager.log_load(self.side.body, ROLE_PART, page)?;
        let at = (number % self.per_page()) as usize * (self.width + ID_BYTES);
        let page = pager.arena.page(frame);
        key.copy_from_slice(part(page, at, self.width));
        Ok(u32_at(page, at + self.width))
    }

    /// Returns an id of a key by its number among those of all keys.
    pub(crate) fn id<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        number: u32,
    ) -> Result<RowId> {
        list_id(pager, self.side.lists, self.list, number)
    }

    /// Returns the number of the last key that does not exceed `key`.
    fn last_up_to<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        key: &[u8],
    ) -> Result<Option<u32>> {
        let levels = self.levels()?;
        let mut page = 0;
        let mut end = self.page + self.pages()?;
        // The levels lie behind the records, the topmost last, so the way down goes backwards.
        for (rank, &pages) in levels.iter().enumerate().rev() {
            end -= pages;
            let below = match rank.checked_sub(1).and_then(|rank| levels.get(rank)) {
                Some(&pages) => pages,
                None => self.count.div_ceil(self.per_page()),
            };
            let per_page = narrow(PAYLOAD_BYTES / self.width.max(1));
            let count = per_page.min(below - page * per_page);
            let frame = pager.log_load(self.side.body, ROLE_PART, end + page)?;
            let bytes = pager.arena.page(frame);
            let rank = partition(count, |at| {
                part(bytes, at as usize * self.width, self.width) <= key
            });
            // Before the first key of all there is no page: the first one shows that.
            page = page * per_page + rank.saturating_sub(1);
        }
        let per_page = self.per_page();
        let count = per_page.min(self.count - page * per_page);
        if count == 0 {
            return Ok(None);
        }
        let frame = pager.log_load(self.side.body, ROLE_PART, self.page + page)?;
        let bytes = pager.arena.page(frame);
        let width = self.width + ID_BYTES;
        let rank = partition(count, |at| {
            part(bytes, at as usize * width, self.width) <= key
        });
        Ok((page * per_page + rank).checked_sub(1))
    }

    /// Counts the keys that are less than `key`, or with `or_equal` not greater.
    fn below<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        key: &[u8],
        or_equal: bool,
    ) -> Result<u32> {
        let Some(last) = self.last_up_to(pager, key)? else {
            return Ok(0);
        };
        let mut found = [0u8; KEY_BYTES_MAX];
        let found = part_mut(&mut found, 0, self.width);
        self.record(pager, last, found)?;
        Ok(if found == key && !or_equal {
            last
        } else {
            last + 1
        })
    }

    /// Returns the ids of the key with this number, if it is `key`.
    #[inline(never)] // Keeps its local variables off the stack of the search.
    fn piece_at<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        number: u32,
        key: &[u8],
    ) -> Result<Piece> {
        let mut found = [0u8; KEY_BYTES_MAX];
        let found = part_mut(&mut found, 0, self.width);
        let next = self.record(pager, number, found)?;
        if found != key {
            return Ok(Piece::default());
        }
        // The record behind tells where the list ends; the last key has one behind it too.
        let end = self.record(pager, number + 1, found)?;
        Ok(Piece {
            lists: self.side.lists,
            page: self.list,
            next,
            end,
        })
    }

    /// Returns the place of an index's keys in the part on `side`.
    pub(crate) fn read<F: Nand, S: SecureStore>(
        base: &mut Base<F, S>,
        side: Side,
        index: usize,
    ) -> Result<Self> {
        // An index that is not there has no key: all its rows would be gone without a word.
        let entry = base.pager.root.entry_if_any(side.contents, narrow(index))?;
        let entry = entry.ok_or(Error::Root("lacks an index"))?;
        let width = key_bytes(&base.catalogue, base.catalogue.index(index)?)?;
        let (count, list) = halves(entry.epoch);
        Ok(Self {
            side,
            page: entry.page,
            count,
            list,
            width,
        })
    }
}

/// Returns the partition point: how many of the first `count` numbers fulfil `low`, which is true
/// up to some number only.
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

/// Returns id number `number` of the list that begins at `page`.
fn list_id<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    lists: u8,
    page: u32,
    number: u32,
) -> Result<RowId> {
    let frame = pager.log_load(lists, ROLE_LIST, page + number / IDS_PER_PAGE)?;
    let at = (number % IDS_PER_PAGE) as usize * ID_BYTES;
    Ok(RowId::from_le_bytes(take(pager.arena.page(frame), at)))
}

fn piece_of<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    side: Side,
    index: usize,
    key: &[u8],
) -> Result<Piece> {
    let keys = Keys::read(base, side, index)?;
    match keys.last_up_to(&mut base.pager, key)? {
        Some(number) => keys.piece_at(&mut base.pager, number, key),
        None => Ok(Piece::default()),
    }
}

fn piece_between<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    side: Side,
    index: usize,
    low: Option<(&[u8], bool)>,
    high: Option<(&[u8], bool)>,
) -> Result<Piece> {
    let keys = Keys::read(base, side, index)?;
    let first = match low {
        Some((key, included)) => keys.below(&mut base.pager, key, !included)?,
        None => 0,
    };
    let last = match high {
        Some((key, included)) => keys.below(&mut base.pager, key, included)?,
        None => keys.count,
    };
    let mut key = [0u8; KEY_BYTES_MAX];
    let key = part_mut(&mut key, 0, keys.width);
    Ok(Piece {
        lists: side.lists,
        page: keys.list,
        next: keys.record(&mut base.pager, first, key)?,
        end: keys.record(&mut base.pager, last.max(first), key)?,
    })
}

/// Returns the sides of the parts with rows of `table`, the newest first.
fn sides_with<F: Nand, S: SecureStore>(
    base: &Base<F, S>,
    table: TableId,
) -> [Option<Side>; PARTS_MAX] {
    let mut sides = [None; PARTS_MAX];
    let parts = base.parts.iter().rev().filter(|part| part.own(table) > 0);
    for (place, part) in sides.iter_mut().zip(parts) {
        *place = Some(part.side);
    }
    sides
}

/// Reads every page of the keys of an index.
pub(crate) fn verify_keys<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    side: Side,
    index: usize,
) -> Result<u64> {
    let keys = Keys::read(base, side, index)?;
    let pages = keys.pages()?;
    for page in 0..pages {
        base.pager
            .log_load(side.body, ROLE_PART, keys.page + page)?;
    }
    let mut key = [0u8; KEY_BYTES_MAX];
    let key = part_mut(&mut key, 0, keys.width);
    let ids = keys.record(&mut base.pager, keys.count, key)?;
    let lists = ids.div_ceil(IDS_PER_PAGE);
    for page in 0..lists {
        base.pager
            .log_load(side.lists, ROLE_LIST, keys.list + page)?;
    }
    Ok(u64::from(pages + lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_an_index_end_in_one_page() {
        let keys = |count| Keys {
            side: Side::new(0),
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
