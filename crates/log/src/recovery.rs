//! Restores a stream's storage to a state that can be written to, and reports what it did.
//!
//! There is no second implementation of integrating a frame: recovered frames go through the same
//! tree writer as new ones. Frames that were signed for must be there, and so must those that are
//! known to have been durable. Behind the anchored head only frames count that a holder of the
//! log's keys sealed. A signature by a key that may have expired is no substitute for a seal.
//! Behind the signed head anything else is set aside, and an incomplete frame at the end is cut
//! off.

use std::ops::Range;

use probity_format::DecodeError;
use probity_format::checkpoint::Checkpoint;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::{NoteError, SignedNote, VerifierKey};
use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::tile::TreeWriter;
use probity_format::tree::{EMPTY_ROOT, Hash};
use probity_format::width::to_u64;

use crate::advice;
use crate::durable::Durable;
use crate::epochs::Epochs;
use crate::error::{LogError, ahead, frames};
use crate::files::{Files, unless_strange};
use crate::first_signer::{first_signer, signed_too_late};
use crate::heads::Heads;
use crate::history::claimed_size;
use crate::journal::History;
use crate::keys_missed::KeysMissed;
use crate::known::{KnownHead, KnownHeads, Source};
use crate::opening::Opening;
use crate::repairs::{Repair, RepairKind};
use crate::resumption::Resumption;
use crate::rolled_back::rolled_back;
use crate::scan::{End, Position, scan_believed};
use crate::segments::{HEADER_END, Identity};
use crate::settling::FoundStream;
use crate::uncovered::Uncovered;
use crate::unwitnessed::unwitnessed;

/// [`CHECKPOINT_BYTES_MAX`] as a length of a file; a key is shorter.
const NOTE_BYTES_MAX: u64 = to_u64(CHECKPOINT_BYTES_MAX);

/// The inputs of the recovery of one stream.
pub(crate) struct Recovery<'a> {
    pub(crate) files: &'a Files,
    pub(crate) heads: &'a Heads,
    pub(crate) name: &'a StreamName,
    pub(crate) identity: Identity,
    /// Knows the keys that may have signed the stream's checkpoints.
    pub(crate) history: &'a History,
    /// The name under which these keys signed.
    pub(crate) origin: String,
    /// The key that must have signed them too.
    pub(crate) witness: Option<&'a VerifierKey>,
    pub(crate) epochs: Epochs<'a>,
    /// The frames of the journal that were read, or of `heads` before one that does not follow; no
    /// log writes such frames as come then.
    pub(crate) end: Option<u64>,
    /// The frames noted as durable, where there is a note.
    pub(crate) durable: Option<Durable>,
    /// The head that was anchored last, which was signed for too: in `heads`, or of `heads` itself
    /// in the last certificate.
    pub(crate) anchored: Option<&'a Checkpoint>,
    /// The heads that frames of `heads` name which no head covers. The last is the anchored one.
    pub(crate) uncovered: &'a [Uncovered],
    /// Frames of `heads` that were read without a gap; a head in none of them was signed after
    /// them.
    pub(crate) heads_read: u64,
    /// Opens the frames of a stream that may be about subjects.
    pub(crate) opening: Option<Opening<'a>>,
    /// The findings that will be repaired.
    pub(crate) noted: Vec<Repair>,
}

/// The known heads of a stream before its frames are read.
struct Notes {
    published: Option<Checkpoint>,
    /// The second copy of the head.
    kept: Option<Checkpoint>,
    /// The second copy, where no key that the journal knows has signed it.
    foreign: Option<Checkpoint>,
    /// Size and root of the largest head that was signed for.
    signed: Option<(u64, Hash)>,
    known: KnownHeads,
}

/// The second copy of a head, by its signer.
enum Kept {
    /// Signed by the key of this number in the log's chain.
    Verified(usize, Checkpoint),
    /// Signed by no key that the journal has.
    Foreign(Checkpoint),
}

impl Kept {
    const fn size(&self) -> u64 {
        match self {
            Self::Verified(_, head) | Self::Foreign(head) => head.size(),
        }
    }

    /// Splits the copy into a verified head and a foreign one, of which there is at most one.
    fn apart(kept: Option<Self>) -> (Option<Checkpoint>, Option<Checkpoint>) {
        match kept {
            Some(Self::Verified(_, head)) => (Some(head), None),
            Some(Self::Foreign(head)) => (None, Some(head)),
            None => (None, None),
        }
    }
}

impl<'a> Recovery<'a> {
    /// Finds the end of the stream and rebuilds its tree; changes nothing. Subjects without a key
    /// are added to `missed`.
    ///
    /// # Errors
    /// [`LogError::RolledBack`] when something signed is missing, [`LogError::Broken`] when it is
    /// there but is something else, and errors of the storage.
    pub(crate) fn find(mut self, missed: &mut KeysMissed) -> Result<FoundStream<'a>, LogError> {
        let noted = self.durable.unwrap_or(Durable::NOTHING);
        let Notes {
            published,
            kept,
            foreign,
            signed,
            mut known,
        } = self.notes(&noted)?;
        let (mut tree, mut position) = self.resume(&known, signed)?;
        let rebuilt = tree.size() == 0;
        known.look(&tree);
        let signed_size = signed.map_or(0, |(size, _)| size);
        let anchored_size = self.anchored.map_or(0, Checkpoint::size);
        let (epochs, until) = (&mut self.epochs, self.end);
        let place = format!("tree of stream {}", self.name);
        let (files, name, opening) = (self.files, self.name, &mut self.opening);
        let mut follow = |position: &mut Position, tree: &mut TreeWriter, is_signed: bool| {
            scan_believed(
                files,
                name,
                position,
                // Up to the anchored head the root confirms the frames; behind it only the
                // authenticator shows who wrote them.
                &mut |record, frame| {
                    let is_read = until.is_none_or(|until| record.frame < until);
                    let is_meant = !is_signed || record.frame < signed_size;
                    is_meant
                        && (record.frame < anchored_size || is_read && epochs.authenticate(frame))
                },
                &mut |record, frame| {
                    let is_new = |_: &&mut _| record.frame >= anchored_size;
                    if let Some(opening) = opening.as_mut().filter(is_new) {
                        let looked = missed.look(name, frame, opening);
                        looked.map_err(|error| unopened(name, record.frame, &error))?;
                    }
                    tree.append(&record.encode())
                        .map_err(|error| LogError::Broken {
                            place: place.clone(),
                            reason: error.to_string(),
                        })?;
                    known.look(tree);
                    Ok::<(), LogError>(())
                },
            )
        };
        if tree.size() < signed_size {
            follow(&mut position, &mut tree, true)?;
        }
        // The beginning of the frames that were not signed for.
        let signed_end = beginning(position.place());
        let end = follow(&mut position, &mut tree, false)?;
        let due = signed_size.max(foreign.as_ref().map_or(0, Checkpoint::size));
        if tree.size() < due {
            return Err(self.missing(&position, &end, due)?);
        }
        self.check_known(&known, foreign.as_ref())?;
        let is_lossless = self.check_durable(&noted, tree.size())?;
        Ok(FoundStream {
            recovery: self,
            published,
            kept,
            signed_size,
            signed_end,
            position,
            end,
            rebuilt,
            is_lossless,
            tree,
        })
    }

    /// Collects the signed and noted heads of the stream, which must be of one history.
    fn notes(&mut self, noted: &Durable) -> Result<Notes, LogError> {
        let kept = self.kept_head()?;
        let published = self.checkpoint(kept.as_ref().map(Kept::size))?;
        if let Some(Kept::Verified(signer, head)) = &kept {
            let shown = published.as_ref().map_or(0, Checkpoint::size);
            self.check_signer(Source::Copy, *signer, (head.size(), shown))?;
        }
        let (kept, foreign) = Kept::apart(kept);
        let signed = self.signed(published.as_ref(), kept.as_ref())?;
        // Whoever signed the copy, its root tells damage from the history of another log.
        let copied = kept.as_ref().or(foreign.as_ref());
        let known = self.known(published.as_ref(), copied, noted)?;
        Ok(Notes {
            published,
            kept,
            foreign,
            signed: self.with_anchored(signed),
            known,
        })
    }

    /// Returns whether second copy and anchored head are the head of `tree`. Otherwise everything
    /// is published again: an unanchored head must be signed by the key that is current when it is
    /// anchored.
    pub(crate) fn is_published(&self, tree: &TreeWriter, kept: Option<&Checkpoint>) -> bool {
        let (size, root) = (tree.size(), tree.root());
        let same = |head: &Checkpoint| head.size() == size && *head.root() == root;
        size == 0 || kept.is_some_and(same) && self.anchored.is_some_and(same)
    }

    /// Returns whether readers and foreign verifiers accept the key beside the checkpoint: it is of
    /// this stream, certified, and no older than the signer of the checkpoint.
    pub(crate) fn has_key(&self) -> Result<bool, LogError> {
        let text = unless_strange(self.files.read(&self.path("log.vkey"), NOTE_BYTES_MAX))?;
        let text = String::from_utf8(text.unwrap_or_default()).ok();
        let key = text.and_then(|text| VerifierKey::parse(text.strip_suffix('\n')?).ok());
        let key = key.filter(|key| key.name() == self.origin);
        let number = key.and_then(|own| {
            let mut keys = self.history.keys.iter();
            keys.rposition(|(key, _)| key.key() == own.key())
        });
        let note = unless_strange(self.files.read(&self.path("checkpoint"), NOTE_BYTES_MAX))?;
        let signed = note.and_then(|note| self.history.open(&note, &self.origin).ok());
        Ok(signed.is_none_or(|(signer, _)| number.is_some_and(|number| number >= signer)))
    }

    /// The larger of the two heads, whose frames must be found.
    fn signed(
        &mut self,
        published: Option<&Checkpoint>,
        kept: Option<&Checkpoint>,
    ) -> Result<Option<(u64, Hash)>, LogError> {
        let larger = match (published, kept) {
            (Some(published), Some(kept)) if kept.size() > published.size() => {
                self.note(RepairKind::Checkpoint, published.size()..kept.size());
                Some(kept)
            }
            (Some(published), Some(kept)) => {
                if published.size() > kept.size() {
                    return Err(self.ahead(published.size(), kept.size()));
                }
                Some(published)
            }
            (Some(published), None) if published.size() > 0 => {
                self.note(RepairKind::Copy, 0..published.size());
                Some(published)
            }
            (published, kept) => published.or(kept),
        };
        Ok(larger.map(|head| (head.size(), *head.root())))
    }

    /// The error for a checkpoint beyond its second copy: a writer with another folder of copies
    /// made it, or a stranger.
    fn ahead(&self, published: u64, kept: u64) -> LogError {
        let remedy = "compare with the second copies in the other folder, and see the manual before any copy is moved";
        let reason = format!("{}; {remedy}", ahead(published, kept));
        self.broken("checkpoint", &reason)
    }

    /// Adds the anchored head, where checkpoint and second copy are older or gone: no crash leaves
    /// such a state.
    fn with_anchored(&mut self, signed: Option<(u64, Hash)>) -> Option<(u64, Hash)> {
        let size = signed.map_or(0, |(size, _)| size);
        let Some(anchored) = self.anchored.filter(|anchored| anchored.size() > size) else {
            return signed;
        };
        self.note(RepairKind::Anchored, size..anchored.size());
        Some((anchored.size(), *anchored.root()))
    }

    /// The known heads of the stream, which must be of one history.
    fn known(
        &self,
        published: Option<&Checkpoint>,
        kept: Option<&Checkpoint>,
        noted: &Durable,
    ) -> Result<KnownHeads, LogError> {
        let mut known = KnownHeads::default();
        known.add(Source::Checkpoint, published);
        known.add(Source::Copy, kept);
        if self.uncovered.is_empty() {
            known.add(Source::Anchored, self.anchored);
        }
        for named in self.uncovered {
            known.add(Source::Uncovered, Some(&named.head));
        }
        known.add_noted(noted);
        let Some((one, other)) = known.forked() else {
            return Ok(known);
        };
        if other.source == Source::Uncovered {
            return Err(self.other_history(other));
        }
        let reason = format!(
            "has another root over {} than the {} of the stream: one of the two is of a history that was rewritten; \
             verify the log, keep this copy of it, and go on from one that is intact",
            frames(one.size),
            other.source.as_str()
        );
        Err(self.broken(one.source.as_str(), &reason))
    }

    /// The error for frames that do not match a known head.
    fn other_history(&self, known: &KnownHead) -> LogError {
        let reason = match known.source {
            // Frames of another branch, which an accepted loss once left behind; the point of
            // divergence is unknown.
            Source::Noted => {
                format!(
                    "are not those that were noted as durable: frames that an accepted loss had left behind were put back; {}",
                    advice::NEWER_LOG
                )
            }
            Source::Uncovered => return self.unnamed(known.size),
            source => format!(
                "do not have the root that was signed over {}, which the {} says: verify the log, keep this copy of it, \
                 and go on from one that is intact",
                frames(known.size),
                source.as_str()
            ),
        };
        self.broken("segments", &reason)
    }

    /// The error for a stream without the frames of a head of `size` frames that no head covers.
    fn unnamed(&self, size: u64) -> LogError {
        let mut named = self.uncovered.iter();
        match named.find(|named| named.head.size() == size) {
            Some(named) => self.broken("segments", &named.refused()),
            None => LogError::Defect {
                what: "a head that no frame names was compared as one that a frame names",
            },
        }
    }

    /// Returns whether the head of `size` frames counts, and is in a frame of `heads` that no head
    /// covers.
    fn is_named_alone(&self, size: u64) -> bool {
        let mut named = self.uncovered.iter();
        let mut noted = self.noted.iter();
        named.any(|named| named.head.size() == size)
            && noted.any(|repair| repair.kind == RepairKind::Anchored)
    }

    /// Returns whether the durable frames are there. Those of the journal must be. A shortened
    /// journal is an older one, and would record the same events again in another form.
    fn check_durable(&self, noted: &Durable, found: u64) -> Result<bool, LogError> {
        let is_there = found >= noted.frames;
        if !is_there && self.name.as_str() == StreamName::JOURNAL {
            return Err(self.lost(noted, found));
        }
        Ok(is_there)
    }

    /// The error for frames that were noted as durable and are gone from frame `found` on.
    pub(crate) fn lost(&self, noted: &Durable, found: u64) -> LogError {
        LogError::Lost {
            stream: self.name.to_string(),
            found,
            durable: noted.frames,
        }
    }

    /// Refuses frames that differ from a known head, and then a second copy by a foreign key.
    fn check_known(
        &self,
        known: &KnownHeads,
        foreign: Option<&Checkpoint>,
    ) -> Result<(), LogError> {
        match (known.differing(), foreign) {
            (Some(differing), _) => Err(self.other_history(differing)),
            (None, Some(_)) => Err(self.foreign()),
            (None, None) => Ok(()),
        }
    }

    /// The error for a second copy that no key of this journal signed, over the very frames that
    /// are there: no evidence is lost with it.
    fn foreign(&self) -> LogError {
        LogError::Broken {
            place: format!("second copy of the head of stream {}", self.name),
            reason: "is signed by no key of this log, though it has the root of these frames: \
                     verify the log, then move the copy away"
                .into(),
        }
    }

    fn note(&mut self, kind: RepairKind, range: Range<u64>) {
        self.noted.push(Repair::new(kind, self.name, range));
    }

    /// The published checkpoint; one that is torn or missing is replaced by the next publication.
    ///
    /// A checkpoint by a key that this journal never certified, over more frames than any other
    /// head covers, is no damage: the journal is older than it.
    fn checkpoint(&mut self, kept: Option<u64>) -> Result<Option<Checkpoint>, LogError> {
        let is_kept = kept.is_some();
        let name = format!("streams/{}/checkpoint", self.name);
        let Some(note) = unless_strange(self.files.read(&name, NOTE_BYTES_MAX))? else {
            if is_kept {
                self.note(RepairKind::Checkpoint, 0..kept.unwrap_or_default());
            }
            return Ok(None);
        };
        match self.history.open(&note, &self.origin) {
            Ok((signer, head)) => {
                self.check_signer(Source::Checkpoint, signer, (head.size(), 0))?;
                if unwitnessed(&note, self.witness).is_some() {
                    self.note(RepairKind::Witness, 0..head.size());
                }
                Ok(Some(head))
            }
            Err(error) => {
                let note = SignedNote::parse(&note).ok();
                let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
                let anchored = self.anchored.map_or(0, Checkpoint::size);
                let known = kept.unwrap_or_default().max(anchored);
                if error == NoteError::NoKnownSignature
                    && head.is_some_and(|head| head.size() > known)
                {
                    return Err(self.broken("checkpoint", advice::UNCERTIFIED));
                }
                self.note(RepairKind::Unreadable, 0..known);
                Ok(None)
            }
        }
    }

    /// Checks that a head is signed by a key that had not expired before, as verification does. Of a
    /// stream that `heads` names, the root is enough up to the anchored head; so it is up to the
    /// `shown` frames of another head, with which it is compared.
    fn check_signer(
        &self,
        source: Source,
        signer: usize,
        (size, shown): (u64, u64),
    ) -> Result<(), LogError> {
        let anchored = self.anchored.filter(|_| !self.is_built_in());
        let shown = anchored.map_or(shown, |anchored| anchored.size().max(shown));
        let read = self.history.certificates_before_unnamed(self.heads_read);
        let due = first_signer(self.history, self.name, (size, shown), read);
        if signer >= due {
            return Ok(());
        }
        let fault = signed_too_late(signer, due);
        let reason = format!(
            "{fault}: somebody who has an expired key signed it; verify the log, keep this copy of it, and go on from one that is intact"
        );
        Err(self.broken(source.as_str(), &reason))
    }

    fn is_built_in(&self) -> bool {
        self.name.is_built_in(self.identity.version)
    }

    /// The second copy of the head.
    fn kept_head(&self) -> Result<Option<Kept>, LogError> {
        self.heads.check_own(self.name, &self.origin)?;
        let Some(note) = self.heads.load(self.name)? else {
            return Ok(None);
        };
        let broken = |reason: String| LogError::Broken {
            place: format!("second copy of the head of stream {}", self.name),
            reason: format!("{reason}; if it was damaged, verify the log, then move the copy away"),
        };
        match self.history.open(&note, &self.origin) {
            Ok((signer, head)) => Ok(Some(Kept::Verified(signer, head))),
            Err(NoteError::NoKnownSignature) => {
                let note = SignedNote::parse(&note).map_err(|error| broken(error.to_string()))?;
                let head =
                    Checkpoint::parse(note.text()).map_err(|error| broken(error.to_string()))?;
                Ok(Some(Kept::Foreign(head)))
            }
            Err(error) => Err(broken(error.to_string())),
        }
    }

    /// The tree and position at the anchored head, from tiles. Starts from the beginning where no
    /// head is anchored, or the tiles are damaged.
    ///
    /// Every frame behind must be sealed by a holder of the log's keys: a signature does not show
    /// who wrote it.
    fn resume(
        &mut self,
        known: &KnownHeads,
        signed: Option<(u64, Hash)>,
    ) -> Result<(TreeWriter, Position), LogError> {
        let start = (TreeWriter::new(), Position::start(self.identity));
        let Some((size, root)) = signed.filter(|(size, _)| *size > 0) else {
            return Ok(start);
        };
        debug_assert_ne!(root, EMPTY_ROOT, "a signed tree with leaves is not empty");
        let stored = Resumption {
            files: self.files,
            name: self.name,
            identity: self.identity,
            published: size,
            published_root: root,
        };
        let mut is_stored = stored.tree(size, &root)?.is_some();
        let mut found = None;
        if let Some(anchored) = self.anchored.filter(|head| head.size() > 0) {
            let (size, root) = (anchored.size(), anchored.root());
            found = stored.end(size, root)?;
            for known in known.below(size) {
                // Another history shows when the tree is built from the frames.
                if found.is_some() && !stored.has_grown_from(known, size, root)? {
                    found = None;
                }
            }
            is_stored &= found.is_some();
        }
        if !is_stored {
            self.note(RepairKind::Tree, 0..size);
        }
        Ok(found.unwrap_or(start))
    }

    /// The error for signed frames that are missing: a tear in the middle is damage, an early end
    /// is a rollback.
    fn missing(&self, position: &Position, end: &End, signed: u64) -> Result<LogError, LogError> {
        let found = position.next_frame;
        // By any signer: it says which copy has everything.
        let newest = signed.max(claimed_size(self.files, self.name)?);
        Ok(match end {
            End::Clean if position.strange.contains(&found) => LogError::Broken {
                place: position.path_of(self.name, found),
                reason: "something else is in the place of the file".into(),
            },
            End::Clean if self.is_named_alone(signed) => self.unnamed(signed),
            End::Clean => rolled_back(
                (self.files, self.heads),
                self.history,
                self.name,
                (found, newest),
            )?,
            End::Torn { .. } => self.broken(
                "segments",
                &format!("frame {found} is damaged, {newest} were signed for"),
            ),
            End::Foreign { .. } => self.broken(
                "segments",
                &format!(
                    "frame {found} was signed for, but was sealed in no opening of the log that the journal has; where an older journal was put back, {}; \
                     where it is the newest, go on from a copy that is intact",
                    advice::NEWER_JOURNAL
                ),
            ),
        })
    }

    pub(crate) fn path(&self, file: &str) -> String {
        format!("streams/{}/{file}", self.name)
    }

    pub(crate) fn broken(&self, part: &str, reason: &str) -> LogError {
        LogError::Broken {
            place: format!("{part} of stream {}", self.name),
            reason: reason.to_owned(),
        }
    }
}

/// `place`, with the header of a segment that begins there.
const fn beginning(place: Place) -> Place {
    let is_first = place.offset == HEADER_END;
    Place {
        offset: if is_first { 0 } else { place.offset },
        ..place
    }
}

/// The error for an authentic frame with content that no frame may have.
fn unopened(stream: &StreamName, frame: u64, error: &DecodeError) -> LogError {
    LogError::Broken {
        place: format!("stream {stream}, frame {frame}"),
        reason: error.to_string(),
    }
}
