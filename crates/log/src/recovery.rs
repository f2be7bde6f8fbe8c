//! Brings a stream's storage back to a state from which writing can go on, and says what it did.
//!
//! There is no second implementation of integrating a frame: recovered frames go through the same
//! tree writer as new ones. What was signed for must be there, and so must what is known to have been durable. Behind what was signed only
//! frames count that a holder of the log's keys sealed; anything else is set aside, and an incomplete frame at the end is cut off.

use std::ops::Range;

use probity_format::DecodeError;
use probity_format::checkpoint::Checkpoint;
use probity_format::limits::{CHECKPOINT_BYTES_MAX, TILE_WIDTH};
use probity_format::note::{NoteError, SignedNote, VerifierKey};
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::tile::{Bundle, RestoreError, TileReadError, TreeWriter, decode_bundle};
use probity_format::tree::{EMPTY_ROOT, Hash};

use crate::durable::Durable;
use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX, unless_strange};
use crate::heads::Heads;
use crate::journal::History;
use crate::keys_missed::KeysMissed;
use crate::opener::Opening;
use crate::records::Records;
use crate::repairs::{Repair, RepairKind};
use crate::scan::{End, Position, scan_believed};
use crate::segments::{self, Identity, Walk};
use crate::settling::FoundStream;

/// What is to be recovered, and with what.
pub(crate) struct Recovery<'a> {
    pub(crate) files: &'a Files,
    pub(crate) heads: &'a Heads,
    pub(crate) name: &'a StreamName,
    pub(crate) identity: Identity,
    /// Knows the keys that may have signed the stream's checkpoints.
    pub(crate) history: &'a History,
    /// The name under which they did.
    pub(crate) origin: String,
    /// The key that must have signed them too.
    pub(crate) witness: Option<&'a VerifierKey>,
    pub(crate) epochs: Epochs<'a>,
    /// What is known to have been durable, where a note says so.
    pub(crate) durable: Option<Durable>,
    /// Whether some of those may be gone.
    pub(crate) accept_loss: bool,
    /// The head that was anchored last, which was signed for too: in `heads`, or of `heads` itself in the last certificate.
    pub(crate) anchored: Option<&'a Checkpoint>,
    /// What opens the frames of a stream that may be about subjects.
    pub(crate) opening: Option<Opening<'a>>,
    /// What was found and will be repaired.
    pub(crate) noted: Vec<Repair>,
}

/// The head that was signed last, and what is found at its size.
pub(crate) struct Reached {
    pub(crate) size: u64,
    signed: Hash,
    /// The root found at that size.
    root: Hash,
    /// Where frames that were not signed for begin.
    pub(crate) place: Place,
}

impl Reached {
    fn new(signed: Option<(u64, Hash)>, tree: &TreeWriter, position: &Position) -> Self {
        let (size, signed) = signed.unwrap_or((0, EMPTY_ROOT));
        let root = if tree.size() == size {
            tree.root()
        } else {
            EMPTY_ROOT
        };
        Self {
            size,
            signed,
            root,
            place: position.place(),
        }
    }

    /// Looks at the tree after the record of a frame was appended that ends at `end`.
    fn look(&mut self, tree: &TreeWriter, end: Option<Place>) {
        if tree.size() == self.size {
            self.root = tree.root();
            // Without a place everything is made durable.
            self.place = end.unwrap_or_default();
        }
    }
}

/// What the second copy of a head turned out to be.
enum Kept {
    /// Signed by a key of this log.
    Verified(Checkpoint),
    /// Signed by none that the journal knows.
    Foreign(Checkpoint),
}

impl Kept {
    const fn size(&self) -> u64 {
        match self {
            Self::Verified(head) | Self::Foreign(head) => head.size(),
        }
    }

    /// The head that is verified and the one that is foreign, of which there is one at most.
    fn apart(kept: Option<Self>) -> (Option<Checkpoint>, Option<Checkpoint>) {
        match kept {
            Some(Self::Verified(head)) => (Some(head), None),
            Some(Self::Foreign(head)) => (None, Some(head)),
            None => (None, None),
        }
    }
}

impl<'a> Recovery<'a> {
    /// Finds the end of the stream and rebuilds its tree, and changes nothing. Subjects without a key are added to `missed`.
    ///
    /// # Errors
    /// [`LogError::RolledBack`] when something signed is missing, [`LogError::Broken`] when it is
    /// there but is something else, and those of the storage.
    pub(crate) fn find(mut self, missed: &mut KeysMissed) -> Result<FoundStream<'a>, LogError> {
        let kept = self.kept_head()?;
        let published = self.checkpoint(kept.as_ref().map(Kept::size))?;
        let (kept, foreign) = Kept::apart(kept);
        let signed = self.signed(published.as_ref(), kept.as_ref())?;
        let signed = self.with_anchored(signed);
        let (mut tree, mut position) = self.resume(signed)?;
        let rebuilt = tree.size() == 0;
        // What was signed must be found, whichever way the tree was built.
        let mut at_signed = Reached::new(signed, &tree, &position);
        let cuts = segments::cuts(self.files, self.name, self.identity.version)?;
        let mut walk = Walk::new(cuts);
        walk.found(position.place());
        let signed_size = at_signed.size;
        let noted = self.durable.unwrap_or(Durable::NOTHING);
        let mut is_as_noted = true;
        let epochs = &mut self.epochs;
        let place = format!("tree of stream {}", self.name);
        let (name, opening) = (self.name, &mut self.opening);
        let end = scan_believed(
            self.files,
            self.name,
            &mut position,
            // What was signed is compared with what was signed for; behind it only the authenticator tells who wrote it.
            &mut |record, frame| record.frame < signed_size || epochs.authenticate(frame),
            &mut |record, frame| {
                if let Some(opening) = opening.as_mut().filter(|_| record.frame >= signed_size) {
                    let looked = missed.look(name, frame, opening);
                    looked.map_err(|error| unopened(name, record.frame, &error))?;
                }
                tree.append(&record.encode())
                    .map_err(|error| LogError::Broken {
                        place: place.clone(),
                        reason: error.to_string(),
                    })?;
                let place = walk.pass(record.frame, Some(record));
                at_signed.look(
                    &tree,
                    place.map(|place| segments::behind(place, record.length)),
                );
                is_as_noted &= tree.size() != noted.frames || tree.root() == noted.root;
                Ok::<(), LogError>(())
            },
        )?;
        self.check_signed(&at_signed, &end, tree.size())?;
        if let Some(head) = foreign {
            return Err(self.foreign(&head, &end, tree.size()));
        }
        self.check_unanchored(signed_size)?;
        let is_lossless = self.check_durable(&noted, tree.size(), is_as_noted)?;
        Ok(FoundStream {
            recovery: self,
            published,
            kept,
            signed: at_signed,
            position,
            end,
            rebuilt,
            is_lossless,
            tree,
        })
    }

    /// Whether second copy and anchored head cover all `size` frames. Otherwise everything is published again, so that what is not
    /// anchored yet is signed by the key of the time at which it will be.
    pub(crate) fn is_published(&self, size: u64, kept: Option<&Checkpoint>) -> bool {
        let same = |head: &Checkpoint| head.size() == size;
        size == 0 || kept.is_some_and(same) && self.anchored.is_some_and(same)
    }

    /// The larger of the two heads: what must be found.
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
                if published.root() != kept.root() {
                    return Err(self.broken("second copy of the head", "has another root"));
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

    /// A writer advances the second copy before it publishes: a checkpoint beyond it is somebody else's.
    fn ahead(&self, published: u64, kept: u64) -> LogError {
        let reason = format!(
            "covers {published} frames, its second copy {kept}, and no writer leaves them so: verify the log against the copy; \
             if the copy was put back from a backup, move it away"
        );
        self.broken("checkpoint", &reason)
    }

    /// Whether a holder of the log's keys sealed every frame that was signed for and that is not anchored yet: an expired
    /// signing key signs for frames, too, and does not seal any.
    fn check_unanchored(&mut self, size: u64) -> Result<(), LogError> {
        let anchored = self.anchored.map_or(0, Checkpoint::size);
        if self.name.as_str() == StreamName::JOURNAL || anchored >= size {
            return Ok(());
        }
        let start = Position::start(self.identity);
        let mut position = match anchored.checked_sub(1) {
            None => start,
            Some(last) => {
                let leaf = self.leaf_in(last, size)?;
                let record =
                    leaf.and_then(|leaf| Record::decode(self.identity.version, &leaf).ok());
                let behind = record.map(|record| self.position_behind(&record, size));
                // Without its record the frame is found from the first on.
                behind.transpose()?.flatten().unwrap_or(start)
            }
        };
        let epochs = &mut self.epochs;
        let _end = scan_believed(
            self.files,
            self.name,
            &mut position,
            &mut |record, frame| {
                record.frame < size && (record.frame < anchored || epochs.authenticate(frame))
            },
            &mut |_, _| Ok::<(), LogError>(()),
        )?;
        if position.next_frame >= size {
            return Ok(());
        }
        let reason = format!(
            "frame {} was signed for and not sealed with this log's keys: verify the log, and go on from a copy that is intact",
            position.next_frame
        );
        Err(self.broken("segments", &reason))
    }

    /// The head that was anchored, where checkpoint and second copy are older or gone: no crash leaves them so.
    fn with_anchored(&mut self, signed: Option<(u64, Hash)>) -> Option<(u64, Hash)> {
        let size = signed.map_or(0, |(size, _)| size);
        let Some(anchored) = self.anchored.filter(|anchored| anchored.size() > size) else {
            return signed;
        };
        self.note(RepairKind::Anchored, size..anchored.size());
        Some((anchored.size(), *anchored.root()))
    }

    fn check_signed(&self, reached: &Reached, end: &End, found: u64) -> Result<(), LogError> {
        if found < reached.size {
            return Err(self.missing(end, found, reached.size));
        }
        if reached.root != reached.signed {
            return Err(self.broken("segments", "do not have the root that was signed"));
        }
        Ok(())
    }

    /// What was durable must be there, unless the caller has accepted its loss. Gives whether it is.
    fn check_durable(
        &self,
        noted: &Durable,
        found: u64,
        is_as_noted: bool,
    ) -> Result<bool, LogError> {
        let durable = noted.frames;
        // Frames of another branch, which an accepted loss once left behind: nobody can say from which on.
        if !is_as_noted {
            let reason = "are not those that were noted as durable: frames that an accepted loss had left behind were put back; \
                          put the newest copy of the whole log back";
            return Err(self.broken("segments", reason));
        }
        if found >= durable {
            return Ok(true);
        }
        // A journal that was shortened is an older one: what it said would be said a second time, and otherwise.
        if !self.accept_loss || self.name.as_str() == StreamName::JOURNAL {
            return Err(LogError::Lost {
                stream: self.name.to_string(),
                found,
                durable,
            });
        }
        Ok(false)
    }

    /// The second copy is signed by a key this journal never certified: the journal is older than the copy.
    fn foreign(&self, head: &Checkpoint, end: &End, found: u64) -> LogError {
        if found < head.size() {
            return self.missing(end, found, head.size());
        }
        LogError::Broken {
            place: format!("second copy of the head of stream {}", self.name),
            reason: "is signed by no key of this log; if it was damaged, verify the log, then \
                     move the copy away"
                .into(),
        }
    }

    fn note(&mut self, kind: RepairKind, range: Range<u64>) {
        self.noted.push(Repair::new(kind, self.name, range));
    }

    /// The published checkpoint; one that is torn or missing is replaced by the next publication.
    ///
    /// One of a key that this journal never certified and over more frames than any other head covers is no damage: the journal is older than it.
    fn checkpoint(&mut self, kept: Option<u64>) -> Result<Option<Checkpoint>, LogError> {
        let is_kept = kept.is_some();
        let name = format!("streams/{}/checkpoint", self.name);
        let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
        let Some(note) = unless_strange(self.files.read(&name, max))? else {
            if is_kept {
                self.note(RepairKind::Checkpoint, 0..kept.unwrap_or_default());
            }
            return Ok(None);
        };
        match self.history.open(&note, &self.origin) {
            Ok((_, head)) => {
                if unwitnessed(&note, self.witness).is_some() {
                    self.note(RepairKind::Witness, 0..head.size());
                }
                Ok(Some(head))
            }
            Err(error) => {
                let note = SignedNote::parse(&note).ok();
                let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
                let known = kept
                    .unwrap_or_default()
                    .max(self.anchored.map_or(0, Checkpoint::size));
                if error == NoteError::NoKnownSignature
                    && head.is_some_and(|head| head.size() > known)
                {
                    let reason = "is signed by no key that this journal certified, over more frames than any other head covers: \
                                  an older journal was put back; put the newer copy of the whole log back";
                    return Err(self.broken("checkpoint", reason));
                }
                self.note(RepairKind::Unreadable, 0..known);
                Ok(None)
            }
        }
    }

    /// The second copy of the head.
    fn kept_head(&self) -> Result<Option<Kept>, LogError> {
        let Some(note) = self.heads.load(self.name)? else {
            return Ok(None);
        };
        let broken = |reason: String| LogError::Broken {
            place: format!("second copy of the head of stream {}", self.name),
            reason: format!("{reason}; if it was damaged, verify the log, then move the copy away"),
        };
        match self.history.open(&note, &self.origin) {
            Ok((_, head)) => Ok(Some(Kept::Verified(head))),
            Err(NoteError::NoKnownSignature) => {
                let note = SignedNote::parse(&note).map_err(|error| broken(error.to_string()))?;
                let head =
                    Checkpoint::parse(note.text()).map_err(|error| broken(error.to_string()))?;
                Ok(Some(Kept::Foreign(head)))
            }
            Err(error) => Err(broken(error.to_string())),
        }
    }

    /// The tree and position at what was signed, from tiles; or from the start when they are no good.
    fn resume(&mut self, signed: Option<(u64, Hash)>) -> Result<(TreeWriter, Position), LogError> {
        let start = Position::start(self.identity);
        let Some((size, root)) = signed.filter(|(size, _)| *size > 0) else {
            return Ok((TreeWriter::new(), start));
        };
        debug_assert_ne!(root, EMPTY_ROOT, "a signed tree with leaves is not empty");
        if let Some(found) = self.signed_end(size, &root)? {
            return Ok(found);
        }
        self.note(RepairKind::Tree, 0..size);
        Ok((TreeWriter::new(), start))
    }

    /// The tree of `size` frames with `root`, and the position behind its last frame, which must be there.
    fn signed_end(
        &self,
        size: u64,
        root: &Hash,
    ) -> Result<Option<(TreeWriter, Position)>, LogError> {
        let last = size.saturating_sub(1);
        let read = |path: &str| {
            let path = format!("streams/{}/{path}", self.name);
            unless_strange(self.files.read(&path, TILE_FILE_BYTES_MAX))
        };
        // A full bundle is read by nobody who restores the tree behind it, so the tree before is restored.
        let is_full = size.is_multiple_of(TILE_WIDTH);
        let mut tree = match TreeWriter::restore(if is_full { last } else { size }, read) {
            Ok(tree) => tree,
            Err(RestoreError::Read(error) | RestoreError::Tile(TileReadError::Read(error))) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        let Some(leaf) = self.leaf(last)? else {
            return Ok(None);
        };
        // The root then says that the leaf is the one that was signed for.
        if is_full && tree.append(&leaf).is_err() || tree.root() != *root {
            return Ok(None);
        }
        let Ok(record) = Record::decode(self.identity.version, &leaf) else {
            return Ok(None);
        };
        let position = self.position_behind(&record, size)?;
        Ok(position.map(|position| (tree, position)))
    }

    /// The position behind the frame of `record`, which a head of `size` frames covers, if that is stored as the record says.
    fn position_behind(&self, record: &Record, size: u64) -> Result<Option<Position>, LogError> {
        let mut records = Records::new(self.files, self.name, self.identity, size);
        let found = match records.stored(record) {
            Ok(Some(_)) => records.behind(record),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            // The records before it do not lead there.
            Err(LogError::Broken { .. }) => Ok(None),
            found => found,
        }
    }

    /// The leaf of frame `frame`, as the last of its bundle.
    fn leaf(&self, frame: u64) -> Result<Option<Vec<u8>>, LogError> {
        self.leaf_in(frame, frame.saturating_add(1))
    }

    /// The leaf of frame `frame` in the bundle that a tree of `size` frames has for it.
    fn leaf_in(&self, frame: u64, size: u64) -> Result<Option<Vec<u8>>, LogError> {
        let Some(bundle) = Bundle::of_tree(frame / TILE_WIDTH, size) else {
            return Ok(None);
        };
        for bundle in [bundle, bundle.filled()] {
            let path = format!("streams/{}/{}", self.name, bundle.path());
            if let Some(bytes) = unless_strange(self.files.read(&path, TILE_FILE_BYTES_MAX))? {
                let place = usize::try_from(frame % TILE_WIDTH).unwrap_or_default();
                let leaves = decode_bundle(&bytes, bundle.width()).unwrap_or_default();
                return Ok(leaves.get(place).map(|leaf| leaf.to_vec()));
            }
        }
        Ok(None)
    }

    /// Something signed is not there: torn in the middle is damage, an early end is a rollback.
    fn missing(&self, end: &End, found: u64, signed: u64) -> LogError {
        match end {
            End::Clean => LogError::RolledBack {
                stream: self.name.to_string(),
                found,
                signed,
            },
            End::Torn { .. } | End::Foreign { .. } => self.broken(
                "segments",
                &format!("frame {found} is damaged, {signed} were signed for"),
            ),
        }
    }

    fn broken(&self, part: &str, reason: &str) -> LogError {
        LogError::Broken {
            place: format!("{part} of stream {}", self.name),
            reason: reason.to_owned(),
        }
    }
}

/// An authentic frame that holds what none may.
fn unopened(stream: &StreamName, frame: u64, error: &DecodeError) -> LogError {
    LogError::Broken {
        place: format!("stream {stream}, frame {frame}"),
        reason: error.to_string(),
    }
}

/// How the line of the witness key in a checkpoint of the journal is wrong; `witness` is what should have signed it.
pub(crate) fn unwitnessed(note: &[u8], witness: Option<&VerifierKey>) -> Option<&'static str> {
    let note = SignedNote::parse(note).ok()?;
    match note.verify(std::slice::from_ref(witness?)) {
        Ok(_) => None,
        Err(NoteError::NoKnownSignature) => Some("lacks the signature of the log's witness key"),
        Err(_) => Some("has a wrong signature of the log's witness key"),
    }
}
