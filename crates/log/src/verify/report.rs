//! The result of a verification: every stream with its figures, every fault with its class and
//! place.

use std::fmt;

use probity_format::Version;
use probity_format::stream::StreamName;

use crate::files::shown;
use crate::repairs::Repair;

/// Most faults that a report lists; of those beyond only the number is known.
pub const FAULTS_LISTED_MAX: usize = 100_000;

/// The kind of damage of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultClass {
    /// A file that must be there is not.
    Missing,
    /// The checkpoint is malformed, or signed by no key of the chain.
    Checkpoint,
    /// The stored tree does not have the root that was signed.
    Tree,
    /// A tile or bundle differs from the one that the leaves determine.
    Tile,
    /// A frame record is malformed or out of order.
    Record,
    /// A frame's bytes are not the ones its record commits to.
    Frame,
    /// A segment's header or footer differs from the one that the records determine, or bytes
    /// follow its end.
    Segment,
    /// The journal has an entry that the log would not write.
    Journal,
    /// The chain of signing keys is broken.
    KeyChain,
    /// A head that was anchored or kept elsewhere is not part of the stream: it was rewritten.
    Fork,
    /// The log is shorter than its signed part: its tail was cut off or an older copy put back.
    Rollback,
    /// A folder that belongs to no stream of the journal.
    Unknown,
    /// A section does not open under the log's key, or its content contradicts its frame.
    Content,
}

impl FaultClass {
    /// The word used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Checkpoint => "checkpoint",
            Self::Tree => "tree",
            Self::Tile => "tile",
            Self::Record => "record",
            Self::Frame => "frame",
            Self::Segment => "segment",
            Self::Journal => "journal",
            Self::KeyChain => "key-chain",
            Self::Fork => "fork",
            Self::Rollback => "rollback",
            Self::Unknown => "unknown",
            Self::Content => "content",
        }
    }
}

/// A single fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Fault {
    /// The stream; `journal` for the log as a whole.
    pub stream: String,
    /// File, and offset or index where there is one.
    pub place: String,
    /// The kind of damage.
    pub class: FaultClass,
    /// The fault, one clause.
    pub detail: String,
    /// True when it is found at the stream and shows that the journal is an older one.
    blames_journal: bool,
}

impl Fault {
    pub(super) fn new(
        class: FaultClass,
        stream: &StreamName,
        place: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            stream: stream.to_string(),
            place: shown(&place.into()),
            class,
            detail: shown(&detail.into()),
            blames_journal: false,
        }
    }

    /// Marks that it shows that the journal is an older one: something later is there.
    pub(super) fn of_older_journal(self) -> Self {
        Self {
            blames_journal: true,
            ..self
        }
    }

    /// Returns whether it is one of the journal, or shows that the journal is an older one. A
    /// reader then does not know which streams, keys and erasures there are.
    pub fn is_of_journal(&self) -> bool {
        self.blames_journal || self.stream == StreamName::JOURNAL
    }

    /// The key in a slot of a subject is damaged; sections under it count as erased.
    pub(crate) fn of_slot(slot: u64) -> Self {
        let detail = "the subject key does not open: it was changed or swapped";
        let place = format!("subjects/slots, slot {slot}");
        Self::new(FaultClass::Content, &StreamName::journal(), place, detail)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stream,
            place,
            class,
            detail,
            ..
        } = self;
        write!(f, "{}: stream {stream}, {place}: {detail}", class.as_str())
    }
}

/// Faults of a log, up to a bound. Faults that no reader needs have a separate bound. Anybody who
/// can write files can make any number of foreign names, and they must not hide damage.
#[derive(Debug, Default)]
pub(super) struct Faults {
    damage: Vec<Fault>,
    aside: Vec<Fault>,
    unlisted: u64,
}

impl Faults {
    /// Adds a fault. That of a foreign file is put [aside](Self::push_aside).
    pub(super) fn push(&mut self, fault: Fault) {
        if fault.class == FaultClass::Unknown {
            self.push_aside(fault);
        } else if self.damage.len() < FAULTS_LISTED_MAX {
            self.damage.push(fault);
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }

    /// Adds a fault that does not affect the data to be read.
    pub(super) fn push_aside(&mut self, fault: Fault) {
        if self.aside.len() < FAULTS_LISTED_MAX {
            self.aside.push(fault);
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }

    pub(super) fn append(&mut self, faults: Self) {
        faults.damage.into_iter().for_each(|fault| self.push(fault));
        let aside = faults.aside.into_iter();
        aside.for_each(|fault| self.push_aside(fault));
        self.unlisted = self.unlisted.saturating_add(faults.unlisted);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.damage.is_empty() && self.aside.is_empty() && self.unlisted == 0
    }

    /// The first fault that affects the data to be read, in order of stream and place, among those
    /// that `is_meant` selects.
    pub(super) fn first_damage(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let first = self.damage.iter().filter(|fault| is_meant(fault)).min();
        // The streams of faults beyond the bound are unknown.
        let is_full = self.damage.len() >= FAULTS_LISTED_MAX;
        first
            .or_else(|| self.damage.first().filter(|_| is_full))
            .cloned()
    }

    /// All faults in order of stream and place, each once, and the number of those not listed.
    pub(super) fn sorted(self) -> (Vec<Fault>, u64) {
        let mut listed = self.damage;
        listed.extend(self.aside);
        listed.sort();
        listed.dedup();
        (listed, self.unlisted)
    }
}

/// Figures of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamReport {
    /// Its name.
    pub name: String,
    /// Frames the checkpoint covers.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of sealed frames whose hashes were recomputed.
    pub bytes: u64,
    /// Frames the checkpoint covers that were not read, because the options leave them out. Their
    /// bytes were not checked.
    pub skipped: Vec<Skipped>,
    /// Root hash of the checkpoint, in base64.
    pub root: String,
    /// Whole frames behind the checkpoint: written, not published yet.
    pub unpublished_frames: u64,
    /// True when the log's keys sealed those. Known only with the root key, and never in a log of
    /// version 2, where nothing shows the writer.
    pub unpublished_sealed: bool,
    /// Bytes of those frames and of everything behind them, which is not signed for.
    pub unsigned_bytes: u64,
    /// Bytes behind the last whole frame: torn by a crash, or appended by somebody.
    pub tail_bytes: u64,
    /// Sections that no longer open because their subjects' keys were destroyed; keyed only.
    pub erased_sections: u64,
    /// Sections about several people of whom some were erased and others still open it; keyed only.
    pub partly_erased_sections: u64,
}

/// Frames of one stream that were not read, though a checkpoint covers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The number of frames.
    pub frames: u64,
    /// Their bytes, according to their records.
    pub bytes: u64,
    /// The reason why they were not read.
    pub why: SkippedReason,
}

/// The reason why frames were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkippedReason {
    /// The checkpoint of [`super::VerifyOptions::since`] covers them.
    BeforeCheckpoint,
    /// They hold no entries of the time that [`super::VerifyOptions::from`] and
    /// [`super::VerifyOptions::to`] name.
    OtherTime,
}

impl SkippedReason {
    /// The words used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeCheckpoint => "the checkpoint given with --since covers them",
            Self::OtherTime => "no entry in them is of the time asked for with --from and --to",
        }
    }
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The log's name.
    pub origin: String,
    /// The version of its format.
    pub version: Version,
    /// The verifier key the chain started from.
    pub anchor: String,
    /// Number of signing keys in the chain.
    pub keys: u64,
    /// The newest key of the chain, as far as it could be read.
    pub newest: String,
    /// The number in the chain, from 1, of the key given with [`super::VerifyOptions::known_key`].
    pub known_key: Option<u64>,
    /// True when no head that the log shows may be signed by a key older than the newest, unless a
    /// frame named it before that key was certified. False where a writer ended, or is at work,
    /// between a certificate and its first frame of `heads`.
    pub newest_holds: bool,
    /// True when sections were opened too.
    pub keyed: bool,
    /// The second copies of the heads that were compared.
    pub heads: HeadsCompared,
    /// Each stream, the journal first.
    pub streams: Vec<StreamReport>,
    /// Frames that were lost before they were signed for, and whose loss the journal records as
    /// accepted.
    pub losses: Vec<Repair>,
    /// All faults, sorted by stream and place; at most [`FAULTS_LISTED_MAX`] that affect the data
    /// to be read, and as many others.
    pub faults: Vec<Fault>,
    /// Faults that are not listed because there are too many.
    pub faults_unlisted: u64,
    /// Files in the log's folder that were not checked, sorted by path; at most
    /// [`FAULTS_LISTED_MAX`].
    pub unchecked: Vec<Unchecked>,
    /// Names that are not listed because there are too many.
    pub unchecked_unlisted: u64,
}

/// The second copies of the signed heads that were there to compare with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadsCompared {
    /// The folder.
    pub place: String,
    /// Streams whose second copy was compared.
    pub streams: u64,
    /// Streams with signed frames that have no second copy.
    pub missing: Vec<String>,
    /// The stream whose checkpoint was given with [`super::VerifyOptions::since`].
    pub since: Option<String>,
}

/// Something in the log's folder that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Unchecked {
    /// The path in the folder.
    pub path: String,
    /// The reason why it was not checked.
    pub why: UncheckedReason,
}

/// The reason why something was not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UncheckedReason {
    /// The log needs it, but it proves nothing.
    NoEvidence,
    /// A segment behind the stream's last one.
    LaterSegment,
    /// A name that is foreign to the log.
    Foreign,
    /// Its folder may not be listed.
    Unreadable,
    /// Missing, while no signed data determines its content.
    Gone,
    /// A temporary file: a crash left it, or it is being written now.
    Leftover,
    /// No note of the log's writer, so that a cut tail of the stream would not be found.
    SaysNothing,
    /// A damaged frame of the journal or of `heads`; its content is not compared with anything.
    Unheard,
    /// A record that decides whether it is right may be in a damaged frame of the journal.
    Undecided,
    /// A tile or bundle beyond the signed part.
    Beyond,
    /// A key whose certificate is behind the signed part.
    Ahead,
}

impl UncheckedReason {
    /// The words used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoEvidence => "is no evidence",
            Self::LaterSegment => "is a segment behind the last of its stream",
            Self::Foreign => "belongs to nothing in the log",
            Self::Unreadable => "cannot be listed",
            Self::Gone => "is not there",
            Self::Leftover => "is a temporary file that a crash left, or that is being written",
            Self::SaysNothing => {
                "says nothing that the log's keys wrote: a tail that was cut off would not be found"
            }
            Self::Unheard => "is damaged: what it said was compared with nothing",
            Self::Undecided => {
                "cannot be judged: what decides may stand in a damaged frame of the journal"
            }
            Self::Beyond => "goes beyond what is signed: only what is signed of it was compared",
            Self::Ahead => {
                "is a key whose certificate is not signed for yet: a writer ended before its checkpoint, or is at work"
            }
        }
    }
}

/// The extent to which a rollback of the log to an older copy would have been found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RollbackCheck {
    /// There was a second copy of the head of each stream with signed frames.
    Full,
    /// There was one for some streams.
    SomeStreams,
    /// There was none, but a checkpoint kept from before: the log is no older than that.
    SinceCheckpoint,
    /// There was nothing to compare with.
    Nothing,
}

impl RollbackCheck {
    /// The words used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "compared",
            Self::SomeStreams => "compared of some streams",
            Self::SinceCheckpoint => "compared with the checkpoint given with --since",
            Self::Nothing => "not compared",
        }
    }
}

impl Report {
    /// Returns whether every frame that a checkpoint covers was read, and no fault was found. A
    /// verification that leaves frames out does not check them: it is never intact, only without
    /// faults ([`Report::has_faults`]). [`Report::rollback`] tells whether a rollback would have
    /// been found.
    pub fn is_intact(&self) -> bool {
        !self.has_faults() && self.is_read_whole()
    }

    /// Returns whether a fault was found.
    pub const fn has_faults(&self) -> bool {
        !self.faults.is_empty() || self.faults_unlisted > 0
    }

    /// Returns whether no stream has [`StreamReport::skipped`] frames.
    pub fn is_read_whole(&self) -> bool {
        self.streams.iter().all(|stream| stream.skipped.is_empty())
    }

    /// Returns the means with which a rollback would have been found.
    pub const fn rollback(&self) -> RollbackCheck {
        let HeadsCompared {
            streams,
            missing,
            since,
            ..
        } = &self.heads;
        match (*streams, missing.is_empty()) {
            (0, _) if since.is_some() => RollbackCheck::SinceCheckpoint,
            (0, _) => RollbackCheck::Nothing,
            (_, true) => RollbackCheck::Full,
            (_, false) => RollbackCheck::SomeStreams,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Foreign names, as many as a report lists, left no room for the fault that shows that an
    /// older copy was put back.
    #[test]
    fn what_says_nothing_takes_no_room_from_what_does() {
        let mut faults = Faults::default();
        let journal = StreamName::journal();
        for number in 0..=FAULTS_LISTED_MAX {
            let place = format!("streams/{number}");
            faults.push(Fault::new(
                FaultClass::Unknown,
                &journal,
                place,
                "is nothing",
            ));
        }
        assert_eq!(faults.first_damage(|_| true), None);
        let old = Fault::new(FaultClass::Rollback, &journal, "checkpoint", "is older");
        faults.push(old.clone());
        assert_eq!(faults.first_damage(|_| true), Some(old.clone()));
        let (listed, unlisted) = faults.sorted();
        assert!(listed.contains(&old));
        assert_eq!(unlisted, 1);
    }

    #[test]
    fn damage_without_room_is_damage_of_whatever_is_asked_for() {
        let mut faults = Faults::default();
        let journal = StreamName::journal();
        for number in 0..FAULTS_LISTED_MAX {
            let place = format!("frame {number}");
            faults.push(Fault::new(FaultClass::Frame, &journal, place, "is damaged"));
        }
        assert!(faults.first_damage(|_| false).is_some());
    }
}
