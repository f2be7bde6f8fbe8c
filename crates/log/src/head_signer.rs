//! Signs the head of a stream again with the newest key, so that the proof of an old entry uses a
//! current key.
//!
//! An idle stream keeps the checkpoint of an older key. Somebody who has stolen that key since
//! could have signed any other.

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::note::VerifierKey;
use probity_format::proof::{ProveError as ProofError, consistency_proof, verify_consistency};
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tile::{TileReadError, TreeWriter};
use probity_format::tree::{EMPTY_ROOT, Hash};

use crate::Options;
use crate::anchored::{bound_heads, read_anchored};
use crate::certified::tiles;
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::history::claimed_head;
use crate::journal::History;
use crate::keystore::signer_of_key;
use crate::prove::config_of;
use crate::prove_error::ProveError;
use crate::reader::Reader;
use crate::repairs::RecoveryReport;
use crate::resumption::Resumption;
use crate::scan::{Position, scan_believed};
use crate::segments::Identity;

/// The fault of a checkpoint that is to be signed again.
const UNNAMED: &str =
    "is signed by an older key, and was not anchored as far as it goes; verify the log";

/// Signs heads that the log anchored.
pub(crate) struct HeadSigner<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) history: &'a History,
}

impl HeadSigner<'_> {
    /// Returns the checkpoint of `stream` with the text of `head`, signed by `key`, which is the
    /// newest.
    ///
    /// # Errors
    /// [`ProveError::KeyMoved`] where `keys/` has another key; [`LogError::Broken`] where `head` is
    /// not of the history that was anchored.
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

    /// Returns the last anchored head, where `head` covers more frames. A writer that ends before
    /// it anchors a head leaves such a state, and so does an opening before it signs that head
    /// again. If the key has expired, the signer of the frames behind is unknown.
    ///
    /// # Errors
    /// [`LogError::Broken`] where the log is not sound; errors of the storage.
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

    /// Returns whether the stored stream has all frames of `head`, and its root. The tree shows it
    /// as far as the checkpoint goes, by any signer, and the frames show the rest. Damage counts as
    /// no.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn has(&self, stream: &StreamName, head: &Checkpoint) -> Result<bool, LogError> {
        if head.size() == 0 {
            return Ok(*head.root() == EMPTY_ROOT);
        }
        let published = claimed_head(&self.reader.files, stream)?;
        let published = match published {
            Some(published) => published,
            None => Checkpoint::new(head.origin(), 0, EMPTY_ROOT)
                .map_err(|error| broken(stream, &error.to_string()))?,
        };
        if head.size() > published.size() {
            return Ok(self.root_at(stream, &published, head.size())? == Some(*head.root()));
        }
        match self.path(stream, head.size(), published.size()) {
            Ok(path) => Ok(is_grown(head, &published, &path)),
            Err(ProofError::Node(TileReadError::Read(error))) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The path from the tree of `old` frames to that of `size` frames, out of the tiles.
    fn path(
        &self,
        stream: &StreamName,
        old: u64,
        size: u64,
    ) -> Result<Vec<Hash>, ProofError<TileReadError<LogError>>> {
        let mut tiles = tiles(&self.reader.files, stream, size);
        consistency_proof(old, size, |level, index| tiles.node(level, index))
    }

    /// Checks that the signed head leads to the anchored one. Otherwise a forged checkpoint of an
    /// old key would get a new signature.
    fn check_anchored(&self, stream: &StreamName, head: &Checkpoint) -> Result<(), LogError> {
        if head.size() == 0 && *head.root() == EMPTY_ROOT {
            return Ok(());
        }
        let anchored = self.anchored(stream, head.origin())?;
        let anchored = anchored.filter(|anchored| anchored.size() >= head.size());
        let anchored = anchored.ok_or_else(|| broken(stream, UNNAMED))?;
        let has_grown = if stream.as_str() == StreamName::HEADS {
            self.root_at(stream, head, anchored.size())? == Some(*anchored.root())
        } else {
            let path = self.path(stream, head.size(), anchored.size());
            let path = path.map_err(|error| broken(stream, &error.to_string()))?;
            is_grown(head, &anchored, &path)
        };
        has_grown.then_some(()).ok_or_else(|| {
            broken(
                stream,
                "is of another history than the one that was anchored; verify the log",
            )
        })
    }

    /// The head of `stream` that was anchored last: in the stream `heads`, or of `heads` itself in
    /// the last certificate.
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
        let copies = Heads::new(Files::of_heads(places, &Options::default())?);
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

    /// The root over `size` frames of the stream, of which `head` covers the first. A certificate
    /// binds frames of `heads` that a crash left behind its checkpoint, and a kept head may cover
    /// such frames of any stream. There are no tiles for those.
    fn root_at(
        &self,
        stream: &StreamName,
        head: &Checkpoint,
        size: u64,
    ) -> Result<Option<Hash>, LogError> {
        let files = &self.reader.files;
        let config = config_of(self.history, stream)?;
        let identity = Identity::new(&self.reader.geometry, stream, &config);
        let stored = Resumption {
            files,
            name: stream,
            identity,
            published: head.size(),
            published_root: *head.root(),
        };
        let end = match head.size() {
            0 => Some((TreeWriter::new(), Position::start(identity))),
            size => stored.end(size, head.root())?,
        };
        let Some((mut tree, mut position)) = end else {
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

/// Returns whether `path` shows that the tree of `head` has grown from that of `older`.
fn is_grown(older: &Checkpoint, head: &Checkpoint, path: &[Hash]) -> bool {
    verify_consistency(older.size(), head.size(), older.root(), head.root(), path).is_ok()
}

fn broken(stream: &StreamName, reason: &str) -> LogError {
    LogError::Broken {
        place: format!("the checkpoint of stream {stream}"),
        reason: reason.to_owned(),
    }
}
