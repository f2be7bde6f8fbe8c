//! Output of results: a table for people, JSON and CSV for programs, and a plot.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::command::{BenchError, OutputArguments, Preset};
use crate::ingest::Outcome;
use crate::plot::{Bar, Legend, bars};

/// The names of the bars of ingestion.
const LEGEND: Legend<'_> = Legend {
    unit: "million entries a second",
    value: "the log",
    ceiling: Some("the bare compressor and cipher"),
};

/// The results to write.
pub(crate) struct Output<'a> {
    pub(crate) results: &'a [Outcome],
    pub(crate) preset: Option<Preset>,
}

/// Writes `output` in every form that `arguments` request.
pub(crate) fn write(
    output: &Output<'_>,
    arguments: &OutputArguments,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let rows: Vec<Value> = output.results.iter().map(row).collect();
    let bars: Vec<Bar> = output
        .results
        .iter()
        .map(|result| Bar {
            label: result.setting.name.clone(),
            value: result.entries_per_second() / 1e6,
            ceiling: result.ceiling_entries_per_second / 1e6,
        })
        .collect();
    let title = match output.preset {
        Some(preset) => format!("Ingestion, preset {preset:?}"),
        None => "Ingestion".to_owned(),
    };
    let document = Document {
        rows: &rows,
        bars: &bars,
        title: &title,
        legend: LEGEND,
    };
    write_document(&document, arguments, out, &|out| table(output.results, out))
}

/// Results in every form but the table.
pub(crate) struct Document<'a> {
    /// One object per result, all with the same fields.
    pub(crate) rows: &'a [Value],
    pub(crate) bars: &'a [Bar],
    pub(crate) title: &'a str,
    pub(crate) legend: Legend<'a>,
}

/// Writes `document` in every form that `arguments` request; `table` writes the table.
pub(crate) fn write_document(
    document: &Document<'_>,
    arguments: &OutputArguments,
    out: &mut dyn Write,
    table: &dyn Fn(&mut dyn Write) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    if arguments.json {
        writeln!(out, "{}", json!({ "results": document.rows }))?;
    } else {
        table(out)?;
    }
    let plot = || bars(document.title, document.legend, document.bars);
    write_files(arguments, document.rows, plot)
}

/// Writes the files that `arguments` request: `rows` as CSV and what `plot` draws.
pub(crate) fn write_files(
    arguments: &OutputArguments,
    rows: &[Value],
    plot: impl FnOnce() -> Result<String, BenchError>,
) -> Result<(), BenchError> {
    if let Some(path) = &arguments.csv {
        write_new(path, &csv(rows))?;
    }
    if let Some(path) = &arguments.plot {
        write_new(path, &plot()?)?;
    }
    Ok(())
}

/// Returns an error if `path` exists, before anything is measured. An existing file may hold
/// anything, also a key.
pub(crate) fn check_new(path: &Path) -> Result<(), BenchError> {
    match path.symlink_metadata() {
        Ok(_) => Err(refused(path, io::ErrorKind::AlreadyExists.into())),
        Err(_) => Ok(()),
    }
}

/// Writes `text` to a new file.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), BenchError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| refused(path, source))
}

/// Creates `folder` if it does not exist.
pub(crate) fn make_folder(folder: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(folder).map_err(|source| refused(folder, source))
}

fn refused(path: &Path, source: io::Error) -> BenchError {
    let path = path.to_owned();
    BenchError::File { path, source }
}

fn row(result: &Outcome) -> Value {
    let setting = &result.setting;
    json!({
        "name": setting.name,
        "producers": setting.producers,
        "writers": setting.writers,
        "payload_bytes": setting.payload_bytes,
        "writer_batch": setting.writer_batch,
        "compression": setting.compression.to_string(),
        "encrypted": setting.encrypt,
        "proofs": setting.proofs.as_str(),
        "durability": setting.durability.as_str(),
        "erasable": setting.erasable,
        "destinations": setting.streams,
        "repeats": setting.repeats,
        "seconds": result.seconds,
        "entries": result.entries,
        "entries_per_second": result.entries_per_second(),
        "input_bytes": result.input_bytes,
        "gib_per_second": result.gib_per_second(),
        "stored_bytes": result.stored_bytes,
        "stored_share": result.stored_share(),
        "stored_bytes_per_entry": result.stored_per_entry(),
        "ceiling_entries_per_second": result.ceiling_entries_per_second,
        "ceiling_share": result.ceiling_share(),
        "peak_memory_bytes": result.peak_bytes,
    })
}

fn table(results: &[Outcome], out: &mut dyn Write) -> Result<(), BenchError> {
    writeln!(
        out,
        "| setting | entries/s | GiB/s | stored/input | B/entry | ceiling entries/s | share | peak MiB |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for result in results {
        writeln!(
            out,
            "| {} | {:.0} | {:.3} | {:.4} | {:.1} | {:.0} | {:.2} | {} |",
            result.setting.name,
            result.entries_per_second(),
            result.gib_per_second(),
            result.stored_share(),
            result.stored_per_entry(),
            result.ceiling_entries_per_second,
            result.ceiling_share(),
            result.peak_bytes >> 20,
        )?;
    }
    Ok(())
}

fn csv(rows: &[Value]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let Value::Object(fields) = row else {
            continue;
        };
        if number == 0 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            text.push_str(&names.join(","));
            text.push('\n');
        }
        let cells: Vec<String> = fields
            .values()
            .map(|value| match value {
                Value::String(word) => word.replace(',', ";"),
                other => other.to_string(),
            })
            .collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
