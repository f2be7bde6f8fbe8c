//! Deadlines of waiting calls.

use std::time::{Duration, Instant};

/// A deadline. `None` never expires: the timeout is longer than the clock can represent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

/// The time that a waiting call has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLeft {
    /// No time is left.
    None,
    /// This time is left; `None` if the deadline never expires.
    Some(Option<Duration>),
}

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "timeouts of waiting calls are real time"
    )]
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "timeouts of waiting calls are real time"
    )]
    pub(crate) fn time_left(self) -> TimeLeft {
        let Some(moment) = self.0 else {
            return TimeLeft::Some(None);
        };
        match moment.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => TimeLeft::Some(Some(left)),
            _ => TimeLeft::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_timeouts_never_expire_and_empty_ones_at_once() {
        assert_eq!(
            Deadline::after(Duration::MAX).time_left(),
            TimeLeft::Some(None)
        );
        assert_eq!(Deadline::after(Duration::ZERO).time_left(), TimeLeft::None);
        let TimeLeft::Some(Some(left)) = Deadline::after(Duration::from_mins(1)).time_left() else {
            panic!("a minute is left");
        };
        assert!(left <= Duration::from_mins(1));
    }
}
