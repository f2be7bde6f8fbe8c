//! Parking of threads until a condition changes; a notification takes no lock while no thread
//! sleeps.

use crate::deadline::{Deadline, TimeLeft};
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, PAUSES, fence, lock, pause, wait};

/// A place to wait for a condition that other threads make true and announce with
/// [`Parking::notify`].
///
/// No wake-up is lost. The sleeper increments the count, fences, and then checks the condition once
/// more. The notifier changes the condition, fences, and then reads the count. At least one of them
/// sees the other's write.
pub(crate) struct Parking {
    /// Number of sleepers not yet notified, a copy of `Sleepers::uncalled` that is read without the
    /// lock. Written under the lock.
    uncalled: AtomicUsize,
    sleepers: Mutex<Sleepers>,
    condvar: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// Number of threads that are waiting or about to wait.
    waiting: usize,
    /// Number of waiting threads that were notified but have not run yet, so that none is notified
    /// twice.
    called: usize,
}

impl Sleepers {
    /// Returns an upper bound for the number of sleeping threads: each notification wakes one of
    /// them, if any sleeps.
    const fn uncalled(&self) -> usize {
        self.waiting.saturating_sub(self.called)
    }
}

/// Retries a few times before the thread sleeps. The condition often changes within a microsecond,
/// and sleeping and waking cost both sides more than that.
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

    /// Calls `attempt` until it returns a result or the deadline passes; sleeps in between.
    ///
    /// `attempt` is called at least once, even after the deadline. It may be called under the lock,
    /// so it must not notify another parking place, whose waiting threads might notify this one.
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
            // Orders the increment before the attempt below; pairs with the fence in `notify`.
            fence(Ordering::SeqCst);
            let result = attempt();
            if result.is_none() {
                // The lock is still held: a notifier that saw the count cannot notify before this
                // thread sleeps.
                sleepers = wait(&self.condvar, sleepers, limit);
                // After a timeout or a spurious wake-up this may consume another thread's
                // notification. That thread is awake all the same, and the next notifier at worst
                // notifies once too often.
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
        // Orders the caller's change before the read of the count.
        fence(Ordering::SeqCst);
        // Relaxed: the fences order the accesses; the lock guards the rest.
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
