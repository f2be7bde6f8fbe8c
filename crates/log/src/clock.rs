//! Time as an argument: the system's clocks, or one that tests turn by hand.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use probity_format::Timestamp;
use probity_format::limits::TIME_MAX;

/// The source of time for the log.
pub trait Clock: Debug + Send + Sync {
    /// The time of day; never outside the range of a [`Timestamp`].
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clocks of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// The clocks of the operating system, counting from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock the others take"
    )]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock the others take"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        timestamp(i64::try_from(since.as_nanos()).unwrap_or(TIME_MAX))
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when [`advanced`](Self::advance).
#[derive(Debug, Default)]
pub struct ManualClock {
    nanoseconds: AtomicI64,
}

impl ManualClock {
    /// Moves on by `step`.
    pub fn advance(&self, step: Duration) {
        let step = i64::try_from(step.as_nanos()).unwrap_or(TIME_MAX);
        // Relaxed: no other data depends on the value.
        self.nanoseconds.fetch_add(step, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        timestamp(self.nanoseconds.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
    }
}

#[expect(
    clippy::expect_used,
    reason = "the value is clamped into the range just before"
)]
fn timestamp(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanoseconds(nanoseconds.clamp(0, TIME_MAX)).expect("clamped into the range")
}
