//! `INSERT`, `UPDATE` and `DELETE`.

use crate::error::{Error, Result};
use crate::limits::{COLUMNS_MAX, KEY_BYTES_MAX, TABLES_MAX, VALUES_MAX};
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{part_mut, put, small};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::series::Series;
use crate::pager::sort::{Run, RunWriter};
use crate::query::chunk::Chunk;
use crate::query::rows::{Rows, rows_of};
use crate::query::select::Select;
use crate::query::sql::parser::Parser;
use crate::query::stream::Candidates;
use crate::tables::catalogue::{Catalogue, Column, ID, Kind, OWN};
use crate::tables::change::Tables;
use crate::tables::id::{ColumnId, RowId, TableId};
use crate::tables::index::Search;
use crate::tables::value::{Value, ValueType, encode};

/// An update or delete.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    /// The table and the condition of the rows.
    pub(crate) select: Select<'a>,
    /// The columns with their new values; empty for a delete.
    pub(crate) columns: Series<(ColumnId, Value<'a>), COLUMNS_MAX>,
}

/// An insertion.
#[derive(Debug)]
pub(crate) struct Insertion<'a> {
    pub(crate) table: TableId,
    /// The columns that have values, in the statement's order.
    pub(crate) columns: Series<ColumnId, COLUMNS_MAX>,
    /// The values, row by row.
    pub(crate) values: Series<Value<'a>, VALUES_MAX>,
}

impl<'a> Parser<'a, '_> {
    /// Parses an `INSERT` after its first word.
    pub(crate) fn insertion(&mut self) -> Result<Insertion<'a>> {
        self.refuse(&["OR"])?;
        self.expect("INTO")?;
        let table = self.table()?;
        let mut insertion = Insertion {
            table,
            columns: Series::new(),
            values: Series::new(),
        };
        self.inserted_columns(&mut insertion)?;
        self.refuse(&["SELECT", "DEFAULT"])?;
        self.expect("VALUES")?;
        loop {
            self.expect("(")?;
            for (number, &column) in insertion.columns.iter().enumerate() {
                if number > 0 {
                    self.expect(",")?;
                }
                let value = self.inserted_value(table, column)?;
                insertion
                    .values
                    .push(value, "the number of values of a statement")?;
            }
            self.expect(")")?;
            if !self.pass(",")? {
                break;
            }
        }
        self.refuse(&["ON"])?;
        self.end()?;
        Ok(insertion)
    }

    fn inserted_columns(&mut self, insertion: &mut Insertion<'a>) -> Result<()> {
        let what = "the number of columns";
        let table = insertion.table;
        if !self.pass("(")? {
            for number in self.catalogue.column_ids(table) {
                insertion.columns.push(number, what)?;
            }
            return Ok(());
        }
        loop {
            let at = self.tokens.at;
            let name = self.name()?;
            let error = |what| Error::Sql { at, what };
            let unknown = || error(alloc::format!("there is no column {name}"));
            let column = self.catalogue.column(table, name).ok_or_else(unknown)?;
            if insertion.columns.contains(&column) {
                return Err(error(alloc::format!("{name} is given twice")));
            }
            insertion.columns.push(column, what)?;
            if !self.pass(",")? {
                break;
            }
        }
        let columns = self.catalogue.columns_of(table);
        for (number, column) in self.catalogue.column_ids(table).zip(columns) {
            if column.kind != Kind::Position && !insertion.columns.contains(&number) {
                let name = self.catalogue.column_name(table, number);
                return Err(self.tokens.error(alloc::format!("{name} has no value")));
            }
        }
        self.expect(")")
    }

    fn inserted_value(&mut self, table: TableId, column: ColumnId) -> Result<Value<'a>> {
        let entry = self.catalogue.column_at(table, column)?;
        if entry.kind == Kind::Position && self.pass("NULL")? {
            return Ok(Value::Null);
        }
        let kind = self.catalogue.shown_type(&entry);
        if entry.kind == Kind::Reference {
            return self.referring(entry.target, kind);
        }
        self.value_of(kind)
    }

    /// Parses an `UPDATE` after its first word.
    pub(crate) fn update(&mut self) -> Result<Change<'a>> {
        self.refuse(&["OR"])?;
        let table = self.bind_one()?;
        let mut change = Change {
            select: Select::new(table),
            columns: Series::new(),
        };
        self.expect("SET")?;
        loop {
            let at = self.tokens.at;
            let (_, column) = self.column()?;
            if !self.is_changeable(table, column)? {
                return Err(Error::Sql {
                    at,
                    what: "keys and references cannot be changed".into(),
                });
            }
            self.expect("=")?;
            let kind = ValueType::of(self.catalogue.column_at(table, column)?.kind);
            let value = self.value_of(kind)?;
            self.refuse(&["+", "-", "*"])?;
            change
                .columns
                .push((column, value), "the number of columns")?;
            if !self.pass(",")? {
                break;
            }
        }
        self.refuse(&["FROM"])?;
        self.where_clause(&mut change.select)?;
        self.end()?;
        Ok(change)
    }

    /// Parses a `DELETE` after its first word.
    pub(crate) fn delete(&mut self) -> Result<Change<'a>> {
        self.expect("FROM")?;
        let mut change = Change {
            select: Select::new(self.bind_one()?),
            columns: Series::new(),
        };
        self.where_clause(&mut change.select)?;
        self.end()?;
        Ok(change)
    }
}

/// A receiver that writes the ids of rows to a list.
struct Ids {
    writer: RunWriter,
}

impl<F: Nand, S: SecureStore> Rows<F, S> for Ids {
    fn take(&mut self, pager: &mut Pager<F, S>, chunk: &Chunk, row: usize) -> Result<bool> {
        let id = chunk.id(&pager.arena, row, 0);
        self.writer.put(pager, &id.to_le_bytes())?;
        Ok(true)
    }
}

impl Insertion<'_> {
    /// Inserts all rows of a statement; returns their number.
    pub(crate) fn run<F: Nand, S: SecureStore>(&self, tables: &mut Tables<F, S>) -> Result<u64> {
        let width = self.columns.len().max(1);
        let mut target = Target {
            tables,
            table: self.table,
        };
        let mut rows = 0;
        for values in self.values.chunks(width) {
            target.insert_values(&self.columns, values)?;
            rows += 1;
        }
        Ok(rows)
    }
}

impl Change<'_> {
    /// Runs an update or a delete; returns the number of rows.
    pub(crate) fn run<F: Nand, S: SecureStore>(&self, tables: &mut Tables<F, S>) -> Result<u64> {
        let mut list = self.rows(tables)?;
        let table = self.select.table;
        let mut record = [0u8; 4];
        while list.next(&mut tables.base.pager, &mut record)? {
            let id = RowId::from_le_bytes(record);
            if self.columns.is_empty() {
                tables.note_delete(table, id)?;
            }
            for (number, value) in self.columns.iter() {
                set(tables, table, id, *number, value)?;
            }
        }
        Ok(u64::from(list.records()))
    }

    /// Returns the rows of a change; all are collected before the first is changed.
    fn rows<F: Nand, S: SecureStore>(&self, tables: &mut Tables<F, S>) -> Result<Run> {
        let mut candidates = Candidates::new(tables, self.select.table, &self.select.condition)?;
        let mut ids = Ids {
            writer: RunWriter::begin(&mut tables.base.pager, 4)?,
        };
        let area: Area = tables
            .base
            .pager
            .arena
            .lease(2.min(tables.base.pager.arena.spare()))?;
        rows_of(
            tables,
            &self.select,
            &mut candidates,
            area,
            usize::MAX,
            &mut ids,
        )?;
        tables.base.pager.arena.release(area);
        Ok(ids.writer.finish(&mut tables.base.pager)?)
    }
}

/// The table that rows are inserted into.
struct Target<'t, F: Nand, S: SecureStore> {
    tables: &'t mut Tables<F, S>,
    table: TableId,
}

impl<F: Nand, S: SecureStore> Target<'_, F, S> {
    /// Inserts one row of values for `columns`.
    fn insert_values(&mut self, columns: &[ColumnId], values: &[Value<'_>]) -> Result<RowId> {
        let own = self.tables.base.catalogue.widths(self.table).0;
        let mut row = Scratch::new(own);
        let mut references = [RowId::new(0); TABLES_MAX];
        let mut known = 0;
        for number in self.tables.base.catalogue.column_ids(self.table) {
            let column = self.tables.base.catalogue.column_at(self.table, number)?;
            let given = columns.iter().position(|&given| given == number);
            let value = given
                .and_then(|at| values.get(at))
                .copied()
                .unwrap_or_default();
            match column.kind {
                Kind::Position => self.check_position(&value)?,
                Kind::Reference => {
                    let id = self.resolve_reference(&column, &value)?;
                    if column.unique {
                        let key = id.to_le_bytes();
                        let index = (small(usize::from(column.at)), ID);
                        self.check_unique(number, index, &key)?;
                    }
                    let place = references.get_mut(known);
                    *place.ok_or(Error::Limit("the number of tables"))? = id;
                    known += 1;
                }
                _ => {
                    let at = usize::from(column.at);
                    let end = at + usize::from(column.width);
                    let place = part_mut(&mut row, at, end - at);
                    encode(&value, place).map_err(|error| {
                        named(&self.tables.base.catalogue, self.table, number, error)
                    })?;
                    if column.unique {
                        self.check_unique(number, (OWN, number), place)?;
                    }
                }
            }
        }
        let (references, _) = references.split_at(known);
        self.insert_row(&row, references)
    }

    /// Checks that a given row id is the next rank.
    fn check_position(&self, value: &Value<'_>) -> Result<()> {
        let next = i64::from(self.tables.base.count(self.table)) + 1;
        match value {
            Value::Null => Ok(()),
            Value::Integer(number) if *number == next => Ok(()),
            _ => {
                let name = self.tables.base.catalogue.table_name(self.table);
                let text = alloc::format!("the next row of {name} is {next}, not {value}");
                Err(Error::Key(text))
            }
        }
    }

    /// Returns the row that a foreign key's value refers to.
    fn resolve_reference(&mut self, column: &Column, value: &Value<'_>) -> Result<RowId> {
        let target = column.target;
        let missing = |tables: &Tables<F, S>| tables.base.catalogue.no_row(target, value);
        if column.key == ID {
            return match value {
                Value::Integer(number) => {
                    let number = u32::try_from(*number).map_err(|_range| missing(self.tables))?;
                    Ok(RowId::new(number))
                }
                _ => Err(missing(self.tables)),
            };
        }
        let key = self.tables.base.catalogue.column_at(target, column.key)?;
        if key.kind == Kind::Reference {
            // A table of an earlier version; none is created with such a column.
            return Err(Error::Refused(
                self.tables.base.catalogue.chained(target, column.key),
            ));
        }
        let mut bytes = [0u8; KEY_BYTES_MAX];
        let width = usize::from(key.width);
        let bytes = part_mut(&mut bytes, 0, width);
        if encode(value, bytes).is_err() {
            return Err(missing(self.tables));
        }
        let found = self.find_key(target, (OWN, column.key), bytes)?;
        found.ok_or_else(|| missing(self.tables))
    }

    /// Refuses a value of the unique `column` that another row has. Updates cannot change it.
    fn check_unique(&mut self, column: ColumnId, index: (u8, ColumnId), key: &[u8]) -> Result<()> {
        if self.find_key(self.table, index, key)?.is_some() {
            let name = self.tables.base.catalogue.column_name(self.table, column);
            let text = alloc::format!("{name} has this value in another row already");
            return Err(Error::Key(text));
        }
        Ok(())
    }

    /// Returns the row with `key` in the index of a slot and a column.
    fn find_key(
        &mut self,
        table: TableId,
        (slot, column): (u8, ColumnId),
        key: &[u8],
    ) -> Result<Option<RowId>> {
        let missing = Error::Defect("a unique column has an index");
        let index = self.tables.base.catalogue.find_index(table, slot, column);
        let mut search = Search::new(&mut self.tables.base, index.ok_or(missing)?, key)?;
        while let Some(id) = search.next(&mut self.tables.base)? {
            if !self.tables.is_deleted(table, id)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn insert_row(&mut self, row: &[u8], references: &[RowId]) -> Result<RowId> {
        let all = self.tables.base.catalogue.widths(self.table).1;
        let mut element = Scratch::new(all);
        put(&mut element, 0, row);
        self.tables
            .insert_element(self.table, &mut element, references)
    }
}

/// Updates one value, unless it is the present one.
fn set<F: Nand, S: SecureStore>(
    tables: &mut Tables<F, S>,
    table: TableId,
    id: RowId,
    number: ColumnId,
    value: &Value<'_>,
) -> Result<()> {
    let column = tables.base.catalogue.column_at(table, number)?;
    let width = usize::from(column.width);
    let (mut bytes, mut present) = (Scratch::new(width), Scratch::new(width));
    encode(value, &mut bytes)
        .map_err(|error| named(&tables.base.catalogue, table, number, error))?;
    tables.latest(table, id, number, &column, &mut present)?;
    if *present == *bytes {
        return Ok(());
    }
    tables.note_update(table, id, number, &bytes)
}

/// Prefixes an error with the column's name.
fn named(catalogue: &Catalogue, table: TableId, column: ColumnId, error: Error) -> Error {
    match error {
        Error::Value(text) => {
            let name = catalogue.column_name(table, column);
            Error::Value(alloc::format!("{name}: {text}"))
        }
        other => other,
    }
}
