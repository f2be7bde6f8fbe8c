//! Protects readers from damage: streams are checked before their entries are read, and behind
//! damage they are read frame by frame, as far as records lead.

use probity_format::Version;
use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::limits::TILE_WIDTH;
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;

use super::durable::NOTED;
use super::records::Records;
use super::report::{Faults, StreamReport};
use super::sealers::{Keys, Sealers};
use super::stored::is_strange;
use super::subject::Subject;
use super::unchecked::Names;
use super::{Fault, FaultClass, Verifier, stream, unless_damaged};
use crate::epochs::{CertifiedEpochs, Epochs};
use crate::error::{LogError, Missing, frames};
use crate::opener::Opener;
use crate::scan::{Position, scan_believed, stored_frame};

/// The streams of a log and the faults of those that are to be read.
pub(crate) struct Checked {
    pub(crate) subjects: Vec<Subject>,
    /// The figures of those that were checked.
    pub(crate) reports: Vec<StreamReport>,
    /// Sorted by stream and place.
    pub(crate) faults: Vec<Fault>,
    /// Faults that are not listed because there are too many.
    pub(crate) faults_unlisted: u64,
    /// The first fault that affects the data to be read, listed or not; a foreign file does not.
    pub(crate) damage: Option<Fault>,
}

/// Frames of one stream that were signed for and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The stream.
    pub stream: String,
    /// The first frame that is missing.
    pub first_frame: u64,
    /// The number of consecutive missing frames.
    pub frames: u64,
    /// Index of the first entry that is missing.
    pub first_entry: u64,
    /// The number of missing entries.
    pub missing: Missing,
    /// The reason why the first of the frames cannot be read, one clause.
    pub reason: String,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self
            .first_frame
            .saturating_add(self.frames)
            .saturating_sub(1);
        let (stream, first) = (&self.stream, self.first_frame);
        if last > first {
            write!(f, "stream {stream}, frames {first} to {last}: ")?;
        } else {
            write!(f, "stream {stream}, frame {first}: ")?;
        }
        let (reason, from) = (&self.reason, self.first_entry);
        write!(f, "{reason}; from entry {from} on {}", self.missing)
    }
}

/// Frames that are there and are not read, because nothing shows who wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsigned {
    /// The stream.
    pub stream: String,
    /// The number of frames behind the stream's checkpoint.
    pub frames: u64,
    /// The bytes of these frames.
    pub bytes: u64,
}

impl std::fmt::Display for Unsigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            stream,
            frames: count,
            bytes,
        } = self;
        let count = frames(*count);
        write!(
            f,
            "stream {stream}: {count} of {bytes} bytes behind the checkpoint, which nobody signed and anybody may have written"
        )
    }
}

/// Receives the whole frames of a stream.
pub(crate) type VisitFrame<'a, E> =
    dyn FnMut(&Record, &Frame<'_>) -> Result<Result<(), Unread>, E> + 'a;

/// The unreadable part of a whole frame.
pub(crate) enum Unread {
    /// Everything behind this many of its entries.
    Behind { entries: u64, reason: String },
    /// Entries here and there, section by section.
    Sections(Vec<UnreadSection>),
}

/// A section that could not be read.
pub(crate) struct UnreadSection {
    pub(crate) reason: String,
    /// The first of its entries, by place in the frame.
    pub(crate) first: u64,
    /// The number of its entries.
    pub(crate) entries: u64,
}

impl Verifier<'_> {
    /// Checks the built-in streams, and those that `is_wanted`, without opening anything; `opener`
    /// authenticates the writer's notes and shows which key signs.
    pub(crate) fn check_for_reading(
        &self,
        opener: &Opener,
        is_wanted: &dyn Fn(&StreamName) -> bool,
    ) -> Result<Checked, LogError> {
        self.check_streams(Some(opener), is_wanted)
    }

    /// Checks the built-in streams without any secret.
    ///
    /// # Errors
    /// [`LogError::Broken`] with the first fault; errors of the storage.
    pub(crate) fn check_built_in(&self) -> Result<(), LogError> {
        let checked = self.check_streams(None, &|_| false)?;
        checked.damage.map_or(Ok(()), |fault| {
            Err(LogError::Broken {
                place: format!("stream {}, {}", fault.stream, fault.place),
                reason: fault.detail,
            })
        })
    }

    /// The first fault that shows before any stream is checked: one of the journal, or a sign that
    /// it is an older one, or a key beside the checkpoint of one of `names` that it has not.
    pub(crate) fn first_fault_of_journal(
        &self,
        opener: &Opener,
        names: &[&StreamName],
    ) -> Result<Option<Fault>, LogError> {
        let mut faults = Faults::default();
        self.begin(Some(opener), &mut faults, &mut Names::default())?;
        let is_named = |fault: &Fault| names.iter().any(|name| fault.stream == name.as_str());
        Ok(faults.first_damage(|fault| {
            fault.is_of_journal() || fault.class == FaultClass::KeyChain && is_named(fault)
        }))
    }

    /// Fixes the heads of all streams, and compares the journal with the key that signs and with
    /// the writer's notes. Every reader begins here.
    fn begin(
        &self,
        opener: Option<&Opener>,
        faults: &mut Faults,
        unheard: &mut Names,
    ) -> Result<Begun, LogError> {
        let fixed = self.fix(faults, unheard)?;
        let (mut subjects, is_passed) = (fixed.subjects, fixed.is_passed);
        if let Some(opener) = opener {
            self.check_signing_key(opener, is_passed, faults, unheard)?;
            self.add_notes(&mut subjects, opener, is_passed, faults, unheard)?;
            if !is_passed {
                self.add_uncovered(&mut subjects, &fixed.slots, opener, faults)?;
            }
        }
        Ok(Begun {
            subjects,
            epochs: fixed.epochs,
            is_passed,
        })
    }

    fn check_streams(
        &self,
        opener: Option<&Opener>,
        is_wanted: &dyn Fn(&StreamName) -> bool,
    ) -> Result<Checked, LogError> {
        let mut faults = Faults::default();
        let unheard = &mut Names::default();
        let begun = self.begin(opener, &mut faults, unheard)?;
        let sealers = Sealers {
            keys: opener.map_or(Keys::Absent, Keys::Tell),
            told: &begun.epochs,
            is_passed: begun.is_passed,
        };
        let mut reports = Vec::new();
        for subject in &begun.subjects {
            if is_checked(subject, is_wanted) {
                let report = stream::check(self, subject, sealers, &mut faults, unheard)?;
                reports.push(report);
            }
        }
        let others = begun.others(is_wanted);
        let damage = faults.first_damage(|fault| is_meant(fault, &others));
        let (mut listed, faults_unlisted) = faults.sorted();
        listed.retain(|fault| is_meant(fault, &others));
        Ok(Checked {
            subjects: begun.subjects,
            reports,
            faults: listed,
            faults_unlisted,
            damage,
        })
    }

    /// Calls `visit` for each whole frame of a stream, behind damage too, and `gap` for the parts
    /// between.
    ///
    /// # Errors
    /// Errors of the storage, and errors of `visit`.
    pub(crate) fn read_damaged<E: From<LogError>>(
        &self,
        subject: &mut Subject,
        epochs: &mut Epochs<'_>,
        visit: &mut VisitFrame<'_, E>,
    ) -> Result<Vec<Gap>, E> {
        subject.head = self.head_to_read(subject);
        let subject = &*subject;
        let mut reading = DamagedReading {
            verifier: self,
            subject,
            visit,
            gaps: Gaps::new(subject.name.as_str()),
        };
        // The faults are reported already.
        let unheard = &mut Faults::default();
        let mut records = Records::survey(self, subject, unheard)?;
        let size = records.size();
        let mut last = None;
        for index in 0..size.div_ceil(TILE_WIDTH) {
            let placed = records.read(index, unheard)?;
            let first = index.saturating_mul(TILE_WIDTH);
            for (placed, frame) in placed.into_iter().zip(first..) {
                match (placed.record, placed.place) {
                    (Some(record), place) => reading.one(&record, place)?,
                    (None, _) => reading.gaps.unknown(frame),
                }
                last = placed.record.zip(placed.place);
            }
        }
        reading.unsigned(size, last, epochs)?;
        Ok(reading.gaps.finish(newest(subject)))
    }

    /// The head that bounds the reading: the checkpoint, or the newest other known head where that
    /// is gone.
    ///
    /// In version 2 the newest of both, since only a head confirms a frame: a crash leaves the
    /// second copy ahead.
    pub(crate) fn head_to_read(&self, subject: &Subject) -> Option<Checkpoint> {
        let elsewhere = || head_in_its_place(&self.geometry, subject);
        let Some(head) = subject.head.clone() else {
            return elsewhere();
        };
        let newer = elsewhere().filter(|other| other.size() > head.size());
        let newer = newer.filter(|_| subject.version == Version::V2);
        Some(newer.unwrap_or(head))
    }
}

/// The reading of a stream past its damage.
struct DamagedReading<'r, 'v, E> {
    verifier: &'r Verifier<'r>,
    subject: &'r Subject,
    visit: &'r mut VisitFrame<'v, E>,
    gaps: Gaps<'r>,
}

impl<E: From<LogError>> DamagedReading<'_, '_, E> {
    /// Reads the frame of a record.
    fn one(&mut self, record: &Record, place: Option<Place>) -> Result<(), E> {
        let subject = self.subject;
        let identity = subject.identity();
        let stored = match place {
            Some(place) => unless_damaged(stored_frame(
                &self.verifier.files,
                &subject.name,
                &identity,
                record,
                place,
            ))?,
            None => None,
        };
        let parsed = stored.as_ref().and_then(|bytes| Frame::parse(bytes).ok());
        let Some(frame) = parsed else {
            self.gaps.damaged(
                record,
                0,
                "it is gone, or its bytes are not those that were recorded",
            );
            return Ok(());
        };
        match (self.visit)(record, &frame)? {
            Ok(()) => self.gaps.read(record),
            Err(unread) => self.gaps.unread(record, unread),
        }
        Ok(())
    }

    /// Follows the frames behind the checkpoint, for which no records are stored.
    fn unsigned(
        &mut self,
        size: u64,
        last: Option<(Record, Place)>,
        epochs: &mut Epochs<'_>,
    ) -> Result<(), E> {
        let (files, subject) = (&self.verifier.files, self.subject);
        let (visit, gaps) = (&mut *self.visit, &mut self.gaps);
        let position = match last {
            _ if size == 0 => Some(Position::start(subject.identity())),
            None => None,
            Some((last, place)) => {
                let identity = subject.identity();
                let behind = Position::behind(files, &subject.name, identity, &last, place);
                unless_damaged(behind)?
            }
        };
        let Some(mut position) = position else {
            return Ok(());
        };
        let name = &subject.name;
        let mut believe = |_: &Record, frame: &Frame<'_>| epochs.authenticate(frame);
        let mut read = |record: &Record, frame: &Frame<'_>| {
            match visit(record, frame).map_err(Failed::Visit)? {
                Ok(()) => gaps.read(record),
                Err(unread) => gaps.unread(record, unread),
            }
            Ok::<(), Failed<E>>(())
        };
        match scan_believed(files, name, &mut position, &mut believe, &mut read) {
            Err(Failed::Visit(error)) => Err(error),
            Err(Failed::Log(error)) if !is_strange(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Returns the newest head known from elsewhere, where the checkpoint is gone.
fn head_in_its_place(geometry: &Geometry, subject: &Subject) -> Option<Checkpoint> {
    // Records belong to a head; notes go beyond it.
    let known = subject.known.iter().filter(|known| known.source != NOTED);
    let known = known.max_by_key(|known| known.size)?;
    let origin = geometry.stream_origin(subject.name.as_str());
    Checkpoint::new(&origin, known.size, known.root).ok()
}

/// The state from which a reader begins.
struct Begun {
    subjects: Vec<Subject>,
    epochs: CertifiedEpochs,
    /// True when damaged frames of the journal were skipped.
    is_passed: bool,
}

impl Begun {
    /// The streams that are not checked.
    fn others(&self, is_wanted: &dyn Fn(&StreamName) -> bool) -> Vec<String> {
        let subjects = self.subjects.iter();
        let others = subjects.filter(|subject| !is_checked(subject, is_wanted));
        others.map(|subject| subject.name.to_string()).collect()
    }
}

/// Returns whether a stream is checked for a reader: every built-in one is.
fn is_checked(subject: &Subject, is_wanted: &dyn Fn(&StreamName) -> bool) -> bool {
    subject.name.is_built_in(subject.version) || is_wanted(&subject.name)
}

/// Returns whether a fault concerns a reader. Faults of the streams in `others` do not, unless they
/// show that the journal is an older one.
fn is_meant(fault: &Fault, others: &[String]) -> bool {
    fault.is_of_journal() || !others.contains(&fault.stream)
}

/// The reason why a scan behind the checkpoint ended.
enum Failed<E> {
    Log(LogError),
    Visit(E),
}

impl<E> From<LogError> for Failed<E> {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// Frames that the newest known head of a stream covers, or the writer's note of durable frames.
pub(super) fn newest(subject: &Subject) -> u64 {
    let head = subject.head.as_ref().map_or(0, Checkpoint::size);
    let known = subject.known.iter().map(|known| known.size).max();
    let anchored = subject.anchored();
    let uncovered = subject.uncovered.iter();
    let named = uncovered.map(|named| named.head.size()).max();
    let others = [known, named].into_iter().flatten();
    others.fold(head.max(anchored), u64::max)
}

/// Collects the unreadable parts of one stream, in order.
struct Gaps<'a> {
    stream: &'a str,
    found: Vec<Gap>,
    /// True when the last of them may go on.
    is_open: bool,
    /// The frame and the entry that are due.
    next_frame: u64,
    next_entry: u64,
}

impl<'a> Gaps<'a> {
    const fn new(stream: &'a str) -> Self {
        Self {
            stream,
            found: Vec::new(),
            is_open: false,
            next_frame: 0,
            next_entry: 0,
        }
    }

    /// Counts a frame that was read.
    fn read(&mut self, record: &Record) {
        self.close(record.first_entry);
        self.next_frame = record.frame.saturating_add(1);
        self.next_entry = record.next_entry();
    }

    /// Counts a frame that could not be read as a whole.
    fn unread(&mut self, record: &Record, unread: Unread) {
        let sections = match unread {
            Unread::Behind { entries, reason } => return self.damaged(record, entries, &reason),
            Unread::Sections(sections) => sections,
        };
        self.close(record.first_entry);
        for section in sections {
            self.found.push(Gap {
                stream: self.stream.to_owned(),
                first_frame: record.frame,
                frames: 1,
                first_entry: record.first_entry.saturating_add(section.first),
                missing: Missing {
                    entries: section.entries,
                    is_least: false,
                },
                reason: section.reason,
            });
        }
        self.read(record);
    }

    /// Counts a frame of which only the first `entries` were read.
    fn damaged(&mut self, record: &Record, entries: u64, reason: &str) {
        if entries > 0 || !self.is_open {
            self.close(record.first_entry);
            self.next_entry = record.first_entry.saturating_add(entries);
        }
        self.open(record.frame, reason);
        self.extend(record.next_entry());
    }

    /// Counts a frame of which no record is left.
    fn unknown(&mut self, frame: u64) {
        self.open(frame, "neither its record nor the frame is left");
        if let Some(gap) = self.found.last_mut() {
            gap.missing.is_least = true;
        }
    }

    fn open(&mut self, frame: u64, reason: &str) {
        if !self.is_open {
            self.found.push(Gap {
                stream: self.stream.to_owned(),
                first_frame: frame,
                frames: 0,
                first_entry: self.next_entry,
                missing: Missing::default(),
                reason: reason.to_owned(),
            });
            self.is_open = true;
        }
        if let Some(gap) = self.found.last_mut() {
            gap.frames = frame.saturating_add(1).saturating_sub(gap.first_frame);
        }
        self.next_frame = frame.saturating_add(1);
    }

    /// Extends the open gap up to entry `next` at least.
    fn extend(&mut self, next: u64) {
        if let Some(gap) = self.found.last_mut().filter(|_| self.is_open) {
            gap.missing.entries = next.saturating_sub(gap.first_entry);
            // The record holds the index of its first entry, and so the number of entries before.
            gap.missing.is_least = false;
        }
        self.next_entry = next;
    }

    /// Ends the open gap before the entry at `next`, which was read.
    fn close(&mut self, next: u64) {
        if self.is_open {
            self.extend(next);
        }
        self.is_open = false;
    }

    /// Returns all gaps of a stream of which `frames` were signed for.
    fn finish(mut self, frames: u64) -> Vec<Gap> {
        if let Some(last) = frames
            .checked_sub(1)
            .filter(|last| *last >= self.next_frame)
        {
            let from = self.next_frame;
            self.open(from, "it was signed for, or durable, and is gone");
            self.open(last, "");
            if let Some(gap) = self.found.last_mut() {
                gap.missing.is_least = true;
            }
        }
        self.found
    }
}
