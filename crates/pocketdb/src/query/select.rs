//! A query bound to the catalogue: columns to read, functions of them, and the order of the result.

use crate::error::{Error, Result};
use crate::limits::{KEYS_MAX, OUTPUTS_MAX, STREAMS_MAX};
use crate::pager::bytes::{part, small};
use crate::pager::list::List;
use crate::pager::series::Series;
use crate::query::condition::{Condition, Reach};
use crate::query::stream::STREAM_BYTES;
use crate::tables::id::TableId;
use crate::tables::value::{NUMBER_BYTES, Value, ValueType, decode, decode_integer};

/// The function of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Function {
    /// The value itself.
    #[default]
    Value,
    Count,
    Sum,
    Minimum,
    Maximum,
    Average,
}

/// A column that is read for every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) reach: Reach,
    /// Offset of its value among the values of a row.
    pub(crate) at: u16,
}

/// A column of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) function: Function,
    /// The source; `None` for `COUNT(*)`.
    pub(crate) source: Option<u8>,
    pub(crate) kind: ValueType,
    /// Offset of its value in a row of the result, and its length.
    pub(crate) at: u16,
    pub(crate) width: u16,
}

/// A column of the result to order by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Key {
    pub(crate) output: u8,
    pub(crate) descending: bool,
}

/// A bound query.
#[derive(Debug)]
pub(crate) struct Select<'a> {
    /// The table that references all others of the query.
    pub(crate) table: TableId,
    pub(crate) condition: Condition<'a>,
    pub(crate) sources: Series<Source, OUTPUTS_MAX>,
    /// Length of the values of a row.
    pub(crate) row_bytes: usize,
    pub(crate) outputs: Series<Output, OUTPUTS_MAX>,
    /// Number of outputs that are shown; the others are for ordering.
    pub(crate) shown: usize,
    /// Bytes of a row of the result.
    pub(crate) output_bytes: usize,
    /// Sources to group by.
    pub(crate) groups: List<u8, KEYS_MAX>,
    /// `true` if the result has one row for each group.
    pub(crate) grouped: bool,
    pub(crate) order: List<Key, KEYS_MAX>,
    pub(crate) distinct: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) offset: u64,
}

impl Select<'_> {
    /// Creates a query of `table` and of those that it references, without columns yet.
    pub(crate) fn new(table: TableId) -> Self {
        Self {
            table,
            condition: Condition::default(),
            sources: Series::new(),
            row_bytes: 0,
            outputs: Series::new(),
            shown: 0,
            output_bytes: 0,
            groups: List::new(),
            grouped: false,
            order: List::new(),
            distinct: false,
            limit: None,
            offset: 0,
        }
    }

    /// Adds a source if it is not there; returns its number.
    pub(crate) fn add_source(&mut self, reach: Reach) -> Result<u8> {
        let known = self.sources.iter().position(|source| source.reach == reach);
        let number = if let Some(number) = known {
            number
        } else {
            let at = bounded(self.row_bytes)?;
            self.sources
                .push(Source { reach, at }, "the number of columns of a query")?;
            self.row_bytes += usize::from(reach.width);
            self.sources.len() - 1
        };
        Ok(small(number))
    }

    /// Adds an output and returns its number.
    pub(crate) fn add_output(&mut self, function: Function, source: Option<u8>) -> Result<u8> {
        let (mut kind, mut width) = (ValueType::Integer, NUMBER_BYTES);
        if let Some(found) = source.and_then(|number| self.sources.get(usize::from(number))) {
            if !matches!(function, Function::Count) {
                kind = found.reach.kind;
                width = usize::from(found.reach.width);
            }
            if function == Function::Average {
                (kind, width) = (ValueType::Real, NUMBER_BYTES);
            }
        }
        let output = Output {
            function,
            source,
            kind,
            at: bounded(self.output_bytes)?,
            width: bounded(width)?,
        };
        self.outputs
            .push(output, "the number of columns of a query")?;
        self.output_bytes += width;
        Ok(small(self.outputs.len() - 1))
    }

    /// Returns the length of the sort key before each row.
    pub(crate) fn order_bytes(&self) -> usize {
        let keys = self.order.iter();
        let widths = keys.filter_map(|key| self.outputs.get(usize::from(key.output)));
        widths.map(|output| usize::from(output.width)).sum()
    }

    /// Returns the bytes of memory of the query. They include the lists of ids that its condition
    /// may need, and a record of the result during a merge.
    pub(crate) fn memory_bytes(&self) -> usize {
        let condition = &self.condition;
        let streams = 2 * condition.values.len().min(STREAMS_MAX);
        let records = 2 * (self.order_bytes() + self.output_bytes);
        records
            + condition.nodes.memory_bytes()
            + condition.tests.memory_bytes()
            + condition.values.memory_bytes()
            + self.sources.memory_bytes()
            + self.outputs.memory_bytes()
            + streams.min(STREAMS_MAX) * STREAM_BYTES
    }

    /// Returns the value of a source among the values of a row.
    pub(crate) fn source_bytes<'r>(&self, number: u8, row: &'r [u8]) -> Result<&'r [u8]> {
        let source = self.source(number)?;
        let width = usize::from(source.reach.width);
        Ok(part(row, usize::from(source.at), width))
    }

    /// Returns a source by its number.
    pub(crate) fn source(&self, number: u8) -> Result<&Source> {
        let found = self.sources.get(usize::from(number));
        found.ok_or(Error::Defect("a query reads the columns that it names"))
    }

    /// Returns an output by its number.
    pub(crate) fn output(&self, number: u8) -> Result<&Output> {
        let found = self.outputs.get(usize::from(number));
        found.ok_or(Error::Defect("a query orders by columns of its result"))
    }
}

/// Converts an offset or a width in a result row, which a statement can make as large as it likes.
pub(crate) fn bounded(bytes: usize) -> Result<u16> {
    u16::try_from(bytes).map_err(|_range| Error::Limit("the width of a result row"))
}

/// A row of a result.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub(crate) outputs: &'a [Output],
    pub(crate) bytes: &'a [u8],
    /// `true` for the row of aggregates over no rows.
    pub(crate) empty: bool,
}

impl<'a> Row<'a> {
    /// Returns the number of columns.
    #[expect(
        clippy::len_without_is_empty,
        reason = "no result has rows without columns"
    )]
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the value of column `number`, counted from zero; NULL beyond the last.
    pub fn value(&self, number: usize) -> Value<'a> {
        let Some(output) = self.outputs.get(number) else {
            return Value::Null;
        };
        let bytes = part(
            self.bytes,
            usize::from(output.at),
            usize::from(output.width),
        );
        if self.empty && output.function != Function::Count {
            return Value::Null;
        }
        match output.function {
            Function::Count => Value::Integer(decode_integer(bytes)),
            _ => decode(output.kind, bytes),
        }
    }
}

/// A receiver of the rows of a result.
pub trait Sink {
    /// Receives the names and types of the columns, before any row.
    ///
    /// # Errors
    /// Any error of the receiver; it ends the statement.
    fn begin(&mut self, columns: &[Heading<'_>]) -> Result<()>;
    /// Receives one row.
    ///
    /// # Errors
    /// Any error of the receiver; it ends the statement.
    fn row(&mut self, row: &Row<'_>) -> Result<()>;
}

/// Name and type of a column of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heading<'a> {
    /// The alias, or the column's name, or the function.
    pub name: &'a str,
    /// The type of its values.
    pub kind: ValueType,
}
