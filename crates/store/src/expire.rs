//! Times in commands: relative or absolute, in seconds or milliseconds, read as one deadline.

use crate::fail::Fail;
use crate::number::parse_integer;

/// The form in which a command gives a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) seconds: bool,
    pub(crate) absolute: bool,
}

impl Moment {
    /// Seconds from now on.
    pub(crate) const SECONDS: Self = Self {
        seconds: true,
        absolute: false,
    };
    /// Milliseconds from now on.
    pub(crate) const MILLISECONDS: Self = Self {
        seconds: false,
        absolute: false,
    };
    /// Seconds since 1970.
    pub(crate) const AT_SECOND: Self = Self {
        seconds: true,
        absolute: true,
    };
    /// Milliseconds since 1970.
    pub(crate) const AT_MILLISECOND: Self = Self {
        seconds: false,
        absolute: true,
    };

    /// Returns the form that an option EX, PX, EXAT or PXAT stands for.
    pub(crate) fn of_option(word: &[u8]) -> Option<Self> {
        match crate::command::word(word).as_slice() {
            b"ex" => Some(Self::SECONDS),
            b"px" => Some(Self::MILLISECONDS),
            b"exat" => Some(Self::AT_SECOND),
            b"pxat" => Some(Self::AT_MILLISECOND),
            _ => None,
        }
    }

    /// A time that must lie after 1970, or from now on if it is relative.
    pub(crate) fn positive(self, text: &[u8], now: u64, command: &str) -> Result<u64, Fail> {
        let number = parse_integer(text).ok_or_else(Fail::not_integer)?;
        let time = Some(number).filter(|number| *number > 0);
        let time = time.and_then(|number| self.resolve(number, now));
        time.and_then(|time| u64::try_from(time).ok())
            .ok_or_else(|| Fail::invalid_expire(command))
    }

    /// Milliseconds since 1970, unless they are out of range.
    pub(crate) fn resolve(self, number: i64, now: u64) -> Option<i64> {
        let milliseconds = if self.seconds {
            number.checked_mul(1000)?
        } else {
            number
        };
        if self.absolute {
            return Some(milliseconds);
        }
        milliseconds.checked_add(i64::try_from(now).ok()?)
    }
}
