//! `probity export`: streams entries out of a log.

mod actions;
mod csv_rows;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use probity_log::reader::{Found, Reader};

use self::csv_rows::CsvRows;
use super::reading::{self, OnDamage};
use crate::args::{Export, ExportFormat};
use crate::config::Environment;
use crate::entry_json::{Hidden, Place, write_line};
use crate::failure::{Failure, Status};
use crate::output::{counted, note};
use crate::output_file::{Existing, OutputFile};
use crate::progress::Progress;
use crate::visible_text::Audience;

const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) fn run(args: &Export, environment: &Environment) -> Result<Status, Failure> {
    if args.spreadsheet_safe && args.format != ExportFormat::Csv {
        return Err(Failure::usage("--spreadsheet-safe is for --format csv"));
    }
    let on_damage = OnDamage::of(args.damaged_too);
    let reader = reading::open(&args.dir, args.key.as_deref(), environment, on_damage)
        .map_err(|failure| explain_key(args, failure))?;
    let counts = if let Some(path) = &args.output {
        export_to_file(args, &reader, path)?
    } else {
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        let audience = Audience::of_stdout();
        export(args, &reader, (out, audience), Failure::output)?.0
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
    if counts.missing > 0 {
        // Past damage, nobody may have accepted it.
        let accepted = match on_damage {
            OnDamage::Refuse => ", which was accepted",
            OnDamage::ReadOn => "",
        };
        note(&format!(
            "{} without some people: their keys are missing{accepted}",
            counted(counts.missing, "entry", "entries")
        ));
    }
    let described = args.filter.described();
    if counts.entries == 0 && !described.is_empty() {
        reading::nothing_found(&described, args.filter.subject.is_some(), &args.dir);
    }
    if let Some(path) = &args.output {
        note(&format!(
            "{}{described} in {}",
            counted(counts.entries, "entry", "entries"),
            path.display()
        ));
    }
    Ok(counts.status)
}

/// Names the option for the key of the wanted entries where `--key` names no file.
fn explain_key(args: &Export, failure: Failure) -> Failure {
    match &args.key {
        Some(path) if !path.exists() => failure
            .also("--key names a key file; for the entries with one key there is --entry-key K"),
        _ => failure,
    }
}

#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) entries: u64,
    erased: u64,
    /// Entries of which some people were erased and others were not.
    partly: u64,
    /// Entries that are read without people whose keys are missing.
    missing: u64,
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
    let to = (file, Audience::Programs);
    let (counts, file) = export(args, reader, to, fail)?;
    file.finish().map_err(fail)?;
    Ok(counts)
}

/// An output format with its writer.
enum Form<W: Write> {
    Jsonl { out: W, with_place: bool },
    Csv(Box<CsvRows<W>>),
}

impl<W: Write> Form<W> {
    fn write(&mut self, found: &Found<'_>) -> io::Result<()> {
        match self {
            Self::Jsonl { out, with_place } => {
                let place = with_place.then(|| Place {
                    stream: found.stream.as_str(),
                    index: found.index,
                });
                let hidden = Hidden {
                    erased: found.closed,
                    missing: found.missing,
                };
                write_line(place, &found.entry, hidden, out)
            }
            Self::Csv(rows) => rows.write(found),
        }
    }

    fn into_inner(self) -> io::Result<W> {
        let mut out = match self {
            Self::Jsonl { out, .. } => out,
            Self::Csv(rows) => rows.into_inner()?,
        };
        out.flush()?;
        Ok(out)
    }
}

fn export<W: Write>(
    args: &Export,
    reader: &Reader,
    (out, audience): (W, Audience),
    fail: impl Fn(io::Error) -> Failure,
) -> Result<(Counts, W), Failure> {
    let mut form = match args.format {
        ExportFormat::Jsonl => Form::Jsonl {
            out,
            with_place: args.with_place,
        },
        ExportFormat::Csv => {
            Form::Csv(Box::new(CsvRows::new(out, args.spreadsheet_safe, audience)))
        }
    };
    let mut progress = Progress::new("entries");
    let mut counts = Counts {
        entries: 0,
        erased: 0,
        partly: 0,
        missing: 0,
        status: Status::Done,
    };
    let on_damage = OnDamage::of(args.damaged_too);
    let read = reading::read(reader, &args.filter.filter(), on_damage, &mut |found| {
        counts.entries = counts.entries.saturating_add(1);
        counts.erased = counts.erased.saturating_add(u64::from(found.erased));
        let is_partly = !found.erased && !found.closed.is_none();
        counts.partly = counts.partly.saturating_add(u64::from(is_partly));
        let is_missing = !found.missing.is_none();
        counts.missing = counts.missing.saturating_add(u64::from(is_missing));
        progress.add_one();
        form.write(found).map_err(&fail)
    });
    progress.clear();
    counts.status = reading::status_after(&read?);
    if let (Some(action), 0) = (&args.filter.action, counts.entries) {
        actions::tell_unknown(action, args, reader)?;
    }
    Ok((counts, form.into_inner().map_err(fail)?))
}
