//! A simulated flash translation layer: pages can be rewritten in any order, on flash that must be
//! erased by blocks.
//!
//! The layer maps page by page and writes to one open block. When free blocks run out, it moves the
//! valid pages of the block with the fewest. The map itself costs nothing here, which favours the
//! layer.

use probity_pocketdb::flash::{BLOCK_PAGES, FlashCounters};

use super::data::mixed;

/// Number of addressable pages per spare page.
const SPARE_SHARE: u32 = 8;
/// Number of blocks that stay free as targets of moves.
const FREE_BLOCKS_MIN: usize = 4;
/// The place of a page that was never written, and the content of an empty place.
const NOWHERE: u32 = u32::MAX;

/// The translation layer and the flash below it.
pub(super) struct Ftl {
    /// The physical place of each page, and the page at each physical place.
    places: Vec<u32>,
    pages: Vec<u32>,
    /// Number of valid pages of each block.
    valid: Vec<u32>,
    free: Vec<u32>,
    open: u32,
    next: u32,
    pub(super) counters: FlashCounters,
}

impl Ftl {
    /// Creates a layer for `pages` pages. It writes all of them once and then as many at random, so
    /// that measurements start on a used chip.
    pub(super) fn used(pages: u32, seed: u64) -> Self {
        let physical = pages + pages / SPARE_SHARE;
        let margin = u32::try_from(FREE_BLOCKS_MIN * 2).unwrap_or(0);
        let blocks = physical.div_ceil(BLOCK_PAGES) + margin;
        let mut layer = Self {
            places: vec![NOWHERE; pages as usize],
            pages: vec![NOWHERE; (blocks * BLOCK_PAGES) as usize],
            valid: vec![0; blocks as usize],
            free: (1..blocks).rev().collect(),
            open: 0,
            next: 0,
            counters: FlashCounters::default(),
        };
        (0..pages).for_each(|page| layer.write(page));
        for number in 0..u64::from(pages) {
            let page = mixed(seed << 40 | number) % u64::from(pages.max(1));
            layer.write(u32::try_from(page).unwrap_or(0));
        }
        layer.counters = FlashCounters::default();
        layer
    }

    /// Reads a page.
    pub(super) const fn read(&mut self) {
        self.counters.page_reads += 1;
    }

    /// Writes a page again.
    pub(super) fn write(&mut self, page: u32) {
        self.put(page);
        while self.free.len() < FREE_BLOCKS_MIN {
            self.collect();
        }
    }

    fn put(&mut self, page: u32) {
        if self.next == BLOCK_PAGES {
            self.open = self.free.pop().unwrap_or(0);
            self.next = 0;
            self.counters.erases += 1;
        }
        let place = self.open * BLOCK_PAGES + self.next;
        self.next += 1;
        self.counters.programs += 1;
        let Some(known) = self.places.get_mut(page as usize) else {
            return;
        };
        let old = std::mem::replace(known, place);
        if let Some(slot) = self.pages.get_mut(old as usize) {
            *slot = NOWHERE;
        }
        if let Some(count) = self.valid.get_mut((old / BLOCK_PAGES) as usize) {
            *count -= 1;
        }
        if let Some(slot) = self.pages.get_mut(place as usize) {
            *slot = page;
        }
        if let Some(count) = self.valid.get_mut(self.open as usize) {
            *count += 1;
        }
    }

    /// Erases the block with the fewest valid pages, after moving these.
    fn collect(&mut self) {
        let open = self.open;
        let blocks = (0u32..).zip(self.valid.iter().copied());
        let used = blocks.filter(|(block, _)| *block != open && !self.free.contains(block));
        let Some((victim, _)) = used.min_by_key(|(_, valid)| *valid) else {
            return;
        };
        for place in victim * BLOCK_PAGES..(victim + 1) * BLOCK_PAGES {
            let page = self.pages.get(place as usize).copied().unwrap_or(NOWHERE);
            if page != NOWHERE {
                self.counters.page_reads += 1;
                self.put(page);
            }
        }
        self.free.insert(0, victim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_where_the_map_says_whatever_was_moved() {
        let mut layer = Ftl::used(1_000, 7);
        for number in 0..20_000u64 {
            layer.write(u32::try_from(mixed(number) % 1_000).unwrap());
        }
        for (page, &place) in (0u32..).zip(&layer.places) {
            assert_eq!(layer.pages[place as usize], page);
        }
        let valid: u32 = layer.valid.iter().sum();
        assert_eq!(valid, 1_000);
        // Moves add programs, so in the long run the cost of a write exceeds one program.
        let programs = layer.counters.programs;
        assert!(programs > 20_000 && programs < 120_000, "{programs}");
        assert!(layer.counters.erases * u64::from(BLOCK_PAGES) <= programs + 64);
    }

    #[test]
    fn pages_written_in_a_circle_are_never_moved() {
        let mut layer = Ftl::used(64 * 20, 3);
        for _ in 0..4 {
            (0..64 * 20).for_each(|page| layer.write(page));
        }
        layer.counters = FlashCounters::default();
        (0..64 * 20).for_each(|page| layer.write(page));
        assert_eq!(layer.counters.programs, 64 * 20);
    }
}
