//! Checkpoints (C2SP tlog-checkpoint 1.0.0): origin, tree size and root of a log, signed.
//!
//! Extension lines, which the specification allows, are refused.

use alloc::format;
use alloc::string::String;

use crate::error::DecodeError;
use crate::note::{NoteError, SignedNote, Signer, VerifierKey};
use crate::tile::canonical_number;
use crate::tree::{EMPTY_ROOT, Hash};

/// A checkpoint: the log's origin, and the size and root of its tree.
///
/// ```
/// use probity_format::checkpoint::Checkpoint;
/// use probity_format::note::{Signer as _, SigningKey};
/// use probity_format::tree::leaf_hash;
///
/// let key = SigningKey::from_seed("example.com/log", &[7; 32])?;
/// let checkpoint = Checkpoint::new("example.com/log", 1, leaf_hash(b"entry"))?;
/// let note = checkpoint.sign(&[&key])?;
/// let opened = Checkpoint::open(note.as_bytes(), &[key.verifier_key().clone()])?;
/// assert_eq!(opened, checkpoint);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    origin: String,
    size: u64,
    root: Hash,
}

impl Checkpoint {
    /// Creates the checkpoint of the log `origin` at `size` leaves with `root`.
    ///
    /// # Errors
    /// When `origin` is empty or not one line, or the tree is empty and `root` is not
    /// [`EMPTY_ROOT`].
    pub fn new(origin: &str, size: u64, root: Hash) -> Result<Self, DecodeError> {
        let checkpoint = Self {
            origin: origin.into(),
            size,
            root,
        };
        // The parser alone decides which checkpoints are valid.
        Self::parse(&checkpoint.encode())
    }

    /// Reads a checkpoint from the text of a note (tlog-checkpoint, note text).
    ///
    /// # Errors
    /// If `text` is not exactly what [`Checkpoint::encode`] writes.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let error = |offset, reason| DecodeError::new("checkpoint", offset, reason);
        let body = text
            .strip_suffix('\n')
            .ok_or_else(|| error(text.len(), "does not end in a line feed"))?;
        if let Some(offset) = body.bytes().position(|byte| byte < b' ' && byte != b'\n') {
            return Err(error(offset, "holds a control character"));
        }
        let mut lines = body.split('\n');
        let origin = lines.next().unwrap_or_default();
        if origin.is_empty() {
            return Err(error(0, "has an empty origin"));
        }
        let size_at = origin.len().saturating_add(1);
        let size_line = lines
            .next()
            .ok_or_else(|| error(size_at, "has no tree size"))?;
        let size = canonical_number(size_line)
            .ok_or_else(|| error(size_at, "has a tree size that is not a canonical number"))?;
        let root_at = size_at.saturating_add(size_line.len()).saturating_add(1);
        let root_line = lines.next().ok_or_else(|| error(root_at, "has no root"))?;
        let root = Hash::from_base64(root_line, "checkpoint")
            .map_err(|detail| error(root_at, detail.reason))?;
        if size == 0 && root != EMPTY_ROOT {
            return Err(error(
                root_at,
                "has a root for the empty tree that is not its root",
            ));
        }
        // A new key that signs an older key's checkpoint again must not sign extension lines of
        // unknown meaning.
        if lines.next().is_some() {
            let end = root_at.saturating_add(root_line.len()).saturating_add(1);
            return Err(error(end, "has a line behind its root"));
        }
        Ok(Self {
            origin: origin.into(),
            size,
            root,
        })
    }

    /// Returns the text to be signed.
    pub fn encode(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, self.root)
    }

    /// Signs this checkpoint and returns the signed note, the content of the file `checkpoint`.
    ///
    /// # Errors
    /// When a signer fails.
    pub fn sign(&self, signers: &[&dyn Signer]) -> Result<String, NoteError> {
        let mut note = SignedNote::new(self.encode())?;
        for signer in signers {
            note.sign(*signer)?;
        }
        Ok(note.encode())
    }

    /// Reads the checkpoint in a signed note. One of `keys` must have signed it and be named as its
    /// origin.
    ///
    /// A key signs only for the log of its own name. So the checkpoint of one log cannot replace
    /// that of another whose key is also known. Signatures of other known keys (witnesses) must be
    /// valid as well.
    ///
    /// # Errors
    /// See [`NoteError`].
    pub fn open(note: &[u8], keys: &[VerifierKey]) -> Result<Self, NoteError> {
        let note = SignedNote::parse(note)?;
        let signers = note.verify(keys)?;
        let checkpoint = Self::parse(note.text())?;
        if signers.iter().all(|key| key.name() != checkpoint.origin) {
            return Err(NoteError::WrongSigner {
                origin: checkpoint.origin,
            });
        }
        Ok(checkpoint)
    }

    /// Returns the identity of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the root over the leaves.
    pub const fn root(&self) -> &Hash {
        &self.root
    }
}

impl core::fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.encode())
    }
}
