//! Commands that look before anything is changed: `draft`, `check`, `plan`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use probity_disguise::{Error, PlannedStep, SpecFile, Value};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::{AnyEngine, described, of_all_tenants, of_tenant, open, read, refused, unfit};
use crate::args::{Check, DatabaseChoice, Draft, Plan, SpecChoice};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};
use crate::output_file::{Existing, OutputFile};

/// Number of placeholders that a check inserts and rolls back.
const PLACEHOLDERS_TRIED: u64 = 2;

#[derive(Serialize)]
struct Checked<'a> {
    tables: Vec<&'a str>,
    /// Number of placeholder users that were inserted and rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    placeholders_tried: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crossings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<String>,
}

#[derive(Serialize)]
struct Planned<'a> {
    steps: Vec<StepForm<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<String>,
}

#[derive(Serialize)]
struct StepForm<'a> {
    table: &'a str,
    action: &'a str,
    rows: u64,
    placeholders: u64,
    statement: &'a str,
    access: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedForm<'a>>,
}

/// A table and the number of its rows whose removal would be refused.
#[derive(Serialize)]
struct RefusedForm<'a> {
    table: &'a str,
    columns: &'a [String],
    rows: u64,
}

pub(super) fn draft(args: &Draft, environment: &Environment) -> Result<Status, Failure> {
    of_all_tenants(&args.database)?;
    let mut database = open(&args.database, environment)?;
    let made =
        probity_disguise::draft(&mut database, args.users.as_deref()).map_err(
            |error| match error {
                Error::Spec(_) => refused(error).remedy("name the users table with --users TABLE"),
                other => refused(other),
            },
        )?;
    let Some(path) = &args.output else {
        let mut output = Output::new();
        output.text(made.text.trim_end())?;
        output.text("\n")?;
        output.flush()?;
        return Ok(Status::Done);
    };
    let failed = |error| Failure::file("write", path, error);
    let mut file = OutputFile::begin(path, Existing::of(args.overwrite)).map_err(failed)?;
    file.write_all(made.text.as_bytes()).map_err(failed)?;
    file.finish().map_err(failed)?;
    let mut output = Output::after("the draft was written");
    output.line(&format!(
        "a draft is in {}: read every line",
        path.display()
    ))?;
    output.flush()?;
    Ok(Status::Done)
}

/// A specification with its engine and the values of its parameters.
pub(super) struct Ready {
    pub(super) engine: AnyEngine,
    pub(super) file: SpecFile,
    pub(super) parameters: BTreeMap<String, Value>,
}

/// Reads a specification and makes the engine for it.
pub(super) fn ready(
    choice: &SpecChoice,
    database: &DatabaseChoice,
    environment: &Environment,
) -> Result<Ready, Failure> {
    let file = read(Some(&choice.spec), SpecFile::parse)?.unwrap_or_default();
    let connection = open(database, environment)?;
    let engine = described(connection, Some(&file), &choice.description)?.ok_or_else(|| {
        Failure::new("nothing says who the users are")
            .remedy("add [users] to the specification, or give --pseudo FILE")
    })?;
    Ok(Ready {
        engine: of_tenant(engine, database)?,
        parameters: parameters(&choice.set),
        file,
    })
}

/// Parses the values of parameters.
pub(super) fn parameters(set: &[(String, String)]) -> BTreeMap<String, Value> {
    let set = set.iter();
    set.map(|(name, value)| (name.clone(), parameter(value)))
        .collect()
}

/// Parses a number if possible, because databases compare texts and numbers differently.
fn parameter(text: &str) -> Value {
    text.parse()
        .map_or_else(|_text| Value::from(text), Value::Int)
}

pub(super) fn check(args: &Check, environment: &Environment) -> Result<Status, Failure> {
    let mut ready = ready(&args.spec, &args.database, environment)?;
    let user = user_of(&mut ready.engine, args.user.as_deref(), &args.spec.spec)?;
    // A plan checks everything against the database, where a check alone would trust the file.
    ready
        .engine
        .preview()
        .plan(&ready.file.spec, user.as_ref(), &ready.parameters)
        .map_err(unfit(&args.spec.spec))?;
    let crossings = ready
        .engine
        .preview()
        .cross_tenant_keys()
        .map_err(unfit(&args.spec.spec))?;
    let cautions = ready.engine.preview().cautions(&ready.file.spec);
    let mut cautions = cautions.map_err(unfit(&args.spec.spec))?;
    let mut placeholders_tried = None;
    if args.attempt {
        let untried = ready
            .engine
            .preview()
            .try_placeholder(SystemClock::new().now());
        let untried = untried.map_err(unfit(&args.spec.spec))?;
        placeholders_tried = untried.is_none().then_some(PLACEHOLDERS_TRIED);
        cautions.extend(untried);
    }
    let rowless = ready.engine.preview().caution_of_rowless();
    cautions.extend(rowless.map_err(refused)?);
    if user.is_none() {
        cautions.extend(of_nobody(&mut ready, &args.spec.spec)?);
    }
    let refusals = ready
        .engine
        .preview()
        .foretell(&ready.file.spec, user.as_ref(), &ready.parameters)
        .map_err(unfit(&args.spec.spec))?;
    let tables = ready.file.spec.tables();
    let mut output = Output::new();
    if args.json {
        output.json(&Checked {
            tables,
            placeholders_tried,
            crossings,
            cautions,
            refusals,
        })?;
    } else {
        output.line(&match tables.as_slice() {
            [] => "the specification fits, and changes no table".to_owned(),
            tables => format!("the specification fits: {}", tables.join(", ")),
        })?;
        if placeholders_tried.is_some() {
            output.line("  tried: two placeholder users were inserted and rolled back")?;
        }
        for note in crossings.iter().chain(&cautions) {
            output.line(&format!("  note: {note}"))?;
        }
        print_refusals(&refusals, &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// Returns what there is to know of rows that name nobody.
fn of_nobody(ready: &mut Ready, spec: &Path) -> Result<Vec<String>, Failure> {
    let engine = &mut ready.engine;
    let told = engine
        .preview()
        .cautions_of_nobody(&ready.file.spec, &ready.parameters);
    told.map_err(unfit(spec))
}

/// Prints what would be refused at this moment.
fn print_refusals(refusals: &[String], output: &mut Output) -> Result<(), Failure> {
    for it in refusals {
        output.line(&format!("  refused if it were applied now: {it}"))?;
    }
    Ok(())
}

pub(super) fn user_of(
    engine: &mut AnyEngine,
    text: Option<&str>,
    spec: &Path,
) -> Result<Option<Value>, Failure> {
    text.map(|text| engine.user(text).map_err(unfit(spec)))
        .transpose()
}

pub(super) fn plan(args: &Plan, environment: &Environment) -> Result<Status, Failure> {
    let mut ready = ready(&args.spec, &args.database, environment)?;
    let user = user_of(&mut ready.engine, args.user.as_deref(), &args.spec.spec)?;
    let steps = ready
        .engine
        .preview()
        .plan(&ready.file.spec, user.as_ref(), &ready.parameters)
        .map_err(unfit(&args.spec.spec))?;
    let refusals = ready
        .engine
        .preview()
        .foretell(&ready.file.spec, user.as_ref(), &ready.parameters)
        .map_err(unfit(&args.spec.spec))?;
    let mut cautions = Vec::new();
    if user.is_none() {
        let everybody = ready.engine.preview().caution_of_everybody();
        cautions.extend(everybody.map_err(unfit(&args.spec.spec))?);
        cautions.extend(of_nobody(&mut ready, &args.spec.spec)?);
    }
    let mut output = Output::new();
    if args.json {
        output.json(&Planned {
            steps: steps.iter().map(form).collect(),
            cautions,
            refusals,
        })?;
    } else {
        for step in &steps {
            print(step, &mut output)?;
        }
        for note in &cautions {
            output.line(&format!("  note: {note}"))?;
        }
        print_refusals(&refusals, &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn form(step: &PlannedStep) -> StepForm<'_> {
    let refused = step.refused.iter().map(|it| RefusedForm {
        table: &it.table,
        columns: &it.columns,
        rows: it.rows,
    });
    StepForm {
        table: &step.table,
        action: step.action,
        rows: step.rows,
        placeholders: step.placeholders,
        statement: &step.statement,
        access: &step.access,
        refused: refused.collect(),
    }
}

fn print(step: &PlannedStep, output: &mut Output) -> Result<(), Failure> {
    let rows = counted(step.rows, "row", "rows");
    let more = match step.placeholders {
        0 => String::new(),
        count => format!(", {}", counted(count, "placeholder", "placeholders")),
    };
    output.line(&format!("{} {}: {rows}{more}", step.action, step.table))?;
    output.line(&format!("  {}", step.statement))?;
    for line in &step.access {
        output.line(&format!("  {line}"))?;
    }
    Ok(())
}
