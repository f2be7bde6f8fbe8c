//! Times in requests.

use probity_format::Timestamp;
use probity_format::time::parse_time;
use serde::de::{Deserialize, Deserializer, Error as _};

/// A time in a request.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_time(&text).map(Self).map_err(D::Error::custom)
    }
}
