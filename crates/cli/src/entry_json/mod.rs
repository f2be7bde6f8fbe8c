//! Entries as JSON: one object a line in, the same form out.
//!
//! The fields are those of the command line's reference: `time`, `action`, `key` or `key_base64`,
//! `subject`, `controller`, `processor`, `actor`, `purpose`, `basis`, `outcome`, `payload` or
//! `payload_base64`, `idempotency_key`. No other field is accepted, and none twice. [`write_line`]
//! adds what a log says of the entry; [`parse_exported_line`] reads the same entry back without
//! that.

mod error;
mod lines;
mod parse;
mod write;

#[cfg(test)]
mod tests;

use probity_format::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SUBJECTS_MAX};
use probity_format::{Digest, Entry, Outcome, Subjects, Timestamp};

pub use error::LineError;
pub use lines::{Line, Lines};
pub(crate) use parse::REMEDY_SET_BY_LOG;
pub use parse::{parse_exported_line, parse_line};
pub use probity_format::time::{format_time, parse_time};
pub use write::{EntryForm, Hidden, Place, hex, needs_base64, write_line};

/// Longest line taken, in bytes without its line end.
pub const LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

// A byte of text takes at most two in the lines written here, because text with control characters
// that need longer escapes is written as base64; names take at most four (`"name",` around each).
const _: () = assert!(
    2 * (KEY_BYTES_MAX + PAYLOAD_BYTES_MAX) + 4 * (SUBJECTS_MAX + 12) * NAME_BYTES_MAX
        < LINE_BYTES_MAX,
    "every entry that may be recorded fits a line"
);

/// An entry read from JSON, owning its fields. Contents are personal data: the type has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ParsedEntry {
    /// The time of the event, if the line gave one.
    pub time: Option<Timestamp>,
    action: String,
    key: Vec<u8>,
    subjects: String,
    controller: String,
    processor: String,
    actor: String,
    purpose: String,
    basis: String,
    outcome: Outcome,
    payload: Vec<u8>,
    idempotency: Option<Digest>,
}

impl ParsedEntry {
    /// Returns whether the line gave an idempotency key.
    pub const fn has_idempotency_key(&self) -> bool {
        self.idempotency.is_some()
    }

    /// Returns the entry, at `now` if the line gave no time.
    pub fn entry(&self, now: Timestamp) -> Entry<'_> {
        Entry {
            subjects: Subjects::joined(&self.subjects),
            controller: &self.controller,
            processor: &self.processor,
            actor: &self.actor,
            purpose: &self.purpose,
            basis: &self.basis,
            outcome: self.outcome,
            payload: &self.payload,
            idempotency: self.idempotency.as_ref(),
            ..Entry::new(self.time.unwrap_or(now), &self.action, &self.key)
        }
    }
}
