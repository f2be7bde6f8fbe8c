//! Aggregation: one record for each group, into which rows and other records of the group are
//! combined.

use crate::error::{Error, Result};
use crate::limits::OUTPUTS_MAX;
use crate::pager;
use crate::pager::bytes::{part, part_mut, put, take};
use crate::pager::error::Error as PagerError;
use crate::pager::series::Series;
use crate::pager::sort::Combine;
use crate::query::select::{Function, Output, Select, bounded};
use crate::tables::value::{
    NUMBER_BYTES, ValueType, decode_integer, decode_real, encode_integer, encode_real,
};

/// Bytes of a running sum of integers.
const WIDE_BYTES: usize = 16;

/// The part of a group's record for one output.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    function: Function,
    kind: ValueType,
    at: u16,
    bytes: u16,
}

/// The layout of the records of groups: key, then a state for each aggregate.
#[derive(Debug)]
pub(crate) struct Grouping {
    key: usize,
    states: Series<State, OUTPUTS_MAX>,
    bytes: usize,
}

impl Grouping {
    /// Returns the layout for a query.
    pub(crate) fn new(select: &Select<'_>) -> Result<Self> {
        let mut key = 0;
        for &number in select.groups.iter() {
            key += usize::from(select.source(number)?.reach.width);
        }
        let mut grouping = Self {
            key,
            states: Series::new(),
            bytes: key,
        };
        for output in select.outputs.iter() {
            let kind = source_kind(select, *output)?;
            let bytes = match (output.function, kind) {
                (Function::Value, _) => 0,
                (Function::Count, _) | (Function::Sum, ValueType::Real) => NUMBER_BYTES,
                (Function::Sum, _) => WIDE_BYTES,
                (Function::Average, ValueType::Real) => 2 * NUMBER_BYTES,
                (Function::Average, _) => WIDE_BYTES + NUMBER_BYTES,
                (Function::Minimum | Function::Maximum, _) => usize::from(output.width),
            };
            let state = State {
                function: output.function,
                kind,
                at: bounded(grouping.bytes)?,
                bytes: bounded(bytes)?,
            };
            grouping
                .states
                .push(state, "the number of columns of a query")?;
            grouping.bytes += bytes;
        }
        Ok(grouping)
    }

    /// Returns the length of a record in bytes; at least one, also without content.
    pub(crate) fn record_bytes(&self) -> usize {
        self.bytes.max(1)
    }

    /// Writes the record of a group with one row.
    pub(crate) fn begin(&self, select: &Select<'_>, row: &[u8], record: &mut [u8]) -> Result<()> {
        let mut at = 0;
        for &number in select.groups.iter() {
            let bytes = select.source_bytes(number, row)?;
            put(record, at, bytes);
            at += bytes.len();
        }
        for (state, output) in self.states.iter().zip(select.outputs.iter()) {
            // COUNT(*) alone has no source, and needs no value.
            let value = match output.source {
                Some(number) => select.source_bytes(number, row)?,
                None => &[],
            };
            let at = usize::from(state.at);
            match (state.function, state.kind) {
                (Function::Value, _) => {}
                (Function::Count, _) => put(record, at, &1u64.to_le_bytes()),
                (Function::Sum, ValueType::Real) => put(record, at, &real_bytes(value)),
                (Function::Sum, _) => put(record, at, &wide_bytes(value)),
                (Function::Average, ValueType::Real) => {
                    put(record, at, &real_bytes(value));
                    put(record, at + NUMBER_BYTES, &1u64.to_le_bytes());
                }
                (Function::Average, _) => {
                    put(record, at, &wide_bytes(value));
                    put(record, at + WIDE_BYTES, &1u64.to_le_bytes());
                }
                (Function::Minimum | Function::Maximum, _) => put(record, at, value),
            }
        }
        Ok(())
    }

    /// Writes the row of the result for a group's record.
    pub(crate) fn finish(&self, select: &Select<'_>, record: &[u8], out: &mut [u8]) -> Result<()> {
        for (state, output) in self.states.iter().zip(select.outputs.iter()) {
            let at = usize::from(output.at);
            let kept = part(record, usize::from(state.at), usize::from(state.bytes));
            match (state.function, state.kind) {
                (Function::Value, _) => put(out, at, key_part(select, *output, record)?),
                (Function::Count, _) => put(out, at, &encode_integer(count(kept, 0)?)),
                (Function::Sum, ValueType::Real) => put(out, at, &encode_real(finite(real(kept))?)),
                (Function::Sum, _) => {
                    let exact = i64::try_from(wide(kept));
                    let sum = exact.map_err(|_range| overflow())?;
                    put(out, at, &encode_integer(sum));
                }
                (Function::Average, kind) => {
                    put(out, at, &encode_real(finite(average(kind, kept)?)?));
                }
                (Function::Minimum | Function::Maximum, _) => put(out, at, kept),
            }
        }
        Ok(())
    }
}

impl Combine for Grouping {
    fn key_bytes(&self) -> Option<usize> {
        Some(self.key)
    }

    fn combine(&self, record: &mut [u8], other: &[u8]) -> pager::error::Result<()> {
        for state in self.states.iter() {
            let (at, bytes) = (usize::from(state.at), usize::from(state.bytes));
            let theirs = part(other, at, bytes);
            let ours = part_mut(record, at, bytes);
            match (state.function, state.kind) {
                (Function::Value, _) => {}
                (Function::Count, _) => add_count(ours, theirs, 0)?,
                (Function::Sum, ValueType::Real) => add_real(ours, theirs),
                (Function::Sum, _) => add_wide(ours, theirs)?,
                (Function::Average, ValueType::Real) => {
                    add_real(ours, theirs);
                    add_count(ours, theirs, NUMBER_BYTES)?;
                }
                (Function::Average, _) => {
                    add_wide(ours, theirs)?;
                    add_count(ours, theirs, WIDE_BYTES)?;
                }
                (Function::Minimum, _) if theirs < &*ours => ours.copy_from_slice(theirs),
                (Function::Maximum, _) if theirs > &*ours => ours.copy_from_slice(theirs),
                (Function::Minimum | Function::Maximum, _) => {}
            }
        }
        Ok(())
    }
}

/// Returns the value of a grouping column in a group's record.
fn key_part<'r>(select: &Select<'_>, output: Output, record: &'r [u8]) -> Result<&'r [u8]> {
    let mut at = 0;
    for &number in select.groups.iter() {
        let bytes = usize::from(select.source(number)?.reach.width);
        if Some(number) == output.source {
            return Ok(part(record, at, bytes));
        }
        at += bytes;
    }
    Err(Error::Defect(
        "a column shown beside groups is one of theirs",
    ))
}

/// Returns the type of an output's source; `COUNT(*)` has none, and counts in integers.
fn source_kind(select: &Select<'_>, output: Output) -> Result<ValueType> {
    match output.source {
        Some(number) => Ok(select.source(number)?.reach.kind),
        None => Ok(ValueType::Integer),
    }
}

const fn overflow() -> PagerError {
    PagerError::Combination("the sum exceeds 64 bits")
}

/// Returns a sum of numbers, none of which is infinite.
fn finite(sum: f64) -> Result<f64> {
    let found = Some(sum).filter(|sum| sum.is_finite());
    found.ok_or_else(|| Error::Value("the sum exceeds the largest real number".into()))
}

fn real_bytes(value: &[u8]) -> [u8; NUMBER_BYTES] {
    decode_real(value).to_le_bytes()
}

fn real(state: &[u8]) -> f64 {
    f64::from_le_bytes(take(state, 0))
}

fn add_real(ours: &mut [u8], theirs: &[u8]) {
    let sum = real(ours) + real(theirs);
    put(ours, 0, &sum.to_le_bytes());
}

fn wide_bytes(value: &[u8]) -> [u8; WIDE_BYTES] {
    i128::from(decode_integer(value)).to_le_bytes()
}

fn wide(state: &[u8]) -> i128 {
    i128::from_le_bytes(take(state, 0))
}

fn add_wide(ours: &mut [u8], theirs: &[u8]) -> pager::error::Result<()> {
    let sum = wide(ours).checked_add(wide(theirs)).ok_or_else(overflow)?;
    put(ours, 0, &sum.to_le_bytes());
    Ok(())
}

fn count(state: &[u8], at: usize) -> Result<i64> {
    i64::try_from(u64::from_le_bytes(take(state, at))).map_err(|_range| overflow().into())
}

fn add_count(ours: &mut [u8], theirs: &[u8], at: usize) -> pager::error::Result<()> {
    let (a, b): ([u8; 8], [u8; 8]) = (take(ours, at), take(theirs, at));
    let sum = u64::from_le_bytes(a).checked_add(u64::from_le_bytes(b));
    put(ours, at, &sum.ok_or_else(overflow)?.to_le_bytes());
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "an average is a floating-point number"
)]
fn average(kind: ValueType, state: &[u8]) -> Result<f64> {
    Ok(match kind {
        ValueType::Real => real(state) / count(state, NUMBER_BYTES)? as f64,
        _ => wide(state) as f64 / count(state, WIDE_BYTES)? as f64,
    })
}
