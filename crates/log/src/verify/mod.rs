//! The full check of a log, without any key or with: from signatures to every stored byte.
//!
//! Nothing of the write path is used here. A verification fixes a checkpoint of each stream first,
//! so that a log that is being written to verifies without false alarms: the journal's before
//! the others', because what it says of them was true before.

mod frames;
mod report;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::VerifierKey;
use probity_format::record::Record;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tree::Hash;

pub use report::{Fault, FaultClass, Report, StreamReport};

use crate::config::Options;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{add_to_history, read_geometry};
use crate::journal::History;
use crate::opener::Opener;
use crate::places::Places;
use crate::startup::files;

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
        files: files(&places.log, &defaults),
        heads: files(&places.heads, &defaults),
        geometry: read_geometry(&files(&places.log, &defaults), &places.path)?,
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

/// One stream as it is to be checked.
pub(crate) struct Subject {
    pub(crate) name: StreamName,
    pub(crate) config: StreamConfig,
    pub(crate) id: StreamId,
    pub(crate) fingerprint: [u8; 32],
    /// The fixed checkpoint.
    pub(crate) head: Option<Checkpoint>,
    /// Roots known from elsewhere: size, root, where from, and what a difference means.
    pub(crate) known: Vec<KnownHead>,
}

pub(crate) struct KnownHead {
    pub(crate) size: u64,
    pub(crate) root: Hash,
    pub(crate) source: String,
    pub(crate) class: FaultClass,
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
        let kept_journal = self.kept_note(&journal_name)?;
        let journal_note = self.note(&journal_name)?;
        let history = self.read_journal(&mut faults)?;
        report.keys = u64::try_from(history.keys.len()).unwrap_or(u64::MAX);
        self.check_folders(&history, &mut faults)?;
        let mut subjects = Vec::new();
        for (name, config) in &history.streams {
            let is_journal = *name == journal_name;
            let (kept, note) = if is_journal {
                (kept_journal.clone(), journal_note.clone())
            } else {
                (self.kept_note(name)?, self.note(name)?)
            };
            subjects.push(self.subject(name, *config, note, kept, &history, &mut faults));
        }
        for subject in &mut subjects {
            let checked = tree::check(self, subject, &mut faults)?;
            let stream = frames::check(self, subject, &checked, opener.as_ref(), &mut faults)?;
            report.streams.push(stream);
        }
        faults.sort();
        faults.dedup();
        report.faults = faults;
        Ok(report)
    }

    /// Fixes the checkpoint of a stream and collects what is known of it from elsewhere.
    fn subject(
        &self,
        name: &StreamName,
        config: StreamConfig,
        note: Option<Vec<u8>>,
        kept: Option<Vec<u8>>,
        history: &History,
        faults: &mut Vec<Fault>,
    ) -> Subject {
        let fingerprint = self.geometry.fingerprint();
        let origin = self.geometry.stream_origin(name.as_str());
        let keys = history.keys_named(&origin);
        let place = format!("streams/{name}/checkpoint");
        let mut subject = Subject {
            id: StreamId::new(&fingerprint, name, &config),
            name: name.clone(),
            config,
            fingerprint,
            head: None,
            known: Vec::new(),
        };
        if let Some(note) = note {
            match open_head(&note, &keys, &origin) {
                Ok(head) => subject.head = Some(head),
                Err(detail) => {
                    faults.push(Fault::new(FaultClass::Checkpoint, name, &place, detail));
                }
            }
        }
        Self::add_known(&mut subject, history, &origin);
        let mut add = |note: &[u8], source: &str, class| match open_head(note, &keys, &origin) {
            Ok(head) => subject.known.push(KnownHead {
                size: head.size(),
                root: *head.root(),
                source: source.to_owned(),
                class,
            }),
            Err(detail) => {
                faults.push(Fault::new(FaultClass::Checkpoint, name, source, detail));
            }
        };
        if let Some(kept) = kept {
            add(&kept, "the second copy of the head", FaultClass::Rollback);
        }
        if let Some(since) = &self.options.since
            && note_origin(since).as_deref() == Some(&origin)
        {
            add(since, "the checkpoint given with --since", FaultClass::Fork);
        }
        if subject.head.is_none() && subject.known.iter().any(|known| known.size > 0) {
            faults.push(Fault::new(
                FaultClass::Missing,
                name,
                place,
                "is missing though the stream has signed frames",
            ));
        }
        subject
    }

    /// What the journal says of the stream: anchored heads, and for itself what certificates bind.
    fn add_known(subject: &mut Subject, history: &History, origin: &str) {
        for (head, frame) in &history.heads {
            if head.origin() == origin {
                subject.known.push(KnownHead {
                    size: head.size(),
                    root: *head.root(),
                    source: format!("journal frame {frame}"),
                    class: FaultClass::Fork,
                });
            }
        }
        if subject.name == StreamName::journal() {
            for (certificate, frame) in &history.certificates {
                subject.known.push(KnownHead {
                    size: certificate.size,
                    root: certificate.root,
                    source: format!("the key certificate in journal frame {frame}"),
                    class: FaultClass::KeyChain,
                });
            }
        }
    }

    /// The journal's history, as far as its frames are whole; what is not shows up when it is checked as a stream.
    fn read_journal(&self, faults: &mut Vec<Fault>) -> Result<History, LogError> {
        let name = StreamName::journal();
        let fingerprint = self.geometry.fingerprint();
        let id = StreamId::new(&fingerprint, &name, &StreamConfig::JOURNAL);
        let mut history = History::new(self.geometry.anchor().clone());
        let mut decompressor = Decompressor::default();
        let mut position = crate::scan::Position::start(id, fingerprint);
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
            Ok(())
        };
        let _end = crate::scan::scan(&self.files, &name, &mut position, &mut visit)?;
        Ok(history)
    }

    /// Every folder must belong to a stream of the journal.
    fn check_folders(&self, history: &History, faults: &mut Vec<Fault>) -> Result<(), LogError> {
        for folder in self.files.list("streams")? {
            if !history
                .streams
                .iter()
                .any(|(name, _)| name.as_str() == folder)
            {
                faults.push(Fault::new(
                    FaultClass::Unknown,
                    &StreamName::journal(),
                    format!("streams/{folder}"),
                    "belongs to no stream that the journal created",
                ));
            }
        }
        Ok(())
    }

    fn note(&self, name: &StreamName) -> Result<Option<Vec<u8>>, LogError> {
        let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
        match self.files.read(&format!("streams/{name}/checkpoint"), max) {
            // Too long to be one: the report says so when it does not parse.
            Err(LogError::Storage { source, .. })
                if source.kind() == std::io::ErrorKind::InvalidData =>
            {
                Ok(Some(Vec::new()))
            }
            result => result,
        }
    }

    fn kept_note(&self, name: &StreamName) -> Result<Option<Vec<u8>>, LogError> {
        let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
        self.heads.read(name.as_str(), max)
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.options.jobs == 0 {
            cores()
        } else {
            self.options.jobs.min(256)
        }
    }

    /// The size below which frames are taken as read, for `subject`.
    fn since_size(subject: &Subject) -> u64 {
        let known = |known: &&KnownHead| known.source == "the checkpoint given with --since";
        subject
            .known
            .iter()
            .find(known)
            .map_or(0, |known| known.size)
    }
}

fn open_head(note: &[u8], keys: &[VerifierKey], origin: &str) -> Result<Checkpoint, String> {
    let head = Checkpoint::open(note, keys).map_err(|error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    if head.origin() == origin {
        Ok(head)
    } else {
        Err(format!(
            "has the origin {:?} of another stream",
            head.origin()
        ))
    }
}

fn note_origin(note: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(note).ok()?;
    text.lines().next().map(str::to_owned)
}

/// The records of a stream's tree up to its checkpoint, and where frames go on behind.
pub(crate) struct CheckedTree {
    pub(crate) records: Vec<Record>,
    pub(crate) by_segment: BTreeMap<u32, std::ops::Range<usize>>,
    pub(crate) unpublished_frames: u64,
}
