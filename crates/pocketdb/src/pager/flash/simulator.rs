//! A flash chip in memory that counts operations, enforces the rules, and fails on demand.

use std::collections::BTreeSet;
use std::vec::Vec;

use super::{BLOCK_PAGES, FlashCounters, FlashError, Nand, PAGE_BYTES, PageState, SECTOR_BYTES};

/// Costs of the operations, in nanoseconds, before calibration.
///
/// The defaults are those of the data sheet named in `docs/pocketdb.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    /// Time to move one page from the cells to the chip's register.
    pub read_ns: u64,
    /// Time to move one page from the register to the cells.
    pub program_ns: u64,
    /// Time to erase one block.
    pub erase_ns: u64,
    /// Time to move one byte over the bus.
    pub bus_byte_ns: u64,
    /// Factor between this model and the measured token, in thousandths.
    pub calibration_permille: u64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            read_ns: 25_000,
            program_ns: 200_000,
            erase_ns: 1_500_000,
            bus_byte_ns: 25,
            calibration_permille: 1_400,
        }
    }
}

impl CostModel {
    /// Returns the simulated time of the operations in `counters`, in nanoseconds; the greatest number
    /// where damaged counters lead beyond it ([`Usage::is_damaged`](crate::Usage::is_damaged)).
    pub fn nanoseconds(&self, counters: &FlashCounters) -> u64 {
        let product = |count: u64, each: u64| u128::from(count) * u128::from(each);
        let sector = SECTOR_BYTES as u64 * self.bus_byte_ns;
        let page = PAGE_BYTES as u64 * self.bus_byte_ns;
        let raw = product(counters.page_reads, self.read_ns)
            + product(counters.sector_reads, sector)
            + product(counters.programs, self.program_ns + page)
            + product(counters.erases, self.erase_ns);
        let time = raw.saturating_mul(u128::from(self.calibration_permille)) / 1_000;
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// The content of a page whose programming was interrupted by a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    /// Nothing was programmed.
    Nothing,
    /// The first bytes were programmed; the rest is noise.
    Prefix(usize),
    /// Whole sectors were programmed, those whose bits are set from the lowest on; the others stayed
    /// erased.
    Sectors(u8),
    /// All bytes were programmed, but the operation reported a failure.
    Everything,
}

/// A loss of power planned for a later operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// Number of programs and erases that succeed before the one that fails.
    pub after: u64,
    /// The content that the failed operation leaves.
    pub torn: Torn,
}

/// A simulated flash chip.
#[derive(Debug, Clone)]
pub struct Simulator {
    cells: Vec<u8>,
    /// Number of programmed pages of each block, which are the first ones.
    filled: Vec<u32>,
    erases: Vec<u32>,
    bad: BTreeSet<u32>,
    counters: FlashCounters,
    cut: Option<PowerCut>,
    dead: bool,
}

impl Simulator {
    /// Creates a chip of `blocks` erased blocks.
    pub fn new(blocks: u32) -> Self {
        let count = blocks as usize;
        Self {
            cells: vec![0xFF; count * BLOCK_PAGES as usize * PAGE_BYTES],
            filled: vec![0; count],
            erases: vec![0; count],
            bad: BTreeSet::new(),
            counters: FlashCounters::default(),
            cut: None,
            dead: false,
        }
    }

    /// Plans a loss of power.
    pub fn plan_cut(&mut self, cut: PowerCut) {
        self.cut = Some(cut);
    }

    /// Restores the power and cancels a planned cut.
    pub fn restore_power(&mut self) {
        self.cut = None;
        self.dead = false;
    }

    /// Makes every later program and erase of `block` fail.
    pub fn wear_out(&mut self, block: u32) {
        self.bad.insert(block);
    }

    /// Inverts one bit of the cells, as an attacker or ageing would.
    pub fn flip_bit(&mut self, page: u32, bit: usize) {
        if let Some(byte) = self.page_mut(page).and_then(|cells| cells.get_mut(bit / 8)) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Replaces the content of a page outside the engine's control.
    pub fn overwrite(&mut self, page: u32, bytes: &[u8]) {
        if let Some(cells) = self.page_mut(page)
            && cells.len() == bytes.len()
        {
            cells.copy_from_slice(bytes);
        }
    }

    /// Returns the raw content of a page, without counting a read.
    pub fn peek(&self, page: u32) -> Option<&[u8]> {
        let start = page as usize * PAGE_BYTES;
        self.cells.get(start..start + PAGE_BYTES)
    }

    /// Returns whether `page` was programmed since its block was erased.
    pub fn is_programmed(&self, page: u32) -> bool {
        self.filled
            .get((page / BLOCK_PAGES) as usize)
            .is_some_and(|&count| page % BLOCK_PAGES < count)
    }

    /// Returns the erase count of every block.
    pub fn wear(&self) -> &[u32] {
        &self.erases
    }

    fn page_mut(&mut self, page: u32) -> Option<&mut [u8]> {
        let start = page as usize * PAGE_BYTES;
        self.cells.get_mut(start..start + PAGE_BYTES)
    }

    /// Counts down to the planned cut; returns the content to leave if this operation is the one.
    fn tick(&mut self) -> Option<Torn> {
        let cut = self.cut.as_mut()?;
        if cut.after > 0 {
            cut.after -= 1;
            return None;
        }
        self.dead = true;
        Some(cut.torn)
    }

    fn usable(&self, block: u32) -> Result<(), FlashError> {
        if self.dead {
            return Err(FlashError::PowerLost);
        }
        if block >= self.blocks() {
            return Err(FlashError::OutOfRange);
        }
        Ok(())
    }

    fn store(&mut self, page: u32, bytes: &[u8], prefix: usize) {
        let kept = prefix.min(bytes.len());
        let mut noise = u64::from(page) | 1;
        if let Some(cells) = self.page_mut(page) {
            for (index, (cell, byte)) in cells.iter_mut().zip(bytes).enumerate() {
                noise = noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                *cell = if index < kept {
                    *byte
                } else {
                    noise.to_be_bytes()[0]
                };
            }
        }
        if let Some(filled) = self.filled.get_mut((page / BLOCK_PAGES) as usize) {
            *filled += 1;
        }
    }
}

/// Returns a page of which only the sectors in `set` were programmed.
fn sectors_of(bytes: &[u8], set: u8) -> Vec<u8> {
    let sectors = bytes.chunks(SECTOR_BYTES).enumerate();
    let sectors = sectors.map(|(number, sector)| match set >> number & 1 {
        1 => sector.to_vec(),
        _ => vec![0xFF; sector.len()],
    });
    sectors.flatten().collect()
}

impl Nand for Simulator {
    fn blocks(&self) -> u32 {
        u32::try_from(self.filled.len()).unwrap_or(u32::MAX)
    }

    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
        self.usable(page / BLOCK_PAGES)?;
        let whole = offset.is_multiple_of(SECTOR_BYTES) && out.len().is_multiple_of(SECTOR_BYTES);
        let start = page as usize * PAGE_BYTES + offset;
        if !whole || out.is_empty() || offset + out.len() > PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        let cells = self
            .cells
            .get(start..start + out.len())
            .ok_or(FlashError::OutOfRange)?;
        out.copy_from_slice(cells);
        self.counters.page_reads += 1;
        self.counters.sector_reads += (out.len() / SECTOR_BYTES) as u64;
        let blank = out.iter().all(|&byte| byte == 0xFF);
        Ok(if self.is_programmed(page) && !blank {
            PageState::Programmed
        } else {
            PageState::Erased
        })
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        let block = page / BLOCK_PAGES;
        self.usable(block)?;
        if bytes.len() != PAGE_BYTES {
            return Err(FlashError::BadLength);
        }
        let filled = self
            .filled
            .get(block as usize)
            .copied()
            .unwrap_or(BLOCK_PAGES);
        match (page % BLOCK_PAGES).cmp(&filled) {
            core::cmp::Ordering::Less => return Err(FlashError::NotErased),
            core::cmp::Ordering::Greater => return Err(FlashError::OutOfOrder),
            core::cmp::Ordering::Equal => {}
        }
        if self.bad.contains(&block) {
            return Err(FlashError::BadBlock);
        }
        if let Some(torn) = self.tick() {
            match torn {
                Torn::Nothing => {}
                Torn::Prefix(kept) => self.store(page, bytes, kept),
                Torn::Sectors(set) => self.store(page, &sectors_of(bytes, set), PAGE_BYTES),
                Torn::Everything => self.store(page, bytes, PAGE_BYTES),
            }
            return Err(FlashError::PowerLost);
        }
        self.store(page, bytes, PAGE_BYTES);
        self.counters.programs += 1;
        Ok(())
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        self.usable(block)?;
        if self.bad.contains(&block) {
            return Err(FlashError::BadBlock);
        }
        if self.tick() == Some(Torn::Nothing) {
            return Err(FlashError::PowerLost);
        }
        let start = block as usize * BLOCK_PAGES as usize * PAGE_BYTES;
        let end = start + BLOCK_PAGES as usize * PAGE_BYTES;
        if let Some(cells) = self.cells.get_mut(start..end) {
            cells.fill(0xFF);
        }
        if let Some(filled) = self.filled.get_mut(block as usize) {
            *filled = 0;
        }
        if let Some(erases) = self.erases.get_mut(block as usize) {
            *erases += 1;
        }
        self.counters.erases += 1;
        if self.dead {
            Err(FlashError::PowerLost)
        } else {
            Ok(())
        }
    }

    fn counters(&self) -> FlashCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programmed_page_is_not_programmed_again_and_order_is_kept() {
        let mut chip = Simulator::new(2);
        let page = [7u8; PAGE_BYTES];
        assert_eq!(chip.program(1, &page), Err(FlashError::OutOfOrder));
        chip.program(0, &page).unwrap();
        assert_eq!(chip.program(0, &page), Err(FlashError::NotErased));
        assert_eq!(chip.program(1, &page[..512]), Err(FlashError::BadLength));
        assert_eq!(chip.program(128, &page), Err(FlashError::OutOfRange));
        chip.erase(0).unwrap();
        chip.program(0, &page).unwrap();
        assert_eq!(chip.counters().programs, 2);
        assert_eq!(chip.wear(), &[1, 0]);
    }

    #[test]
    fn a_sector_read_counts_one_sector_and_tells_an_erased_page() {
        let mut chip = Simulator::new(1);
        let mut sector = [0u8; SECTOR_BYTES];
        assert_eq!(chip.read(3, 512, &mut sector), Ok(PageState::Erased));
        assert_eq!(sector, [0xFF; SECTOR_BYTES]);
        assert_eq!(chip.read(3, 100, &mut sector), Err(FlashError::BadLength));
        assert_eq!(chip.counters().sector_reads, 1);
    }

    #[test]
    fn nothing_works_after_a_cut_until_the_power_returns() {
        let mut chip = Simulator::new(1);
        let page = [7u8; PAGE_BYTES];
        chip.plan_cut(PowerCut {
            after: 1,
            torn: Torn::Prefix(10),
        });
        chip.program(0, &page).unwrap();
        assert_eq!(chip.program(1, &page), Err(FlashError::PowerLost));
        assert_eq!(chip.erase(0), Err(FlashError::PowerLost));
        chip.restore_power();
        assert_eq!(&chip.peek(1).unwrap()[..10], &page[..10]);
        assert_ne!(&chip.peek(1).unwrap()[10..], &page[10..]);
        assert_eq!(chip.program(1, &page), Err(FlashError::NotErased));
    }

    #[test]
    fn the_default_costs_are_those_of_the_calibrated_model() {
        let counters = FlashCounters {
            page_reads: 1,
            sector_reads: 4,
            programs: 1,
            erases: 0,
        };
        // (25 + 51.2 + 200 + 51.2) us x 1.4
        assert_eq!(CostModel::default().nanoseconds(&counters), 458_360);
    }
}
