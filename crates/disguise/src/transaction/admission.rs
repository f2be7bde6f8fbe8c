//! Limits on the operations that run at once, and on their share of the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::transaction::pace::{Clock, Share, SystemClock};

/// Admits a limited number of operations at once, in the order in which they came.
///
/// Disguises that run beside an application need its processors and its disk. More of them at once
/// than processors end no sooner, and delay the application's requests and each other. Engines of
/// one process share one, see [`Engine::set_admission`](crate::Engine::set_admission).
pub struct Admission {
    places: u64,
    share: Share,
    clock: Arc<dyn Clock>,
    tickets: Mutex<Tickets>,
    left: Condvar,
}

/// Tickets given out, and places that are free again.
struct Tickets {
    given: u64,
    left: u64,
    /// The ends of the rests of places that were left and not taken again, the earliest on top.
    rests: BinaryHeap<Reverse<Duration>>,
}

/// A place, until it is dropped.
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    since: Duration,
}

impl Admission {
    /// Admits at most `places` operations at once.
    pub fn new(places: NonZero<u32>) -> Self {
        Self {
            places: places.get().into(),
            share: Share::WHOLE,
            clock: Arc::new(SystemClock::new()),
            tickets: Mutex::new(Tickets {
                given: 0,
                left: 0,
                rests: BinaryHeap::new(),
            }),
            left: Condvar::new(),
        }
    }

    /// Limits each place to `share` of the time: after an operation of length t it rests t * (1 -
    /// share) / share before the next is admitted. An operation is one transaction: a chunk, or a
    /// disguise in one go. The rest delays the next operation, not the finished one.
    #[must_use]
    pub fn with_share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Takes the time from `clock` and not from the system.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the remaining rest of the place that is taken next. It is zero if a place is free
    /// that nobody had, and while all are taken, because then it is not known.
    pub fn rest(&self) -> Duration {
        let tickets = self.tickets();
        if tickets.given < self.places {
            return Duration::ZERO;
        }
        let until = tickets.rests.peek().map(|Reverse(until)| *until);
        until
            .unwrap_or_default()
            .saturating_sub(self.clock.elapsed())
    }

    /// Waits for a place, behind all earlier waiters, and until it has rested.
    pub(crate) fn enter(&self) -> Admitted<'_> {
        let rested = self.take_place();
        let now = self.clock.elapsed();
        if rested > now {
            self.clock.rest(rested.saturating_sub(now));
        }
        Admitted {
            admission: self,
            since: self.clock.elapsed(),
        }
    }

    /// Waits for a place. Returns the end of its rest.
    fn take_place(&self) -> Duration {
        let mut tickets = self.tickets();
        let mine = tickets.given;
        tickets.given += 1;
        while mine >= tickets.left + self.places {
            tickets = self
                .left
                .wait(tickets)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if mine < self.places {
            // Nobody had this place before.
            return Duration::ZERO;
        }
        let earliest = tickets.rests.pop();
        earliest.map_or(Duration::ZERO, |Reverse(until)| until)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        // The counts are right between any two statements, so a panic elsewhere leaves nothing half
        // done here.
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let now = self.admission.clock.elapsed();
        let worked = now.saturating_sub(self.since);
        let until = now.saturating_add(self.admission.share.rest(worked));
        let mut tickets = self.admission.tickets();
        tickets.left += 1;
        tickets.rests.push(Reverse(until));
        // Only a waiter itself knows whose turn it is, so all are woken.
        self.admission.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A clock that goes on only when it is told to, and notes who rested.
    #[derive(Default)]
    struct Hand {
        now: Mutex<Duration>,
        rests: Mutex<Vec<Duration>>,
    }

    impl Hand {
        fn turn(&self, time: Duration) {
            *self.now.lock().unwrap() += time;
        }

        fn rests(&self) -> Vec<Duration> {
            std::mem::take(&mut *self.rests.lock().unwrap())
        }
    }

    impl Clock for Hand {
        fn elapsed(&self) -> Duration {
            *self.now.lock().unwrap()
        }

        fn rest(&self, time: Duration) {
            self.rests.lock().unwrap().push(time);
            self.turn(time);
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn resting(places: u32, share: &str) -> (Admission, Arc<Hand>) {
        let clock = Arc::new(Hand::default());
        let admission = Admission::new(NonZero::new(places).unwrap());
        let admission = admission.with_share(share.parse().unwrap());
        (admission.with_clock(Arc::clone(&clock) as _), clock)
    }

    #[test]
    fn no_more_are_inside_than_there_are_places_and_everybody_comes_in() {
        let admission = Admission::new(NonZero::<u32>::MIN.saturating_add(2));
        let (inside, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _place = admission.enter();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3);
        assert_eq!(done.into_inner(), 16 * 200);
    }

    #[test]
    fn a_place_is_free_again_after_a_panic() {
        let admission = Admission::new(NonZero::<u32>::MIN);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _place = admission.enter();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        drop(admission.enter());
    }

    #[test]
    fn a_place_rests_in_proportion_to_its_last_operation_before_the_next_comes_in() {
        let (admission, clock) = resting(1, "0.25");
        for length in [2 * SECOND, SECOND, Duration::ZERO, 5 * SECOND] {
            let place = admission.enter();
            clock.turn(length);
            drop(place);
            // A finished operation does not wait.
            let before = clock.elapsed();
            drop(admission.enter());
            assert_eq!(clock.elapsed(), before + 3 * length);
        }
        let all = 3 * 8 * SECOND;
        assert_eq!(clock.rests().iter().sum::<Duration>(), all);
        assert_eq!(clock.elapsed(), 8 * SECOND + all);
    }

    #[test]
    fn time_that_nobody_wanted_a_place_counts_as_rest() {
        let (admission, clock) = resting(1, "0.5");
        let place = admission.enter();
        clock.turn(4 * SECOND);
        drop(place);
        clock.turn(3 * SECOND);
        drop(admission.enter());
        assert_eq!(clock.rests(), [SECOND]);
        clock.turn(SECOND);
        drop(admission.enter());
        assert_eq!(clock.rests(), []);
    }

    #[test]
    fn it_tells_how_long_the_next_place_rests() {
        let (admission, clock) = resting(2, "0.5");
        assert_eq!(admission.rest(), Duration::ZERO);
        let (long, short) = (admission.enter(), admission.enter());
        clock.turn(SECOND);
        drop(short);
        assert_eq!(admission.rest(), SECOND);
        clock.turn(8 * SECOND);
        drop(long);
        // The other has rested meanwhile.
        assert_eq!(admission.rest(), Duration::ZERO);
        let first = admission.enter();
        assert_eq!(admission.rest(), 9 * SECOND);
        let second = admission.enter();
        assert_eq!(admission.rest(), Duration::ZERO);
        drop((first, second));
    }

    #[test]
    fn a_place_that_nobody_had_and_the_one_rested_longest_are_taken_first() {
        let (admission, clock) = resting(2, "0.5");
        let long = admission.enter();
        let short = admission.enter();
        assert_eq!(clock.rests(), []);
        clock.turn(SECOND);
        drop(short);
        clock.turn(9 * SECOND);
        drop(long);
        let first = admission.enter();
        assert_eq!(clock.rests(), []);
        let second = admission.enter();
        assert_eq!(clock.rests(), [10 * SECOND]);
        drop((first, second));
    }

    #[test]
    fn whoever_works_all_the_time_never_rests() {
        let (admission, clock) = resting(1, "1");
        for _ in 0..3 {
            let place = admission.enter();
            clock.turn(SECOND);
            drop(place);
        }
        assert_eq!(clock.rests(), []);
    }
}
