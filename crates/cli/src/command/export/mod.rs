//! `probity export`: streams entries out of a log.

mod csv_rows;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use indicatif::ProgressBar;
use probity_log::reader::{Found, Reader};

use self::csv_rows::CsvRows;
use super::reading::{self, OnDamage};
use crate::args::{Export, ExportFormat};
use crate::config::Environment;
use crate::entry_json::write_line;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{counted, note};
use crate::output_file::{Existing, OutputFile};

const BUFFER_BYTES: usize = 256 * 1024;
/// Entries between two updates of the progress on a terminal.
const PROGRESS_ENTRIES: u64 = 1024;

pub(crate) fn run(args: &Export, environment: &Environment) -> Result<Status, Failure> {
    if args.spreadsheet_safe && args.format != ExportFormat::Csv {
        return Err(Failure::usage("--spreadsheet-safe is for --format csv"));
    }
    check_is_no_file(args)?;
    let on_damage = OnDamage::of(args.damaged_too);
    let reader = reading::open(&args.dir, args.key_file.as_deref(), environment, on_damage)?;
    let counts = if let Some(path) = &args.output {
        export_to_file(args, &reader, path)?
    } else {
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        export(args, &reader, out, Failure::output)?.0
    };
    if counts.erased > 0 {
        note(&format!(
            "{} without contents: erased",
            counted(counts.erased, "entry", "entries")
        ));
    }
    if counts.partly > 0 {
        note(&format!(
            "{} without some people: erased",
            counted(counts.partly, "entry", "entries")
        ));
    }
    if let (Some(subject), 0) = (&args.filter.subject, counts.entries) {
        reading::nothing_about(subject, &args.dir);
    }
    if let Some(path) = &args.output {
        note(&format!(
            "{} in {}",
            counted(counts.entries, "entry", "entries"),
            path.display()
        ));
    }
    Ok(counts.status)
}

/// Refuses a root key file given as the key of the wanted entries, where other commands take the
/// root key. No entry has that key, and an empty export looks like an answer.
fn check_is_no_file(args: &Export) -> Result<(), Failure> {
    let named = args.filter.key.as_deref().map(Path::new);
    match named.filter(|path| key_file::looks_like_root(path)) {
        Some(path) => Err(Failure::usage(format!(
            "--key is the key of the entries wanted, and {} is a root key file: give that with --key-file",
            path.display()
        ))),
        None => Ok(()),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) entries: u64,
    erased: u64,
    /// Entries of which some people were erased and others were not.
    partly: u64,
    /// The status of the command, if all else succeeds.
    status: Status,
}

/// Exports to the file at `path`, which appears once it is complete.
pub(super) fn export_to_file(
    args: &Export,
    reader: &Reader,
    path: &Path,
) -> Result<Counts, Failure> {
    let fail = |error| Failure::file("write", path, error);
    let file = OutputFile::begin(path, Existing::of(args.overwrite)).map_err(fail)?;
    let (counts, file) = export(args, reader, file, fail)?;
    file.finish().map_err(fail)?;
    Ok(counts)
}

/// An output format with its writer.
enum Form<W: Write> {
    Jsonl(W),
    Csv(Box<CsvRows<W>>),
}

impl<W: Write> Form<W> {
    fn write(&mut self, found: &Found<'_>) -> io::Result<()> {
        match self {
            Self::Jsonl(out) => write_line(&found.entry, found.closed, out),
            Self::Csv(rows) => rows.write(found),
        }
    }

    fn into_inner(self) -> io::Result<W> {
        let mut out = match self {
            Self::Jsonl(out) => out,
            Self::Csv(rows) => rows.into_inner()?,
        };
        out.flush()?;
        Ok(out)
    }
}

fn export<W: Write>(
    args: &Export,
    reader: &Reader,
    out: W,
    fail: impl Fn(io::Error) -> Failure,
) -> Result<(Counts, W), Failure> {
    let mut form = match args.format {
        ExportFormat::Jsonl => Form::Jsonl(out),
        ExportFormat::Csv => Form::Csv(Box::new(
            CsvRows::new(out, args.spreadsheet_safe).map_err(&fail)?,
        )),
    };
    let progress = ProgressBar::new_spinner();
    let mut counts = Counts {
        entries: 0,
        erased: 0,
        partly: 0,
        status: Status::Done,
    };
    let on_damage = OnDamage::of(args.damaged_too);
    let read = reading::read(reader, &args.filter.filter(), on_damage, &mut |found| {
        counts.entries = counts.entries.saturating_add(1);
        counts.erased = counts.erased.saturating_add(u64::from(found.erased));
        let is_partly = !found.erased && !found.closed.is_none();
        counts.partly = counts.partly.saturating_add(u64::from(is_partly));
        if counts.entries.is_multiple_of(PROGRESS_ENTRIES) {
            progress.set_message(format!("{} entries", counts.entries));
            progress.tick();
        }
        form.write(found).map_err(&fail)
    });
    progress.finish_and_clear();
    counts.status = reading::status_after(&read?);
    Ok((counts, form.into_inner().map_err(fail)?))
}
