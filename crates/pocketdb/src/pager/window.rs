//! The commit buffer: rows that wait, committed or not, to be moved to a unit.
//!
//! A commit programs the partly filled page. The next commit programs it again at the next place,
//! with the rows added since, and the chain skips the version before. So waiting rows are always
//! dense, however small the transactions are. A frame is held for the page while no version on
//! flash has all of its rows.

use crate::limits::{BUFFER_BLOCKS_MAX, TABLES_MAX, UNIT_ROWS};
use crate::pager::arena::HELD;
use crate::pager::bytes::part;
use crate::pager::error::{Error, Result};
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::pager::root::{Link, RootRecord, SecureStore};
use crate::pager::run::{Run, Runs, rewrite_blocks};
use crate::pager::scratch::Scratch;
use crate::pager::seal::{PageIdentity, ROLE_BUFFER};
use crate::pager::shape::Shape;
use crate::pager::{Pager, buffer};

/// Number of frames up to which an operation may need all of them.
const FRAMES_FEW: usize = 7;

/// The memory of frames and of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Number of runs of waiting elements, and the number of them that transactions may fill.
    pub(crate) runs: usize,
    pub(crate) spare: usize,
    /// Greatest number of pages of densely written waiting elements.
    pub(crate) waiting: usize,
    /// Number of runs at which the waiting elements are rewritten densely.
    pub(crate) crowded: usize,
    /// Number of page frames.
    pub(crate) frames: usize,
}

/// The state of the commit buffer in memory.
pub(crate) struct Window {
    /// Number of bytes in use of the page being filled.
    used: usize,
    /// The link in the page being filled.
    previous: Link,
    /// The last programmed version, of the page being filled or of the one before.
    tail: Link,
    /// `true` if the page being filled has rows that its last version lacks.
    changed: bool,
    next: u64,
    /// The next page of the current block; a multiple of `BLOCK_PAGES` if there is none.
    page: u32,
    runs: Runs,
    /// `true` while all waiting rows are being rewritten; the chain then lacks some of them.
    rewriting: bool,
}

/// Greatest number of blocks of a window before all waiting rows are rewritten.
const BLOCKS_ROOM: usize = BUFFER_BLOCKS_MAX + 8;

/// Returns the bytes of memory of a plan's window.
pub(crate) fn window_bytes(runs: usize, waiting_pages: usize) -> usize {
    Runs::bytes(runs, BLOCKS_ROOM + rewrite_blocks(waiting_pages))
}

impl Window {
    /// Creates the window of `record`, without its elements.
    pub(crate) fn new(record: &RootRecord, room: &Room) -> Self {
        let blocks = BLOCKS_ROOM + rewrite_blocks(room.waiting);
        let runs = Runs::new(base_of(record), room.runs, room.spare, blocks);
        Self {
            used: buffer::HEAD_BYTES,
            previous: Link::default(),
            tail: record.tail,
            changed: false,
            next: record.buffer_next,
            page: 0,
            runs,
            rewriting: false,
        }
    }

    /// Copies the state of the window to a record.
    pub(crate) fn describe(&self, record: &mut RootRecord) {
        record.buffer_next = self.next;
        record.tail = self.tail;
    }

    /// Returns the oldest sequence number of a page that is needed once `record` is valid.
    pub(crate) fn oldest(&self, record: &RootRecord) -> u64 {
        let closed = self.runs.iter().filter(|run| !run.is_open());
        let waiting = closed.filter(|run| waits(run, record));
        let oldest = waiting.map(|run| self.runs.sequence(run)).min();
        let tail = self.tail.sequence.max(1);
        oldest.unwrap_or(tail).min(tail)
    }

    /// Returns the blocks of the window.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.blocks()
    }

    /// Returns the number of runs of waiting rows.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the sequence number of the next page.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the next page is so far from the first that all rows should be rewritten.
    pub(crate) fn is_far(&self) -> bool {
        self.runs.is_far(self.next)
    }

    /// Continues with sequence number `next`.
    pub(crate) fn continue_with(&mut self, next: u64) {
        self.next = next;
    }

    fn note_block(&mut self, page: u32, sequence: u64) -> Result<()> {
        self.runs.note_block(page / BLOCK_PAGES, sequence)
    }

    /// Assigns the rows of the page being filled to its last version.
    fn close_runs(&mut self) -> Result<()> {
        self.runs.close(self.tail.page, self.tail.sequence)
    }
}

/// Returns whether a row of a run is in no unit yet.
fn waits(run: &Run, record: &RootRecord) -> bool {
    run.end() > placed_in(record, run.owner()) + 1
}

/// Returns the number to which the window of a record is relative.
fn base_of(record: &RootRecord) -> u64 {
    record.buffer_start.max(1) - 1
}

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Returns the waiting rows, to work with them.
    pub(crate) fn waiting(&mut self) -> Waiting<'_, F, S> {
        Waiting { pager: self }
    }

    fn element_bytes(&self, owner: u8) -> usize {
        width_in(&self.shapes, owner)
    }

    /// Returns whether so many runs or blocks are in use that the waiting rows should be rewritten.
    pub(crate) fn is_window_long(&self) -> bool {
        let window = &self.window;
        window.runs.len() > self.room.crowded
            || window.blocks().count() > BUFFER_BLOCKS_MAX
            || window.is_far()
    }
}

/// The rows that wait, of which memory has the window.
pub(crate) struct Waiting<'p, F: Nand, S: SecureStore> {
    pager: &'p mut Pager<F, S>,
}

impl<F: Nand, S: SecureStore> Waiting<'_, F, S> {
    /// Appends an element to the page being filled.
    pub(crate) fn append(&mut self, owner: u8, id: u32, element: &[u8]) -> Result<()> {
        // An element that a full page does not take goes to the next one; more often it is too wide.
        for _ in 0..2 {
            if !self.pager.window.rewriting && !self.pager.window.runs.has_room(owner, id) {
                return Err(Error::Limit("the number of rows in one transaction"));
            }
            self.hold_page()?;
            let window = &mut self.pager.window;
            let page = self.pager.arena.page_mut(HELD);
            if let Some(used) = buffer::append(page, window.used, owner, id, element) {
                window.used = used;
                window.changed = true;
                window.runs.note_row(owner, id);
                return Ok(());
            }
            self.turn_page()?;
        }
        Err(Error::Limit("the width of a row"))
    }

    /// Holds a frame with the page being filled, so that rows can be appended.
    fn hold_page(&mut self) -> Result<()> {
        if self.pager.arena.is_held() {
            return Ok(());
        }
        let Window {
            used,
            tail,
            previous,
            ..
        } = self.pager.window;
        if used > buffer::HEAD_BYTES {
            let frame = self
                .pager
                .load(&buffer_identity(tail.page, tail.sequence))?;
            self.pager.arena.hold(Some(frame));
        } else {
            self.pager.arena.hold(None);
            buffer::begin(self.pager.arena.page_mut(HELD), &previous);
        }
        Ok(())
    }

    /// Finishes the page being filled and begins the next one.
    fn turn_page(&mut self) -> Result<()> {
        self.program_open_page()?;
        let window = &mut self.pager.window;
        window.close_runs()?;
        window.previous = window.tail;
        window.used = buffer::HEAD_BYTES;
        Ok(())
    }

    /// Frees the held frame if there are few frames: programs an open transaction's page before it
    /// is full.
    pub(crate) fn clear_frames(&mut self) -> Result<()> {
        if self.pager.arena.frames() <= FRAMES_FEW {
            self.program_open_page()?;
        }
        Ok(())
    }

    /// Programs the page being filled if its last version lacks rows.
    pub(crate) fn program_open_page(&mut self) -> Result<()> {
        if !self.pager.window.changed {
            self.let_page_go();
            return Ok(());
        }
        let area = self.pager.arena.lease(1)?;
        let mut result = self.program_version(area);
        while result == Err(Error::Flash(FlashError::BadBlock)) {
            // The block failed; its earlier pages remain readable, and the version is programmed
            // elsewhere.
            self.pager.window.page = 0;
            result = self.program_version(area);
        }
        self.pager.arena.release(area);
        self.let_page_go();
        result
    }

    /// Releases the held frame; the page is then read from its last version.
    fn let_page_go(&mut self) {
        let Window {
            used,
            tail,
            changed,
            ..
        } = self.pager.window;
        if self.pager.arena.is_held() && !changed {
            let there = used > buffer::HEAD_BYTES;
            let version = there.then_some((tail.page, tail.sequence));
            self.pager.arena.let_go(version);
        }
    }

    fn program_version(&mut self, area: crate::pager::arena::Area) -> Result<()> {
        if self.pager.window.page.is_multiple_of(BLOCK_PAGES) {
            if !self.pager.window.rewriting && self.pager.window.blocks().count() >= BLOCKS_ROOM {
                return Err(Error::Limit("the number of rows in one transaction"));
            }
            let block = self.pager.take_blocks(1)?;
            self.pager.window.page = block * BLOCK_PAGES;
        }
        self.pager.root.keep_numbers(self.pager.window.next())?;
        let sequence = self.pager.window.next;
        let identity = buffer_identity(self.pager.window.page, sequence);
        self.pager.arena.copy_page(HELD, area);
        let code = self
            .pager
            .root
            .seal
            .close(&identity, self.pager.arena.area_mut(area));
        self.pager.window.next += 1;
        self.pager.window.note_block(identity.page, sequence)?;
        self.pager.program(identity.page, area, 0)?;
        let window = &mut self.pager.window;
        window.tail = Link {
            sequence,
            page: identity.page,
            code,
        };
        window.page += 1;
        window.changed = false;
        Ok(())
    }

    /// Copies `out.len()` bytes from offset `at` of a waiting element.
    pub(crate) fn read(&mut self, owner: u8, id: u32, at: usize, out: &mut [u8]) -> Result<()> {
        // The catalogue counts the row, so its page must have it.
        let missing = Error::Tampered {
            page: self.pager.window.tail.page,
            what: "row",
        };
        let run = self.pager.window.runs.find(owner, id).ok_or(missing)?;
        self.read_run(run, id, at, out)
    }

    fn read_run(&mut self, run: Run, id: u32, at: usize, out: &mut [u8]) -> Result<()> {
        let tail = self.pager.window.tail;
        let (place, sequence) = if run.is_open() {
            (tail.page, tail.sequence)
        } else {
            let runs = &self.pager.window.runs;
            (runs.page(&run), runs.sequence(&run))
        };
        let frame = if run.is_open() && self.pager.arena.is_held() {
            HELD
        } else {
            self.pager.load(&buffer_identity(place, sequence))?
        };
        let page = self.pager.arena.page(frame);
        // Most elements of a page are of one owner.
        let owner = run.owner();
        let own = self.pager.element_bytes(owner);
        let width = |other| {
            if other == owner {
                own
            } else {
                self.pager.element_bytes(other)
            }
        };
        let wanted = |row: &buffer::Located| row.owner == owner && row.id == id;
        let missing = Error::Tampered {
            page: place,
            what: "row",
        };
        let found = buffer::rows(page, width).find(wanted).ok_or(missing)?;
        out.copy_from_slice(part(page, found.at + at, out.len()));
        Ok(())
    }

    /// Removes every row that was appended since the last commit.
    pub(crate) fn rollback(&mut self) -> Result<()> {
        let tail = self.pager.root.committed.tail;
        // Runs of the tail's page are read from it again: it may have uncommitted elements too.
        let kept = |run: &Run, sequence| !run.is_open() && sequence < tail.sequence;
        self.pager.window.runs.retain(kept);
        self.pager.window.tail = tail;
        self.reload_tail()
    }

    /// Reads the whole committed window.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.reload_tail()?;
        let mut link = self.pager.window.previous;
        while link.sequence >= self.pager.root.committed.buffer_start && link.sequence > 0 {
            link = self.note_page(&link)?;
        }
        self.continue_block()?;
        for block in self.pager.window.runs.blocks() {
            self.pager.blocks.mark(block);
        }
        Ok(())
    }

    /// Reads every page of the committed window.
    pub(crate) fn verify(&mut self) -> Result<u64> {
        let mut link = self.pager.root.committed.tail;
        let mut checked = 0;
        while link.sequence >= self.pager.root.committed.buffer_start && link.sequence > 0 {
            let frame = self.load_link(&link)?;
            link = buffer::previous(self.pager.arena.page(frame));
            checked += 1;
        }
        Ok(checked)
    }

    /// Loads the last committed page as the one being filled.
    fn reload_tail(&mut self) -> Result<()> {
        let tail = self.pager.window.tail;
        self.pager.arena.let_go(None);
        self.pager.window.changed = false;
        self.pager.window.previous = Link::default();
        self.pager.window.used = buffer::HEAD_BYTES;
        if tail.sequence == 0 {
            return Ok(());
        }
        let frame = self.load_link(&tail)?;
        let page = self.pager.arena.page(frame);
        self.pager.window.previous = buffer::previous(page);
        let shapes = &self.pager.shapes;
        let width = |owner| width_in(shapes, owner);
        for row in buffer::rows(page, width) {
            self.pager.window.used = row.at + width(row.owner);
            if row.id > placed_in(&self.pager.root.committed, row.owner) {
                self.pager.window.runs.note_row(row.owner, row.id);
            }
        }
        Ok(())
    }

    /// Reads a buffer page and checks that it is exactly the page of `link`.
    fn load_link(&mut self, link: &Link) -> Result<usize> {
        let identity = buffer_identity(link.page, link.sequence);
        let (frame, code) = self.pager.fetch(&identity)?;
        if code != link.code {
            return Err(Error::Tampered {
                page: identity.page,
                what: "commit buffer page",
            });
        }
        Ok(frame)
    }

    /// Records the rows of a committed page before the tail; returns the link to the page before
    /// it.
    fn note_page(&mut self, link: &Link) -> Result<Link> {
        let frame = self.load_link(link)?;
        self.pager.window.note_block(link.page, link.sequence)?;
        let page = self.pager.arena.page(frame);
        let shapes = &self.pager.shapes;
        let width = |owner| width_in(shapes, owner);
        let place = (link.page, link.sequence);
        for row in buffer::rows(page, width) {
            if row.id > placed_in(&self.pager.root.committed, row.owner) {
                self.pager
                    .window
                    .runs
                    .note_old_row(place, row.owner, row.id)?;
            }
        }
        Ok(buffer::previous(page))
    }

    /// Continues in the block of the tail if nothing was programmed after it.
    fn continue_block(&mut self) -> Result<()> {
        let tail = self.pager.window.tail;
        self.pager.window.page = 0;
        if tail.sequence == 0 {
            return Ok(());
        }
        self.pager.window.note_block(tail.page, tail.sequence)?;
        let next = tail.page + 1;
        if !next.is_multiple_of(BLOCK_PAGES) && self.pager.is_clean(next)? {
            self.pager.window.page = next;
        }
        Ok(())
    }

    /// Removes rows that are in units, and frees the blocks that are no longer needed.
    pub(crate) fn trim(&mut self) -> Result<()> {
        let committed = self.pager.root.committed;
        let runs = &mut self.pager.window.runs;
        runs.retain(|run, _| waits(run, &committed));
        let page = self.pager.window.page.checked_sub(1);
        let current = page.map(|page| page / BLOCK_PAGES);
        let blocks = &mut self.pager.blocks;
        runs.drop_blocks(committed.buffer_start, current, |block| blocks.free(block));
        runs.follow(base_of(&committed))
    }

    /// Rewrites every waiting row and starts the window there, even if no row waits, so that no
    /// earlier page is needed. If it fails, [`Self::restore`] must follow.
    pub(crate) fn densify(&mut self) -> Result<()> {
        self.pager.window.close_runs()?;
        self.pager.window.rewriting = true;
        self.pager.window.previous = Link::default();
        self.pager.window.used = buffer::HEAD_BYTES;
        let start = self.pager.window.next;
        self.let_page_go();
        self.hold_page()?;
        self.pager.window.changed = true;
        for owner in (0u8..).take(TABLES_MAX) {
            // A run is removed once its rows are rewritten, so that both have room.
            while let Some(run) = self.pager.window.runs.take_oldest(owner, start) {
                self.copy_run(run)?;
            }
        }
        self.program_open_page()?;
        let mut record = self.pager.next_record()?;
        record.buffer_start = start;
        self.pager.root.finish(&record)?;
        self.pager.window.rewriting = false;
        self.trim()?;
        let blocks = BLOCKS_ROOM + rewrite_blocks(self.pager.room.waiting);
        self.pager.window.runs.shrink(self.pager.room.runs, blocks);
        Ok(())
    }

    /// Reads the window from flash again after an interrupted rewrite; no transaction may be open.
    pub(crate) fn restore(&mut self) -> Result<()> {
        if !self.pager.window.rewriting {
            return Ok(());
        }
        self.pager.arena.reset();
        self.pager.window.rewriting = false;
        self.pager.window.tail = self.pager.root.committed.tail;
        self.pager
            .window
            .runs
            .restart(base_of(&self.pager.root.committed));
        self.reload()?;
        self.pager.remark_blocks()
    }

    /// Appends the still waiting rows of `run` again.
    fn copy_run(&mut self, run: Run) -> Result<()> {
        let owner = run.owner();
        let placed = placed_in(&self.pager.root.committed, owner);
        let mut row = Scratch::new(self.pager.element_bytes(owner));
        for id in run.first().max(placed + 1)..run.end() {
            self.read_run(run, id, 0, &mut row)?;
            self.append(owner, id, &row)?;
        }
        Ok(())
    }
}

/// Returns the length of an owner's elements.
fn width_in(shapes: &[Shape; TABLES_MAX], owner: u8) -> usize {
    let shape = shapes.get(usize::from(owner)).copied();
    let width = shape.map_or(0, Shape::element);
    assert!(
        width > 0,
        "a waiting element has an owner whose shape is known"
    );
    width
}

/// Returns the identity of a buffer page.
pub(crate) fn buffer_identity(page: u32, sequence: u64) -> PageIdentity {
    PageIdentity {
        page,
        epoch: sequence,
        role: ROLE_BUFFER,
        owner: 0,
        number: 0,
    }
}

/// Returns the number of an owner's rows in units, according to `record`.
pub(crate) fn placed_in(record: &RootRecord, owner: u8) -> u32 {
    record.units(owner) * UNIT_ROWS
}

/// Returns the greatest number of pages of a table's waiting rows of `width` bytes.
pub(crate) fn waiting_pages(width: usize) -> usize {
    UNIT_ROWS.div_ceil(buffer::rows_per_page(width)) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element of an owner without a shape had no bytes: every element behind it in the page was
    /// read from a wrong place.
    #[test]
    #[should_panic(expected = "whose shape is known")]
    fn an_element_of_nobody_has_no_width() {
        let mut shapes = [Shape::default(); TABLES_MAX];
        shapes[1] = Shape::new(9, 1, 0).unwrap();
        assert_eq!(width_in(&shapes, 1), 9);
        width_in(&shapes, 2);
    }
}
