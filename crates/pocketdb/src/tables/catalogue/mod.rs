//! The catalogue: tables, columns, references along foreign keys, and the indexes derived from
//! them.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "the ranges of a table lie in the catalogue's lists; no columns in their place would hide that"
)]

mod definition;
mod encoding;
mod refusals;
pub(crate) mod stored;

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::limits::{CATALOGUE_BYTES_MAX, COLUMNS_MAX, INDEXES_MAX, KEY_BYTES_MAX, TABLES_MAX};
use crate::pager::buffer::ROW_FIT_BYTES;
use crate::pager::bytes::{part, short, small};
use crate::tables::catalogue::refusals::{
    KEY_TOO_WIDE, NO_VALUE, ROW_TOO_WIDE, TOO_MANY_TABLES, check_name,
};
use crate::tables::id::{ColumnId, ID_BYTES, TableId};
use crate::tables::value::ValueType;

/// The hidden table of deletes.
pub(crate) const DELETES: TableId = TableId::new(0);
/// The hidden table of updates.
pub(crate) const UPDATES: TableId = TableId::new(1);
/// The first user table.
pub(crate) const FIRST_TABLE: TableId = TableId::new(2);
/// Slot number of an index on the table's own column.
pub(crate) const OWN: u8 = 255;
/// The row id as a column, for indexes and references.
pub(crate) const ID: ColumnId = ColumnId::new(255);
/// Bytes of an integer, a real number and a row id as stored.
pub(crate) const NUMBER_BYTES: u16 = 8;
/// Bytes of a value that one row of the updates table carries.
pub(crate) const UPDATE_PART_BYTES: u16 = 24;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The row id, `INTEGER PRIMARY KEY`: the rank of insertion.
    Position,
    /// A signed 64-bit integer.
    Integer,
    /// A 64-bit floating-point number.
    Real,
    /// Text with a maximum length in bytes.
    Text(u16),
    /// A foreign key.
    Reference,
}

/// The grouping of a table's columns in the reorganised part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// The indexed columns together, every other column separately.
    #[default]
    Keyed,
    /// Every column separately.
    Columns,
    /// Whole rows.
    Rows,
}

/// The definition of a column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub kind: Kind,
    /// `true` if its values are indexed, here and in every table that references this one.
    pub indexed: bool,
    /// `true` if its values must be unique.
    pub unique: bool,
    /// Table and column that a foreign key refers to.
    pub reference: Option<(&'a str, &'a str)>,
}

/// The definition of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its columns, in order.
    pub columns: &'a [ColumnDefinition<'a>],
    /// The grouping of its columns in the reorganised part.
    pub layout: Layout,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    at: u16,
    bytes: u8,
}

/// A column as the engine uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: Name,
    pub(crate) kind: Kind,
    /// Offset of the stored value in the row, or the slot of a reference in the join row.
    pub(crate) at: u16,
    /// Length of the stored value; zero for row ids and references.
    pub(crate) width: u16,
    pub(crate) indexed: bool,
    pub(crate) unique: bool,
    /// The column group in the reorganised part, its total width, and the column's offset in it.
    pub(crate) group: u8,
    pub(crate) group_width: u16,
    pub(crate) group_at: u16,
    /// Table and column that a reference leads to.
    pub(crate) target: TableId,
    pub(crate) key: ColumnId,
}

/// A table as the engine uses it; its ranges refer to the catalogue's lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    name: Name,
    pub(crate) columns_at: u16,
    pub(crate) columns: u8,
    /// Width of a row without its join row.
    pub(crate) width: u16,
    pub(crate) slots_at: u16,
    /// Number of tables that this one references, directly or not.
    pub(crate) slots: u8,
    pub(crate) indexes_at: u16,
    pub(crate) indexes: u16,
    pub(crate) layout: Layout,
}

/// One id of a join row: the id of a row that is referenced, directly or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) table: TableId,
    /// The slot of the direct reference on the path to this one; the slot itself if it is direct.
    pub(crate) direct: u8,
}

/// An index `TSelect(Tj.A -> Ti)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index {
    /// The table whose ids the index contains.
    pub(crate) table: TableId,
    /// The slot of the table whose values are indexed, or [`OWN`].
    pub(crate) slot: u8,
    /// The indexed column, or [`ID`].
    pub(crate) column: ColumnId,
}

/// All tables.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    names: Vec<u8>,
    tables: Vec<Table>,
    columns: Vec<Column>,
    slots: Vec<Slot>,
    indexes: Vec<Index>,
}

impl Catalogue {
    /// Creates a catalogue of the two hidden tables.
    pub(crate) fn new() -> Result<Self> {
        let mut catalogue = Self {
            names: Vec::new(),
            tables: Vec::new(),
            columns: Vec::new(),
            slots: Vec::new(),
            indexes: Vec::new(),
        };
        let column = |bytes, indexed| ColumnDefinition {
            name: "",
            kind: Kind::Text(bytes),
            indexed,
            unique: false,
            reference: None,
        };
        let hidden = |columns| TableDefinition {
            name: "",
            columns,
            layout: Layout::Rows,
        };
        let row = [column(5, true)];
        catalogue.install(&hidden(&row))?;
        let update = [
            column(8, true),
            column(10, true),
            column(UPDATE_PART_BYTES, false),
        ];
        catalogue.install(&hidden(&update))?;
        Ok(catalogue)
    }

    /// Checks and adds a table; after an error the catalogue may contain a part of it.
    pub(crate) fn add(&mut self, definition: &TableDefinition<'_>) -> Result<()> {
        check_name(definition.name)?;
        if self.table(definition.name).is_some() {
            let text = alloc::format!("the table {} exists already", definition.name);
            return Err(Error::Name(text));
        }
        if definition.columns.len() > COLUMNS_MAX {
            return Err(Error::Limit("the number of columns"));
        }
        for (number, column) in definition.columns.iter().enumerate() {
            check_name(column.name)?;
            let before = definition.columns.iter().take(number);
            if before
                .map(|other| other.name)
                .any(|name| name.eq_ignore_ascii_case(column.name))
            {
                let text = alloc::format!("the column {} is named twice", column.name);
                return Err(Error::Name(text));
            }
        }
        for column in definition.columns {
            if column.kind == Kind::Reference {
                let (target, key) = self.resolve(column)?;
                let found = self.columns_of(target).nth(key.place());
                if key != ID && found.is_some_and(|found| found.kind == Kind::Reference) {
                    return Err(Error::Name(self.chained(target, key)));
                }
            }
        }
        self.install(definition)?;
        if self.encoded_bytes() > CATALOGUE_BYTES_MAX {
            return Err(Error::Limit("the catalogue"));
        }
        Ok(())
    }

    fn install(&mut self, definition: &TableDefinition<'_>) -> Result<()> {
        if self.tables.len() >= TABLES_MAX {
            return Err(Error::Limit(TOO_MANY_TABLES));
        }
        let mut table = Table {
            name: self.keep_name(definition.name),
            columns_at: short(self.columns.len()),
            columns: small(definition.columns.len()),
            width: 0,
            slots_at: short(self.slots.len()),
            slots: 0,
            indexes_at: short(self.indexes.len()),
            indexes: 0,
            layout: definition.layout,
        };
        for column in definition.columns {
            self.install_column(&mut table, column)?;
        }
        match usize::from(table.width) + ID_BYTES * usize::from(table.slots) {
            0 if definition
                .columns
                .iter()
                .all(|it| it.kind == Kind::Position) =>
            {
                return Err(Error::Refused(NO_VALUE.into()));
            }
            1..=ROW_FIT_BYTES => {}
            _ => return Err(Error::Limit(ROW_TOO_WIDE)),
        }
        self.group_columns(&table);
        self.tables.push(table);
        self.install_indexes(TableId::at(self.tables.len() - 1))
    }

    fn install_column(
        &mut self,
        table: &mut Table,
        definition: &ColumnDefinition<'_>,
    ) -> Result<()> {
        let width = stored_width(definition.kind);
        let is_indexed = definition.indexed || definition.unique;
        if is_indexed && usize::from(width) > KEY_BYTES_MAX {
            return Err(Error::Limit(KEY_TOO_WIDE));
        }
        let mut column = Column {
            name: self.keep_name(definition.name),
            kind: definition.kind,
            at: table.width,
            width,
            indexed: is_indexed,
            unique: definition.unique,
            group: 0,
            group_width: 0,
            group_at: 0,
            target: DELETES,
            key: ID,
        };
        if definition.kind == Kind::Reference {
            let (target, key) = self.resolve(definition)?;
            column.target = target;
            column.key = key;
            column.at = u16::from(table.slots);
            self.install_slots(table, target)?;
        }
        table.width = table
            .width
            .checked_add(width)
            .ok_or(Error::Limit(ROW_TOO_WIDE))?;
        self.columns.push(column);
        Ok(())
    }

    /// Assigns columns to groups of the reorganised part; group 0 is the shared one.
    fn group_columns(&mut self, table: &Table) {
        let (_, columns) = self.columns.split_at_mut(usize::from(table.columns_at));
        let mut groups = 1;
        for column in columns.iter_mut().filter(|column| column.width > 0) {
            let shared = match table.layout {
                Layout::Rows => true,
                Layout::Keyed => column.indexed,
                Layout::Columns => false,
            };
            if !shared {
                column.group = groups;
                groups += 1;
            }
        }
        for group in 0..groups {
            let members = |column: &&mut Column| column.width > 0 && column.group == group;
            let mut width = 0;
            for column in columns.iter_mut().filter(members) {
                column.group_at = width;
                width += column.width;
            }
            for column in columns.iter_mut().filter(members) {
                column.group_width = width;
            }
        }
    }

    /// Returns the total width of the columns of a group.
    pub(crate) fn group_width(&self, table: TableId, group: u32) -> usize {
        let mut columns = self.columns_of(table);
        let member = columns.find(|column| column.width > 0 && u32::from(column.group) == group);
        member.map_or(0, |column| usize::from(column.group_width))
    }

    /// Returns table and key column that a foreign key refers to.
    fn resolve(&self, definition: &ColumnDefinition<'_>) -> Result<(TableId, ColumnId)> {
        let (table, column) = definition.reference.unwrap_or(("", ""));
        let unknown = || Error::Name(alloc::format!("there is no table {table}"));
        let target = self.table(table).ok_or_else(unknown)?;
        if column.is_empty() {
            return Ok((target, ID));
        }
        let no_column = || Error::Name(alloc::format!("the table {table} has no column {column}"));
        let key = self.column(target, column).ok_or_else(no_column)?;
        match self.columns_of(target).nth(key.place()) {
            Some(found) if found.kind == Kind::Position => Ok((target, ID)),
            Some(found) if found.unique => Ok((target, key)),
            _ => Err(Error::Name(alloc::format!(
                "{table}.{column} is not unique, so nothing can refer to it"
            ))),
        }
    }

    /// Returns the refusal of a reference to a column that refers to a table itself: such a column has
    /// no bytes in which a value could be looked up.
    pub(crate) fn chained(&self, target: TableId, key: ColumnId) -> String {
        let (table, column) = (self.table_name(target), self.column_name(target, key));
        let beyond = self.columns_of(target).nth(key.place());
        let beyond = beyond.map_or("", |found| self.table_name(found.target));
        alloc::format!(
            "{table}.{column} refers to {beyond} itself, so nothing can refer to it: refer to a key of {table} of its own, or to {beyond}"
        )
    }

    /// Adds the slot of a reference to `target`, and slots for everything that `target` references.
    fn install_slots(&mut self, table: &mut Table, target: TableId) -> Result<()> {
        let direct = table.slots;
        let inherited = self.slots_of(target).to_vec();
        let tables = core::iter::once(target).chain(inherited.into_iter().map(|slot| slot.table));
        for reached in tables {
            let (_, own) = self.slots.split_at(usize::from(table.slots_at));
            if own.iter().any(|slot| slot.table == reached) {
                let name = self.table_name(reached);
                let text = alloc::format!("a second path of foreign keys to the table {name}");
                return Err(Error::Refused(text));
            }
            self.slots.push(Slot {
                table: reached,
                direct,
            });
            table.slots += 1;
        }
        Ok(())
    }

    fn install_indexes(&mut self, table: TableId) -> Result<()> {
        let searched = |catalogue: &Self, of: TableId| -> Vec<ColumnId> {
            let columns = catalogue.column_ids(of).zip(catalogue.columns_of(of));
            let indexed = columns.filter(|(_, column)| column.indexed && column.width > 0);
            indexed.map(|(number, _)| number).collect()
        };
        let own = searched(self, table);
        let mut found: Vec<(u8, ColumnId)> = own.into_iter().map(|column| (OWN, column)).collect();
        for (number, slot) in self.slots_of(table).iter().enumerate() {
            found.push((small(number), ID));
            let columns = searched(self, slot.table);
            found.extend(columns.into_iter().map(|column| (small(number), column)));
        }
        if self.indexes.len() + found.len() > INDEXES_MAX {
            return Err(Error::Limit("the number of indexes"));
        }
        self.tables[table.place()].indexes = short(found.len());
        self.indexes
            .extend(found.into_iter().map(|(slot, column)| Index {
                table,
                slot,
                column,
            }));
        Ok(())
    }

    fn keep_name(&mut self, name: &str) -> Name {
        let at = short(self.names.len());
        self.names.extend_from_slice(name.as_bytes());
        Name {
            at,
            bytes: small(name.len()),
        }
    }

    fn name(&self, name: Name) -> &str {
        let bytes = part(&self.names, usize::from(name.at), usize::from(name.bytes));
        core::str::from_utf8(bytes).expect("a name is kept as it was given")
    }

    /// Returns the number of tables, the hidden ones included.
    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    /// Returns all tables, the hidden ones included.
    pub(crate) fn table_ids(&self) -> impl Iterator<Item = TableId> + Clone + use<> {
        (0..self.tables.len()).map(TableId::at)
    }

    /// Returns the tables that statements can name.
    pub(crate) fn named_tables(&self) -> impl Iterator<Item = TableId> + use<> {
        (FIRST_TABLE.place()..self.tables.len()).map(TableId::at)
    }

    /// Returns the table `name`.
    pub(crate) fn table(&self, name: &str) -> Option<TableId> {
        let mut tables = self.named_tables();
        tables.find(|&table| self.table_name(table).eq_ignore_ascii_case(name))
    }

    /// Returns the column `name` of `table`.
    pub(crate) fn column(&self, table: TableId, name: &str) -> Option<ColumnId> {
        let mut columns = self.column_ids(table);
        columns.find(|&column| self.column_name(table, column).eq_ignore_ascii_case(name))
    }

    /// Returns the name of a table.
    pub(crate) fn table_name(&self, table: TableId) -> &str {
        self.tables
            .get(table.place())
            .map_or("", |found| self.name(found.name))
    }

    /// Returns the name of a column.
    pub(crate) fn column_name(&self, table: TableId, column: ColumnId) -> &str {
        let found = self.columns_of(table).nth(column.place());
        found.map_or("", |column| self.name(column.name))
    }

    /// Returns a table by its number.
    pub(crate) fn entry(&self, table: TableId) -> Result<Table> {
        let unknown = || Error::Name(alloc::format!("there is no table {table}"));
        self.tables.get(table.place()).copied().ok_or_else(unknown)
    }

    /// Returns the columns of a table.
    pub(crate) fn columns_of(&self, table: TableId) -> core::slice::Iter<'_, Column> {
        let range = self.tables.get(table.place()).map_or(0..0, |entry| {
            usize::from(entry.columns_at)
                ..usize::from(entry.columns_at) + usize::from(entry.columns)
        });
        self.columns[range].iter()
    }

    /// Returns the columns of a table, by their numbers.
    pub(crate) fn column_ids(&self, table: TableId) -> impl Iterator<Item = ColumnId> + use<> {
        (0..self.columns_of(table).len()).map(ColumnId::at)
    }

    /// Returns one column of a table.
    pub(crate) fn column_at(&self, table: TableId, column: ColumnId) -> Result<Column> {
        let unknown = || Error::Name(alloc::format!("table {table} has no column {column}"));
        let found = self.columns_of(table).nth(column.place());
        found.copied().ok_or_else(unknown)
    }

    /// Returns the type of the values that a column shows; a reference shows the key it refers to.
    pub(crate) fn shown_type(&self, column: &Column) -> ValueType {
        let mut shown = *column;
        if column.kind == Kind::Reference && column.key != ID {
            let key = self.column_at(column.target, column.key);
            shown = key.unwrap_or(shown);
        }
        ValueType::of(shown.kind)
    }

    /// Returns the slots of a table's join row.
    pub(crate) fn slots_of(&self, table: TableId) -> &[Slot] {
        let range = self.tables.get(table.place()).map_or(0..0, |entry| {
            usize::from(entry.slots_at)..usize::from(entry.slots_at) + usize::from(entry.slots)
        });
        &self.slots[range]
    }

    /// Returns one slot of a table's join row.
    pub(crate) fn slot(&self, table: TableId, slot: usize) -> Result<Slot> {
        let found = self.slots_of(table).get(slot).copied();
        found.ok_or(Error::Defect("a join row has the slots of its table"))
    }

    /// Returns the index with this number.
    pub(crate) fn index(&self, index: usize) -> Result<Index> {
        let unknown = || Error::Name(alloc::format!("there is no index {index}"));
        self.indexes.get(index).copied().ok_or_else(unknown)
    }

    /// Returns the numbers of the indexes of a table.
    pub(crate) fn indexes_of(&self, table: TableId) -> core::ops::Range<usize> {
        self.tables.get(table.place()).map_or(0..0, |entry| {
            let first = usize::from(entry.indexes_at);
            first..first + usize::from(entry.indexes)
        })
    }

    /// Returns the index of `table` on its own column, or on a column of a table in one of its slots.
    pub(crate) fn find_index(&self, table: TableId, slot: u8, column: ColumnId) -> Option<usize> {
        let is_it = |index: &Index| index.slot == slot && index.column == column;
        self.indexes_of(table)
            .find(|&number| self.indexes.get(number).is_some_and(is_it))
    }

    /// Returns table and column whose values are indexed; the column is [`ID`] for row ids.
    pub(crate) fn source(&self, index: Index) -> Result<(TableId, ColumnId)> {
        let table = index.table;
        if index.slot == OWN {
            return Ok((table, index.column));
        }
        let slot = self.slot(table, usize::from(index.slot))?;
        Ok((slot.table, index.column))
    }

    /// Returns the width of a row of `table` without and with its join row.
    pub(crate) fn widths(&self, table: TableId) -> (usize, usize) {
        self.tables.get(table.place()).map_or((0, 0), |entry| {
            let own = usize::from(entry.width);
            (own, own + ID_BYTES * usize::from(entry.slots))
        })
    }

    /// Returns the bytes of memory that the lists take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.names.capacity()
            + self.tables.capacity() * size_of::<Table>()
            + self.columns.capacity() * size_of::<Column>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.indexes.capacity() * size_of::<Index>()
    }

    /// Releases the unused capacity of the lists.
    pub(crate) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.tables.shrink_to_fit();
        self.columns.shrink_to_fit();
        self.slots.shrink_to_fit();
        self.indexes.shrink_to_fit();
    }
}

fn stored_width(kind: Kind) -> u16 {
    match kind {
        Kind::Position | Kind::Reference => 0,
        Kind::Integer | Kind::Real => NUMBER_BYTES,
        Kind::Text(bytes) => bytes,
    }
}
