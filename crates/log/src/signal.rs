//! The waking of threads that wait, and how long they sleep when nobody wakes them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::stream::lock;

/// The longest sleep of an idle thread of the log.
pub(crate) const IDLE_WAIT: Duration = Duration::from_millis(200);

/// Shortest sleep of a thread for which something falls due.
const DUE_WAIT_MIN: Duration = Duration::from_micros(50);

/// The wait from `now` until work that began at `since`, if any did, is `interval` old.
pub(crate) fn due_wait(since: Option<Duration>, interval: Duration, now: Duration) -> Duration {
    since
        .map_or(IDLE_WAIT, |since| {
            since.saturating_add(interval).saturating_sub(now)
        })
        .max(DUE_WAIT_MIN)
}

/// Wakes threads that wait for a change; waits may end without a cause.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    generation: u64,
    /// Threads that wait; a wake without waiters would still cost a system call.
    waiting: usize,
}

impl Signal {
    /// Wakes every waiter.
    pub(crate) fn raise(&self) {
        let mut state = self.lock();
        state.generation = state.generation.wrapping_add(1);
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.condition.notify_all();
        }
    }

    /// The present generation: give it to [`Signal::wait_after`] so that no raise is missed.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Waits until raised after `generation` was current, at most for `timeout`.
    pub(crate) fn wait_after(&self, generation: u64, timeout: Duration) {
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_add(1);
        let (mut state, _) = self
            .condition
            .wait_timeout_while(state, timeout, |state| state.generation == generation)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting = state.waiting.saturating_sub(1);
    }

    fn lock(&self) -> MutexGuard<'_, SignalState> {
        lock(&self.state)
    }
}
