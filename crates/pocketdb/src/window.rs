//! The commit buffer: rows that are committed or about to be, and wait for their unit.
//!
//! A commit programs the page being filled as it is; the next commit programs it again at the next
//! place with the rows that came meanwhile, and the chain goes past the version before. So waiting
//! rows always lie densely, however small the transactions are. A frame is held for the page as
//! long as no version has all of its rows.

use alloc::vec::Vec;

use crate::arena::HELD;
use crate::buffer;
use crate::bytes::part;
use crate::directory::owner_of;
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::limits::{BUFFER_BLOCKS_MAX, UNIT_ROWS};
use crate::root::{Link, RootRecord, SecureStore};
use crate::scratch::Scratch;
use crate::seal::{PageIdentity, ROLE_BUFFER};
use crate::store::Store;

/// So many frames are all wanted by whoever needs working space.
const FRAMES_FEW: usize = 7;
/// Place of rows in the page being filled.
const OPEN: u32 = u32::MAX;

/// Rows of one table in one page: their ids follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    page: u32,
    /// Sequence number of the page, counted from the window's base.
    sequence: u32,
    first: u32,
    count: u16,
    table: u8,
}

impl Run {
    /// Whether one of its rows has no unit yet.
    fn waits(&self, record: &RootRecord) -> bool {
        let last = self.first + u32::from(self.count) - 1;
        last > placed_in(record, usize::from(self.table))
    }
}

/// A block of the buffer and the last page of it that was programmed.
#[derive(Debug, Clone, Copy)]
struct Used {
    block: u32,
    /// Counted from the window's base.
    last: u32,
}

/// The state of the commit buffer in memory.
pub(crate) struct Window {
    /// Bytes in use of the page being filled.
    used: usize,
    /// What the page being filled links to.
    previous: Link,
    /// The last version programmed, of the page being filled or of the one before it.
    tail: Link,
    /// Whether the page being filled has rows that its last version lacks.
    changed: bool,
    next: u64,
    /// The next page of the block in use; none when a block begins.
    page: u32,
    blocks: Vec<Used>,
    runs: Vec<Run>,
    base: u64,
}

/// Bytes of memory a window with room for `runs` runs takes.
pub(crate) fn window_bytes(runs: usize) -> usize {
    runs * size_of::<Run>() + (BUFFER_BLOCKS_MAX + 8) * size_of::<Used>()
}

impl Window {
    /// The window that `record` describes, still without its rows.
    pub(crate) fn new(record: &RootRecord, runs: usize) -> Self {
        Self {
            used: buffer::HEAD_BYTES,
            previous: Link::default(),
            tail: record.tail,
            changed: false,
            next: record.buffer_next,
            page: 0,
            blocks: Vec::with_capacity(BUFFER_BLOCKS_MAX + 8),
            runs: Vec::with_capacity(runs),
            base: record.buffer_start.saturating_sub(1),
        }
    }

    /// Puts what the record needs to know of the window into it.
    pub(crate) fn describe(&self, record: &mut RootRecord) {
        record.buffer_next = self.next;
        record.tail = self.tail;
    }

    /// The oldest sequence number that a row needs which waits once `record` holds.
    pub(crate) fn oldest(&self, record: &RootRecord) -> u64 {
        let closed = self
            .runs
            .iter()
            .filter(|run| run.page != OPEN && run.waits(record));
        let oldest = closed.map(|run| self.base + u64::from(run.sequence)).min();
        let tail = self.tail.sequence.max(1);
        oldest.unwrap_or(tail).min(tail)
    }

    /// Blocks that hold the window.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|used| used.block)
    }

    /// Sequence number of the next page.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Skips `count` sequence numbers.
    pub(crate) fn skip(&mut self, count: u64) {
        self.next += count;
    }

    /// A sequence number counted from the window's base.
    fn offset(&self, sequence: u64) -> u32 {
        u32::try_from(sequence.saturating_sub(self.base)).unwrap_or(u32::MAX)
    }

    fn note_block(&mut self, page: u32, sequence: u64) {
        let block = page / BLOCK_PAGES;
        let sequence = self.offset(sequence);
        match self.blocks.iter_mut().find(|used| used.block == block) {
            Some(used) => used.last = used.last.max(sequence),
            None => self.blocks.push(Used {
                block,
                last: sequence,
            }),
        }
    }

    fn add_run(&mut self, run: Run) -> Result<()> {
        if self.runs.len() == self.runs.capacity() {
            return Err(Error::Limit("the number of rows in one transaction"));
        }
        self.runs.push(run);
        Ok(())
    }

    fn note_row(&mut self, table: u8, id: u32) -> Result<()> {
        if let Some(number) = self.open_run(table, id)
            && let Some(run) = self.runs.get_mut(number)
        {
            run.count += 1;
            return Ok(());
        }
        self.add_run(Run {
            page: OPEN,
            sequence: 0,
            first: id,
            count: 1,
            table,
        })
    }

    /// Lets the rows of the page being filled be found where its last version is.
    fn close_runs(&mut self) {
        let sequence = self.offset(self.tail.sequence);
        for run in self.runs.iter_mut().filter(|run| run.page == OPEN) {
            run.page = self.tail.page;
            run.sequence = sequence;
        }
    }

    /// The first run of `table` that was written before sequence number `start`.
    fn old_run(&self, table: usize, start: u64) -> Option<usize> {
        let old = |run: &Run| {
            usize::from(run.table) == table
                && run.page != OPEN
                && self.base + u64::from(run.sequence) < start
        };
        self.runs.iter().position(old)
    }

    /// Whether a row of `table` finds a run, its own or a new one.
    fn has_room(&self, table: u8, id: u32) -> bool {
        self.runs.len() < self.runs.capacity() || self.open_run(table, id).is_some()
    }

    /// The run of the page being filled that the row `id` continues.
    fn open_run(&self, table: u8, id: u32) -> Option<usize> {
        self.runs.iter().rposition(|run| {
            run.page == OPEN && run.table == table && run.first + u32::from(run.count) == id
        })
    }

    fn find(&self, table: usize, id: u32) -> Option<Run> {
        let holds = |run: &&Run| {
            usize::from(run.table) == table
                && id
                    .checked_sub(run.first)
                    .is_some_and(|at| at < u32::from(run.count))
        };
        self.runs.iter().find(holds).copied()
    }
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Adds a row with its join row to the page being filled.
    pub(crate) fn append(&mut self, table: usize, id: u32, row: &[u8]) -> Result<()> {
        let tag = owner_of(table);
        for _ in 0..2 {
            if !self.window.has_room(tag, id) {
                return Err(Error::Limit("the number of rows in one transaction"));
            }
            self.hold_page()?;
            let window = &mut self.window;
            let page = self.arena.page_mut(HELD);
            if let Some(used) = buffer::append(page, window.used, tag, id, row) {
                window.used = used;
                window.changed = true;
                return window.note_row(tag, id);
            }
            self.turn_page()?;
        }
        Err(Error::Limit("the width of a row"))
    }

    /// Holds a frame with the page being filled, so that rows can be added to it.
    fn hold_page(&mut self) -> Result<()> {
        if self.arena.is_held() {
            return Ok(());
        }
        let Window {
            used,
            tail,
            previous,
            ..
        } = self.window;
        if used > buffer::HEAD_BYTES {
            let frame = self.load(&buffer_identity(tail.page, tail.sequence))?;
            self.arena.hold(Some(frame));
        } else {
            self.arena.hold(None);
            buffer::begin(self.arena.page_mut(HELD), &previous);
        }
        Ok(())
    }

    /// Finishes the page being filled and begins the next one.
    fn turn_page(&mut self) -> Result<()> {
        self.program_open_page()?;
        let window = &mut self.window;
        window.close_runs();
        window.previous = window.tail;
        window.used = buffer::HEAD_BYTES;
        Ok(())
    }

    /// Lets what follows have every frame where there are few: an open transaction's page is
    /// programmed before it is full.
    pub(crate) fn clear_frames(&mut self) -> Result<()> {
        if self.arena.frames() <= FRAMES_FEW {
            self.program_open_page()?;
        }
        Ok(())
    }

    /// Programs the page being filled if its last version lacks something.
    pub(crate) fn program_open_page(&mut self) -> Result<()> {
        if !self.window.changed {
            self.let_page_go();
            return Ok(());
        }
        let area = self.arena.lease(1)?;
        let mut result = self.program_version(area);
        while result == Err(Error::Flash(FlashError::BadBlock)) {
            // The block fails; its earlier pages still read, and the version goes elsewhere.
            self.window.page = 0;
            result = self.program_version(area);
        }
        self.arena.release(area);
        self.let_page_go();
        result
    }

    /// Lets the page being filled be read like others, as its last version.
    fn let_page_go(&mut self) {
        let Window {
            used,
            tail,
            changed,
            ..
        } = self.window;
        if self.arena.is_held() && !changed {
            let there = used > buffer::HEAD_BYTES;
            let version = there.then_some((tail.page, tail.sequence));
            self.arena.let_go(version);
        }
    }

    fn program_version(&mut self, area: crate::arena::Area) -> Result<()> {
        if self.window.page.is_multiple_of(BLOCK_PAGES) {
            if self.window.blocks.len() >= BUFFER_BLOCKS_MAX + 8 {
                return Err(Error::Limit("the number of rows in one transaction"));
            }
            let block = self.take_blocks(1)?;
            self.window.page = block * BLOCK_PAGES;
        }
        let sequence = self.window.next;
        let identity = buffer_identity(self.window.page, sequence);
        self.arena.copy_page(HELD, area);
        let code = self.seal.close(&identity, self.arena.area_mut(area));
        self.window.next += 1;
        self.window.note_block(identity.page, sequence);
        self.program(identity.page, area, 0)?;
        let window = &mut self.window;
        window.tail = Link {
            sequence,
            page: identity.page,
            code,
        };
        window.page += 1;
        window.changed = false;
        Ok(())
    }

    /// Copies `out.len()` bytes from `at` of a waiting row.
    pub(crate) fn read_waiting(
        &mut self,
        table: usize,
        id: u32,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let missing = Error::Tampered {
            page: self.window.tail.page,
            what: "row",
        };
        let run = self.window.find(table, id).ok_or(missing)?;
        self.read_run(run, id, at, out)
    }

    fn read_run(&mut self, run: Run, id: u32, at: usize, out: &mut [u8]) -> Result<()> {
        let frame = if run.page != OPEN {
            let sequence = self.window.base + u64::from(run.sequence);
            self.load(&buffer_identity(run.page, sequence))?
        } else if self.arena.is_held() {
            HELD
        } else {
            let tail = self.window.tail;
            self.load(&buffer_identity(tail.page, tail.sequence))?
        };
        let page = self.arena.page(frame);
        // Most rows of a page are of one table.
        let table = usize::from(run.table);
        let own = self.catalogue.widths(table).1;
        let width = |other| {
            if other == table {
                own
            } else {
                self.catalogue.widths(other).1
            }
        };
        let wanted = |row: &buffer::Located| row.table == run.table && row.id == id;
        let missing = Error::Tampered {
            page: run.page,
            what: "row",
        };
        let found = buffer::rows(page, width).find(wanted).ok_or(missing)?;
        out.copy_from_slice(part(page, found.at + at, out.len()));
        Ok(())
    }

    /// Forgets every row that was appended since the last commit.
    pub(crate) fn rollback_window(&mut self) -> Result<()> {
        let tail = self.committed.tail;
        let base = self.window.base;
        let kept = |run: &Run| run.page != OPEN && base + u64::from(run.sequence) < tail.sequence;
        self.window.runs.retain(kept);
        self.window.tail = tail;
        self.reload_tail()
    }

    /// Reads the whole committed window.
    pub(crate) fn reload_window(&mut self) -> Result<()> {
        self.reload_tail()?;
        let mut link = self.window.previous;
        while link.sequence >= self.committed.buffer_start && link.sequence > 0 {
            link = self.note_page(&link)?;
        }
        self.continue_block()?;
        for used in &self.window.blocks {
            self.blocks.mark(used.block);
        }
        Ok(())
    }

    /// Reads every page of the committed window.
    pub(crate) fn verify_window(&mut self) -> Result<u64> {
        let mut link = self.committed.tail;
        let mut checked = 0;
        while link.sequence >= self.committed.buffer_start && link.sequence > 0 {
            let frame = self.load_link(&link)?;
            link = buffer::previous(self.arena.page(frame));
            checked += 1;
        }
        Ok(checked)
    }

    /// Takes the last committed page as the one being filled.
    fn reload_tail(&mut self) -> Result<()> {
        let tail = self.window.tail;
        self.arena.let_go(None);
        self.window.changed = false;
        self.window.previous = Link::default();
        self.window.used = buffer::HEAD_BYTES;
        if tail.sequence == 0 {
            return Ok(());
        }
        let frame = self.load_link(&tail)?;
        let page = self.arena.page(frame);
        self.window.previous = buffer::previous(page);
        let width = |table| self.catalogue.widths(table).1;
        for row in buffer::rows(page, width) {
            let table = usize::from(row.table);
            self.window.used = row.at + width(table);
            if row.id > placed_in(&self.committed, table) {
                self.window.note_row(row.table, row.id)?;
            }
        }
        Ok(())
    }

    /// Reads a buffer page and checks that it is the very one that `link` means.
    fn load_link(&mut self, link: &Link) -> Result<usize> {
        let identity = buffer_identity(link.page, link.sequence);
        let (frame, code) = self.fetch(&identity)?;
        if code != link.code {
            return Err(Error::Tampered {
                page: identity.page,
                what: "commit buffer page",
            });
        }
        Ok(frame)
    }

    /// Notes the rows of a committed page before the tail; returns the page before it.
    fn note_page(&mut self, link: &Link) -> Result<Link> {
        let frame = self.load_link(link)?;
        let page = self.arena.page(frame);
        let width = |table| self.catalogue.widths(table).1;
        let sequence = self.window.offset(link.sequence);
        for row in buffer::rows(page, width) {
            if row.id <= placed_in(&self.committed, usize::from(row.table)) {
                continue;
            }
            let own = |run: &&mut Run| run.page == link.page && run.table == row.table;
            match self.window.runs.iter_mut().rev().find(own) {
                Some(run) if run.first + u32::from(run.count) == row.id => run.count += 1,
                _ => self.window.add_run(Run {
                    page: link.page,
                    sequence,
                    first: row.id,
                    count: 1,
                    table: row.table,
                })?,
            }
        }
        let previous = buffer::previous(page);
        self.window.note_block(link.page, link.sequence);
        Ok(previous)
    }

    /// Continues the block of the tail where nothing was programmed behind it.
    fn continue_block(&mut self) -> Result<()> {
        let tail = self.window.tail;
        self.window.page = 0;
        if tail.sequence == 0 {
            return Ok(());
        }
        self.window.note_block(tail.page, tail.sequence);
        let next = tail.page + 1;
        if !next.is_multiple_of(BLOCK_PAGES) && self.is_clean(next)? {
            self.window.page = next;
        }
        Ok(())
    }

    /// Forgets rows that have their place now and frees the blocks nobody needs.
    pub(crate) fn trim_window(&mut self) {
        let committed = self.committed;
        self.window.runs.retain(|run| run.waits(&committed));
        let current = self
            .window
            .page
            .checked_sub(1)
            .map(|page| page / BLOCK_PAGES);
        let blocks = &mut self.blocks;
        let start = self.window.offset(committed.buffer_start);
        self.window.blocks.retain(|used| {
            let kept = used.last >= start || Some(used.block) == current;
            if !kept {
                blocks.free(used.block);
            }
            kept
        });
    }

    /// Whether so much is in use that the waiting rows should be written again.
    pub(crate) fn is_window_long(&self) -> bool {
        let window = &self.window;
        window.runs.len() > self.plan.crowded || window.blocks.len() > BUFFER_BLOCKS_MAX
    }

    /// Writes every waiting row again and lets the window begin there, even if no row waits, so that
    /// none of its earlier pages matters.
    pub(crate) fn densify(&mut self) -> Result<()> {
        self.window.close_runs();
        self.window.previous = Link::default();
        self.window.used = buffer::HEAD_BYTES;
        let start = self.window.next;
        self.let_page_go();
        self.hold_page()?;
        self.window.changed = true;
        for table in 0..self.catalogue.len() {
            // A run goes as soon as its rows are written again, so that both find room.
            while let Some(number) = self.window.old_run(table, start) {
                let run = self.window.runs.remove(number);
                self.copy_run(run)?;
            }
        }
        self.program_open_page()?;
        let mut record = self.next_record()?;
        record.buffer_start = start;
        self.finish(&record)?;
        self.trim_window();
        Ok(())
    }

    /// Appends the rows of `run` again, those that still wait.
    fn copy_run(&mut self, run: Run) -> Result<()> {
        let table = usize::from(run.table);
        let width = self.catalogue.widths(table).1;
        let placed = placed_in(&self.committed, table);
        let mut row = Scratch::new(width);
        for id in run.first.max(placed + 1)..run.first + u32::from(run.count) {
            self.read_run(run, id, 0, &mut row)?;
            self.append(table, id, &row)?;
        }
        Ok(())
    }
}

/// The identity of a buffer page.
pub(crate) fn buffer_identity(page: u32, sequence: u64) -> PageIdentity {
    PageIdentity {
        page,
        epoch: sequence,
        role: ROLE_BUFFER,
        owner: 0,
        number: 0,
    }
}

/// Rows of `table` that `record` has in units.
pub(crate) fn placed_in(record: &RootRecord, table: usize) -> u32 {
    record.units(table) * UNIT_ROWS
}

/// Pages that the waiting rows of a table with rows of `width` bytes fill at most.
pub(crate) fn waiting_pages(width: usize) -> usize {
    UNIT_ROWS.div_ceil(buffer::rows_per_page(width)) as usize + 1
}
