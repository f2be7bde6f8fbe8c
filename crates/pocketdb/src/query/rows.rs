//! The rows of a query: candidates are checked, their references followed, and their values
//! fetched.
//!
//! The work is done in chunks that fit into leased frames, one column at a time. So every page is
//! loaded once per chunk. A result larger than a chunk is fetched table by table, each in the
//! order of that table's ids. Sorting restores the result's own order.

use crate::error::{Error, Result};
use crate::limits::{COLUMNS_MAX, TABLES_MAX};
use crate::pager::arena::Area;
use crate::pager::bytes::{narrow, part, part_mut, put, take};
use crate::pager::flash::Nand;
use crate::pager::list::List;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::series::Series;
use crate::pager::sort::{Repeats, Run, RunWriter, Sorter};
use crate::query::select::{Select, Source};
use crate::query::sieve::Sieve;
use crate::query::stream::Candidates;
use crate::tables::catalogue::{ID, OWN};
use crate::tables::change::Tables;
use crate::tables::id::{ID_BYTES, RowId};
use crate::tables::value::encode_integer;

/// Length of a pair that sorts a chunk into the order of a table, in bytes.
const PAIR_BYTES: usize = 8;
/// The id of a dropped row, which no row has.
const DROPPED: RowId = RowId::new(0);

/// The ids of a row in a chunk: the root's, then those of the listed slots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    slots: List<u8, TABLES_MAX>,
}

impl Reached {
    /// Adds a slot if it is not there.
    pub(crate) fn add(&mut self, slot: u8) -> Result<()> {
        if slot == OWN || self.slots.contains(&slot) {
            return Ok(());
        }
        Ok(self.slots.push(slot, "the number of tables")?)
    }

    /// Returns the length of a row's ids in bytes.
    fn bytes(&self) -> usize {
        ID_BYTES * (1 + self.slots.len())
    }

    /// Returns the position of the id of `slot`, which must be among them.
    ///
    /// # Errors
    /// It is not: the root's own id would be taken for that of a referenced row.
    fn of(&self, slot: u8) -> Result<usize> {
        self.at(slot)
            .ok_or(Error::Defect("a query reaches the slots that it reads"))
    }

    /// Returns the position of the id of `slot` among them.
    pub(crate) fn at(&self, slot: u8) -> Option<usize> {
        if slot == OWN {
            return Some(0);
        }
        let number = self.slots.iter().position(|&known| known == slot)?;
        Some(ID_BYTES * (number + 1))
    }
}

/// Rows in leased frames: ids and values of each, then the pairs for sorting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    area: Area,
    ids: usize,
    width: usize,
    room: usize,
    count: usize,
}

impl Chunk {
    /// Creates a chunk in `area` for rows with `ids` bytes of ids and `values` bytes of values.
    pub(crate) fn new(area: Area, ids: usize, values: usize) -> Result<Self> {
        let width = ids + values;
        let room = area.bytes() / (width + PAIR_BYTES);
        if room == 0 {
            return Err(Error::Limit("the width of a result row"));
        }
        Ok(Self {
            area,
            ids,
            width,
            room,
            count: 0,
        })
    }

    fn at(&self, row: usize) -> usize {
        row * self.width
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Keeps the first `count` rows.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = count;
    }

    /// Writes pair number `rank`: an id, and the row that references it.
    pub(crate) fn put_pair<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        rank: usize,
        id: RowId,
        row: usize,
    ) {
        let at = self.pairs_at() + rank * PAIR_BYTES;
        let area = tables.base.pager.arena.area_mut(self.area);
        put(area, at, &id.to_be_bytes());
        put(area, at + 4, &narrow(row).to_be_bytes());
    }

    /// Sorts the first `count` pairs by their ids.
    pub(crate) fn sort_pairs<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        count: usize,
    ) {
        let area = tables.base.pager.arena.area_mut(self.area);
        let pairs = part_mut(area, self.pairs_at(), count * PAIR_BYTES);
        pairs.as_chunks_mut::<PAIR_BYTES>().0.sort_unstable();
    }

    /// Returns the id and the row of a pair.
    pub(crate) fn pair<F: Nand, S: SecureStore>(
        &self,
        tables: &Tables<F, S>,
        rank: usize,
    ) -> (RowId, usize) {
        let at = self.pairs_at() + rank * PAIR_BYTES;
        let pair: [u8; PAIR_BYTES] = take(tables.base.pager.arena.area(self.area), at);
        let row = u32::from_be_bytes(take(&pair, 4));
        let id = RowId::new(u32::from_be_bytes(take(&pair, 0)));
        (id, row as usize)
    }

    /// Drops a row: sets its id to one that no row has.
    pub(crate) fn drop_row<F: Nand, S: SecureStore>(&self, tables: &mut Tables<F, S>, row: usize) {
        self.put(tables, row, 0, &DROPPED.to_le_bytes());
    }

    /// Returns whether a row was dropped.
    pub(crate) fn is_dropped<F: Nand, S: SecureStore>(
        &self,
        tables: &Tables<F, S>,
        row: usize,
    ) -> bool {
        self.id(tables, row, 0) == DROPPED
    }

    /// Copies the ids of one row over those of another.
    pub(crate) fn copy_ids<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        from: usize,
        to: usize,
    ) {
        let (from, to) = (self.at(from), self.at(to));
        let area = self.area;
        tables
            .base
            .pager
            .arena
            .copy_within((area, from), (area, to), self.ids);
    }

    fn pairs_at(&self) -> usize {
        self.room * self.width
    }

    /// Returns one of the ids of a row; the root's own is at 0.
    pub(crate) fn id<F: Nand, S: SecureStore>(
        &self,
        tables: &Tables<F, S>,
        row: usize,
        at: usize,
    ) -> RowId {
        let area = tables.base.pager.arena.area(self.area);
        RowId::from_le_bytes(take(area, self.at(row) + at))
    }

    fn put<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        row: usize,
        at: usize,
        bytes: &[u8],
    ) {
        put(
            tables.base.pager.arena.area_mut(self.area),
            self.at(row) + at,
            bytes,
        );
    }

    /// Returns the values of a row.
    pub(crate) fn values<'s, F: Nand, S: SecureStore>(
        &self,
        tables: &'s Tables<F, S>,
        row: usize,
    ) -> &'s [u8] {
        let at = self.at(row) + self.ids;
        part(
            tables.base.pager.arena.area(self.area),
            at,
            self.width - self.ids,
        )
    }
}

/// A receiver of rows in descending order of ids; it can end the query by returning `false`.
pub(crate) trait Rows<F: Nand, S: SecureStore> {
    /// Takes one row, number `row` of a chunk.
    ///
    /// # Errors
    /// Any error ends the statement.
    fn take(&mut self, tables: &mut Tables<F, S>, chunk: &Chunk, row: usize) -> Result<bool>;
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Fills `chunk` with the ids of the next rows that fulfil the condition.
    fn fill(
        &mut self,
        select: &Select<'_>,
        candidates: &mut Candidates,
        reached: &Reached,
        chunk: &mut Chunk,
        wanted: usize,
    ) -> Result<()> {
        let table = select.table;
        chunk.count = 0;
        while chunk.count < wanted.min(chunk.room) {
            let from = chunk.count;
            while chunk.count < wanted.min(chunk.room) {
                let Some(id) = candidates.next(self)? else {
                    break;
                };
                chunk.put(self, chunk.count, 0, &id.to_le_bytes());
                chunk.count += 1;
            }
            if chunk.count == from {
                return Ok(());
            }
            // The ids of a join row are adjacent: they are read row by row, each page once.
            for row in from..chunk.count {
                let id = chunk.id(self, row, 0);
                for (number, slot) in reached.slots.iter().enumerate() {
                    let found = self.base.join_id(table, id, usize::from(*slot))?;
                    chunk.put(self, row, ID_BYTES * (number + 1), &found.to_le_bytes());
                }
            }
            let sure = if candidates.exact { candidates.sure } else { 0 };
            let sieve = Sieve {
                table,
                condition: &select.condition,
                reached,
                sure,
                required: select.condition.required(),
            };
            self.sift(&sieve, chunk, from)?;
        }
        Ok(())
    }

    /// Returns the slots whose ids a query needs.
    fn reached(&self, select: &Select<'_>, candidates: &Candidates) -> Result<Reached> {
        let mut reached = Reached::default();
        for source in select.sources.iter() {
            reached.add(source.reach.slot)?;
        }
        if !candidates.exact {
            for test in select.condition.tests.iter() {
                reached.add(test.reach.slot)?;
            }
        }
        for (number, slot) in (0u8..).zip(self.base.catalogue.slots_of(select.table)) {
            if self.summary.has_deletes(slot.table) {
                reached.add(number)?;
            }
        }
        Ok(reached)
    }

    /// Passes the values of every row that fulfils the condition to `rows`, in chunks in `area`.
    ///
    /// It looks for at most `wanted` rows.
    pub(crate) fn rows_of(
        &mut self,
        select: &Select<'_>,
        candidates: &mut Candidates,
        area: Area,
        wanted: usize,
        rows: &mut impl Rows<F, S>,
    ) -> Result<()> {
        let reached = self.reached(select, candidates)?;
        let mut chunk = Chunk::new(area, reached.bytes(), select.row_bytes)?;
        self.fill(select, candidates, &reached, &mut chunk, wanted)?;
        let complete = chunk.count < chunk.room || chunk.count == wanted;
        if complete {
            self.fetch_chunk(select, &reached, &chunk)?;
            self.give(&chunk, rows)?;
            return Ok(());
        }
        if select
            .sources
            .iter()
            .all(|source| source.reach.slot == OWN || source.reach.column == ID)
        {
            // The rows' own order is the order of fetching.
            while chunk.count > 0 {
                self.fetch_chunk(select, &reached, &chunk)?;
                if !self.give(&chunk, rows)? {
                    return Ok(());
                }
                self.fill(select, candidates, &reached, &mut chunk, usize::MAX)?;
            }
            return Ok(());
        }
        let mut writer = RunWriter::begin(&mut self.base.pager, reached.bytes())?;
        while chunk.count > 0 {
            for row in 0..chunk.count {
                writer.copy(&mut self.base.pager, area, chunk.at(row))?;
            }
            self.fill(select, candidates, &reached, &mut chunk, usize::MAX)?;
        }
        let list = writer.finish(&mut self.base.pager)?;
        // The chunk's frames are used for sorting meanwhile.
        self.base.pager.arena.release(area);
        let mut columns: Series<Run, TABLES_MAX> = Series::new();
        for &slot in reached.slots.iter() {
            let run = self.column_run(select, &reached, slot, list)?;
            columns.push(run, "the number of tables")?;
        }
        let again = self.base.pager.arena.lease(area.frames())?;
        debug_assert_eq!(again, area, "the same frames come back");
        self.rows_of_list(select, &reached, &mut chunk, list, &mut columns, rows)
    }

    /// Passes on the rows of `ids`, whose values of other tables are in `columns`.
    #[inline(never)] // Keeps its local variables off the stack of the other stages.
    fn rows_of_list(
        &mut self,
        select: &Select<'_>,
        reached: &Reached,
        chunk: &mut Chunk,
        mut ids: Run,
        columns: &mut [Run],
        rows: &mut impl Rows<F, S>,
    ) -> Result<()> {
        loop {
            chunk.count = 0;
            while chunk.count < chunk.room {
                let mut record = Scratch::new(chunk.ids);
                if !ids.next(&mut self.base.pager, &mut record)? {
                    break;
                }
                chunk.put(self, chunk.count, 0, &record);
                chunk.count += 1;
            }
            if chunk.count == 0 {
                return Ok(());
            }
            self.fetch_slot(select, reached, chunk, OWN)?;
            for (&slot, run) in reached.slots.iter().zip(columns.iter_mut()) {
                self.take_column(select, reached, chunk, slot, run)?;
            }
            if !self.give(chunk, rows)? {
                return Ok(());
            }
        }
    }

    /// Writes the values that a query needs of the table in `slot`, one record for each row of
    /// `list`.
    fn column_run(
        &mut self,
        select: &Select<'_>,
        reached: &Reached,
        slot: u8,
        mut list: Run,
    ) -> Result<Run> {
        let width = stored_bytes(select, slot);
        let at = reached.of(slot)?;
        if width == 0 {
            return Ok(Run::default());
        }
        let frames = (self.base.pager.arena.spare().saturating_sub(4) / 2).max(1);
        let outer = self
            .base
            .pager
            .arena
            .lease(frames.min(self.base.pager.arena.spare()))?;
        let mut by_id = Sorter::new(PAIR_BYTES, outer, Repeats::Keep)?;
        let mut record = Scratch::new(reached.bytes());
        let mut rank = 0u32;
        while list.next(&mut self.base.pager, &mut record)? {
            let mut pair = [0u8; PAIR_BYTES];
            put(
                &mut pair,
                0,
                &RowId::from_le_bytes(take(&record, at)).to_be_bytes(),
            );
            put(&mut pair, 4, &rank.to_be_bytes());
            by_id.push(&mut self.base.pager, &pair)?;
            rank += 1;
        }
        by_id.finish(&mut self.base.pager)?;
        let inner = self
            .base
            .pager
            .arena
            .lease(frames.min(self.base.pager.arena.spare()))?;
        let mut by_rank = Sorter::new(4 + width, inner, Repeats::Keep)?;
        let mut pair = [0u8; PAIR_BYTES];
        let mut entry = Scratch::record(4 + width)?;
        while by_id.next(&mut self.base.pager, &mut pair)? {
            let id = RowId::new(u32::from_be_bytes(take(&pair, 0)));
            put(&mut entry, 0, part(&pair, 4, 4));
            self.fetch_stored(select, slot, id, part_mut(&mut entry, 4, width))?;
            by_rank.push(&mut self.base.pager, &entry)?;
        }
        by_rank.finish(&mut self.base.pager)?;
        let mut writer = RunWriter::begin(&mut self.base.pager, width)?;
        while by_rank.next(&mut self.base.pager, &mut entry)? {
            writer.put(&mut self.base.pager, part(&entry, 4, width))?;
        }
        let run = writer.finish(&mut self.base.pager)?;
        self.base.pager.arena.release(inner);
        self.base.pager.arena.release(outer);
        Ok(run)
    }

    /// Copies the values of all stored sources of one table, concatenated.
    fn fetch_stored(
        &mut self,
        select: &Select<'_>,
        slot: u8,
        id: RowId,
        out: &mut [u8],
    ) -> Result<()> {
        let mut at = 0;
        for source in select
            .sources
            .iter()
            .filter(|source| is_stored(**source, slot))
        {
            let width = usize::from(source.reach.width);
            self.fetch_value(source.reach, id, part_mut(out, at, width))?;
            at += width;
        }
        Ok(())
    }

    /// Copies the next values of a column run into the rows of a chunk.
    fn take_column(
        &mut self,
        select: &Select<'_>,
        reached: &Reached,
        chunk: &Chunk,
        slot: u8,
        run: &mut Run,
    ) -> Result<()> {
        let width = stored_bytes(select, slot);
        let id_at = reached.of(slot)?;
        let mut record = Scratch::new(width);
        for row in 0..chunk.count {
            if width > 0 {
                run.take(&mut self.base.pager, &mut record)?;
            }
            let id = chunk.id(self, row, id_at);
            let mut at = 0;
            for source in select
                .sources
                .iter()
                .filter(|source| source.reach.slot == slot)
            {
                let place = chunk.ids + usize::from(source.at);
                if source.reach.column == ID {
                    chunk.put(self, row, place, &encode_integer(i64::from(id.number())));
                } else {
                    let bytes = usize::from(source.reach.width);
                    chunk.put(self, row, place, part(&record, at, bytes));
                    at += bytes;
                }
            }
        }
        Ok(())
    }

    /// Fetches all values of a chunk.
    fn fetch_chunk(&mut self, select: &Select<'_>, reached: &Reached, chunk: &Chunk) -> Result<()> {
        self.fetch_slot(select, reached, chunk, OWN)?;
        for &slot in reached.slots.iter() {
            self.fetch_slot(select, reached, chunk, slot)?;
        }
        Ok(())
    }

    /// Fetches the values of one table for a chunk, in the order of that table's ids.
    fn fetch_slot(
        &mut self,
        select: &Select<'_>,
        reached: &Reached,
        chunk: &Chunk,
        slot: u8,
    ) -> Result<()> {
        let mut sources: List<u8, COLUMNS_MAX> = List::new();
        for (number, source) in (0u8..).zip(select.sources.iter()) {
            if source.reach.slot == slot {
                sources.push(number, "the number of columns of a query")?;
            }
        }
        let id_at = reached.of(slot)?;
        if sources.is_empty() {
            return Ok(());
        }
        for row in 0..chunk.count {
            let id = chunk.id(self, row, id_at);
            chunk.put_pair(self, row, id, row);
        }
        chunk.sort_pairs(self, chunk.count);
        for &number in sources.iter() {
            let Some(source) = select.sources.get(usize::from(number)).copied() else {
                continue;
            };
            let mut value = Scratch::new(usize::from(source.reach.width));
            for rank in 0..chunk.count {
                let (id, row) = chunk.pair(self, rank);
                self.fetch_value(source.reach, id, &mut value)?;
                chunk.put(self, row, chunk.ids + usize::from(source.at), &value);
            }
        }
        Ok(())
    }

    /// Passes on the rows of a chunk; returns `false` if no more are needed.
    fn give(&mut self, chunk: &Chunk, rows: &mut impl Rows<F, S>) -> Result<bool> {
        for row in 0..chunk.count {
            if !rows.take(self, chunk, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns whether a source is a stored value of the table in `slot`.
fn is_stored(source: Source, slot: u8) -> bool {
    source.reach.slot == slot && source.reach.column != ID
}

/// Returns the length of the stored values that a query needs of the table in `slot`.
fn stored_bytes(select: &Select<'_>, slot: u8) -> usize {
    let stored = select
        .sources
        .iter()
        .filter(|source| is_stored(**source, slot));
    stored.map(|source| usize::from(source.reach.width)).sum()
}
