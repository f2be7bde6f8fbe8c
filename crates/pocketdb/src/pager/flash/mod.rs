//! The interface of a flash chip: a page is programmed once, in ascending order within its block,
//! until an erase.

#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod overlay;
#[cfg(feature = "std")]
mod simulator;
#[cfg(feature = "std")]
mod steady;

#[cfg(feature = "std")]
pub use file::FileFlash;
#[cfg(feature = "std")]
pub(crate) use file::{lock, unlock};
#[cfg(feature = "std")]
pub use overlay::Overlay;
#[cfg(feature = "std")]
pub use simulator::{CostModel, PowerCut, Simulator, Torn};
#[cfg(feature = "std")]
pub use steady::{PageHash, Steady};

/// Bytes of one flash page, the unit of programming.
pub const PAGE_BYTES: usize = 2048;
/// Bytes of one sector, the unit of partial reads.
pub const SECTOR_BYTES: usize = 512;
/// Pages of one block, the unit of erasure.
pub const BLOCK_PAGES: u32 = 64;

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Nothing was programmed since the last erasure; every byte reads as `0xFF`.
    Erased,
    /// The page was programmed, perhaps only partly.
    Programmed,
}

/// Operations a device has done since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashCounters {
    /// Reads, each of one or more sectors of one page.
    pub page_reads: u64,
    /// Sectors delivered by those reads.
    pub sector_reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// Errors of a flash chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashError {
    /// A page was programmed that has not been erased since it was last programmed.
    NotErased,
    /// A page was programmed before an earlier page of its block, or after a later one.
    OutOfOrder,
    /// The page or block lies beyond the end of the device.
    OutOfRange,
    /// A read or a program does not have the length of whole sectors or of a page.
    BadLength,
    /// The supply failed during this operation; nothing works until it returns.
    PowerLost,
    /// The block can no longer be programmed or erased.
    BadBlock,
    /// The medium behind the device failed.
    Medium,
    /// A page reads differently than before, although it was not written.
    Changed,
}

/// A flash chip.
///
/// Implementers return an error for every operation that breaks the rules of NAND flash (see
/// [`FlashError`]). A programmed page must survive a loss of power once `program` has returned. If
/// `program` failed, callers may assume neither the old nor the new content of the page.
pub trait Nand {
    /// Returns the number of blocks of [`BLOCK_PAGES`] pages each.
    fn blocks(&self) -> u32;

    /// Reads whole sectors of `page` into `out`, from byte `offset`, a multiple of a sector.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::BadLength`], or the medium's failure.
    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError>;

    /// Programs one whole page.
    ///
    /// # Errors
    /// Any [`FlashError`]; the page is lost until its block is erased.
    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError>;

    /// Programs one whole page that is not needed after a loss of power.
    ///
    /// # Errors
    /// As [`Self::program`].
    fn program_temporary(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.program(page, bytes)
    }

    /// Erases one block.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::BadBlock`], or the medium's failure.
    fn erase(&mut self, block: u32) -> Result<(), FlashError>;

    /// Returns the operations since the device was created.
    fn counters(&self) -> FlashCounters;
}

impl core::fmt::Display for FlashError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Changed => "a page was changed by another program while it was read",
            Self::NotErased => "a page was programmed without erasing its block",
            Self::OutOfOrder => "a page was programmed out of order inside its block",
            Self::OutOfRange => "the page lies beyond the end of the device",
            Self::BadLength => "the transfer is not a whole number of sectors",
            Self::PowerLost => "the power failed during the operation",
            Self::BadBlock => "the block is worn out",
            Self::Medium => "the medium behind the flash device failed",
        })
    }
}

impl core::error::Error for FlashError {}
