//! Signs the head of a stream again with the newest key, so that the proof of an old entry stands on a key of today.
//!
//! A stream that rests keeps the checkpoint of an older key. Whoever stole that one since could have signed any other.

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::note::VerifierKey;
use probity_format::proof::{consistency_proof, verify_consistency};
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tree::{EMPTY_ROOT, Hash};

use crate::Options;
use crate::anchored::{bound_heads, read_anchored};
use crate::certified::tiles;
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::journal::History;
use crate::keystore::signer_of_key;
use crate::prove::ProveError;
use crate::reader::Reader;
use crate::repairs::RecoveryReport;
use crate::resumption::Resumption;
use crate::scan::scan_believed;
use crate::segments::Identity;

/// What is wrong with a checkpoint that is to be signed again.
const UNNAMED: &str =
    "is signed by an older key, and was not anchored as far as it goes; verify the log";

/// Signs heads that the log anchored.
pub(crate) struct HeadSigner<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) history: &'a History,
}

impl HeadSigner<'_> {
    /// The checkpoint of `stream` that says what `head` says, signed by `key`, which is the newest.
    ///
    /// # Errors
    /// [`ProveError::KeyMoved`] where `keys/` has another key; [`LogError::Broken`] where `head` is not of the history that was anchored.
    pub(crate) fn sign(
        &self,
        stream: &StreamName,
        head: &Checkpoint,
        key: &VerifierKey,
    ) -> Result<String, ProveError> {
        self.check_anchored(stream, head)?;
        let (files, opener) = (&self.reader.files, &self.reader.opener);
        let signer = signer_of_key(files, opener.wrapping(), head.origin(), key)?;
        let signer = signer.ok_or(ProveError::KeyMoved)?;
        let signed = head.sign(&[&signer]);
        signed.map_err(|error| broken(stream, &error.to_string()).into())
    }

    /// The head that was anchored last, where `head` covers more frames: a writer that ends before it anchors a head, and an opening before it signs that head
    /// again, leave it so. Nobody knows who signed for the frames behind, if the key has expired.
    ///
    /// # Errors
    /// [`LogError::Broken`] where the log is not sound; those of the storage.
    pub(crate) fn anchored_before(
        &self,
        stream: &StreamName,
        head: &Checkpoint,
    ) -> Result<Option<Checkpoint>, LogError> {
        let anchored = self.anchored(stream, head.origin())?;
        if anchored.as_ref().map_or(0, Checkpoint::size) >= head.size() {
            return Ok(None);
        }
        self.reader.check(Some(stream))?;
        let empty = || Checkpoint::new(head.origin(), 0, EMPTY_ROOT);
        let anchored = anchored.map_or_else(empty, Ok);
        anchored
            .map(Some)
            .map_err(|error| broken(stream, &error.to_string()))
    }

    /// What is signed must lead to what the log anchored: else a forged checkpoint of an old key would get a new signature.
    fn check_anchored(&self, stream: &StreamName, head: &Checkpoint) -> Result<(), LogError> {
        if head.size() == 0 && *head.root() == EMPTY_ROOT {
            return Ok(());
        }
        let anchored = self.anchored(stream, head.origin())?;
        let anchored = anchored.filter(|anchored| anchored.size() >= head.size());
        let anchored = anchored.ok_or_else(|| broken(stream, UNNAMED))?;
        let (old, size) = (head.size(), anchored.size());
        let has_grown = if stream.as_str() == StreamName::HEADS {
            self.root_at(stream, head, size)? == Some(*anchored.root())
        } else {
            let mut tiles = tiles(&self.reader.files, stream, size);
            let path = consistency_proof(old, size, |level, index| tiles.node(level, index));
            let path = path.map_err(|error| broken(stream, &error.to_string()))?;
            verify_consistency(old, size, head.root(), anchored.root(), &path).is_ok()
        };
        has_grown.then_some(()).ok_or_else(|| {
            broken(
                stream,
                "is of another history than the one that was anchored; verify the log",
            )
        })
    }

    /// The head of `stream` that was anchored last: in the stream `heads`, or of `heads` itself in the last certificate.
    fn anchored(&self, stream: &StreamName, origin: &str) -> Result<Option<Checkpoint>, LogError> {
        let Reader {
            files,
            geometry,
            places,
            opener,
            ..
        } = self.reader;
        if stream.as_str() == StreamName::HEADS {
            return bound_heads(geometry, self.history);
        }
        let copies = Heads::new(Files::of_heads(places, &Options::default()));
        let mut repairs = RecoveryReport::new(opener.master.note_key(), self.history);
        let mut anchored = read_anchored(
            files,
            &copies,
            geometry,
            self.history,
            (&opener.master, opener),
            &mut repairs,
        )?;
        if !repairs.is_empty() {
            return Err(broken(stream, UNNAMED));
        }
        Ok(anchored.heads.remove(origin))
    }

    /// The root over `size` frames of the stream, of which `head` covers the first: a certificate binds frames of `heads` that a crash left behind its
    /// checkpoint, and there are no tiles of those.
    fn root_at(
        &self,
        stream: &StreamName,
        head: &Checkpoint,
        size: u64,
    ) -> Result<Option<Hash>, LogError> {
        let files = &self.reader.files;
        let identity = Identity::built_in(&self.reader.geometry, stream);
        let stored = Resumption {
            files,
            name: stream,
            identity,
            published: head.size(),
            published_root: *head.root(),
        };
        let Some((mut tree, mut position)) = stored.end(head.size(), head.root())? else {
            return Ok(None);
        };
        let mut is_bound = |record: &Record, _: &Frame<'_>| record.frame < size;
        let mut append = |record: &Record, _: &Frame<'_>| {
            let appended = tree.append(&record.encode());
            appended.map_err(|error| broken(stream, &error.to_string()))?;
            Ok::<(), LogError>(())
        };
        let _end = scan_believed(files, stream, &mut position, &mut is_bound, &mut append)?;
        Ok((tree.size() == size).then(|| tree.root()))
    }
}

fn broken(stream: &StreamName, reason: &str) -> LogError {
    LogError::Broken {
        place: format!("the checkpoint of stream {stream}"),
        reason: reason.to_owned(),
    }
}
