//! The times at which the log took entries. They are near the claimed times, or equal in runs,
//! because a batch is taken at once.

use alloc::vec::Vec;

use super::bits::{blocks, put_blocks};
use crate::error::DecodeError;
use crate::width::to_u64;
use crate::wire::{Reader, put_varint};

/// Differences from the claimed times, as blocks.
const FROM_TIME: u8 = 0;
/// Runs of equal times: number of runs, first time, differences between runs, lengths less one.
const RUNS: u8 = 1;
/// Average length of runs, in entries, from which only the form of runs is tried.
const LONG_RUN: usize = 16;

/// Writes `taken` in the shorter form; `times` are the claimed times of the same entries.
pub(super) fn put_taken(out: &mut Vec<u8>, taken: &[i64], times: &[i64]) {
    let start = out.len();
    let runs = put_runs(out, taken);
    if runs.saturating_mul(LONG_RUN) <= taken.len() {
        return;
    }
    let length = out.len().saturating_sub(start);
    let differences: Vec<i64> = taken
        .iter()
        .zip(times)
        .map(|(taken, time)| taken.wrapping_sub(*time))
        .collect();
    out.push(FROM_TIME);
    put_blocks(out, &differences);
    let other = out.len().saturating_sub(start).saturating_sub(length);
    if other < length {
        out.drain(start..start.saturating_add(length));
    } else {
        out.truncate(start.saturating_add(length));
    }
}

fn put_runs(out: &mut Vec<u8>, taken: &[i64]) -> usize {
    let mut differences = Vec::new();
    let mut lengths = Vec::new();
    let mut before = taken.first().copied().unwrap_or_default();
    let first = before;
    for run in taken.chunk_by(|a, b| a == b) {
        let time = run.first().copied().unwrap_or_default();
        if !lengths.is_empty() {
            differences.push(time.wrapping_sub(before));
        }
        before = time;
        lengths.push(i64::try_from(run.len().saturating_sub(1)).unwrap_or_default());
    }
    out.push(RUNS);
    put_varint(out, to_u64(lengths.len()));
    out.extend_from_slice(&first.to_le_bytes());
    put_blocks(out, &differences);
    put_blocks(out, &lengths);
    lengths.len()
}

/// Reads the output of [`put_taken`] for entries with these claimed `times`.
pub(super) fn taken(reader: &mut Reader<'_>, times: &[i64]) -> Result<Vec<i64>, DecodeError> {
    let taken = match reader.u8()? {
        FROM_TIME => {
            let differences = blocks(reader, times.len())?;
            let each = times.iter().zip(differences);
            each.map(|(time, difference)| time.wrapping_add(difference))
                .collect()
        }
        RUNS => runs(reader, times.len())?,
        _ => return Err(reader.error("has times taken in an unknown form")),
    };
    if taken.iter().all(|taken| *taken == 0) {
        return Err(reader.error("has a column without values"));
    }
    Ok(taken)
}

fn runs(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, DecodeError> {
    let runs = reader.length(count)?;
    let mut time = reader.i64()?;
    let differences = blocks(reader, runs.saturating_sub(1))?;
    let lengths = blocks(reader, runs)?;
    let mut taken = Vec::with_capacity(count);
    let mut differences = differences.into_iter();
    for length in lengths {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length < count.saturating_sub(taken.len()));
        let Some(length) = length else {
            return Err(reader.error("has a run of times that is longer than the section"));
        };
        let end = taken.len().saturating_add(length).saturating_add(1);
        taken.resize(end, time);
        if end < count {
            let difference = differences.next().unwrap_or_default();
            if difference == 0 {
                return Err(reader.error("has two runs of one time"));
            }
            time = time.wrapping_add(difference);
        }
    }
    if taken.len() != count || differences.next().is_some() {
        return Err(reader.error("has runs of times for another number of entries"));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    const BASE: i64 = 1_700_000_000_000_000_000;

    fn size(times: &[i64], values: &[i64]) -> usize {
        let mut out = vec![0xEE; 3];
        put_taken(&mut out, values, times);
        let mut reader = Reader::new(&out[3..], "times taken");
        assert!(taken(&mut reader, times).unwrap() == values);
        assert_eq!(reader.finish(), Ok(()));
        out.len() - 3
    }

    /// The field costs almost no bytes for batches, and the jitter between claimed time and clock
    /// for single entries.
    #[test]
    fn times_taken_cost_little() {
        let claimed = |step: i64| -> Vec<i64> { (0..8192).map(|i| BASE + i * step).collect() };
        let batches: Vec<i64> = (0..8192)
            .map(|i| BASE + 77 + i / 64 * 19_000 + i / 64 % 7)
            .collect();
        assert!(size(&claimed(500), &batches) < 8192 / 10);
        let jitter = |i: i64| i * 7919 % 230;
        let single: Vec<i64> = (0..8192)
            .map(|i| BASE + i * 90_000_000 + i * i % 1000 + jitter(i))
            .collect();
        let times: Vec<i64> = (0..8192)
            .map(|i| BASE + i * 90_000_000 + i * i % 1000)
            .collect();
        assert!(size(&times, &single) < 8192 + 8192 / 20);
    }

    #[test]
    fn odd_times_round_trip() {
        size(&[BASE], &[BASE]);
        size(&[5, 5, 5], &[0, i64::MAX, 0]);
        size(&[5, 7, i64::MAX], &[i64::MAX, i64::MIN, 9]);
    }

    #[test]
    fn malformed_runs_are_refused() {
        let good = |runs: &[u8]| {
            let bytes = [&[RUNS], runs].concat();
            let mut reader = Reader::new(&bytes, "times taken");
            taken(&mut reader, &[1, 2, 3]).and_then(|_taken| reader.finish())
        };
        let first = 9_i64.to_le_bytes();
        // Two runs, of one and of two entries, 4 apart.
        assert_eq!(good(&[&[2], &first[..], &[8, 0, 0, 1, 2]].concat()), Ok(()));
        for bad in [
            [&[2], &first[..], &[0, 0, 0, 1, 2]].concat(),
            [&[2], &first[..], &[8, 0, 0, 2, 4]].concat(),
            [&[2], &first[..], &[8, 0, 0, 0]].concat(),
            [&[4], &first[..], &[8, 0, 0, 0]].concat(),
            [&[0], &first[..]].concat(),
            [&[1], &[0; 8][..], &[4, 0]].concat(),
        ] {
            assert!(good(&bad).is_err(), "{bad:?}");
        }
    }
}
