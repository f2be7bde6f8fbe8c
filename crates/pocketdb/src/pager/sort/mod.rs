//! External merge sort: runs in a temporary log, merged as they are read.
//!
//! Records have one width and are ordered by their bytes. Records with equal keys can be combined
//! into one as early as they meet.

mod memory;
mod merge;

use self::memory::sort_records;
use self::merge::{fan_in, next_merged, prepare};
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{narrow, part, part_mut, put, take};
use crate::pager::directory::TEMPORARY;
use crate::pager::error::{Error, Result};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::seal::{PAYLOAD_BYTES, ROLE_TEMPORARY};
use crate::pager::series::Series;

/// Greatest number of runs of one sort before it merges some.
const RUNS_MAX: usize = 32;
/// Number of runs that one sort keeps for each frame beyond the first few.
const RUNS_PER_FRAME: usize = 2;
const FRAMES_FEW: usize = 3;
/// Number of frames that stay free during a merge: for the result and for the reader.
const MERGE_SPARE: usize = 3;
/// Number of frames up to which a reorganisation, which has the memory of statements too, keeps and
/// merges more runs. Then: the number of runs, and of frames that stay free.
pub(crate) const FRAMES_LITTLE: usize = 8;
const RUNS_ALONE: usize = 20;
const MERGE_SPARE_ALONE: usize = 2;

/// Work of a statement besides reading: sorted runs written, and merge passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    pub(crate) runs: u64,
    pub(crate) merges: u64,
}

/// Concurrent users of memory during a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The stages of a query.
    Query,
    /// None: the sort is one of a reorganisation.
    Nothing,
}

/// The combination of records with equal keys.
pub(crate) trait Combine {
    /// Returns the length of the key, the beginning of a record. Records with one key become one
    /// record. `None` keeps all records.
    fn key_bytes(&self) -> Option<usize>;
    /// Combines `other` into `record`.
    ///
    /// # Errors
    /// The result cannot be represented.
    fn combine(&self, record: &mut [u8], other: &[u8]) -> Result<()>;
}

/// The treatment of equal records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Repeats {
    /// All are kept.
    Keep,
    /// One is kept; the number is the length of a record in bytes.
    Drop(usize),
}

impl Combine for Repeats {
    fn key_bytes(&self) -> Option<usize> {
        match self {
            Self::Keep => None,
            Self::Drop(bytes) => Some(*bytes),
        }
    }

    fn combine(&self, _record: &mut [u8], _other: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Sorted records in a temporary log, and the number of them already read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    first: u32,
    records: u32,
    read: u32,
    /// The first bytes of the next record, compared without loading its page.
    head: u128,
}

/// Collects records, and returns them in order once the collection is finished.
#[derive(Debug)]
pub(crate) struct Sorter<C> {
    width: usize,
    area: Area,
    count: usize,
    runs: Series<Run, RUNS_MAX>,
    combine: C,
    beside: Beside,
    /// Number of records pushed.
    pub(crate) pushed: u64,
    /// Number of in-memory records already read.
    read: usize,
}

impl<C: Combine> Sorter<C> {
    /// Creates a sorter of records of `width` bytes in `area`.
    pub(crate) fn new(width: usize, area: Area, combine: C) -> Result<Self> {
        if width == 0 || width > PAYLOAD_BYTES {
            return Err(Error::Limit("the width of a result row"));
        }
        Ok(Self {
            width,
            area,
            count: 0,
            runs: Series::new(),
            combine,
            beside: Beside::Query,
            pushed: 0,
            read: 0,
        })
    }

    /// Sets that nothing else uses memory during the sort.
    pub(crate) fn alone(self) -> Self {
        Self {
            beside: Beside::Nothing,
            ..self
        }
    }

    /// Returns how many runs are kept, and how many frames stay free during a merge.
    fn manner<F: Nand, S: SecureStore>(&self, pager: &Pager<F, S>) -> (usize, usize) {
        let frames = pager.arena.frames();
        if self.beside == Beside::Nothing && frames <= FRAMES_LITTLE {
            return (RUNS_ALONE, MERGE_SPARE_ALONE);
        }
        // With little memory few runs are merged at once, and a longer list of them does not pay
        // off.
        let kept = RUNS_MAX.min(RUNS_PER_FRAME * frames.saturating_sub(FRAMES_FEW));
        (kept, MERGE_SPARE)
    }

    fn room(&self) -> usize {
        self.area.bytes() / self.width
    }

    /// Returns the area in which records are collected.
    pub(crate) fn area(&self) -> Area {
        self.area
    }

    /// Returns the combination of records with equal keys.
    pub(crate) fn combine(&self) -> &C {
        &self.combine
    }

    /// Adds a record.
    pub(crate) fn push<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        record: &[u8],
    ) -> Result<()> {
        if self.count == self.room() {
            self.sort_area(pager)?;
            // Unless combining freed enough room, the records go to flash.
            if self.count > self.room() / 2 {
                self.spill(pager)?;
            }
        }
        let at = self.count * self.width;
        put(pager.arena.area_mut(self.area), at, record);
        self.count += 1;
        self.pushed += 1;
        Ok(())
    }

    /// Sorts the records in memory and combines those with equal keys.
    fn sort_area<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        let bytes = pager.arena.area_mut(self.area);
        let used = part_mut(bytes, 0, self.count * self.width);
        sort_records(used, self.width);
        let Some(key) = self.combine.key_bytes() else {
            return Ok(());
        };
        // Records of one key are adjacent now: the first of them takes in the others.
        let mut kept = 0usize;
        for number in 1..self.count {
            let (before, rest) = used.split_at_mut(number * self.width);
            let record = part(rest, 0, self.width);
            let last = part_mut(before, kept * self.width, self.width);
            if part(last, 0, key) == part(record, 0, key) {
                self.combine.combine(last, record)?;
            } else {
                kept += 1;
                let from = number * self.width;
                used.copy_within(from..from + self.width, kept * self.width);
            }
        }
        self.count = if self.count == 0 { 0 } else { kept + 1 };
        Ok(())
    }

    /// Writes the sorted records in memory as a run.
    fn spill<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        let mut writer = RunWriter::begin(pager, self.width)?;
        for number in 0..self.count {
            let at = number * self.width;
            writer.copy(pager, self.area, at)?;
        }
        self.count = 0;
        pager.effort.runs += 1;
        let run = writer.finish(pager)?;
        self.runs.push(run, "the number of sorted runs")?;
        if self.runs.len() < self.manner(pager).0 {
            return Ok(());
        }
        // The area is empty now; its frames allow a wider merge.
        if pager.arena.is_last(self.area) {
            pager.arena.release(self.area);
            self.merge_alike(pager)?;
            self.area = pager.arena.lease(self.area.frames())?;
            return Ok(());
        }
        self.merge_alike(pager)
    }

    /// Merges as many runs as there are frames for. It takes those of most similar length, so that
    /// no long run is rewritten because of short ones.
    fn merge_alike<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        // A run that was merged often is long, and its neighbours in this order are as long.
        self.runs.sort_unstable_by_key(|run| run.records);
        let taken = fan_in(pager, self.manner(pager).1).min(self.runs.len());
        let first = most_alike(&self.runs, taken);
        self.merge(pager, first, taken)
    }

    /// Merges the shortest runs, as many as there are frames for, until `target` are left.
    fn merge_shortest<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        target: usize,
    ) -> Result<()> {
        let spare = self.manner(pager).1;
        while self.runs.len() > target {
            self.runs.sort_unstable_by_key(|run| run.records);
            // The last merge takes only as many as are too many, so that it rewrites little.
            let needed = self.runs.len() - target + 1;
            self.merge(pager, 0, fan_in(pager, spare).min(needed))?;
        }
        Ok(())
    }

    /// Merges `taken` runs from `first` on into one.
    fn merge<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        first: usize,
        taken: usize,
    ) -> Result<()> {
        pager.effort.merges += 1;
        let mut writer = RunWriter::begin(pager, self.width)?;
        let mut record = Scratch::new(self.width);
        let inputs = self.runs.get_mut(first..first + taken);
        let inputs = inputs.ok_or(Error::Defect("the runs to merge are those that there are"))?;
        prepare(pager, inputs, self.width)?;
        while next_merged(pager, inputs, self.width, &self.combine, &mut record)? {
            writer.put(pager, &record)?;
        }
        let run = writer.finish(pager)?;
        self.runs.remove(first, taken);
        self.runs.push(run, "the number of sorted runs")
    }

    /// Ends the collection.
    pub(crate) fn finish<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
    ) -> Result<()> {
        self.sort_area(pager)?;
        // Either all records are in memory or all in runs: a merge reads one kind only.
        if !self.runs.is_empty() && self.count > 0 {
            self.spill(pager)?;
        }
        self.merge_to(pager, MERGE_SPARE)
    }

    /// Ends the collection, and releases the area if the records went to flash. Then so few runs
    /// remain that reading them leaves `reserve` frames.
    pub(crate) fn finish_and_release<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        reserve: usize,
    ) -> Result<()> {
        self.sort_area(pager)?;
        if !self.runs.is_empty() {
            if self.count > 0 {
                self.spill(pager)?;
            }
            pager.arena.release(self.area);
        }
        self.merge_to(pager, reserve)
    }

    fn merge_to<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        reserve: usize,
    ) -> Result<()> {
        let target = fan_in(pager, reserve);
        self.merge_shortest(pager, target)?;
        prepare(pager, &mut self.runs, self.width)
    }

    /// Returns whether all records fit into memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.runs.is_empty()
    }

    /// Copies the next record to `out` once the collection has ended; returns `false` at the end.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        if !self.is_in_memory() {
            return next_merged(pager, &mut self.runs, self.width, &self.combine, out);
        }
        if self.read == self.count {
            return Ok(false);
        }
        let at = self.read * self.width;
        out.copy_from_slice(part(pager.arena.area(self.area), at, self.width));
        self.read += 1;
        Ok(true)
    }
}

/// Writes records of one width to the temporary log, densely.
#[derive(Debug)]
pub(crate) struct RunWriter {
    width: usize,
    page: Area,
    run: Run,
    filled: usize,
}

impl RunWriter {
    /// Begins a run at the log's end; leases a frame until it is finished.
    pub(crate) fn begin<F: Nand, S: SecureStore>(
        pager: &mut Pager<F, S>,
        width: usize,
    ) -> Result<Self> {
        let page = pager.arena.lease(1)?;
        pager.arena.area_mut(page).fill(0);
        Ok(Self {
            width,
            page,
            run: Run {
                first: pager.temporary.pages,
                ..Run::default()
            },
            filled: 0,
        })
    }

    /// Adds a record.
    pub(crate) fn put<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        record: &[u8],
    ) -> Result<()> {
        put(pager.arena.area_mut(self.page), self.filled, record);
        self.turn(pager)
    }

    /// Adds the record at `at` of an area.
    pub(crate) fn copy<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        from: Area,
        at: usize,
    ) -> Result<()> {
        pager
            .arena
            .copy_within((from, at), (self.page, self.filled), self.width);
        self.turn(pager)
    }

    fn turn<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        self.filled += self.width;
        self.run.records += 1;
        if self.filled + self.width > PAYLOAD_BYTES {
            self.flush(pager)?;
        }
        Ok(())
    }

    fn flush<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        // A copy, because the log is a part of the pager that writes it.
        let mut log = pager.temporary;
        let result = log.append(pager, ROLE_TEMPORARY, self.page, 0);
        pager.temporary = log;
        result?;
        pager.arena.area_mut(self.page).fill(0);
        self.filled = 0;
        Ok(())
    }

    /// Writes the remaining records and returns the run.
    pub(crate) fn finish<F: Nand, S: SecureStore>(
        mut self,
        pager: &mut Pager<F, S>,
    ) -> Result<Run> {
        if self.filled > 0 {
            self.flush(pager)?;
        }
        pager.arena.release(self.page);
        Ok(self.run)
    }
}

impl Run {
    /// Returns the number of records of the run.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Reads the next record of `out.len()` bytes; returns `false` at the end.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        let found = self.peek(pager, out)?;
        if found {
            self.read += 1;
        }
        Ok(found)
    }

    /// Reads the next record of `out.len()` bytes, which must be there.
    ///
    /// # Errors
    /// The run has ended: the record before it in `out` would be taken for another one.
    pub(crate) fn take<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        out: &mut [u8],
    ) -> Result<()> {
        if self.next(pager, out)? {
            return Ok(());
        }
        Err(Error::Defect("a run has as many records as were written"))
    }

    fn peek<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        let Some((frame, at)) = self.place(pager, out.len())? else {
            return Ok(false);
        };
        out.copy_from_slice(part(pager.arena.page(frame), at, out.len()));
        Ok(true)
    }

    /// Returns the frame with the next record, and its offset there.
    fn place<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        width: usize,
    ) -> Result<Option<(usize, usize)>> {
        if self.read >= self.records {
            return Ok(None);
        }
        let per_page = narrow(PAYLOAD_BYTES / width.max(1));
        let page = self.first + self.read / per_page;
        let frame = pager.log_load(TEMPORARY, ROLE_TEMPORARY, page)?;
        Ok(Some((frame, (self.read % per_page) as usize * width)))
    }
}

/// Returns the index of the first of `count` runs of most similar length: the longest has the
/// smallest share of their records. `runs` is sorted by length.
fn most_alike(runs: &[Run], count: usize) -> usize {
    let share = |group: &[Run]| {
        let all: u64 = group.iter().map(|run| u64::from(run.records)).sum();
        let longest = group.last().map_or(0, |run| u64::from(run.records));
        (longest, all.max(1))
    };
    // Fractions are compared by cross products, without a division.
    let groups = runs.windows(count.max(1)).map(share).enumerate();
    let best = groups.min_by(|(_, a), (_, b)| (a.0 * b.1).cmp(&(b.0 * a.1)));
    best.map_or(0, |(first, _)| first)
}

/// Encodes an id so that ascending bytes give descending ids.
pub(crate) fn descending(id: u32) -> [u8; 4] {
    (!id).to_be_bytes()
}

/// Decodes the id encoded by [`descending`].
pub(crate) fn ascending(bytes: &[u8]) -> u32 {
    !u32::from_be_bytes(take(bytes, 0))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn run(records: u32) -> Run {
        Run {
            records,
            ..Run::default()
        }
    }

    /// Writes `count` runs of one record, with at most [`RUNS_MAX`] kept and `fan_in` merged at
    /// once. Returns how often a record is rewritten on average.
    fn rewritten(count: u32, fan_in: usize) -> f64 {
        let mut runs: Vec<Run> = Vec::new();
        let mut written = 0;
        for _ in 0..count {
            runs.push(run(1));
            let kept = if fan_in == 5 { RUNS_ALONE } else { RUNS_MAX };
            if runs.len() == kept {
                runs.sort_unstable_by_key(|run| run.records);
                let first = most_alike(&runs, fan_in);
                let merged: u32 = runs
                    .drain(first..first + fan_in)
                    .map(|run| run.records)
                    .sum();
                written += merged;
                runs.push(run(merged));
            }
        }
        assert_eq!(runs.iter().map(|run| run.records).sum::<u32>(), count);
        f64::from(written) / f64::from(count)
    }

    #[test]
    fn runs_are_merged_about_as_often_as_the_logarithm_says() {
        for (count, fan_in, most) in [
            (900, 19, 2.0),
            (900, 10, 2.2),
            (3_000, 10, 3.0),
            (600, 2, 9.0),
            (2_300, 5, 4.7),
        ] {
            let found = rewritten(count, fan_in);
            assert!(found < most, "{count} runs, {fan_in} at a time: {found}");
        }
    }

    #[test]
    fn runs_of_like_length_are_found_wherever_they_are() {
        let runs = [1, 2, 2, 9, 9, 9, 40].map(run);
        assert_eq!(most_alike(&runs, 3), 3);
        assert_eq!(most_alike(&runs, 7), 0);
        assert_eq!(most_alike(&runs, 8), 0);
    }
}
