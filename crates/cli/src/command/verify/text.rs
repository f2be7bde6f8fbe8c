//! A verification as text for people.

use std::path::Path;

use probity_log::verify::{RollbackCheck, UncheckedReason};

use super::document::{Document, FaultRow, Sealers, SkippedRow, StreamRow, UncheckedRow};
use crate::config::verifier_path_beside;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};

pub(super) fn print(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
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
    let given = said_of_key(document.key_given, (document.keys, document.newest_holds));
    if let Some(given) = given.filter(|_| document.status != Status::Broken.code()) {
        output.line(&given)?;
    }
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

/// Describes a given key that is not the first of the `keys` signing keys, and what it vouches for.
/// The chain begins with the first, which is as the log says. The newest vouches for all where it
/// `holds`: see [`probity_log::verify::Report::newest_holds`].
pub(in crate::command) fn said_of_key(
    given: Option<u64>,
    (keys, holds): (u64, bool),
) -> Option<String> {
    let number = given.filter(|number| *number > 1)?;
    Some(if number == keys && !holds {
        format!(
            "the key given is number {number}, the newest: certificates lead to it, but since then no writer has named the heads of the streams; whoever has the \
             key before it can have made entries that no earlier head named: verify again once the log was opened for writing"
        )
    } else if number == keys {
        format!(
            "the key given is number {number}, the newest: certificates lead to it, and whoever has only older keys cannot have made this log"
        )
    } else {
        format!(
            "the key given is number {number}: certificates lead to it, and from it to the newest; whether somebody who had it signed another \
             history since shows with a newer key"
        )
    })
}

/// Prints what the given older log turned out to be.
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

/// Prints which second copies of the heads the log was compared with.
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

/// Prints what follows the checkpoint of a stream, and what of it was erased.
fn print_rest(
    stream: &StreamRow<'_>,
    sealers: Sealers,
    output: &mut Output,
) -> Result<(), Failure> {
    let name = stream.name;
    for SkippedRow { frames, bytes, why } in &stream.skipped {
        let frames = counted(*frames, "frame", "frames");
        let bytes = counted(*bytes, "byte", "bytes");
        output.line(&format!(
            "stream {name}: {frames} of {bytes} not read: {why}"
        ))?;
    }
    let frame_bytes = stream.unsigned_bytes.saturating_sub(stream.tail_bytes);
    if stream.unpublished_frames > 0 {
        let frames = counted(stream.unpublished_frames, "frame", "frames");
        let bytes = counted(frame_bytes, "byte", "bytes");
        let by = match sealers {
            Sealers::Known => "which the log's keys sealed",
            Sealers::Unknown => "the root key tells whether this log wrote them",
            Sealers::Nobodys => {
                "which nobody signed: in a log of version 2 nothing tells whose they are, and nobody reads them"
            }
        };
        output.line(&format!(
            "stream {name}: {frames} of {bytes} not covered by a checkpoint, {by}"
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

/// Prints what was not checked: unexpected files one by one, the others in one line.
fn print_unchecked(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    let no_evidence = UncheckedReason::NoEvidence.as_str();
    let (known, others): (Vec<_>, Vec<_>) = document
        .unchecked
        .iter()
        .partition(|unchecked| unchecked.why == no_evidence);
    if !known.is_empty() {
        let paths: Vec<&str> = known.iter().map(|unchecked| unchecked.path).collect();
        output.line(&format!("not checked (not evidence): {}", paths.join(", ")))?;
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
    if document.status != Status::Broken.code() {
        print_limits(document, output)?;
    }
    let skipped = match document.frames_skipped {
        0 => String::new(),
        frames => format!(
            ", {} in {} not read",
            counted(document.bytes_skipped, "byte", "bytes"),
            counted(frames, "frame", "frames")
        ),
    };
    output.line(&format!(
        "{}{counted_faults}: {} bytes checked in {:.2} s{skipped}",
        document.verdict, document.bytes, document.seconds
    ))
}

/// Describes the verifier key beside the log, which an operator can replace together with the log.
fn said_of_key_beside(document: &Document<'_>) -> String {
    let beside = verifier_path_beside(Path::new(&document.log));
    if !beside.is_file() {
        return String::new();
    }
    format!(
        "; {} lies beside the log and was not used: compare it with yours",
        beside.display()
    )
}

/// Prints what a log without faults may hide from this verification, and how to look.
fn print_limits(document: &Document<'_>, output: &mut Output) -> Result<(), Failure> {
    if document.frames_skipped > 0 {
        output.line(
            "what was not read may be damaged or overwritten: to check every byte, verify without --since, --from and --to",
        )?;
    }
    let is_compared = document.key_given.is_some() || document.keyed || document.heads_compared > 0;
    match document.rollback_check {
        RollbackCheck::SinceCheckpoint if !is_compared => output.line(
            "no verifier key and no second copies given: a replaced log, or one rolled back to a moment after the checkpoint given, would go \
             undetected; give --key FILE with the verifier key you were handed, or --heads DIR",
        ),
        _ if !is_compared => output.line(&format!(
            "no verifier key and no second copies given: a replaced or rolled-back log would go undetected; give --key FILE with the verifier \
             key you were handed, or --heads DIR{}",
            said_of_key_beside(document)
        )),
        RollbackCheck::SinceCheckpoint => output.line(
            "no second copies given: entries after the checkpoint given that were cut off, and a rollback of other streams, would go \
             undetected; give --heads DIR",
        ),
        RollbackCheck::SomeStreams => output.line(&format!(
            "of {} no second copy of the head was compared: an older copy of them may have been put back",
            document.heads_missing.join(", ")
        )),
        RollbackCheck::Nothing => output.line(
            "no second copies and no earlier checkpoint given: a rollback of the whole log would go undetected; give --heads DIR, or \
             --since FILE with a checkpoint that you keep",
        ),
        _ => Ok(()),
    }
}
