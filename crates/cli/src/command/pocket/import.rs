//! `pocket import`: rows of a CSV or JSON file.

use std::io::{self, Read};
use std::path::Path;

use probity_pocketdb::{Error, Value, ValueType};
use serde::Serialize;
use serde_json::Value as Json;

use super::change::NoRows;
use super::rows_file::{Closing, Document, Fields};
use super::{Place, Vault};
use crate::args::{PocketImport, RowsFormat};
use crate::command::input::Input;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::output::{Output, counted};
use crate::progress::Progress;

#[derive(Serialize)]
struct Imported<'a> {
    table: &'a str,
    rows: u64,
}

pub(super) fn run(args: &PocketImport, environment: &Environment) -> Result<Status, Failure> {
    let format = args.format.unwrap_or_else(|| format_of(&args.rows));
    interruption::end_gracefully()?;
    let input = Input::open(&args.rows)?;
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let mut import = Import::new(&place, &mut vault, &args.table, args.rows_per_commit)?;
    let ran = match format {
        RowsFormat::Csv => import.csv(Closing::new(input)),
        RowsFormat::Json => import.json(input),
    };
    let ran = ran.and_then(|end| import.commit().map(|()| end));
    import.progress.clear();
    let rows = import.committed;
    let kept = counted(rows, "row was imported", "rows were imported");
    let ran = ran.map_err(|failure| failure.after(&kept));
    if place.close_after(vault, ran, |_| kept.clone())? == End::Stopped {
        return Err(Failure::new("a signal asked to stop")
            .after(&kept)
            .remedy("leave these rows out of the input and run the same command again"));
    }
    let mut output = Output::new();
    if args.json {
        let table = &args.table;
        output.json(&Imported { table, rows })?;
    } else {
        let rows = counted(rows, "row", "rows");
        output.line(&format!("imported {rows} into {}", args.table))?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn format_of(path: &Path) -> RowsFormat {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("json" | "jsonl") => RowsFormat::Json,
        _ => RowsFormat::Csv,
    }
}

/// The reason why no more rows are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The input ended.
    Input,
    /// A signal asked to stop; the rows before it are whole.
    Stopped,
}

/// An import of rows into one table.
pub(super) struct Import<'a> {
    place: &'a Place,
    vault: &'a mut Vault,
    table: String,
    known: Vec<(String, ValueType)>,
    /// The columns of the current rows, as indexes into `known`.
    columns: Vec<usize>,
    statement: String,
    rows_per_commit: u32,
    pending: u32,
    committed: u64,
    progress: Progress,
}

impl<'a> Import<'a> {
    pub(super) fn new(
        place: &'a Place,
        vault: &'a mut Vault,
        table: &str,
        rows_per_commit: u32,
    ) -> Result<Self, Failure> {
        let number = vault.table(table).ok_or_else(|| {
            Failure::new(format!("there is no table {table}"))
                .remedy("see the tables with: probity pocket stats FILE")
        })?;
        let columns = vault.columns(number);
        let known = columns
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect();
        Ok(Self {
            place,
            vault,
            table: table.to_owned(),
            known,
            columns: Vec::new(),
            statement: String::new(),
            rows_per_commit,
            pending: 0,
            committed: 0,
            progress: Progress::new("rows"),
        })
    }

    /// Returns the name of the table.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// Sets the columns of the following rows.
    pub(super) fn set_columns<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), Failure> {
        let mut columns = Vec::new();
        for name in names {
            let mut known = self.known.iter();
            let found = known.position(|(own, _)| own.eq_ignore_ascii_case(name));
            columns.push(found.ok_or_else(|| {
                Failure::new(format!("the table {} has no column {name}", self.table))
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
    pub(super) fn row(&mut self, values: &[Value<'_>]) -> Result<(), Failure> {
        if self.pending == 0 {
            self.execute("BEGIN", &[])?;
        }
        let statement = std::mem::take(&mut self.statement);
        let result = self.execute(&statement, values);
        self.statement = statement;
        result?;
        self.pending += 1;
        self.progress.add_one();
        if self.pending >= self.rows_per_commit {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits the pending rows.
    pub(super) fn commit(&mut self) -> Result<(), Failure> {
        if self.pending > 0 {
            self.execute("COMMIT", &[])?;
            self.committed += u64::from(self.pending);
            self.pending = 0;
        }
        Ok(())
    }

    fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        let result = self.vault.execute(text, values, &mut NoRows);
        result.map(drop).map_err(|error| match error {
            // The statement is not one that somebody wrote: its place is a column.
            Error::Sql { at, what } => {
                let place = match self.column_at(text, at) {
                    // The words name another column, which the file lacks.
                    _ if what.ends_with(" has no value") => String::new(),
                    Some(column) => format!(", in the column {column}"),
                    None => String::new(),
                };
                Failure::new("the pocket database refuses").because(format!("{what}{place}"))
            }
            error => self.place.refused(error),
        })
    }

    /// Returns the column whose value is at byte `at` of the statement `text`.
    fn column_at(&self, text: &str, at: usize) -> Option<&str> {
        let number = text.get(..at)?.matches('?').count();
        let (name, _) = self.known.get(*self.columns.get(number)?)?;
        Some(name)
    }

    /// Parses `text` as a value of column `number` of the rows.
    fn parsed<'t>(&self, number: usize, text: &'t str) -> Result<Value<'t>, Failure> {
        let column = self.columns.get(number).and_then(|&at| self.known.get(at));
        let (name, kind) = column.ok_or_else(|| Failure::new("the row has too many values"))?;
        let value = match kind {
            ValueType::Text => Some(Value::Text(text)),
            ValueType::Integer if text.is_empty() => Some(Value::Null),
            ValueType::Integer => text.parse().ok().map(Value::Integer),
            ValueType::Real => text.parse().ok().map(Value::Real),
        };
        value.ok_or_else(|| Failure::new(format!("the value of {name} is no number")))
    }

    fn csv(&mut self, input: impl Read) -> Result<End, Failure> {
        let mut reader = csv::Reader::from_reader(input);
        let malformed =
            |error: csv::Error| Failure::new("the CSV file is malformed").because(error);
        let heading = match reader.headers() {
            Ok(heading) => heading.clone(),
            Err(_) if interruption::is_stopped() => return Ok(End::Stopped),
            Err(error) => return Err(malformed(error)),
        };
        if heading.is_empty() {
            return Err(Failure::new("the CSV file is empty")
                .remedy("give it a first line with the names of the columns"));
        }
        self.set_columns(heading.iter().map(str::trim))?;
        let mut record = csv::StringRecord::new();
        loop {
            match reader.read_record(&mut record) {
                // A record that a signal cut short is none.
                _ if interruption::is_stopped() => return Ok(End::Stopped),
                Ok(true) => {}
                Ok(false) => return Ok(End::Input),
                Err(error) => return Err(malformed(error)),
            }
            let line = record.position().map_or(0, csv::Position::line);
            let cells = record.iter().enumerate();
            let values: Result<Vec<_>, _> = cells
                .map(|(number, cell)| self.parsed(number, cell))
                .collect();
            values
                .and_then(|values| self.row(&values))
                .map_err(|failure| failure.after(&format!("line {line} was reached")))?;
        }
    }

    fn json(&mut self, input: impl Read) -> Result<End, Failure> {
        let input = io::BufReader::new(input);
        let mut number = 0u64;
        for document in serde_json::Deserializer::from_reader(input).into_iter() {
            if interruption::is_stopped() {
                return Ok(End::Stopped);
            }
            let Document(rows) = document
                .map_err(|error| Failure::new("the JSON file is malformed").because(error))?;
            for row in &rows {
                if interruption::is_stopped() {
                    return Ok(End::Stopped);
                }
                number += 1;
                self.json_row(row)
                    .map_err(|failure| failure.after(&format!("object {number} was reached")))?;
            }
        }
        // An input that ends because of the signal is not known to be whole.
        if interruption::is_stopped() {
            return Ok(End::Stopped);
        }
        Ok(End::Input)
    }

    fn json_row(&mut self, Fields(fields): &Fields) -> Result<(), Failure> {
        self.set_columns(fields.iter().map(|(name, _)| name.as_str()))?;
        let mut values = Vec::with_capacity(fields.len());
        for (name, field) in fields {
            let value = match field {
                Json::Null => Some(Value::Null),
                Json::String(text) => Some(Value::Text(text)),
                Json::Number(number) => match number.as_i64() {
                    Some(number) => Some(Value::Integer(number)),
                    None => number
                        .as_f64()
                        .filter(|_| !number.is_u64())
                        .map(Value::Real),
                },
                Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
            };
            let refused = || Failure::new(format!("the value of {name} is no text and no number"));
            values.push(value.ok_or_else(refused)?);
        }
        self.row(&values)
    }
}

/// Returns `name` as a quoted identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
