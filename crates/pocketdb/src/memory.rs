//! The plan of the memory: what every part takes, and how many page frames remain.

use crate::catalogue::Catalogue;
use crate::directory::{CHUNK_STATE_BYTES, chunks_max};
use crate::error::{Error, Result};
use crate::flash::PAGE_BYTES;
use crate::limits::{BAD_BLOCKS_MAX, MEMORY_BYTES_MIN};
use crate::store::waiting_pages_of;
use crate::window::window_bytes;

/// Stack; a test measures that no more is used.
const STACK_BYTES: usize = 7 * 1024;
/// Keys, and the store itself.
const STATE_BYTES: usize = 5 * 1024;
const _: () = assert!(size_of::<crate::seal::Seal>() + 2_304 <= STATE_BYTES);
/// What one statement allocates, with little and with much memory.
const STATEMENT_BYTES: core::ops::RangeInclusive<usize> = 3 * 1024..=5 * 1024;
/// Runs of the commit buffer at least, and at most when there is room for more than necessary.
const RUNS: core::ops::RangeInclusive<usize> = 64..=512;
/// Runs that tables may need.
const RUNS_MAX: usize = 1_024;
/// Bytes of the summary of deletes and updates, with little and with much memory.
const SUMMARY_BYTES: core::ops::RangeInclusive<usize> = 1024..=6 * 1024;
/// Frames at least and at most.
const FRAMES: core::ops::RangeInclusive<usize> = 7..=24;
/// Bytes of a frame with its head.
const FRAME_BYTES: usize = PAGE_BYTES + size_of::<crate::arena::Head>();

/// What the memory given at the start is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Bytes given.
    pub(crate) memory: usize,
    /// Runs of waiting rows.
    pub(crate) runs: usize,
    /// Bytes of the summary of deletes and updates.
    pub(crate) summary: usize,
    /// Bytes that a statement may allocate.
    pub(crate) statement: usize,
    /// Page frames.
    pub(crate) frames: usize,
    /// Bytes used, never more than given.
    pub(crate) used: usize,
}

impl Plan {
    /// Divides `memory`.
    pub(crate) fn new(catalogue: &Catalogue, store_bytes: usize, memory: usize) -> Result<Self> {
        // Half of the runs must do for all waiting rows, so that they can be written again.
        let mut runs = (2 * waiting_pages_of(catalogue)).max(*RUNS.start());
        if runs > RUNS_MAX {
            return Err(Error::Limit("the width of all rows together"));
        }
        let fixed = STACK_BYTES
            + STATE_BYTES
            + BAD_BLOCKS_MAX * size_of::<u32>()
            + chunks_max(store_bytes) * CHUNK_STATE_BYTES
            + catalogue.memory_bytes();
        // A larger window makes large transactions possible; frames make everything faster.
        let mut summary = *SUMMARY_BYTES.start();
        let mut statement = *STATEMENT_BYTES.start();
        if memory >= 2 * MEMORY_BYTES_MIN {
            runs = (2 * runs).min(*RUNS.end()).max(runs);
            summary = *SUMMARY_BYTES.end();
            statement = *STATEMENT_BYTES.end();
        }
        let fixed = fixed + summary + statement + window_bytes(runs);
        let frames = (memory.saturating_sub(fixed) / FRAME_BYTES).min(*FRAMES.end());
        if frames < *FRAMES.start() {
            return Err(Error::Memory {
                needed: fixed + FRAMES.start() * FRAME_BYTES,
                given: memory,
            });
        }
        Ok(Self {
            memory,
            runs,
            summary,
            statement,
            frames,
            used: fixed + frames * FRAME_BYTES,
        })
    }
}
