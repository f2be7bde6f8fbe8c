//! Where threads sleep until something changes, without costing those a lock who find nobody asleep.

use crate::deadline::{Deadline, TimeLeft};
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, PAUSES, fence, lock, pause, wait};

/// A place to wait for a condition that other threads make true and announce with [`Parking::notify`].
///
/// No wake-up is lost: the sleeper counts itself in, fences, and only then looks a last time; the
/// announcer changes the condition, fences, and only then looks for sleepers. One of them sees the other.
pub(crate) struct Parking {
    /// Sleepers not yet called, a copy of `Sleepers::uncalled` for a look without the lock. Written under the lock.
    uncalled: AtomicUsize,
    sleepers: Mutex<Sleepers>,
    condvar: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// Threads between counting themselves in and counting themselves out.
    waiting: usize,
    /// Of those, how many were called and are on their way; so nobody is called twice.
    called: usize,
}

impl Sleepers {
    /// At least the number of threads really asleep: each call wakes one of them unless all are awake already.
    const fn uncalled(&self) -> usize {
        self.waiting.saturating_sub(self.called)
    }
}

/// Makes a few more attempts before the thread sleeps: what is waited for often comes within a microsecond,
/// and to fall asleep and be called costs both sides more than that.
fn look_again<R>(attempt: &mut impl FnMut() -> Option<R>) -> Option<R> {
    (0..PAUSES).find_map(|number| {
        pause(number);
        attempt()
    })
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self {
            uncalled: AtomicUsize::new(0),
            sleepers: Mutex::new(Sleepers::default()),
            condvar: Condvar::new(),
        }
    }

    /// Tries `attempt` until it gives something or the deadline passes; sleeps in between.
    ///
    /// One attempt is made even when the deadline has passed already. Attempts are made under the lock, so
    /// they must not announce anything to another parking place, whose sleepers might be announcing to this one.
    pub(crate) fn wait_for<R>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(result) = attempt() {
                return Some(result);
            }
            let TimeLeft::Some(limit) = deadline.time_left() else {
                return None;
            };
            if let Some(result) = look_again(&mut attempt) {
                return Some(result);
            }
            let mut sleepers = lock(&self.sleepers);
            sleepers.waiting += 1;
            self.publish(&sleepers);
            // Orders the count above before the attempt below, for the announcer's fence to meet.
            fence(Ordering::SeqCst);
            let result = attempt();
            if result.is_none() {
                // Still under the lock: an announcer that saw the count cannot call before we sleep.
                sleepers = wait(&self.condvar, sleepers, limit);
                // Woken unasked, by the clock or for no reason, this may take another's call; that one was
                // woken all the same, and the next announcer at worst calls once too often.
                sleepers.called = sleepers.called.saturating_sub(1);
            }
            sleepers.waiting -= 1;
            self.publish(&sleepers);
            drop(sleepers);
            if result.is_some() {
                return result;
            }
        }
    }

    /// Wakes up to `count` sleepers; call it after the change they wait for.
    #[inline]
    pub(crate) fn notify(&self, count: usize) {
        // Orders the caller's change before the look at the sleepers.
        fence(Ordering::SeqCst);
        // Relaxed: the fences decide who sees whom; the lock guards the rest.
        if self.uncalled.load(Ordering::Relaxed) != 0 {
            self.call(count);
        }
    }

    #[cold]
    fn call(&self, count: usize) {
        let mut sleepers = lock(&self.sleepers);
        let calls = count.min(sleepers.uncalled());
        sleepers.called += calls;
        self.publish(&sleepers);
        drop(sleepers);
        for _ in 0..calls {
            self.condvar.notify_one();
        }
    }

    fn publish(&self, sleepers: &Sleepers) {
        // Relaxed: see `notify`.
        self.uncalled.store(sleepers.uncalled(), Ordering::Relaxed);
    }
}
