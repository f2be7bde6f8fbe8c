//! The entry that every operation leaves in a log, without personal data in clear.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use probity_format::{Entry, Outcome, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::value::Value;

/// Takes entries, durably, before the operation they tell of is committed.
///
/// Implementers may not return before the entry is durable; when they fail, the operation is undone.
pub trait Sink {
    /// Takes `entry`.
    ///
    /// # Errors
    /// Whatever kept the entry from becoming durable.
    fn append(&mut self, entry: &Entry<'_>)
    -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl<F> Sink for F
where
    F: FnMut(&Entry<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
{
    fn append(
        &mut self,
        entry: &Entry<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self(entry)
    }
}

/// What one operation did, in numbers.
pub(crate) struct Event<'a> {
    pub(crate) action: &'static str,
    pub(crate) key: String,
    pub(crate) user: Option<&'a Value>,
    pub(crate) outcome: Outcome,
    pub(crate) payload: String,
}

/// Hands `event` to the sink; the user appears only as a salted hash.
pub(crate) fn tell(
    sink: &mut dyn Sink,
    salt: &[u8],
    time: Timestamp,
    event: &Event<'_>,
) -> Result<(), Error> {
    let subject = event.user.map(|user| {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise subject\0");
        hash.update(salt);
        hash.update(user.principal());
        Value::Bytes(hash.finalize().iter().copied().take(16).collect()).to_string()
    });
    let mut entry = Entry::new(time, event.action, event.key.as_bytes());
    if let Some(subject) = &subject {
        entry.subjects = probity_format::Subjects::joined(subject);
    }
    entry.outcome = event.outcome;
    entry.payload = event.payload.as_bytes();
    sink.append(&entry).map_err(Error::Audit)
}

/// The time as databases write it: UTC, whole seconds.
pub(crate) fn written(time: Timestamp) -> String {
    let seconds = time.nanoseconds().div_euclid(1_000_000_000);
    jiff::Timestamp::from_second(seconds)
        .map(|it| it.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

/// A JSON object of row counts per table; table names are no personal data.
pub(crate) fn counts(rows: &BTreeMap<String, u64>, more: &[(&str, u64)]) -> String {
    let mut out = String::from("{\"rows\":{");
    for (index, (table, count)) in rows.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let name = serde_json::Value::from(table.as_str());
        // Writing to a String cannot fail.
        write!(out, "{comma}{name}:{count}").unwrap_or_default();
    }
    out.push('}');
    for (name, count) in more {
        write!(out, ",\"{name}\":{count}").unwrap_or_default();
    }
    out.push('}');
    out
}
