//! A flash chip of which every change stays in memory.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::{BLOCK_PAGES, FlashCounters, FlashError, Nand, PAGE_BYTES, PageState, SECTOR_BYTES};

/// A chip over another one that is only read: what is programmed and erased is kept in memory, and
/// gone when this is dropped.
#[derive(Debug)]
pub struct Overlay<F> {
    below: F,
    /// The programmed pages of each block that was changed, one behind the other.
    changed: BTreeMap<u32, Vec<u8>>,
    counters: FlashCounters,
}

impl<F: Nand> Overlay<F> {
    /// Lays an overlay without changes over `below`.
    pub fn new(below: F) -> Self {
        Self {
            below,
            changed: BTreeMap::new(),
            counters: FlashCounters::default(),
        }
    }

    fn in_range(&self, block: u32) -> Result<(), FlashError> {
        if block < self.below.blocks() {
            Ok(())
        } else {
            Err(FlashError::OutOfRange)
        }
    }

    /// Returns the programmed pages of a block, which are its first ones, to be changed.
    fn block_mut(&mut self, block: u32) -> Result<&mut Vec<u8>, FlashError> {
        if !self.changed.contains_key(&block) {
            let (mut pages, mut programmed) = (Vec::new(), 0);
            for number in 0..BLOCK_PAGES {
                let mut page = [0; PAGE_BYTES];
                let state = self
                    .below
                    .read(block * BLOCK_PAGES + number, 0, &mut page)?;
                pages.extend_from_slice(&page);
                if state == PageState::Programmed {
                    programmed = pages.len();
                }
            }
            pages.truncate(programmed);
            self.changed.insert(block, pages);
        }
        self.changed.get_mut(&block).ok_or(FlashError::OutOfRange)
    }
}

impl<F: Nand> Nand for Overlay<F> {
    fn blocks(&self) -> u32 {
        self.below.blocks()
    }

    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
        let state = match self.changed.get(&(page / BLOCK_PAGES)) {
            None => self.below.read(page, offset, out)?,
            Some(pages) => {
                let whole =
                    offset.is_multiple_of(SECTOR_BYTES) && out.len().is_multiple_of(SECTOR_BYTES);
                if !whole || out.is_empty() || offset + out.len() > PAGE_BYTES {
                    return Err(FlashError::BadLength);
                }
                let at = (page % BLOCK_PAGES) as usize * PAGE_BYTES + offset;
                match pages.get(at..at + out.len()) {
                    Some(found) => out.copy_from_slice(found),
                    None => out.fill(0xFF),
                }
                if out.iter().all(|&byte| byte == 0xFF) {
                    PageState::Erased
                } else {
                    PageState::Programmed
                }
            }
        };
        self.counters.page_reads += 1;
        self.counters.sector_reads += (out.len() / SECTOR_BYTES) as u64;
        Ok(state)
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        let block = page / BLOCK_PAGES;
        self.in_range(block)?;
        if bytes.len() != PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        let pages = self.block_mut(block)?;
        match ((page % BLOCK_PAGES) as usize).cmp(&(pages.len() / PAGE_BYTES)) {
            core::cmp::Ordering::Less => return Err(FlashError::NotErased),
            core::cmp::Ordering::Greater => return Err(FlashError::OutOfOrder),
            core::cmp::Ordering::Equal => pages.extend_from_slice(bytes),
        }
        self.counters.programs += 1;
        Ok(())
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        self.in_range(block)?;
        self.changed.insert(block, Vec::new());
        self.counters.erases += 1;
        Ok(())
    }

    fn counters(&self) -> FlashCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::flash::Simulator;

    /// A page as the chips have it, whatever it is.
    fn page(chip: &mut impl Nand, number: u32) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        chip.read(number, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_overlay_is_a_chip_and_leaves_the_one_below_as_it_is() {
        let mut below = Simulator::new(4);
        let [old, new] = [1u8, 2].map(|byte| [byte; PAGE_BYTES]);
        below.erase(1).unwrap();
        below.program(64, &old).unwrap();
        let mut before = below.clone();
        let mut chip = Overlay::new(below);
        assert_eq!(page(&mut chip, 64), old);
        assert_eq!(chip.program(64, &new), Err(FlashError::NotErased));
        assert_eq!(chip.program(66, &new), Err(FlashError::OutOfOrder));
        assert_eq!(chip.program(256, &new), Err(FlashError::OutOfRange));
        assert_eq!(chip.program(65, &[0; 3]), Err(FlashError::BadLength));
        chip.program(65, &new).unwrap();
        assert_eq!([page(&mut chip, 64), page(&mut chip, 65)], [old, new]);
        assert_eq!(page(&mut chip, 66), [0xFF; PAGE_BYTES]);
        chip.erase(1).unwrap();
        assert_eq!(page(&mut chip, 64), [0xFF; PAGE_BYTES]);
        chip.program(64, &new).unwrap();
        assert_eq!(page(&mut chip, 64), new);
        let counters = chip.counters();
        assert_eq!((counters.programs, counters.erases), (2, 1));
        let mut below = chip.below;
        for number in [64, 65] {
            assert_eq!(page(&mut below, number), page(&mut before, number));
        }
    }
}
