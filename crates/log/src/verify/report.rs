//! What a verification found: every stream with its figures, every fault with its class and place.

use std::fmt;

use probity_format::Version;
use probity_format::stream::StreamName;

use crate::files::shown;
use crate::repairs::Repair;

/// Most faults that a report lists; of those beyond only the number is known.
pub const FAULTS_LISTED_MAX: usize = 100_000;

/// What kind of damage a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultClass {
    /// A file that must be there is not.
    Missing,
    /// The checkpoint is malformed, or signed by no key of the chain.
    Checkpoint,
    /// The stored tree does not have the root that was signed.
    Tree,
    /// A tile or bundle is not what the leaves call for.
    Tile,
    /// A frame record is malformed or out of order.
    Record,
    /// A frame's bytes are not the ones its record commits to.
    Frame,
    /// A segment's header or footer is not what the records call for, or bytes follow its end.
    Segment,
    /// The journal says something the log would not write.
    Journal,
    /// The chain of signing keys is broken.
    KeyChain,
    /// A head that was anchored or kept elsewhere is not part of the stream: it was rewritten.
    Fork,
    /// The log is shorter than what was signed: its tail was cut off or an older copy put back.
    Rollback,
    /// A folder that belongs to no stream of the journal.
    Unknown,
    /// A section does not open under the log's key, or does not hold what its frame says.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Fault {
    /// The stream; `journal` for the log as a whole.
    pub stream: String,
    /// File, and offset or index where there is one.
    pub place: String,
    /// What kind of damage.
    pub class: FaultClass,
    /// What is wrong, one clause.
    pub detail: String,
    /// Whether it is found at the stream and says that the journal is an older one.
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

    /// The same, and it says that the journal is an older one: something later than it is there.
    pub(super) fn of_older_journal(self) -> Self {
        Self {
            blames_journal: true,
            ..self
        }
    }

    /// Whether it is one of the journal, or says of it that it is an older one: which streams and keys there are, and who is erased, is then not known to
    /// anybody who reads the log.
    pub fn is_of_journal(&self) -> bool {
        self.blames_journal || self.stream == StreamName::JOURNAL
    }

    /// The key in a slot of a subject is damaged; what it opened counts as erased.
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

/// Faults of a log, as far as there is room for them. What no reader needs has room of its own: anybody who can write files can make any number of names
/// that belong to nothing, and they must hide no damage.
#[derive(Debug, Default)]
pub(super) struct Faults {
    damage: Vec<Fault>,
    aside: Vec<Fault>,
    unlisted: u64,
}

impl Faults {
    /// Takes a fault. A file that belongs to nothing stands [aside](Self::push_aside).
    pub(super) fn push(&mut self, fault: Fault) {
        if fault.class == FaultClass::Unknown {
            self.push_aside(fault);
        } else if self.damage.len() < FAULTS_LISTED_MAX {
            self.damage.push(fault);
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }

    /// Takes a fault that says nothing of what there is to be read.
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

    /// The first of those that say anything of what there is to be read, in order of stream and place, among the streams that `is_meant` takes.
    pub(super) fn first_damage(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let first = self.damage.iter().filter(|fault| is_meant(fault)).min();
        // Of those for which there was no room nobody knows whose they are.
        let is_full = self.damage.len() >= FAULTS_LISTED_MAX;
        first
            .or_else(|| self.damage.first().filter(|_| is_full))
            .cloned()
    }

    /// In order of stream and place, each once, and the number of the others.
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
    /// Frames the checkpoint covers that were not read, because the options leave them out. Nothing is said of their bytes.
    pub skipped: Vec<Skipped>,
    /// Root hash of the checkpoint, in base64.
    pub root: String,
    /// Whole frames behind the checkpoint: written, not published yet.
    pub unpublished_frames: u64,
    /// Whether the log's keys sealed those: known with the root key alone, and never in a log of version 2, where nothing tells who wrote them.
    pub unpublished_sealed: bool,
    /// Bytes of those frames, and of what stands behind them: nobody signed for them.
    pub unsigned_bytes: u64,
    /// Bytes behind the last whole frame: what a crash tore, or what somebody appended.
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
    /// How many frames.
    pub frames: u64,
    /// Their bytes, as their records say.
    pub bytes: u64,
    /// Why they were not read.
    pub why: SkippedReason,
}

/// Why frames were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkippedReason {
    /// The checkpoint of [`super::VerifyOptions::since`] covers them.
    BeforeCheckpoint,
    /// They hold no entries of the time that [`super::VerifyOptions::from`] and [`super::VerifyOptions::to`] name.
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
    /// Whether sections were opened too.
    pub keyed: bool,
    /// The second copies of the heads that were compared.
    pub heads: HeadsCompared,
    /// Each stream, the journal first.
    pub streams: Vec<StreamReport>,
    /// Frames that were lost before anybody signed for them, and whose loss the journal says was accepted.
    pub losses: Vec<Repair>,
    /// Everything that is wrong, sorted by stream and place; at most [`FAULTS_LISTED_MAX`] that say something of what
    /// there is to be read, and as many others.
    pub faults: Vec<Fault>,
    /// Faults that are not listed because there are too many.
    pub faults_unlisted: u64,
    /// What stands in the log's folder and was not checked, sorted by path; at most [`FAULTS_LISTED_MAX`].
    pub unchecked: Vec<Unchecked>,
    /// Names that are not listed because there are too many.
    pub unchecked_unlisted: u64,
}

/// Which second copies of the signed heads there were to compare with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadsCompared {
    /// The folder.
    pub place: String,
    /// Streams whose second copy was compared.
    pub streams: u64,
    /// Streams with signed frames of which there is none.
    pub missing: Vec<String>,
    /// The stream whose checkpoint was given with [`super::VerifyOptions::since`].
    pub since: Option<String>,
}

/// Something in the log's folder that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Unchecked {
    /// Where it is in the folder.
    pub path: String,
    /// Why it was not checked.
    pub why: UncheckedReason,
}

/// Why something was not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UncheckedReason {
    /// The log needs it, but it proves nothing.
    NoEvidence,
    /// It is a segment behind the last one that the stream has.
    LaterSegment,
    /// It belongs to nothing in the log.
    Foreign,
    /// Its folder may not be listed.
    Unreadable,
    /// It is not there, and nothing that was signed says what it must be.
    Gone,
    /// A temporary file: a crash left it, or somebody writes now.
    Leftover,
    /// It is no note of the log's writer, so that a cut tail of the stream would not be found.
    SaysNothing,
    /// A frame of the journal or of `heads` that is damaged: what it says is not compared with anything.
    Unheard,
    /// What decides whether it is right may stand in a damaged frame of the journal.
    Undecided,
    /// A tile or bundle that goes beyond what is signed.
    Beyond,
    /// A key whose certificate stands behind what is signed.
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

/// Whether a log that was put back from an older copy of itself would have been found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RollbackCheck {
    /// There was a second copy of the head of each stream with signed frames.
    Full,
    /// There was one of some streams.
    SomeStreams,
    /// There was none, but a checkpoint kept from before: what was put back is no older than that.
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
    /// Whether every frame that a checkpoint covers was read, and nothing is wrong. A verification that leaves frames out says nothing of
    /// them: it is never intact, only without faults ([`Report::has_faults`]). Whether a rollback would have been found is said by
    /// [`Report::rollback`].
    pub fn is_intact(&self) -> bool {
        !self.has_faults() && self.is_read_whole()
    }

    /// Whether something is wrong with what was read.
    pub const fn has_faults(&self) -> bool {
        !self.faults.is_empty() || self.faults_unlisted > 0
    }

    /// Whether no stream has [`StreamReport::skipped`] frames.
    pub fn is_read_whole(&self) -> bool {
        self.streams.iter().all(|stream| stream.skipped.is_empty())
    }

    /// What there was to find a rollback with.
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

    /// As many names that belong to nothing as a report lists left no room for the fault that says that an older copy was put back.
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
