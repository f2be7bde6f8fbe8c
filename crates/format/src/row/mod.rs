//! A row: one entry as contiguous bytes, as producers write it and entry leaves hash it.
//!
//! `docs/format.md`, "Row". Rows are never written to disk; frames hold the same fields as columns.
//! An entry without the fields added in version 3 has the same row as in version 2.

use crate::entry::{Claimed, DIGEST_BYTES, Digest, Entry, Outcome, Subjects, Timestamp};
use crate::error::DecodeError;
use crate::limits::ENTRY_BYTES_MAX;
use crate::short::copy;
use crate::wire::Reader;

/// Bytes before the variable part of a row.
pub const ROW_HEADER_BYTES: usize = 28;
/// Bytes of the time taken, if a row has it.
const TAKEN_BYTES: usize = 8;
/// Bytes of the lengths of submitter and rule, if a row has one of them.
const LENGTHS_BYTES: usize = 2;

/// The bits of a row's byte 19: optional parts after the header, and claimed fields.
mod part {
    /// The time taken follows the header.
    pub(super) const TAKEN: u8 = 1;
    /// The lengths of submitter and rule follow; they are not both 0.
    pub(super) const NAMES: u8 = 2;
    /// The row has a digest of a policy.
    pub(super) const POLICY: u8 = 4;
    /// The row has a digest of an idempotency key.
    pub(super) const IDEMPOTENCY: u8 = 8;
    /// Shift of the two bits of [`Claimed`](crate::Claimed).
    pub(super) const CLAIMED_SHIFT: u32 = 4;
    /// The bits of optional texts, which few entries have.
    pub(super) const RARE: u8 = NAMES | POLICY | IDEMPOTENCY;
    /// Unused bits.
    pub(super) const UNKNOWN: u8 = 0xC0;
}

/// Returns the time taken as stored: 0 if there is none.
const fn taken_of(entry: &Entry<'_>) -> i64 {
    match entry.taken {
        Some(time) => time.nanoseconds(),
        None => 0,
    }
}

/// Returns byte 19 of the row of `entry`.
const fn parts_of(entry: &Entry<'_>) -> u8 {
    let mut parts = entry.claimed.code() << part::CLAIMED_SHIFT;
    if taken_of(entry) != 0 {
        parts |= part::TAKEN;
    }
    if !entry.submitter.is_empty() || !entry.rule.is_empty() {
        parts |= part::NAMES;
    }
    if entry.policy.is_some() {
        parts |= part::POLICY;
    }
    if entry.idempotency.is_some() {
        parts |= part::IDEMPOTENCY;
    }
    parts
}

/// Returns the length of the row of `entry`, in bytes. Exact for entries that pass
/// [`Entry::check`].
#[must_use]
pub const fn row_bytes(entry: &Entry<'_>) -> usize {
    let bytes = ROW_HEADER_BYTES
        .saturating_add(entry.action.len())
        .saturating_add(entry.key.len())
        .saturating_add(entry.subjects.as_joined().len())
        .saturating_add(entry.controller.len())
        .saturating_add(entry.processor.len())
        .saturating_add(entry.actor.len())
        .saturating_add(entry.purpose.len())
        .saturating_add(entry.basis.len())
        .saturating_add(entry.payload.len());
    let parts = parts_of(entry);
    let taken = if parts & part::TAKEN == 0 {
        0
    } else {
        TAKEN_BYTES
    };
    let bytes = bytes.saturating_add(taken);
    if parts & part::RARE == 0 {
        bytes
    } else {
        bytes.saturating_add(rare_bytes(entry, parts))
    }
}

const fn rare_bytes(entry: &Entry<'_>, parts: u8) -> usize {
    let mut bytes = entry.submitter.len().saturating_add(entry.rule.len());
    if parts & part::NAMES != 0 {
        bytes = bytes.saturating_add(LENGTHS_BYTES);
    }
    if parts & part::POLICY != 0 {
        bytes = bytes.saturating_add(DIGEST_BYTES);
    }
    if parts & part::IDEMPOTENCY != 0 {
        bytes = bytes.saturating_add(DIGEST_BYTES);
    }
    bytes
}

/// Writes `entry` into `out`, which must be exactly [`row_bytes`] long.
///
/// The entry must have passed [`Entry::check`]: each length is stored in as many bytes as its limit
/// needs. This is the hot path of every producer: one pass, no branch per byte.
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
    let parts = parts_of(entry);
    *header = row_header(entry, parts, ROW_HEADER_BYTES.saturating_add(rest.len()));
    if parts & part::TAKEN != 0 {
        rest = put(rest, &taken_of(entry).to_le_bytes());
    }
    if parts & part::NAMES != 0 {
        rest = put(rest, &name_lengths(entry));
    }
    let common: [&[u8]; 8] = [
        entry.action.as_bytes(),
        entry.key,
        entry.subjects.as_joined().as_bytes(),
        entry.controller.as_bytes(),
        entry.processor.as_bytes(),
        entry.actor.as_bytes(),
        entry.purpose.as_bytes(),
        entry.basis.as_bytes(),
    ];
    for field in common {
        rest = put(rest, field);
    }
    if parts & part::RARE != 0 {
        rest = put_rare(entry, rest);
    }
    put(rest, entry.payload);
}

/// Writes `field` at the beginning of `rest`; returns the bytes after it.
#[inline]
fn put<'a>(rest: &'a mut [u8], field: &[u8]) -> &'a mut [u8] {
    let Some((place, after)) = rest.split_at_mut_checked(field.len()) else {
        return &mut [];
    };
    copy(place, field);
    after
}

fn put_rare<'a>(entry: &Entry<'_>, rest: &'a mut [u8]) -> &'a mut [u8] {
    let rest = put(rest, entry.submitter.as_bytes());
    let rest = put(rest, entry.policy.map_or(&[], Digest::as_slice));
    let rest = put(rest, entry.rule.as_bytes());
    put(rest, entry.idempotency.map_or(&[], Digest::as_slice))
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the limits, checked before, are below a byte"
)]
const fn name_lengths(entry: &Entry<'_>) -> [u8; LENGTHS_BYTES] {
    [entry.submitter.len() as u8, entry.rule.len() as u8]
}

/// Returns the fixed part of a row of `total` bytes.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the limits, checked before, are below each length's width"
)]
const fn row_header(entry: &Entry<'_>, parts: u8, total: usize) -> [u8; ROW_HEADER_BYTES] {
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
        parts,
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

/// A row split into its fields without copying. The bytes are untrusted.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Row<'a> {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub time: i64,
    /// [`Outcome::code`].
    pub outcome: u8,
    /// Time taken in nanoseconds since 1970-01-01T00:00:00Z; 0 if there is none.
    pub taken: i64,
    /// [`Claimed::code`].
    pub claimed: u8,
    /// The text columns in the order of [`TEXT_COLUMNS`]; digests count as texts, empty if there is
    /// none.
    pub texts: [&'a [u8]; TEXT_COLUMNS],
    /// The payload.
    pub payload: &'a [u8],
    /// The whole row.
    pub bytes: &'a [u8],
}

/// Number of text columns: action, key, subjects, controller, processor, actor, purpose, basis,
/// submitter, policy, rule, idempotency.
pub const TEXT_COLUMNS: usize = 12;

/// An iterator that splits concatenated rows; ends at the end or at malformed bytes.
#[derive(Clone)]
pub struct Rows<'a> {
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Creates an iterator over the rows in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes not yet split; empty after the last row of well-formed input.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn split(&mut self) -> Option<Row<'a>> {
        let (header, _) = self.rest.split_first_chunk::<ROW_HEADER_BYTES>()?;
        let header = Header::of(header);
        let parts = header.parts;
        let total = usize::try_from(header.total).ok()?;
        let (bytes, after) = self.rest.split_at_checked(total)?;
        let (_, mut fields) = bytes.split_at_checked(ROW_HEADER_BYTES)?;
        let taken = taken_behind(&mut fields, parts)?;
        let [submitter, rule] = name_lengths_behind(&mut fields, parts)?;
        let mut next = |length: usize| {
            let (field, after) = fields.split_at_checked(length)?;
            fields = after;
            Some(field)
        };
        let [action, controller, processor, actor, purpose, basis] = header.names;
        let texts = [
            next(usize::from(action))?,
            next(usize::from(header.key))?,
            next(usize::from(header.subjects))?,
            next(usize::from(controller))?,
            next(usize::from(processor))?,
            next(usize::from(actor))?,
            next(usize::from(purpose))?,
            next(usize::from(basis))?,
            next(usize::from(submitter))?,
            next(digest_bytes(parts, part::POLICY))?,
            next(usize::from(rule))?,
            next(digest_bytes(parts, part::IDEMPOTENCY))?,
        ];
        let payload = next(usize::try_from(header.payload).ok()?)?;
        if !fields.is_empty() || parts & part::UNKNOWN != 0 {
            return None;
        }
        self.rest = after;
        Some(Row {
            time: header.time,
            outcome: header.outcome,
            taken,
            claimed: parts >> part::CLAIMED_SHIFT,
            texts,
            payload,
            bytes,
        })
    }
}

/// The fixed fields of a row.
struct Header {
    total: u32,
    time: i64,
    outcome: u8,
    /// Lengths of action, controller, processor, actor, purpose, basis.
    names: [u8; 6],
    parts: u8,
    key: u16,
    subjects: u16,
    payload: u32,
}

impl Header {
    #[inline]
    const fn of(bytes: &[u8; ROW_HEADER_BYTES]) -> Self {
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
            parts,
            k0,
            k1,
            s0,
            s1,
            p0,
            p1,
            p2,
            p3,
        ] = *bytes;
        Self {
            total: u32::from_le_bytes([a0, a1, a2, a3]),
            time: i64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            outcome,
            names: [l0, l1, l2, l3, l4, l5],
            parts,
            key: u16::from_le_bytes([k0, k1]),
            subjects: u16::from_le_bytes([s0, s1]),
            payload: u32::from_le_bytes([p0, p1, p2, p3]),
        }
    }
}

/// Returns the length of a digest, if byte 19 has `bit`; else 0.
const fn digest_bytes(parts: u8, bit: u8) -> usize {
    if parts & bit == 0 { 0 } else { DIGEST_BYTES }
}

/// Splits the time taken from `fields`; 0 if the row has none.
#[inline]
fn taken_behind(fields: &mut &[u8], parts: u8) -> Option<i64> {
    if parts & part::TAKEN == 0 {
        return Some(0);
    }
    let (taken, after) = fields.split_first_chunk::<TAKEN_BYTES>()?;
    *fields = after;
    Some(i64::from_le_bytes(*taken)).filter(|taken| *taken != 0)
}

/// Splits the lengths of submitter and rule from `fields`; zeros if the row has neither.
#[inline]
fn name_lengths_behind(fields: &mut &[u8], parts: u8) -> Option<[u8; LENGTHS_BYTES]> {
    if parts & part::NAMES == 0 {
        return Some([0; LENGTHS_BYTES]);
    }
    let (lengths, after) = fields.split_first_chunk::<LENGTHS_BYTES>()?;
    *fields = after;
    Some(*lengths).filter(|lengths| *lengths != [0; LENGTHS_BYTES])
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        self.split()
    }
}

impl<'a> Row<'a> {
    /// Builds the entry from the row.
    ///
    /// # Errors
    /// When a text is not UTF-8, or a time or the outcome is out of range.
    pub fn entry(&self) -> Result<Entry<'a>, DecodeError> {
        Fields {
            time: self.time,
            outcome: self.outcome,
            taken: self.taken,
            claimed: self.claimed,
            texts: self.texts,
            payload: self.payload,
        }
        .entry()
    }
}

/// The decoded fields of an entry, from a row or from columns.
pub(crate) struct Fields<'a> {
    pub(crate) time: i64,
    pub(crate) outcome: u8,
    /// The time taken; 0 if there is none.
    pub(crate) taken: i64,
    pub(crate) claimed: u8,
    pub(crate) texts: [&'a [u8]; TEXT_COLUMNS],
    pub(crate) payload: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Builds the entry; checks UTF-8 and the ranges of times and outcome.
    pub(crate) fn entry(&self) -> Result<Entry<'a>, DecodeError> {
        let error = |reason| DecodeError::new("entry", 0, reason);
        let time = |nanoseconds| {
            Timestamp::from_nanoseconds(nanoseconds)
                .map_err(|_out_of_range| error("time is out of range"))
        };
        let text = |bytes: &'a [u8]| {
            core::str::from_utf8(bytes).map_err(|_not_utf8| error("a name is not UTF-8"))
        };
        let digest = |bytes: &'a [u8]| match bytes.as_array::<DIGEST_BYTES>() {
            None if !bytes.is_empty() => Err(error("a digest has another length")),
            digest => Ok(digest),
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
            submitter,
            policy,
            rule,
            idempotency,
        ] = self.texts;
        Ok(Entry {
            time: time(self.time)?,
            action: text(action)?,
            key,
            subjects: Subjects::joined(text(subjects)?),
            controller: text(controller)?,
            processor: text(processor)?,
            actor: text(actor)?,
            purpose: text(purpose)?,
            basis: text(basis)?,
            outcome: Outcome::from_code(self.outcome).ok_or_else(|| error("outcome is unknown"))?,
            payload: self.payload,
            taken: match self.taken {
                0 => None,
                nanoseconds => Some(time(nanoseconds)?),
            },
            submitter: text(submitter)?,
            claimed: Claimed::from_code(self.claimed)
                .ok_or_else(|| error("what is claimed is unknown"))?,
            idempotency: digest(idempotency)?,
            policy: digest(policy)?,
            rule: text(rule)?,
        })
    }
}

/// Decodes one row that must fill `bytes`, as in an entry proof.
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
mod tests;
