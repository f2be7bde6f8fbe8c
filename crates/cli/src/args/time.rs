//! Times as arguments: in full, as a date, or as an age.

use probity_format::Timestamp;
use probity_log::clock::{Clock, SystemClock};

use crate::entry_json::parse_time;

const FORMS: &str =
    "write it like 2026-01-31, 2026-01-31T12:00:00Z, or -7d for a week ago (s, m, h, d or w)";
/// Characters of a date.
const DATE_CHARS: usize = 10;

/// Parses a time argument: an RFC 3339 time, a date as its first moment in UTC, or an age.
///
/// # Errors
/// When it has none of these forms, or is not between 1970 and 2199.
pub fn time(text: &str) -> Result<Timestamp, String> {
    parsed(text, &SystemClock::new()).map_err(|reason| format!("{reason}; {FORMS}"))
}

fn parsed(text: &str, clock: &impl Clock) -> Result<Timestamp, &'static str> {
    if let Some(age) = text.strip_prefix('-') {
        return before(clock.now(), age);
    }
    let is_date = text.len() == DATE_CHARS && !text.contains(['T', 't', ' ']);
    if is_date {
        return parse_time(&format!("{text}T00:00:00Z")).map_err(|_reason| "is no date");
    }
    parse_time(text)
}

/// Returns the time `age` before `now`: digits and one unit.
fn before(now: Timestamp, age: &str) -> Result<Timestamp, &'static str> {
    const WRONG: &str = "is no age";
    let unit = age.chars().next_back().ok_or(WRONG)?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(WRONG),
    };
    let digits = age.strip_suffix(unit).ok_or(WRONG)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG);
    }
    let too_early = "lies before 1970";
    let count: i64 = digits.parse().map_err(|_error| too_early)?;
    let nanoseconds = count
        .checked_mul(seconds)
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|age| now.nanoseconds().checked_sub(age))
        .ok_or(too_early)?;
    Timestamp::from_nanoseconds(nanoseconds).map_err(|_error| too_early)
}
