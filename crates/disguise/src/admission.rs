//! How many operations run at once.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};

/// Lets operations in, at most so many at once and in the order in which they came.
///
/// Disguises that run beside an application want its processors and its disk. More of them at once than there are
/// processors end no sooner, and stand in the way of the application's requests and of each other. Engines of one
/// process share one, see [`Engine::set_admission`](crate::Engine::set_admission).
pub struct Admission {
    places: u64,
    tickets: Mutex<Tickets>,
    left: Condvar,
}

/// Tickets given out, and places that were left again.
struct Tickets {
    given: u64,
    left: u64,
}

/// A place, until it is dropped.
pub(crate) struct Admitted<'a>(&'a Admission);

impl Admission {
    /// For at most `places` operations at once.
    pub fn new(places: NonZero<u32>) -> Self {
        Self {
            places: places.get().into(),
            tickets: Mutex::new(Tickets { given: 0, left: 0 }),
            left: Condvar::new(),
        }
    }

    /// Waits for a place, behind everybody who waits already.
    pub(crate) fn enter(&self) -> Admitted<'_> {
        // Two counters are right between any two statements, so a panic elsewhere leaves nothing half done here.
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = tickets.given;
        tickets.given += 1;
        while mine >= tickets.left + self.places {
            tickets = self
                .left
                .wait(tickets)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Admitted(self)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut tickets = self
            .0
            .tickets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tickets.left += 1;
        // Whose turn it is knows only the waiter itself.
        self.0.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

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
        let panicked = std::panic::catch_unwind(|| {
            let _place = admission.enter();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        drop(admission.enter());
    }
}
