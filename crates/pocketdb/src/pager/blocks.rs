//! Allocation of the device's blocks. Free blocks are taken in a circle, so that all wear evenly.
//!
//! Memory has a map of a few blocks only, the next in the circle. When the search leaves them, the
//! map moves on and is filled again from the secure store. So a larger device needs no more memory.
//! The list of failed blocks is in the secure store too.

use crate::limits::BAD_BLOCKS_MAX;
use crate::pager::Pager;
use crate::pager::error::{Error, Result};
use crate::pager::flash::Nand;
use crate::pager::root::{SecureStore, read_bad};

/// Number of blocks in the map: the bits of one word.
const MAP_BLOCKS: u32 = u64::BITS;

/// The block allocator of a device.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Bit set of the blocks in use, within the map.
    used: u64,
    /// Bit set of the failed blocks, within the map; they are never free.
    bad: u64,
    /// The first block in the map.
    first: u32,
    count: u32,
    /// The block at which the search for a free one begins.
    next: u32,
}

impl Blocks {
    /// Creates the map of a device whose blocks are all free.
    pub(crate) fn new(count: u32, next: u32) -> Self {
        let first = if count > MAP_BLOCKS && next < count {
            next
        } else {
            0
        };
        Self {
            used: 0,
            bad: 0,
            first,
            count,
            next,
        }
    }

    /// Returns the block at which the next search begins.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Returns the block after the last one in the map.
    fn end(&self) -> u32 {
        self.count.min(self.first + MAP_BLOCKS)
    }

    /// Returns the bit of a block; `None` outside the map.
    fn bit(&self, block: u32) -> Option<u64> {
        let place = block.checked_sub(self.first)?;
        (block < self.end()).then(|| 1 << place)
    }

    /// Returns whether `block` is in the map and free.
    pub(crate) fn is_free(&self, block: u32) -> bool {
        self.bit(block).is_some_and(|bit| self.used & bit == 0)
    }

    /// Marks `block` as in use.
    pub(crate) fn mark(&mut self, block: u32) {
        self.used |= self.bit(block).unwrap_or(0);
    }

    /// Marks `block` as failed.
    fn retire(&mut self, block: u32) {
        self.bad |= self.bit(block).unwrap_or(0);
        self.mark(block);
    }

    /// Marks every block as free; the caller fills the map again.
    fn clear(&mut self) {
        self.used = 0;
        self.bad = 0;
    }

    /// Marks `block` as free, unless it failed.
    pub(crate) fn free(&mut self, block: u32) {
        self.used &= !self.bit(block).unwrap_or(0);
        self.used |= self.bad;
    }

    /// Takes `wanted` adjacent free blocks within the map, from the end of the last search on;
    /// returns the first.
    fn take_covered(&mut self, wanted: u32) -> Option<u32> {
        let (mut from, mut length) = (self.next.max(self.first), 0);
        while from + length < self.end() {
            if !self.is_free(from + length) {
                from += length + 1;
                length = 0;
                continue;
            }
            length += 1;
            if length == wanted {
                (from..from + wanted).for_each(|block| self.mark(block));
                self.next = from + wanted;
                return Some(from);
            }
        }
        // Adjacent free blocks may begin here and extend beyond the map.
        self.next = from;
        None
    }

    /// Moves the map to the next blocks in the circle; returns whether the caller must fill it
    /// again.
    fn turn(&mut self) -> bool {
        if self.end() == self.count {
            self.next = 0;
        }
        let moved = self.count > MAP_BLOCKS;
        if moved {
            self.first = self.next;
        }
        moved
    }
}

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Adds a block to the list of failed blocks, which are never used again.
    pub(crate) fn retire(&mut self, block: u32) -> Result<()> {
        self.blocks.retire(block);
        self.root.note_bad(block)
    }

    /// Marks every block as free that has not failed.
    pub(crate) fn clear_blocks(&mut self) -> Result<()> {
        self.blocks.clear();
        for number in 0..BAD_BLOCKS_MAX {
            let Some(block) = read_bad(&mut self.root.secure, number)? else {
                break;
            };
            self.blocks.retire(block);
        }
        Ok(())
    }

    /// Takes `wanted` adjacent free blocks and returns the first.
    pub(crate) fn take_blocks(&mut self, wanted: u32) -> Result<u32> {
        self.root.keep_numbers(self.window.next())?;
        // Adjacent free blocks may begin before the start of the search, hence the margin.
        let mut left = self.blocks.count + wanted + MAP_BLOCKS;
        loop {
            let looked_at = self.blocks.end().saturating_sub(self.blocks.next).max(1);
            if let Some(block) = self.blocks.take_covered(wanted) {
                return Ok(block);
            }
            left = left.checked_sub(looked_at).ok_or(Error::DeviceFull)?;
            if self.blocks.turn() {
                self.remark_blocks()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Takes blocks of a device on which only `kept` and the blocks in `taken` are in use.
    fn take(blocks: &mut Blocks, taken: &mut Vec<u32>, wanted: u32) -> Option<u32> {
        for _ in 0..4 {
            if let Some(first) = blocks.take_covered(wanted) {
                taken.extend(first..first + wanted);
                return Some(first);
            }
            if blocks.turn() {
                blocks.clear();
                for &block in taken.iter() {
                    blocks.mark(block);
                }
            }
        }
        None
    }

    #[test]
    fn blocks_are_taken_in_a_circle_and_rows_are_whole() {
        let (mut blocks, mut taken) = (Blocks::new(100, 0), Vec::new());
        assert_eq!(take(&mut blocks, &mut taken, 60), Some(0));
        // The blocks cross the end of the previous map.
        assert_eq!(take(&mut blocks, &mut taken, 30), Some(60));
        assert_eq!(take(&mut blocks, &mut taken, 9), Some(90));
        taken.retain(|block| ![3, 4, 6].contains(block));
        assert_eq!(take(&mut blocks, &mut taken, 3), None);
        assert_eq!(take(&mut blocks, &mut taken, 2), Some(3));
        assert_eq!(take(&mut blocks, &mut taken, 1), Some(6));
        assert_eq!(take(&mut blocks, &mut taken, 1), Some(99));
        assert_eq!(take(&mut blocks, &mut taken, 1), None);
    }

    #[test]
    fn a_small_device_is_covered_whole() {
        let mut blocks = Blocks::new(3, 2);
        assert_eq!(blocks.take_covered(1), Some(2));
        assert_eq!(blocks.take_covered(1), None);
        assert!(!blocks.turn());
        blocks.free(2);
        assert_eq!(blocks.take_covered(3), Some(0));
        assert!(!blocks.is_free(1) && !blocks.is_free(3));
    }

    #[test]
    fn a_failed_block_is_never_free_again() {
        let mut blocks = Blocks::new(3, 0);
        blocks.retire(1);
        blocks.free(1);
        blocks.free(0);
        assert_eq!(
            (blocks.take_covered(1), blocks.take_covered(1)),
            (Some(0), Some(2))
        );
        assert_eq!(blocks.take_covered(1), None);
    }
}
