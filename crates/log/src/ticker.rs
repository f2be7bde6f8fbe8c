//! The thread that closes old chunks, so that no entry waits too long for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::ending::Stage;
use crate::log_state::LogState;
use crate::queue::OpenChunk;
use crate::signal::{IDLE_WAIT, Signal};
use crate::stream::lock;

/// Shortest sleep: chunks that fall due closely after each other are closed together.
const WAIT_MIN: Duration = Duration::from_micros(100);

/// The ticking thread's view of the appenders.
#[derive(Debug, Default)]
pub(crate) struct Ticker {
    slots: Mutex<Vec<Weak<Slot>>>,
    /// Raised when the thread, idle until then, has something to watch.
    woken: Signal,
    /// Set while the thread finds no open chunk, or looks for one.
    idle: AtomicBool,
}

/// An appender's open chunk as the ticking thread sees it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) open: Mutex<Option<OpenChunk>>,
}

impl Ticker {
    /// Watches the chunk in `slot` for as long as its appender lives.
    pub(crate) fn watch(&self, slot: &Arc<Slot>) {
        lock(&self.slots).push(Arc::downgrade(slot));
    }

    /// Wakes the thread if it is idle: a chunk was opened in its slot before.
    pub(crate) fn opened(&self) {
        // AcqRel: the chunk was put where the thread looks before; see `run`.
        if self.idle.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        self.woken.raise();
    }

    /// The slots of the appenders that live.
    fn slots(&self) -> Vec<Arc<Slot>> {
        let mut slots = lock(&self.slots);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Runs until the log is closed or poisoned.
pub(crate) fn run(core: &LogState) {
    while !core.ending.has_reached(Stage::Sealed) && core.poison().is_none() {
        let generation = core.ticker.woken.generation();
        // AcqRel: set before looking, so that an appender whose new chunk is not seen here finds
        // the flag.
        core.ticker.idle.swap(true, Ordering::AcqRel);
        let wait = match core.close_old_chunks(core.options.batch_age_max) {
            Some(due) => {
                core.ticker.idle.store(false, Ordering::Release);
                due.max(WAIT_MIN)
            }
            None => IDLE_WAIT,
        };
        core.ticker.woken.wait_after(generation, wait);
    }
}

impl LogState {
    /// Hands over every open chunk older than `age_max`; returns the time until the next falls due,
    /// if any is still open.
    pub(crate) fn close_old_chunks(&self, age_max: Duration) -> Option<Duration> {
        let now = self.clock.elapsed();
        let mut next: Option<Duration> = None;
        for slot in self.ticker.slots() {
            let mut open = lock(&slot.open);
            let age = open.as_ref().map(|open| now.saturating_sub(open.since));
            match age {
                Some(age) if age >= age_max => self.queue.hand_over(&mut open),
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
