//! Taking over the tables and rows of another database.

mod column;
mod heirs;
mod keys;
mod losses;
mod target;
mod unique;
mod weakened;
mod width;

use probity_disguise::database::{Catalog, CatalogTable, Property};
use probity_disguise::{Column, Database, Value as Found, is_own_table};
use probity_pocketdb::flash::Nand;
use probity_pocketdb::limits::KEY_BYTES_MAX;
use probity_pocketdb::{Error as PocketError, SecureStore, Store};

use self::column::{Form, Measure, Unfit};
pub use self::heirs::LeftOutHeir;
use self::heirs::left_out_heirs;
pub use self::keys::CutKey;
use self::keys::{in_order, key_of, link, refuse_chains, refuse_two_paths, refuse_two_targets};
use self::losses::{Keys, ask, ask_each, keys_elsewhere, refuse_losses};
use self::target::Target;
use self::unique::{UniqueKey, unique_keys};
pub use self::weakened::Weakened;
use self::weakened::weakened;
use self::width::{bytes_of, explained, refuse_wide};
use crate::error::{Loss, Reached, VaultError};
use crate::import::Import;
use crate::observer::Observer;
use crate::script::{quoted, run_script};

/// Rows that are committed together.
const ROWS_AT_ONCE: u32 = 64;

/// The parts of another database to take over, and how. By default that is everything but the
/// tables of disguises, and nothing may be lost.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TakeoverOptions {
    /// The tables to take over; all of them where none is named, but for those that disguises make.
    pub tables: Vec<String>,
    /// The columns to index, as `TABLE.COLUMN`.
    pub indexes: Vec<String>,
    /// The columns whose foreign keys are left out, as `TABLE.COLUMN`; each has a foreign key of
    /// its own.
    pub unlinked: Vec<String>,
    /// The tables to take over without what cannot be kept of them: generated columns, unique keys,
    /// and numbers beside texts.
    pub plain: Vec<String>,
    /// True to take over NULL as 0 or an empty text, except where it refers to no row.
    pub null_as_empty: bool,
}

/// A takeover of the tables and rows of another database.
pub struct Takeover {
    database: Box<dyn Database>,
    catalog: Catalog,
    options: TakeoverOptions,
    cut_keys: Vec<CutKey>,
    left_out: Vec<String>,
    left_out_heirs: Vec<LeftOutHeir>,
    weakened: Vec<Weakened>,
}

impl Takeover {
    /// Begins to read `database`, in a transaction of its own, and refuses what the options leave
    /// no way to keep.
    ///
    /// # Errors
    /// [`VaultError::Source`]; [`VaultError::NoTables`]; [`VaultError::NoSourceTable`], [`VaultError::NoIndexedColumn`],
    /// [`VaultError::NoForeignKey`] and [`VaultError::NoPlainTable`] where an option names what is
    /// not there; [`VaultError::TooManyTables`], [`VaultError::Name`], [`VaultError::HiddenColumns`] and
    /// [`VaultError::Lost`].
    pub fn new(
        mut database: Box<dyn Database>,
        options: TakeoverOptions,
    ) -> Result<Self, VaultError> {
        let failed = |error| VaultError::Source(Box::new(error));
        // One snapshot serves schema, lengths, counts and rows.
        database.begin_reading().map_err(failed)?;
        let mut catalog = database.catalog().map_err(failed)?;
        for wanted in &options.tables {
            if !catalog.contains_key(wanted) {
                return Err(VaultError::NoSourceTable {
                    table: wanted.clone(),
                });
            }
        }
        // Tables of the disguises mean nothing in another database; only naming them imports them.
        let mut left_out = Vec::new();
        catalog.retain(|name, _| match options.tables.as_slice() {
            [] if is_own_table(name) => {
                left_out.push(name.clone());
                false
            }
            [] => true,
            named => named.contains(name),
        });
        // An empty copy would pass for the data.
        if catalog.is_empty() {
            return Err(VaultError::NoTables);
        }
        for index in &options.indexes {
            let column = index.split_once('.');
            let found = column.and_then(|(table, column)| catalog.get(table)?.column(column));
            if found.is_none() {
                return Err(VaultError::NoIndexedColumn {
                    column: index.clone(),
                });
            }
        }
        let mut hiding = catalog.iter();
        if let Some((table, _)) = hiding.find(|(_, it)| it.has(Property::HidesColumns)) {
            return Err(VaultError::HiddenColumns {
                table: table.clone(),
            });
        }
        let mut elsewhere = Vec::new();
        for name in catalog.keys() {
            elsewhere.extend(keys_elsewhere(database.as_mut(), name)?);
        }
        let cut_keys = link(&mut catalog, elsewhere, &options.unlinked)?;
        let keys = note_unique_keys(database.as_mut(), &mut catalog)?;
        refuse_losses(database.as_mut(), (&catalog, &keys), &options.plain)?;
        let weakened = weakened(database.as_mut(), (&catalog, &keys), &options.plain)?;
        let left_out_heirs = left_out_heirs(database.as_mut(), &catalog)?;
        Ok(Self {
            database,
            catalog,
            options,
            cut_keys,
            left_out,
            left_out_heirs,
            weakened,
        })
    }

    /// The tables that are not taken over because disguises made them.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The tables that inherit from such as are taken over, and are not taken over themselves.
    pub fn left_out_heirs(&self) -> &[LeftOutHeir] {
        &self.left_out_heirs
    }

    /// The rules of tables that are not kept, or not as strict, without a refusal.
    pub fn weakened(&self) -> &[Weakened] {
        &self.weakened
    }

    /// The foreign keys that lead to tables which are not taken over, but for the unlinked ones. Their
    /// columns become plain ones.
    pub fn cut_keys(&self) -> &[CutKey] {
        &self.cut_keys
    }

    /// Creates every table in `store` and inserts its rows, referenced tables first. Two passes
    /// read the same, for the snapshot is one: the first finds how long texts are. Rows are
    /// committed 64 at a time; the observer is told of each row of the second pass.
    ///
    /// # Errors
    /// [`VaultError::Circle`], [`VaultError::TwoTargets`], [`VaultError::KeyOfKey`],
    /// [`VaultError::TwoPaths`] and [`VaultError::CompoundKey`] for foreign keys;
    /// [`VaultError::Lost`] for a key that is too wide; [`VaultError::Reached`] with the table whose
    /// definition is refused or the row that is; [`VaultError::Changed`]; [`VaultError::Query`] and
    /// [`VaultError::NotUtf8`]. What was committed before stays.
    pub fn run<F: Nand, S: SecureStore>(
        mut self,
        store: &mut Store<F, S>,
        observer: &mut dyn Observer,
    ) -> Result<(), VaultError> {
        let order = in_order(&self.catalog)?;
        refuse_two_targets(&self.catalog)?;
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
            run_script(store, &statement).map_err(|error| {
                explained(error, (&name, &table), &measure).at(Reached::Table(name.clone()))
            })?;
            let import = Import::new(store, &name, ROWS_AT_ONCE)?;
            let taken = self.rows(&rows, (&name, &table), import, observer)?;
            self.check_count((&name, &table), [measure.rows, taken])?;
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
        let mut sql = format!("SELECT {columns} FROM {}", self.source(name, table));
        if !table.primary_key.is_empty() {
            sql.push_str(" ORDER BY ");
            sql.push_str(&list(&mut table.primary_key.iter()));
        }
        sql
    }

    /// Returns a table as a query names it. Rows of heirs are those of their own tables.
    fn source(&self, name: &str, table: &CatalogTable) -> String {
        let quoted = self.database.dialect().quote(name);
        if table.has_heirs {
            format!("ONLY {quoted}")
        } else {
            quoted
        }
    }

    /// Refuses a table whose rows were not all read, or some twice.
    fn check_count(
        &mut self,
        (name, table): (&str, &CatalogTable),
        read: [u64; 2],
    ) -> Result<(), VaultError> {
        let from = self.source(name, table);
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
        Err(VaultError::Changed {
            table: name.to_owned(),
            read,
            counted,
        })
    }

    /// Returns the statement that creates the table here.
    fn definition(
        &self,
        name: &str,
        table: &CatalogTable,
        measure: &Measure,
    ) -> Result<String, VaultError> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        let is_plain = self.options.plain.iter().any(|plain| plain == name);
        for (number, column) in table.columns.iter().enumerate() {
            let form = self.form(column);
            let is_key = table.primary_key == [column.name.clone()];
            let longest = measure.longest(number);
            // The length of a column that refers to another one is that one's.
            let is_wide = matches!(form, Form::Decimal | Form::Text)
                && longest > KEY_BYTES_MAX
                && key_of(table, &column.name).is_none();
            if is_wide && !is_plain && (is_key || is_unique(table, &column.name)) {
                return Err(VaultError::Lost {
                    table: name.to_owned(),
                    losses: vec![Loss::WideKey {
                        column: column.name.clone(),
                        longest,
                        most: KEY_BYTES_MAX,
                    }],
                });
            }
            let kind = match form {
                Form::Integer | Form::Boolean => "INTEGER".to_owned(),
                Form::Real => "REAL".to_owned(),
                Form::Decimal | Form::Text => format!("TEXT({longest})"),
            };
            let mut part = format!("{} {kind}", quoted(&column.name));
            let index = format!("{name}.{}", column.name);
            let refers = key_of(table, &column.name).is_some();
            let position =
                is_key && !refers && form == Form::Integer && measure.is_position(number);
            if !refers && !position {
                bytes += bytes_of(form, longest);
            }
            if is_key && !(is_plain && is_wide) {
                part.push_str(if position { " PRIMARY KEY" } else { " UNIQUE" });
            } else if is_unique(table, &column.name) && !is_plain {
                part.push_str(" UNIQUE");
            } else if self.options.indexes.contains(&index) {
                part.push_str(" INDEXED");
            }
            parts.push(part);
        }
        refuse_wide(&self.catalog, (name, table), measure, bytes)?;
        for key in &table.foreign_keys {
            let ([from], [to]) = (key.columns.as_slice(), key.to_columns.as_slice()) else {
                return Err(VaultError::CompoundKey {
                    columns: format!("{name}.{}", key.columns.join("+")),
                });
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
    fn rows<F: Nand, S: SecureStore>(
        &mut self,
        sql: &str,
        (name, table): (&str, &CatalogTable),
        mut import: Import<'_, F, S>,
        observer: &mut dyn Observer,
    ) -> Result<u64, VaultError> {
        let named = import.set_columns(table.columns.iter().map(|column| column.name.as_str()));
        let forms = table.columns.iter().map(|column| self.form(column));
        let forms: Vec<Form> = forms.collect();
        let targets = Target::of_columns(self.database.as_mut(), &self.catalog, table)?;
        let null_as_empty = self.options.null_as_empty;
        let mut taken = 0u64;
        let read = named.and_then(|()| {
            ask_each(self.database.as_mut(), sql, |found| {
                taken += 1;
                let number = taken;
                let at = || Reached::Row {
                    number,
                    table: name.to_owned(),
                };
                let texts: Vec<String> = found.iter().map(Form::text).collect();
                let mut values = Vec::with_capacity(found.len());
                let columns = table.columns.iter().zip(&forms).zip(&targets);
                for ((cell, text), ((column, form), target)) in
                    found.iter().zip(&texts).zip(columns)
                {
                    let value = match form.value(cell, text) {
                        Err(Unfit::Null) if null_as_empty && target.is_none() => Ok(form.empty()),
                        Err(unfit) => Err(refusal((name, table), &column.name, unfit)),
                        Ok(value) => match target {
                            Some(target) => target
                                .key(cell, value, text)
                                .ok_or_else(|| target.refusal(format!("{name}.{}", column.name))),
                            None => Ok(value),
                        },
                    };
                    values.push(value.map_err(|refused| refused.at(at()))?);
                }
                let inserted = import.row(&values);
                inserted.map_err(|error| of_key((name, table), error).at(at()))?;
                observer.took(taken);
                Ok(())
            })
        });
        match read.and_then(|()| import.commit()) {
            Ok(()) => Ok(taken),
            Err(error @ VaultError::Reached { .. }) => Err(error),
            Err(error) => Err(error.at(Reached::Rows(name.to_owned()))),
        }
    }
}

/// Names the foreign keys of a row that may have been refused for them.
fn of_key((name, table): (&str, &CatalogTable), error: VaultError) -> VaultError {
    let VaultError::Pocket(PocketError::Key(what)) = &error else {
        return error;
    };
    let keys = table.foreign_keys.iter();
    let keys = keys.filter(|key| what.starts_with(&format!("{} has no row ", key.to_table)));
    let columns: Vec<String> = keys
        .map(|key| format!("{name}.{}", key.columns.join("+")))
        .collect();
    match columns.as_slice() {
        [] => error,
        _ => VaultError::NotReferred {
            columns,
            what: what.clone(),
        },
    }
}

/// Returns the unique keys of every table. Those on whole columns are noted in `catalog`, which lacks
/// such as are compared otherwise than their columns.
fn note_unique_keys(
    database: &mut dyn Database,
    catalog: &mut Catalog,
) -> Result<Keys, VaultError> {
    let mut found = Keys::new();
    for (name, table) in catalog {
        let keys = unique_keys(database, name)?;
        for columns in keys.iter().filter_map(UniqueKey::columns) {
            if !table.unique_keys.contains(&columns) {
                table.unique_keys.push(columns);
            }
        }
        found.insert(name.clone(), keys);
    }
    Ok(found)
}

/// Returns the refusal of a value that has no form here.
fn refusal((name, table): (&str, &CatalogTable), column: &str, unfit: Unfit) -> VaultError {
    let is_unique = is_unique(table, column);
    let key = key_of(table, column);
    let column = column.to_owned();
    match unfit {
        Unfit::Null => VaultError::Null {
            table: name.to_owned(),
            column,
            refers_to: key.map(|key| key.to_table.clone()),
            is_unique,
        },
        Unfit::OtherType => VaultError::OtherType { column },
        Unfit::NotFinite => VaultError::NotFinite { column },
        Unfit::TooSmall => VaultError::TooSmall { column },
    }
}

fn is_unique(table: &CatalogTable, column: &str) -> bool {
    table.unique_keys.iter().any(|key| key == &[column])
}
