//! Import of rows of CSV and JSON files into one table.

use std::fmt;
use std::io::{BufReader, Read};

use probity_pocketdb::flash::Nand;
use probity_pocketdb::{Error, SecureStore, Store, Value, ValueType};
use serde_json::Value as Json;

use crate::error::{Reached, VaultError};
use crate::number::is_lost;
use crate::observer::Observer;
use crate::rows_file::{Closing, Document, Fields};
use crate::script::{NoRows, quoted};

/// The form of rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowsFormat {
    /// Comma-separated values (RFC 4180), whose first line names the columns.
    Csv,
    /// JSON objects, one after the other or in arrays; their members name the columns.
    Json,
}

impl fmt::Display for RowsFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "CSV",
            Self::Json => "JSON",
        })
    }
}

/// The reason why no more rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The input ended.
    Input,
    /// The observer asked to stop; the rows before it are whole.
    Stopped,
}

/// An import of rows into one table.
pub struct Import<'a, F: Nand, S: SecureStore> {
    store: &'a mut Store<F, S>,
    table: String,
    known: Vec<(String, ValueType)>,
    /// The columns of the current rows, as indexes into `known`.
    columns: Vec<usize>,
    statement: String,
    rows_per_commit: u32,
    pending: u32,
    committed: u64,
}

impl<'a, F: Nand, S: SecureStore> Import<'a, F, S> {
    /// Begins an import into `table`, which commits after every `rows_per_commit` rows; 0 counts as
    /// 1.
    ///
    /// # Errors
    /// [`VaultError::NoTable`].
    pub fn new(
        store: &'a mut Store<F, S>,
        table: &str,
        rows_per_commit: u32,
    ) -> Result<Self, VaultError> {
        let number = store.table(table).ok_or_else(|| VaultError::NoTable {
            table: table.to_owned(),
        })?;
        let columns = store.columns(number);
        let known = columns
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect();
        Ok(Self {
            store,
            table: table.to_owned(),
            known,
            columns: Vec::new(),
            statement: String::new(),
            rows_per_commit,
            pending: 0,
            committed: 0,
        })
    }

    /// Inserts the rows of `input`, and commits the last ones too. The observer is asked before each
    /// row whether to stop; what was taken until then is committed.
    ///
    /// # Errors
    /// [`VaultError::Malformed`] and [`VaultError::NoHeading`] for the file;
    /// [`VaultError::NoColumn`]; [`VaultError::Reached`] with the line or the object of a row that
    /// is refused. What [`Self::committed`] counts stays.
    pub fn read(
        &mut self,
        format: RowsFormat,
        input: impl Read,
        observer: &mut dyn Observer,
    ) -> Result<End, VaultError> {
        let end = match format {
            RowsFormat::Csv => self.csv(Closing::new(input), observer),
            RowsFormat::Json => self.json(input, observer),
        }?;
        self.commit()?;
        Ok(end)
    }

    /// Returns the number of rows that were committed so far.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// Sets the columns of the following rows.
    pub(crate) fn set_columns<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), VaultError> {
        let mut columns = Vec::new();
        for name in names {
            let mut known = self.known.iter();
            let found = known.position(|(own, _)| own.eq_ignore_ascii_case(name));
            columns.push(found.ok_or_else(|| VaultError::NoColumn {
                table: self.table.clone(),
                column: name.to_owned(),
            })?);
        }
        if columns != self.columns {
            let names = columns.iter().filter_map(|&column| self.known.get(column));
            let names: Vec<String> = names.map(|(name, _)| quoted(name)).collect();
            let marks = vec!["?"; columns.len()].join(", ");
            let (table, names) = (quoted(&self.table), names.join(", "));
            self.statement = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
            self.columns = columns;
        }
        Ok(())
    }

    /// Inserts one row, and commits after every `rows_per_commit` rows.
    pub(crate) fn row(&mut self, values: &[Value<'_>]) -> Result<(), VaultError> {
        if self.pending == 0 {
            self.execute("BEGIN", &[])?;
        }
        let statement = std::mem::take(&mut self.statement);
        let result = self.execute(&statement, values);
        self.statement = statement;
        result?;
        self.pending += 1;
        if self.pending >= self.rows_per_commit {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits the pending rows.
    pub(crate) fn commit(&mut self) -> Result<(), VaultError> {
        if self.pending > 0 {
            self.execute("COMMIT", &[])?;
            self.committed += u64::from(self.pending);
            self.pending = 0;
        }
        Ok(())
    }

    fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), VaultError> {
        let result = self.store.execute(text, values, &mut NoRows);
        result.map(drop).map_err(|error| match error {
            // The statement is not one that somebody wrote: its place is a column.
            Error::Sql { at, what } => {
                // The words name another column, which the file lacks.
                let is_another = what.ends_with(" has no value");
                let column = self.column_at(text, at).filter(|_| !is_another);
                VaultError::Row {
                    column: column.map(str::to_owned),
                    what,
                }
            }
            error => error.into(),
        })
    }

    /// Returns the column whose value is at byte `at` of the statement `text`.
    fn column_at(&self, text: &str, at: usize) -> Option<&str> {
        let number = text.get(..at)?.matches('?').count();
        let (name, _) = self.known.get(*self.columns.get(number)?)?;
        Some(name)
    }

    /// Parses `text` as a value of column `number` of the rows.
    fn parsed<'t>(&self, number: usize, text: &'t str) -> Result<Value<'t>, VaultError> {
        let column = self.columns.get(number).and_then(|&at| self.known.get(at));
        let (name, kind) = column.ok_or(VaultError::TooManyValues)?;
        let value = match kind {
            ValueType::Text => Some(Value::Text(text)),
            ValueType::Integer if text.is_empty() => Some(Value::Null),
            ValueType::Integer => text.parse().ok().map(Value::Integer),
            // Where the column refers to another one, an integer that no real number has is refused.
            ValueType::Real => match text.parse() {
                Ok(number) => Some(Value::Integer(number)),
                Err(_) => text.parse().ok().map(Value::Real),
            },
        };
        if matches!(value, Some(Value::Real(0.0))) && is_lost(text) {
            return Err(VaultError::TooSmall {
                column: name.clone(),
            });
        }
        value.ok_or_else(|| VaultError::NoNumber {
            column: name.clone(),
        })
    }

    fn csv(
        &mut self,
        input: Closing<impl Read>,
        observer: &mut dyn Observer,
    ) -> Result<End, VaultError> {
        let mut reader = csv::Reader::from_reader(input);
        let heading = reader.headers().cloned();
        let line = reader.get_mut().next_line();
        let heading = match heading {
            Ok(heading) => heading,
            Err(_) if observer.is_stopped() => return Ok(End::Stopped),
            Err(error) => return Err(malformed(error, None, line)),
        };
        if heading.is_empty() {
            return Err(VaultError::NoHeading);
        }
        self.set_columns(heading.iter().map(str::trim))?;
        let mut record = csv::StringRecord::new();
        for number in 1.. {
            let read = reader.read_record(&mut record);
            let line = reader.get_mut().next_line();
            match read {
                // A record that a signal cut short is none.
                _ if observer.is_stopped() => return Ok(End::Stopped),
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(malformed(error, Some(&heading), line)),
            }
            let cells = record.iter().enumerate();
            let values: Result<Vec<_>, _> = cells
                .map(|(number, cell)| self.parsed(number, cell))
                .collect();
            values
                .and_then(|values| self.row(&values))
                .map_err(|error| error.at(Reached::Line(line)))?;
            observer.took(number);
        }
        Ok(End::Input)
    }

    fn json(&mut self, input: impl Read, observer: &mut dyn Observer) -> Result<End, VaultError> {
        let input = BufReader::new(input);
        let mut number = 0u64;
        for document in serde_json::Deserializer::from_reader(input).into_iter() {
            if observer.is_stopped() {
                return Ok(End::Stopped);
            }
            let Document(rows) =
                document.map_err(|error: serde_json::Error| VaultError::Malformed {
                    format: RowsFormat::Json,
                    source: error.into(),
                })?;
            for row in &rows {
                if observer.is_stopped() {
                    return Ok(End::Stopped);
                }
                number += 1;
                self.json_row(row)
                    .map_err(|error| error.at(Reached::Object(number)))?;
                observer.took(number);
            }
        }
        // An input that ends because of the signal is not known to be whole.
        if observer.is_stopped() {
            return Ok(End::Stopped);
        }
        Ok(End::Input)
    }

    fn json_row(&mut self, Fields(fields): &Fields) -> Result<(), VaultError> {
        self.set_columns(fields.iter().map(|(name, _)| name.as_str()))?;
        let mut values = Vec::with_capacity(fields.len());
        for (name, field) in fields {
            let value = match field {
                Json::Null => Some(Value::Null),
                Json::String(text) => Some(Value::Text(text)),
                Json::Number(number) => match number.as_i64() {
                    Some(number) => Some(Value::Integer(number)),
                    // A real column keeps it as the nearest real number, an integer one refuses it.
                    None => number.as_f64().map(Value::Real),
                },
                Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
            };
            values.push(value.ok_or_else(|| VaultError::NoScalar {
                column: name.clone(),
            })?);
        }
        self.row(&values)
    }
}

/// Returns the error for a row of a CSV file that is not read. The reader's own words have a line that
/// may be another one.
fn malformed(error: csv::Error, heading: Option<&csv::StringRecord>, line: u64) -> VaultError {
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("it has {len} values, and the heading {expected_len}"),
        csv::ErrorKind::Utf8 { err, .. } => match heading.and_then(|it| it.get(err.field())) {
            Some(column) => format!("the value of {column} is not UTF-8"),
            None => "a name of the heading is not UTF-8".to_owned(),
        },
        // Such an error has its place in its words.
        _ => {
            return VaultError::Malformed {
                format: RowsFormat::Csv,
                source: error.into(),
            };
        }
    };
    let malformed = VaultError::Malformed {
        format: RowsFormat::Csv,
        source: what.into(),
    };
    malformed.at(Reached::Line(line))
}
