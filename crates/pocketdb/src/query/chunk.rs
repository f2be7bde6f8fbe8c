//! A chunk of rows in leased frames, and the ids that each of its rows has.

use crate::error::{Error, Result};
use crate::limits::TABLES_MAX;
use crate::pager::arena::{Area, Arena};
use crate::pager::bytes::{narrow, part, part_mut, put, take};
use crate::pager::list::List;
use crate::tables::catalogue::OWN;
use crate::tables::id::{ID_BYTES, RowId};

/// Length of a pair that sorts a chunk into the order of a table, in bytes.
pub(super) const PAIR_BYTES: usize = 8;
/// The id of a dropped row, which no row has.
const DROPPED: RowId = RowId::new(0);

/// The ids of a row in a chunk: the root's, then those of the listed slots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    pub(super) slots: List<u8, TABLES_MAX>,
}

impl Reached {
    /// Adds a slot if it is not there.
    pub(crate) fn add(&mut self, slot: u8) -> Result<()> {
        if slot == OWN || self.slots.contains(&slot) {
            return Ok(());
        }
        Ok(self.slots.push(slot, "the number of tables")?)
    }

    /// Returns the length of a row's ids in bytes.
    pub(super) fn bytes(&self) -> usize {
        ID_BYTES * (1 + self.slots.len())
    }

    /// Returns the position of the id of `slot`, which must be among them.
    ///
    /// # Errors
    /// It is not: the root's own id would be taken for that of a referenced row.
    pub(super) fn of(&self, slot: u8) -> Result<usize> {
        self.at(slot)
            .ok_or(Error::Defect("a query reaches the slots that it reads"))
    }

    /// Returns the position of the id of `slot` among them.
    pub(crate) fn at(&self, slot: u8) -> Option<usize> {
        if slot == OWN {
            return Some(0);
        }
        let number = self.slots.iter().position(|&known| known == slot)?;
        Some(ID_BYTES * (number + 1))
    }
}

/// Rows in leased frames: ids and values of each, then the pairs for sorting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    area: Area,
    pub(super) ids: usize,
    width: usize,
    pub(super) room: usize,
    pub(super) count: usize,
}

impl Chunk {
    /// Creates a chunk in `area` for rows with `ids` bytes of ids and `values` bytes of values.
    pub(crate) fn new(area: Area, ids: usize, values: usize) -> Result<Self> {
        let width = ids + values;
        let room = area.bytes() / (width + PAIR_BYTES);
        if room == 0 {
            return Err(Error::Limit("the width of a result row"));
        }
        Ok(Self {
            area,
            ids,
            width,
            room,
            count: 0,
        })
    }

    pub(super) fn at(&self, row: usize) -> usize {
        row * self.width
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Keeps the first `count` rows.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = count;
    }

    /// Writes pair number `rank`: an id, and the row that references it.
    pub(crate) fn put_pair(&self, arena: &mut Arena, rank: usize, id: RowId, row: usize) {
        let at = self.pairs_at() + rank * PAIR_BYTES;
        let area = arena.area_mut(self.area);
        put(area, at, &id.to_be_bytes());
        put(area, at + 4, &narrow(row).to_be_bytes());
    }

    /// Sorts the first `count` pairs by their ids.
    pub(crate) fn sort_pairs(&self, arena: &mut Arena, count: usize) {
        let area = arena.area_mut(self.area);
        let pairs = part_mut(area, self.pairs_at(), count * PAIR_BYTES);
        pairs.as_chunks_mut::<PAIR_BYTES>().0.sort_unstable();
    }

    /// Returns the id and the row of a pair.
    pub(crate) fn pair(&self, arena: &Arena, rank: usize) -> (RowId, usize) {
        let at = self.pairs_at() + rank * PAIR_BYTES;
        let pair: [u8; PAIR_BYTES] = take(arena.area(self.area), at);
        let row = u32::from_be_bytes(take(&pair, 4));
        let id = RowId::new(u32::from_be_bytes(take(&pair, 0)));
        (id, row as usize)
    }

    /// Drops a row: sets its id to one that no row has.
    pub(crate) fn drop_row(&self, arena: &mut Arena, row: usize) {
        self.put(arena, row, 0, &DROPPED.to_le_bytes());
    }

    /// Returns whether a row was dropped.
    pub(crate) fn is_dropped(&self, arena: &Arena, row: usize) -> bool {
        self.id(arena, row, 0) == DROPPED
    }

    /// Copies the ids of one row over those of another.
    pub(crate) fn copy_ids(&self, arena: &mut Arena, from: usize, to: usize) {
        let (from, to) = (self.at(from), self.at(to));
        let area = self.area;
        arena.copy_within((area, from), (area, to), self.ids);
    }

    fn pairs_at(&self) -> usize {
        self.room * self.width
    }

    /// Returns one of the ids of a row; the root's own is at 0.
    pub(crate) fn id(&self, arena: &Arena, row: usize, at: usize) -> RowId {
        let area = arena.area(self.area);
        RowId::from_le_bytes(take(area, self.at(row) + at))
    }

    pub(super) fn put(&self, arena: &mut Arena, row: usize, at: usize, bytes: &[u8]) {
        put(arena.area_mut(self.area), self.at(row) + at, bytes);
    }

    /// Returns the values of a row.
    pub(crate) fn values<'s>(&self, arena: &'s Arena, row: usize) -> &'s [u8] {
        let at = self.at(row) + self.ids;
        part(arena.area(self.area), at, self.width - self.ids)
    }
}
