//! The one place of the proxy that looks at the clock.

use probity_format::Timestamp;

/// Now; before 1970 counts as 1970, after 2199 as 2199.
#[expect(
    clippy::disallowed_methods,
    reason = "the proxy's entries are dated here and nowhere else"
)]
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let nanoseconds = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    let latest = Timestamp::from_nanoseconds(probity_format::limits::TIME_MAX);
    Timestamp::from_nanoseconds(nanoseconds)
        .or(latest)
        .unwrap_or(EARLIEST)
}

const EARLIEST: Timestamp = match Timestamp::from_nanoseconds(0) {
    Ok(time) => time,
    Err(_) => panic!("1970 is within the range"),
};
