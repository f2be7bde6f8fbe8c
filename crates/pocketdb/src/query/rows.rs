//! The rows of a query: candidates are checked, their references followed, and their values
//! fetched.
//!
//! The work is done in chunks that fit into leased frames, one column at a time. So every page is
//! loaded once per chunk. A result larger than a chunk is fetched table by table, each in the
//! order of that table's ids. Sorting restores the result's own order.

use crate::error::Result;
use crate::limits::{COLUMNS_MAX, TABLES_MAX};
use crate::pager::Pager;
use crate::pager::arena::{Area, Arena};
use crate::pager::bytes::{part, part_mut, put, take};
use crate::pager::flash::Nand;
use crate::pager::list::List;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::series::Series;
use crate::pager::sort::{Repeats, Run, RunWriter, Sorter};
use crate::query::chunk::{Chunk, PAIR_BYTES, Reached};
use crate::query::select::{Select, Source};
use crate::query::sieve::Sieve;
use crate::query::stream::Candidates;
use crate::tables::catalogue::{ID, OWN};
use crate::tables::change::Tables;
use crate::tables::id::{ID_BYTES, RowId};
use crate::tables::value::encode_integer;

/// A receiver of rows in descending order of ids; it can end the query by returning `false`.
pub(crate) trait Rows<F: Nand, S: SecureStore> {
    /// Takes one row, number `row` of a chunk.
    ///
    /// # Errors
    /// Any error ends the statement.
    fn take(&mut self, pager: &mut Pager<F, S>, chunk: &Chunk, row: usize) -> Result<bool>;
}

/// The fetching of the rows of a query.
struct Fetch<'t, 'q, 'a, F: Nand, S: SecureStore> {
    tables: &'t mut Tables<F, S>,
    select: &'q Select<'a>,
    reached: &'q Reached,
}

/// Passes the values of every row of `candidates` that fulfils the condition to `rows`, in chunks
/// in `area`. It looks for at most `wanted` rows.
pub(crate) fn rows_of<F: Nand, S: SecureStore>(
    tables: &mut Tables<F, S>,
    select: &Select<'_>,
    candidates: &mut Candidates,
    area: Area,
    wanted: usize,
    rows: &mut impl Rows<F, S>,
) -> Result<()> {
    let reached = reached(tables, select, candidates)?;
    let mut fetch = Fetch {
        tables,
        select,
        reached: &reached,
    };
    let mut chunk = Chunk::new(area, fetch.reached.bytes(), fetch.select.row_bytes)?;
    fetch.fill(candidates, &mut chunk, wanted)?;
    let complete = chunk.count < chunk.room || chunk.count == wanted;
    if complete {
        fetch.fetch_chunk(&chunk)?;
        fetch.give(&chunk, rows)?;
        return Ok(());
    }
    if fetch
        .select
        .sources
        .iter()
        .all(|source| source.reach.slot == OWN || source.reach.column == ID)
    {
        // The rows' own order is the order of fetching.
        while chunk.count > 0 {
            fetch.fetch_chunk(&chunk)?;
            if !fetch.give(&chunk, rows)? {
                return Ok(());
            }
            fetch.fill(candidates, &mut chunk, usize::MAX)?;
        }
        return Ok(());
    }
    let list = fetch.list(candidates, &mut chunk, area)?;
    // The chunk's frames are used for sorting meanwhile.
    fetch.arena_mut().release(area);
    let mut columns = fetch.columns(list)?;
    let again = fetch.arena_mut().lease(area.frames())?;
    debug_assert_eq!(again, area, "the same frames come back");
    fetch.rows_of_list(&mut chunk, list, &mut columns, rows)
}

impl<F: Nand, S: SecureStore> Fetch<'_, '_, '_, F, S> {
    /// Fills `chunk` with the ids of the next rows that fulfil the condition.
    fn fill(
        &mut self,
        candidates: &mut Candidates,
        chunk: &mut Chunk,
        wanted: usize,
    ) -> Result<()> {
        let table = self.select.table;
        chunk.count = 0;
        while chunk.count < wanted.min(chunk.room) {
            let from = chunk.count;
            while chunk.count < wanted.min(chunk.room) {
                let Some(id) = candidates.next(&mut self.tables.base)? else {
                    break;
                };
                chunk.put(self.arena_mut(), chunk.count, 0, &id.to_le_bytes());
                chunk.count += 1;
            }
            if chunk.count == from {
                return Ok(());
            }
            // The ids of a join row are adjacent: they are read row by row, each page once.
            for row in from..chunk.count {
                let id = chunk.id(self.arena(), row, 0);
                for (number, slot) in self.reached.slots.iter().enumerate() {
                    let found = self.tables.base.join_id(table, id, usize::from(*slot))?;
                    chunk.put(
                        self.arena_mut(),
                        row,
                        ID_BYTES * (number + 1),
                        &found.to_le_bytes(),
                    );
                }
            }
            let sure = if candidates.exact { candidates.sure } else { 0 };
            let mut sieve = Sieve {
                tables: &mut *self.tables,
                table,
                condition: &self.select.condition,
                reached: self.reached,
                sure,
                required: self.select.condition.required(),
            };
            sieve.sift(chunk, from)?;
        }
        Ok(())
    }

    /// Writes the ids of all rows, from those of the present chunk on, to a list.
    #[inline(never)] // Keeps its local variables off the stack of the other stages.
    fn list(&mut self, candidates: &mut Candidates, chunk: &mut Chunk, area: Area) -> Result<Run> {
        let width = self.reached.bytes();
        let mut writer = RunWriter::begin(self.pager(), width)?;
        while chunk.count > 0 {
            for row in 0..chunk.count {
                writer.copy(self.pager(), area, chunk.at(row))?;
            }
            self.fill(candidates, chunk, usize::MAX)?;
        }
        Ok(writer.finish(self.pager())?)
    }

    /// Writes the values of each referenced table, one record for each row of `list`.
    #[inline(never)] // Keeps its local variables off the stack of the other stages.
    fn columns(&mut self, list: Run) -> Result<Series<Run, TABLES_MAX>> {
        let mut columns = Series::new();
        for &slot in self.reached.slots.iter() {
            let run = self.column_run(slot, list)?;
            columns.push(run, "the number of tables")?;
        }
        Ok(columns)
    }

    /// Passes on the rows of `ids`, whose values of other tables are in `columns`.
    #[inline(never)] // Keeps its local variables off the stack of the other stages.
    fn rows_of_list(
        &mut self,
        chunk: &mut Chunk,
        mut ids: Run,
        columns: &mut [Run],
        rows: &mut impl Rows<F, S>,
    ) -> Result<()> {
        loop {
            chunk.count = 0;
            while chunk.count < chunk.room {
                let mut record = Scratch::new(chunk.ids);
                if !ids.next(self.pager(), &mut record)? {
                    break;
                }
                chunk.put(self.arena_mut(), chunk.count, 0, &record);
                chunk.count += 1;
            }
            if chunk.count == 0 {
                return Ok(());
            }
            self.fetch_slot(chunk, OWN)?;
            for (&slot, run) in self.reached.slots.iter().zip(columns.iter_mut()) {
                self.take_column(chunk, slot, run)?;
            }
            if !self.give(chunk, rows)? {
                return Ok(());
            }
        }
    }

    /// Writes the values that a query needs of the table in `slot`, one record for each row of
    /// `list`.
    fn column_run(&mut self, slot: u8, mut list: Run) -> Result<Run> {
        let width = stored_bytes(self.select, slot);
        let at = self.reached.of(slot)?;
        if width == 0 {
            return Ok(Run::default());
        }
        let frames = (self.arena().spare().saturating_sub(4) / 2).max(1);
        let outer = self.lease_up_to(frames)?;
        let mut by_id = Sorter::new(PAIR_BYTES, outer, Repeats::Keep)?;
        let mut record = Scratch::new(self.reached.bytes());
        let mut rank = 0u32;
        while list.next(self.pager(), &mut record)? {
            let mut pair = [0u8; PAIR_BYTES];
            put(
                &mut pair,
                0,
                &RowId::from_le_bytes(take(&record, at)).to_be_bytes(),
            );
            put(&mut pair, 4, &rank.to_be_bytes());
            by_id.push(self.pager(), &pair)?;
            rank += 1;
        }
        by_id.finish(self.pager())?;
        let inner = self.lease_up_to(frames)?;
        let mut by_rank = Sorter::new(4 + width, inner, Repeats::Keep)?;
        let mut pair = [0u8; PAIR_BYTES];
        let mut entry = Scratch::record(4 + width)?;
        while by_id.next(self.pager(), &mut pair)? {
            let id = RowId::new(u32::from_be_bytes(take(&pair, 0)));
            put(&mut entry, 0, part(&pair, 4, 4));
            self.fetch_stored(slot, id, part_mut(&mut entry, 4, width))?;
            by_rank.push(self.pager(), &entry)?;
        }
        by_rank.finish(self.pager())?;
        let mut writer = RunWriter::begin(self.pager(), width)?;
        while by_rank.next(self.pager(), &mut entry)? {
            writer.put(self.pager(), part(&entry, 4, width))?;
        }
        let run = writer.finish(self.pager())?;
        self.arena_mut().release(inner);
        self.arena_mut().release(outer);
        Ok(run)
    }

    /// Copies the values of all stored sources of one table, concatenated.
    fn fetch_stored(&mut self, slot: u8, id: RowId, out: &mut [u8]) -> Result<()> {
        let mut at = 0;
        for source in self
            .select
            .sources
            .iter()
            .filter(|source| is_stored(**source, slot))
        {
            let width = usize::from(source.reach.width);
            source
                .reach
                .fetch(self.tables, id, part_mut(out, at, width))?;
            at += width;
        }
        Ok(())
    }

    /// Copies the next values of a column run into the rows of a chunk.
    fn take_column(&mut self, chunk: &Chunk, slot: u8, run: &mut Run) -> Result<()> {
        let width = stored_bytes(self.select, slot);
        let id_at = self.reached.of(slot)?;
        let mut record = Scratch::new(width);
        for row in 0..chunk.count {
            if width > 0 {
                run.take(self.pager(), &mut record)?;
            }
            let id = chunk.id(self.arena(), row, id_at);
            let mut at = 0;
            for source in self
                .select
                .sources
                .iter()
                .filter(|source| source.reach.slot == slot)
            {
                let place = chunk.ids + usize::from(source.at);
                if source.reach.column == ID {
                    chunk.put(
                        self.arena_mut(),
                        row,
                        place,
                        &encode_integer(i64::from(id.number())),
                    );
                } else {
                    let bytes = usize::from(source.reach.width);
                    chunk.put(self.arena_mut(), row, place, part(&record, at, bytes));
                    at += bytes;
                }
            }
        }
        Ok(())
    }

    /// Fetches all values of a chunk.
    fn fetch_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.fetch_slot(chunk, OWN)?;
        for &slot in self.reached.slots.iter() {
            self.fetch_slot(chunk, slot)?;
        }
        Ok(())
    }

    /// Fetches the values of one table for a chunk, in the order of that table's ids.
    fn fetch_slot(&mut self, chunk: &Chunk, slot: u8) -> Result<()> {
        let mut sources: List<u8, COLUMNS_MAX> = List::new();
        for (number, source) in (0u8..).zip(self.select.sources.iter()) {
            if source.reach.slot == slot {
                sources.push(number, "the number of columns of a query")?;
            }
        }
        let id_at = self.reached.of(slot)?;
        if sources.is_empty() {
            return Ok(());
        }
        for row in 0..chunk.count {
            let id = chunk.id(self.arena(), row, id_at);
            chunk.put_pair(self.arena_mut(), row, id, row);
        }
        chunk.sort_pairs(self.arena_mut(), chunk.count);
        for &number in sources.iter() {
            let Some(source) = self.select.sources.get(usize::from(number)).copied() else {
                continue;
            };
            let mut value = Scratch::new(usize::from(source.reach.width));
            for rank in 0..chunk.count {
                let (id, row) = chunk.pair(self.arena(), rank);
                source.reach.fetch(self.tables, id, &mut value)?;
                chunk.put(
                    self.arena_mut(),
                    row,
                    chunk.ids + usize::from(source.at),
                    &value,
                );
            }
        }
        Ok(())
    }

    fn lease_up_to(&mut self, frames: usize) -> Result<Area> {
        let spare = self.arena().spare();
        Ok(self.arena_mut().lease(frames.min(spare))?)
    }

    fn pager(&mut self) -> &mut Pager<F, S> {
        &mut self.tables.base.pager
    }

    fn arena(&self) -> &Arena {
        &self.tables.base.pager.arena
    }

    fn arena_mut(&mut self) -> &mut Arena {
        &mut self.tables.base.pager.arena
    }

    /// Passes on the rows of a chunk; returns `false` if no more are needed.
    fn give(&mut self, chunk: &Chunk, rows: &mut impl Rows<F, S>) -> Result<bool> {
        for row in 0..chunk.count {
            if !rows.take(self.pager(), chunk, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the slots whose ids a query needs.
fn reached<F: Nand, S: SecureStore>(
    tables: &Tables<F, S>,
    select: &Select<'_>,
    candidates: &Candidates,
) -> Result<Reached> {
    let mut reached = Reached::default();
    for source in select.sources.iter() {
        reached.add(source.reach.slot)?;
    }
    if !candidates.exact {
        for test in select.condition.tests.iter() {
            reached.add(test.reach.slot)?;
        }
    }
    for (number, slot) in (0u8..).zip(tables.base.catalogue.slots_of(select.table)) {
        if tables.summary.has_deletes(slot.table) {
            reached.add(number)?;
        }
    }
    Ok(reached)
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
