//! `probity verify`: the full check, as a report for people or one JSON document.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::{Timestamp, Version};
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::verify::{
    Fault, Report, StreamReport, Unchecked, UncheckedReason, VerifyOptions, verify,
};
use probity_log::{Continued, LogError, Older, Places, Repair};
use serde::Serialize;

use super::check_is_log;
use crate::args::Verify;
use crate::config::Environment;
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
    #[serde(skip)]
    sealers: Sealers,
    first_key: &'a str,
    first_key_given: bool,
    /// Folder of the second copies of the heads, and of how many streams one was compared.
    heads: &'a str,
    heads_compared: u64,
    heads_missing: &'a [String],
    keys: u64,
    streams: Vec<StreamRow<'a>>,
    /// Frames that were lost before anybody signed for them, and whose loss was accepted.
    losses: Vec<LossRow<'a>>,
    faults: Vec<FaultRow<'a>>,
    /// Faults that are only counted, because there are too many.
    faults_unlisted: u64,
    /// What stands in the folder and was not checked.
    unchecked: Vec<UncheckedRow<'a>>,
    /// Names that are only counted, because there are too many.
    unchecked_unlisted: u64,
    bytes: u64,
    seconds: f64,
    /// The older log that was given, which this one must continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<ContinuesRow<'a>>,
}

/// Whether it is known who sealed the frames behind a checkpoint.
#[derive(Clone, Copy)]
enum Sealers {
    /// The log's keys did, or the frames are not counted.
    Known,
    /// The root key would tell.
    Unknown,
    /// Frames of the log's version do not say.
    Nobodys,
}

impl Sealers {
    fn of(report: &Report) -> Self {
        match report.version {
            Version::V2 => Self::Nobodys,
            _ if report.keyed => Self::Known,
            _ => Self::Unknown,
        }
    }
}

#[derive(Serialize)]
struct ContinuesRow<'a> {
    log: &'a str,
    origin: &'a str,
    /// Whether this log names exactly that one, as it is.
    is_named: bool,
    faults: Vec<FaultRow<'a>>,
    faults_unlisted: u64,
}

#[derive(Serialize)]
struct StreamRow<'a> {
    name: &'a str,
    frames: u64,
    entries: u64,
    bytes: u64,
    root: &'a str,
    unpublished_frames: u64,
    unpublished_sealed: bool,
    /// Bytes of those frames and of what stands behind them.
    unsigned_bytes: u64,
    tail_bytes: u64,
    erased_sections: u64,
    partly_erased_sections: u64,
}

#[derive(Serialize)]
struct LossRow<'a> {
    stream: &'a str,
    from_frame: u64,
    to_frame: u64,
    #[serde(skip)]
    said: String,
}

#[derive(Serialize)]
struct UncheckedRow<'a> {
    path: &'a str,
    why: &'static str,
}

#[derive(Serialize)]
struct FaultRow<'a> {
    class: &'static str,
    stream: &'a str,
    place: &'a str,
    detail: &'a str,
}

pub(crate) fn run(args: &Verify, environment: &Environment) -> Result<Status, Failure> {
    let mut options = options(args, environment)?;
    if args.key.is_none() {
        check_is_log(&args.dir)?;
    }
    let progress = progress_bar();
    let shown = Arc::clone(&progress);
    options.progress = Some(Box::new(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    }));
    let clock = SystemClock::new();
    let started = clock.elapsed();
    let report = verify(&args.dir, &options).map_err(|error| failure(args, error))?;
    let seconds = clock.elapsed().saturating_sub(started).as_secs_f64();
    progress.finish_and_clear();
    let continued = args.continues.as_deref();
    let continued = continued.map(|old| continues(args, old)).transpose()?;
    let status = match &continued {
        Some(continued) if !continued.is_intact() => Status::Broken,
        _ => status_of(&report),
    };
    let mut document = document(args, &report, status, options.anchor.is_some(), seconds);
    document.continues = continued.as_ref().map(ContinuesRow::new);
    let mut output = Output::new();
    if args.json {
        output.json(&document)?;
    } else {
        print(&document, &mut output)?;
    }
    output.flush()?;
    check_heads(args, environment, &report, status)?;
    Ok(status)
}

/// Whoever names a folder of second copies wants them compared.
fn check_heads(
    args: &Verify,
    environment: &Environment,
    report: &Report,
    status: Status,
) -> Result<(), Failure> {
    let is_named = args.heads.is_some() || environment.heads.is_some();
    if !is_named || report.heads.streams > 0 || status == Status::Broken {
        return Ok(());
    }
    let place = &report.heads.place;
    Err(
        Failure::new(format!("there is no second copy of a head of this log in {place}")).remedy(
            "name the folder that PROBITY_HEADS named when the log was written, and see that it is mounted; where it was \
             emptied, compare with a checkpoint that you keep: probity verify DIR --since FILE",
        ),
    )
}

/// An older log, and whether the one that is verified continues it.
struct OlderLog {
    log: String,
    report: Report,
    is_named: bool,
}

impl OlderLog {
    const fn is_intact(&self) -> bool {
        self.is_named && self.report.is_intact()
    }
}

/// Verifies the older log at `old`, and compares it with what the log of `args` names.
fn continues(args: &Verify, old: &Path) -> Result<OlderLog, Failure> {
    check_is_log(old)?;
    let report = verify(old, &VerifyOptions::default())?;
    let named = Continued::named_by(&Places::new(&args.dir, None))?;
    // Of one that is broken nothing is read.
    let is_named = report.is_intact() && {
        let older = Older::read(&Places::new(old, None))?;
        named.is_some_and(|named| named == older.continued)
    };
    Ok(OlderLog {
        log: old.display().to_string(),
        report,
        is_named,
    })
}

/// Whose key is given knows of a log: a folder without one is evidence gone.
fn failure(args: &Verify, error: LogError) -> Failure {
    let is_gone = args.key.is_some() && !args.dir.join("probity.toml").exists();
    let failure = Failure::from(error);
    if is_gone {
        return failure.remedy("name the folder of the log; if this is it, the log was deleted");
    }
    failure
}

/// What a report means for the exit status.
pub(crate) fn status_of(report: &Report) -> Status {
    if !report.is_intact() {
        Status::Broken
    } else if report
        .streams
        .iter()
        .any(|stream| stream.erased_sections > 0 || stream.partly_erased_sections > 0)
        || !report.losses.is_empty()
    {
        Status::Partial
    } else {
        Status::Done
    }
}

fn options(args: &Verify, environment: &Environment) -> Result<VerifyOptions, Failure> {
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
        heads: args.heads.clone().or_else(|| environment.heads.clone()),
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
        verdict: verdict(report, status, first_key_given),
        status: status.code(),
        keyed: report.keyed,
        sealers: Sealers::of(report),
        first_key: &report.anchor,
        first_key_given,
        heads: &report.heads.place,
        heads_compared: report.heads.streams,
        heads_missing: &report.heads.missing,
        keys: report.keys,
        streams: report.streams.iter().map(StreamRow::new).collect(),
        losses: report.losses.iter().map(LossRow::new).collect(),
        faults: report.faults.iter().map(FaultRow::new).collect(),
        faults_unlisted: report.faults_unlisted,
        unchecked: report.unchecked.iter().map(UncheckedRow::new).collect(),
        unchecked_unlisted: report.unchecked_unlisted,
        bytes: report.streams.iter().map(|stream| stream.bytes).sum(),
        seconds,
        continues: None,
    }
}

/// The last word: whoever compared with nothing of their own has the log's word alone.
const fn verdict(report: &Report, status: Status, first_key_given: bool) -> &'static str {
    let is_compared = first_key_given || report.keyed || report.heads.streams > 0;
    let has_losses = !report.losses.is_empty();
    match (status, is_compared) {
        (Status::Broken, _) => "broken",
        (Status::Partial, true) if has_losses => "intact, parts lost",
        (Status::Partial, false) if has_losses => {
            "intact as far as the log itself says, parts lost"
        }
        (Status::Partial, true) => "intact, parts erased",
        (Status::Partial, false) => "intact as far as the log itself says, parts erased",
        (_, true) => "intact",
        (_, false) => "intact as far as the log itself says",
    }
}

impl<'a> LossRow<'a> {
    fn new(loss: &'a Repair) -> Self {
        Self {
            stream: loss.stream.as_str(),
            from_frame: loss.from,
            to_frame: loss.to,
            said: loss.to_string(),
        }
    }
}

impl<'a> ContinuesRow<'a> {
    fn new(older: &'a OlderLog) -> Self {
        Self {
            log: &older.log,
            origin: &older.report.origin,
            is_named: older.is_named,
            faults: older.report.faults.iter().map(FaultRow::new).collect(),
            faults_unlisted: older.report.faults_unlisted,
        }
    }
}

impl<'a> UncheckedRow<'a> {
    fn new(unchecked: &'a Unchecked) -> Self {
        Self {
            path: &unchecked.path,
            why: unchecked.why.as_str(),
        }
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
            unpublished_sealed: stream.unpublished_sealed,
            unsigned_bytes: stream.unsigned_bytes,
            tail_bytes: stream.tail_bytes,
            erased_sections: stream.erased_sections,
            partly_erased_sections: stream.partly_erased_sections,
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
    print_heads(document, output)?;
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
        print_rest(stream, document.sealers, output)?;
    }
    for loss in &document.losses {
        output.line(&loss.said)?;
    }
    print_unchecked(document, output)?;
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
    print_continues(document, output)?;
    print_verdict(document, output)
}

/// What the older log that was given turned out to be.
fn print_continues(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    let Some(older) = &document.continues else {
        return Ok(());
    };
    let log = older.log;
    for FaultRow {
        class,
        stream,
        place,
        detail,
    } in &older.faults
    {
        output.line(&format!(
            "fault {class} of {log}: stream {stream}, {place}: {detail}"
        ))?;
    }
    output.line(&if older.is_named {
        format!("continues {log}, which is intact and exactly what the journal names")
    } else if older.faults.is_empty() {
        format!("fault journal: {log} is not what the journal names as continued")
    } else {
        format!("whether it continues {log} cannot be told: that is broken")
    })
}

/// Which second copies of the heads the log was compared with.
fn print_heads(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    let place = document.heads;
    if document.heads_compared == 0 {
        return output.line(&format!(
            "second copies of the heads: none in {place}, nothing compared"
        ));
    }
    let streams = counted(document.heads_compared, "stream", "streams");
    output.line(&format!(
        "second copies of the heads: those of {streams} in {place} compared"
    ))?;
    match document.heads_missing {
        [] => Ok(()),
        missing => output.line(&format!(
            "second copies of the heads: none of {}",
            missing.join(", ")
        )),
    }
}

/// What stands behind the checkpoint of a stream, and what of it was erased.
fn print_rest(
    stream: &StreamRow<'_>,
    sealers: Sealers,
    output: &mut Output,
) -> Result<(), Failure> {
    let name = stream.name;
    let frame_bytes = stream.unsigned_bytes.saturating_sub(stream.tail_bytes);
    if stream.unpublished_frames > 0 {
        let frames = counted(stream.unpublished_frames, "frame", "frames");
        let bytes = counted(frame_bytes, "byte", "bytes");
        let by = match sealers {
            Sealers::Known => "which the log's keys sealed",
            Sealers::Unknown => "which nobody signed: whose they are shows with the root key alone",
            Sealers::Nobodys => {
                "which nobody signed: in a log of version 2 nothing tells whose they are, and nobody reads them"
            }
        };
        output.line(&format!(
            "stream {name}: {frames} of {bytes} not covered by a checkpoint yet, {by}"
        ))?;
    }
    if stream.tail_bytes > 0 {
        let bytes = counted(stream.tail_bytes, "byte", "bytes");
        let what = match sealers {
            Sealers::Known => {
                "do not read as a frame that the log's keys sealed: torn by a crash, damaged, or appended"
            }
            Sealers::Unknown => {
                "are no frame: torn by a crash, damaged, or appended; which of them shows with the root key alone"
            }
            Sealers::Nobodys => "are no frame: torn by a crash, damaged, or appended",
        };
        output.line(&format!(
            "stream {name}: {bytes} behind the last frame {what}"
        ))?;
    }
    if stream.erased_sections > 0 {
        let sections = counted(stream.erased_sections, "section", "sections");
        output.line(&format!("stream {name}: {sections} erased"))?;
    }
    if stream.partly_erased_sections > 0 {
        let sections = counted(stream.partly_erased_sections, "section", "sections");
        output.line(&format!("stream {name}: some people of {sections} erased"))?;
    }
    Ok(())
}

/// What was not checked: each that should not be there, and the others in one line.
fn print_unchecked(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    let no_evidence = UncheckedReason::NoEvidence.as_str();
    let (known, others): (Vec<_>, Vec<_>) = document
        .unchecked
        .iter()
        .partition(|unchecked| unchecked.why == no_evidence);
    if !known.is_empty() {
        let paths: Vec<&str> = known.iter().map(|unchecked| unchecked.path).collect();
        output.line(&format!("not checked, no evidence: {}", paths.join(", ")))?;
    }
    for UncheckedRow { path, why } in others {
        output.line(&format!("not checked: {path} {why}"))?;
    }
    if document.unchecked_unlisted > 0 {
        let others = counted(document.unchecked_unlisted, "name", "names");
        output.line(&format!("not checked: {others} more"))?;
    }
    Ok(())
}

fn print_verdict(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    let faults = u64::try_from(document.faults.len()).unwrap_or(u64::MAX);
    let faults = faults.saturating_add(document.faults_unlisted);
    let counted_faults = match faults {
        0 => String::new(),
        _ => format!(", {}", counted(faults, "fault", "faults")),
    };
    if document.verdict.contains("as far as the log itself says") {
        output.line(
            "neither a key of yours nor second copies of the heads were compared: whoever replaced or rolled back the whole \
             log is not found; give --key FILE with the verifier key you were handed, or --heads DIR",
        )?;
    }
    output.line(&format!(
        "{}{counted_faults}: {} bytes checked in {:.2} s",
        document.verdict, document.bytes, document.seconds
    ))
}
