//! Signs the head of a stream again with the newest key, so that the proof of an old entry stands on a key of today.
//!
//! A stream that rests keeps the checkpoint of an older key. Whoever stole that one since could have signed any other.

use probity_format::checkpoint::Checkpoint;
use probity_format::note::VerifierKey;
use probity_format::proof::{consistency_proof, verify_consistency};
use probity_format::stream::StreamName;

use crate::Options;
use crate::anchored::read_anchored;
use crate::certified::tiles;
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::journal::History;
use crate::keystore::signer_of_key;
use crate::prove::ProveError;
use crate::reader::Reader;
use crate::repairs::Repairs;

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

    /// What is signed must lead to what the log anchored: else a forged checkpoint of an old key would get a new signature.
    fn check_anchored(&self, stream: &StreamName, head: &Checkpoint) -> Result<(), LogError> {
        let Reader {
            files,
            geometry,
            places,
            opener,
            ..
        } = self.reader;
        let copies = Heads::new(Files::of_heads(places, &Options::default()));
        let mut repairs = Repairs::new(opener.master.note_key(), self.history);
        let master = &opener.master;
        let anchored = read_anchored(
            files,
            &copies,
            geometry,
            self.history,
            (master, opener),
            &mut repairs,
        )?;
        let anchored = anchored
            .heads
            .get(head.origin())
            .filter(|anchored| anchored.size() >= head.size() && repairs.is_empty())
            .ok_or_else(|| broken(stream, "is signed by an older key, and the stream heads does not name it; verify the log"))?;
        if head.size() == 0 {
            return Ok(());
        }
        let (old, size) = (head.size(), anchored.size());
        let mut tiles = tiles(files, stream, size);
        let path = consistency_proof(old, size, |level, index| tiles.node(level, index));
        let path = path.map_err(|error| broken(stream, &error.to_string()))?;
        verify_consistency(old, size, head.root(), anchored.root(), &path).map_err(|_wrong| {
            broken(
                stream,
                "is of another history than the stream heads names; verify the log",
            )
        })
    }
}

fn broken(stream: &StreamName, reason: &str) -> LogError {
    LogError::Broken {
        place: format!("the checkpoint of stream {stream}"),
        reason: reason.to_owned(),
    }
}
