//! `probity verify`: the full check, as a report for people or one JSON document.

mod document;
mod text;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use probity_format::Timestamp;
use probity_format::checkpoint::Checkpoint;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::SignedNote;
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::verify::{Report, VerifyOptions, verify};
use probity_log::{Continued, Log, LogError, LogLocation, Older};

use self::document::{ContinuesRow, Ended, document};
use self::text::print;
pub(super) use self::text::said_of_key;
use super::check_is_log;
use super::copies::{absent, check_is_folder, leads_nowhere};
use crate::args::Verify;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file::{self, Key};
use crate::one_line::converted;
use crate::output::Output;
use crate::shell::quoted;

pub(crate) fn run(args: &Verify, environment: &Environment) -> Result<Status, Failure> {
    let mut options = options(args, environment)?;
    if args.key.is_none() {
        check_is_log(&args.dir)?;
    }
    if let (Some(path), Some(note)) = (&args.since, &options.since) {
        check_since(path, note, &args.dir)?;
    }
    let progress = progress_bar();
    let shown = Arc::clone(&progress);
    options.progress = Some(Box::new(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    }));
    let clock = SystemClock::new();
    let started = clock.elapsed();
    let report = match verify(&args.dir, &options) {
        Ok(report) => report,
        Err(error) => return Err(ended(args, &options, failure(args, &options, error))),
    };
    let seconds = clock.elapsed().saturating_sub(started).as_secs_f64();
    progress.finish_and_clear();
    let continued = args.continues.as_deref();
    let continued = continued.map(|old| continues(args, old)).transpose()?;
    let status = match &continued {
        Some(continued) if !continued.is_intact() => Status::Broken,
        _ => status_of(&report),
    };
    let mut document = document(args, &report, status, seconds);
    let absent = heads_absent(args, environment, &report).filter(|_| status != Status::Broken);
    if let Some(absent) = &absent {
        document.status = absent.status().code();
        document.error = Some(absent.clause());
        document.help = absent.help();
    }
    document.continues = continued.as_ref().map(ContinuesRow::new);
    let mut output = Output::new();
    if args.json {
        output.json(&document)?;
    } else if absent.is_none() {
        // A verdict above an error would be taken for the answer.
        print(&document, &mut output)?;
    }
    output.flush()?;
    absent.map_or(Ok(status), Err)
}

/// Returns the failure for absent second copies that were asked for.
fn heads_absent(args: &Verify, environment: &Environment, report: &Report) -> Option<Failure> {
    let is_meant = args.heads.is_some()
        || environment.heads.is_some()
        || leads_nowhere(Path::new(&report.heads.place));
    if !is_meant || report.heads.streams > 0 {
        return None;
    }
    let names_heads = environment.heads.is_some();
    let failure = absent(&report.heads.place).names_heads(names_heads);
    Some(failure.of_log(&args.dir, None, None))
}

/// An older log, and whether the one that is verified continues it.
struct OlderLog {
    log: String,
    report: Report,
    is_named: bool,
}

impl OlderLog {
    fn is_intact(&self) -> bool {
        self.is_named && self.report.is_intact()
    }
}

/// Verifies the older log at `old`, and compares it with the one that the log of `args` names.
fn continues(args: &Verify, old: &Path) -> Result<OlderLog, Failure> {
    check_is_log(old)?;
    let report = verify(old, &VerifyOptions::default())?;
    let named = Continued::named_by(&LogLocation::new(&args.dir, None))?;
    // Nothing is read of a broken log.
    let is_named = report.is_intact()
        && {
            let older = Older::read(&LogLocation::new(old, None)).map_err(|error| match error {
            LogError::Option { reason, .. } => {
                Failure::new(format!("{} cannot be continued: it {reason}", old.display()))
                    .remedy("name with --continues the log of an older version from which `probity upgrade` made this one")
            }
            other => other.into(),
        })?;
            named.is_some_and(|named| named == older.continued)
        };
    Ok(OlderLog {
        log: old.display().to_string(),
        report,
        is_named,
    })
}

/// Prints a document for a verification without a report, where broken evidence is the reason.
fn ended(args: &Verify, options: &VerifyOptions, failure: Failure) -> Failure {
    if !args.json || failure.status() != Status::Broken {
        return failure;
    }
    let mut output = Output::new();
    let said = output
        .json(&Ended::new(args, options, &failure))
        .and_then(|()| output.flush());
    said.err().unwrap_or(failure)
}

/// Explains a failed verification. Whoever has a key knows that there was a log, so a folder
/// without one is lost evidence.
fn failure(args: &Verify, options: &VerifyOptions, error: LogError) -> Failure {
    let is_of_keys = matches!(error, LogError::Broken { .. } | LogError::Damaged { .. });
    // A folder that cannot be entered may hold the log.
    let config = args.dir.join("probity.toml");
    let is_gone = args.key.is_some() && matches!(config.try_exists(), Ok(false));
    let failure = Failure::from(error);
    // The rest of a log without its configuration is no deleted log.
    let has_rest = ["keys", "streams"]
        .iter()
        .any(|name| args.dir.join(name).is_dir());
    if is_gone && !has_rest {
        return failure.remedy("name the folder of the log; if this is it, the log was deleted");
    }
    if is_of_keys && options.root.is_some() {
        // Verification with the root key ended here; whatever needs no secret is verified without
        // it.
        return failure.remedy(format!(
            "see all other faults without the root key: probity verify {}; then put back what each fault says, one file after the other, and \
             verify with the root key again",
            quoted(&args.dir)
        ));
    }
    failure
}

/// Returns the exit status for a report.
pub(crate) fn status_of(report: &Report) -> Status {
    if report.has_faults() {
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
    options.heads.as_deref().map_or(Ok(()), check_is_folder)?;
    match args.key.as_deref().map(key_file::read).transpose()? {
        Some(Key::Root(root)) => options.root = Some(root),
        Some(Key::Verifier(known)) => options.known_key = Some(known),
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
        return Err(Failure::usage(format!(
            "{} is too long for a checkpoint",
            path.display()
        )));
    }
    Ok(note)
}

/// Refuses a checkpoint that cannot be one of the log at `dir`: that is a wrong file, no damage of
/// the log.
fn check_since(path: &Path, note: &[u8], dir: &Path) -> Result<(), Failure> {
    let head = SignedNote::parse(note).ok();
    let head = head.and_then(|note| Checkpoint::parse(note.text()).ok());
    let path = path.display();
    let Some(head) = head else {
        let failure = Failure::usage(format!("{path} is no checkpoint"));
        let failure = match converted(note) {
            Some(reason) => failure.because(reason),
            None => failure,
        };
        return Err(failure.remedy(
            "give --since a copy of a file streams/NAME/checkpoint of this log; if this was one, it was changed since",
        ));
    };
    // Faults of the folder are reported where it is verified.
    let Ok(geometry) = Log::geometry(dir) else {
        return Ok(());
    };
    let (found, own) = (head.origin(), geometry.origin());
    if found.starts_with(&geometry.stream_origin("")) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{path} is a checkpoint of {found}, and the log in {} is {own}",
        dir.display()
    ))
    .remedy(
        "give --since a copy of a file streams/NAME/checkpoint of this log; if it is one, another log stands in the folder",
    ))
}

/// Returns a bar on standard error that is drawn only on a terminal.
fn progress_bar() -> Arc<ProgressBar> {
    let bar = ProgressBar::new(0);
    let form = "verifying {bytes} of {total_bytes} {wide_bar} {bytes_per_sec}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    Arc::new(bar)
}
