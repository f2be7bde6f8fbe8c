//! Which blocks of the device are free; the next one is taken in a circle, so that all wear alike.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::limits::BAD_BLOCKS_MAX;

/// The blocks of a device.
pub(crate) struct Blocks {
    used: Vec<u64>,
    count: u32,
    /// Where the search for a free block begins.
    next: u32,
    /// Blocks that can no longer be programmed; they are never free.
    bad: Vec<u32>,
}

/// Bytes that the map of a device of `count` blocks takes.
pub(crate) fn map_bytes(count: u32) -> usize {
    count.div_ceil(64) as usize * 8
}

impl Blocks {
    /// A device whose blocks are all free.
    pub(crate) fn new(count: u32, next: u32) -> Self {
        Self {
            used: alloc::vec![0; map_bytes(count) / 8],
            count,
            next,
            bad: Vec::with_capacity(BAD_BLOCKS_MAX),
        }
    }

    /// Blocks of the device.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Where the next search begins.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Whether `block` is in use.
    pub(crate) fn is_used(&self, block: u32) -> bool {
        let word = self.used.get((block / 64) as usize);
        word.is_none_or(|word| word >> (block % 64) & 1 == 1)
    }

    /// Marks `block` as in use.
    pub(crate) fn mark(&mut self, block: u32) {
        if let Some(word) = self.used.get_mut((block / 64) as usize) {
            *word |= 1 << (block % 64);
        }
    }

    /// Marks `block` as failed; returns whether that is news.
    pub(crate) fn retire(&mut self, block: u32) -> Result<bool> {
        self.mark(block);
        if self.bad.contains(&block) {
            return Ok(false);
        }
        if self.bad.len() >= BAD_BLOCKS_MAX {
            return Err(Error::Limit("the number of failed blocks"));
        }
        self.bad.push(block);
        Ok(true)
    }

    /// Whether `block` failed.
    pub(crate) fn is_bad(&self, block: u32) -> bool {
        self.bad.contains(&block)
    }

    /// Marks every block as free that did not fail.
    pub(crate) fn clear(&mut self) {
        self.used.fill(0);
        for number in 0..self.bad.len() {
            if let Some(&block) = self.bad.get(number) {
                self.mark(block);
            }
        }
    }

    /// Failed blocks.
    pub(crate) fn bad_count(&self) -> usize {
        self.bad.len()
    }

    /// Marks `block` as free.
    pub(crate) fn free(&mut self, block: u32) {
        if self.bad.contains(&block) {
            return;
        }
        if let Some(word) = self.used.get_mut((block / 64) as usize) {
            *word &= !(1 << (block % 64));
        }
    }

    /// Takes `wanted` free blocks in a row and returns the first.
    pub(crate) fn take_run(&mut self, wanted: u32) -> Result<u32> {
        let mut from = self.next;
        let mut length = 0;
        // A run may begin before the place where the search began, hence the margin.
        for _ in 0..self.count + wanted {
            if from + length >= self.count {
                from = 0;
                length = 0;
            }
            if self.is_used(from + length) {
                from += length + 1;
                length = 0;
                continue;
            }
            length += 1;
            if length == wanted {
                (from..from + wanted).for_each(|block| self.mark(block));
                self.next = from + wanted;
                return Ok(from);
            }
        }
        Err(Error::DeviceFull)
    }

    /// Takes one free block.
    pub(crate) fn take(&mut self) -> Result<u32> {
        self.take_run(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_in_a_circle_and_runs_are_whole() {
        let mut blocks = Blocks::new(70, 0);
        assert_eq!(blocks.take_run(68), Ok(0));
        assert_eq!(blocks.take(), Ok(68));
        blocks.free(3);
        blocks.free(4);
        blocks.free(6);
        assert_eq!(blocks.take_run(3), Err(Error::DeviceFull));
        assert_eq!(blocks.take(), Ok(69));
        assert_eq!(blocks.take_run(2), Ok(3));
        assert_eq!(blocks.take(), Ok(6));
        assert_eq!(blocks.take(), Err(Error::DeviceFull));
        blocks.free(0);
        assert_eq!(blocks.take(), Ok(0));
    }

    #[test]
    fn a_failed_block_is_never_free_again() {
        let mut blocks = Blocks::new(3, 0);
        assert_eq!(blocks.retire(1), Ok(true));
        assert_eq!(blocks.retire(1), Ok(false));
        blocks.free(1);
        assert_eq!((blocks.take(), blocks.take()), (Ok(0), Ok(2)));
        assert_eq!(blocks.bad_count(), 1);
    }
}
