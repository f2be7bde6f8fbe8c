//! Sorting more than fits into memory: runs in a temporary log, merged as they are read.
//!
//! Records have one width and are ordered by their bytes. Records with equal keys may be combined
//! into one as early as they meet.

use crate::arena::Area;
use crate::bytes::{narrow, part, put, take};
use crate::directory::TEMPORARY;
use crate::error::{Error, Result};
use crate::flash::Nand;
use crate::list::List;
use crate::root::SecureStore;
use crate::seal::{PAYLOAD_BYTES, ROLE_TEMPORARY};
use crate::store::Store;

/// Runs that one sort keeps before it merges some.
const RUNS_MAX: usize = 32;
/// Frames that stay free when runs are merged: for the result and for whoever reads.
const MERGE_SPARE: usize = 3;

/// What happens to records whose keys are equal.
pub(crate) trait Combine {
    /// Bytes of the key, the beginning of a record; records with one key become one record.
    fn key_bytes(&self) -> Option<usize>;
    /// Puts what `other` says into `record`.
    ///
    /// # Errors
    /// The result cannot be represented.
    fn combine(&self, record: &mut [u8], other: &[u8]) -> Result<()>;
}

/// What happens to records that are equal as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Repeats {
    /// All stay.
    Keep,
    /// One stays; holds the bytes of a record.
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

/// Sorted records in a temporary log, and how many of them are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    first: u32,
    records: u32,
    read: u32,
    /// The first bytes of the next record, to compare without its page.
    head: u64,
}

/// Records being collected.
#[derive(Debug)]
pub(crate) struct Sorter<C> {
    width: usize,
    area: Area,
    count: usize,
    runs: List<Run, RUNS_MAX>,
    combine: C,
    /// How many records were pushed.
    pub(crate) pushed: u64,
}

/// Records being read in order.
#[derive(Debug)]
pub(crate) struct Sorted<C> {
    sorter: Sorter<C>,
    read: usize,
}

impl<C: Combine> Sorter<C> {
    /// Sorts records of `width` bytes in `area`.
    pub(crate) fn new(width: usize, area: Area, combine: C) -> Result<Self> {
        if width == 0 || width > PAYLOAD_BYTES {
            return Err(Error::Limit("the width of a result row"));
        }
        Ok(Self {
            width,
            area,
            count: 0,
            runs: List::new(),
            combine,
            pushed: 0,
        })
    }

    fn room(&self) -> usize {
        self.area.bytes() / self.width
    }

    /// What happens to records whose keys are equal.
    pub(crate) fn combine(&self) -> &C {
        &self.combine
    }

    /// Adds a record.
    pub(crate) fn push<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &[u8],
    ) -> Result<()> {
        if self.count == self.room() {
            self.sort_area(store)?;
            // Combining made enough room, or the records go to flash.
            if self.count > self.room() / 2 {
                self.spill(store)?;
            }
        }
        let at = self.count * self.width;
        put(store.arena.area_mut(self.area), at, record);
        self.count += 1;
        self.pushed += 1;
        Ok(())
    }

    /// Sorts what is in memory and combines what is equal.
    fn sort_area<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        let bytes = store.arena.area_mut(self.area);
        let used = bytes.get_mut(..self.count * self.width).unwrap_or(&mut []);
        sort_records(used, self.width);
        let Some(key) = self.combine.key_bytes() else {
            return Ok(());
        };
        let mut kept = 0usize;
        for number in 1..self.count {
            let (before, rest) = used.split_at_mut(number * self.width);
            let record = rest.get(..self.width).unwrap_or(&[]);
            let last = before
                .get_mut(kept * self.width..(kept + 1) * self.width)
                .unwrap_or(&mut []);
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
    fn spill<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        if self.runs.is_full() {
            self.merge_some(store)?;
        }
        let mut writer = RunWriter::begin(store, self.width)?;
        for number in 0..self.count {
            let at = number * self.width;
            writer.copy(store, self.area, at)?;
        }
        self.count = 0;
        store.effort.runs += 1;
        let run = writer.finish(store)?;
        self.runs.push(run, "the number of sorted runs")
    }

    /// Merges as many of the first runs as there are frames for into one.
    fn merge_some<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        store.effort.merges += 1;
        let fan_in = (store.arena.spare() + 2).saturating_sub(MERGE_SPARE).max(2);
        let taken = fan_in.min(self.runs.len());
        let mut inputs: List<Run, RUNS_MAX> = List::new();
        for run in self.runs.iter().take(taken) {
            inputs.push(*run, "the number of sorted runs")?;
        }
        let mut writer = RunWriter::begin(store, self.width)?;
        let mut record = [0u8; PAYLOAD_BYTES];
        let record = record.get_mut(..self.width).unwrap_or(&mut []);
        prepare(store, &mut inputs, self.width)?;
        while next_merged(store, &mut inputs, self.width, &self.combine, record)? {
            writer.put(store, record)?;
        }
        let run = writer.finish(store)?;
        self.runs.remove_first(taken);
        self.runs.push(run, "the number of sorted runs")
    }

    /// Ends the collection.
    pub(crate) fn finish<F: Nand, S: SecureStore>(
        mut self,
        store: &mut Store<F, S>,
    ) -> Result<Sorted<C>> {
        self.sort_area(store)?;
        if !self.runs.is_empty() {
            if self.count > 0 {
                self.spill(store)?;
            }
            while self.runs.len() > (store.arena.spare() + 2).saturating_sub(MERGE_SPARE).max(2) {
                self.merge_some(store)?;
            }
            prepare(store, &mut self.runs, self.width)?;
        }
        Ok(Sorted {
            sorter: self,
            read: 0,
        })
    }
}

impl<C: Combine> Sorted<C> {
    /// Whether everything fitted into memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.sorter.runs.is_empty()
    }

    /// Copies the next record to `out`; false at the end.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        if !self.is_in_memory() {
            let sorter = &mut self.sorter;
            return next_merged(store, &mut sorter.runs, sorter.width, &sorter.combine, out);
        }
        if self.read == self.sorter.count {
            return Ok(false);
        }
        let at = self.read * self.sorter.width;
        let area = store.arena.area(self.sorter.area);
        out.copy_from_slice(part(area, at, self.sorter.width));
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
    /// Begins at the log's end; leases a frame until it is finished.
    pub(crate) fn begin<F: Nand, S: SecureStore>(
        store: &mut Store<F, S>,
        width: usize,
    ) -> Result<Self> {
        let page = store.arena.lease(1)?;
        store.arena.area_mut(page).fill(0);
        Ok(Self {
            width,
            page,
            run: Run {
                first: store.temporary.pages,
                ..Run::default()
            },
            filled: 0,
        })
    }

    /// Adds a record.
    pub(crate) fn put<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &[u8],
    ) -> Result<()> {
        put(store.arena.area_mut(self.page), self.filled, record);
        self.turn(store)
    }

    /// Adds the record at `at` of an area.
    pub(crate) fn copy<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        from: Area,
        at: usize,
    ) -> Result<()> {
        store
            .arena
            .copy_within((from, at), (self.page, self.filled), self.width);
        self.turn(store)
    }

    fn turn<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        self.filled += self.width;
        self.run.records += 1;
        if self.filled + self.width > PAYLOAD_BYTES {
            self.flush(store)?;
        }
        Ok(())
    }

    fn flush<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        let mut log = store.temporary;
        let result = store.log_append(&mut log, ROLE_TEMPORARY, self.page, 0);
        store.temporary = log;
        result?;
        store.arena.area_mut(self.page).fill(0);
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left and returns the run.
    pub(crate) fn finish<F: Nand, S: SecureStore>(
        mut self,
        store: &mut Store<F, S>,
    ) -> Result<Run> {
        if self.filled > 0 {
            self.flush(store)?;
        }
        store.arena.release(self.page);
        Ok(self.run)
    }
}

impl Run {
    /// Records of the run.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Reads the next record of `out.len()` bytes; false at the end.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        let found = self.peek(store, out)?;
        if found {
            self.read += 1;
        }
        Ok(found)
    }

    fn peek<F: Nand, S: SecureStore>(
        &self,
        store: &mut Store<F, S>,
        out: &mut [u8],
    ) -> Result<bool> {
        if self.read >= self.records {
            return Ok(false);
        }
        let per_page = narrow(PAYLOAD_BYTES / out.len().max(1));
        let page = self.first + self.read / per_page;
        let frame = store.log_load(TEMPORARY, ROLE_TEMPORARY, page)?;
        let at = (self.read % per_page) as usize * out.len();
        out.copy_from_slice(part(store.arena.page(frame), at, out.len()));
        Ok(true)
    }
}

/// Reads the head of every run.
fn prepare<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    runs: &mut [Run],
    width: usize,
) -> Result<()> {
    let mut record = [0u8; PAYLOAD_BYTES];
    let record = record.get_mut(..width).unwrap_or(&mut []);
    for run in runs.iter_mut() {
        if run.peek(store, record)? {
            run.head = head_of(record);
        }
    }
    Ok(())
}

fn head_of(record: &[u8]) -> u64 {
    if let Some(head) = record.first_chunk::<8>() {
        u64::from_be_bytes(*head)
    } else {
        let mut head = [0u8; 8];
        put(&mut head, 0, record);
        u64::from_be_bytes(head)
    }
}

/// The run with the smallest next record.
fn smallest<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
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
        let less = match run.head.cmp(&other.head) {
            core::cmp::Ordering::Less => true,
            core::cmp::Ordering::Greater => false,
            core::cmp::Ordering::Equal => width > 8 && is_less(store, run, other, width)?,
        };
        if less {
            best = Some(number);
        }
    }
    Ok(best)
}

fn is_less<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    run: &Run,
    other: &Run,
    width: usize,
) -> Result<bool> {
    let mut first = [0u8; PAYLOAD_BYTES];
    let first = first.get_mut(..width).unwrap_or(&mut []);
    run.peek(store, first)?;
    let per_page = narrow(PAYLOAD_BYTES / width);
    let page = other.first + other.read / per_page;
    let frame = store.log_load(TEMPORARY, ROLE_TEMPORARY, page)?;
    let at = (other.read % per_page) as usize * width;
    Ok(&*first < part(store.arena.page(frame), at, width))
}

/// Takes the smallest record of `runs`, combined with all that have its key.
fn next_merged<F: Nand, S: SecureStore, C: Combine>(
    store: &mut Store<F, S>,
    runs: &mut [Run],
    width: usize,
    combine: &C,
    out: &mut [u8],
) -> Result<bool> {
    let Some(best) = smallest(store, runs, width)? else {
        return Ok(false);
    };
    take_record(store, runs, best, out)?;
    let Some(key) = combine.key_bytes() else {
        return Ok(true);
    };
    let mut other = [0u8; PAYLOAD_BYTES];
    let other = other.get_mut(..width).unwrap_or(&mut []);
    while let Some(next) = smallest(store, runs, width)? {
        let run = runs.get(next).copied().unwrap_or_default();
        if key >= 8 && run.head != head_of(out) {
            break;
        }
        run.peek(store, other)?;
        if part(other, 0, key) != part(out, 0, key) {
            break;
        }
        take_record(store, runs, next, other)?;
        combine.combine(out, other)?;
    }
    Ok(true)
}

fn take_record<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    runs: &mut [Run],
    number: usize,
    out: &mut [u8],
) -> Result<()> {
    let Some(run) = runs.get_mut(number) else {
        return Ok(());
    };
    run.next(store, out)?;
    let mut next = [0u8; PAYLOAD_BYTES];
    let next = next.get_mut(..out.len()).unwrap_or(&mut []);
    if run.peek(store, next)? {
        run.head = head_of(next);
    }
    Ok(())
}

/// Sorts records of `width` bytes by their bytes.
fn sort_records(bytes: &mut [u8], width: usize) {
    macro_rules! sort_widths {
        ($($width:literal)*) => {
            match width {
                $($width => bytes.as_chunks_mut::<$width>().0.sort_unstable(),)*
                _ => sort_any(bytes, width),
            }
        };
    }
    sort_widths!(4 8 12 14 16 18 20 22 24 28 32 36 40 48 56 64);
}

/// Heap sort, for widths that have no code of their own.
fn sort_any(bytes: &mut [u8], width: usize) {
    let count = bytes.len() / width.max(1);
    for start in (0..count / 2).rev() {
        sift_down(bytes, width, start, count);
    }
    for end in (1..count).rev() {
        swap(bytes, width, 0, end);
        sift_down(bytes, width, 0, end);
    }
}

fn sift_down(bytes: &mut [u8], width: usize, mut root: usize, end: usize) {
    let record =
        |bytes: &[u8], number: usize| number * width..(number * width + width).min(bytes.len());
    let less = |bytes: &[u8], a: usize, b: usize| {
        bytes.get(record(bytes, a)) < bytes.get(record(bytes, b))
    };
    loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && less(bytes, child, child + 1) {
            child += 1;
        }
        if !less(bytes, root, child) {
            return;
        }
        swap(bytes, width, root, child);
        root = child;
    }
}

fn swap(bytes: &mut [u8], width: usize, a: usize, b: usize) {
    let (low, high) = (a.min(b) * width, a.max(b) * width);
    if low == high || high + width > bytes.len() {
        return;
    }
    let (front, back) = bytes.split_at_mut(high);
    if let (Some(first), Some(second)) = (front.get_mut(low..low + width), back.get_mut(..width)) {
        first.swap_with_slice(second);
    }
}

/// The descending order of ids as ascending bytes.
pub(crate) fn descending(id: u32) -> [u8; 4] {
    (!id).to_be_bytes()
}

/// The id behind [`descending`].
pub(crate) fn ascending(bytes: &[u8]) -> u32 {
    !u32::from_be_bytes(take(bytes, 0))
}
