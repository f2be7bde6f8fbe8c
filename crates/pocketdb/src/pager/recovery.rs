//! Recovery at opening: reads the committed window, and continues after all uncommitted pages.

use crate::pager::Pager;
use crate::pager::directory::TEMPORARY;
use crate::pager::error::{Error, Result};
use crate::pager::flash::{BLOCK_PAGES, Nand, PageState};
use crate::pager::root::{Level, Origin, SecureStore, raise_format};
use crate::pager::seal::{Sealed, Since};
use crate::pager::secrets::read_chain;
use crate::pager::side::Side;

/// Least number of numbers that every opening skips after those last recorded.
pub(super) const NUMBERS_PER_OPENING: u64 = 1 << 20;
/// Number of further generations whose keys are tried on the first free block, and on others.
const GENERATIONS_FAR: u32 = 16;
const GENERATIONS_NEAR: u32 = 2;
/// Number of free blocks in a row without a page of the record's opening at which the search for later
/// pages ends: those before may have failed under a later opening.
const STRANGE_MAX: u32 = 4;
/// The number above which the store cannot be opened; an opening uses far fewer than remain then.
const NUMBER_MAX: u64 = u64::MAX - (1 << 40);

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Reads what the last record says of keys and of the directory; pages can be read then.
    pub(crate) fn begin_recovery(&mut self) -> Result<()> {
        self.root.read_generations()?;
        self.root.read_structure()?;
        self.clear_blocks()
    }

    /// Continues after all pages of an earlier opening; the shapes of all owners are known.
    ///
    /// A store of an earlier format is raised here, behind the first record with all codes. No page is
    /// sealed before that.
    pub(crate) fn continue_behind(&mut self, origin: Origin) -> Result<()> {
        self.mark_blocks()?;
        self.waiting().reload()?;
        if !self.root.committed.unit_next.is_multiple_of(BLOCK_PAGES)
            && !self.is_clean(self.root.committed.unit_next)?
        {
            self.root.committed.unit_next = 0;
        }
        // Numbers that an interrupted transaction may have used are never used again.
        let first = Since {
            epoch: behind(self.root.committed.epoch)?,
            sequence: behind(self.window.next())?,
        };
        let is_behind = |since: Since| since.epoch > first.epoch || since.sequence > first.sequence;
        if origin.since.is_some_and(is_behind) {
            return Err(Error::Root("is damaged"));
        }
        self.refuse_later_pages(first)?;
        // The numbers stay those of the last opening that programmed a page. With further ones, pages
        // that another opening of an older copy programmed would look like older ones.
        let record = self.next_record()?;
        self.root.finish(&record)?;
        if !origin.is_bound {
            let since = origin.since.is_none().then_some(first);
            raise_format(&mut self.root.secure, since)?;
            self.root.seal.seal_anew(origin.since.unwrap_or(first));
        }
        self.root.fill_ring()?;
        // They are noted before the first page is programmed, being far from those noted, and not before.
        self.root.keeps_noted = true;
        let more = u64::from(self.root.secure.random()?);
        self.root.committed.epoch = first.epoch + more;
        self.root.committed.buffer_next = first.sequence + more;
        self.window.continue_with(first.sequence + more);
        Ok(())
    }

    /// Refuses a record behind which another opening wrote: the secure store is an older copy.
    ///
    /// An opening skips numbers before it programs anything, so pages that a loss of power left, which
    /// no record names, have lower numbers than `first`. Looked at are the places at which the next
    /// opening would begin to write: behind the tail, and in the blocks that are free, in the order in
    /// which they are taken.
    fn refuse_later_pages(&mut self, first: Since) -> Result<()> {
        let tail = self.root.committed.tail;
        let behind = tail.page + 1;
        if tail.sequence > 0 && !behind.is_multiple_of(BLOCK_PAGES) {
            self.is_left_from(behind, first, GENERATIONS_NEAR)?;
        }
        let blocks = self.shapes.map(|shape| shape.pages().div_ceil(BLOCK_PAGES));
        let widest = blocks.into_iter().max().unwrap_or(1).max(1);
        // A unit of several blocks passes over a free one that stands alone.
        for wanted in (1..=widest).filter(|wanted| *wanted == 1 || blocks.contains(wanted)) {
            let before = self.blocks;
            let result = self.refuse_later_blocks(wanted, first);
            self.blocks = before;
            result?;
        }
        Ok(())
    }

    /// Looks at rows of `wanted` free blocks, past those that the record's own opening left.
    fn refuse_later_blocks(&mut self, wanted: u32, first: Since) -> Result<()> {
        let mut strange = 0;
        // The map of free blocks forgets those that were looked at when it moves on.
        for _ in 0..self.flash.blocks() {
            let block = match self.take_blocks(wanted) {
                Err(Error::DeviceFull) => return Ok(()),
                block => block?,
            };
            let generations = if strange == 0 {
                GENERATIONS_FAR
            } else {
                GENERATIONS_NEAR
            };
            if self.is_left_from(block * BLOCK_PAGES, first, generations)? {
                strange = 0;
                continue;
            }
            strange += 1;
            if strange == STRANGE_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Returns what [`Self::is_left`] does; looks at the last pages of the block too, because a later
    /// opening may have gone on behind those that the record's own opening left.
    fn is_left_from(&mut self, page: u32, first: Since, generations: u32) -> Result<bool> {
        if !self.is_left(page, first, generations)? {
            return Ok(false);
        }
        // The first clean page of the block, behind which no page was programmed.
        let (mut from, mut end) = (page + 1, (page + 1).next_multiple_of(BLOCK_PAGES));
        while from < end {
            let middle = from.midpoint(end);
            if self.is_clean(middle)? {
                end = middle;
            } else {
                from = middle + 1;
            }
        }
        // The very last one may be torn.
        for last in (page + 1..end).rev().take(2) {
            if self.is_left(last, first, GENERATIONS_NEAR)? {
                break;
            }
        }
        Ok(true)
    }

    /// Returns whether the opening of the record, or a query since, left the page behind it; refuses
    /// a page of a later opening.
    fn is_left(&mut self, page: u32, first: Since, generations: u32) -> Result<bool> {
        let frame = self.arena.victim();
        let bytes = self.arena.page_mut(frame);
        if self.flash.read(page, 0, bytes)? == PageState::Erased {
            return Ok(false);
        }
        let chain = read_chain(&mut self.root.secure, self.root.chain)?;
        let noted = self.root.noted;
        let (number, first, noted) =
            match self.root.seal.number_of(page, bytes, &chain, generations) {
                None => return Ok(false),
                Some(Sealed::Temporary(number)) => return Ok(number >= noted.0),
                Some(Sealed::Buffer(number)) => (number, first.sequence, noted.1),
                Some(Sealed::Lasting(number)) => (number, first.epoch, noted.0),
            };
        if number >= first {
            return Err(Error::Root("is older than what the chip holds"));
        }
        Ok(number >= noted)
    }

    /// Returns whether `page` was not programmed since its block was erased, in none of its sectors.
    pub(crate) fn is_clean(&mut self, page: u32) -> Result<bool> {
        let frame = self.arena.victim();
        let bytes = self.arena.page_mut(frame);
        Ok(self.flash.read(page, 0, bytes)? == PageState::Erased)
    }

    /// Fills the map of free blocks again.
    pub(crate) fn remark_blocks(&mut self) -> Result<()> {
        self.clear_blocks()?;
        self.mark_blocks()?;
        for block in self.window.blocks() {
            self.blocks.mark(block);
        }
        Ok(())
    }

    /// Marks the blocks with committed data.
    fn mark_blocks(&mut self) -> Result<()> {
        let state = self.root.committed.catalogue;
        if state.bytes > 0 {
            self.blocks.mark(state.page / BLOCK_PAGES);
        }
        for (owner, shape) in (0u8..).zip(self.shapes) {
            for unit in shape.first_unit()..self.root.committed.units(owner) {
                let start = self.root.entry(owner, unit)?.page;
                let last = start + shape.pages() - 1;
                (start / BLOCK_PAGES..=last / BLOCK_PAGES)
                    .for_each(|block| self.blocks.mark(block));
            }
        }
        let part = self.root.committed.part;
        for level in part.live() {
            self.mark_logs(level, [0; 2])?;
        }
        if part.building {
            // Includes the blocks of the current task.
            self.mark_logs(&part.next, self.grown)?;
        }
        self.mark_log(TEMPORARY, self.temporary.pages.div_ceil(BLOCK_PAGES))?;
        let unit_next = self.root.committed.unit_next;
        if !unit_next.is_multiple_of(BLOCK_PAGES) {
            self.blocks.mark(unit_next / BLOCK_PAGES);
        }
        Ok(())
    }

    /// Marks the blocks of both logs of a part, at least as many as given.
    fn mark_logs(&mut self, level: &Level, [body, lists]: [u32; 2]) -> Result<()> {
        let side = Side::new(level.side);
        self.mark_log(side.body, level.body.div_ceil(BLOCK_PAGES).max(body))?;
        self.mark_log(side.lists, level.lists.div_ceil(BLOCK_PAGES).max(lists))
    }

    fn mark_log(&mut self, owner: u8, blocks: u32) -> Result<()> {
        for block in 0..blocks {
            let page = self.root.entry(owner, block)?.page;
            self.blocks.mark(page / BLOCK_PAGES);
        }
        Ok(())
    }
}

/// Returns the first number of an opening, given the number after the last one recorded.
fn behind(number: u64) -> Result<u64> {
    let next = number.checked_add(NUMBERS_PER_OPENING);
    next.filter(|&next| next <= NUMBER_MAX)
        .ok_or(Error::Limit("the number of openings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_begin_anew_are_refused() {
        assert_eq!(behind(7), Ok(7 + NUMBERS_PER_OPENING));
        assert!(matches!(behind(u64::MAX - 9), Err(Error::Limit(_))));
    }
}
