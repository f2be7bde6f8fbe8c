//! The JSON document of a verification, from which the text for people is made too.

use probity_format::Version;
use probity_log::Repair;
use probity_log::verify::{
    Fault, Report, RollbackCheck, Skipped, StreamReport, Unchecked, VerifyOptions,
};
use serde::Serialize;

use super::OlderLog;
use crate::args::Verify;
use crate::envelope::Failed;
use crate::failure::{Failure, Status};

#[expect(
    clippy::struct_excessive_bools,
    reason = "members of a document are what readers of it ask for"
)]
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) log: String,
    pub(super) origin: &'a str,
    pub(super) verdict: String,
    pub(super) status: u8,
    pub(super) keyed: bool,
    #[serde(skip)]
    pub(super) sealers: Sealers,
    pub(super) first_key: &'a str,
    pub(super) first_key_given: bool,
    /// Number of the given key among the signing keys, from 1.
    pub(super) key_given: Option<u64>,
    /// Folder of the second copies of the heads, and the number of streams with a compared copy.
    pub(super) heads: &'a str,
    pub(super) heads_compared: u64,
    pub(super) heads_missing: &'a [String],
    /// The means by which a rollback could be found.
    pub(super) rollback: &'static str,
    #[serde(skip)]
    pub(super) rollback_check: RollbackCheck,
    pub(super) keys: u64,
    /// True when no key older than the newest signs a head that was not named before.
    pub(super) newest_holds: bool,
    pub(super) streams: Vec<StreamRow<'a>>,
    /// Frames that were lost unsigned and whose loss was accepted.
    pub(super) losses: Vec<LossRow<'a>>,
    pub(super) faults: Vec<FaultRow<'a>>,
    /// Faults that are only counted, because there are too many.
    pub(super) faults_unlisted: u64,
    /// Files in the folder that were not checked.
    pub(super) unchecked: Vec<UncheckedRow<'a>>,
    /// Names that are only counted, because there are too many.
    pub(super) unchecked_unlisted: u64,
    pub(super) bytes: u64,
    /// Frames, and their bytes, that a checkpoint covers and that were not read.
    pub(super) frames_skipped: u64,
    pub(super) bytes_skipped: u64,
    pub(super) seconds: f64,
    /// The given older log, which this one must continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continues: Option<ContinuesRow<'a>>,
    /// Why the verification failed although the log is intact, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) help: Option<String>,
}

/// The document of a verification that damage ended before there was a report.
#[derive(Serialize)]
pub(super) struct Ended {
    log: String,
    verdict: &'static str,
    keyed: bool,
    #[serde(flatten)]
    failed: Failed,
}

impl Ended {
    pub(super) fn new(args: &Verify, options: &VerifyOptions, failure: &Failure) -> Self {
        Self {
            log: args.dir.display().to_string(),
            verdict: "broken",
            keyed: options.root.is_some(),
            failed: Failed::new(failure),
        }
    }
}

/// The knowledge of who sealed the frames after a checkpoint.
#[derive(Clone, Copy)]
pub(super) enum Sealers {
    /// The log's keys did, or the frames are not counted.
    Known,
    /// Only the root key would tell.
    Unknown,
    /// Frames of the log's version do not say.
    Nobodys,
}

impl Sealers {
    pub(super) fn of(report: &Report) -> Self {
        match report.version {
            Version::V2 => Self::Nobodys,
            _ if report.keyed => Self::Known,
            _ => Self::Unknown,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ContinuesRow<'a> {
    pub(super) log: &'a str,
    pub(super) origin: &'a str,
    /// True if this log names exactly that one, as it is.
    pub(super) is_named: bool,
    pub(super) faults: Vec<FaultRow<'a>>,
    pub(super) faults_unlisted: u64,
}

#[derive(Serialize)]
pub(super) struct StreamRow<'a> {
    pub(super) name: &'a str,
    pub(super) frames: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) skipped: Vec<SkippedRow>,
    pub(super) root: &'a str,
    pub(super) unpublished_frames: u64,
    pub(super) unpublished_sealed: bool,
    /// Bytes of those frames and of everything after them.
    pub(super) unsigned_bytes: u64,
    pub(super) tail_bytes: u64,
    pub(super) erased_sections: u64,
    pub(super) partly_erased_sections: u64,
}

/// Frames that a checkpoint covers and that were not read.
#[derive(Serialize)]
pub(super) struct SkippedRow {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) why: &'static str,
}

#[derive(Serialize)]
pub(super) struct LossRow<'a> {
    pub(super) stream: &'a str,
    /// `frames` that are gone, or frames with `sections` that nobody can open.
    pub(super) kind: &'static str,
    pub(super) from_frame: u64,
    pub(super) to_frame: u64,
    #[serde(skip)]
    pub(super) said: String,
}

#[derive(Serialize)]
pub(super) struct UncheckedRow<'a> {
    pub(super) path: &'a str,
    pub(super) why: &'static str,
}

#[derive(Serialize)]
pub(super) struct FaultRow<'a> {
    pub(super) class: &'static str,
    pub(super) stream: &'a str,
    pub(super) place: &'a str,
    pub(super) detail: &'a str,
}

pub(super) fn document<'a>(
    args: &Verify,
    report: &'a Report,
    status: Status,
    seconds: f64,
) -> Document<'a> {
    let skipped = || report.streams.iter().flat_map(|stream| &stream.skipped);
    Document {
        log: args.dir.display().to_string(),
        origin: &report.origin,
        verdict: verdict(report, status),
        status: status.code(),
        keyed: report.keyed,
        sealers: Sealers::of(report),
        first_key: &report.anchor,
        first_key_given: report.known_key == Some(1),
        key_given: report.known_key,
        heads: &report.heads.place,
        heads_compared: report.heads.streams,
        heads_missing: &report.heads.missing,
        rollback: report.rollback().as_str(),
        rollback_check: report.rollback(),
        keys: report.keys,
        newest_holds: report.newest_holds,
        streams: report.streams.iter().map(StreamRow::new).collect(),
        losses: report.losses.iter().map(LossRow::new).collect(),
        faults: report.faults.iter().map(FaultRow::new).collect(),
        faults_unlisted: report.faults_unlisted,
        unchecked: report.unchecked.iter().map(UncheckedRow::new).collect(),
        unchecked_unlisted: report.unchecked_unlisted,
        bytes: report.streams.iter().map(|stream| stream.bytes).sum(),
        frames_skipped: skipped().map(|skipped| skipped.frames).sum(),
        bytes_skipped: skipped().map(|skipped| skipped.bytes).sum(),
        seconds,
        continues: None,
        error: None,
        help: None,
    }
}

/// Returns the verdict: what was read, on whose word, and whether a rollback would have been found.
fn verdict(report: &Report, status: Status) -> String {
    if status == Status::Broken {
        return "broken".into();
    }
    // Without a key or head of the verifier's own, there is only the log's word.
    let is_compared = report.known_key.is_some() || report.keyed || report.heads.streams > 0;
    let said = match (report.is_read_whole(), is_compared) {
        (true, true) => "intact",
        (true, false) => "intact as far as the log itself says",
        (false, true) => "intact as far as it was read",
        (false, false) => "intact as far as it was read and as far as the log itself says",
    };
    let parts = match (status, report.losses.is_empty()) {
        (Status::Partial, true) => ", parts erased",
        (Status::Partial, false) => ", parts lost",
        _ => "",
    };
    let rollback = match report.rollback() {
        RollbackCheck::SomeStreams => ", but whether some streams were rolled back cannot be told",
        RollbackCheck::SinceCheckpoint if is_compared => {
            ", but whether it was rolled back since the checkpoint given cannot be told"
        }
        RollbackCheck::Nothing if is_compared => ", but whether it was rolled back cannot be told",
        _ => "",
    };
    format!("{said}{parts}{rollback}")
}

impl<'a> LossRow<'a> {
    pub(super) fn new(loss: &'a Repair) -> Self {
        Self {
            stream: loss.stream.as_str(),
            kind: loss.lost_part(),
            from_frame: loss.from,
            to_frame: loss.to,
            said: loss.to_string(),
        }
    }
}

impl<'a> ContinuesRow<'a> {
    pub(super) fn new(older: &'a OlderLog) -> Self {
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
    pub(super) fn new(unchecked: &'a Unchecked) -> Self {
        Self {
            path: &unchecked.path,
            why: unchecked.why.as_str(),
        }
    }
}

impl<'a> StreamRow<'a> {
    pub(super) fn new(stream: &'a StreamReport) -> Self {
        Self {
            name: &stream.name,
            frames: stream.frames,
            entries: stream.entries,
            bytes: stream.bytes,
            skipped: stream.skipped.iter().map(SkippedRow::new).collect(),
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

impl SkippedRow {
    const fn new(skipped: &Skipped) -> Self {
        Self {
            frames: skipped.frames,
            bytes: skipped.bytes,
            why: skipped.why.as_str(),
        }
    }
}

impl<'a> FaultRow<'a> {
    pub(super) fn new(fault: &'a Fault) -> Self {
        Self {
            class: fault.class.as_str(),
            stream: &fault.stream,
            place: &fault.place,
            detail: &fault.detail,
        }
    }
}
