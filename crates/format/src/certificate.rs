//! Key certificates: the signing key of a log vouches for its successor, and for the journal as it was.
//!
//! `docs/format.md`, "Journal". Whoever knows one key of a log follows its certificates to every
//! later one; none leads back.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::note::{NoteError, PUBLIC_KEY_BYTES, SignedNote, Signer, VerifierKey};
use crate::tile::canonical_number;
use crate::tree::Hash;

/// First line of a certificate.
const HEADER: &str = "probity key certificate v1";
/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// What a certificate says; who says it is known only from its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    successor: VerifierKey,
    size: u64,
    root: Hash,
}

impl Certificate {
    /// The certificate for `successor`, binding the journal of `size` frames with `root`.
    pub const fn new(successor: VerifierKey, size: u64, root: Hash) -> Self {
        Self {
            successor,
            size,
            root,
        }
    }

    /// The certificate in a text that was, or is to be, signed.
    ///
    /// # Errors
    /// Where `text` is not what [`Certificate::encode`] writes.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("key certificate", 0, reason);
        let lines: Vec<&str> = text.lines().collect();
        let [header, successor, size, root] = lines.as_slice() else {
            return Err(error("has not four lines"));
        };
        if *header != HEADER {
            return Err(error("is of another version"));
        }
        let certificate = Self {
            successor: VerifierKey::parse(successor).map_err(|bad| error(bad.reason))?,
            size: canonical_number(size).ok_or_else(|| error("has no size"))?,
            root: Hash::from_base64(root, "key certificate")?,
        };
        if certificate.encode() == text {
            Ok(certificate)
        } else {
            Err(error("is not in its one form"))
        }
    }

    /// The text to be signed.
    pub fn encode(&self) -> String {
        format!(
            "{HEADER}\n{}\n{}\n{}\n",
            self.successor.encode(),
            self.size,
            self.root
        )
    }

    /// The signed note of this certificate.
    ///
    /// # Errors
    /// When the signer fails.
    pub fn sign(&self, signer: &dyn Signer) -> Result<String, NoteError> {
        let mut note = SignedNote::new(self.encode())?;
        note.sign(signer)?;
        Ok(note.encode())
    }

    /// The certificate in a signed note, which `signer` must have signed.
    ///
    /// # Errors
    /// When it is malformed, not signed by `signer`, or for a key of another name.
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

    /// The key certified.
    pub const fn successor(&self) -> &VerifierKey {
        &self.successor
    }

    /// Number of journal frames that the old key vouched for.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Root of the journal at that size.
    pub const fn root(&self) -> &Hash {
        &self.root
    }
}

/// A certificate and its signature without what follows from the key before: a step from key to key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The public key certified.
    pub successor: [u8; PUBLIC_KEY_BYTES],
    /// Number of journal frames that the old key vouched for.
    pub size: u64,
    /// Root of the journal at that size.
    pub root: Hash,
    /// The old key's signature over the certificate's text.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Link {
    /// The link with these parts.
    pub const fn new(
        successor: [u8; PUBLIC_KEY_BYTES],
        size: u64,
        root: Hash,
        signature: [u8; SIGNATURE_BYTES],
    ) -> Self {
        Self {
            successor,
            size,
            root,
            signature,
        }
    }

    /// The link that the certificate in `note`, signed by `signer`, makes.
    ///
    /// # Errors
    /// As [`Certificate::open`].
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
            size: certificate.size,
            root: certificate.root,
            signature: bytes.try_into().map_err(|_wrong_length| error)?,
        })
    }

    /// The key that this link leads to from `signer`.
    ///
    /// # Errors
    /// When `signer` has not signed it.
    pub fn follow(&self, signer: &VerifierKey) -> Result<VerifierKey, DecodeError> {
        let successor = VerifierKey::new(signer.name(), self.successor)?;
        let certificate = Certificate::new(successor, self.size, self.root);
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
    use crate::tree::EMPTY_ROOT;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed("example.com/log", &[seed; 32]).unwrap()
    }

    #[test]
    fn a_certificate_opens_under_the_key_before_and_no_other() {
        let (old, new) = (key(1), key(2));
        let made = Certificate::new(new.verifier_key().clone(), 7, EMPTY_ROOT);
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
        let mut later = link;
        later.size = 8;
        assert!(later.follow(old.verifier_key()).is_err());
    }

    #[test]
    fn a_certificate_has_one_form() {
        // Lines behind the fourth and signs before the size used to be passed over.
        let made = Certificate::new(key(2).verifier_key().clone(), 7, EMPTY_ROOT);
        let text = made.encode();
        assert_eq!(Certificate::parse(&text), Ok(made));
        for bad in [
            format!("{text}and a fifth line\n"),
            text.replace("\n7\n", "\n+7\n"),
            text.replace("\n7\n", "\n07\n"),
            text.replace("v1", "v2"),
            text.replace('\n', "\r\n"),
            text[..text.len() - 1].into(),
        ] {
            assert!(Certificate::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_certificate_for_a_key_of_another_name_is_refused() {
        let stranger = SigningKey::from_seed("example.com/other", &[2; 32]).unwrap();
        let made = Certificate::new(stranger.verifier_key().clone(), 7, EMPTY_ROOT);
        let old = key(1);
        let note = made.sign(&old).unwrap();
        let refused = Certificate::open(note.as_bytes(), old.verifier_key()).unwrap_err();
        assert_eq!(refused.reason, "is for a key of another name");
    }
}
