//! Times as text: RFC 3339 in both directions.

use alloc::string::{String, ToString as _};

use crate::Timestamp;

/// The time as RFC 3339 in UTC, with as many digits of the second as it needs.
pub fn format_time(time: Timestamp) -> String {
    let nanoseconds = i128::from(time.nanoseconds());
    // Every time of the format is within what the library can express.
    jiff::Timestamp::from_nanosecond(nanoseconds)
        .unwrap_or_default()
        .to_string()
}

/// The time that `text` names as of RFC 3339, between 1970 and 2199.
///
/// # Errors
/// What is wrong with it, one clause about the text.
pub fn parse_time(text: &str) -> Result<Timestamp, &'static str> {
    // RFC 3339 section 5.6 wants the date, one `T` or blank, the time and an offset; the
    // library also takes forms beyond it, such as a zone in brackets.
    if text
        .as_bytes()
        .get(10)
        .is_none_or(|byte| !b"Tt ".contains(byte))
        || text.contains('[')
    {
        return Err("is not a time as of RFC 3339");
    }
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_why| "is not a time as of RFC 3339")?;
    i64::try_from(time.as_nanosecond())
        .ok()
        .and_then(|nanoseconds| Timestamp::from_nanoseconds(nanoseconds).ok())
        .ok_or("is before 1970 or after 2199")
}
