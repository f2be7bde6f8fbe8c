//! Keys, envelopes to a key, and bodies under a key; every primitive comes from a library.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::rand;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS, Serializable as _};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::Error;

/// Bytes of a key of any kind.
pub(crate) const KEY_BYTES: usize = 32;

const ENVELOPE_CONTEXT: &[u8] = b"probity disguise envelope 1";

/// The private X25519 key of a principal: whoever holds it can bring back everything hidden from it.
///
/// It must never be stored or logged; the engine forgets it when the call that was given it returns.
pub struct SecretKey([u8; KEY_BYTES]);

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl SecretKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system gives no randomness.
    pub fn generate() -> Result<Self, Error> {
        Ok(Self(random()?))
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to hand to its owner and nobody else.
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub(crate) fn public(&self) -> Result<[u8; KEY_BYTES], Error> {
        let failed = || Error::Crypto {
            doing: "deriving a public key",
        };
        let key = PrivateKey::from_private_key(&X25519, &self.0).map_err(|_library| failed())?;
        let public = key.compute_public_key().map_err(|_library| failed())?;
        <[u8; KEY_BYTES]>::try_from(public.as_ref()).map_err(|_length| failed())
    }

    /// Opens what [`seal_to`] sealed, or gives nothing when it was for someone else.
    pub(crate) fn open(&self, sealed: &[u8], bound: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (encapsulated, content) = sealed.split_at_checked(KEY_BYTES)?;
        let secret = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(&self.0).ok()?;
        let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).ok()?;
        hpke::single_shot_open::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &secret,
            &encapsulated,
            ENVELOPE_CONTEXT,
            content,
            bound,
        )
        .ok()
        .map(Zeroizing::new)
    }
}

/// Seals `content` to the holder of `public`, bound to `bound`; nothing in it tells whose key it was.
pub(crate) fn seal_to(
    public: &[u8; KEY_BYTES],
    content: &[u8],
    bound: &[u8],
) -> Result<Vec<u8>, Error> {
    let failed = || Error::Crypto {
        doing: "sealing an envelope",
    };
    let public =
        <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(public).map_err(|_library| failed())?;
    let (encapsulated, mut sealed) = hpke::single_shot_seal::<
        AesGcm256,
        HkdfSha256,
        X25519HkdfSha256,
    >(
        &OpModeS::Base, &public, ENVELOPE_CONTEXT, content, bound
    )
    .map_err(|_library| failed())?;
    let mut out = encapsulated.to_bytes().to_vec();
    out.append(&mut sealed);
    Ok(out)
}

/// Encrypts one part of a body. `key` must never meet the same `part` twice.
pub(crate) fn seal_part(key: &[u8; KEY_BYTES], part: u32, body: &mut Vec<u8>) -> Result<(), Error> {
    let failed = || Error::Crypto {
        doing: "sealing a record",
    };
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_library| failed())?;
    LessSafeKey::new(key)
        .seal_in_place_append_tag(part_nonce(part), Aad::empty(), body)
        .map_err(|_library| failed())
}

/// The inverse of [`seal_part`].
pub(crate) fn open_part(key: &[u8; KEY_BYTES], part: u32, body: &mut Vec<u8>) -> Result<(), Error> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_library| Error::Forged)?;
    let length = LessSafeKey::new(key)
        .open_in_place(part_nonce(part), Aad::empty(), body)
        .map_err(|_library| Error::Forged)?
        .len();
    body.truncate(length);
    Ok(())
}

fn part_nonce(part: u32) -> Nonce {
    let mut nonce = [0; 12];
    for (to, from) in nonce.iter_mut().zip(part.to_le_bytes()) {
        *to = from;
    }
    Nonce::assume_unique_for_key(nonce)
}

/// `N` random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_library| Error::Crypto {
        doing: "drawing randomness",
    })?;
    Ok(bytes)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// `N` bytes derived from `secret` for the use that `label` and `context` name (HKDF-Expand, RFC 5869).
pub(crate) fn derive<const N: usize>(
    secret: &[u8; KEY_BYTES],
    label: &[u8],
    context: &[u8],
) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(&[b"probity disguise ", label, b"\0", context], Length(N))
        .and_then(|okm| okm.fill(&mut bytes))
        .map_err(|_library| Error::Crypto {
            doing: "deriving a key",
        })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_key_opens_an_envelope_and_only_with_its_binding() {
        let (owner, other) = (
            SecretKey::generate().unwrap(),
            SecretKey::generate().unwrap(),
        );
        let sealed = seal_to(&owner.public().unwrap(), b"content", b"bound").unwrap();
        assert_eq!(sealed.len(), b"content".len() + KEY_BYTES + 16);
        assert_eq!(
            owner.open(&sealed, b"bound").unwrap().as_slice(),
            b"content"
        );
        assert!(other.open(&sealed, b"bound").is_none());
        assert!(owner.open(&sealed, b"other").is_none());
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            // The top bit of the last byte of an X25519 key is ignored by definition (RFC 7748, 5).
            assert!(owner.open(&flipped, b"bound").is_none());
            assert!(owner.open(&sealed[..at], b"bound").is_none());
        }
    }

    #[test]
    fn an_all_zero_public_key_is_refused() {
        assert!(seal_to(&[0; KEY_BYTES], b"content", b"").is_err());
    }

    #[test]
    fn parts_cannot_be_swapped_or_changed() {
        let key = random().unwrap();
        let mut body = b"rows".to_vec();
        seal_part(&key, 1, &mut body).unwrap();
        assert!(open_part(&key, 2, &mut body.clone()).is_err());
        assert!(open_part(&random().unwrap(), 1, &mut body.clone()).is_err());
        open_part(&key, 1, &mut body).unwrap();
        assert_eq!(body, b"rows");
    }
}
