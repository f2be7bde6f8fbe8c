//! `probity verify`: the full check, as a report for people or one JSON document.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use probity_format::Timestamp;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::verify::{Fault, Report, StreamReport, VerifyOptions, verify};
use serde::Serialize;

use super::check_is_log;
use crate::args::Verify;
use crate::failure::{Failure, Status};
use crate::key_file::{self, Key};
use crate::output::{Output, counted};

#[derive(Serialize)]
struct Document<'a> {
    log: String,
    origin: &'a str,
    verdict: &'static str,
    status: u8,
    keyed: bool,
    first_key: &'a str,
    first_key_given: bool,
    keys: u64,
    streams: Vec<StreamRow<'a>>,
    faults: Vec<FaultRow<'a>>,
    /// Faults that are only counted, because there are too many.
    faults_unlisted: u64,
    bytes: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct StreamRow<'a> {
    name: &'a str,
    frames: u64,
    entries: u64,
    bytes: u64,
    root: &'a str,
    unpublished_frames: u64,
    erased_sections: u64,
}

#[derive(Serialize)]
struct FaultRow<'a> {
    class: &'static str,
    stream: &'a str,
    place: &'a str,
    detail: &'a str,
}

pub(crate) fn run(args: &Verify) -> Result<Status, Failure> {
    check_is_log(&args.dir)?;
    let progress = progress_bar();
    let mut options = options(args)?;
    let shown = Arc::clone(&progress);
    options.progress = Some(Box::new(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    }));
    let clock = SystemClock::new();
    let started = clock.elapsed();
    let report = verify(&args.dir, &options)?;
    let seconds = clock.elapsed().saturating_sub(started).as_secs_f64();
    progress.finish_and_clear();
    let status = status_of(&report);
    let document = document(args, &report, status, options.anchor.is_some(), seconds);
    let mut output = Output::new();
    if args.json {
        output.json(&document)?;
    } else {
        print(&document, &mut output)?;
    }
    output.flush()?;
    Ok(status)
}

/// What a report means for the exit status.
pub(crate) fn status_of(report: &Report) -> Status {
    if !report.is_intact() {
        Status::Broken
    } else if report
        .streams
        .iter()
        .any(|stream| stream.erased_sections > 0)
    {
        Status::Partial
    } else {
        Status::Done
    }
}

fn options(args: &Verify) -> Result<VerifyOptions, Failure> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::usage("--from is not before --to"));
    }
    let mut options = VerifyOptions {
        jobs: args.jobs.map_or(0, usize::from),
        since: args.since.as_deref().map(read_checkpoint).transpose()?,
        from: args.from.map(Timestamp::nanoseconds),
        to: args.to.map(Timestamp::nanoseconds),
        ..VerifyOptions::default()
    };
    match args.key.as_deref().map(key_file::read).transpose()? {
        Some(Key::Root(root)) => options.root = Some(root),
        Some(Key::Verifier(anchor)) => options.anchor = Some(anchor),
        None => {}
    }
    Ok(options)
}

fn read_checkpoint(path: &Path) -> Result<Vec<u8>, Failure> {
    let fail = |error| Failure::file("read the checkpoint", path, error);
    let mut note = Vec::new();
    let bytes_max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(fail)?;
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut note)
        .map_err(fail)?;
    if note.len() > CHECKPOINT_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} is too long for a checkpoint",
            path.display()
        )));
    }
    Ok(note)
}

/// A bar on standard error that is drawn only on a terminal.
fn progress_bar() -> Arc<ProgressBar> {
    let bar = ProgressBar::new(0);
    let form = "verifying {bytes} of {total_bytes} {wide_bar} {bytes_per_sec}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    Arc::new(bar)
}

fn document<'a>(
    args: &Verify,
    report: &'a Report,
    status: Status,
    first_key_given: bool,
    seconds: f64,
) -> Document<'a> {
    Document {
        log: args.dir.display().to_string(),
        origin: &report.origin,
        verdict: match status {
            Status::Broken => "broken",
            Status::Partial => "intact, parts erased",
            _ => "intact",
        },
        status: status.code(),
        keyed: report.keyed,
        first_key: &report.anchor,
        first_key_given,
        keys: report.keys,
        streams: report.streams.iter().map(StreamRow::new).collect(),
        faults: report.faults.iter().map(FaultRow::new).collect(),
        faults_unlisted: report.faults_unlisted,
        bytes: report.streams.iter().map(|stream| stream.bytes).sum(),
        seconds,
    }
}

impl<'a> StreamRow<'a> {
    fn new(stream: &'a StreamReport) -> Self {
        Self {
            name: &stream.name,
            frames: stream.frames,
            entries: stream.entries,
            bytes: stream.bytes,
            root: &stream.root,
            unpublished_frames: stream.unpublished_frames,
            erased_sections: stream.erased_sections,
        }
    }
}

impl<'a> FaultRow<'a> {
    fn new(fault: &'a Fault) -> Self {
        Self {
            class: fault.class.as_str(),
            stream: &fault.stream,
            place: &fault.place,
            detail: &fault.detail,
        }
    }
}

fn print(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    output.line(&format!("log {} in {}", document.origin, document.log))?;
    let contents = if document.keyed {
        "opened and checked"
    } else {
        "not opened (keyless)"
    };
    output.line(&format!("contents {contents}"))?;
    let said = if document.first_key_given {
        "as given"
    } else {
        "as the log itself says"
    };
    let keys = counted(document.keys, "signing key", "signing keys");
    output.line(&format!("{keys}, the first {said}: {}", document.first_key))?;
    let rows = document.streams.iter().map(|stream| {
        [
            stream.name.to_owned(),
            stream.frames.to_string(),
            stream.entries.to_string(),
            stream.bytes.to_string(),
            stream.root.to_owned(),
        ]
    });
    let rows: Vec<[String; 5]> = rows.collect();
    output.table(["stream", "frames", "entries", "bytes", "root"], &rows)?;
    for stream in &document.streams {
        if stream.unpublished_frames > 0 {
            let frames = counted(stream.unpublished_frames, "frame", "frames");
            output.line(&format!(
                "stream {}: {frames} not covered by a checkpoint yet",
                stream.name
            ))?;
        }
        if stream.erased_sections > 0 {
            let sections = counted(stream.erased_sections, "section", "sections");
            output.line(&format!("stream {}: {sections} erased", stream.name))?;
        }
    }
    for FaultRow {
        class,
        stream,
        place,
        detail,
    } in &document.faults
    {
        output.line(&format!(
            "fault {class}: stream {stream}, {place}: {detail}"
        ))?;
    }
    if document.faults_unlisted > 0 {
        let others = counted(document.faults_unlisted, "fault", "faults");
        output.line(&format!("and {others} more, which are not listed"))?;
    }
    let faults = u64::try_from(document.faults.len()).unwrap_or(u64::MAX);
    let faults = faults.saturating_add(document.faults_unlisted);
    let counted_faults = match faults {
        0 => String::new(),
        _ => format!(", {}", counted(faults, "fault", "faults")),
    };
    output.line(&format!(
        "{}{counted_faults}: {} bytes checked in {:.2} s",
        document.verdict, document.bytes, document.seconds
    ))
}
