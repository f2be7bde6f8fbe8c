//! The index of waiting rows: runs of them in pages of the buffer, and the blocks of those pages.

use alloc::vec::Vec;

use crate::pager::bytes::{put, take, u64_at};
use crate::pager::error::{Error, Result};
use crate::pager::flash::BLOCK_PAGES;

/// Place of rows in the page being filled.
const OPEN: u16 = u16::MAX;
/// Block number of a free entry in the list.
const NO_BLOCK: u32 = u32::MAX;
/// Greatest number of blocks that a run's place can distinguish.
const BLOCKS_MAX: usize = OPEN as usize / BLOCK_PAGES as usize;
/// Distance from a window's base at which the waiting rows are rewritten and the base moves. One
/// opening uses far fewer numbers than then remain.
pub(crate) const OFFSET_FAR: u64 = 1 << 47;
const OFFSET_BYTES: usize = 6;
/// Number of bits of the row count in a run; the others contain the owner.
const COUNT_BITS: u32 = 11;
const COUNT_MAX: u16 = (1 << COUNT_BITS) - 1;
const _: () = assert!(
    crate::limits::TABLES_MAX < 1 << (u16::BITS - COUNT_BITS)
        && crate::pager::flash::PAGE_BYTES / 5 < 1 << COUNT_BITS,
    "a run tells its owner, and counts the rows of a page"
);
const _: () = assert!(size_of::<Run>() == 14 && size_of::<Used>() == 10);

/// A 32-bit number with the alignment of its halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Halves([u16; 2]);

impl Halves {
    fn new(number: u32) -> Self {
        let bytes = number.to_le_bytes();
        let half = |at| u16::from_le_bytes(take(&bytes, at));
        Self([half(0), half(2)])
    }

    fn number(self) -> u32 {
        let [low, high] = self.0;
        u32::from(low) | u32::from(high) << 16
    }
}

/// A sequence number relative to the base of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset([u16; OFFSET_BYTES / 2]);

impl Offset {
    /// Returns the distance of `sequence` from `base`.
    fn new(sequence: u64, base: u64) -> Result<Self> {
        let distance = sequence.checked_sub(base).filter(|far| far >> 48 == 0);
        let distance = distance.ok_or(Error::Root("has numbers that do not follow each other"))?;
        let bytes = distance.to_le_bytes();
        let half = |at| u16::from_le_bytes(take(&bytes, at));
        Ok(Self([half(0), half(2), half(4)]))
    }

    fn distance(self) -> u64 {
        let mut bytes = [0u8; 8];
        for (number, half) in self.0.into_iter().enumerate() {
            put(&mut bytes, number * 2, &half.to_le_bytes());
        }
        u64_at(&bytes, 0)
    }
}

/// Rows of one owner in one page, with consecutive ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index of the block in the list of blocks, times the pages of a block, plus the page in it.
    place: u16,
    first: Halves,
    offset: Offset,
    owner_and_count: u16,
}

impl Run {
    /// Creates the run of the row `id` of `owner` in the page being filled.
    pub(crate) fn open(owner: u8, id: u32) -> Self {
        Self {
            place: OPEN,
            first: Halves::new(id),
            offset: Offset([0; 3]),
            owner_and_count: u16::from(owner) << COUNT_BITS | 1,
        }
    }

    /// Returns whether its rows are in the page being filled.
    pub(crate) fn is_open(&self) -> bool {
        self.place == OPEN
    }

    /// Returns the id of its first row.
    pub(crate) fn first(&self) -> u32 {
        self.first.number()
    }

    pub(crate) fn owner(&self) -> u8 {
        let [owner, _] = (self.owner_and_count >> COUNT_BITS).to_le_bytes();
        owner
    }

    fn count(&self) -> u16 {
        self.owner_and_count & COUNT_MAX
    }

    /// Returns the id after its last row.
    pub(crate) fn end(&self) -> u32 {
        self.first() + u32::from(self.count())
    }

    /// Adds the row `id` if it is the next one of the same owner in the same page; returns whether
    /// it was added.
    fn take(&mut self, place: u16, owner: u8, id: u32) -> bool {
        let next = self.place == place
            && self.owner() == owner
            && self.end() == id
            && self.count() < COUNT_MAX;
        if next {
            self.owner_and_count += 1;
        }
        next
    }
}

/// A block of the buffer and its last programmed page.
#[derive(Debug, Clone, Copy)]
struct Used {
    block: Halves,
    last: Offset,
}

impl Used {
    const FREE: Self = Self {
        block: Halves([u16::MAX; 2]),
        last: Offset([0; OFFSET_BYTES / 2]),
    };

    fn block(&self) -> u32 {
        self.block.number()
    }

    fn is_free(&self) -> bool {
        self.block() == NO_BLOCK
    }
}

/// The runs and blocks of a window; their sequence numbers are relative to a base.
pub(crate) struct Runs {
    base: u64,
    all: Vec<Run>,
    /// Runs refer to entries by index, so an entry keeps its index, and a removed block leaves a
    /// free entry.
    blocks: Vec<Used>,
    /// Number of runs for rows of transactions; the others are for rewriting all rows.
    room: usize,
}

impl Runs {
    /// Creates an empty index; rows of transactions may fill `room` of `runs` runs.
    pub(crate) fn new(base: u64, runs: usize, room: usize, blocks: usize) -> Self {
        Self {
            base,
            all: Vec::with_capacity(runs),
            blocks: Vec::with_capacity(blocks),
            room,
        }
    }

    /// Returns the bytes of memory for so many runs and blocks.
    pub(crate) fn bytes(runs: usize, blocks: usize) -> usize {
        runs * size_of::<Run>() + blocks * size_of::<Used>()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.blocks.iter().filter(|used| !used.is_free());
        used.map(Used::block)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.all.iter()
    }

    /// Removes everything, and counts from `base`.
    pub(crate) fn restart(&mut self, base: u64) {
        self.base = base;
        self.all.clear();
        self.blocks.clear();
    }

    /// Returns the page of a run that is not open.
    pub(crate) fn page(&self, run: &Run) -> u32 {
        let place = u32::from(run.place);
        let used = self.blocks.get((place / BLOCK_PAGES) as usize);
        let block = used.map_or(NO_BLOCK, Used::block);
        block.saturating_mul(BLOCK_PAGES) | (place % BLOCK_PAGES)
    }

    /// Returns the place of a page in a recorded block.
    fn place(&self, page: u32) -> Result<u16> {
        let block = page / BLOCK_PAGES;
        let found = self.blocks.iter().position(|used| used.block() == block);
        let place = found.filter(|&slot| slot < BLOCKS_MAX);
        let place = place.map(|slot| slot * BLOCK_PAGES as usize + (page % BLOCK_PAGES) as usize);
        let place = place.and_then(|place| u16::try_from(place).ok());
        place.ok_or(Error::Root("has rows in a block that it does not name"))
    }

    /// Returns the sequence number of the page of a run that is not open.
    pub(crate) fn sequence(&self, run: &Run) -> u64 {
        self.base + run.offset.distance()
    }

    /// Returns whether `sequence` is so far from the base that the base must move.
    pub(crate) fn is_far(&self, sequence: u64) -> bool {
        sequence
            .checked_sub(self.base)
            .is_none_or(|far| far >= OFFSET_FAR)
    }

    /// Records that the page with this sequence number was programmed.
    pub(crate) fn note_block(&mut self, block: u32, sequence: u64) -> Result<()> {
        let last = Offset::new(sequence, self.base)?;
        let mut known = self.blocks.iter_mut();
        match known.find(|used| used.block() == block) {
            Some(used) if used.last.distance() >= last.distance() => {}
            Some(used) => used.last = last,
            None => self.add_block(Used {
                block: Halves::new(block),
                last,
            }),
        }
        Ok(())
    }

    fn add_block(&mut self, block: Used) {
        match self.blocks.iter_mut().find(|used| used.is_free()) {
            Some(place) => *place = block,
            None => self.blocks.push(block),
        }
    }

    /// Removes the blocks that are not needed from sequence number `start` on, except `current`;
    /// calls `free` for each.
    pub(crate) fn drop_blocks(
        &mut self,
        start: u64,
        current: Option<u32>,
        mut free: impl FnMut(u32),
    ) {
        let base = self.base;
        for used in self.blocks.iter_mut().filter(|used| !used.is_free()) {
            if base + used.last.distance() < start && Some(used.block()) != current {
                free(used.block());
                *used = Used::FREE;
            }
        }
        let kept = self.blocks.iter().rposition(|used| !used.is_free());
        self.blocks.truncate(kept.map_or(0, |last| last + 1));
    }

    /// Moves the base to `base`; every run must have a greater sequence number.
    pub(crate) fn follow(&mut self, base: u64) -> Result<()> {
        for run in self.all.iter_mut().filter(|run| !run.is_open()) {
            run.offset = Offset::new(self.base + run.offset.distance(), base)?;
        }
        for used in self.blocks.iter_mut().filter(|used| !used.is_free()) {
            // The current block may have older pages only, which do not matter.
            let last = (self.base + used.last.distance()).max(base);
            used.last = Offset::new(last, base)?;
        }
        self.base = base;
        Ok(())
    }

    /// Returns whether a row of a transaction fits into an existing or a new run.
    pub(crate) fn has_room(&self, owner: u8, id: u32) -> bool {
        let own = |run: &Run| run.clone().take(OPEN, owner, id);
        self.all.len() < self.room || self.all.iter().any(own)
    }

    /// Records a row of the page being filled.
    pub(crate) fn note_row(&mut self, owner: u8, id: u32) {
        let mut known = self.all.iter_mut().rev();
        if !known.any(|run| run.take(OPEN, owner, id)) {
            self.all.push(Run::open(owner, id));
        }
    }

    /// Records a row of a finished page, whose block is recorded.
    pub(crate) fn note_old_row(
        &mut self,
        (page, sequence): (u32, u64),
        owner: u8,
        id: u32,
    ) -> Result<()> {
        let place = self.place(page)?;
        let mut known = self.all.iter_mut().rev();
        if !known.any(|run| run.take(place, owner, id)) {
            self.all.push(Run {
                place,
                offset: Offset::new(sequence, self.base)?,
                ..Run::open(owner, id)
            });
        }
        Ok(())
    }

    /// Assigns the open runs to the last version of the page being filled.
    pub(crate) fn close(&mut self, page: u32, sequence: u64) -> Result<()> {
        let offset = Offset::new(sequence, self.base)?;
        if !self.all.iter().any(Run::is_open) {
            return Ok(());
        }
        let place = self.place(page)?;
        for run in self.all.iter_mut().filter(|run| run.is_open()) {
            run.place = place;
            run.offset = offset;
        }
        Ok(())
    }

    /// Keeps only the runs for which `kept` is true.
    pub(crate) fn retain(&mut self, kept: impl Fn(&Run, u64) -> bool) {
        let base = self.base;
        self.all
            .retain(|run| kept(run, base + run.offset.distance()));
    }

    /// Removes and returns the run of `owner` with the lowest ids that was written before sequence
    /// number `start`. In this order rewriting produces fewer runs.
    pub(crate) fn take_oldest(&mut self, owner: u8, start: u64) -> Option<Run> {
        let old = |run: &&(usize, &Run)| {
            run.1.owner() == owner && !run.1.is_open() && self.sequence(run.1) < start
        };
        let runs = self.all.iter().enumerate();
        let (number, _) = runs
            .filter(|run| old(&run))
            .min_by_key(|(_, run)| run.first())?;
        Some(self.all.remove(number))
    }

    /// Shrinks the capacity to `runs` runs and `blocks` blocks.
    pub(crate) fn shrink(&mut self, runs: usize, blocks: usize) {
        self.all.shrink_to(runs);
        self.blocks.shrink_to(blocks);
    }

    /// Returns the run that contains the row `id` of `owner`.
    pub(crate) fn find(&self, owner: u8, id: u32) -> Option<Run> {
        let holds = |run: &&Run| run.owner() == owner && (run.first()..run.end()).contains(&id);
        self.all.iter().find(holds).copied()
    }
}

/// Returns the number of blocks that rewriting all waiting rows may use in addition.
pub(crate) fn rewrite_blocks(waiting_pages: usize) -> usize {
    waiting_pages.div_ceil(BLOCK_PAGES as usize) + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_tables_counts_and_distant_numbers() {
        let mut runs = Runs::new(7, 8, 6, 2);
        let far = 7 + OFFSET_FAR + 0x1234_5678_9ABC;
        runs.note_block(0, far).unwrap();
        for id in 10..12 {
            runs.note_old_row((3, far), 17, id).unwrap();
        }
        let run = runs.find(17, 11).unwrap();
        assert_eq!((run.owner(), run.first(), run.end()), (17, 10, 12));
        assert_eq!(runs.sequence(&run), far);
        assert!(runs.is_far(far) && !runs.is_far(7 + OFFSET_FAR - 1) && runs.is_far(6));
        runs.note_block(0x0102_0304, far).unwrap();
        runs.follow(far - 1).unwrap();
        assert_eq!(runs.sequence(&runs.find(17, 10).unwrap()), far);
        assert_eq!(runs.blocks().collect::<Vec<_>>(), [0, 0x0102_0304]);
        assert!(!runs.is_far(far));
        for sequence in [far - 2, far + (1 << 48)] {
            assert!(matches!(runs.close(1, sequence), Err(Error::Root(_))));
        }
    }

    #[test]
    fn the_oldest_run_comes_first_whatever_the_order_of_reading() {
        let mut runs = Runs::new(0, 8, 6, 2);
        runs.note_block(0, 9).unwrap();
        for (page, id) in [(9, 50), (8, 30), (7, 10)] {
            runs.note_old_row((page, u64::from(page)), 2, id).unwrap();
        }
        let order: Vec<u32> = core::iter::from_fn(|| runs.take_oldest(2, 9))
            .map(|run| run.first())
            .collect();
        assert_eq!(order, [10, 30]);
        assert_eq!(runs.len(), 1);
    }

    #[test]
    fn a_block_that_goes_leaves_the_pages_of_other_runs_as_they_are() {
        let mut runs = Runs::new(0, 8, 6, 3);
        for block in 0..3 {
            runs.note_block(block + 70_000, u64::from(block) + 1)
                .unwrap();
            let page = (block + 70_000) * BLOCK_PAGES + 63;
            let id = block * 10 + 1;
            let place = (page, u64::from(block) + 1);
            runs.note_old_row(place, 2, id).unwrap();
        }
        let mut freed = Vec::new();
        runs.take_oldest(2, 2).unwrap();
        runs.drop_blocks(2, None, |block| freed.push(block));
        assert_eq!(freed, [70_000]);
        runs.follow(1).unwrap();
        runs.note_block(80_000, 4).unwrap();
        runs.note_row(2, 31);
        runs.close(80_000 * BLOCK_PAGES + 5, 4).unwrap();
        let page = |id| runs.page(&runs.find(2, id).unwrap());
        let pages = [11, 21, 31].map(|id| (page(id) / BLOCK_PAGES, page(id) % BLOCK_PAGES));
        assert_eq!(pages, [(70_001, 63), (70_002, 63), (80_000, 5)]);
        assert_eq!(runs.blocks().count(), 3);
        assert_eq!(runs.blocks.len(), 3, "the free place is taken again");
        runs.drop_blocks(3, None, |block| freed.push(block));
        assert_eq!(freed, [70_000, 70_001]);
    }

    #[test]
    fn rows_in_a_block_that_was_not_noted_are_refused() {
        let mut runs = Runs::new(0, 8, 6, 2);
        let refused = runs.note_old_row((64, 1), 2, 1);
        assert!(matches!(refused, Err(Error::Root(_))));
        runs.close(64, 1).unwrap();
        runs.note_row(2, 1);
        assert!(matches!(runs.close(64, 1), Err(Error::Root(_))));
    }
}
