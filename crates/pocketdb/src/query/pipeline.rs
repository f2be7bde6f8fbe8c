//! The stages from the rows of a query to its result: groups, distinct rows, order and limit.

use crate::error::Result;
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{part, part_mut, put};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::sort::{Repeats, Sorter};
use crate::query::aggregate::Grouping;
use crate::query::chunk::Chunk;
use crate::query::rows::{Rows, rows_of};
use crate::query::select::{Function, Row, Select, Sink};
use crate::query::stream::Candidates;
use crate::tables::change::Tables;
use crate::tables::value::encode_integer;

/// Number of frames that no stage takes: for pages, and for sorting while all stages are active.
const LEFT_FRAMES: usize = 4;

/// The stages of a query.
struct Pipeline<'q, 'a, K: Sink> {
    select: &'q Select<'a>,
    groups: Option<Sorter<Grouping>>,
    /// Sorts, and drops repeated rows, in one stage.
    order: Option<Sorter<Repeats>>,
    /// Number of rows still to be skipped, and still to be shown.
    skip: u64,
    left: u64,
    shown: u64,
    /// The record of a group.
    group: Scratch,
    /// A row of the result after its sort key.
    keyed: Scratch,
    sink: &'q mut K,
}

/// Runs a query and passes its rows to `sink`; returns their number.
pub(crate) fn run_select<F: Nand, S: SecureStore>(
    tables: &mut Tables<F, S>,
    select: &Select<'_>,
    candidates: &mut Candidates,
    sink: &mut impl Sink,
) -> Result<u64> {
    let mut pipeline = Pipeline {
        select,
        groups: None,
        order: None,
        skip: select.offset,
        left: select.limit.unwrap_or(u64::MAX),
        shown: 0,
        group: Scratch::default(),
        keyed: Scratch::default(),
        sink,
    };
    let share = pipeline.begin(&mut tables.base.pager)?;
    let area = tables.base.pager.arena.lease(share)?;
    let mut wanted = usize::MAX;
    if pipeline.groups.is_none() && pipeline.order.is_none() {
        let rows = pipeline.left.saturating_add(pipeline.skip);
        wanted = usize::try_from(rows).unwrap_or(usize::MAX);
    }
    if wanted > 0 {
        rows_of(tables, select, candidates, area, wanted, &mut pipeline)?;
    }
    tables.base.pager.arena.release(area);
    pipeline.finish(&mut tables.base.pager)?;
    Ok(pipeline.shown)
}

fn group_sorter(select: &Select<'_>, area: Area) -> Result<Sorter<Grouping>> {
    let grouping = Grouping::new(select)?;
    Ok(Sorter::new(grouping.record_bytes(), area, grouping)?)
}

fn order_sorter(select: &Select<'_>, area: Area) -> Result<Sorter<Repeats>> {
    let width = select.order_bytes() + select.output_bytes;
    let repeats = if select.distinct {
        Repeats::Drop(width)
    } else {
        Repeats::Keep
    };
    Ok(Sorter::new(width, area, repeats)?)
}

impl<F: Nand, S: SecureStore, K: Sink> Rows<F, S> for Pipeline<'_, '_, K> {
    fn take(&mut self, pager: &mut Pager<F, S>, chunk: &Chunk, row: usize) -> Result<bool> {
        if let Some(groups) = &mut self.groups {
            let values = chunk.values(&pager.arena, row);
            groups
                .combine()
                .begin(self.select, values, &mut self.group)?;
            groups.push(pager, &self.group)?;
            return Ok(true);
        }
        let values = chunk.values(&pager.arena, row);
        let shown = self.select.order_bytes();
        for output in self.select.outputs.iter() {
            // Without groups each output has a source.
            let value = match output.source {
                Some(number) => self.select.source_bytes(number, values)?,
                None => &[],
            };
            put(&mut self.keyed, shown + usize::from(output.at), value);
        }
        self.after_groups(pager)
    }
}

impl<K: Sink> Pipeline<'_, '_, K> {
    /// Creates the stages; returns the number of frames of each.
    #[inline(never)] // Keeps the moved values off the stack of the query.
    fn begin<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<usize> {
        let select = self.select;
        let ordered = select.distinct || !select.order.is_empty();
        let stages = usize::from(select.grouped) + usize::from(ordered);
        // Some frames stay for pages and for sorting large results.
        let spare = pager.arena.spare();
        let share = (spare.saturating_sub(LEFT_FRAMES) * 2 / 3 / (stages + 1)).max(1);
        if select.grouped {
            let groups = group_sorter(select, pager.arena.lease(share)?)?;
            self.group = Scratch::record(groups.combine().record_bytes())?;
            self.groups = Some(groups);
        }
        if ordered {
            self.order = Some(order_sorter(select, pager.arena.lease(share)?)?);
        }
        self.keyed = Scratch::record(select.order_bytes() + select.output_bytes)?;
        Ok(share)
    }

    /// Passes the current row of the result to the next stage.
    fn after_groups<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<bool> {
        if self.order.is_none() {
            return self.show_keyed(false);
        }
        let (keys, row) = self.keyed.split_at_mut(self.select.order_bytes());
        let mut at = 0;
        for key in self.select.order.iter() {
            let output = self.select.output(key.output)?;
            let width = usize::from(output.width);
            put(keys, at, part(row, usize::from(output.at), width));
            if key.descending {
                for byte in part_mut(keys, at, width) {
                    *byte = !*byte;
                }
            }
            at += width;
        }
        if let Some(order) = &mut self.order {
            order.push(pager, &self.keyed)?;
        }
        Ok(true)
    }

    /// Shows the current row of the result.
    fn show_keyed(&mut self, empty: bool) -> Result<bool> {
        let keyed = core::mem::take(&mut self.keyed);
        let (_, row) = keyed.split_at(self.select.order_bytes());
        let more = self.show(row, empty);
        self.keyed = keyed;
        more
    }

    /// Shows a row unless it is skipped; returns `false` if no more rows are needed.
    fn show(&mut self, record: &[u8], empty: bool) -> Result<bool> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
        let (outputs, _) = self.select.outputs.split_at(self.select.shown);
        self.sink.row(&Row {
            outputs,
            bytes: record,
            empty,
        })?;
        self.shown += 1;
        self.left -= 1;
        Ok(self.left > 0)
    }

    /// Passes the content of every stage to the next one.
    #[inline(never)] // Keeps its local variables off the stack of the other stages.
    fn finish<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        if let Some(mut groups) = self.groups.take() {
            let nothing = groups.pushed == 0;
            groups.finish(pager)?;
            if nothing && self.select.groups.is_empty() {
                return self.show_nothing();
            }
            while groups.next(pager, &mut self.group)? {
                let (_, row) = self.keyed.split_at_mut(self.select.order_bytes());
                groups.combine().finish(self.select, &self.group, row)?;
                if !self.after_groups(pager)? {
                    return Ok(());
                }
            }
        }
        if let Some(mut order) = self.order.take() {
            order.finish(pager)?;
            while order.next(pager, &mut self.keyed)? {
                if !self.show_keyed(false)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Shows the only row of aggregates over no rows.
    fn show_nothing(&mut self) -> Result<()> {
        let (_, row) = self.keyed.split_at_mut(self.select.order_bytes());
        row.fill(0);
        for column in self.select.outputs.iter() {
            if column.function == Function::Count {
                put(row, usize::from(column.at), &encode_integer(0));
            }
        }
        self.show_keyed(true)?;
        Ok(())
    }
}
