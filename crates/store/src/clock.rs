//! The clock of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The source of the time.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_enums, reason = "the system's, or the caller's own")]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// Milliseconds since 1970 that the caller sets.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Milliseconds since 1970.
    #[expect(
        clippy::disallowed_methods,
        reason = "keys expire by the system's clock, which is read here and nowhere else"
    )]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
            }
            Self::Manual(time) => time.load(Ordering::Relaxed),
        }
    }
}

/// Measures how long something takes, whatever the clock says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "when to sweep and to sync is measured here and nowhere else"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
