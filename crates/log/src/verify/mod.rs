//! The full check of a log, with or without a key: from signatures to every stored byte.
//!
//! No code of the write path is used here. A verification fixes a checkpoint of each stream first,
//! so that a log that is being written to verifies without false alarms. The journal's comes before
//! the others', because its statements about them were true before.

mod ahead;
mod anchoring;
mod anchors;
mod chain;
mod durable;
mod frames;
mod heads;
mod keyless;
mod keys;
mod passed;
mod published;
mod reading;
mod records;
mod report;
mod sealers;
mod segments;
mod segments_v2;
mod signers;
mod since;
mod slots;
mod stored;
mod stream;
mod subject;
mod tiles;
mod tree;
mod unchecked;
mod uncovered;
mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use probity_format::Version;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::VerifierKey;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use crate::config::Options;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{GEOMETRY, add_to_history, read_geometry};
use crate::journal::History;
use crate::log_location::LogLocation;
use crate::opener::Opener;
use crate::records::Records as Bundles;
use crate::scan::{End, Position, scan_believed};
use crate::segments::{self as layout, Identity};
use crate::slots::SLOTS;
use anchoring::Anchoring;
use anchors::Anchors;
use heads::Fixed;
use published::Published;
pub use reading::{Gap, Unsigned};
pub(crate) use reading::{Unread, UnreadSection};
use report::Faults;
pub use report::{
    FAULTS_LISTED_MAX, Fault, FaultClass, HeadsCompared, Report, RollbackCheck, Skipped,
    SkippedReason, StreamReport, Unchecked, UncheckedReason,
};
use sealers::{Keys, Sealers};
pub(crate) use subject::Subject;
use unchecked::Names;
pub(crate) use whole::WholeStream;

/// The options of a verification.
#[derive(Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct VerifyOptions {
    /// The root key: sections are then opened as well.
    pub root: Option<RootKey>,
    /// A verifier key of the log as the verifier knows it, the first or any later one; otherwise
    /// the first key in the log is trusted.
    pub known_key: Option<VerifierKey>,
    /// Threads; 0 means one for each core.
    pub jobs: usize,
    /// A checkpoint known from before. The stream must have grown from it, and only frames behind
    /// it are read. The others are in [`StreamReport::skipped`]: their records lead to the signed
    /// root, their bytes may be anything.
    pub since: Option<Vec<u8>>,
    /// The earliest time of entries, in nanoseconds since 1970: older frames are not read, except
    /// in journal and heads. They are in [`StreamReport::skipped`].
    pub from: Option<i64>,
    /// The time before which frames must have entries, like [`VerifyOptions::from`].
    pub to: Option<i64>,
    /// The folder of the second copies of the heads; default: `DIR.heads`, if there is one.
    pub heads: Option<PathBuf>,
    /// Called now and then, from several threads, with the bytes done and the bytes in all.
    pub progress: Option<Progress>,
}

/// A callback that gets the bytes done and the bytes in all.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Checks the log at `path`.
///
/// Damage is not an error: it is in the report, every fault with its class and place.
///
/// # Errors
/// When there is no log, it is of another version, the key is wrong or the witness key, or the
/// storage fails.
pub fn verify(path: &Path, options: &VerifyOptions) -> Result<Report, LogError> {
    verify_at(&LogLocation::new(path, options.heads.as_ref()), options)
}

/// Checks a log like [`verify`], at any places of the log and of the second copies of its heads.
///
/// # Errors
/// As [`verify`].
pub fn verify_at(places: &LogLocation, options: &VerifyOptions) -> Result<Report, LogError> {
    Verifier::new(places, options)
        .map_err(|error| gone(error, options))?
        .run()
}

/// Returns the error for a log that cannot be read. A caller with a key knows that the log exists,
/// so that its absence is damage then.
fn gone(error: LogError, options: &VerifyOptions) -> LogError {
    match error {
        LogError::NotALog { path } if options.root.is_some() || options.known_key.is_some() => {
            LogError::Broken {
                place: format!("{path}/{GEOMETRY}"),
                reason: "is missing or no geometry of a log, though a key of one was given".into(),
            }
        }
        error => error,
    }
}

pub(crate) struct Verifier<'a> {
    files: Files,
    heads: Files,
    heads_path: String,
    geometry: Geometry,
    options: &'a VerifyOptions,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(places: &LogLocation, options: &'a VerifyOptions) -> Result<Self, LogError> {
        let defaults = Options::default();
        let files = Files::of_log(places, &defaults);
        Ok(Self {
            geometry: read_geometry(&files, &places.path)?,
            heads: Files::of_heads(places, &defaults)?,
            heads_path: places.heads_path.clone(),
            files,
            options,
        })
    }

    fn run(&self) -> Result<Report, LogError> {
        self.check_no_witness()?;
        let open = |root| Opener::new_past_damage(&self.files, root, &self.geometry);
        let opener = self.options.root.as_ref().map(open).transpose()?;
        let mut faults = Faults::default();
        for slot in opener.iter().flat_map(Opener::damaged_slots) {
            faults.push(Fault::of_slot(slot));
        }
        if let Some(opener) = &opener {
            self.check_witness_key(opener, &mut faults)?;
        }
        let mut report = self.nothing_checked(opener.is_some());
        let mut unchecked = Names::default();
        unchecked.of_log(&self.files, opener.is_some(), &mut faults)?;
        let Fixed {
            chain,
            mut subjects,
            heads,
            mut slots,
            epochs,
            published,
            is_passed,
        } = self.fix(&mut faults, &mut unchecked)?;
        if is_passed {
            self.presume_erasures(&mut slots, &mut unchecked)?;
        }
        let Published {
            epochs: known,
            losses,
        } = published;
        let opener = opener.map(|opener| {
            opener.with_journal(
                (slots.slots, slots.void.clone()),
                &slots.erasures,
                &losses,
                known,
            )
        });
        self.check_slots(&slots, opener.as_ref(), &mut faults)?;
        let sealers = Sealers {
            keys: opener.as_ref().map_or(Keys::Absent, Keys::Open),
            told: &epochs,
            is_passed,
        };
        if let Some(opener) = &opener {
            let state = self.check_signing_key(opener, is_passed, &mut faults, &mut unchecked)?;
            self.check_signs(state, &mut faults)?;
            self.add_notes(
                &mut subjects,
                opener,
                is_passed,
                &mut faults,
                &mut unchecked,
            )?;
            if !is_passed {
                self.add_uncovered(&mut subjects, &slots, opener, &mut faults)?;
            }
        }
        self.name_slots(&subjects, &mut unchecked)?;
        report.losses = losses.into_iter().map(|it| it.loss).collect();
        chain.tell(&mut report);
        report.heads = heads;
        for subject in &subjects {
            let stream = stream::check(self, subject, sealers, &mut faults, &mut unchecked)?;
            report.streams.push(stream);
        }
        (report.unchecked, report.unchecked_unlisted) = unchecked.sorted();
        (report.faults, report.faults_unlisted) = faults.sorted();
        Ok(report)
    }

    /// The report before anything is checked.
    fn nothing_checked(&self, is_keyed: bool) -> Report {
        Report {
            origin: self.geometry.origin().to_owned(),
            version: self.geometry.version(),
            anchor: self.geometry.anchor().encode(),
            newest: self.geometry.anchor().encode(),
            known_key: None,
            keys: 1,
            newest_holds: true,
            keyed: is_keyed,
            heads: HeadsCompared::default(),
            streams: Vec::new(),
            losses: Vec::new(),
            faults: Vec::new(),
            faults_unlisted: 0,
            unchecked: Vec::new(),
            unchecked_unlisted: 0,
        }
    }

    /// Lists the slots of subjects where they are gone and no signed data shows how many there
    /// were.
    fn name_slots(&self, subjects: &[Subject], unchecked: &mut Names) -> Result<(), LogError> {
        let is_due = |subject: &Subject| {
            subject.config.erasable && subject.head.as_ref().is_some_and(|head| head.size() > 0)
        };
        let is_counted = self.geometry.version() != Version::V2;
        if !is_counted && subjects.iter().any(is_due) && stored::open(&self.files, SLOTS)?.is_none()
        {
            unchecked.push(SLOTS, UncheckedReason::Gone);
        }
        Ok(())
    }

    /// Reads the content of the journal and the heads that the stream `heads` anchors, as far as
    /// their frames are whole. Damaged frames are reported when these are checked as streams.
    fn read_journal(&self) -> Result<Told, LogError> {
        let mut anchors = Anchoring::new(&self.geometry);
        let mut slots = slots::SlotsTold::new(self.claimed_size(&StreamName::journal())?);
        let Followed {
            history,
            mut faults,
            passed,
        } = self.follow_journal(&mut |history, frame| {
            slots.look(history, frame);
            anchors.take_v2(history, frame);
        })?;
        let is_whole = passed.is_empty() && faults.is_empty();
        slots.finish(&history);
        slots.is_whole = is_whole;
        let mut passed_heads = Vec::new();
        if history.v2.is_none() {
            let take = &mut |number, frame: &Frame<'_>| anchors.take(&history, number, frame);
            passed_heads = self.follow_heads(&history, take)?;
        }
        let certificates_read = anchors.certificates_read(&history);
        let all_named = anchors.all();
        faults.append(anchors.faults);
        Ok(Told {
            is_whole,
            passed,
            passed_heads,
            history,
            certificates_read,
            all_named,
            anchors: anchors.of_streams,
            slots,
            faults,
        })
    }

    /// Reads the journal, and calls `visit` with its content after each frame; `visit` takes the
    /// heads away.
    fn follow_journal(
        &self,
        visit: &mut dyn FnMut(&mut History, u64),
    ) -> Result<Followed, LogError> {
        let name = StreamName::journal();
        let mut history = History::new(&self.geometry, self.files.checked_certificates());
        let mut decompressor = Decompressor::default();
        let mut faults = Faults::default();
        let mut broken = false;
        let passed = self.follow(&name, 0, &mut |number, frame| {
            if broken {
                return;
            }
            let added = add_to_history(&mut history, number, frame, &mut decompressor);
            visit(&mut history, number);
            if let Err(error) = added {
                broken = true;
                let class = if error.what == "key certificate" {
                    FaultClass::KeyChain
                } else {
                    FaultClass::Journal
                };
                let place = format!("journal frame {number}");
                faults.push(Fault::new(class, &name, place, error.to_string()));
            }
        })?;
        Ok(Followed {
            history,
            faults,
            passed,
        })
    }

    /// Reads the whole frames of `heads`, at least those that a certificate of the journal binds:
    /// whatever became of the checkpoint, the certificate signs for them.
    fn follow_heads(
        &self,
        history: &History,
        visit: &mut dyn FnMut(u64, &Frame<'_>),
    ) -> Result<Vec<u64>, LogError> {
        let bound = history.bound_heads().map_or(0, |bound| bound.size);
        self.follow(&StreamName::heads(), bound, visit)
    }

    /// Reads the whole frames of a built-in stream, past damage: those that a head claims, and the
    /// first `bound` ones. Returns those that were skipped.
    fn follow(
        &self,
        name: &StreamName,
        bound: u64,
        visit: &mut dyn FnMut(u64, &Frame<'_>),
    ) -> Result<Vec<u64>, LogError> {
        let identity = Identity::built_in(&self.geometry, name);
        let mut position = Position::start(identity);
        let mut read = |record: &Record, frame: &Frame<'_>| {
            visit(record.frame, frame);
            Ok::<(), LogError>(())
        };
        let mut passed = Vec::new();
        // Anybody may have written the frames behind the signed part, and without a key nothing
        // shows who did.
        let size = self.claimed_most(name)?.max(bound);
        let mut signed = |record: &Record, _: &Frame<'_>| record.frame < size;
        let covered = self.claimed_size(name)?.unwrap_or_default();
        let mut records = Bundles::new(&self.files, name, identity, covered);
        loop {
            let scanned = scan_believed(&self.files, name, &mut position, &mut signed, &mut read);
            as_far_as_there(scanned)?;
            let Some(record) = record_of(&mut records, position.next_frame)? else {
                break;
            };
            // Damaged, or behind a damaged frame: its record has its place, and that of the next
            // one.
            if let Some(bytes) = unless_damaged(records.stored(&record))?
                && let Ok(frame) = Frame::parse(&bytes)
            {
                read(&record, &frame)?;
            } else if passed.len() < FAULTS_LISTED_MAX {
                passed.push(record.frame);
            }
            position = behind(&mut records, &record, identity)?;
        }
        Ok(passed)
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

/// The record of a frame that the checkpoint covers; nothing where none is stored. Like all stored
/// data, it is not trusted before its tree is checked.
fn record_of(records: &mut Bundles<'_>, frame: u64) -> Result<Option<Record>, LogError> {
    let record = unless_damaged(records.of_frame(frame))?;
    Ok(record.filter(|record| record.frame == frame))
}

/// The position behind the frame of `record`, whether its segment is there or not.
fn behind(
    records: &mut Bundles<'_>,
    record: &Record,
    identity: Identity,
) -> Result<Position, LogError> {
    let position = unless_damaged(records.behind(record))?;
    Ok(position.unwrap_or_else(|| {
        let place = record.place().unwrap_or_default();
        let end = layout::behind(place, record.length);
        let next = record.frame.saturating_add(1);
        Position::at(identity, end, next, record.next_entry())
    }))
}

/// Returns the read data, or nothing where it is damaged.
fn unless_damaged<T>(read: Result<Option<T>, LogError>) -> Result<Option<T>, LogError> {
    match read {
        Err(error) if stored::is_strange(&error) => Ok(None),
        read => read,
    }
}

/// Returns the end of a scan; nothing where it met something that is no segment. The check of the
/// records reports that.
fn as_far_as_there(scanned: Result<End, LogError>) -> Result<Option<End>, LogError> {
    match scanned {
        Err(error) if stored::is_strange(&error) => Ok(None),
        end => end.map(Some),
    }
}

/// The content of the journal, and the anchored heads of other streams.
struct Told {
    history: History,
    /// The heads that are anchored, by the origin of their stream.
    anchors: BTreeMap<String, Anchors>,
    /// The number of certificates before a head that no frame of `heads` names.
    certificates_read: usize,
    /// The epoch of the last frame of `heads` that names all streams.
    all_named: Option<u32>,
    /// The journal's statements about the slots of subjects.
    slots: slots::SlotsTold,
    /// The faults of journal and heads.
    faults: Faults,
    /// True when no frame of the journal was skipped.
    is_whole: bool,
    /// Damaged frames of the journal that were skipped, and of the stream `heads`.
    passed: Vec<u64>,
    passed_heads: Vec<u64>,
}

/// The content of the journal's frames, read one after the other.
struct Followed {
    history: History,
    faults: Faults,
    /// Damaged frames that were skipped.
    passed: Vec<u64>,
}
