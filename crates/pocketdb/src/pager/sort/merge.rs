//! Merging of sorted runs.

use super::{Combine, Run};
use crate::pager::Pager;
use crate::pager::bytes::{narrow, part, put};
use crate::pager::error::{Error, Result};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;

/// Number of bytes of a record that are compared without loading its page.
const HEAD_BYTES: usize = size_of::<u128>();

/// The error for a run that is not among those merged; its records would be left out.
const NO_RUN: Error = Error::Defect("the smallest record is in one of the runs");

fn run_at(runs: &[Run], number: usize) -> Result<&Run> {
    runs.get(number).ok_or(NO_RUN)
}

/// Returns how many runs can be merged at once when `reserve` frames stay free.
pub(super) fn fan_in<F: Nand, S: SecureStore>(pager: &Pager<F, S>, reserve: usize) -> usize {
    pager.arena.cached().saturating_sub(reserve).max(2)
}

/// Reads the head of every run.
pub(super) fn prepare<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    runs: &mut [Run],
    width: usize,
) -> Result<()> {
    for run in runs.iter_mut() {
        if let Some((frame, at)) = run.place(pager, width)? {
            run.head = head_of(part(pager.arena.page(frame), at, width));
        }
    }
    Ok(())
}

fn head_of(record: &[u8]) -> u128 {
    let mut head = [0u8; HEAD_BYTES];
    put(&mut head, 0, part(record, 0, record.len().min(HEAD_BYTES)));
    u128::from_be_bytes(head)
}

/// Returns the run with the smallest next record.
fn smallest<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    runs: &[Run],
    width: usize,
) -> Result<Option<usize>> {
    let mut best: Option<usize> = None;
    for (number, run) in runs.iter().enumerate() {
        if run.read >= run.records {
            continue;
        }
        let Some(other) = best.and_then(|best| runs.get(best)) else {
            best = Some(number);
            continue;
        };
        // Most comparisons end here; a page is loaded only for records that begin alike.
        let less = match run.head.cmp(&other.head) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Greater => false,
            core::cmp::Ordering::Equal => width > HEAD_BYTES && is_less(pager, run, other, width)?,
        };
        if less {
            best = Some(number);
        }
    }
    Ok(best)
}

fn is_less<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    run: &Run,
    other: &Run,
    width: usize,
) -> Result<bool> {
    let Some((first, at)) = run.place(pager, width)? else {
        return Ok(false);
    };
    // The cache has two frames at least, so the page stays while the other one is loaded.
    let Some((second, other_at)) = other.place(pager, width)? else {
        return Ok(true);
    };
    let record = part(pager.arena.page(first), at, width);
    Ok(record < part(pager.arena.page(second), other_at, width))
}

/// Reads the smallest record of `runs`, combined with all records of the same key.
pub(super) fn next_merged<F: Nand, S: SecureStore, C: Combine>(
    pager: &mut Pager<F, S>,
    runs: &mut [Run],
    width: usize,
    combine: &C,
    out: &mut [u8],
) -> Result<bool> {
    let Some(best) = smallest(pager, runs, width)? else {
        return Ok(false);
    };
    take_record(pager, runs, best, out)?;
    let Some(key) = combine.key_bytes() else {
        return Ok(true);
    };
    while let Some(next) = smallest(pager, runs, width)? {
        let run = *run_at(runs, next)?;
        if heads_differ(run.head, head_of(out), key)
            || !combine_next(pager, runs, (next, key), combine, out)?
        {
            break;
        }
    }
    Ok(true)
}

/// Returns whether two records differ in the part of a key of `key` bytes that their heads contain.
fn heads_differ(one: u128, other: u128, key: usize) -> bool {
    // The key may be shorter than a head: the bits of what follows it do not count.
    let beyond = narrow(HEAD_BYTES.saturating_sub(key) * 8);
    (one ^ other).checked_shr(beyond).unwrap_or(0) != 0
}

/// Reads the next record of run `next` into `out` if its key is the same; otherwise returns
/// `false`.
fn combine_next<F: Nand, S: SecureStore, C: Combine>(
    pager: &mut Pager<F, S>,
    runs: &mut [Run],
    (next, key): (usize, usize),
    combine: &C,
    out: &mut [u8],
) -> Result<bool> {
    let mut other = Scratch::new(out.len());
    // A copy is read ahead: the run itself moves on only if the record belongs to this key.
    let mut run = *run_at(runs, next)?;
    run.take(pager, &mut other)?;
    if part(&other, 0, key) != part(out, 0, key) {
        return Ok(false);
    }
    take_record(pager, runs, next, &mut other)?;
    combine.combine(out, &other)?;
    Ok(true)
}

fn take_record<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    runs: &mut [Run],
    number: usize,
    out: &mut [u8],
) -> Result<()> {
    let run = runs.get_mut(number).ok_or(NO_RUN)?;
    run.take(pager, out)?;
    if let Some((frame, at)) = run.place(pager, out.len())? {
        run.head = head_of(part(pager.arena.page(frame), at, out.len()));
    }
    Ok(())
}
