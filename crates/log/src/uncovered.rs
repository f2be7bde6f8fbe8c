//! Heads that only frames behind the signed heads name, and what is said of them where a stream
//! contradicts them.

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::Geometry;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::{NoteError, SignedNote};
use probity_format::width::to_u64;

use crate::advice;
use crate::error::{LogError, frames};
use crate::files::{Files, unless_strange};
use crate::heads::Heads;
use crate::journal::History;

/// A head in a frame that no head covers which a key of the journal signed. The log's keys sealed
/// the frame.
#[derive(Debug, Clone)]
pub(crate) struct Uncovered {
    pub(crate) head: Checkpoint,
    /// The frame, in words.
    pub(crate) said_in: String,
    pub(crate) covering: Covering,
}

/// The heads that may cover such a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covering {
    /// The journal has the key of every head that is there: none of them covers the frame.
    Nothing,
    /// A head is signed by a key that the journal does not have. The journal is an older copy, and
    /// the frame may have been signed for.
    NewerKey,
}

impl Covering {
    /// Looks for a head by a key that `history` does not have, in the checkpoints of the streams and
    /// in their second copies. No crash leaves one, because a key signs nothing before the journal
    /// has its certificate.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn of(
        files: &Files,
        heads: &Heads,
        geometry: &Geometry,
        history: &History,
    ) -> Result<Self, LogError> {
        let max = to_u64(CHECKPOINT_BYTES_MAX);
        for (name, _) in &history.streams {
            let origin = geometry.stream_origin(name.as_str());
            let published = files.read(&format!("streams/{name}/checkpoint"), max);
            let notes = [
                unless_strange(published)?,
                unless_strange(heads.load(name))?,
            ];
            let mut notes = notes.into_iter().flatten();
            if notes.any(|note| is_by_newer_key(history, &note, &origin)) {
                return Ok(Self::NewerKey);
            }
        }
        Ok(Self::Nothing)
    }
}

/// Returns whether `note` is a head of the stream of `origin` which no key of `history` signed.
fn is_by_newer_key(history: &History, note: &[u8], origin: &str) -> bool {
    let head = SignedNote::parse(note).and_then(|note| Checkpoint::parse(note.text()));
    let is_of_stream = head.is_ok_and(|head| head.origin() == origin);
    let opened = history.open(note, origin);
    is_of_stream && matches!(opened, Err(NoteError::NoKnownSignature))
}

impl Uncovered {
    pub(crate) const fn new(head: Checkpoint, said_in: String) -> Self {
        Self {
            head,
            said_in,
            covering: Covering::Nothing,
        }
    }

    /// The fault of a stream that does not have the frames of the head, or has others.
    ///
    /// The frame that names the head goes only where nobody signed for it.
    pub(crate) fn refused(&self) -> String {
        let (said_in, named) = (&self.said_in, frames(self.head.size()));
        match self.covering {
            Covering::Nothing => format!(
                "{said_in}, which no checkpoint covers, names a head over {named} that the stream does not have: an older copy of the stream was put \
                 back, or another hand with the log's keys sealed that frame; {}; only where there is \
                 none, put the segments with the frame that names the head back without it, from a copy that ends with the checkpoint \
                 of their stream",
                advice::SEGMENT
            ),
            Covering::NewerKey => format!(
                "{said_in} names a head over {named} that the stream does not have, and a checkpoint or a second copy is signed by a key that \
                 this journal did not certify: an older journal was put back; {}, then verify the log again",
                advice::NEWER_JOURNAL
            ),
        }
    }
}
