//! The flash chip as the engine sees it: pages programmed once, in order, until a block is erased.

#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod simulator;
#[cfg(feature = "std")]
mod steady;

#[cfg(feature = "std")]
pub use file::FileFlash;
#[cfg(feature = "std")]
pub(crate) use file::lock;
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

/// What a flash chip refuses or fails to do.
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
    /// A page reads otherwise than it did before, and nobody wrote it.
    Changed,
}

/// Whether a page holds anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Nothing was programmed since the last erasure; every byte reads as `0xFF`.
    Erased,
    /// Something was programmed, perhaps only in part.
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

/// A flash chip.
///
/// Implementers refuse every operation that breaks the discipline of NAND flash (see
/// [`FlashError`]) and keep a programmed page across a loss of power once `program` has returned.
/// Callers may not assume that a page whose `program` failed holds either its old or its new
/// content.
pub trait Nand {
    /// Number of blocks of [`BLOCK_PAGES`] pages each.
    fn blocks(&self) -> u32;

    /// Fills `out`, whole sectors, from `page` beginning at byte `offset`, a multiple of a sector.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::BadLength`], or the medium's failure.
    fn read(&mut self, page: u32, offset: usize, out: &mut [u8]) -> Result<PageState, FlashError>;

    /// Programs one whole page.
    ///
    /// # Errors
    /// Any [`FlashError`]; the page is lost until its block is erased.
    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError>;

    /// Programs one whole page that nobody needs after a loss of power.
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

    /// Operations since the device was created.
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
