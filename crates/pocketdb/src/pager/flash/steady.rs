//! A flash chip that detects if a page changes between reads, and records a hash of each page read.

use std::collections::BTreeMap;

use super::{BLOCK_PAGES, FlashCounters, FlashError, Nand, PAGE_BYTES, PageState};

/// A hash of a page's number and bytes.
pub type PageHash<H> = fn(u32, &[u8]) -> H;

/// A chip that only this engine may write. A page that reads differently than before is an error.
/// [`Self::seen`] returns the hash of exactly the bytes that the engine authenticated.
#[derive(Debug)]
pub struct Steady<F, H> {
    inner: F,
    hash: PageHash<H>,
    seen: BTreeMap<u32, H>,
}

impl<F: Nand, H: Copy + Eq> Steady<F, H> {
    /// Wraps the chip `inner`.
    pub const fn new(inner: F, hash: PageHash<H>) -> Self {
        Self {
            inner,
            hash,
            seen: BTreeMap::new(),
        }
    }

    /// Returns the hash of a page as it was read; `None` if it was not read, or was written since.
    pub fn seen(&self, page: u32) -> Option<H> {
        self.seen.get(&page).copied()
    }
}

impl<F: Nand, H: Copy + Eq> Nand for Steady<F, H> {
    fn blocks(&self) -> u32 {
        self.inner.blocks()
    }

    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
        // Reads the whole page once, so that the hash is of the very bytes returned.
        let mut whole = [0; PAGE_BYTES];
        let state = self.inner.read(page, 0, &mut whole)?;
        let asked = offset.checked_add(out.len());
        let part = asked.and_then(|end| whole.get(offset..end));
        out.copy_from_slice(part.ok_or(FlashError::BadLength)?);
        let hash = (self.hash)(page, &whole);
        if *self.seen.entry(page).or_insert(hash) != hash {
            return Err(FlashError::Changed);
        }
        Ok(state)
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.seen.remove(&page);
        self.inner.program(page, bytes)
    }

    fn program_temporary(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.seen.remove(&page);
        self.inner.program_temporary(page, bytes)
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        let first = block.saturating_mul(BLOCK_PAGES);
        for page in (0..BLOCK_PAGES).map(|number| first.saturating_add(number)) {
            self.seen.remove(&page);
        }
        self.inner.erase(block)
    }

    fn counters(&self) -> FlashCounters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A chip whose pages an attacker rewrites after each read.
    struct Restless(Cell<u8>);

    impl Nand for Restless {
        fn blocks(&self) -> u32 {
            1
        }

        fn read(&mut self, page: u32, _: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
            out.fill(if page == 0 { 7 } else { self.0.get() });
            self.0.set(self.0.get() + 1);
            Ok(PageState::Programmed)
        }

        fn program(&mut self, _: u32, _: &[u8]) -> Result<(), FlashError> {
            Ok(())
        }

        fn erase(&mut self, _: u32) -> Result<(), FlashError> {
            Ok(())
        }

        fn counters(&self) -> FlashCounters {
            FlashCounters::default()
        }
    }

    /// Pages were authenticated in one pass and hashed for a signature in another. An attacker who
    /// rewrote them in between got the owner's signature on other content.
    #[test]
    fn a_page_that_changes_between_two_passes_is_refused() {
        let sum =
            |page: u32, bytes: &[u8]| page + bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        let mut chip = Steady::new(Restless(Cell::new(1)), sum);
        let mut out = [0; 512];
        for _ in 0..2 {
            assert_eq!(chip.read(0, 512, &mut out), Ok(PageState::Programmed));
            assert_eq!(out, [7; 512]);
        }
        assert_eq!(chip.seen(0), Some(7 * 2048));
        assert_eq!(chip.read(1, 0, &mut out), Ok(PageState::Programmed));
        let seen = chip.seen(1);
        assert_eq!(chip.read(1, 0, &mut out), Err(FlashError::Changed));
        assert_eq!(
            chip.seen(1),
            seen,
            "what was authenticated stays what is known"
        );
        chip.program(1, &[0; PAGE_BYTES]).unwrap();
        assert_eq!((chip.seen(1), chip.seen(2)), (None, None));
        assert_eq!(chip.read(0, 2047, &mut out), Err(FlashError::BadLength));
        chip.erase(0).unwrap();
        assert_eq!(chip.seen(0), None);
    }
}
