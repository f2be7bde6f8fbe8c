//! The map from an appender's tickets to their entries.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::run::Run;

/// Runs an appender remembers: tickets older than this many batches can no longer be redeemed.
pub const RUNS_REMEMBERED: usize = 65_536;

/// The promise of an append: redeem it at the appender that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The place of a durable entry: its index in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Index of the entry in its stream, from 0.
    pub index: u64,
    /// True when an earlier append wrote it, under the same idempotency key; this one wrote
    /// nothing.
    pub is_repeat: bool,
}

/// The place of an entry: a run, and the entry's number in it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) run: Arc<Run>,
    pub(crate) number: u64,
}

impl Place {
    /// Index of the entry, once it is durable.
    pub(crate) fn index(&self) -> Option<u64> {
        let first = self.run.first_index()?;
        Some(first.saturating_add(self.number))
    }
}

/// The tickets that one appender gave.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    /// Number of the next ticket.
    next: u64,
    /// In order; each ends where the next begins.
    stretches: VecDeque<Stretch>,
    /// Runs of other appenders that tickets from a number on wait for too; only those that are not
    /// durable yet.
    waits: Vec<(u64, Arc<Run>)>,
}

/// Tickets whose entries follow each other in the stream.
#[derive(Debug)]
struct Stretch {
    /// Number of the first ticket.
    first: u64,
    /// The place of its entry.
    place: Place,
    is_repeat: bool,
}

impl Tickets {
    /// Returns `count` tickets for entries that follow those before.
    #[inline]
    pub(crate) const fn give(&mut self, count: u32) {
        #[expect(clippy::as_conversions, reason = "widening, in a const function")]
        let count = count as u64;
        self.next = self.next.saturating_add(count);
    }

    /// The ticket given last.
    #[inline]
    pub(crate) fn last(&self) -> Option<Ticket> {
        self.next.checked_sub(1).map(Ticket)
    }

    /// Maps the next tickets to the appender's own entries from `place` on.
    pub(crate) fn begin(&mut self, place: Place) {
        self.remember(place, false);
    }

    /// Returns one ticket for the entry at `place`, which another append wrote; `own` is the
    /// appender's last own run.
    ///
    /// A receipt implies that earlier entries of the appender are durable too. So this ticket and
    /// those behind it wait for both runs.
    pub(crate) fn repeat(&mut self, place: Place, own: Option<&Arc<Run>>) {
        self.waits.retain(|(_, run)| run.first_index().is_none());
        for run in [Some(&place.run), own].into_iter().flatten() {
            let is_known = self.waits.iter().any(|(_, known)| Arc::ptr_eq(known, run));
            if run.first_index().is_none() && !is_known {
                self.waits.push((self.next, Arc::clone(run)));
            }
        }
        self.remember(place, true);
        self.give(1);
    }

    /// Returns whether some ticket may wait for another appender's run.
    pub(crate) fn waits_for_others(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The receipt of `ticket`, `None` while it is not durable; an error where the ticket is too
    /// old.
    pub(crate) fn receipt(&self, ticket: Ticket) -> Result<Option<Receipt>, Expired> {
        let stretch = self.stretch(ticket).ok_or(Expired)?;
        let Some(first) = stretch.place.index() else {
            return Ok(None);
        };
        let mut waits = self.waits.iter();
        if waits.any(|(from, run)| *from <= ticket.0 && run.first_index().is_none()) {
            return Ok(None);
        }
        Ok(Some(Receipt {
            index: first.saturating_add(ticket.0.saturating_sub(stretch.first)),
            is_repeat: stretch.is_repeat,
        }))
    }

    /// Returns whether another append wrote the entry of `ticket`.
    pub(crate) fn is_repeat(&self, ticket: Ticket) -> bool {
        self.stretch(ticket).is_some_and(|found| found.is_repeat)
    }

    fn stretch(&self, ticket: Ticket) -> Option<&Stretch> {
        let stretches = &self.stretches;
        let after = stretches.partition_point(|stretch| stretch.first <= ticket.0);
        after.checked_sub(1).and_then(|place| stretches.get(place))
    }

    /// Adds a stretch; joins it to the last one if they follow each other in the stream too.
    fn remember(&mut self, place: Place, is_repeat: bool) {
        // A stretch without entries, closed by time before the first append, has nothing to redeem.
        let is_empty = |last: &Stretch| last.first == self.next;
        if self.stretches.back().is_some_and(is_empty) {
            self.stretches.pop_back();
        }
        while let [.., earlier, later] = self.stretches.make_contiguous()
            && earlier.leads_to(later)
        {
            self.stretches.pop_back();
        }
        if self.stretches.len() >= RUNS_REMEMBERED {
            self.stretches.pop_front();
        }
        self.stretches.push_back(Stretch {
            first: self.next,
            place,
            is_repeat,
        });
    }
}

/// The ticket is too old to be remembered.
#[derive(Debug)]
pub(crate) struct Expired;

impl Stretch {
    /// Returns whether the entries of `later`, whose tickets follow, follow in the stream too.
    fn leads_to(&self, later: &Self) -> bool {
        let (Some(start), Some(index)) = (self.place.index(), later.place.index()) else {
            return false;
        };
        let count = later.first.saturating_sub(self.first);
        self.is_repeat == later.is_repeat && start.checked_add(count) == Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(run: &Arc<Run>, number: u64) -> Place {
        Place {
            run: Arc::clone(run),
            number,
        }
    }

    fn receipt(tickets: &Tickets, number: u64) -> Option<(u64, bool)> {
        let receipt = tickets.receipt(Ticket(number)).unwrap();
        receipt.map(|receipt| (receipt.index, receipt.is_repeat))
    }

    #[test]
    fn a_repeat_stands_for_the_first_entry_and_those_behind_it_for_their_own() {
        let (own, others) = (Arc::new(Run::default()), Arc::new(Run::at(100)));
        let mut tickets = Tickets::default();
        tickets.begin(place(&own, 0));
        tickets.give(2);
        tickets.repeat(place(&others, 7), Some(&own));
        tickets.begin(place(&own, 2));
        tickets.give(1);
        // The entries before it are not durable yet.
        assert_eq!(receipt(&tickets, 2), None);
        own.complete(50);
        let all: Vec<_> = (0..4).map(|number| receipt(&tickets, number)).collect();
        let own = |index| Some((index, false));
        assert_eq!(all, [own(50), own(51), Some((107, true)), own(52)]);
    }

    #[test]
    fn a_ticket_behind_a_repeat_waits_for_the_run_of_the_other_appender() {
        let (own, others) = (Arc::new(Run::default()), Arc::new(Run::default()));
        let mut tickets = Tickets::default();
        tickets.begin(place(&own, 0));
        tickets.repeat(place(&others, 0), None);
        tickets.begin(place(&own, 0));
        tickets.give(1);
        own.complete(9);
        assert!(tickets.waits_for_others());
        assert_eq!(receipt(&tickets, 1), None);
        others.complete(3);
        assert_eq!(receipt(&tickets, 0), Some((3, true)));
        assert_eq!(receipt(&tickets, 1), Some((9, false)));
    }

    /// Repeating a whole input must not push every other ticket out.
    #[test]
    fn repeats_in_a_row_are_remembered_as_one_stretch() {
        let others = Arc::new(Run::at(100));
        let own = Arc::new(Run::default());
        let mut tickets = Tickets::default();
        tickets.begin(place(&own, 0));
        for number in 0..1000 {
            tickets.repeat(place(&others, number), None);
            tickets.begin(place(&own, 0));
        }
        assert!(
            tickets.stretches.len() < 5,
            "{} stretches",
            tickets.stretches.len()
        );
        assert_eq!(receipt(&tickets, 0), Some((100, true)));
        assert_eq!(receipt(&tickets, 999), Some((1099, true)));
    }
}
