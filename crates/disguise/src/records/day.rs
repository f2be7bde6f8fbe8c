//! The day on which a record ends.

use probity_format::Timestamp;

use crate::database::value::Value;

pub(crate) const DAY_NANOSECONDS: i64 = 86_400_000_000_000;

/// The day, counted from 1970, at whose beginning a record ends; coarse, so that it reveals little
/// of the time of the disguise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(u32);

impl Day {
    /// Records without an end.
    pub(crate) const NEVER: Self = Self(u32::MAX);

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the day of `time`.
    pub(crate) fn of(time: Timestamp) -> Self {
        let day = time.nanoseconds().div_euclid(DAY_NANOSECONDS);
        Self(u32::try_from(day).unwrap_or(0))
    }

    /// Returns the first beginning of a day that is not before `time`.
    pub(crate) fn not_before(time: Timestamp) -> Self {
        let past = time.nanoseconds().rem_euclid(DAY_NANOSECONDS) > 0;
        let day = time.nanoseconds().div_euclid(DAY_NANOSECONDS);
        Self(u32::try_from(day.saturating_add(i64::from(past))).unwrap_or(0))
    }

    pub(crate) fn is_over(self, now: Timestamp) -> bool {
        self != Self::NEVER && now.nanoseconds().div_euclid(DAY_NANOSECONDS) >= i64::from(self.0)
    }

    pub(crate) fn time(self) -> Option<Timestamp> {
        let start = i64::from(self.0).checked_mul(DAY_NANOSECONDS)?;
        Timestamp::from_nanoseconds(start)
            .ok()
            .filter(|_start| self != Self::NEVER)
    }

    pub(crate) fn value(self) -> Value {
        Value::Int(i64::from(self.0))
    }
}
