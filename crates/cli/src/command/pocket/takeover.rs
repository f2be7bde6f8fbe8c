//! Import of the tables and rows of another database.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::database::{Catalog, CatalogTable, connect};
use probity_disguise::{Column, Database, Dialect, Value as Found};
use probity_pocketdb::Value;

use super::change::run_script;
use super::import::{Import, quoted};
use super::losses::{ask, refuse_losses};
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::failure::Failure;

/// The prefix of the tables that disguises create in a database.
const DISGUISES_OWN: &str = "probity_";
/// Rows that are read and committed together.
const ROWS_AT_ONCE: u32 = 64;

/// The other database, and the parts of it to import.
pub(super) struct Takeover<'a> {
    database: Box<dyn Database>,
    catalog: Catalog,
    args: &'a PocketCreate,
}

/// The type of an imported column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Integer,
    Real,
    Text,
}

impl<'a> Takeover<'a> {
    pub(super) fn new(url: &str, args: &'a PocketCreate) -> Result<Self, Failure> {
        let failed = |error| Failure::new("cannot read the other database").because(error);
        let mut database = connect(url).map_err(failed)?;
        // One snapshot serves schema, lengths, counts and rows: a deletion between two pages would
        // shift the second.
        database.begin_reading().map_err(failed)?;
        let mut catalog = database.catalog().map_err(failed)?;
        for wanted in &args.tables {
            if !catalog.contains_key(wanted) {
                return Err(Failure::new(format!(
                    "the other database has no table {wanted}"
                )));
            }
        }
        // Tables of the disguises mean nothing in another database; only naming them imports them.
        catalog.retain(|name, _| match args.tables.as_slice() {
            [] => !name.starts_with(DISGUISES_OWN),
            named => named.contains(name),
        });
        for index in &args.indexes {
            let column = index.split_once('.');
            let found = column.and_then(|(table, column)| catalog.get(table)?.column(column));
            if found.is_none() {
                return Err(
                    Failure::new(format!("no table taken over has a column {index}"))
                        .remedy("write --index TABLE.COLUMN"),
                );
            }
        }
        link(&mut catalog, &args.unlinked)?;
        refuse_losses(database.as_mut(), &catalog, &args.plain)?;
        Ok(Self {
            database,
            catalog,
            args,
        })
    }

    /// Creates every table and inserts its rows, referenced tables first.
    pub(super) fn run(mut self, place: &Place, vault: &mut Vault) -> Result<(), Failure> {
        let order = in_order(&self.catalog)?;
        refuse_two_paths(&self.catalog, &order)?;
        for name in order {
            let table = self.catalog.get(&name).cloned().unwrap_or_default();
            let statement = self.definition(&name, &table)?;
            run_script(place, vault, &statement)
                .map_err(|failure| failure.after(&format!("the table {name} was reached")))?;
            let import = Import::new(place, vault, &name, ROWS_AT_ONCE)?;
            self.rows(&name, &table, import)
                .map_err(|failure| failure.after(&format!("rows of {name} were reached")))?;
        }
        Ok(())
    }

    /// Returns the statement that creates the table here.
    fn definition(&mut self, name: &str, table: &CatalogTable) -> Result<String, Failure> {
        let mut parts = Vec::new();
        for column in &table.columns {
            let mut part = format!("{} {}", quoted(&column.name), self.declared(name, column)?);
            let index = format!("{name}.{}", column.name);
            if table.primary_key == [column.name.clone()] {
                let position =
                    form_of(column) == Form::Integer && self.is_position(name, column)?;
                part.push_str(if position { " PRIMARY KEY" } else { " UNIQUE" });
            } else if is_unique(table, &column.name) && !self.args.plain.contains(&name.to_owned())
            {
                part.push_str(" UNIQUE");
            } else if self.args.indexes.contains(&index) {
                part.push_str(" INDEXED");
            }
            parts.push(part);
        }
        for key in &table.foreign_keys {
            let ([from], [to]) = (key.columns.as_slice(), key.to_columns.as_slice()) else {
                return Err(Failure::new(format!(
                    "{name} has a foreign key of several columns"
                )));
            };
            let (from, table, to) = (quoted(from), quoted(&key.to_table), quoted(to));
            parts.push(format!("FOREIGN KEY ({from}) REFERENCES {table} ({to})"));
        }
        Ok(format!(
            "CREATE TABLE {} ({})",
            quoted(name),
            parts.join(", ")
        ))
    }

    fn declared(&mut self, table: &str, column: &Column) -> Result<String, Failure> {
        Ok(match form_of(column) {
            Form::Integer => "INTEGER".to_owned(),
            Form::Real => "REAL".to_owned(),
            Form::Text => {
                let quoted_name = self.database.dialect().quote(&column.name);
                let length = match self.database.dialect() {
                    Dialect::Sqlite => format!("LENGTH(CAST({quoted_name} AS BLOB))"),
                    Dialect::Mysql => format!("OCTET_LENGTH(CAST({quoted_name} AS CHAR))"),
                    _ => format!("OCTET_LENGTH(CAST({quoted_name} AS TEXT))"),
                };
                let longest = self.number(table, &format!("MAX({length})"))?;
                format!("TEXT({})", longest.max(1))
            }
        })
    }

    /// Returns whether the values are 1, 2, 3 and so on, as the ids of the rows will be.
    fn is_position(&mut self, table: &str, column: &Column) -> Result<bool, Failure> {
        let name = self.database.dialect().quote(&column.name);
        let rows = self.number(table, "COUNT(*)")?;
        let (low, high) = (
            self.number(table, &format!("MIN({name})"))?,
            self.number(table, &format!("MAX({name})"))?,
        );
        Ok(rows == 0 || (low == 1 && high == rows))
    }

    /// Returns the single number that `what` selects from a table; 0 where it is NULL.
    fn number(&mut self, table: &str, what: &str) -> Result<i64, Failure> {
        let table = self.database.dialect().quote(table);
        let rows = self.ask(&format!("SELECT {what} FROM {table}"))?;
        let cell = rows.first().and_then(|row| row.first());
        Ok(match cell {
            Some(Found::Int(number)) => *number,
            Some(Found::Text(text)) => text.parse().unwrap_or(0),
            _ => 0,
        })
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<Vec<Found>>, Failure> {
        ask(self.database.as_mut(), sql)
    }

    /// Inserts the rows of one table in the order of its key.
    fn rows(
        &mut self,
        name: &str,
        table: &CatalogTable,
        mut import: Import<'_>,
    ) -> Result<(), Failure> {
        let dialect = self.database.dialect();
        let list = |names: &[&str]| -> String {
            let names = names.iter().map(|name| dialect.quote(name));
            names.collect::<Vec<_>>().join(", ")
        };
        let columns: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let mut order: Vec<&str> = table.primary_key.iter().map(String::as_str).collect();
        if order.is_empty() {
            order.clone_from(&columns);
        }
        import.set_columns(columns.iter().copied())?;
        let (columns, order, from) = (list(&columns), list(&order), dialect.quote(name));
        let mut offset = 0u64;
        loop {
            let rows = self.ask(&format!(
                "SELECT {columns} FROM {from} ORDER BY {order} LIMIT {ROWS_AT_ONCE} OFFSET {offset}"
            ))?;
            if rows.is_empty() {
                return import.commit();
            }
            offset += rows.len() as u64;
            for row in &rows {
                self.row(name, table, row, &mut import)?;
            }
        }
    }

    fn row(
        &self,
        name: &str,
        table: &CatalogTable,
        row: &[Found],
        import: &mut Import<'_>,
    ) -> Result<(), Failure> {
        let texts: Vec<String> = row.iter().map(ToString::to_string).collect();
        let mut values = Vec::with_capacity(row.len());
        for ((cell, text), column) in row.iter().zip(&texts).zip(&table.columns) {
            let form = form_of(column);
            let mut keys = table.foreign_keys.iter();
            let key = keys.find(|key| key.columns == [column.name.clone()]);
            if let (Found::Null, Some(key)) = (cell, key) {
                let (column, to) = (&column.name, &key.to_table);
                return Err(Failure::new(format!(
                    "{column} is NULL in a row, and every row here refers to one of {to}"
                ))
                .remedy(format!(
                    "take the key over as a plain column with --unlinked {name}.{column} --null-as-empty"
                )));
            }
            let value = match cell {
                Found::Null if self.args.null_as_empty => Some(empty(form)),
                Found::Int(number) if form == Form::Integer => Some(Value::Integer(*number)),
                Found::Int(_) | Found::Real(_) | Found::Text(_) => match form {
                    Form::Integer => text.parse().ok().map(Value::Integer),
                    Form::Real => text.parse().ok().map(Value::Real),
                    Form::Text => Some(Value::Text(text)),
                },
                _ => None,
            };
            values.push(value.ok_or_else(|| {
                match cell {
                    Found::Null => Failure::new(format!("{} is NULL in a row", column.name))
                        .remedy("take over NULL as 0 or an empty text with --null-as-empty"),
                    _ => Failure::new(format!("{} has a value of another type", column.name)),
                }
            })?);
        }
        import.row(&values)
    }
}

/// Returns whether a column that is not the primary key has unique values.
fn is_unique(table: &CatalogTable, column: &str) -> bool {
    let mut keys = table.foreign_keys.iter();
    let refers = keys.any(|key| key.columns.iter().any(|one| one == column));
    !refers && table.unique_keys.iter().any(|key| key == &[column])
}

fn empty(form: Form) -> Value<'static> {
    match form {
        Form::Integer => Value::Integer(0),
        Form::Real => Value::Real(0.0),
        Form::Text => Value::Text(""),
    }
}

fn form_of(column: &Column) -> Form {
    let declared = column.declared.to_ascii_uppercase();
    let is = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    if column.is_integer() || is(&["BOOL"]) {
        Form::Integer
    } else if is(&["REAL", "FLOA", "DOUB"]) {
        Form::Real
    } else {
        Form::Text
    }
}

/// Removes the foreign keys to tables that are not imported, and the `unlinked` ones.
fn link(catalog: &mut Catalog, unlinked: &[String]) -> Result<(), Failure> {
    let tables: BTreeSet<String> = catalog.keys().cloned().collect();
    let mut unused: BTreeSet<&String> = unlinked.iter().collect();
    for (name, table) in catalog.iter_mut() {
        table.foreign_keys.retain(|key| {
            let said = key.columns.first().filter(|_one| key.columns.len() == 1);
            let said = said.map(|column| format!("{name}.{column}"));
            let is_unlinked = said.is_some_and(|said| {
                unused.remove(&said);
                unlinked.contains(&said)
            });
            tables.contains(&key.to_table) && !is_unlinked
        });
    }
    match unused.first() {
        None => Ok(()),
        Some(column) => Err(Failure::new(format!(
            "no table taken over has a foreign key of the column {column}"
        ))
        .remedy("write --unlinked TABLE.COLUMN")),
    }
}

/// Refuses tables of which one leads to another along two paths, because a row keeps one id of each
/// table that it leads to.
fn refuse_two_paths(catalog: &Catalog, order: &[String]) -> Result<(), Failure> {
    // The path of foreign keys from each table to every table that it leads to.
    let mut ways: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for name in order {
        let mut own: BTreeMap<&str, String> = BTreeMap::new();
        let keys = catalog.get(name).map(|table| table.foreign_keys.as_slice());
        for key in keys.unwrap_or_default() {
            let first = format!("{name}.{}", key.columns.join("+"));
            let further = ways.get(key.to_table.as_str()).into_iter().flatten();
            let further = further.map(|(table, way)| (*table, format!("{first}, {way}")));
            let reached = [(key.to_table.as_str(), first.clone())];
            for (table, way) in reached.into_iter().chain(further) {
                let Some(before) = own.insert(table, way.clone()) else {
                    continue;
                };
                return Err(Failure::new(format!(
                    "the table {name} leads to {table} along two paths of foreign keys, and here it may along one: {before}; and {way}"
                ))
                .remedy("take one of these keys over as a plain column with --unlinked TABLE.COLUMN, or fewer tables with --table TABLE"));
            }
        }
        ways.insert(name, own);
    }
    Ok(())
}

/// Returns the tables, each after those that it references.
fn in_order(catalog: &Catalog) -> Result<Vec<String>, Failure> {
    let mut left: BTreeMap<&String, &CatalogTable> = catalog.iter().collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let ready = |(_, table): &(&&String, &&CatalogTable)| {
            let mut keys = table.foreign_keys.iter();
            keys.all(|key| !left.contains_key(&key.to_table))
        };
        let Some(name) = left.iter().find(ready).map(|(name, _)| (*name).clone()) else {
            let names: Vec<&str> = left.keys().map(|name| name.as_str()).collect();
            return Err(Failure::new(format!(
                "the tables {} reference each other in a circle or themselves",
                names.join(", ")
            ))
            .remedy("take over a key of it as a plain column with --unlinked TABLE.COLUMN, or others with --table TABLE"));
        };
        left.remove(&name);
        order.push(name);
    }
    Ok(order)
}
