//! The plan of the memory: what every part takes, and how many page frames remain.

use crate::catalogue::Catalogue;
use crate::error::{Error, Result};
use crate::flash::PAGE_BYTES;
use crate::limits::MEMORY_BYTES_MIN;
use crate::store::waiting_pages_of;
use crate::window::window_bytes;

/// Stack of a statement; a test measures that no more is used. A reorganisation needs more of it, but
/// nothing of what statements allocate.
const STACK_BYTES: usize = 6_128;
/// Keys, and the store itself.
const STATE_BYTES: usize = 3_712;
const _: () = assert!(size_of::<crate::seal::Seal>() + 1_600 <= STATE_BYTES);
/// What one statement allocates: a share of the memory, with a least and a most.
const STATEMENT_BYTES: core::ops::RangeInclusive<usize> = 3 * 1024..=4 * 1024;
const STATEMENT_SHARE: (usize, usize) = (3, 32);
/// Runs of the commit buffer beyond those that all waiting rows may fill, for transactions: at least,
/// and where there is room.
const RUNS_SPARE: (usize, usize) = (40, 64);
/// Those of them that rows written loosely may take before all that wait are written densely.
const RUNS_LOOSE: usize = 4;
/// Runs of the commit buffer at least, and at most, when there is room for more than necessary.
const RUNS_MUCH: core::ops::RangeInclusive<usize> = 128..=512;
/// Runs that tables may need.
const RUNS_MAX: usize = 1_024;
/// Bytes of the summary of deletes and updates, its stretches included, with little and with much memory.
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
    /// Runs of waiting rows, and so many of them that rows of transactions may fill.
    pub(crate) runs: usize,
    pub(crate) room: usize,
    /// Pages that waiting rows fill at most when they lie densely.
    pub(crate) waiting: usize,
    /// Runs at which the waiting rows are written again, densely.
    pub(crate) crowded: usize,
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
    pub(crate) fn new(catalogue: &Catalogue, memory: usize) -> Result<Self> {
        let waiting = waiting_pages_of(catalogue);
        let (least, usual) = RUNS_SPARE;
        if waiting + least > RUNS_MAX {
            return Err(Error::Limit("the width of all rows together"));
        }
        // A larger window makes large transactions possible; frames make everything faster.
        let mut runs = (2 * waiting).max(waiting + usual);
        let mut summary = *SUMMARY_BYTES.start();
        let (share, whole) = STATEMENT_SHARE;
        let statement = (memory / whole * share)
            .max(*STATEMENT_BYTES.start())
            .min(*STATEMENT_BYTES.end());
        if memory >= 2 * MEMORY_BYTES_MIN {
            runs = (4 * waiting)
                .max(*RUNS_MUCH.start())
                .min(*RUNS_MUCH.end())
                .max(waiting + usual);
            summary = *SUMMARY_BYTES.end();
        }
        let others = STACK_BYTES + STATE_BYTES + catalogue.memory_bytes() + summary + statement;
        // Writing all rows again takes one run more for each table than they have.
        let spare = catalogue.len();
        let window = |runs| window_bytes(runs + spare, waiting);
        let needed = |runs| others + window(runs) + FRAMES.start() * FRAME_BYTES;
        if needed(runs) > memory {
            runs = waiting + least;
        }
        if needed(runs) > memory {
            return Err(Error::Memory {
                needed: needed(runs),
                given: memory,
            });
        }
        let fixed = others + window(runs);
        let frames = ((memory - fixed) / FRAME_BYTES).min(*FRAMES.end());
        Ok(Self {
            memory,
            runs: runs + spare,
            room: runs,
            waiting,
            crowded: (runs / 2).max(waiting + RUNS_LOOSE),
            summary,
            statement,
            frames,
            used: fixed + frames * FRAME_BYTES,
        })
    }
}
