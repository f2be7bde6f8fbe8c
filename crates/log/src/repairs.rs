//! The repairs of recovery, stored before they are made and until the journal records them.
//!
//! `docs/format.md`, "Repairs". The journal signs these lines, so they must be authenticated with
//! the log's keys.

use std::collections::BTreeSet;
use std::fmt;

use probity_format::certificate::Bound;
use probity_format::keys::NoteKey;
use probity_format::stream::StreamName;
use probity_format::tree::Hash;
use probity_format::width::to_u64;

use crate::advice::newer_journal;
use crate::error::{LogError, frames};
use crate::files::{Files, unless_strange};
use crate::journal::History;
use crate::slots::SLOTS;

/// The file of repairs that are not in the journal yet, one a line.
pub(crate) const PENDING: &str = "repairs";
/// Longest such file read: far more than one recovery writes.
pub(crate) const PENDING_BYTES_MAX: u64 = 64 << 20;
/// The prefix of the authenticated content, so that a tag for another purpose never fits.
const DOMAIN: &[u8] = b"probity/repairs/v4\n";
/// Bytes of the tag that the file begins with.
const TAG_BYTES: usize = 32;
/// Bytes behind the tag that hold the size of the journal: number of frames and root.
const BOUND_BYTES: usize = 40;

/// The kind of a repair; decides what the numbers of a [`Repair`] count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RepairKind {
    /// Frames found behind the last checkpoint, to be signed for.
    Unsigned,
    /// The checkpoint covers fewer frames than were signed for: it is written anew.
    Checkpoint,
    /// The checkpoint is unreadable: it is written anew.
    Unreadable,
    /// The second copy of the head is missing: it is written anew.
    Copy,
    /// The checkpoint lacks the signature of the log's witness key, or that is wrong: it is written
    /// anew.
    Witness,
    /// Checkpoint and second copy cover fewer frames than were anchored: both are written anew.
    Anchored,
    /// The stored tree does not have the signed root: it is rebuilt from the segments.
    Tree,
    /// Frames that were durable are gone, which was accepted.
    Lost,
    /// Frames whose sections do not open any more because a subject's key is missing, which was
    /// accepted.
    Closed,
    /// Slots of subjects that an accepted loss of keys leaves void: the journal names them without
    /// a pseudonym.
    Void,
    /// Slots that such a loss left void and that hold keys again, which were put back.
    Returned,
    /// Bytes of the last segment that are the beginning of a frame or header: cut off.
    Torn,
    /// Bytes of the last segment that are no whole frame: set aside.
    Damaged,
    /// Bytes of the last segment that the log's keys did not seal, or that an opening went on
    /// without, as it does where a loss is accepted: set aside.
    Foreign,
    /// Bytes of the journal's last segment: the first frame of an opening, for which no head that
    /// the writer had signed, and the bytes behind it; set aside.
    Opening,
    /// A segment behind the last frame, without a frame: removed.
    Empty,
    /// A segment behind the last frame: set aside.
    Later,
    /// The header of a segment: written anew.
    Header,
    /// A damaged frame of the stream `heads`; the heads that it anchors are unknown.
    Heads,
    /// The file `repairs` is not the log's: skipped.
    Notes,
    /// A slot that still held the key of an erased subject, which is destroyed.
    Erased,
    /// Bytes of zeros in the file of slots that are no slots.
    Zeros,
    /// Bytes of the file of slots that do not open: set aside.
    Slots,
}

impl RepairKind {
    /// Every kind, in the order of the document.
    pub const ALL: [Self; 23] = [
        Self::Unsigned,
        Self::Checkpoint,
        Self::Unreadable,
        Self::Copy,
        Self::Witness,
        Self::Anchored,
        Self::Tree,
        Self::Lost,
        Self::Closed,
        Self::Void,
        Self::Returned,
        Self::Torn,
        Self::Damaged,
        Self::Foreign,
        Self::Opening,
        Self::Empty,
        Self::Later,
        Self::Header,
        Self::Heads,
        Self::Notes,
        Self::Erased,
        Self::Zeros,
        Self::Slots,
    ];

    /// Returns whether durable content was lost, which the caller accepted.
    pub(crate) const fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Closed)
    }

    /// Returns whether it says what an accepted loss took, which slots that leaves void, or which
    /// of them hold keys again.
    pub(crate) const fn is_of_loss(self) -> bool {
        self.is_loss() || matches!(self, Self::Void | Self::Returned)
    }

    /// Returns whether slots of subjects were found that do not open.
    pub(crate) const fn is_of_slots(self) -> bool {
        matches!(self, Self::Closed | Self::Zeros | Self::Slots)
    }

    /// The word for it in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Checkpoint => "checkpoint",
            Self::Unreadable => "unreadable",
            Self::Copy => "copy",
            Self::Witness => "witness",
            Self::Anchored => "anchored",
            Self::Tree => "tree",
            Self::Lost => "lost",
            Self::Closed => "closed",
            Self::Void => "void",
            Self::Returned => "returned",
            Self::Torn => "torn",
            Self::Damaged => "damaged",
            Self::Foreign => "foreign",
            Self::Opening => "opening",
            Self::Empty => "empty",
            Self::Later => "later",
            Self::Header => "header",
            Self::Heads => "heads",
            Self::Notes => "notes",
            Self::Erased => "erased",
            Self::Zeros => "zeros",
            Self::Slots => "slots",
        }
    }
}

/// One thing that recovery did: in the journal the line of [`Repair::line`], for people a sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Repair {
    /// The kind of the repair.
    pub kind: RepairKind,
    /// The stream; `journal` for the log as a whole.
    pub stream: StreamName,
    /// The first of the frames, bytes or slots that the kind counts.
    pub from: u64,
    /// The one behind the last of them.
    pub to: u64,
}

impl Repair {
    pub(crate) fn new(kind: RepairKind, stream: &StreamName, range: std::ops::Range<u64>) -> Self {
        Self {
            kind,
            stream: stream.clone(),
            from: range.start,
            to: range.end,
        }
    }

    /// A repair of the log as a whole.
    pub(crate) fn of_log(kind: RepairKind, range: std::ops::Range<u64>) -> Self {
        Self::new(kind, &StreamName::journal(), range)
    }

    /// The part of frames that an accepted loss took: the `frames`, or `sections` of theirs that
    /// nobody can open.
    pub const fn lost_part(&self) -> &'static str {
        match self.kind {
            RepairKind::Closed => "sections",
            _ => "frames",
        }
    }

    /// Returns whether `number` is one of the frames, bytes or slots that it counts.
    pub(crate) fn has(&self, number: u64) -> bool {
        (self.from..self.to).contains(&number)
    }

    /// The line `KIND STREAM FROM TO`, without its line feed.
    pub fn line(&self) -> String {
        let (kind, stream) = (self.kind.as_str(), &self.stream);
        format!("{kind} {stream} {} {}", self.from, self.to)
    }

    /// Parses a repair from `line`, if it has the one form that [`Repair::line`] writes.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let word = words.next()?;
        let mut kinds = RepairKind::ALL.into_iter();
        let repair = Self {
            kind: kinds.find(|kind| kind.as_str() == word)?,
            stream: StreamName::new(words.next()?).ok()?,
            from: words.next()?.parse().ok()?,
            to: words.next()?.parse().ok()?,
        };
        (repair.line() == line).then_some(repair)
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        let count = to.saturating_sub(from);
        write!(f, "stream {}: ", self.stream)?;
        match self.kind {
            RepairKind::Unsigned => {
                write!(f, "{} found behind the last checkpoint", frames(count))
            }
            RepairKind::Checkpoint => write!(
                f,
                "the checkpoint covers {from} frames, {to} were signed for; it will be written anew"
            ),
            RepairKind::Unreadable => {
                f.write_str("the checkpoint is unreadable and will be written anew")
            }
            RepairKind::Copy => {
                f.write_str("the second copy of the head is missing and will be written anew")
            }
            RepairKind::Witness => f.write_str(
                "the checkpoint is not signed by the log's witness key and will be written anew",
            ),
            RepairKind::Anchored => write!(
                f,
                "{to} frames were anchored, the checkpoint and its second copy cover {from}; they will be written anew"
            ),
            RepairKind::Tree => write!(
                f,
                "what is stored at size {to} does not fit the signed root; the tree is rebuilt from the segments"
            ),
            RepairKind::Lost => write!(
                f,
                "{} that had been durable lost, from frame {from} on, and the loss accepted",
                frames(count)
            ),
            RepairKind::Torn => write!(
                f,
                "cut off {count} bytes of a torn frame at byte {from} of the last segment"
            ),
            RepairKind::Damaged | RepairKind::Foreign | RepairKind::Opening => self.of_bytes(f),
            RepairKind::Empty => {
                write!(f, "the segment of frame {from} removed, it holds no frame")
            }
            RepairKind::Later => write!(
                f,
                "the segment of frame {from}, which follows the last frame of the stream, set aside"
            ),
            RepairKind::Header => write!(
                f,
                "the header of the segment of frame {from} was damaged and is written anew"
            ),
            RepairKind::Heads => write!(
                f,
                "frame {from} is damaged, and which heads it anchors is unknown"
            ),
            RepairKind::Notes => write!(
                f,
                "{count} bytes in the file {PENDING} that this log's keys did not write, or not behind this journal, or for an opening whose signing key is not in keys/, passed over"
            ),
            RepairKind::Closed
            | RepairKind::Void
            | RepairKind::Returned
            | RepairKind::Erased
            | RepairKind::Zeros
            | RepairKind::Slots => self.of_slots(f),
        }
    }
}

impl Repair {
    /// The end of the sentence about bytes behind the last frame.
    fn of_bytes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.to.saturating_sub(self.from);
        let why = match self.kind {
            RepairKind::Damaged => "are no whole frame",
            RepairKind::Opening => {
                "are of an opening that nothing in this folder or its second copies signed for"
            }
            _ => "this log's keys did not seal or an opening went on without",
        };
        write!(
            f,
            "{count} bytes at byte {} of the last segment, which {why}, set aside",
            self.from
        )
    }

    /// The end of the sentence about the file of slots.
    fn of_slots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from;
        let count = self.to.saturating_sub(from);
        match self.kind {
            RepairKind::Closed => write!(
                f,
                "entries of {}, from frame {from} on, did not open for want of keys of subjects that nobody erased, which was accepted",
                frames(count)
            ),
            RepairKind::Void if count == 1 => write!(f, "slot {from} is left without a key"),
            RepairKind::Void => write!(
                f,
                "{count} slots, from slot {from} on, are left without keys"
            ),
            RepairKind::Returned => write!(
                f,
                "keys that an accepted loss had left out were put back in {count} {}, from slot {from} on",
                if count == 1 { "slot" } else { "slots" }
            ),
            RepairKind::Erased => write!(
                f,
                "slot {from} still held the key of an erased subject, which is destroyed now"
            ),
            RepairKind::Zeros => write!(
                f,
                "{count} bytes of zeros at byte {from} of {SLOTS} are no slots"
            ),
            _ => write!(
                f,
                "{count} bytes at byte {from} of {SLOTS}, which do not open, set aside"
            ),
        }
    }
}

/// The fault of a file that names more frames of the journal than there are: they were durable before
/// it was written.
pub(crate) const BEYOND: &str = newer_journal!(
    "names more frames of the journal than there are: the journal is an older one, or the file is of another copy of the log; \
     where it is older, ",
    "; where it is the newest there is, move the file aside"
);

/// The repairs of one opening, and of earlier ones that a crash ended before the journal had them.
#[derive(Debug)]
pub(crate) struct RecoveryReport {
    key: NoteKey,
    /// The journal as this opening found it, without these repairs.
    journal: Bound,
    done: Vec<Repair>,
    /// True when [`PENDING`] exists.
    stored: bool,
}

impl RecoveryReport {
    /// Creates an empty report, for readers.
    pub(crate) fn new(key: NoteKey, history: &History) -> Self {
        Self {
            key,
            journal: history.read,
            done: Vec::new(),
            stored: false,
        }
    }

    /// Returns whether nothing was done or noted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Takes over the repairs of an earlier opening that could not report them.
    ///
    /// A file behind a shorter journal is a leftover of a crash after the journal recorded it, or
    /// an older copy that was put back. Repairs that the journal has already are not recorded
    /// again. A file that this log's keys did not write, or wrote for another journal, is skipped,
    /// and that is noted.
    pub(crate) fn resume(files: &Files, key: NoteKey, history: &History) -> Result<Self, LogError> {
        let pending = unless_strange(files.read(PENDING, PENDING_BYTES_MAX))?;
        let mut done = Vec::new();
        let stored = pending.is_some();
        if let Some(content) = pending {
            let bytes = to_u64(content.len());
            let notes = || vec![Repair::of_log(RepairKind::Notes, 0..bytes)];
            done = match authentic(&key, &content) {
                Some((journal, mut lines)) if journal == history.read => {
                    // If keys are still missing, that is accepted again.
                    lines.retain(|repair| repair.kind != RepairKind::Closed);
                    lines
                }
                Some((journal, lines)) if is_said(&lines, journal.size, history) => Vec::new(),
                _ => notes(),
            };
        }
        Ok(Self {
            key,
            journal: history.read,
            done,
            stored,
        })
    }

    /// Takes back the losses of `stream` that an earlier, unfinished opening noted, as far as its
    /// `frames` frames are there.
    pub(crate) fn take_back(&mut self, stream: &StreamName, frames: u64) {
        self.done.retain_mut(|repair| {
            let is_loss = repair.kind == RepairKind::Lost && repair.stream == *stream;
            if is_loss {
                repair.from = repair.from.max(frames);
            }
            !is_loss || repair.from < repair.to
        });
    }

    /// Notes a finding, or a repair that changes no evidence.
    pub(crate) fn note(&mut self, repair: Repair) {
        self.done.push(repair);
    }

    /// Notes a change durably before it is made: a crash between the change and the journal must
    /// not hide it.
    pub(crate) fn announce(&mut self, files: &Files, repair: Repair) -> Result<(), LogError> {
        self.announce_all(files, vec![repair])
    }

    /// Notes several changes like [`RecoveryReport::announce`].
    pub(crate) fn announce_all(
        &mut self,
        files: &Files,
        repairs: Vec<Repair>,
    ) -> Result<(), LogError> {
        if repairs.is_empty() {
            return Ok(());
        }
        self.done.extend(repairs);
        self.store(files)
    }

    /// Replaces the file by what is noted now.
    fn store(&mut self, files: &Files) -> Result<(), LogError> {
        // An opening that goes on finds the void slots anew, as it does with `closed`.
        let is_kept = |kind| !matches!(kind, RepairKind::Void | RepairKind::Returned);
        let kept = self.done.iter().filter(|it| is_kept(it.kind));
        let lines: String = kept.map(|repair| repair.line() + "\n").collect();
        let Bound { size, root } = &self.journal;
        let mut rest = [size.to_le_bytes().as_slice(), root.as_bytes()].concat();
        rest.extend_from_slice(lines.as_bytes());
        let content = [self.key.tag(&tagged(&rest)).as_slice(), &rest].concat();
        files.replace(PENDING, &content)?;
        self.stored = true;
        Ok(())
    }

    /// Notes durably that `journal`, with the first frame of this opening, is signed next; the
    /// journal does not have the repairs `unsaid` by then.
    ///
    /// A crash after the signature may leave no other trace of it in the folder of the log. The
    /// next opening finishes this publication, so that no second head of the same size is signed.
    pub(crate) fn begin_publication(
        &mut self,
        files: &Files,
        journal: Bound,
        unsaid: &[Repair],
    ) -> Result<(), LogError> {
        self.journal = journal;
        self.done = unsaid.to_vec();
        self.store(files)
    }

    /// Each repair once, in the order in which they were noted.
    pub(crate) fn distinct(&self) -> Vec<Repair> {
        let mut seen = BTreeSet::new();
        let fresh = self.done.iter().filter(|repair| seen.insert(*repair));
        fresh.cloned().collect()
    }

    /// Removes the file, once the journal has the repairs durably.
    pub(crate) fn reported(&mut self, files: &Files) -> Result<(), LogError> {
        if self.stored {
            files.remove(PENDING)?;
            files.sync_folder("")?;
            self.stored = false;
        }
        Ok(())
    }
}

/// The journal to which the file of pending repairs is bound, if a holder of the log's keys wrote
/// it.
pub(crate) fn announced(files: &Files, key: &NoteKey) -> Result<Option<Bound>, LogError> {
    let pending = unless_strange(files.read(PENDING, PENDING_BYTES_MAX))?;
    let pending = pending.and_then(|content| authentic(key, &content));
    Ok(pending.map(|(journal, _)| journal))
}

/// Parses the journal's size at the announcement and the repairs, if a holder of the log's keys
/// wrote them.
fn authentic(key: &NoteKey, content: &[u8]) -> Option<(Bound, Vec<Repair>)> {
    let (tag, rest) = content.split_first_chunk::<TAG_BYTES>()?;
    if !key.matches(&tagged(rest), tag) {
        return None;
    }
    let (bound, text) = rest.split_first_chunk::<BOUND_BYTES>()?;
    let (size, root) = bound.split_first_chunk::<8>()?;
    let journal = Bound {
        size: u64::from_le_bytes(*size),
        root: Hash::new(root.try_into().ok()?),
    };
    let lines = std::str::from_utf8(text).ok()?.lines();
    let repairs: Option<Vec<Repair>> = lines.map(Repair::parse).collect();
    Some((journal, repairs?))
}

/// Returns whether the journal records all of `repairs` in frame `from` or later.
fn is_said(repairs: &[Repair], from: u64, history: &History) -> bool {
    let is_one = |repair: &Repair| {
        let mut said = history.repaired.iter();
        said.any(|(one, frame)| one == repair && *frame >= from)
    };
    from < history.read.size && repairs.iter().all(is_one)
}

fn tagged(rest: &[u8]) -> Vec<u8> {
    [DOMAIN, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_have_one_line_each() {
        for kind in RepairKind::ALL {
            let repair = Repair::new(kind, &StreamName::default(), 7..u64::MAX);
            let line = repair.line();
            assert_eq!(Repair::parse(&line), Some(repair));
            for bad in [
                format!("{line} "),
                format!("{line} 1"),
                format!(" {line}"),
                line.replace(" 7", " 07"),
                line.replace(" 7", " +7"),
                line.replace("default", "De"),
                line.replace(kind.as_str(), "other"),
            ] {
                assert_eq!(Repair::parse(&bad), None, "{bad}");
            }
        }
        assert_eq!(Repair::parse(""), None);
    }
}
