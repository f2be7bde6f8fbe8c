//! Compares a log with its other known heads: second copies, anchored heads, notes of durable
//! frames. A proof is made only after that.

use probity_format::Version;
use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::width::to_u64;

use crate::anchored::{bound_heads, read_anchored};
use crate::certified::AHEAD;
use crate::config::Options;
use crate::durable::{DurableNotes, Noted, NotesFound};
use crate::epochs::Certificates;
use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::head_signer::HeadSigner;
use crate::heads::Heads;
use crate::history::read_checkpoint;
use crate::known::{KnownHeads, Source};
use crate::prove_error::ProveError;
use crate::reader::Reader;
use crate::records::Records;
use crate::repairs::RecoveryReport;
use crate::resumption::Resumption;
use crate::scan::{Position, scan_believed};
use crate::segments::Identity;
use crate::verify::{Verifier, VerifyOptions};

/// The reason for a head that the log signed and whose frames it does not have.
const NOT_GROWN: &str = "covers frames that this log has not: an older copy of the log was put back, or it is another history";

/// The words for a head that no key of the log signed.
pub(crate) const UNSIGNED: &str = "is signed by no key that this log has: it is another log's or was edited, or an older copy of the log was put back";

/// The relation between the checkpoint of a stream and its second copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// Both are shown to be of one history, and the copy is not the older one.
    One,
    /// There is no copy.
    Uncopied,
    /// Nothing shows it.
    Unclear,
}

impl Reader {
    /// Compares the journal, `heads` and `stream` with their second copies, with the anchored heads
    /// and with the notes of durable frames, and the journal with the key that signs. The
    /// checkpoints and copies of all other streams must be signed by keys that the journal has.
    /// The streams are verified whole if the stored tiles do not show one history.
    ///
    /// # Errors
    /// [`LogError::HeadsOfAnother`]; [`LogError::Broken`] where the log is another one than the
    /// copies are of, or an older copy; those of the storage.
    pub(crate) fn compare_copies(&self, stream: &StreamName) -> Result<(), LogError> {
        self.places.check_heads(&self.geometry)?;
        let heads = Heads::new(Files::of_heads(&self.places, &Options::default())?);
        let (journal, own) = (StreamName::journal(), StreamName::heads());
        let mut names = vec![&journal, &own, stream];
        // In version 2 the journal anchors heads.
        names.retain(|name| !self.is_older() || name.as_str() != StreamName::HEADS);
        let mut compared = Vec::new();
        for name in &names {
            compared.push(self.compare_copy(&heads, name)?);
        }
        let is_clear = !compared.contains(&Compared::Unclear)
            && self.is_journal_sound(&names)?
            && !self.others_are_later(&heads, &names)?
            && !self.notes_are_later(&names)?
            && (self.is_older() && !compared.contains(&Compared::Uncopied)
                || self.reaches_anchored(&heads, &names)?);
        if is_clear {
            return Ok(());
        }
        self.check(Some(stream))
    }

    /// Checks that the log has what it signed: `note` is a head of the stream `name` that the
    /// recipient keeps. The signer of a head of the journal may be unknown here: the line of the
    /// witness key then shows that the head is the log's.
    ///
    /// # Errors
    /// [`ProveError::NotGrown`] where the log has not grown from it; [`ProveError::Head`] where the
    /// head is of another stream, not signed by the log, or ahead of the journal's checkpoint;
    /// [`LogError::Broken`] with the first fault; errors of the storage.
    pub(crate) fn check_kept(
        &self,
        signing: &HeadSigner<'_>,
        name: &StreamName,
        note: &str,
    ) -> Result<(), ProveError> {
        let refused = |reason| Err(ProveError::of_head(name, reason));
        let Ok(parsed) = SignedNote::parse(note.as_bytes()) else {
            return refused("is no checkpoint");
        };
        let Ok(head) = Checkpoint::parse(parsed.text()) else {
            return refused("is no checkpoint");
        };
        let origin = self.geometry.stream_origin(name.as_str());
        if head.origin() != origin {
            return refused("is of another stream or another log");
        }
        let is_known = signing.history.open(note.as_bytes(), &origin).is_ok();
        let is_journal = name.as_str() == StreamName::JOURNAL;
        let is_named = self.geometry.witness().is_some_and(|witness| {
            is_journal && parsed.verify(std::slice::from_ref(witness)).is_ok()
        });
        if !signing.has(name, &head)? {
            // What is stored may be damaged.
            self.check(Some(name))?;
            if is_known || is_named {
                let (stream, reason) = (name.to_string(), NOT_GROWN);
                return Err(ProveError::NotGrown { stream, reason });
            }
            return refused(UNSIGNED);
        }
        match (is_known, is_journal) {
            (true, _) => Ok(()),
            (false, false) => refused(UNSIGNED),
            (false, true) if head.size() > self.published_size(name)? => refused(AHEAD),
            (false, true) => Ok(()),
        }
    }

    /// Returns whether the journal has no fault and is none older than the key that signs and the
    /// keys beside the checkpoints of `names`. A checkpoint of an older key is no fault here: its
    /// head is signed again.
    fn is_journal_sound(&self, names: &[&StreamName]) -> Result<bool, LogError> {
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let fault = verifier.first_fault_of_journal(&self.opener, names)?;
        Ok(fault.is_none())
    }

    fn is_older(&self) -> bool {
        self.geometry.version() == Version::V2
    }

    fn compare_copy(&self, heads: &Heads, name: &StreamName) -> Result<Compared, LogError> {
        // Read before the copy, which a live log replaces first.
        let published = read_checkpoint(&self.files, name)?;
        let Some(copy) = unless_strange(heads.load(name))? else {
            return Ok(Compared::Uncopied);
        };
        let Some(published) = published else {
            return Ok(Compared::Unclear);
        };
        if published.as_bytes() == copy {
            return Ok(Compared::One);
        }
        let both = self.opened(name, published.as_bytes());
        let both = both.zip(self.opened(name, &copy));
        let config = self.history.streams.iter().find(|(known, _)| known == name);
        let (Some((published, copy)), Some((_, config))) = (both, config) else {
            return Ok(Compared::Unclear);
        };
        let identity = Identity::new(&self.geometry, name, config);
        // The tiles may be newer than the frames, if those were put back.
        let is_one = published.size() <= copy.size()
            && self.are_of_one_tree(name, identity, [&published, &copy])?
            && self.has_frames(name, identity, copy.size())?;
        Ok(if is_one {
            Compared::One
        } else {
            Compared::Unclear
        })
    }

    /// The checkpoint in `note`, if a key that the journal had when it was read has signed it.
    fn opened(&self, name: &StreamName, note: &[u8]) -> Option<Checkpoint> {
        let origin = self.geometry.stream_origin(name.as_str());
        let opened = self.history.open(note, &origin).ok();
        opened.map(|(_, head)| head)
    }

    /// Returns whether the checkpoint or the second copy of a stream outside `names` is signed by
    /// no key that the journal has.
    fn others_are_later(&self, heads: &Heads, names: &[&StreamName]) -> Result<bool, LogError> {
        let mut now = None;
        let streams = self.history.streams.iter().map(|(name, _)| name);
        for name in streams.filter(|name| !names.contains(name)) {
            for note in self.signed_notes(heads, name)? {
                if self.opened(name, &note).is_some() {
                    continue;
                }
                // A writer may have certified the key since.
                let history = match now.take() {
                    Some(history) => history,
                    None => self.read_history()?,
                };
                let origin = self.geometry.stream_origin(name.as_str());
                if history.open(&note, &origin).is_err() {
                    return Ok(true);
                }
                now = Some(history);
            }
        }
        Ok(false)
    }

    /// The checkpoint of `name` and its second copy, as far as they are there.
    fn signed_notes(&self, heads: &Heads, name: &StreamName) -> Result<Vec<Vec<u8>>, LogError> {
        let max = to_u64(CHECKPOINT_BYTES_MAX);
        let path = format!("streams/{name}/checkpoint");
        let published = unless_strange(self.files.read(&path, max))?;
        let copy = unless_strange(heads.load(name))?;
        Ok(published.into_iter().chain(copy).collect())
    }

    /// Returns whether a note of durable frames is later than the log: it is of an opening that the
    /// journal does not have, or counts frames that one of `names` does not have.
    fn notes_are_later(&self, names: &[&StreamName]) -> Result<bool, LogError> {
        if self.is_older() {
            return Ok(false);
        }
        let notes = NotesFound::read(&self.files, DurableNotes::new(&self.opener.master, None))?;
        for (ordinal, (name, config)) in (0_u64..).zip(&self.history.streams) {
            let identity = Identity::new(&self.geometry, name, config);
            let noted = notes.of_stream((name, &identity.id), ordinal, (&self.opener, None));
            let is_later = match noted {
                Noted::Nothing => false,
                Noted::Beyond(_) => true,
                Noted::Durable(noted) if names.contains(&name) => {
                    !self.has_frames(name, identity, noted.frames)?
                }
                Noted::Durable(_) => false,
            };
            if is_later {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the stream has `frames` whole frames; those that its checkpoint covers are
    /// not read.
    fn has_frames(
        &self,
        name: &StreamName,
        identity: Identity,
        frames: u64,
    ) -> Result<bool, LogError> {
        let size = self.published_size(name)?;
        if frames <= size {
            return Ok(true);
        }
        let mut records = Records::new(&self.files, name, identity, size);
        let position = match records.last() {
            Ok(Some(last)) => records.behind(&last),
            Ok(None) => Ok(Some(Position::start(identity))),
            Err(error) => Err(error),
        };
        let mut position = match position {
            Ok(Some(position)) => position,
            Ok(None) | Err(LogError::Broken { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut is_counted = |record: &Record, _: &Frame<'_>| record.frame < frames;
        let mut pass = |_: &Record, _: &Frame<'_>| Ok::<(), LogError>(());
        let _end = scan_believed(&self.files, name, &mut position, &mut is_counted, &mut pass)?;
        Ok(position.next_frame >= frames)
    }

    /// The size in the checkpoint of `name`, by any signer.
    fn published_size(&self, name: &StreamName) -> Result<u64, LogError> {
        let note = read_checkpoint(&self.files, name)?.unwrap_or_default();
        let note = SignedNote::parse(note.as_bytes()).ok();
        let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
        Ok(head.map_or(0, |head| head.size()))
    }

    /// Returns whether the checkpoints of `names` cover all heads of them that the stream `heads`
    /// and the last certificate anchored.
    fn reaches_anchored(&self, heads: &Heads, names: &[&StreamName]) -> Result<bool, LogError> {
        let (files, geometry, opener) = (&self.files, &self.geometry, &self.opener);
        if self.is_older() {
            return Ok(false);
        }
        let name = StreamName::heads();
        let note = read_checkpoint(files, &name)?.unwrap_or_default();
        let read;
        let history = if self.opened(&name, note.as_bytes()).is_some() {
            &self.history
        } else {
            read = self.read_history()?;
            &read
        };
        let origin = geometry.stream_origin(name.as_str());
        if history.open(note.as_bytes(), &origin).is_err() {
            return Ok(false);
        }
        let mut repairs = RecoveryReport::new(opener.master.note_key(), history);
        let keys = (&opener.master, opener as &dyn Certificates);
        let mut anchored = read_anchored(files, heads, geometry, history, keys, &mut repairs)?;
        // The stream `heads` is the one that no frame of it names: the last certificate does.
        let bound = bound_heads(geometry, history)?.map(|bound| (origin, bound));
        anchored.heads.extend(bound);
        for name in names {
            // Read after the anchored head, which was written later than the checkpoint.
            let size = self.published_size(name)?;
            let anchored = anchored.heads.get(&geometry.stream_origin(name.as_str()));
            if anchored.is_some_and(|anchored| anchored.size() > size) {
                return Ok(false);
            }
        }
        Ok(repairs.is_empty())
    }

    /// Returns whether the stored tree shows that the larger of two heads has grown from the
    /// smaller.
    fn are_of_one_tree(
        &self,
        name: &StreamName,
        identity: Identity,
        mut both: [&Checkpoint; 2],
    ) -> Result<bool, LogError> {
        both.sort_by_key(|head| head.size());
        let [smaller, larger] = both;
        if smaller.size() == larger.size() {
            return Ok(smaller.root() == larger.root());
        }
        let tree = Resumption {
            files: &self.files,
            name,
            identity,
            published: larger.size(),
            published_root: *larger.root(),
        };
        let mut known = KnownHeads::default();
        known.add(Source::Copy, Some(smaller));
        let Some(known) = known.below(u64::MAX).next() else {
            // Every tree has grown from the empty one.
            return Ok(true);
        };
        tree.has_grown_from(known, larger.size(), larger.root())
    }
}
