//! Brings a stream's storage back to a state from which writing can go on, and says what it did.
//!
//! There is no second implementation of integrating a frame: recovered frames go through the same
//! tree writer as new ones. What was signed for must be there; what is torn behind it is cut off.

use probity_format::checkpoint::Checkpoint;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::{NoteError, SignedNote, VerifierKey};
use probity_format::record::Record;
use probity_format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_file_name};
use probity_format::stream::{StreamId, StreamName};
use probity_format::tile::{Bundle, TreeWriter, decode_bundle};
use probity_format::tree::{EMPTY_ROOT, Hash};

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX};
use crate::heads::Heads;
use crate::scan::{End, Position, scan};
use crate::stream::Recovered;

/// What is to be recovered, and with what.
pub(crate) struct Recovery<'a> {
    pub(crate) files: &'a Files,
    pub(crate) heads: &'a Heads,
    pub(crate) name: &'a StreamName,
    pub(crate) id: StreamId,
    pub(crate) fingerprint: [u8; 32],
    /// Keys that may have signed the stream's checkpoints.
    pub(crate) keys: &'a [VerifierKey],
    /// What was done, one sentence each.
    pub(crate) repairs: &'a mut Vec<String>,
}

/// What the second copy of a head turned out to be.
enum Kept {
    /// Signed by a key of this log.
    Verified(Checkpoint),
    /// Signed by none that the journal knows.
    Foreign(Checkpoint),
}

impl Recovery<'_> {
    /// Finds the end of the stream, rebuilds its tree, and cuts off what is torn.
    ///
    /// # Errors
    /// [`LogError::RolledBack`] when something signed is missing, [`LogError::Broken`] when it is
    /// there but is something else, and those of the storage.
    pub(crate) fn run(mut self) -> Result<Recovered, LogError> {
        let published = self.checkpoint()?;
        let kept = self.kept_head()?;
        let (kept, foreign) = match kept {
            Some(Kept::Verified(head)) => (Some(head), None),
            Some(Kept::Foreign(head)) => (None, Some(head)),
            None => (None, None),
        };
        let signed = match (&published, &kept) {
            (Some(a), Some(b)) => Some(if a.size() >= b.size() { a } else { b }),
            (a, b) => a.as_ref().or(b.as_ref()),
        }
        .map(|head| (head.size(), *head.root()));
        let (mut tree, mut position) = self.resume(signed)?;
        // What the checkpoint covers must match it, whichever way the tree was built.
        let mut at_signed = signed
            .filter(|(size, _)| *size == tree.size())
            .map(|_| tree.root());
        let end = scan(self.files, self.name, &mut position, &mut |record, _| {
            tree.append(&record.encode())
                .map_err(|error| self.broken("tree", &error.to_string()))?;
            if signed.is_some_and(|(size, _)| size == tree.size()) {
                at_signed = Some(tree.root());
            }
            Ok(())
        })?;
        if let Some((size, root)) = signed {
            if tree.size() < size {
                return Err(self.missing(&end, tree.size(), size));
            }
            if size > 0 && at_signed != Some(root) {
                return Err(self.broken("segments", "do not have the root that was signed"));
            }
        }
        if let Some(head) = foreign {
            // Signed by a key this journal never certified: the journal is older than the copy.
            if tree.size() < head.size() {
                return Err(self.missing(&end, tree.size(), head.size()));
            }
            return Err(LogError::Broken {
                place: format!("second copy of the head of stream {}", self.name),
                reason: "is signed by no key of this log; if it was damaged, verify the log, then \
                         move the copy away"
                    .into(),
            });
        }
        if let End::Torn { what, bytes } = end {
            self.cut(&position, what, bytes)?;
        }
        self.remove_later_segments(&position)?;
        let published = published.map_or(0, |head| head.size());
        if published < tree.size() && published > 0 {
            self.repairs.push(format!(
                "stream {}: {} frames found behind the last checkpoint",
                self.name,
                tree.size().saturating_sub(published)
            ));
        }
        Ok(Recovered {
            header: position.header,
            begun: position.begun,
            offset: position.offset,
            next_frame: position.next_frame,
            next_entry: position.next_entry,
            last_epoch: position.last_epoch,
            tree,
            published,
        })
    }

    /// The published checkpoint; one that is torn or missing is replaced by the next publication.
    fn checkpoint(&mut self) -> Result<Option<Checkpoint>, LogError> {
        let name = format!("streams/{}/checkpoint", self.name);
        let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
        let Some(note) = self.files.read(&name, max)? else {
            return Ok(None);
        };
        match Checkpoint::open(&note, self.keys) {
            Ok(head) => Ok(Some(head)),
            Err(error) => {
                self.repairs.push(format!(
                    "{name} is unreadable ({error}) and will be written anew"
                ));
                Ok(None)
            }
        }
    }

    /// The second copy of the head.
    fn kept_head(&mut self) -> Result<Option<Kept>, LogError> {
        let Some(note) = self.heads.load(self.name)? else {
            if self
                .files
                .read(&format!("streams/{}/checkpoint", self.name), 1 << 20)?
                .is_some()
            {
                self.repairs.push(format!(
                    "stream {}: the second copy of the head is missing and will be written anew",
                    self.name
                ));
            }
            return Ok(None);
        };
        let broken = |reason: String| LogError::Broken {
            place: format!("second copy of the head of stream {}", self.name),
            reason: format!("{reason}; if it was damaged, verify the log, then move the copy away"),
        };
        match Checkpoint::open(&note, self.keys) {
            Ok(head) => Ok(Some(Kept::Verified(head))),
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
        let start = Position::start(self.id, self.fingerprint);
        let Some((size, root)) = signed.filter(|(size, _)| *size > 0) else {
            return Ok((TreeWriter::new(), start));
        };
        debug_assert_ne!(root, EMPTY_ROOT, "a signed tree with leaves is not empty");
        let folder = format!("streams/{}", self.name);
        let read = |path: &str| {
            self.files
                .read(&format!("{folder}/{path}"), TILE_FILE_BYTES_MAX)
        };
        let restored = TreeWriter::restore(size, read)
            .ok()
            .filter(|tree| tree.root() == root);
        if let Some(tree) = restored
            && let Some(position) = self.position_after(size.saturating_sub(1))?
        {
            return Ok((tree, position));
        }
        self.repairs.push(format!(
            "stream {}: tiles at size {size} are missing or torn; the tree is rebuilt from the segments",
            self.name
        ));
        Ok((TreeWriter::new(), start))
    }

    /// The position behind frame `frame`, from its record and its segment's header.
    fn position_after(&self, frame: u64) -> Result<Option<Position>, LogError> {
        let Some(record) = self.record(frame)? else {
            return Ok(None);
        };
        let name = format!(
            "streams/{}/{}",
            self.name,
            segment_file_name(record.segment)
        );
        let Some(file) = self.files.open_read(&name)? else {
            return Ok(None);
        };
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let header = match file.read_at(&mut bytes, 0) {
            Ok(()) => SegmentHeader::decode(&bytes).ok(),
            Err(_) => None,
        };
        let Some(header) = header.filter(|header| {
            header.stream == self.id
                && header.fingerprint == self.fingerprint
                && header.number == record.segment
        }) else {
            return Ok(None);
        };
        Ok(Some(Position {
            header,
            begun: true,
            offset: record.end(),
            next_frame: record.frame.saturating_add(1),
            next_entry: record.next_entry(),
            last_epoch: record.epoch,
        }))
    }

    fn record(&self, frame: u64) -> Result<Option<Record>, LogError> {
        let size = frame.saturating_add(1);
        let Some(bundle) = Bundle::of_tree(frame / 256, size) else {
            return Ok(None);
        };
        for bundle in [bundle, bundle.filled()] {
            let path = format!("streams/{}/{}", self.name, bundle.path());
            if let Some(bytes) = self.files.read(&path, TILE_FILE_BYTES_MAX)? {
                let place = usize::try_from(frame % 256).unwrap_or_default();
                let leaves = decode_bundle(&bytes, bundle.width()).ok();
                let leaf = leaves.as_ref().and_then(|leaves| leaves.get(place));
                let record = leaf.and_then(|leaf| Record::decode(leaf).ok());
                return Ok(record.filter(|record| record.stream == self.id));
            }
        }
        Ok(None)
    }

    /// Cuts torn bytes off the segment at `position`; they were never durable, so nothing is lost that was promised.
    fn cut(&mut self, position: &Position, what: &str, bytes: u64) -> Result<(), LogError> {
        let name = format!(
            "streams/{}/{}",
            self.name,
            segment_file_name(position.header.number)
        );
        if position.begun {
            let file = self.files.segment(&name, false)?;
            self.files
                .attempt("cut", &name, |_| file.set_length(position.offset))?;
            self.files.sync(&name)?;
        } else {
            self.files.remove(&name)?;
            self.files
                .sync_folder(&format!("streams/{}/segments", self.name))?;
        }
        self.repairs
            .push(format!("{name}: cut off {bytes} bytes of a torn {what}"));
        Ok(())
    }

    /// Segments behind a torn one hold nothing that was durable.
    fn remove_later_segments(&mut self, position: &Position) -> Result<(), LogError> {
        let folder = format!("streams/{}/segments", self.name);
        for file in self.files.list(&folder)? {
            let number = file
                .strip_suffix(".seg")
                .and_then(|digits| digits.parse::<u32>().ok());
            if number.is_some_and(|number| number > position.header.number) {
                self.files.remove(&format!("{folder}/{file}"))?;
                self.files.sync_folder(&folder)?;
                self.repairs.push(format!(
                    "{folder}/{file}: removed, it follows a torn segment"
                ));
            }
        }
        Ok(())
    }

    /// Something signed is not there: torn in the middle is damage, an early end is a rollback.
    fn missing(&self, end: &End, found: u64, signed: u64) -> LogError {
        match end {
            End::Clean => LogError::RolledBack {
                stream: self.name.to_string(),
                found,
                signed,
            },
            End::Torn { .. } => self.broken(
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
