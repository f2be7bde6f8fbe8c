//! `pocket query`: rows as a table, as CSV or as JSON.

use std::io::{self, StdoutLock};

use probity_pocketdb::{Error, Heading, Row, Sink, Statements, Value};
use probity_vault::{RowForm, VaultError, repeated};

use super::Place;
use super::schema::{ADVICE, is_of_schema};
use super::vault_failure::failure_of;
use crate::args::{PocketQuery, ShownFormat};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, rows_failed};
use crate::visible_text::Audience;

pub(super) fn run(args: &PocketQuery, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let mut statements = Statements::new(&args.sql);
    let (Some((_, statement)), None) = (statements.next(), statements.next()) else {
        return Err(Failure::usage("one SELECT is wanted")
            .remedy(place.named_in("run several statements with: probity pocket exec FILE SQL")));
    };
    let word = statement.split_whitespace().next().unwrap_or("");
    if !["SELECT", "EXPLAIN"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
    {
        let refused = format!("{} is not supported", word.to_ascii_uppercase());
        let remedy = if is_of_schema(&refused) {
            ADVICE
        } else {
            "run other statements with: probity pocket exec FILE SQL"
        };
        return Err(Failure::usage("a query begins with SELECT").remedy(place.named_in(remedy)));
    }
    let explained = args.explain && word.eq_ignore_ascii_case("SELECT");
    let text = if explained {
        format!("EXPLAIN {statement}")
    } else {
        statement.to_owned()
    };
    let format = if args.json {
        ShownFormat::Json
    } else {
        args.format
    };
    let mut vault = place.open(true)?;
    let mut shown = Shown::new(format);
    let ran = vault.execute(&text, &[], &mut shown);
    let failed = ran.err().map(|error| place.refused(error));
    place.close(vault)?;
    match (shown.finish(failed.is_none()), failed) {
        (Err(failure), _) | (Ok(()), Some(failure)) => Err(failure),
        (Ok(()), None) => Ok(Status::Done),
    }
}

/// A sink that writes rows to standard output.
struct Shown {
    form: Form,
    audience: Audience,
    names: Vec<String>,
    /// True once the heading of a CSV file is written: with the first row, or when the query has
    /// succeeded.
    headed: bool,
    failure: Option<Failure>,
}

enum Form {
    /// Columns are as wide as their widest cell, so all rows are kept until the last one.
    Table(Vec<Vec<String>>),
    Json(Output),
    Csv(Box<csv::Writer<StdoutLock<'static>>>),
}

impl Shown {
    fn new(format: ShownFormat) -> Self {
        let form = match format {
            ShownFormat::Table => Form::Table(Vec::new()),
            ShownFormat::Json => Form::Json(Output::new()),
            ShownFormat::Csv => Form::Csv(Box::new(csv::Writer::from_writer(io::stdout().lock()))),
        };
        Self {
            form,
            audience: Audience::of_stdout(),
            names: Vec::new(),
            headed: false,
            failure: None,
        }
    }

    /// Keeps the failure for the caller, because the engine's error cannot carry it.
    fn keep(&mut self, result: Result<(), Failure>) -> probity_pocketdb::Result<()> {
        result.map_err(|failure| {
            self.failure = Some(failure);
            Error::Receiver
        })
    }

    fn begin_form(&mut self) -> Result<(), Failure> {
        match &mut self.form {
            Form::Table(_) | Form::Csv(_) => Ok(()),
            Form::Json(_) => refuse_repeated(&self.names),
        }
    }

    fn head(&mut self) -> Result<(), Failure> {
        match &mut self.form {
            Form::Csv(writer) if !self.headed => {
                self.headed = true;
                writer.write_record(&self.names).map_err(csv_failure)
            }
            _ => Ok(()),
        }
    }

    fn show(&mut self, row: &Row<'_>) -> Result<(), Failure> {
        self.head()?;
        let cells = (0..row.len()).map(|number| row.value(number).to_string());
        match &mut self.form {
            Form::Table(rows) => {
                rows.push(cells.collect());
                Ok(())
            }
            Form::Json(output) => output.json_line(&RowForm::new(&self.names, row)),
            Form::Csv(writer) => {
                let audience = self.audience;
                let is_null = |number| matches!(row.value(number), Value::Null);
                let cells = cells.enumerate();
                let cells = cells.map(|(number, cell)| {
                    if is_null(number) {
                        String::new()
                    } else {
                        audience.cell(&cell).into_owned()
                    }
                });
                writer.write_record(cells).map_err(csv_failure)
            }
        }
    }

    /// Writes what is left; `complete` is true if the query succeeded.
    fn finish(mut self, complete: bool) -> Result<(), Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if complete && !self.names.is_empty() {
            self.head()?;
        }
        match self.form {
            Form::Table(rows) if self.names.is_empty() => {
                debug_assert!(rows.is_empty(), "rows come behind their heading");
                Ok(())
            }
            Form::Table(rows) => {
                let mut output = Output::new();
                output.wide_table(&self.names, rows.iter().map(Vec::as_slice))?;
                output.flush()
            }
            Form::Json(mut output) => output.flush(),
            Form::Csv(mut writer) => writer.flush().map_err(Failure::output),
        }
    }
}

impl Sink for Shown {
    fn begin(&mut self, columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        self.names = columns
            .iter()
            .map(|column| column.name.to_owned())
            .collect();
        let begun = self.begin_form();
        self.keep(begun)
    }

    fn row(&mut self, row: &Row<'_>) -> probity_pocketdb::Result<()> {
        let shown = self.show(row);
        self.keep(shown)
    }
}

fn csv_failure(error: csv::Error) -> Failure {
    Failure::output(rows_failed(error))
}

/// Refuses two columns of one name, which an object has once.
fn refuse_repeated(names: &[String]) -> Result<(), Failure> {
    match repeated(names).cloned() {
        Some(column) => Err(failure_of(&VaultError::RepeatedColumn { column })),
        None => Ok(()),
    }
}
