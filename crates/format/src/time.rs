//! Times as RFC 3339 text: formatting and parsing.

use alloc::string::{String, ToString as _};

use crate::Timestamp;

/// Formats the time as RFC 3339 in UTC, with as many fractional digits as it needs.
pub fn format_time(time: Timestamp) -> String {
    let nanoseconds = i128::from(time.nanoseconds());
    // The library can express every time of the format.
    jiff::Timestamp::from_nanosecond(nanoseconds)
        .unwrap_or_default()
        .to_string()
}

/// Parses an RFC 3339 time between 1970 and 2199.
///
/// # Errors
/// A clause that says which rule `text` breaks.
pub fn parse_time(text: &str) -> Result<Timestamp, &'static str> {
    // RFC 3339 section 5.6 requires date, one `T` or blank, time and offset. The library also
    // accepts other forms, such as a zone in brackets.
    if text
        .as_bytes()
        .get(10)
        .is_none_or(|byte| !b"Tt ".contains(byte))
        || text.contains('[')
    {
        return Err("is not a time as of RFC 3339");
    }
    if !has_offset(text) {
        return Err("has no offset as of RFC 3339, which is Z or -23:59 to +23:59");
    }
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_why| "is not a time as of RFC 3339")?;
    i64::try_from(time.as_nanosecond())
        .ok()
        .and_then(|nanoseconds| Timestamp::from_nanoseconds(nanoseconds).ok())
        .ok_or("is before 1970 or after 2199")
}

/// Returns whether `text` ends in an offset of RFC 3339. The library also accepts more hours, and
/// seconds.
fn has_offset(text: &str) -> bool {
    if text.ends_with(['Z', 'z']) {
        return true;
    }
    let Some(at) = text.len().checked_sub("+00:00".len()) else {
        return false;
    };
    let number = |range: core::ops::Range<usize>| {
        text.get(range).and_then(|digits| digits.parse::<u8>().ok())
    };
    let hours = number(at.saturating_add(1)..at.saturating_add(3));
    let minutes = number(at.saturating_add(4)..text.len());
    let bytes = text.as_bytes();
    matches!(bytes.get(at), Some(b'+' | b'-'))
        && bytes.get(at.saturating_add(3)) == Some(&b':')
        && hours.is_some_and(|hours| hours <= 23)
        && minutes.is_some_and(|minutes| minutes <= 59)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L8: `+25:00` and `-24:30` were accepted, and shifted a time by more than a day.
    #[test]
    fn offsets_are_those_of_the_standard() {
        let at = |offset: &str| parse_time(&alloc::format!("2026-03-02T12:00:00{offset}"));
        for right in ["Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+05:30"] {
            assert!(at(right).is_ok(), "{right}");
        }
        for wrong in [
            "+24:00",
            "+25:00",
            "-24:30",
            "+1:00",
            "+0100",
            "+01",
            "+01:00:01",
            "+01:60",
            "",
            "+",
            "+0\u{e9}:00",
        ] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
        assert_eq!(at("+02:00"), parse_time("2026-03-02T10:00:00Z"));
    }
}
