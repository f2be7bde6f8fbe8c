//! Chunks that the appenders have handed over and that no segment holds yet. Their numbers follow
//! the order of the hand-over.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The chunks that were handed over and are not written yet.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the next chunk.
    next: u64,
    under_way: BTreeSet<u64>,
}

impl InFlight {
    /// Registers a chunk that leaves; returns its number.
    pub(crate) fn depart(&self) -> u64 {
        let mut state = self.lock();
        let number = state.next;
        state.next = number.saturating_add(1);
        state.under_way.insert(number);
        number
    }

    /// Removes chunks that are written or never will be.
    pub(crate) fn arrive(&self, numbers: &[u64]) {
        let mut state = self.lock();
        for number in numbers {
            state.under_way.remove(number);
        }
    }

    /// The number of chunks that left so far.
    pub(crate) fn departed(&self) -> u64 {
        self.lock().next
    }

    /// Returns whether the first `count` chunks are written.
    pub(crate) fn has_arrived(&self, count: u64) -> bool {
        self.lock()
            .under_way
            .first()
            .is_none_or(|first| *first >= count)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
