//! The full check of a log, without any key or with: from signatures to every stored byte.
//!
//! Nothing of the write path is used here. A verification fixes a checkpoint of each stream first,
//! so that a log that is being written to verifies without false alarms: the journal's before
//! the others', because what it says of them was true before.

mod frames;
mod heads;
mod records;
mod report;
mod stored;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::VerifierKey;
use probity_format::record::Record;
use probity_format::stream::{StreamConfig, StreamId, StreamName};

use heads::{Fixed, Subject};
pub use report::{Fault, FaultClass, Report, StreamReport};

use crate::config::Options;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{add_to_history, read_geometry};
use crate::journal::History;
use crate::opener::Opener;
use crate::places::Places;
use crate::records::Records;
use crate::scan::{End, Position, scan};

/// How to verify.
#[derive(Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct VerifyOptions {
    /// The root key: sections are then opened as well.
    pub root: Option<RootKey>,
    /// The log's first verifier key as the verifier knows it; otherwise the log's own word is taken.
    pub anchor: Option<VerifierKey>,
    /// Threads; 0 means one for each core.
    pub jobs: usize,
    /// A checkpoint known from before: the stream must have grown from it, and only the growth is read.
    pub since: Option<Vec<u8>>,
    /// Only frames with entries at or after this time are read, in nanoseconds since 1970.
    pub from: Option<i64>,
    /// Only frames with entries before this time are read, in nanoseconds since 1970.
    pub to: Option<i64>,
    /// Where the second copy of the heads is; default: `DIR.heads`, if there is one.
    pub heads: Option<PathBuf>,
    /// Told how many of how many bytes are done, now and then, from several threads.
    pub progress: Option<Progress>,
}

/// A callback that is told bytes done and bytes in all.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Checks the log at `path`.
///
/// Damage is not an error: it is in the report, every fault with its class and place.
///
/// # Errors
/// When there is no log, it is of another version, the key is wrong, or the storage fails.
pub fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, LogError> {
    verify_at(&Places::new(path, options.heads.as_ref()), options)
}

/// As [`verify`], wherever the log and the second copies of its heads are.
///
/// # Errors
/// As [`verify`].
pub fn verify_at(places: &Places, options: &VerifyOptions) -> Result<Report, LogError> {
    let defaults = Options::default();
    let verifier = Verifier {
        files: Files::of_log(places, &defaults),
        heads: Files::of_heads(places, &defaults),
        geometry: read_geometry(&Files::of_log(places, &defaults), &places.path)?,
        options,
    };
    verifier.run()
}

struct Verifier<'a> {
    files: Files,
    heads: Files,
    geometry: Geometry,
    options: &'a VerifyOptions,
}

impl Verifier<'_> {
    fn run(&self) -> Result<Report, LogError> {
        let opener = match &self.options.root {
            Some(root) => Some(Opener::new(&self.files, root, &self.geometry)?),
            None => None,
        };
        let mut faults = Vec::new();
        let journal_name = StreamName::journal();
        let mut report = Report {
            origin: self.geometry.origin().to_owned(),
            anchor: self.geometry.anchor().encode(),
            keys: 1,
            keyed: opener.is_some(),
            streams: Vec::new(),
            faults: Vec::new(),
        };
        if self
            .options
            .anchor
            .as_ref()
            .is_some_and(|anchor| anchor != self.geometry.anchor())
        {
            faults.push(Fault::new(
                FaultClass::KeyChain,
                &journal_name,
                "probity.toml",
                "names another first key than the verifier knows: this is another log",
            ));
        }
        let Fixed { history, subjects } = self.fix(&mut faults)?;
        report.keys = u64::try_from(history.keys.len()).unwrap_or(u64::MAX);
        for subject in &subjects {
            let checked = tree::check(self, subject, &mut faults)?;
            let stream = frames::check(self, subject, &checked, opener.as_ref(), &mut faults)?;
            report.streams.push(stream);
        }
        faults.sort();
        faults.dedup();
        report.faults = faults;
        Ok(report)
    }

    /// The journal's history, as far as its frames are whole; what is not shows up when it is checked as a stream.
    fn read_journal(&self) -> Result<(History, Vec<Fault>), LogError> {
        let name = StreamName::journal();
        let fingerprint = self.geometry.fingerprint();
        let id = StreamId::new(&fingerprint, &name, &StreamConfig::JOURNAL);
        let mut history = History::new(self.geometry.anchor().clone());
        let mut decompressor = Decompressor::default();
        let mut position = Position::start(id, fingerprint);
        let mut faults = Vec::new();
        let mut broken = false;
        let mut visit = |record: &Record, frame: &Frame<'_>| {
            if !broken
                && let Err(error) =
                    add_to_history(&mut history, record.frame, frame, &mut decompressor)
            {
                broken = true;
                let class = if error.what == "key certificate" {
                    FaultClass::KeyChain
                } else {
                    FaultClass::Journal
                };
                let place = format!("journal frame {}", record.frame);
                faults.push(Fault::new(class, &name, place, error.to_string()));
            }
            Ok::<(), LogError>(())
        };
        loop {
            as_far_as_there(scan(&self.files, &name, &mut position, &mut visit))?;
            let Some(behind) = self.behind_damage(&name, position.next_frame)? else {
                break;
            };
            position = behind;
        }
        Ok((history, faults))
    }

    /// Behind a damaged frame of the journal, as its record says; nothing where no record is stored. What is read there is
    /// believed no more than anything else before its tree is checked.
    fn behind_damage(&self, name: &StreamName, frame: u64) -> Result<Option<Position>, LogError> {
        let Some(size) = self.claimed_size(name)? else {
            return Ok(None);
        };
        let mut records = Records::new(&self.files, name, size);
        let record = match records.of_frame(frame) {
            Err(LogError::Broken { .. }) | Ok(None) => return Ok(None),
            Err(error) if stored::is_strange(&error) => return Ok(None),
            Err(error) => return Err(error),
            Ok(Some(record)) => record,
        };
        match Position::behind(&self.files, name, &record) {
            Err(error) if stored::is_strange(&error) => Ok(None),
            behind => Ok(behind?.filter(|behind| behind.next_frame > frame)),
        }
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.options.jobs == 0 {
            cores()
        } else {
            self.options.jobs.min(256)
        }
    }
}

/// Takes a scan for what it read until it met something that is no segment; checking the records says so.
fn as_far_as_there(scanned: Result<End, LogError>) -> Result<(), LogError> {
    match scanned {
        Err(error) if !stored::is_strange(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The records of a stream's tree up to its checkpoint, and where frames go on behind.
pub(crate) struct CheckedTree {
    pub(crate) records: Vec<Record>,
    pub(crate) by_segment: BTreeMap<u32, std::ops::Range<usize>>,
    pub(crate) unpublished_frames: u64,
}
