//! Wrapped secrets: stored keys, encrypted under a key derived from the root key.
//!
//! `docs/format.md`, "Keys". Nothing here is random: nonces are arguments.

use alloc::vec::Vec;

use aws_lc_rs::aead::{Aad, Nonce};
use zeroize::Zeroizing;

use crate::error::DecodeError;
use crate::keys::{SECRET_BYTES, Secret, aead_key};
use crate::wire::Reader;

/// Bytes of a wrapped secret.
pub const WRAPPED_BYTES: usize = WRAPPED_OVERHEAD_BYTES + SECRET_BYTES;
/// Bytes that wrapping adds.
pub const WRAPPED_OVERHEAD_BYTES: usize = 4 + 2 + 2 + NONCE_BYTES + TAG_BYTES;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const WRAPPED_MAGIC: &[u8; 4] = b"PBWK";
const WRAPPED_VERSION: u16 = 1;

/// The kind of a wrapped secret, which its tag authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrappedKind {
    /// The master key.
    Master,
    /// The seed of a signing key.
    Signing,
    /// The key of one subject in a log of version 2.
    Subject,
    /// The key and name of one subject.
    Slot,
    /// The seed of the witness key, which signs the journal's checkpoints.
    Witness,
}

impl WrappedKind {
    const fn code(self) -> u16 {
        match self {
            Self::Master => 1,
            Self::Signing => 2,
            Self::Subject => 3,
            Self::Slot => 4,
            Self::Witness => 5,
        }
    }
}

/// Wraps and unwraps the secrets of one log.
pub struct WrappingKey(Secret);

impl WrappingKey {
    /// Creates a wrapping key from `secret`.
    pub(crate) const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Encrypts `secret` for `kind` and `label`; `nonce` must be fresh and random.
    ///
    /// # Errors
    /// When the cryptographic provider fails, which it does for no input of this type.
    pub fn wrap(
        &self,
        kind: WrappedKind,
        label: &[u8],
        secret: &Secret,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Vec<u8>, DecodeError> {
        self.wrap_body(kind, label, secret.expose(), nonce)
    }

    /// Wraps a secret of any length; see [`WrappingKey::wrap`].
    pub(crate) fn wrap_body(
        &self,
        kind: WrappedKind,
        label: &[u8],
        body: &[u8],
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::with_capacity(WRAPPED_OVERHEAD_BYTES.saturating_add(body.len()));
        out.extend_from_slice(WRAPPED_MAGIC);
        out.extend_from_slice(&WRAPPED_VERSION.to_le_bytes());
        out.extend_from_slice(&kind.code().to_le_bytes());
        out.extend_from_slice(&nonce);
        let mut body = Zeroizing::new(Vec::from(body));
        let tag = aead_key(self.0.expose())?
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated(kind, label)),
                body.as_mut_slice(),
            )
            .map_err(|_refused| DecodeError::new("wrapped key", 0, "cannot be sealed"))?;
        out.extend_from_slice(&body);
        out.extend_from_slice(tag.as_ref());
        Ok(out)
    }

    /// Decrypts `wrapped`, which must have been wrapped for `kind` and `label` under this key.
    ///
    /// # Errors
    /// When it was wrapped for another kind, label or key, or was changed.
    pub fn unwrap(
        &self,
        kind: WrappedKind,
        label: &[u8],
        wrapped: &[u8],
    ) -> Result<Secret, DecodeError> {
        let body = self.unwrap_body(kind, label, wrapped)?;
        let error = DecodeError::new("wrapped key", 0, "has another length than a key");
        Secret::from_slice(&body).ok_or(error)
    }

    /// Unwraps a secret of any length; see [`WrappingKey::unwrap`].
    pub(crate) fn unwrap_body(
        &self,
        kind: WrappedKind,
        label: &[u8],
        wrapped: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, DecodeError> {
        let mut reader = Reader::new(wrapped, "wrapped key");
        if &reader.array::<4>()? != WRAPPED_MAGIC || reader.u16()? != WRAPPED_VERSION {
            return Err(reader.error("is not a wrapped key of a known version"));
        }
        if reader.u16()? != kind.code() {
            return Err(reader.error("wraps another kind of key"));
        }
        let nonce = reader.array::<NONCE_BYTES>()?;
        let sealed = wrapped.get(WRAPPED_OVERHEAD_BYTES - TAG_BYTES..);
        let mut body = Zeroizing::new(Vec::from(sealed.unwrap_or_default()));
        let length = aead_key(self.0.expose())?
            .open_in_place(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated(kind, label)),
                body.as_mut_slice(),
            )
            .map_err(|_refused| reader.error("does not open under this key"))?
            .len();
        body.truncate(length);
        Ok(body)
    }
}

fn associated(kind: WrappedKind, label: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(*b"probity/wrapped/v1");
    out.extend_from_slice(&kind.code().to_le_bytes());
    out.extend_from_slice(label);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;

    #[test]
    fn a_wrapped_key_opens_only_as_what_it_is() {
        let wrapping = RootKey::new(Secret::new([1; 32])).wrapping_key(&[2; 32]);
        let wrapped = wrapping
            .wrap(WrappedKind::Subject, b"a", &Secret::new([9; 32]), [3; 12])
            .unwrap();
        assert_eq!(wrapped.len(), WRAPPED_BYTES);
        let opened = wrapping
            .unwrap(WrappedKind::Subject, b"a", &wrapped)
            .unwrap();
        assert_eq!(opened.expose(), &[9; 32]);
        assert!(
            wrapping
                .unwrap(WrappedKind::Subject, b"b", &wrapped)
                .is_err(),
            "swapped subject"
        );
        assert!(
            wrapping
                .unwrap(WrappedKind::Master, b"a", &wrapped)
                .is_err(),
            "swapped kind"
        );
        let other = RootKey::new(Secret::new([1; 32])).wrapping_key(&[4; 32]);
        assert!(
            other.unwrap(WrappedKind::Subject, b"a", &wrapped).is_err(),
            "another log"
        );
        for place in 0..wrapped.len() {
            let mut bad = wrapped.clone();
            bad[place] ^= 1;
            assert!(
                wrapping.unwrap(WrappedKind::Subject, b"a", &bad).is_err(),
                "byte {place}"
            );
        }
    }
}
