//! Counted requests of callers to a thread of the log; one round of work answers all requests made
//! before it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests made, and how many of them are answered.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    wanted: AtomicU64,
    done: AtomicU64,
}

/// The requests that a round found, which it answers when its work is done.
pub(crate) struct Asked {
    wanted: u64,
    done: u64,
}

impl Requests {
    /// Makes a request; returns its number.
    pub(crate) fn ask(&self) -> u64 {
        // AcqRel: the caller's earlier writes are visible to the round that answers the request.
        self.wanted.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    }

    /// Returns whether the request with this number is answered.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        // Acquire: pairs with `answer`; a caller that sees the number sees the work.
        self.done.load(Ordering::Acquire) >= number
    }

    /// The requests made so far, at the beginning of a round.
    pub(crate) fn asked(&self) -> Asked {
        // Acquire: pairs with `ask`; writes before a request are part of the round that answers it.
        Asked {
            wanted: self.wanted.load(Ordering::Acquire),
            done: self.done.load(Ordering::Acquire),
        }
    }

    /// Answers the requests of a round; after the last one every request is answered before it is
    /// made.
    pub(crate) fn answer(&self, asked: &Asked, last: bool) {
        let done = if last { u64::MAX } else { asked.wanted };
        // Release: a caller that sees the number sees the work.
        self.done.store(done, Ordering::Release);
    }
}

impl Asked {
    /// Returns whether any caller waits.
    pub(crate) const fn any(&self) -> bool {
        self.wanted > self.done
    }
}
