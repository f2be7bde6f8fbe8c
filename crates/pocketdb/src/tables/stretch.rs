//! A cache of changed rows in a range of ids, filled by one pass over all deletes or updates.
//!
//! With many changes and little memory the summary has many false positives, and each costs a
//! search. Once such searches have cost as many reads as a pass, a pass is made. It finds the
//! changed rows nearest to the requested one, most of them in the direction of the last ranges. A
//! scan of a table then uses the cache up to the end of the range. Random access costs at most
//! twice as much as searches alone.

use alloc::vec::Vec;

use crate::error::Result;
use crate::limits::UNIT_ROWS;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::tables::catalogue::{DELETES, UPDATES};
use crate::tables::change::Tables;
use crate::tables::id::{RowId, TableId};
use crate::tables::rows::pages_for;

/// Greatest number of rows of a stretch.
const STRETCH_ROWS: usize = 48;
/// Bytes of memory of a stretch.
pub(crate) const STRETCH_BYTES: usize = STRETCH_ROWS * (size_of::<RowId>() + size_of::<u16>());
/// The first and the last number that an id can have.
const FIRST: RowId = RowId::new(0);
const LAST: RowId = RowId::new(u32::MAX);
/// Marks a change whose number is too large to be stored.
const FAR: u16 = u16::MAX;
/// Cost of one page read; a search of cached pages can cost less.
const READ: u32 = 16;
/// Reciprocal of the weight of the last search in the moving average of costs.
const SHARE: u32 = 8;
/// Weight of the distance of a row against the direction; in the direction it is 1.
const BEHIND: u64 = 4;

/// The kind of change of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Delete,
    Update,
}

impl Change {
    /// Returns the hidden table of its changes.
    fn table(self) -> TableId {
        match self {
            Self::Delete => DELETES,
            Self::Update => UPDATES,
        }
    }
}

/// The cached knowledge of a row's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    /// No change names the row.
    Unchanged,
    /// The number of the row's first delete, or of its last update.
    Changed(RowId),
}

/// The changed rows of one table between two ids.
#[derive(Debug)]
pub(crate) struct Stretch {
    change: Change,
    /// The table; `None` if nothing is cached.
    table: Option<TableId>,
    /// Table and id for which the last pass was made; no table before the first.
    center: (Option<TableId>, RowId),
    /// Weights of the distance of ids below and above that id.
    weights: [u64; 2],
    /// The first and the last id of the range.
    first: RowId,
    last: RowId,
    /// The changed rows in it, sorted.
    ids: Vec<RowId>,
    /// The number of each row's change, relative to `base`, the number of changes applied in all
    /// parts.
    numbers: Vec<u16>,
    base: u32,
    /// Moving average of the cost of a search; it is small if the pages stay in memory.
    search: u32,
    /// Cost of the searches outside the range, less what the cache has saved since.
    spent: u32,
    /// Cost that the cache has saved.
    saved: u32,
}

impl Stretch {
    /// Creates an empty cache.
    pub(crate) fn new(change: Change) -> Self {
        Self {
            change,
            table: None,
            center: (None, FIRST),
            weights: [1; 2],
            first: FIRST,
            last: FIRST,
            ids: Vec::with_capacity(STRETCH_ROWS),
            numbers: Vec::with_capacity(STRETCH_ROWS),
            base: 0,
            search: 0,
            spent: 0,
            saved: 0,
        }
    }

    /// Empties the cache.
    pub(crate) fn clear(&mut self) {
        self.table = None;
    }

    fn covers(&self, table: TableId, id: RowId) -> bool {
        self.table == Some(table) && (self.first..=self.last).contains(&id)
    }

    /// Empties the cache if the changed row is in its range.
    pub(crate) fn note_change(&mut self, table: TableId, id: RowId) {
        if self.covers(table, id) {
            self.clear();
        }
    }

    /// Returns the knowledge of a row; nothing outside the range.
    fn known(&self, table: TableId, id: RowId) -> Known {
        if !self.covers(table, id) {
            return Known::Nothing;
        }
        let Ok(at) = self.ids.binary_search(&id) else {
            return Known::Unchanged;
        };
        match self.numbers.get(at) {
            Some(&number) if number != FAR => {
                Known::Changed(RowId::new(self.base + u32::from(number)))
            }
            _ => Known::Nothing,
        }
    }

    /// Begins to collect the changed rows around `id`, with numbers relative to `base`.
    fn begin(&mut self, table: TableId, id: RowId, base: u32) {
        let (before_table, before) = self.center;
        // A scan that came from below goes on upwards: ids behind it count as farther away.
        self.weights = match id.cmp(&before) {
            core::cmp::Ordering::Less if before_table == Some(table) => [1, BEHIND],
            core::cmp::Ordering::Greater if before_table == Some(table) => [BEHIND, 1],
            _ => [1; 2],
        };
        self.center = (Some(table), id);
        self.table = None;
        // Without a changed row too many, the range is the whole table.
        (self.first, self.last) = (FIRST, LAST);
        self.ids.clear();
        self.numbers.clear();
        (self.base, self.spent, self.saved) = (base, 0, 0);
    }

    /// Returns whether a pass of cost `pass` pays off for a row outside the range. Either searches
    /// have cost as much, or the last pass has saved as much and its end is reached.
    fn pays(&self, pass: u32, table: TableId) -> bool {
        self.spent >= pass || self.saved >= pass && self.center.0 == Some(table)
    }

    fn distance(&self, id: RowId) -> u64 {
        let [below, above] = self.weights;
        let weight = if id < self.center.1 { below } else { above };
        u64::from(id.number().abs_diff(self.center.1.number())) * weight
    }

    /// Adds a changed row; if there are too many, the farthest one limits the range.
    fn add(&mut self, id: RowId, change: RowId) {
        if !(self.first..=self.last).contains(&id) {
            return;
        }
        // A number too far from the base is left to a search.
        let number = u16::try_from(change.number() - self.base).unwrap_or(FAR);
        let mut at = match self.ids.binary_search(&id) {
            Ok(at) => {
                // A row has one delete that counts, the first, and one update, the last.
                if self.change == Change::Update
                    && let Some(known) = self.numbers.get_mut(at)
                {
                    *known = number;
                }
                return;
            }
            Err(at) => at,
        };
        if self.ids.len() == STRETCH_ROWS {
            let lowest = self.ids.first().map_or(id, |&lowest| lowest.min(id));
            let highest = self.ids.last().map_or(id, |&highest| highest.max(id));
            // One of both ends goes, and the range ends before it: it may have more changes.
            let below = self.distance(lowest) > self.distance(highest);
            let farthest = if below { lowest } else { highest };
            if below {
                self.first = RowId::after(farthest.number());
            } else {
                self.last = RowId::new(farthest.number().saturating_sub(1));
            }
            if farthest == id {
                return;
            }
            let place = if below { 0 } else { STRETCH_ROWS - 1 };
            self.ids.remove(place);
            self.numbers.remove(place);
            at -= usize::from(below);
        }
        self.ids.insert(at, id);
        self.numbers.insert(at, number);
    }
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Returns the cached knowledge of a row's changes; makes a pass over all changes first if that
    /// pays off.
    pub(crate) fn known_change(
        &mut self,
        change: Change,
        table: TableId,
        id: RowId,
    ) -> Result<Known> {
        let pass = self.pass_cost(change);
        let stretch = self.summary.stretch(change);
        if stretch.covers(table, id) {
            // Costs are estimates, and a bound on them is none on correctness: they saturate.
            stretch.spent = stretch.spent.saturating_sub(stretch.search);
            stretch.saved = stretch.saved.saturating_add(stretch.search);
        } else if stretch.pays(pass, table) {
            self.read_stretch(change, table, id)?;
        }
        Ok(self.summary.stretch(change).known(table, id))
    }

    /// Records the cost of a search for changes of a row; `reads` is the read count before it.
    pub(crate) fn note_search(
        &mut self,
        change: Change,
        (table, id): (TableId, RowId),
        reads: u64,
    ) {
        let cost = self
            .base
            .pager
            .flash
            .counters()
            .page_reads
            .saturating_sub(reads);
        let cost = u32::try_from(cost).unwrap_or(u32::MAX).saturating_mul(READ);
        let stretch = self.summary.stretch(change);
        let before = stretch.search - stretch.search / SHARE;
        stretch.search = before.saturating_add(cost / SHARE);
        if !stretch.covers(table, id) {
            stretch.spent = stretch.spent.saturating_add(cost);
        }
    }

    /// Estimates the cost of a pass over all deletes or updates.
    fn pass_cost(&self, change: Change) -> u32 {
        let table = change.table();
        let rows = self
            .base
            .count(table)
            .saturating_sub(self.base.dropped(table));
        let width = self.base.catalogue.widths(table).0;
        rows.div_ceil(UNIT_ROWS)
            .saturating_mul(pages_for(width) * READ)
    }

    #[inline(never)] // Keeps its local variables off the stack of a search.
    fn read_stretch(&mut self, change: Change, table: TableId, id: RowId) -> Result<()> {
        let hidden = change.table();
        let base = self.base.dropped(hidden);
        self.summary.stretch(change).begin(table, id, base);
        for number in RowId::between(base, self.base.count(hidden)) {
            let (found, row) = match change {
                Change::Delete => self.base.deleted_row(number)?,
                Change::Update => {
                    let (found, _, row) = self.base.updated_place(number)?;
                    (found, row)
                }
            };
            if found == table {
                self.summary.stretch(change).add(row, number);
            }
        }
        self.summary.stretch(change).table = Some(table);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TABLE: TableId = TableId::new(3);
    const OTHER: TableId = TableId::new(2);

    /// Creates a stretch of [`TABLE`] around `id`, after one around `before`, with all of `changed`
    /// added.
    fn stretch_of(change: Change, changed: &[u32], before: u32, id: u32) -> Stretch {
        let mut stretch = Stretch::new(change);
        stretch.begin(TABLE, RowId::new(before), 0);
        stretch.begin(TABLE, RowId::new(id), 100);
        for (&row, number) in changed.iter().zip(101..) {
            stretch.add(RowId::new(row), RowId::new(number));
        }
        stretch.table = Some(TABLE);
        stretch
    }

    #[test]
    fn a_stretch_tells_exactly_which_rows_changed_as_far_as_it_goes() {
        for count in [0, 1, 63, 64, 65, 200, 1_000] {
            // The rows are unordered, and some are repeated.
            let rows: Vec<u32> = (0..count).map(|n: u32| n * 7_919 % 9_973 + 1).collect();
            let rows: Vec<u32> = rows.iter().chain(rows.iter().take(9)).copied().collect();
            for change in [Change::Delete, Change::Update] {
                let mut numbers = BTreeMap::new();
                for (&row, number) in rows.iter().zip(101..) {
                    let kept = numbers.entry(row).or_insert(number);
                    if change == Change::Update {
                        *kept = number;
                    }
                }
                for (before, id) in [
                    (0, 1),
                    (0, 9_973),
                    (9_973, 9_972),
                    (4_000, 5_000),
                    (5_000, 4_000),
                ] {
                    let stretch = stretch_of(change, &rows, before, id);
                    let center = RowId::new(id);
                    assert!(stretch.covers(TABLE, center) && !stretch.covers(OTHER, center));
                    let mut found = 0;
                    let rows = RowId::between(0, 10_000);
                    for row in rows.filter(|&row| stretch.covers(TABLE, row)) {
                        let expected = numbers.get(&row.number()).copied();
                        found += usize::from(expected.is_some());
                        let expected = expected.map(RowId::new);
                        let expected = expected.map_or(Known::Unchanged, Known::Changed);
                        assert_eq!(
                            stretch.known(TABLE, row),
                            expected,
                            "{row} of {count} at {id}"
                        );
                    }
                    assert_eq!(found, numbers.len().min(STRETCH_ROWS));
                    assert_eq!(stretch.ids.capacity(), STRETCH_ROWS);
                }
            }
        }
    }

    #[test]
    fn most_of_a_stretch_lies_in_the_direction_of_the_stretches_before() {
        let rows: Vec<u32> = (0..2_000).map(|n| n * 5).collect();
        for (before, id) in [(4_000, 5_000), (6_000, 5_000)] {
            let stretch = stretch_of(Change::Update, &rows, before, id);
            let (first, last) = (stretch.first.number(), stretch.last.number());
            let (below, above) = (id - first, last - id);
            let (ahead, behind) = if before < id {
                (above, below)
            } else {
                (below, above)
            };
            assert!(behind > 30 && ahead > 3 * behind, "{ahead} {behind}");
        }
    }

    #[test]
    fn a_row_that_changes_within_a_stretch_ends_it() {
        let mut stretch = stretch_of(Change::Delete, &[5, 9], 0, 1);
        let row = RowId::new(7);
        stretch.note_change(OTHER, row);
        assert_eq!(stretch.known(TABLE, row), Known::Unchanged);
        stretch.note_change(TABLE, row);
        assert_eq!(stretch.known(TABLE, row), Known::Nothing);
    }

    #[test]
    fn a_change_with_too_large_a_number_is_left_to_a_search() {
        let mut stretch = stretch_of(Change::Delete, &[5], 0, 1);
        let (near, far) = (RowId::new(5), RowId::new(9));
        stretch.add(far, RowId::new(100 + u32::from(FAR)));
        assert_eq!(stretch.known(TABLE, near), Known::Changed(RowId::new(101)));
        assert_eq!(stretch.known(TABLE, far), Known::Nothing);
    }
}
