//! Entries as rows of comma-separated values (RFC 4180).

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_log::reader::Found;

use crate::entry_json::{format_time, hex, needs_base64};
use crate::output::rows_failed;
use crate::visible_text::Audience;

const HEADING: [&str; 28] = [
    "stream",
    "index",
    "time",
    "action",
    "key",
    "key_base64",
    "subject",
    "controller",
    "processor",
    "actor",
    "purpose",
    "basis",
    "outcome",
    "payload",
    "payload_base64",
    "erased",
    "taken",
    "submitter",
    "claimed",
    "idempotency",
    "policy",
    "rule",
    "subjects_erased",
    "actor_erased",
    "submitter_erased",
    "subjects_missing",
    "actor_missing",
    "submitter_missing",
];

/// A CSV file being written.
pub(super) struct CsvRows<W: Write> {
    rows: csv::Writer<W>,
    spreadsheet_safe: bool,
    audience: Audience,
    has_heading: bool,
}

impl<W: Write> CsvRows<W> {
    /// Creates the writer. The heading is written with the first row or at the end: nothing is
    /// written of a log that is refused.
    pub(super) fn new(out: W, spreadsheet_safe: bool, audience: Audience) -> Self {
        Self {
            rows: csv::Writer::from_writer(out),
            spreadsheet_safe,
            audience,
            has_heading: false,
        }
    }

    fn heading(&mut self) -> io::Result<()> {
        if !self.has_heading {
            self.has_heading = true;
            self.rows.write_record(HEADING).map_err(rows_failed)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, found: &Found<'_>) -> io::Result<()> {
        self.heading()?;
        let entry = &found.entry;
        let (key, key_base64) = split(entry.key);
        let (payload, payload_base64) = split(entry.payload);
        let cells = [
            found.stream.as_str(),
            &found.index.to_string(),
            &format_time(entry.time),
            entry.action,
            key,
            &key_base64,
            entry.subjects.as_joined(),
            entry.controller,
            entry.processor,
            entry.actor,
            entry.purpose,
            entry.basis,
            entry.outcome.as_str(),
            payload,
            &payload_base64,
            yes(found.erased),
            &entry.taken.map(format_time).unwrap_or_default(),
            entry.submitter,
            &entry.claimed.fields().collect::<Vec<_>>().join(" "),
            &entry.idempotency.map(hex).unwrap_or_default(),
            &entry.policy.map(hex).unwrap_or_default(),
            entry.rule,
            &some(found.closed.subjects),
            yes(found.closed.actor),
            yes(found.closed.submitter),
            &some(found.missing.subjects),
            yes(found.missing.actor),
            yes(found.missing.submitter),
        ];
        for cell in cells {
            let cell = &*self.audience.cell(cell);
            if self.spreadsheet_safe && is_formula(cell) {
                self.rows
                    .write_field(format!("'{cell}"))
                    .map_err(rows_failed)?;
            } else {
                self.rows.write_field(cell).map_err(rows_failed)?;
            }
        }
        self.rows.write_record(None::<&[u8]>).map_err(rows_failed)
    }

    pub(super) fn into_inner(mut self) -> io::Result<W> {
        self.heading()?;
        self.rows
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)
    }
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "" }
}

/// Formats a number of people; empty for none.
fn some(people: usize) -> String {
    match people {
        0 => String::new(),
        some => some.to_string(),
    }
}

/// Returns bytes as text, or as base64 where they are not text.
fn split(bytes: &[u8]) -> (&str, String) {
    match str::from_utf8(bytes) {
        Ok(text) if !needs_base64(bytes) => (text, String::new()),
        _ => ("", STANDARD.encode(bytes)),
    }
}

/// Returns whether a spreadsheet would take the cell for more than text.
fn is_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
}
