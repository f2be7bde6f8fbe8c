//! Creation of keys, and sealing to them. Every primitive comes from a library.

pub(crate) mod record_key;
pub(crate) mod suite;

use std::sync::Arc;

// For its feature `zeroize` alone: through it the expanded keys of X-Wing's suite are overwritten.
use aes_gcm as _;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS, Serializable as _};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_256;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke as _, HpkePrivateKey, HpkePublicKey};
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::suite::{PublicKey, Suite, XWING_PUBLIC_BYTES};
use crate::error::Error;

/// Bytes of a key of any kind.
pub(crate) const KEY_BYTES: usize = 32;

const ENVELOPE_CONTEXT: &[u8] = b"probity disguise envelope 1";

/// Bytes of what X-Wing encapsulates.
const XWING_ENCAPSULATED_BYTES: usize = 1_120;

/// The private key of a principal: whoever holds it can bring back everything hidden from it.
///
/// Must never be stored or logged; the engine forgets it when the call that was given it returns.
pub struct SecretKey {
    suite: Suite,
    bytes: [u8; KEY_BYTES],
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl SecretKey {
    /// A new random key of X25519.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system gives no randomness.
    pub fn generate() -> Result<Self, Error> {
        Self::generate_of(Suite::X25519)
    }

    /// A new random key of `suite`.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system gives no randomness.
    pub fn generate_of(suite: Suite) -> Result<Self, Error> {
        Ok(Self::of(suite, random()?))
    }

    /// The key of X25519 with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self::of(Suite::X25519, bytes)
    }

    /// The key of `suite` with these bytes.
    pub const fn of(suite: Suite, bytes: [u8; KEY_BYTES]) -> Self {
        Self { suite, bytes }
    }

    /// Its suite, which its owner must keep with its bytes.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Its bytes, to hand to its owner and nobody else.
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// Returns a copy; the type has no `Clone`, so that copies are explicit.
    pub(crate) const fn again(&self) -> Self {
        Self::of(self.suite, self.bytes)
    }

    pub(crate) fn public(&self) -> Result<PublicKey, Error> {
        let failed = || Error::Crypto {
            doing: "deriving a public key",
        };
        match self.suite {
            Suite::X25519 => {
                let key = PrivateKey::from_private_key(&X25519, &self.bytes);
                let key = key.map_err(|_library| failed())?;
                let public = key.compute_public_key().map_err(|_library| failed())?;
                let public = <[u8; KEY_BYTES]>::try_from(public.as_ref());
                public.map(PublicKey::X25519).map_err(|_length| failed())
            }
            Suite::XWing => {
                let secret = <XWing as Kem>::PrivateKey::from_bytes(&self.bytes);
                let secret = secret.map_err(|_library| failed())?;
                let public = XWing::sk_to_pk(&secret).to_bytes();
                let public = <[u8; XWING_PUBLIC_BYTES]>::try_from(public.as_slice());
                let public = public.map_err(|_length| failed())?;
                Ok(PublicKey::XWing(Arc::new(public)))
            }
        }
    }

    /// Opens what [`seal_to`] sealed, or gives nothing when it was for someone else or of another suite.
    pub(crate) fn open(&self, sealed: &[u8], bound: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        match self.suite {
            Suite::X25519 => opened(&self.bytes, sealed, bound),
            Suite::XWing => {
                let (encapsulated, content) = sealed.split_at_checked(XWING_ENCAPSULATED_BYTES)?;
                opened_by::<XWing>(&self.bytes, (encapsulated, content), bound)
            }
        }
    }
}

/// HPKE of X25519 is that of the provider of all other ciphers, which takes less than half the time of the library for
/// X-Wing; a test has each open what the other sealed.
fn opened(secret: &[u8], sealed: &[u8], bound: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (encapsulated, content) = sealed.split_at_checked(KEY_BYTES)?;
    let encapsulated = EncapsulatedSecret(encapsulated.to_vec());
    let secret = HpkePrivateKey::from(secret.to_vec());
    DH_KEM_X25519_HKDF_SHA256_AES_256
        .open(&encapsulated, ENVELOPE_CONTEXT, bound, content, &secret)
        .ok()
        .map(Zeroizing::new)
}

fn opened_by<K: Kem>(
    secret: &[u8],
    (encapsulated, content): (&[u8], &[u8]),
    bound: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let secret = K::PrivateKey::from_bytes(secret).ok()?;
    let encapsulated = K::EncappedKey::from_bytes(encapsulated).ok()?;
    hpke::single_shot_open::<AesGcm256, HkdfSha256, K>(
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

/// Seals `content` to the holder of `public`, bound to `bound`; nothing in it but its length, which is that of the suite,
/// tells whose key it was.
pub(crate) fn seal_to(public: &PublicKey, content: &[u8], bound: &[u8]) -> Result<Vec<u8>, Error> {
    match public.suite() {
        Suite::X25519 => sealed(public.as_bytes(), content, bound),
        Suite::XWing => sealed_by::<XWing>(public.as_bytes(), content, bound),
    }
}

const fn sealing_failed() -> Error {
    Error::Crypto {
        doing: "sealing an envelope",
    }
}

fn sealed(public: &[u8], content: &[u8], bound: &[u8]) -> Result<Vec<u8>, Error> {
    let public = HpkePublicKey(public.to_vec());
    let (EncapsulatedSecret(mut out), mut sealed) = DH_KEM_X25519_HKDF_SHA256_AES_256
        .seal(ENVELOPE_CONTEXT, bound, content, &public)
        .map_err(|_library| sealing_failed())?;
    out.append(&mut sealed);
    Ok(out)
}

fn sealed_by<K: Kem>(public: &[u8], content: &[u8], bound: &[u8]) -> Result<Vec<u8>, Error> {
    let public = K::PublicKey::from_bytes(public).map_err(|_library| sealing_failed())?;
    let (encapsulated, mut sealed) = hpke::single_shot_seal::<AesGcm256, HkdfSha256, K>(
        &OpModeS::Base,
        &public,
        ENVELOPE_CONTEXT,
        content,
        bound,
    )
    .map_err(|_library| sealing_failed())?;
    let mut out = encapsulated.to_bytes().to_vec();
    out.append(&mut sealed);
    Ok(out)
}

/// Encrypts one part of a body. `key` must never meet the same `part` twice.
pub(crate) fn seal_part(key: &[u8; KEY_BYTES], part: u32, body: &mut Vec<u8>) -> Result<(), Error> {
    sealed_part(key, part, Aad::empty(), body)
}

/// Encrypts what is alone under `key`, bound to `bound`. `key` must never seal anything else.
pub(crate) fn seal_alone(
    key: &[u8; KEY_BYTES],
    bound: &[u8],
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    sealed_part(key, 0, Aad::from(bound), body)
}

fn sealed_part<A: AsRef<[u8]>>(
    key: &[u8; KEY_BYTES],
    part: u32,
    bound: Aad<A>,
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    let failed = || Error::Crypto {
        doing: "sealing a record",
    };
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_library| failed())?;
    LessSafeKey::new(key)
        .seal_in_place_append_tag(part_nonce(part), bound, body)
        .map_err(|_library| failed())
}

/// The inverse of [`seal_part`].
pub(crate) fn open_part(key: &[u8; KEY_BYTES], part: u32, body: &mut Vec<u8>) -> Result<(), Error> {
    opened_part(key, part, Aad::empty(), body)
}

/// The inverse of [`seal_alone`].
pub(crate) fn open_alone(
    key: &[u8; KEY_BYTES],
    bound: &[u8],
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    opened_part(key, 0, Aad::from(bound), body)
}

fn opened_part<A: AsRef<[u8]>>(
    key: &[u8; KEY_BYTES],
    part: u32,
    bound: Aad<A>,
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_library| Error::Forged)?;
    let length = LessSafeKey::new(key)
        .open_in_place(part_nonce(part), bound, body)
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
    expanded(&Prk::new_less_safe(HKDF_SHA256, secret), label, context)
}

/// A key derived from `secret` that is another with each `salt` (HKDF, RFC 5869).
pub(crate) fn derive_salted(
    salt: &[u8],
    secret: &[u8; KEY_BYTES],
    label: &[u8],
) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    expanded(&extracted, label, b"").map(Zeroizing::new)
}

fn expanded<const N: usize>(from: &Prk, label: &[u8], context: &[u8]) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    from.expand(&[b"probity disguise ", label, b"\0", context], Length(N))
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

    /// The vectors that the draft of X-Wing publishes.
    const VECTORS: &str = include_str!("../../tests/testdata/x-wing.txt");
    /// X-Wing, HKDF-SHA256 and AES-256-GCM by their numbers.
    const SUITE_ID: &[u8] = b"HPKE\x64\x7a\x00\x01\x00\x02";

    fn bytes(digits: &str) -> Vec<u8> {
        let halves = digits.chars().map(|digit| digit.to_digit(16).unwrap());
        let halves: Vec<u32> = halves.collect();
        let bytes = halves.chunks(2).map(|it| u8::try_from(it[0] << 4 | it[1]));
        bytes.collect::<Result<_, _>>().unwrap()
    }

    /// `LabeledExtract` of RFC 9180.
    fn extracted(salt: &[u8], label: &[u8], secret: &[u8]) -> Prk {
        let input = [b"HPKE-v1", SUITE_ID, label, secret].concat();
        Salt::new(HKDF_SHA256, salt).extract(&input)
    }

    /// `LabeledExpand` of RFC 9180.
    fn labelled<const N: usize>(from: &Prk, label: &[u8], context: &[u8]) -> [u8; N] {
        let length = u16::try_from(N).unwrap().to_be_bytes();
        let info = [&length, b"HPKE-v1".as_slice(), SUITE_ID, label, context];
        let mut out = [0; N];
        let okm = from.expand(&info, Length(N)).unwrap();
        okm.fill(&mut out).unwrap();
        out
    }

    /// Opens a ciphertext of the draft by the key schedule of RFC 9180, written anew without the
    /// library.
    fn sealed_by_hand(secret: &[u8], ciphertext: &[u8], content: &[u8], bound: &[u8]) -> Vec<u8> {
        // HKDF-Extract gives its key away only by expanding it, so the two hashes are made with HMAC.
        let hashed = |label: &[u8], what: &[u8]| {
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &[0; 32]);
            let input = [b"HPKE-v1", SUITE_ID, label, what].concat();
            aws_lc_rs::hmac::sign(&key, &input)
        };
        let (psk, info) = (
            hashed(b"psk_id_hash", b""),
            hashed(b"info_hash", ENVELOPE_CONTEXT),
        );
        let context = [&[0], psk.as_ref(), info.as_ref()].concat();
        let secret = extracted(secret, b"secret", b"");
        let key: [u8; 32] = labelled(&secret, b"key", &context);
        let nonce: [u8; 12] = labelled(&secret, b"base_nonce", &context);
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        let mut body = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(bound), &mut body)
            .unwrap();
        [ciphertext, &body].concat()
    }

    #[test]
    fn the_vectors_of_x_wing_give_their_keys_and_open() {
        use sha2::{Digest as _, Sha256};

        let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
        let mut tried = 0;
        for line in lines {
            let [seed, public, shared, ciphertext] = line
                .split(' ')
                .map(bytes)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            let key = SecretKey::of(Suite::XWing, seed.try_into().unwrap());
            let own = key.public().unwrap();
            assert_eq!(Sha256::digest(own.as_bytes()).as_slice(), public);
            let sealed = sealed_by_hand(&shared, &ciphertext, b"content", b"bound");
            let opened = key.open(&sealed, b"bound").unwrap();
            assert_eq!(opened.as_slice(), b"content");
            assert!(key.open(&sealed, b"other").is_none());
            tried += 1;
        }
        assert_eq!(tried, 3);
    }

    #[test]
    fn an_envelope_of_one_suite_is_opened_by_no_key_of_the_other() {
        let seed = random().unwrap();
        for (suite, other) in [(Suite::XWing, Suite::X25519), (Suite::X25519, Suite::XWing)] {
            let key = SecretKey::of(suite, seed);
            let public = key.public().unwrap();
            assert_eq!(PublicKey::decode(&public.encode()).unwrap(), public);
            let sealed = seal_to(&public, b"content", b"bound").unwrap();
            assert_eq!(key.open(&sealed, b"bound").unwrap().as_slice(), b"content");
            assert!(SecretKey::of(other, seed).open(&sealed, b"bound").is_none());
            for at in [0, 500, sealed.len() - 1] {
                let mut flipped = sealed.clone();
                let at = at.min(sealed.len() - 1);
                flipped[at] ^= 1;
                assert!(key.open(&flipped, b"bound").is_none());
            }
            let mut stored = public.encode();
            stored.push(0);
            assert!(PublicKey::decode(&stored).is_err());
            stored[0] = 7;
            let refused = PublicKey::decode(&stored);
            let unknown = matches!(&refused, Err(Error::Suite { name }) if name == "7");
            assert!(unknown);
        }
        let refused: Result<Suite, Error> = "kyber".parse();
        assert!(refused.unwrap_err().to_string().contains("kyber"));
    }

    #[test]
    fn each_library_opens_what_the_other_sealed() {
        use hpke::kem::X25519HkdfSha256;

        let key = SecretKey::generate().unwrap();
        let public = key.public().unwrap();
        let theirs =
            sealed_by::<X25519HkdfSha256>(public.as_bytes(), b"content", b"bound").unwrap();
        assert_eq!(key.open(&theirs, b"bound").unwrap().as_slice(), b"content");
        let ours = seal_to(&public, b"content", b"bound").unwrap();
        let parts = ours.split_at(KEY_BYTES);
        let opened = opened_by::<X25519HkdfSha256>(key.expose(), parts, b"bound").unwrap();
        assert_eq!(opened.as_slice(), b"content");
        assert!(opened_by::<X25519HkdfSha256>(key.expose(), parts, b"other").is_none());
    }

    #[test]
    fn an_all_zero_public_key_is_refused() {
        assert!(seal_to(&PublicKey::X25519([0; KEY_BYTES]), b"content", b"").is_err());
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
