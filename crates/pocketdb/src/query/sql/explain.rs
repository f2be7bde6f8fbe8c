//! `EXPLAIN`: runs the query, drops its rows, and reports its cost.

use alloc::string::String;

use crate::error::Result;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::sort::Effort;
use crate::query::condition::Reach;
use crate::query::pipeline::run_select;
use crate::query::select::{Function, Heading, Output, Row, Sink};
use crate::query::sql::Statement;
use crate::query::sql::select::Query;
use crate::query::stream::Candidates;
use crate::tables::catalogue::{Catalogue, ID, OWN};
use crate::tables::value::ValueType;

/// Width of a line in bytes.
const LINE_BYTES: u16 = 200;

/// A receiver that drops the rows of a query.
struct Nowhere;

impl Sink for Nowhere {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _row: &Row<'_>) -> Result<()> {
        Ok(())
    }
}

impl<F: Nand, S: SecureStore> Statement<'_, F, S> {
    /// Runs `query` and passes a report to `sink`; returns the number of lines.
    #[inline(never)] // Keeps its local variables off the stack of the other statements.
    pub(super) fn run_explain(&mut self, query: &Query<'_>, sink: &mut impl Sink) -> Result<u64> {
        self.check_memory(query.memory_bytes())?;
        let select = &query.select;
        let before = self.store.counters();
        self.store.tables.base.pager.effort = Effort::default();
        let mut candidates =
            Candidates::new(&mut self.store.tables, select.table, &select.condition)?;
        let answered = candidates.answered;
        let rows = run_select(
            &mut self.store.tables,
            select,
            &mut candidates,
            &mut Nowhere,
        )?;
        let (after, effort) = (self.store.counters(), self.store.tables.base.pager.effort);
        sink.begin(&[Heading {
            name: "explanation",
            kind: ValueType::Text,
        }])?;
        let mut lines = 1;
        let root = self.store.tables.base.catalogue.table_name(select.table);
        let count = self.store.tables.base.count(select.table);
        line(sink, &alloc::format!("root {root}, {count} rows"))?;
        for (number, test) in select.condition.tests.iter().enumerate() {
            lines += 1;
            let (table, column) = names(&self.store.tables.base.catalogue, test.reach);
            let text = alloc::format!("{table}.{column} {}", test.comparison.name());
            let how = if answered >> number & 1 == 1 {
                match test.reach.slot {
                    OWN if test.reach.column == ID => String::from("by position"),
                    _ => alloc::format!("by index {table}.{column} -> {root}"),
                }
            } else {
                String::from("row by row")
            };
            line(sink, &alloc::format!("{text}: {how}"))?;
        }
        let (runs, merges) = (effort.runs, effort.merges);
        let (flash, was) = (after.flash, before.flash);
        for text in [
            alloc::format!("result {rows} rows"),
            alloc::format!("sorting {runs} runs on flash, {merges} passes to merge some of them"),
            alloc::format!(
                "flash {} page reads, {} programs, {} erases",
                flash.page_reads - was.page_reads,
                flash.programs - was.programs,
                flash.erases - was.erases
            ),
            alloc::format!(
                "cipher {} blocks, codes {}, tags {}",
                after.cipher.cipher_blocks - before.cipher.cipher_blocks,
                after.cipher.mac_blocks - before.cipher.mac_blocks,
                after.cipher.tag_blocks - before.cipher.tag_blocks
            ),
        ] {
            line(sink, &text)?;
            lines += 1;
        }
        Ok(lines)
    }
}

/// Returns the names of a column and its table.
fn names(catalogue: &Catalogue, reach: Reach) -> (&str, &str) {
    let table = reach.table;
    let column = match reach.column {
        ID => "id",
        column => catalogue.column_name(table, column),
    };
    (catalogue.table_name(table), column)
}

/// Shows one line.
fn line(sink: &mut impl Sink, text: &str) -> Result<()> {
    let output = Output {
        function: Function::Value,
        source: None,
        kind: ValueType::Text,
        at: 0,
        width: LINE_BYTES,
    };
    let mut end = text.len().min(usize::from(LINE_BYTES));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0u8; LINE_BYTES as usize];
    crate::pager::bytes::put(&mut bytes, 0, text.get(..end).unwrap_or("").as_bytes());
    sink.row(&Row {
        outputs: &[output],
        bytes: &bytes,
        empty: false,
    })
}
