//! The thread that closes old chunks, so that no entry waits too long for others.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ending::Stage;
use crate::log_state::LogState;
use crate::signal::IDLE_WAIT;

/// Shortest sleep: chunks that fall due closely after each other are closed together.
const WAIT_MIN: Duration = Duration::from_micros(100);

/// Runs until the log is closed or poisoned.
pub(crate) fn run(core: &LogState) {
    while !core.ending.has_reached(Stage::Sealed) && core.poison().is_none() {
        let generation = core.ticking.generation();
        // AcqRel: set before looking, so that an appender whose new chunk is not seen here finds
        // the flag.
        core.ticker_idle.swap(true, Ordering::AcqRel);
        let wait = match core.close_old_chunks(core.options.batch_age_max) {
            Some(due) => {
                core.ticker_idle.store(false, Ordering::Release);
                due.max(WAIT_MIN)
            }
            None => IDLE_WAIT,
        };
        core.ticking.wait_after(generation, wait);
    }
}

impl LogState {
    /// Hands over every open chunk older than `age_max`; returns the time until the next falls due,
    /// if any is still open.
    pub(crate) fn close_old_chunks(&self, age_max: Duration) -> Option<Duration> {
        let now = self.clock.elapsed();
        let slots: Vec<_> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|slot| slot.strong_count() > 0);
            slots.iter().filter_map(std::sync::Weak::upgrade).collect()
        };
        let mut next: Option<Duration> = None;
        for slot in slots {
            let mut open = slot.open.lock().unwrap_or_else(PoisonError::into_inner);
            let age = open.as_ref().map(|open| now.saturating_sub(open.since));
            match age {
                Some(age) if age >= age_max => self.hand_over(&mut open),
                Some(age) => {
                    let due = age_max.saturating_sub(age);
                    next = Some(next.map_or(due, |next| next.min(due)));
                }
                None => {}
            }
        }
        next
    }
}
