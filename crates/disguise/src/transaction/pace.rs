//! Shares of the time for operations, and the clock for the rests that leave time to others.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// A share of the time, above 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

/// A number that is no share of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a share of the time is a number above 0 and at most 1, like 0.25")]
pub struct ShareError;

impl Share {
    /// All of the time.
    pub const WHOLE: Self = Self(1.0);

    /// Creates a share from `number`.
    ///
    /// # Errors
    /// When it is not above 0 and at most 1.
    pub fn new(number: f64) -> Result<Self, ShareError> {
        if number > 0.0 && number <= 1.0 {
            Ok(Self(number))
        } else {
            Err(ShareError)
        }
    }

    /// Returns the rest after a piece of work of this length.
    pub(crate) fn rest(self, worked: Duration) -> Duration {
        let seconds = worked.as_secs_f64() * (1.0 - self.0) / self.0;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        Self::new(text.parse().map_err(|_form| ShareError)?)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A clock that measures the duration of work and can wait.
pub trait Clock: Send + Sync {
    /// Returns the time since some fixed moment; never decreases.
    fn elapsed(&self) -> Duration;
    /// Returns once so much time has passed.
    fn rest(&self, time: Duration);
}

/// The clock of the operating system.
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock the others take"
    )]
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn rest(&self, time: Duration) {
        let end = self.elapsed().saturating_add(time);
        // A thread may wake up before its time.
        while let Some(left) = end.checked_sub(self.elapsed()).filter(|it| !it.is_zero()) {
            thread::park_timeout(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_nothing_and_at_most_the_whole() {
        for (text, number) in [("1", 1.0), ("0.25", 0.25), ("1e-9", 1e-9)] {
            assert_eq!(text.parse::<Share>(), Share::new(number));
            assert!(Share::new(number).is_ok());
        }
        for wrong in [
            "0",
            "-0.5",
            "1.01",
            "NaN",
            "inf",
            "",
            "a quarter",
            "25%",
            "0,25",
        ] {
            assert_eq!(wrong.parse::<Share>(), Err(ShareError), "{wrong}");
        }
    }

    #[test]
    fn the_rest_makes_work_its_share_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(Share::WHOLE.rest(second), Duration::ZERO);
        assert_eq!(Share(0.25).rest(second), 3 * second);
        assert_eq!(Share(0.5).rest(Duration::ZERO), Duration::ZERO);
        assert_eq!(Share(1e-300).rest(second), Duration::MAX);
    }

    #[test]
    fn the_clock_of_the_system_rests_no_less_than_it_is_asked_for() {
        let clock = SystemClock::new();
        let before = clock.elapsed();
        clock.rest(Duration::from_millis(2));
        assert!(clock.elapsed() >= before + Duration::from_millis(2));
        clock.rest(Duration::ZERO);
    }
}
