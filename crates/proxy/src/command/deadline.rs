//! When a key ends, where the command itself says so.

use super::rule::number;
use crate::resp::Arguments;

/// When a key ends, or a field of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "matched in this crate alone")]
pub enum Deadline {
    /// Later, or never.
    Ahead,
    /// At once, whatever the clock says.
    Now,
    /// At this time of the server's clock, in milliseconds since 1970.
    At(i64),
}

impl Deadline {
    /// The deadline that the command called `name` gives.
    pub fn of(name: &str, arguments: &Arguments) -> Self {
        match name {
            "expire" | "pexpire" => after(number(arguments, 2)),
            "expireat" => at(number(arguments, 2), 1000),
            "pexpireat" => at(number(arguments, 2), 1),
            "restore" | "restore-asking" if is_absolute(arguments) => at(number(arguments, 2), 1),
            "set" => option(arguments, 3, 0),
            "getex" | "hgetex" => option(arguments, 2, 1),
            "hsetex" => option(arguments, 2, 2),
            "msetex" => {
                let pairs = number(arguments, 1).and_then(|pairs| usize::try_from(pairs).ok());
                let pairs = pairs.unwrap_or_default().saturating_mul(2);
                option(arguments, pairs.saturating_add(2), 0)
            }
            _ => Self::Ahead,
        }
    }

    /// Returns the deadline as it stands on a server that may keep what has ended: whether it does
    /// now is a question, like its time.
    #[must_use]
    pub(crate) const fn where_kept(self) -> Self {
        match self {
            Self::Now => Self::At(0),
            other => other,
        }
    }

    /// Returns whether the deadline has passed. The server's clock had shown `before` already and
    /// did not show more than `after`; `None` if that decides nothing.
    pub fn is_over(self, before: Option<i64>, after: Option<i64>) -> Option<bool> {
        match self {
            Self::Ahead => Some(false),
            Self::Now => Some(true),
            Self::At(at) if before.is_some_and(|before| before > at) => Some(true),
            Self::At(at) if after.is_some_and(|after| after < at) => Some(false),
            Self::At(_) => None,
        }
    }
}

fn after(duration: Option<i64>) -> Deadline {
    if duration.is_some_and(|duration| duration <= 0) {
        Deadline::Now
    } else {
        Deadline::Ahead
    }
}

/// No clock shows a time before 1970.
fn at(time: Option<i64>, unit: i64) -> Deadline {
    match time {
        None => Deadline::Ahead,
        Some(time) if time <= 0 => Deadline::Now,
        Some(time) => Deadline::At(time.saturating_mul(unit)),
    }
}

/// `RESTORE key 0` never ends.
fn is_absolute(arguments: &Arguments) -> bool {
    let word = |index: usize| arguments.is_word(index, "absttl");
    number(arguments, 2) != Some(0) && (4..arguments.len()).any(word)
}

/// The option EX, PX, EXAT or PXAT behind argument `from`: said twice the last one counts. `width` words stand behind FIELDS for each field.
fn option(arguments: &Arguments, from: usize, width: usize) -> Deadline {
    let mut found = Deadline::Ahead;
    let mut index = from;
    while index < arguments.len() {
        let value = number(arguments, index + 1);
        match arguments.word(index).as_slice() {
            b"ex" | b"px" => (found, index) = (after(value), index + 1),
            b"exat" => (found, index) = (at(value, 1000), index + 1),
            b"pxat" => (found, index) = (at(value, 1), index + 1),
            b"ifeq" | b"ifne" | b"ifdeq" | b"ifdne" => index += 1,
            b"fields" => {
                let fields = value.and_then(|fields| usize::try_from(fields).ok());
                let words = fields.unwrap_or_default().saturating_mul(width);
                index = index.saturating_add(words).saturating_add(1);
            }
            _ => {}
        }
        index = index.saturating_add(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_from_values() {
        for (line, expected) in [
            ("SET k EXAT", Deadline::Ahead),
            ("SET k v EXAT 5", Deadline::At(5000)),
            ("SET k v NX pxat 5", Deadline::At(5)),
            ("SET k v EXAT 1 EXAT 9", Deadline::At(9000)),
            ("SET k v IFEQ EXAT PXAT 7", Deadline::At(7)),
            ("SET k v EX 5", Deadline::Ahead),
            ("GETEX k EXAT 1", Deadline::At(1000)),
            ("EXPIREAT k 9223372036854775807", Deadline::At(i64::MAX)),
            ("EXPIREAT k -5", Deadline::Now),
            ("PEXPIREAT k 6 GT", Deadline::At(6)),
            ("EXPIRE k 0", Deadline::Now),
            ("EXPIRE k 1", Deadline::Ahead),
            ("RESTORE k 8 v", Deadline::Ahead),
            ("RESTORE k 8 v REPLACE ABSTTL", Deadline::At(8)),
            ("RESTORE k 0 v ABSTTL", Deadline::Ahead),
            ("HGETEX h EXAT 1 FIELDS 1 f", Deadline::At(1000)),
            ("HGETEX h FIELDS 1 EXAT PXAT 9", Deadline::At(9)),
            ("HSETEX h EX 0 FIELDS 1 f v", Deadline::Now),
            ("HSETEX h FIELDS 1 EXAT 5", Deadline::Ahead),
            ("MSETEX 1 EXAT 5", Deadline::Ahead),
            ("MSETEX 1 k v EXAT 5", Deadline::At(5000)),
            ("GET k EXAT 5", Deadline::Ahead),
        ] {
            let mut arguments = Arguments::default();
            for word in line.split(' ') {
                arguments.push(word.as_bytes());
            }
            let name = line.split(' ').next().unwrap().to_lowercase();
            assert_eq!(Deadline::of(&name, &arguments), expected, "{line}");
        }
    }

    #[test]
    fn only_what_the_clock_has_shown_tells() {
        let deadline = Deadline::At(10);
        assert_eq!(deadline.is_over(Some(11), None), Some(true));
        assert_eq!(deadline.is_over(Some(10), Some(10)), None);
        assert_eq!(deadline.is_over(None, Some(9)), Some(false));
        assert_eq!(deadline.is_over(None, Some(99)), None);
        assert_eq!(Deadline::Now.is_over(None, None), Some(true));
    }
}
