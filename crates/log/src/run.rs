//! The indexes that a batch of entries gets, from when it is taken until it is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The indexes of a batch of one appender's entries; shared by the appender and the pipeline.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Index of the run's first entry plus one; 0 until durable.
    first: AtomicU64,
}

impl Run {
    /// A run that is durable already, its first entry at `first_index`.
    pub(crate) fn at(first_index: u64) -> Self {
        let run = Self::default();
        run.complete(first_index);
        run
    }

    /// Index of the first entry, once it is durable.
    pub(crate) fn first_index(&self) -> Option<u64> {
        // Acquire: pairs with `complete`; everything made durable before is visible.
        self.first.load(Ordering::Acquire).checked_sub(1)
    }

    pub(crate) fn complete(&self, first_index: u64) {
        // Release: a reader of the index sees everything that made it durable.
        self.first
            .store(first_index.saturating_add(1), Ordering::Release);
    }
}

/// A run and the index of its first entry.
pub(crate) type PlacedRun = (Arc<Run>, u64);
