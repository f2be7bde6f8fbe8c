//! Key certificates: the signing key of a log certifies its successor.
//!
//! `docs/format.md`, "Journal". A certificate also binds the size and root of the streams `journal`
//! and `heads` at that moment. A verifier who knows one key follows the certificates to every later
//! key; no certificate leads back to an earlier one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::note::{NoteError, PUBLIC_KEY_BYTES, SignedNote, Signer, VerifierKey};
use crate::tile::canonical_number;
use crate::tree::{EMPTY_ROOT, Hash};

/// First line of a certificate.
const HEADER: &str = "probity key certificate v2";
/// First line of a certificate in a log of version 2, which has no stream `heads`.
const HEADER_V1: &str = "probity key certificate v1";
/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Size and root of a stream's tree, as a certificate binds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a size and its root")]
pub struct Bound {
    /// Number of frames.
    pub size: u64,
    /// The tree's root at that size.
    pub root: Hash,
}

impl Bound {
    /// The empty tree of a stream without frames.
    pub const EMPTY: Self = Self {
        size: 0,
        root: EMPTY_ROOT,
    };

    fn parse(size: &str, root: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("key certificate", 0, reason);
        let bound = Self {
            size: canonical_number(size).ok_or_else(|| error("has no size"))?,
            root: Hash::from_base64(root, "key certificate")?,
        };
        if bound.size == 0 && bound.root != EMPTY_ROOT {
            return Err(error("has a root for the empty tree that is not its root"));
        }
        Ok(bound)
    }
}

/// The content of a certificate. The signer is not part of it: only the signature tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    successor: VerifierKey,
    journal: Bound,
    heads: Option<Bound>,
}

impl Certificate {
    /// Creates the certificate for `successor`, binding the streams `journal` and `heads` as they
    /// are.
    ///
    /// A log of version 2 has no stream `heads`.
    pub const fn new(successor: VerifierKey, journal: Bound, heads: Option<Bound>) -> Self {
        Self {
            successor,
            journal,
            heads,
        }
    }

    /// Reads a certificate from `text`, which was or will be signed.
    ///
    /// # Errors
    /// If `text` is not exactly what [`Certificate::encode`] writes.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("key certificate", 0, reason);
        let lines: Vec<&str> = text.lines().collect();
        let (successor, size, root, heads) = match lines.as_slice() {
            [HEADER_V1, successor, size, root] => (successor, size, root, None),
            [HEADER, successor, size, root, heads_size, heads_root] => {
                let heads = Bound::parse(heads_size, heads_root)?;
                (successor, size, root, Some(heads))
            }
            [HEADER_V1 | HEADER, ..] => return Err(error("has another number of lines")),
            _ => return Err(error("is of another version")),
        };
        let certificate = Self {
            successor: VerifierKey::parse(successor).map_err(|bad| error(bad.reason))?,
            journal: Bound::parse(size, root)?,
            heads,
        };
        if certificate.encode() == text {
            Ok(certificate)
        } else {
            Err(error("is not in its one form"))
        }
    }

    /// Returns the text to be signed.
    pub fn encode(&self) -> String {
        let header = self.heads.map_or(HEADER_V1, |_| HEADER);
        let successor = self.successor.encode();
        let lines = |bound: &Bound| format!("{}\n{}\n", bound.size, bound.root);
        let journal = lines(&self.journal);
        let heads = self.heads.as_ref().map(lines).unwrap_or_default();
        format!("{header}\n{successor}\n{journal}{heads}")
    }

    /// Signs this certificate and returns it as a signed note.
    ///
    /// # Errors
    /// When the signer fails.
    pub fn sign(&self, signer: &dyn Signer) -> Result<String, NoteError> {
        let mut note = SignedNote::new(self.encode())?;
        note.sign(signer)?;
        Ok(note.encode())
    }

    /// Reads the certificate in a signed note and checks the signature of `signer`.
    ///
    /// # Errors
    /// When the note is malformed, not signed by `signer`, or certifies a key of another name.
    pub fn open(note: &[u8], signer: &VerifierKey) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("key certificate", 0, reason);
        let note = SignedNote::parse(note).map_err(|bad| error(bad.reason))?;
        note.verify(core::slice::from_ref(signer))
            .map_err(|refused| {
                error(match refused {
                    NoteError::NoKnownSignature => "is not signed by the key before",
                    _ => "has a bad signature",
                })
            })?;
        let certificate = Self::parse(note.text())?;
        if certificate.successor.name() != signer.name() {
            return Err(error("is for a key of another name"));
        }
        Ok(certificate)
    }

    /// Returns the certified key.
    pub const fn successor(&self) -> &VerifierKey {
        &self.successor
    }

    /// Returns the size and the root of the journal that the old key signed.
    pub const fn journal(&self) -> &Bound {
        &self.journal
    }

    /// Returns the size and the root of `heads` that the old key signed; `None` in a log of version
    /// 2.
    pub const fn heads(&self) -> Option<&Bound> {
        self.heads.as_ref()
    }
}

/// One step from a key to its successor: a certificate and its signature, without the fields that
/// follow from the old key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The public key certified.
    pub successor: [u8; PUBLIC_KEY_BYTES],
    /// Size and root of the journal that the old key signed.
    pub journal: Bound,
    /// Size and root of `heads` that the old key signed; `None` in a log of version 2.
    pub heads: Option<Bound>,
    /// The old key's signature over the certificate's text.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Link {
    /// Creates a link from its parts.
    pub const fn new(
        successor: [u8; PUBLIC_KEY_BYTES],
        journal: Bound,
        heads: Option<Bound>,
        signature: [u8; SIGNATURE_BYTES],
    ) -> Self {
        Self {
            successor,
            journal,
            heads,
            signature,
        }
    }

    /// Reads the certificate in `note`, which `signer` must have signed, and returns its link.
    ///
    /// # Errors
    /// The errors of [`Certificate::open`].
    pub fn from_note(note: &[u8], signer: &VerifierKey) -> Result<Self, DecodeError> {
        let certificate = Certificate::open(note, signer)?;
        let error = DecodeError::new("key certificate", 0, "is not signed by the key before");
        let note = SignedNote::parse(note)?;
        let mut own = note
            .signatures()
            .iter()
            .filter(|signature| signature.id() == signer.id() && signature.name() == signer.name());
        let bytes = own.next().map(crate::note::Signature::bytes).ok_or(error)?;
        Ok(Self {
            successor: *certificate.successor.key(),
            journal: certificate.journal,
            heads: certificate.heads,
            signature: bytes.try_into().map_err(|_wrong_length| error)?,
        })
    }

    /// Checks the signature of `signer` and returns the successor's key.
    ///
    /// # Errors
    /// When `signer` has not signed it.
    pub fn follow(&self, signer: &VerifierKey) -> Result<VerifierKey, DecodeError> {
        let successor = VerifierKey::new(signer.name(), self.successor)?;
        let certificate = Certificate::new(successor, self.journal, self.heads);
        if signer.verifies(certificate.encode().as_bytes(), &self.signature) {
            Ok(certificate.successor)
        } else {
            Err(DecodeError::new(
                "key certificate",
                0,
                "has a bad signature",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::SigningKey;
    use crate::tree::leaf_hash;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed("example.com/log", &[seed; 32]).unwrap()
    }

    fn bound(size: u64) -> Bound {
        let root = leaf_hash(&size.to_le_bytes());
        Bound { size, root }
    }

    fn made(successor: &SigningKey) -> Certificate {
        Certificate::new(successor.verifier_key().clone(), bound(7), Some(bound(9)))
    }

    #[test]
    fn a_certificate_opens_under_the_key_before_and_no_other() {
        let (old, new) = (key(1), key(2));
        let made = made(&new);
        let note = made.sign(&old).unwrap();
        assert_eq!(
            Certificate::open(note.as_bytes(), old.verifier_key()),
            Ok(made)
        );
        assert!(Certificate::open(note.as_bytes(), new.verifier_key()).is_err());
        let link = Link::from_note(note.as_bytes(), old.verifier_key()).unwrap();
        assert_eq!(
            link.follow(old.verifier_key()).as_ref(),
            Ok(new.verifier_key())
        );
        assert!(link.follow(new.verifier_key()).is_err());
        let (mut later, mut grown, mut older) = (link, link, link);
        later.journal.size = 8;
        grown.heads = Some(bound(8));
        older.heads = None;
        for changed in [later, grown, older] {
            assert!(changed.follow(old.verifier_key()).is_err());
        }
    }

    #[test]
    fn a_certificate_has_one_form() {
        // Trailing lines and signs before a size were accepted by earlier releases.
        let of_version_2 = Certificate::new(key(2).verifier_key().clone(), bound(7), None);
        for made in [made(&key(2)), of_version_2] {
            let text = made.encode();
            assert_eq!(Certificate::parse(&text).as_ref(), Ok(&made));
            let other = if made.heads.is_some() { "v1" } else { "v2" };
            for bad in [
                format!("{text}and one more line\n"),
                format!("{text}7\n{}\n", bound(7).root),
                text.replace("\n7\n", "\n+7\n"),
                text.replace("\n7\n", "\n07\n"),
                text.replace("\n7\n", "\n0\n"),
                text.replace(if other == "v1" { "v2" } else { "v1" }, other),
                text.replace('\n', "\r\n"),
                text[..text.len() - 1].into(),
            ] {
                assert!(Certificate::parse(&bad).is_err(), "{bad}");
            }
        }
    }

    #[test]
    fn a_certificate_for_a_key_of_another_name_is_refused() {
        let stranger = SigningKey::from_seed("example.com/other", &[2; 32]).unwrap();
        let made = made(&stranger);
        let old = key(1);
        let note = made.sign(&old).unwrap();
        let refused = Certificate::open(note.as_bytes(), old.verifier_key()).unwrap_err();
        assert_eq!(refused.reason, "is for a key of another name");
    }
}
