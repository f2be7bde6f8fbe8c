//! Candidates of a condition: descending ids of the root table, merged from indexes and lists.
//!
//! A stream contains every row that fulfils its test. It may contain others, because a value was
//! updated or the row still waits in the buffer. So its reader checks those again.

#![expect(
    clippy::indexing_slicing,
    reason = "a stream that is not there is a defect; an empty one in its place would leave rows out"
)]

use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, STREAMS_MAX};
use crate::pager::Pager;
use crate::pager::bytes::{part_mut, small};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::KeyHash;
use crate::pager::series::Series;
use crate::pager::sort::{Repeats, Run, RunWriter, Sorter, ascending, descending};
use crate::query::condition::{Comparison, Condition, Node, Test};
use crate::tables::base::{Base, rows_per_page};
use crate::tables::catalogue::{ID, OWN};
use crate::tables::change::Tables;
use crate::tables::id::{RowId, TableId};
use crate::tables::index::{Cursor, number_of, trimmed};
use crate::tables::keys::Listing;
use crate::tables::value::{Value, encode};

/// Greatest number of values of an `IN` list with a stream each; longer lists are checked row by
/// row.
const AMONG_MAX: usize = 8;
/// Reciprocal of the share of rows above which a range is checked row by row. Exempt are tests that
/// would read all of another table repeatedly.
const RANGE_SHARE: u32 = 4;
/// Bytes of memory of one list of ids.
pub(crate) const STREAM_BYTES: usize = size_of::<Stream>();
/// Number of frames for sorting the rows that updates add.
const SORT_FRAMES: usize = 2;

/// Ids from one index: first every waiting row, then rows in units and in the reorganised parts.
#[derive(Debug, Clone, Copy)]
struct FromIndex {
    number: u16,
    table: TableId,
    hash: KeyHash,
    below: u32,
    cursor: Option<Cursor>,
    listing: Listing,
}

#[derive(Debug, Clone, Copy, Default)]
enum Source {
    #[default]
    Nothing,
    Index(FromIndex),
    /// A sorted list of ids in the temporary log.
    Listed(Run),
    One(RowId),
    /// Every id from the first number down to the second, exclusive.
    Newer(u32, u32),
}

impl Source {
    fn of_index<F: Nand, S: SecureStore>(
        base: &mut Base<F, S>,
        index: usize,
        key: &[u8],
    ) -> Result<Self> {
        let entry = base.catalogue.index(index)?;
        let table = entry.table;
        Ok(Self::Index(FromIndex {
            number: number_of(index),
            table: entry.table,
            hash: base.pager.root.seal.hash(number_of(index), trimmed(key)),
            below: base.count(table).saturating_add(1),
            cursor: None,
            listing: Listing::of(base, index, key)?,
        }))
    }

    /// Returns the next id of a source.
    fn next<F: Nand, S: SecureStore>(&mut self, base: &mut Base<F, S>) -> Result<Option<RowId>> {
        match self {
            Self::Nothing => Ok(None),
            Self::One(id) => {
                let found = *id;
                *self = Self::Nothing;
                Ok((found.number() > 0).then_some(found))
            }
            Self::Newer(next, end) => {
                let found = (*next > *end).then_some(RowId::new(*next));
                *next = next.saturating_sub(1);
                Ok(found)
            }
            Self::Listed(run) => {
                let mut record = [0u8; 4];
                let found = run.next(&mut base.pager, &mut record)?;
                Ok(found.then(|| RowId::new(ascending(&record))))
            }
            Self::Index(from) => from.next(base),
        }
    }
}

impl FromIndex {
    fn next<F: Nand, S: SecureStore>(&mut self, base: &mut Base<F, S>) -> Result<Option<RowId>> {
        let cursor = if let Some(cursor) = &mut self.cursor {
            cursor
        } else {
            let rows = self.below - 1;
            if rows > base.settled(self.table) {
                self.below = rows;
                return Ok(Some(RowId::new(rows)));
            }
            let cursor = Cursor::new(base, usize::from(self.number), self.hash, rows)?;
            self.cursor.insert(cursor)
        };
        match cursor.next(base)? {
            Some(id) => Ok(Some(id)),
            None => self.listing.next(&mut base.pager),
        }
    }
}

/// A source with its next id.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    source: Source,
    /// The next id, once it is read.
    head: Option<RowId>,
    started: bool,
}

/// A node of the tree of streams.
#[derive(Debug, Clone, Copy, Default)]
enum Branch {
    /// Every id.
    #[default]
    Every,
    Stream(u8),
    And(u8, u8),
    Or(u8, u8),
}

/// The candidates of a condition.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    streams: Series<Stream, STREAMS_MAX>,
    branches: Series<Branch, { 2 * STREAMS_MAX }>,
    root: u8,
    /// The highest id not returned yet.
    bound: u32,
    /// `true` if streams answer the whole condition.
    pub(crate) exact: bool,
    /// The highest candidate that fulfils it for certain, if they do.
    pub(crate) sure: u32,
    /// Tests that an index answers, as a bit set, for EXPLAIN.
    pub(crate) answered: u32,
}

impl Candidates {
    /// Plans the streams for `condition` on rows of `table`.
    pub(crate) fn new<F: Nand, S: SecureStore>(
        tables: &mut Tables<F, S>,
        table: TableId,
        condition: &Condition<'_>,
    ) -> Result<Self> {
        tables.base.pager.waiting().clear_frames()?;
        let mut candidates = Self {
            bound: tables.base.count(table),
            exact: true,
            sure: tables.base.settled(table),
            ..Self::default()
        };
        let mut planner = Planner {
            tables,
            table,
            condition,
            candidates: &mut candidates,
        };
        candidates.root = match condition.root {
            Some(root) => planner.branch_of(root)?,
            None => candidates.add(Branch::Every)?,
        };
        Ok(candidates)
    }

    fn add(&mut self, branch: Branch) -> Result<u8> {
        self.branches.push(branch, "the length of a condition")?;
        Ok(small(self.branches.len() - 1))
    }

    fn add_stream(&mut self, source: Source) -> Result<u8> {
        let stream = Stream {
            source,
            ..Stream::default()
        };
        self.streams.push(stream, "the length of a condition")?;
        let number = small(self.streams.len() - 1);
        self.add(Branch::Stream(number))
    }

    fn branch(&self, number: u8) -> Branch {
        self.branches[usize::from(number)]
    }

    /// Returns the next candidate, in descending order.
    pub(crate) fn next<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
    ) -> Result<Option<RowId>> {
        if self.bound == 0 {
            return Ok(None);
        }
        let found = self.at_most(base, self.root, self.bound)?;
        self.bound = found.map_or(0, RowId::rank);
        Ok(found)
    }

    /// Returns the largest id of a branch that does not exceed `bound`.
    fn at_most<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
        branch: u8,
        bound: u32,
    ) -> Result<Option<RowId>> {
        match self.branch(branch) {
            Branch::Every => Ok((bound > 0).then_some(RowId::new(bound))),
            Branch::Stream(number) => {
                let stream = &mut self.streams[usize::from(number)];
                while !stream.started || stream.head.is_some_and(|id| !id.is_within(bound)) {
                    stream.head = stream.source.next(base)?;
                    stream.started = true;
                }
                Ok(stream.head)
            }
            Branch::Or(a, b) => {
                let first = self.at_most(base, a, bound)?;
                Ok(first.max(self.at_most(base, b, bound)?))
            }
            Branch::And(a, b) => {
                let mut bound = bound;
                loop {
                    let Some(first) = self.at_most(base, a, bound)? else {
                        return Ok(None);
                    };
                    match self.at_most(base, b, first.number())? {
                        Some(second) if second == first => return Ok(Some(first)),
                        Some(second) => bound = second.number(),
                        None => return Ok(None),
                    }
                }
            }
        }
    }
}

/// The choice of the streams for a condition on rows of a table.
struct Planner<'t, 'c, 'a, F: Nand, S: SecureStore> {
    tables: &'t mut Tables<F, S>,
    table: TableId,
    condition: &'c Condition<'a>,
    candidates: &'t mut Candidates,
}

impl<F: Nand, S: SecureStore> Planner<'_, '_, '_, F, S> {
    fn branch_of(&mut self, node: u16) -> Result<u8> {
        match self.condition.node(node) {
            Node::Always => self.candidates.add(Branch::Every),
            Node::Test(number) => {
                let branch = self.branch_of_test(number)?;
                if matches!(self.candidates.branch(branch), Branch::Every) {
                    self.candidates.exact = false;
                } else if u32::from(number) < u32::BITS {
                    self.candidates.answered |= 1 << number;
                }
                Ok(branch)
            }
            Node::And(a, b) => {
                let first = self.branch_of(a)?;
                let second = self.branch_of(b)?;
                match (
                    self.candidates.branch(first),
                    self.candidates.branch(second),
                ) {
                    (Branch::Every, _) => Ok(second),
                    (_, Branch::Every) => Ok(first),
                    _ => self.candidates.add(Branch::And(first, second)),
                }
            }
            Node::Or(a, b) => {
                let first = self.branch_of(a)?;
                let second = self.branch_of(b)?;
                match (
                    self.candidates.branch(first),
                    self.candidates.branch(second),
                ) {
                    (Branch::Every, _) => Ok(first),
                    (_, Branch::Every) => Ok(second),
                    _ => self.candidates.add(Branch::Or(first, second)),
                }
            }
        }
    }

    fn branch_of_test(&mut self, number: u16) -> Result<u8> {
        let test = self.condition.test(number);
        let values = self.condition.values_of(&test);
        let index =
            self.tables
                .base
                .catalogue
                .find_index(self.table, test.reach.slot, test.reach.column);
        let wanted = match test.comparison {
            Comparison::Equal => 1,
            Comparison::Among => values.len(),
            _ => {
                let found = match index {
                    Some(index) => self.branch_of_range(&test, index, values)?,
                    None => None,
                };
                return found.map_or_else(|| self.candidates.add(Branch::Every), Ok);
            }
        };
        let own_id = test.reach.slot == OWN && test.reach.column == ID;
        if (index.is_none() && !own_id) || wanted > AMONG_MAX {
            return self.candidates.add(Branch::Every);
        }
        let mut branch = None;
        for value in values.iter().take(wanted) {
            let next = self.branch_of_value(&test, index, value)?;
            branch = match branch {
                Some(before) => Some(self.candidates.add(Branch::Or(before, next))?),
                None => Some(next),
            };
        }
        match branch {
            Some(branch) => Ok(branch),
            None => self.candidates.add_stream(Source::Nothing),
        }
    }

    /// Adds the rows of the reorganised parts in a range, sorted, and every newer row.
    ///
    /// `None` if the test is no range, or reading row by row is better.
    fn branch_of_range(
        &mut self,
        test: &Test,
        index: usize,
        values: &[Value<'_>],
    ) -> Result<Option<u8>> {
        let rows = self.tables.base.part_rows(self.table);
        let (source, column) = (test.reach.table, test.reach.column);
        let updated = self.tables.summary.has_updates(source, column);
        if rows == 0 || updated || test.reach.column == ID {
            return Ok(None);
        }
        let (mut first, mut second) = ([0u8; KEY_BYTES_MAX], [0u8; KEY_BYTES_MAX]);
        let width = usize::from(test.reach.width);
        let first = part_mut(&mut first, 0, width);
        let second = part_mut(&mut second, 0, width);
        for (value, key) in values.iter().zip([&mut *first, &mut *second]) {
            if encode(value, key).is_err() {
                return Ok(None);
            }
        }
        let (low, high) = match test.comparison {
            Comparison::Less => (None, Some((&*first, false))),
            Comparison::LessOrEqual => (None, Some((&*first, true))),
            Comparison::Greater => (Some((&*first, false)), None),
            Comparison::GreaterOrEqual => (Some((&*first, true)), None),
            Comparison::Between => (Some((&*first, true)), Some((&*second, true))),
            _ => return Ok(None),
        };
        let mut listing = Listing::between(&mut self.tables.base, index, low, high)?;
        if listing.left() > rows / RANGE_SHARE && !self.is_scattered(test)? {
            return Ok(None);
        }
        let area = self
            .tables
            .base
            .pager
            .arena
            .lease((self.tables.base.pager.arena.spare() / 2).max(1))?;
        let mut sorter = Sorter::new(4, area, Repeats::Keep)?;
        while let Some(id) = listing.next(&mut self.tables.base.pager)? {
            sorter.push(&mut self.tables.base.pager, &descending(id.number()))?;
        }
        let listed = list_of(&mut self.tables.base.pager, &mut sorter)?;
        self.tables.base.pager.arena.release(area);
        // Newer rows are not looked up but checked.
        self.candidates.sure = rows;
        let newer = Source::Newer(self.tables.base.count(self.table), rows);
        let newer = self.candidates.add_stream(newer)?;
        match listed {
            Some(listed) => {
                let listed = self.candidates.add_stream(Source::Listed(listed))?;
                self.candidates.add(Branch::Or(newer, listed)).map(Some)
            }
            None => Ok(Some(newer)),
        }
    }

    /// Returns whether a test reads all of another table that has more pages than stay in memory.
    fn is_scattered(&self, test: &Test) -> Result<bool> {
        if test.reach.slot == OWN {
            return Ok(false);
        }
        let table = test.reach.table;
        let column = test.reach.column;
        let width = self
            .tables
            .base
            .catalogue
            .column_at(table, column)?
            .group_width;
        let pages = self.tables.base.count(table) / rows_per_page(usize::from(width));
        Ok(pages as usize > self.tables.base.pager.arena.cached())
    }

    /// Adds the rows that lead to `value`, and those that an update led there.
    fn branch_of_value(
        &mut self,
        test: &Test,
        index: Option<usize>,
        value: &Value<'_>,
    ) -> Result<u8> {
        let id_of = |value: &Value<'_>| match value {
            Value::Integer(number) => u32::try_from(*number).ok().map(RowId::new),
            _ => None,
        };
        let Some(index) = index else {
            let source = id_of(value).map_or(Source::Nothing, Source::One);
            return self.candidates.add_stream(source);
        };
        let mut key = [0u8; KEY_BYTES_MAX];
        let width = usize::from(test.reach.width);
        let key = part_mut(&mut key, 0, width);
        if test.reach.column == ID {
            let Some(id) = id_of(value) else {
                return self.candidates.add_stream(Source::Nothing);
            };
            let stream = Source::of_index(&mut self.tables.base, index, &id.to_le_bytes())?;
            return self.candidates.add_stream(stream);
        }
        // No row can have a value that the column cannot store.
        if encode(value, key).is_err() {
            return self.candidates.add_stream(Source::Nothing);
        }
        let stream = Source::of_index(&mut self.tables.base, index, key)?;
        let branch = self.candidates.add_stream(stream)?;
        let (source, column) = (test.reach.table, test.reach.column);
        if !self.tables.summary.has_updates(source, column) {
            return Ok(branch);
        }
        self.candidates.exact = false;
        match self.rows_updated_to(test, key)? {
            Some(added) => {
                let added = self.candidates.add_stream(Source::Listed(added))?;
                self.candidates.add(Branch::Or(branch, added))
            }
            None => Ok(branch),
        }
    }

    /// Returns the rows of `table` that lead to a row which an update set to `key`, sorted.
    fn rows_updated_to(&mut self, test: &Test, key: &[u8]) -> Result<Option<Run>> {
        let (target, column) = (test.reach.table, test.reach.column);
        let mut updates = self.tables.updates_to(target, column, key)?;
        let area = self
            .tables
            .base
            .pager
            .arena
            .lease(SORT_FRAMES.min(self.tables.base.pager.arena.spare()))?;
        let mut sorter = Sorter::new(4, area, Repeats::Drop(4))?;
        while let Some(update) = updates.next(&mut self.tables.base)? {
            if let Some(id) = self.tables.base.updated_row(update, target, column)? {
                self.push_leading_to(test.reach.slot, id, &mut sorter)?;
            }
        }
        let run = list_of(&mut self.tables.base.pager, &mut sorter)?;
        self.tables.base.pager.arena.release(area);
        Ok(run)
    }

    /// Adds the rows of `table` that lead to the row `id` of the table in `slot`.
    fn push_leading_to(&mut self, slot: u8, id: RowId, sorter: &mut Sorter<Repeats>) -> Result<()> {
        if slot == OWN {
            return Ok(sorter.push(&mut self.tables.base.pager, &descending(id.number()))?);
        }
        let missing = Error::Limit("the number of indexes");
        let index = self
            .tables
            .base
            .catalogue
            .find_index(self.table, slot, ID)
            .ok_or(missing)?;
        let mut source = Source::of_index(&mut self.tables.base, index, &id.to_le_bytes())?;
        while let Some(found) = source.next(&mut self.tables.base)? {
            sorter.push(&mut self.tables.base.pager, &descending(found.number()))?;
        }
        Ok(())
    }
}

/// Writes the sorted ids to a list; `None` if there are none.
fn list_of<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    sorter: &mut Sorter<Repeats>,
) -> Result<Option<Run>> {
    if sorter.pushed == 0 {
        return Ok(None);
    }
    sorter.finish(pager)?;
    let mut writer = RunWriter::begin(pager, 4)?;
    let mut record = [0u8; 4];
    while sorter.next(pager, &mut record)? {
        writer.put(pager, &record)?;
    }
    Ok(Some(writer.finish(pager)?))
}
