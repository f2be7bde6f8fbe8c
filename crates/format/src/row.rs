//! A row: one entry as contiguous bytes, as producers hand it over and as entry leaves hash it.
//!
//! `docs/format.md`, "Row". Rows never reach the disk; frames hold the same fields as columns.

use crate::entry::{Entry, Outcome, Subjects, Timestamp};
use crate::error::DecodeError;
use crate::limits::ENTRY_BYTES_MAX;
use crate::short::copy;
use crate::wire::Reader;

/// Bytes before the variable part of a row.
pub const ROW_HEADER_BYTES: usize = 28;

/// Bytes that `entry` takes as a row. Exact for entries that pass [`Entry::check`].
#[must_use]
pub const fn row_bytes(entry: &Entry<'_>) -> usize {
    ROW_HEADER_BYTES
        .saturating_add(entry.action.len())
        .saturating_add(entry.key.len())
        .saturating_add(entry.subjects.as_joined().len())
        .saturating_add(entry.controller.len())
        .saturating_add(entry.processor.len())
        .saturating_add(entry.actor.len())
        .saturating_add(entry.purpose.len())
        .saturating_add(entry.basis.len())
        .saturating_add(entry.payload.len())
}

/// Writes `entry` into `out`, which must be exactly [`row_bytes`] long.
///
/// The entry must have passed [`Entry::check`]: lengths are stored in as many bytes as the
/// limits need. This is the hot path of every producer: one pass, no branch per byte.
///
/// # Panics
/// When `out` has another length.
pub fn encode_row(entry: &Entry<'_>, out: &mut [u8]) {
    assert_eq!(
        out.len(),
        row_bytes(entry),
        "the caller reserves exactly the row's length"
    );
    let Some((header, mut rest)) = out.split_first_chunk_mut::<ROW_HEADER_BYTES>() else {
        return;
    };
    *header = row_header(entry, ROW_HEADER_BYTES.saturating_add(rest.len()));
    let fields: [&[u8]; 9] = [
        entry.action.as_bytes(),
        entry.key,
        entry.subjects.as_joined().as_bytes(),
        entry.controller.as_bytes(),
        entry.processor.as_bytes(),
        entry.actor.as_bytes(),
        entry.purpose.as_bytes(),
        entry.basis.as_bytes(),
        entry.payload,
    ];
    for field in fields {
        let Some((place, after)) = rest.split_at_mut_checked(field.len()) else {
            return;
        };
        copy(place, field);
        rest = after;
    }
}

/// The fixed part of a row of `total` bytes.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the limits, checked before, are below each length's width"
)]
const fn row_header(entry: &Entry<'_>, total: usize) -> [u8; ROW_HEADER_BYTES] {
    let [a0, a1, a2, a3] = (total as u32).to_le_bytes();
    let [t0, t1, t2, t3, t4, t5, t6, t7] = entry.time.nanoseconds().to_le_bytes();
    let [k0, k1] = (entry.key.len() as u16).to_le_bytes();
    let [s0, s1] = (entry.subjects.as_joined().len() as u16).to_le_bytes();
    let [p0, p1, p2, p3] = (entry.payload.len() as u32).to_le_bytes();
    let [l0, l1, l2, l3, l4, l5] = [
        entry.action.len() as u8,
        entry.controller.len() as u8,
        entry.processor.len() as u8,
        entry.actor.len() as u8,
        entry.purpose.len() as u8,
        entry.basis.len() as u8,
    ];
    [
        a0,
        a1,
        a2,
        a3,
        t0,
        t1,
        t2,
        t3,
        t4,
        t5,
        t6,
        t7,
        entry.outcome.code(),
        l0,
        l1,
        l2,
        l3,
        l4,
        l5,
        0,
        k0,
        k1,
        s0,
        s1,
        p0,
        p1,
        p2,
        p3,
    ]
}

/// A row taken apart without copying; what [`encode_row`] wrote, and nothing assumed of it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Row<'a> {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub time: i64,
    /// [`Outcome::code`].
    pub outcome: u8,
    /// The text columns in the order of [`TEXT_COLUMNS`].
    pub texts: [&'a [u8]; TEXT_COLUMNS],
    /// The payload.
    pub payload: &'a [u8],
    /// The whole row.
    pub bytes: &'a [u8],
}

/// Number of columns that hold words: action, key, subjects, controller, processor, actor, purpose, basis.
pub const TEXT_COLUMNS: usize = 8;

/// Splits rows standing one after another; ends at the end or at bytes that are no row.
#[derive(Clone)]
pub struct Rows<'a> {
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    /// The rows in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not yet split; empty after the last row of well-formed input.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn split(&mut self) -> Option<Row<'a>> {
        let (header, _) = self.rest.split_first_chunk::<ROW_HEADER_BYTES>()?;
        let [
            a0,
            a1,
            a2,
            a3,
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            outcome,
            l0,
            l1,
            l2,
            l3,
            l4,
            l5,
            _,
            k0,
            k1,
            s0,
            s1,
            p0,
            p1,
            p2,
            p3,
        ] = *header;
        let total = usize::try_from(u32::from_le_bytes([a0, a1, a2, a3])).ok()?;
        let (bytes, after) = self.rest.split_at_checked(total)?;
        let (_, mut fields) = bytes.split_at_checked(ROW_HEADER_BYTES)?;
        let mut next = |length: usize| {
            let (field, after) = fields.split_at_checked(length)?;
            fields = after;
            Some(field)
        };
        let texts = [
            next(usize::from(l0))?,
            next(usize::from(u16::from_le_bytes([k0, k1])))?,
            next(usize::from(u16::from_le_bytes([s0, s1])))?,
            next(usize::from(l1))?,
            next(usize::from(l2))?,
            next(usize::from(l3))?,
            next(usize::from(l4))?,
            next(usize::from(l5))?,
        ];
        let payload = next(usize::try_from(u32::from_le_bytes([p0, p1, p2, p3])).ok()?)?;
        if !fields.is_empty() {
            return None;
        }
        self.rest = after;
        let time = i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        Some(Row {
            time,
            outcome,
            texts,
            payload,
            bytes,
        })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        self.split()
    }
}

impl<'a> Row<'a> {
    /// The entry this row holds.
    ///
    /// # Errors
    /// When a text is not UTF-8, or the time or outcome is out of range.
    pub fn entry(&self) -> Result<Entry<'a>, DecodeError> {
        entry_of(self.time, self.outcome, self.texts, self.payload)
    }
}

/// Builds an entry from decoded fields, checking what bytes cannot promise.
pub(crate) fn entry_of<'a>(
    time: i64,
    outcome: u8,
    texts: [&'a [u8]; TEXT_COLUMNS],
    payload: &'a [u8],
) -> Result<Entry<'a>, DecodeError> {
    let error = |reason| DecodeError::new("entry", 0, reason);
    let text = |bytes: &'a [u8]| {
        core::str::from_utf8(bytes).map_err(|_not_utf8| error("a name is not UTF-8"))
    };
    let [
        action,
        key,
        subjects,
        controller,
        processor,
        actor,
        purpose,
        basis,
    ] = texts;
    Ok(Entry {
        time: Timestamp::from_nanoseconds(time)
            .map_err(|_out_of_range| error("time is out of range"))?,
        action: text(action)?,
        key,
        subjects: Subjects::joined(text(subjects)?),
        controller: text(controller)?,
        processor: text(processor)?,
        actor: text(actor)?,
        purpose: text(purpose)?,
        basis: text(basis)?,
        outcome: Outcome::from_code(outcome).ok_or_else(|| error("outcome is unknown"))?,
        payload,
    })
}

/// Decodes one row that must fill `bytes`, as it stands in an entry proof.
///
/// # Errors
/// When `bytes` is not exactly one row, or longer than an entry may be.
pub fn decode_row(bytes: &[u8]) -> Result<Row<'_>, DecodeError> {
    let reader = Reader::new(bytes, "row");
    if bytes.len() > ENTRY_BYTES_MAX {
        return Err(reader.error("exceeds its limit"));
    }
    let mut rows = Rows::new(bytes);
    let row = rows.next().ok_or_else(|| reader.error("is no row"))?;
    if rows.rest().is_empty() {
        Ok(row)
    } else {
        Err(reader.error("has bytes left over"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn rows_round_trip() {
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_001).unwrap();
        let entry = Entry {
            subjects: Subjects::joined("alice\nbob"),
            controller: "acme",
            actor: "svc",
            basis: "6(1)(b)",
            outcome: Outcome::Absent,
            payload: b"\x00\xFFpayload",
            ..Entry::new(time, "read", b"user:7\x00")
        };
        let mut bytes = vec![0; row_bytes(&entry)];
        encode_row(&entry, &mut bytes);
        assert!(decode_row(&bytes).unwrap().entry().unwrap() == entry);
        for cut in 0..bytes.len() {
            assert!(decode_row(&bytes[..cut]).is_err());
        }
    }
}
