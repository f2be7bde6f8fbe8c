//! From the rows of a query to its result: groups, distinct rows, order and limit.

use crate::arena::Area;
use crate::bytes::{part, put};
use crate::error::Result;
use crate::flash::Nand;
use crate::query::aggregate::Grouping;
use crate::query::rows::Rows;
use crate::query::select::{Function, Row, Select, Sink};
use crate::query::stream::Candidates;
use crate::root::SecureStore;
use crate::scratch::Scratch;
use crate::sort::{Repeats, Sorter};
use crate::store::Store;
use crate::value::encode_integer;

/// Frames that no stage of a query takes: for pages, and for sorting while all stages wait.
const LEFT_FRAMES: usize = 4;

/// The stages that a query has.
struct Pipeline<'q, 'a, K: Sink> {
    select: &'q Select<'a>,
    groups: Option<Sorter<Grouping>>,
    /// Order and the dropping of repeated rows are one.
    order: Option<Sorter<Repeats>>,
    /// Rows still to be passed over, and still to be shown.
    skip: u64,
    left: u64,
    shown: u64,
    /// A row of the first stage, and one of the sorted result.
    row: Scratch,
    keyed: Scratch,
    sink: &'q mut K,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Runs a query and gives its rows to `sink`; returns how many.
    pub(crate) fn run_select(
        &mut self,
        select: &Select<'_>,
        candidates: &mut Candidates,
        sink: &mut impl Sink,
    ) -> Result<u64> {
        let ordered = select.distinct || !select.order.is_empty();
        let stages = usize::from(select.grouped) + usize::from(ordered);
        // Some frames keep pages and serve the sorting of large results.
        let spare = self.arena.spare();
        let share = (spare.saturating_sub(LEFT_FRAMES) * 2 / 3 / (stages + 1)).max(1);
        let mut groups = None;
        if select.grouped {
            groups = Some(group_sorter(select, self.arena.lease(share)?)?);
        }
        let row_bytes = groups
            .as_ref()
            .map_or(select.output_bytes, |groups: &Sorter<Grouping>| {
                groups.combine().record_bytes()
            });
        let mut order = None;
        if ordered {
            order = Some(order_sorter(select, self.arena.lease(share)?)?);
        }
        let mut pipeline = Pipeline {
            groups,
            order,
            select,
            skip: select.offset,
            left: select.limit.unwrap_or(u64::MAX),
            shown: 0,
            row: Scratch::record(row_bytes)?,
            keyed: Scratch::record(order_bytes(select) + select.output_bytes)?,
            sink,
        };
        let area = self.arena.lease(share)?;
        let mut wanted = usize::MAX;
        if stages == 0 {
            let rows = pipeline.left.saturating_add(pipeline.skip);
            wanted = usize::try_from(rows).unwrap_or(usize::MAX);
        }
        if wanted > 0 {
            self.rows_of(select, candidates, area, wanted, &mut pipeline)?;
        }
        self.arena.release(area);
        pipeline.finish(self)?;
        Ok(pipeline.shown)
    }
}

fn group_sorter(select: &Select<'_>, area: Area) -> Result<Sorter<Grouping>> {
    let grouping = Grouping::new(select)?;
    Sorter::new(grouping.record_bytes(), area, grouping)
}

fn order_sorter(select: &Select<'_>, area: Area) -> Result<Sorter<Repeats>> {
    let width = order_bytes(select) + select.output_bytes;
    let repeats = if select.distinct {
        Repeats::Drop(width)
    } else {
        Repeats::Keep
    };
    Sorter::new(width, area, repeats)
}

fn order_bytes(select: &Select<'_>) -> usize {
    let keys = select.order.iter();
    let widths = keys.filter_map(|key| select.outputs.get(usize::from(key.output)));
    widths.map(|output| usize::from(output.width)).sum()
}

impl<F: Nand, S: SecureStore, K: Sink> Rows<F, S> for Pipeline<'_, '_, K> {
    fn take(&mut self, store: &mut Store<F, S>, _id: u32, values: &[u8]) -> Result<bool> {
        let mut row = core::mem::take(&mut self.row);
        let more = self.take_into(store, values, &mut row);
        self.row = row;
        more
    }
}

impl<K: Sink> Pipeline<'_, '_, K> {
    /// Makes the record of the first stage in `record` and gives it on.
    fn take_into<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        values: &[u8],
        record: &mut [u8],
    ) -> Result<bool> {
        if let Some(groups) = &mut self.groups {
            groups.combine().begin(self.select, values, record);
            groups.push(store, record)?;
            return Ok(true);
        }
        for output in self.select.outputs.iter() {
            let value = output
                .source
                .map_or(&[][..], |number| self.select.source_bytes(number, values));
            put(record, usize::from(output.at), value);
        }
        self.after_groups(store, record)
    }

    fn after_groups<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &[u8],
    ) -> Result<bool> {
        let Some(order) = &mut self.order else {
            return self.show(record, false);
        };
        let keyed = &mut self.keyed;
        let mut at = 0;
        for key in self.select.order.iter() {
            let Some(output) = self.select.outputs.get(usize::from(key.output)) else {
                continue;
            };
            let width = usize::from(output.width);
            let value = part(record, usize::from(output.at), width);
            put(keyed, at, value);
            if key.descending {
                let copied = keyed.get_mut(at..at + width).unwrap_or(&mut []);
                for byte in copied {
                    *byte = !*byte;
                }
            }
            at += width;
        }
        put(keyed, at, record);
        order.push(store, keyed)?;
        Ok(true)
    }

    /// Shows a row unless it is passed over; false when no more are wanted.
    fn show(&mut self, record: &[u8], empty: bool) -> Result<bool> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
        let outputs = self.select.outputs.get(..self.select.shown).unwrap_or(&[]);
        self.sink.row(&Row {
            outputs,
            bytes: record,
            empty,
        })?;
        self.shown += 1;
        self.left -= 1;
        Ok(self.left > 0)
    }

    /// Lets every stage give what it holds to the next one.
    fn finish<F: Nand, S: SecureStore>(&mut self, store: &mut Store<F, S>) -> Result<()> {
        if let Some(groups) = self.groups.take() {
            let nothing = groups.pushed == 0;
            let mut sorted = groups.finish(store)?;
            let mut record = core::mem::take(&mut self.row);
            let mut output = Scratch::record(self.select.output_bytes)?;
            if nothing && self.select.groups.is_empty() {
                return self.show_nothing(&mut output);
            }
            while sorted.next(store, &mut record)? {
                sorted.combine().finish(self.select, &record, &mut output)?;
                if !self.after_groups(store, &output)? {
                    return Ok(());
                }
            }
        }
        if let Some(order) = self.order.take() {
            let mut sorted = order.finish(store)?;
            let keys = order_bytes(self.select);
            let mut record = core::mem::take(&mut self.keyed);
            while sorted.next(store, &mut record)? {
                if !self.show(record.get(keys..).unwrap_or(&[]), false)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The one row of aggregates over no rows.
    fn show_nothing(&mut self, output: &mut [u8]) -> Result<()> {
        for column in self.select.outputs.iter() {
            if column.function == Function::Count {
                put(output, usize::from(column.at), &encode_integer(0));
            }
        }
        self.show(output, true)?;
        Ok(())
    }
}
