//! Secrets and what is derived from them: root key, master key, epoch keys, subject keys, section keys.
//!
//! `docs/format.md`, "Keys". No type here can be printed, copied or compared by accident, and all
//! are overwritten when dropped. Nothing here is random: salts and nonces are arguments.

use alloc::string::String;
use alloc::vec::Vec;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

use crate::error::DecodeError;
use crate::stream::StreamId;
use crate::wire::Reader;

/// Bytes of every secret of this format.
pub const SECRET_BYTES: usize = 32;
/// Bytes of a wrapped secret.
pub const WRAPPED_BYTES: usize = 4 + 2 + 2 + NONCE_BYTES + SECRET_BYTES + TAG_BYTES;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const WRAPPED_MAGIC: &[u8; 4] = b"PBWK";
const WRAPPED_VERSION: u16 = 1;
const ROOT_KEY_PREFIX: &str = "probity-root-key-v1 ";

/// Thirty-two secret bytes. They must never be printed, logged or stored unwrapped.
#[derive(ZeroizeOnDrop)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// The secret `bytes`.
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for handing to a primitive.
    pub const fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    fn derive(&self, salt: &[u8], info: &[&[u8]]) -> Self {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&self.0);
        let mut out = Self([0; SECRET_BYTES]);
        expand(&prk, info, &mut out.0);
        out
    }
}

/// The secret that an operator keeps apart from the log; everything else is wrapped under it.
pub struct RootKey(Secret);

impl RootKey {
    /// The root key `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Reads the text form of a key file.
    ///
    /// # Errors
    /// When the text is anything else; the error holds nothing of it.
    pub fn from_text(text: &str) -> Result<Self, DecodeError> {
        let error = DecodeError::new("root key", 0, "is not in the form of a root key file");
        let encoded = text.strip_prefix(ROOT_KEY_PREFIX).ok_or(error)?;
        let encoded = encoded.strip_suffix('\n').unwrap_or(encoded);
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_not_base64| error)?);
        let bytes = <[u8; SECRET_BYTES]>::try_from(bytes.as_slice());
        Ok(Self(Secret(bytes.map_err(|_wrong_length| error)?)))
    }

    /// The text form of a key file: one line.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = String::from(ROOT_KEY_PREFIX);
        STANDARD.encode_string(self.0.0, &mut text);
        text.push('\n');
        Zeroizing::new(text)
    }

    /// The key that wraps this log's secrets.
    pub fn wrapping_key(&self, fingerprint: &[u8; 32]) -> WrappingKey {
        WrappingKey(self.0.derive(fingerprint, &[b"probity/wrap/v1"]))
    }
}

/// What a wrapped secret is for; part of what its tag authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrappedKind {
    /// The master key.
    Master,
    /// The seed of a signing key.
    Signing,
    /// The key of one subject.
    Subject,
}

impl WrappedKind {
    const fn code(self) -> u16 {
        match self {
            Self::Master => 1,
            Self::Signing => 2,
            Self::Subject => 3,
        }
    }
}

/// Wraps and unwraps the secrets of one log.
pub struct WrappingKey(Secret);

impl WrappingKey {
    /// `secret` encrypted for `kind` and `label`; `nonce` must be fresh and random.
    ///
    /// # Errors
    /// When the provider refuses, which it does for no input of this type.
    pub fn wrap(
        &self,
        kind: WrappedKind,
        label: &[u8],
        secret: &Secret,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::with_capacity(WRAPPED_BYTES);
        out.extend_from_slice(WRAPPED_MAGIC);
        out.extend_from_slice(&WRAPPED_VERSION.to_le_bytes());
        out.extend_from_slice(&kind.code().to_le_bytes());
        out.extend_from_slice(&nonce);
        let mut body = Zeroizing::new(secret.0);
        let tag = aead_key(&self.0.0)?
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated(kind, label)),
                &mut *body,
            )
            .map_err(|_refused| DecodeError::new("wrapped key", 0, "cannot be sealed"))?;
        out.extend_from_slice(&*body);
        out.extend_from_slice(tag.as_ref());
        Ok(out)
    }

    /// The secret in `wrapped`, which must have been wrapped for `kind` and `label` under this key.
    ///
    /// # Errors
    /// When it was not, or was changed.
    pub fn unwrap(
        &self,
        kind: WrappedKind,
        label: &[u8],
        wrapped: &[u8],
    ) -> Result<Secret, DecodeError> {
        let mut reader = Reader::new(wrapped, "wrapped key");
        if &reader.array::<4>()? != WRAPPED_MAGIC || reader.u16()? != WRAPPED_VERSION {
            return Err(reader.error("is not a wrapped key of a known version"));
        }
        if reader.u16()? != kind.code() {
            return Err(reader.error("wraps another kind of key"));
        }
        let nonce = reader.array::<NONCE_BYTES>()?;
        let mut body = Zeroizing::new(reader.array::<{ SECRET_BYTES + TAG_BYTES }>()?);
        reader.finish()?;
        let opened = aead_key(&self.0.0)?
            .open_in_place(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated(kind, label)),
                &mut *body,
            )
            .map_err(|_refused| reader.error("does not open under this key"))?;
        let mut secret = Secret([0; SECRET_BYTES]);
        secret
            .0
            .copy_from_slice(opened.get(..SECRET_BYTES).unwrap_or(&[0; SECRET_BYTES]));
        Ok(secret)
    }
}

/// The secret that content keys are derived from.
pub struct MasterKey(Secret);

impl MasterKey {
    /// The master key `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// The secret, for wrapping.
    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    /// The key of epoch `epoch` of `stream`; `salt` is fresh and random for every epoch.
    pub fn epoch_key(&self, stream: &StreamId, epoch: u32, salt: &[u8; 32]) -> EpochKey {
        let info: [&[u8]; 3] = [b"probity/epoch/v1", stream.as_bytes(), &epoch.to_le_bytes()];
        let secret = self.0.derive(salt, &info);
        let commitment = secret.derive(salt, &[b"probity/epoch-commitment/v1"]).0;
        EpochKey {
            prk: prk(&secret.0),
            salt: *salt,
            commitment,
            epoch,
        }
    }

    /// The pseudonym under which a subject appears outside sealed content.
    pub fn pseudonym(&self, subjects: &str) -> [u8; 16] {
        let token = self
            .0
            .derive(b"", &[b"probity/pseudonym/v1", subjects.as_bytes()]);
        let (head, _) = token.0.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        *head
    }
}

/// The key of one epoch of one stream, and the commitment that pins it.
pub struct EpochKey {
    prk: hkdf::Prk,
    salt: [u8; 32],
    commitment: [u8; 32],
    epoch: u32,
}

impl EpochKey {
    /// Number of the epoch in its stream.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The salt it was derived with; stands in each frame's header.
    pub const fn salt(&self) -> &[u8; 32] {
        &self.salt
    }

    /// What pins the key: without it AES-GCM would let an operator show two texts for one ciphertext.
    pub const fn commitment(&self) -> &[u8; 32] {
        &self.commitment
    }

    /// The key of section `section` of frame `frame`.
    pub fn section_key(&self, frame: u64, section: u32) -> SectionKey {
        SectionKey::expand(&self.prk, &frame.to_le_bytes(), section)
    }
}

/// The key of one subject; destroying it makes everything sealed under it unreadable.
pub struct SubjectKey(Secret);

impl SubjectKey {
    /// The subject key `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// The secret, for wrapping.
    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    /// The key of section `section` of frame `frame` of `stream`, sealed for `subjects` together.
    ///
    /// A section about several subjects needs all their keys: erasing one erases it.
    pub fn section_key(
        subjects: &[&Self],
        stream: &StreamId,
        epoch_salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> SectionKey {
        let mut joined = Zeroizing::new(Vec::with_capacity(subjects.len().saturating_mul(32)));
        for subject in subjects {
            joined.extend_from_slice(&subject.0.0);
        }
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, epoch_salt).extract(&joined);
        let mut context = Vec::from(*stream.as_bytes());
        context.extend_from_slice(&frame.to_le_bytes());
        SectionKey::expand(&prk, &context, section)
    }
}

/// The key of one sealed section: opens it and nothing else.
pub struct SectionKey {
    key: Secret,
    salt_key: Secret,
    commitment: [u8; 32],
}

impl SectionKey {
    fn expand(prk: &hkdf::Prk, context: &[u8], section: u32) -> Self {
        let section = section.to_le_bytes();
        let mut out = Self {
            key: Secret([0; 32]),
            salt_key: Secret([0; 32]),
            commitment: [0; 32],
        };
        expand(
            prk,
            &[b"probity/section/v1", context, &section],
            &mut out.key.0,
        );
        out.derive_rest();
        out
    }

    /// The section key `bytes`, as it stands in a section proof.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut out = Self {
            key: Secret(bytes),
            salt_key: Secret([0; 32]),
            commitment: [0; 32],
        };
        out.derive_rest();
        out
    }

    /// Commitment and salt key follow from the key, so that showing the key shows all there is.
    fn derive_rest(&mut self) {
        let prk = prk(&self.key.0);
        expand(
            &prk,
            &[b"probity/section-commitment/v1"],
            &mut self.commitment,
        );
        expand(&prk, &[b"probity/entry-salt/v1"], &mut self.salt_key.0);
    }

    /// The key itself, for a proof that shows this section.
    pub const fn expose(&self) -> &[u8; 32] {
        self.key.expose()
    }

    /// What pins the key; stands in the frame's directory.
    pub const fn commitment(&self) -> &[u8; 32] {
        &self.commitment
    }

    /// Whether this key is the one `commitment` pins, in constant time.
    pub fn matches(&self, commitment: &[u8; 32]) -> bool {
        self.commitment.ct_eq(commitment).into()
    }

    /// The secret that entry salts of this section come from.
    pub const fn salt_key(&self) -> &Secret {
        &self.salt_key
    }

    pub(crate) fn aead(&self) -> Result<LessSafeKey, DecodeError> {
        aead_key(&self.key.0)
    }
}

fn associated(kind: WrappedKind, label: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(*b"probity/wrapped/v1");
    out.extend_from_slice(&kind.code().to_le_bytes());
    out.extend_from_slice(label);
    out
}

fn aead_key(bytes: &[u8; 32]) -> Result<LessSafeKey, DecodeError> {
    UnboundKey::new(&AES_256_GCM, bytes)
        .map(LessSafeKey::new)
        .map_err(|_refused| DecodeError::new("key", 0, "is refused by the provider"))
}

fn prk(secret: &[u8; 32]) -> hkdf::Prk {
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
}

fn expand(prk: &hkdf::Prk, info: &[&[u8]], out: &mut [u8; 32]) {
    let filled = prk
        .expand(info, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(out));
    // HKDF-SHA256 refuses only outputs longer than 8,160 bytes.
    debug_assert!(filled.is_ok(), "32 bytes are within HKDF's bound");
    if filled.is_err() {
        out.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{StreamConfig, StreamName};

    fn stream() -> StreamId {
        StreamId::new(&[7; 32], &StreamName::default(), &StreamConfig::default())
    }

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

    #[test]
    fn root_keys_have_a_text_form_and_errors_do_not_show_it() {
        let text = RootKey::new(Secret::new([5; 32])).to_text();
        assert_eq!(RootKey::from_text(&text).unwrap().0.expose(), &[5; 32]);
        for bad in [
            "",
            "probity-root-key-v1 AAAA\n",
            "hunter2 secret",
            &text[..30],
        ] {
            let error = RootKey::from_text(bad).err().unwrap();
            assert!(!std::format!("{error}").contains("hunter2"));
        }
    }

    #[test]
    fn every_epoch_frame_and_section_has_its_own_key() {
        let master = MasterKey::new(Secret::new([1; 32]));
        let epoch = master.epoch_key(&stream(), 1, &[1; 32]);
        let same = master.epoch_key(&stream(), 1, &[1; 32]);
        let salted = master.epoch_key(&stream(), 1, &[2; 32]);
        assert_eq!(epoch.commitment(), same.commitment());
        assert_ne!(epoch.commitment(), salted.commitment());
        let keys = [
            epoch.section_key(0, 0),
            epoch.section_key(0, 1),
            epoch.section_key(1, 0),
            salted.section_key(0, 0),
        ];
        for (index, key) in keys.iter().enumerate() {
            for other in &keys[index + 1..] {
                assert_ne!(key.expose(), other.expose());
                assert!(!key.matches(other.commitment()));
            }
            assert!(SectionKey::from_bytes(*key.expose()).matches(key.commitment()));
        }
    }
}
