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
        time_of(SystemTime::now())
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The time of a log whose system says `now`, never the epoch itself: 0 stands for no time at all, and
/// an entry without the time that it was taken at is another one than its repetition.
fn time_of(now: SystemTime) -> Timestamp {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let since = i64::try_from(since.unwrap_or_default().as_nanos());
    timestamp(since.unwrap_or(TIME_MAX).max(1))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of a clock before 1970 had no time taken. Repeated under its idempotency key with the
    /// right clock, it was refused as another entry.
    #[test]
    fn a_clock_before_1970_has_a_time_too() {
        let epoch = SystemTime::UNIX_EPOCH;
        let second = Duration::from_secs(1);
        for (now, wanted) in [
            (epoch - second, 1),
            (epoch, 1),
            (epoch + second, 1_000_000_000),
        ] {
            assert_eq!(time_of(now).nanoseconds(), wanted);
        }
    }
}
