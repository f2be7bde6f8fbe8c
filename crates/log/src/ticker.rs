//! The thread that closes chunks that grow old, so that no entry waits for company too long.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;

/// How long the thread sleeps when no appender has an open chunk.
const IDLE_WAIT: Duration = Duration::from_millis(200);

/// Runs until the log is closed or poisoned.
pub(crate) fn run(core: &Core) {
    // Acquire: pairs with `Log::close`.
    while !core.closed.load(Ordering::Acquire) && core.poison().is_none() {
        let generation = core.ticking.generation();
        // AcqRel: set before looking, so that whoever opens a chunk that is not seen here finds the flag.
        core.ticker_idle.swap(true, Ordering::AcqRel);
        let wait = if core.close_old_chunks(core.options.batch_age_max) {
            core.ticker_idle.store(false, Ordering::Release);
            (core.options.batch_age_max / 2).max(Duration::from_micros(100))
        } else {
            IDLE_WAIT
        };
        core.ticking.wait_after(generation, wait);
    }
}

impl Core {
    /// Hands over every open chunk older than `age_max`; gives whether any is still open.
    pub(crate) fn close_old_chunks(&self, age_max: Duration) -> bool {
        let now = self.clock.elapsed();
        let slots: Vec<_> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|slot| slot.strong_count() > 0);
            slots.iter().filter_map(std::sync::Weak::upgrade).collect()
        };
        let mut any_open = false;
        for slot in slots {
            let mut open = slot.open.lock().unwrap_or_else(PoisonError::into_inner);
            let age = open.as_ref().map(|open| now.saturating_sub(open.since));
            match age {
                Some(age) if age >= age_max => self.hand_over(&mut open),
                Some(_) => any_open = true,
                None => {}
            }
        }
        any_open
    }
}
