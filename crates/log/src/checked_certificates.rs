//! Certificates whose signatures were found good before.
//!
//! An opening, a proof and a verification read the journal several times, and after ten years of
//! hourly keys a check of all its signatures takes seconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use probity_format::DecodeError;
use probity_format::certificate::Link;
use probity_format::note::VerifierKey;
use probity_format::tree::{HASH_BYTES, leaf_hash};

/// The certificates of one log, by the digest over note and key. Holds no more than the journal
/// does, because only what a key of its chain signed is kept.
#[derive(Debug, Default)]
pub(crate) struct CheckedCertificates {
    links: Mutex<HashMap<[u8; HASH_BYTES], Link>>,
}

impl CheckedCertificates {
    /// The certificate in `note`, which `signer` must have signed. Its signature is checked the first
    /// time.
    ///
    /// # Errors
    /// The errors of [`Link::from_note`].
    pub(crate) fn link(&self, note: &[u8], signer: &VerifierKey) -> Result<Link, DecodeError> {
        // A key has no line break in its text, so that no other pair has these bytes.
        let pair = [signer.encode().as_bytes(), b"\n", note].concat();
        let digest = *leaf_hash(&pair).as_bytes();
        let links = || self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links().get(&digest) {
            return Ok(*link);
        }
        let link = Link::from_note(note, signer)?;
        links().insert(digest, link);
        Ok(link)
    }
}
