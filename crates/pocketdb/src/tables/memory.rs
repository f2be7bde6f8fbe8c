//! The memory plan: the memory of every component, and the number of page frames that remain.

use crate::error::{Error, Result};
use crate::limits::MEMORY_BYTES_MIN;
use crate::pager::flash::PAGE_BYTES;
use crate::pager::window::{Room, window_bytes};
use crate::tables::base::waiting_pages_of;
use crate::tables::catalogue::Catalogue;

/// Stack of a statement in bytes; a test measures that it suffices. A reorganisation needs more
/// stack, but none of the memory that statements allocate.
const STACK_BYTES: usize = 6_176;
/// Bytes of the keys and of the store itself.
const STATE_BYTES: usize = 3_712;
const _: () = assert!(size_of::<crate::pager::seal::Seal>() + 1_600 <= STATE_BYTES);
/// Memory that one statement may allocate, in bytes: a share of the total, between a least and a
/// most.
const STATEMENT_BYTES: core::ops::RangeInclusive<usize> = 3 * 1024..=4 * 1024;
const STATEMENT_SHARE: (usize, usize) = (3, 32);
/// Number of runs of the commit buffer for transactions, beyond those of all waiting rows: at
/// least, and if there is enough memory.
const RUNS_SPARE: (usize, usize) = (40, 64);
/// Number of these runs that sparsely written rows may take before all waiting rows are rewritten
/// densely.
const RUNS_LOOSE: usize = 4;
/// Number of runs of the commit buffer with much memory, at least and at most.
const RUNS_MUCH: core::ops::RangeInclusive<usize> = 128..=512;
/// Greatest number of runs.
const RUNS_MAX: usize = 1_024;
/// Bytes of the summary of deletes and updates with its stretches, with little and with much
/// memory.
const SUMMARY_BYTES: core::ops::RangeInclusive<usize> = 1024..=6 * 1024;
/// Least and greatest number of frames.
const FRAMES: core::ops::RangeInclusive<usize> = 7..=24;
/// Bytes of a frame with its head.
const FRAME_BYTES: usize = PAGE_BYTES + size_of::<crate::pager::arena::Head>();

/// The memory given, and the shares that tables and statements keep in mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes given.
    pub(crate) memory: usize,
    /// Bytes that a statement may allocate.
    pub(crate) statement: usize,
    /// Bytes used, never more than given.
    pub(crate) used: usize,
}

/// The division of the memory given at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) budget: Budget,
    /// The share of frames and waiting rows.
    pub(crate) pages: Room,
    /// Bytes of the summary of deletes and updates.
    pub(crate) summary: usize,
}

impl Plan {
    /// Plans the use of `memory` bytes.
    pub(crate) fn new(catalogue: &Catalogue, memory: usize) -> Result<Self> {
        let waiting = waiting_pages_of(catalogue);
        let (least, usual) = RUNS_SPARE;
        if waiting + least > RUNS_MAX {
            return Err(Error::Limit("the width of all rows together"));
        }
        // A larger window allows larger transactions; more frames make everything faster.
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
        // Rewriting all rows takes one more run for each table.
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
            budget: Budget {
                memory,
                statement,
                used: fixed + frames * FRAME_BYTES,
            },
            pages: Room {
                runs: runs + spare,
                spare: runs,
                waiting,
                crowded: (runs / 2).max(waiting + RUNS_LOOSE),
                frames,
            },
            summary,
        })
    }
}
