//! Counted requests of callers to a thread of the log; one round of work answers all requests made
//! before it.

use std::sync::{Mutex, MutexGuard};

use crate::stream::lock;

/// Requests made, and how many of them are answered.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    counts: Mutex<Counts>,
}

/// Counts that never go back.
#[derive(Debug, Default)]
struct Counts {
    wanted: u64,
    /// The requests that a round found when it began.
    found: u64,
    done: u64,
}

/// The requests that a round found, which it answers when its work is done.
pub(crate) struct Asked {
    wanted: u64,
    done: u64,
}

impl Requests {
    /// Makes a request; returns its number. The round that answers it sees what the caller did
    /// before.
    pub(crate) fn ask(&self) -> u64 {
        self.counts().ask()
    }

    /// Makes a request, unless one is made that no round has found. Returns whether it made one.
    pub(crate) fn ask_once(&self) -> bool {
        let mut counts = self.counts();
        let is_first = counts.wanted == counts.found;
        if is_first {
            counts.ask();
        }
        is_first
    }

    /// Returns whether the request with this number is answered. A caller that sees so sees the
    /// work.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        self.counts().done >= number
    }

    /// The requests made so far, at the beginning of a round.
    pub(crate) fn asked(&self) -> Asked {
        let mut counts = self.counts();
        counts.found = counts.wanted;
        Asked {
            wanted: counts.wanted,
            done: counts.done,
        }
    }

    /// Answers the requests of a round; after the last one every request is answered before it is
    /// made.
    pub(crate) fn answer(&self, asked: &Asked, last: bool) {
        let done = if last { u64::MAX } else { asked.wanted };
        let mut counts = self.counts();
        assert!(counts.done <= done, "an answer is never taken back");
        counts.done = done;
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        lock(&self.counts)
    }
}

impl Counts {
    fn ask(&mut self) -> u64 {
        self.wanted = self.wanted.saturating_add(1);
        self.wanted
    }
}

impl Asked {
    /// Returns whether any caller waits.
    pub(crate) const fn any(&self) -> bool {
        self.wanted > self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_made_during_a_round_is_for_the_next() {
        let requests = Requests::default();
        assert!(requests.ask_once());
        assert!(!requests.ask_once());
        let asked = requests.asked();
        assert!(asked.any());
        // The round may have begun too early for what this caller did.
        assert!(requests.ask_once());
        let number = requests.ask();
        requests.answer(&asked, false);
        assert!(!requests.is_answered(number));
        let asked = requests.asked();
        assert!(asked.any());
        requests.answer(&asked, false);
        assert!(requests.is_answered(number) && !requests.asked().any());
    }

    #[test]
    #[should_panic(expected = "an answer is never taken back")]
    fn an_answer_is_never_taken_back() {
        let requests = Requests::default();
        let early = requests.asked();
        requests.ask();
        requests.answer(&requests.asked(), false);
        requests.answer(&early, false);
    }
}
