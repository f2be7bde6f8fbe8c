//! Import of the tables and rows of another database.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::database::{Catalog, CatalogTable, ForeignKey, connect};
use probity_disguise::{Column, Database, Value as Found};

use super::change::run_script;
use super::import::{Import, quoted};
use super::losses::{ask, ask_each, refuse_losses};
use super::source_column::{Form, Measure, Unfit};
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::failure::Failure;

/// The prefix of the tables that disguises create in a database.
const DISGUISES_OWN: &str = "probity_";
/// Rows that are committed together.
const ROWS_AT_ONCE: u32 = 64;

/// The other database, and the parts of it to import.
pub(super) struct Takeover<'a> {
    database: Box<dyn Database>,
    catalog: Catalog,
    args: &'a PocketCreate,
}

impl<'a> Takeover<'a> {
    pub(super) fn new(url: &str, args: &'a PocketCreate) -> Result<Self, Failure> {
        let failed = |error| Failure::new("cannot read the other database").because(error);
        let mut database = connect(url).map_err(failed)?;
        // One snapshot serves schema, lengths, counts and rows.
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

    /// Creates every table and inserts its rows, referenced tables first. Two passes read the same,
    /// for the snapshot is one: the first finds how long texts are.
    pub(super) fn run(mut self, place: &Place, vault: &mut Vault) -> Result<(), Failure> {
        let order = in_order(&self.catalog)?;
        refuse_chains(&self.catalog)?;
        refuse_two_paths(&self.catalog, &order)?;
        for name in order {
            let table = self.catalog.get(&name).cloned().unwrap_or_default();
            let rows = self.reading(&name, &table);
            let mut measure = Measure::new(table.columns.len());
            ask_each(self.database.as_mut(), &rows, |row| {
                measure.take(row);
                Ok(())
            })?;
            let statement = self.definition(&name, &table, &measure)?;
            run_script(place, vault, &statement)
                .map_err(|failure| failure.after(&format!("the table {name} was reached")))?;
            let import = Import::new(place, vault, &name, ROWS_AT_ONCE)?;
            let taken = self
                .rows(&rows, &table, import)
                .map_err(|failure| failure.after(&format!("rows of {name} were reached")))?;
            self.check_count(&name, [measure.rows, taken])?;
        }
        Ok(())
    }

    /// Returns the statement that reads a table whole, in the order of its key. A second statement
    /// may see rows in another order, even in one snapshot.
    fn reading(&self, name: &str, table: &CatalogTable) -> String {
        let dialect = self.database.dialect();
        let list = |names: &mut dyn Iterator<Item = &String>| -> String {
            let names = names.map(|name| dialect.quote(name));
            names.collect::<Vec<_>>().join(", ")
        };
        let columns = list(&mut table.columns.iter().map(|column| &column.name));
        let mut sql = format!("SELECT {columns} FROM {}", dialect.quote(name));
        if !table.primary_key.is_empty() {
            sql.push_str(" ORDER BY ");
            sql.push_str(&list(&mut table.primary_key.iter()));
        }
        sql
    }

    /// Refuses a table whose rows were not all read, or some twice.
    fn check_count(&mut self, name: &str, read: [u64; 2]) -> Result<(), Failure> {
        let from = self.database.dialect().quote(name);
        let rows = ask(
            self.database.as_mut(),
            &format!("SELECT COUNT(*) FROM {from}"),
        )?;
        let counted = match rows.first().and_then(|row| row.first()) {
            Some(Found::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        if read.iter().all(|&rows| Some(rows) == counted) {
            return Ok(());
        }
        let counted = counted.map_or_else(|| "no number".to_owned(), |rows| rows.to_string());
        let [first, second] = read;
        Err(Failure::new(format!(
            "of the table {name} {first} and {second} rows were read, and the other database counts {counted}"
        ))
        .remedy("let nothing change the table meanwhile, and run the same command again"))
    }

    /// Returns the statement that creates the table here.
    fn definition(
        &self,
        name: &str,
        table: &CatalogTable,
        measure: &Measure,
    ) -> Result<String, Failure> {
        let mut parts = Vec::new();
        for (number, column) in table.columns.iter().enumerate() {
            let form = self.form(column);
            let kind = match form {
                Form::Integer | Form::Boolean => "INTEGER".to_owned(),
                Form::Real => "REAL".to_owned(),
                Form::Text => format!("TEXT({})", measure.longest(number)),
            };
            let mut part = format!("{} {kind}", quoted(&column.name));
            let index = format!("{name}.{}", column.name);
            if table.primary_key == [column.name.clone()] {
                let refers = key_of(table, &column.name).is_some();
                let position = !refers && form == Form::Integer && measure.is_position(number);
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

    fn form(&self, column: &Column) -> Form {
        Form::of(self.database.dialect(), column)
    }

    /// Inserts the rows of one table; returns their number.
    fn rows(
        &mut self,
        sql: &str,
        table: &CatalogTable,
        mut import: Import<'_>,
    ) -> Result<u64, Failure> {
        import.set_columns(table.columns.iter().map(|column| column.name.as_str()))?;
        let forms = table.columns.iter().map(|column| self.form(column));
        let forms: Vec<Form> = forms.collect();
        let null_as_empty = self.args.null_as_empty;
        let mut taken = 0u64;
        let name = import.table().to_owned();
        ask_each(self.database.as_mut(), sql, |found| {
            taken += 1;
            let texts: Vec<String> = found.iter().map(Form::text).collect();
            let mut values = Vec::with_capacity(found.len());
            let cells = found.iter().zip(&texts).zip(&forms).zip(&table.columns);
            for (((cell, text), form), column) in cells {
                let key = key_of(table, &column.name);
                values.push(match (form.value(cell, text), key) {
                    (Err(Unfit::Null), None) if null_as_empty => form.empty(),
                    (Ok(value), _) => value,
                    (Err(unfit), key) => {
                        let refused = refusal(&name, &column.name, unfit, key);
                        // One empty value may stand in such a column.
                        let is_unique = unfit == Unfit::Null && is_unique(table, &column.name);
                        return Err(if is_unique {
                            refused.also(&format!(
                                "where more than one row has NULL, add --plain {name}, which leaves its unique keys out"
                            ))
                        } else {
                            refused
                        });
                    }
                });
            }
            import.row(&values)
        })?;
        import.commit()?;
        Ok(taken)
    }
}

/// Returns the foreign key of one column.
fn key_of<'t>(table: &'t CatalogTable, column: &str) -> Option<&'t ForeignKey> {
    let mut keys = table.foreign_keys.iter();
    keys.find(|key| key.columns == [column.to_owned()])
}

/// Returns the refusal of a value that has no form here.
fn refusal(name: &str, column: &str, unfit: Unfit, key: Option<&ForeignKey>) -> Failure {
    match (unfit, key) {
        (Unfit::Null, Some(key)) => Failure::new(format!(
            "{column} is NULL in a row, and every row here refers to one of {}",
            key.to_table
        ))
        .remedy(format!(
            "take the key over as a plain column with --unlinked {name}.{column} --null-as-empty"
        )),
        (Unfit::Null, None) => Failure::new(format!("{column} is NULL in a row"))
            .remedy("take over NULL as 0 or an empty text with --null-as-empty"),
        (Unfit::OtherType, _) => Failure::new(format!("{column} has a value of another type")),
        (Unfit::NotFinite, _) => Failure::new(format!(
            "{column} has a value that is no finite number, and none can be stored"
        )),
    }
}

fn is_unique(table: &CatalogTable, column: &str) -> bool {
    table.unique_keys.iter().any(|key| key == &[column])
}

/// Refuses a key to a column that refers to a table itself, because nothing here can refer to it.
fn refuse_chains(catalog: &Catalog) -> Result<(), Failure> {
    for (name, table) in catalog {
        for key in &table.foreign_keys {
            let ([from], [to]) = (key.columns.as_slice(), key.to_columns.as_slice()) else {
                continue;
            };
            let target = catalog.get(&key.to_table);
            if let Some(further) = target.and_then(|target| key_of(target, to)) {
                let (target, last) = (&key.to_table, &further.to_table);
                return Err(Failure::new(format!(
                    "{name}.{from} refers to {target}.{to}, which refers to {last} itself, and here nothing can refer to such a column"
                ))
                .remedy(format!(
                    "take that key over as a plain column with --unlinked {target}.{to}"
                )));
            }
        }
    }
    Ok(())
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
