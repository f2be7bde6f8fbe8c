//! Keys and their derivation: root key, master key, epoch keys, subject keys, section keys.
//!
//! `docs/format.md`, "Keys". No type here implements `Debug`, `Clone` or `PartialEq`, and all are
//! overwritten when dropped. Nothing here is random: salts and nonces are arguments.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

use crate::error::DecodeError;
use crate::stream::StreamId;
use crate::version::Version;
use crate::wrap::WrappingKey;

/// Bytes of every secret of this format.
pub const SECRET_BYTES: usize = 32;

const ROOT_KEY_PREFIX: &str = "probity-root-key-v1 ";
/// Bytes of the text form: the prefix, 32 bytes in base64, a line feed.
const ROOT_KEY_TEXT_BYTES: usize = ROOT_KEY_PREFIX.len() + 44 + 1;
/// Bytes of the buffer for a secret that is being decoded; a longer text is no key.
const ROOM_BYTES: usize = 64;

/// Thirty-two secret bytes. They must never be printed, logged or stored unwrapped.
///
/// They stay at one address on the heap, so that a move leaves no copy behind.
pub struct Secret(Box<[u8; SECRET_BYTES]>);

const _: () = assert!(
    size_of::<SubjectKey>() == size_of::<usize>(),
    "a map or list of keys holds where they lie, not their bytes"
);

impl Secret {
    /// Creates a secret from `bytes` and overwrites the argument. For borrowed bytes,
    /// [`Secret::copy_of`] copies only once.
    pub fn new(mut bytes: [u8; SECRET_BYTES]) -> Self {
        let secret = Self::copy_of(&bytes);
        bytes.zeroize();
        secret
    }

    /// Copies a secret from `bytes`; the caller must overwrite them.
    pub fn copy_of(bytes: &[u8; SECRET_BYTES]) -> Self {
        let mut secret = Self::zeros();
        secret.0.copy_from_slice(bytes);
        secret
    }

    /// Creates a secret whose bytes `fill` writes in place.
    ///
    /// # Errors
    /// With the error of `fill`.
    pub fn filled<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut secret = Self::zeros();
        fill(secret.0.as_mut_slice())?;
        Ok(secret)
    }

    /// Returns the bytes, to be passed to a cryptographic primitive.
    pub const fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Copies a secret from `bytes`; `None` if the length is wrong.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.as_array().map(Self::copy_of)
    }

    pub(crate) fn zeros() -> Self {
        Self(Box::new([0; SECRET_BYTES]))
    }

    pub(crate) const fn bytes_mut(&mut self) -> &mut [u8; SECRET_BYTES] {
        &mut self.0
    }

    fn derive(&self, salt: &[u8], info: &[&[u8]]) -> Self {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(self.expose());
        let mut out = Self::zeros();
        expand(&prk, info, &mut out.0);
        out
    }

    fn expanded(&self, info: &[&[u8]]) -> Self {
        let mut out = Self::zeros();
        expand(&prk(self.expose()), info, &mut out.0);
        out
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

/// The root key, which an operator keeps apart from the log. All stored secrets are wrapped under a
/// key derived from it.
pub struct RootKey(Secret);

impl RootKey {
    /// Creates a root key from `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Reads the text form of a key file.
    ///
    /// # Errors
    /// When the text has any other form; the error holds no part of it.
    pub fn from_text(text: &str) -> Result<Self, DecodeError> {
        let error = DecodeError::new("root key", 0, "is not in the form of a root key file");
        let encoded = text.strip_prefix(ROOT_KEY_PREFIX).ok_or(error)?;
        let encoded = encoded.strip_suffix('\n').unwrap_or(encoded);
        let mut bytes = Zeroizing::new([0; ROOM_BYTES]);
        let length = STANDARD.decode_slice(encoded, bytes.as_mut_slice());
        let length = length.map_err(|_not_base64| error)?;
        let secret = bytes.get(..length).and_then(Secret::from_slice);
        secret.map(Self).ok_or(error)
    }

    /// Returns the text form of a key file: one line.
    pub fn to_text(&self) -> Zeroizing<String> {
        // The full capacity is reserved: a reallocation would leave a copy behind.
        let mut text = Zeroizing::new(String::with_capacity(ROOT_KEY_TEXT_BYTES));
        text.push_str(ROOT_KEY_PREFIX);
        STANDARD.encode_string(self.0.expose(), &mut text);
        text.push('\n');
        text
    }

    /// Derives the key that wraps the secrets of the log with this `fingerprint`.
    pub fn wrapping_key(&self, fingerprint: &[u8; 32]) -> WrappingKey {
        WrappingKey::new(self.0.derive(fingerprint, &[b"probity/wrap/v1"]))
    }
}

/// The master key, from which epoch keys are derived.
pub struct MasterKey(Secret);

impl MasterKey {
    /// Creates a master key from `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Returns the secret, to be wrapped.
    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    /// Derives the key of epoch `epoch` of `stream`, which opens its sections. `salt` is fresh and
    /// random for every epoch.
    ///
    /// Sealing frames or checking their authenticators also needs the epoch's certificate:
    /// [`EpochKey::certified_by`].
    pub fn epoch_key(&self, stream: &StreamId, epoch: u32, salt: &EpochSalt) -> EpochKey {
        let number = epoch.to_le_bytes();
        let domain: &[u8] = match salt {
            EpochSalt::V2(_) => b"probity/epoch/v1",
            EpochSalt::V3(_) => b"probity/epoch/v3",
        };
        let secret = self
            .0
            .derive(salt.bytes(), &[domain, stream.as_bytes(), &number]);
        let check = match salt {
            EpochSalt::V2(salt) => {
                let commitment = secret.derive(salt, &[b"probity/epoch-commitment/v1"]);
                Check::Commitment(*commitment.expose())
            }
            EpochSalt::V3(_) => Check::Uncertified,
        };
        EpochKey {
            secret,
            salt: *salt,
            check,
            epoch,
        }
    }

    /// Derives the note key, which authenticates the writer's own files beside the evidence.
    pub fn note_key(&self) -> NoteKey {
        let key = self.0.derive(b"", &[b"probity/note/v3"]);
        NoteKey(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key.expose())))
    }
}

/// Authenticates the files that a writer keeps for itself, so that nobody else can forge them.
pub struct NoteKey(Box<hmac::Key>);

impl NoteKey {
    /// Returns the HMAC-SHA-256 of `content`.
    pub fn tag(&self, content: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(hmac::sign(&self.0, content).as_ref());
        out
    }

    /// Checks in constant time that `tag` is the tag of `content`.
    pub fn matches(&self, content: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, content, tag).is_ok()
    }
}

impl core::fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NoteKey").finish_non_exhaustive()
    }
}

/// The salt of an epoch's key, equal in every frame of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochSalt {
    /// Version 2: all 32 bytes of a header's salt.
    V2([u8; 32]),
    /// Version 3: the first 16 bytes of a header's salt; the other 16 are the frame's.
    V3([u8; 16]),
}

impl EpochSalt {
    /// Extracts the epoch's salt from the salt of a frame's header.
    pub fn of_frame(version: Version, salt: &[u8; 32]) -> Self {
        match version {
            Version::V2 => Self::V2(*salt),
            Version::V3 => Self::V3(halves(salt).0),
        }
    }

    const fn bytes(&self) -> &[u8] {
        match self {
            Self::V2(salt) => salt,
            Self::V3(salt) => salt,
        }
    }
}

/// Splits a header's salt of version 3 into the epoch's 16 bytes and the frame's 16 bytes.
fn halves(salt: &[u8; 32]) -> ([u8; 16], [u8; 16]) {
    let (mut epoch, mut frame) = ([0; 16], [0; 16]);
    let (first, second) = salt.split_at(16);
    epoch.copy_from_slice(first);
    frame.copy_from_slice(second);
    (epoch, frame)
}

/// The key of one epoch of one stream.
pub struct EpochKey {
    secret: Secret,
    salt: EpochSalt,
    check: Check,
    epoch: u32,
}

/// The value that binds a frame's header to the epoch's key.
enum Check {
    /// Version 2: a commitment, derived from the key alone.
    Commitment([u8; 32]),
    /// Version 3, if the certificate of the epoch is not known.
    Uncertified,
    /// Version 3: the key of the authenticator of each frame.
    Authenticator(Box<hmac::Key>),
}

impl EpochKey {
    /// Binds the epoch to its certificate, in which the journal certified the public signing key
    /// `certified` (32 bytes). The key of the frames' authenticators is derived from it, so that no
    /// frame of an opening outside the journal is accepted.
    ///
    /// An epoch of version 2 stays as it is.
    #[must_use]
    pub fn certified_by(mut self, certified: &[u8; 32]) -> Self {
        if matches!(self.salt, EpochSalt::V3(_)) {
            let key = self
                .secret
                .expanded(&[b"probity/frame-authenticator/v3", certified]);
            let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose());
            self.check = Check::Authenticator(Box::new(key));
        }
        self
    }

    /// Returns whether the certificate of the epoch is known.
    pub const fn is_certified(&self) -> bool {
        matches!(self.check, Check::Authenticator(_))
    }

    /// Returns the number of the epoch: the index of the journal's frame that certified it. Version
    /// 2 counts epochs in each stream.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the salt of the key.
    pub const fn salt(&self) -> &EpochSalt {
        &self.salt
    }

    /// Returns the salt for the header of a frame with these `fresh` random bytes.
    ///
    /// Section keys depend on it, so that two machines with the same memory never use one key for
    /// two plaintexts.
    pub fn frame_salt(&self, fresh: &[u8; 16]) -> [u8; 32] {
        match &self.salt {
            EpochSalt::V2(salt) => *salt,
            EpochSalt::V3(salt) => {
                let mut out = [0; 32];
                let (first, second) = out.split_at_mut(16);
                first.copy_from_slice(salt);
                second.copy_from_slice(fresh);
                out
            }
        }
    }

    /// Computes the authenticator of a frame with these parts; `None` without its key. See
    /// [`Frame::authenticated`](crate::frame::Frame::authenticated).
    pub(crate) fn authenticator(&self, parts: &[&[u8]]) -> Option<[u8; 32]> {
        match &self.check {
            Check::Commitment(commitment) => Some(*commitment),
            Check::Uncertified => None,
            Check::Authenticator(key) => {
                let mut context = hmac::Context::with_key(key);
                for part in parts {
                    context.update(part);
                }
                let mut out = [0; 32];
                out.copy_from_slice(context.sign().as_ref());
                Some(out)
            }
        }
    }

    /// Derives the key of section `section` of frame `frame`, whose header has `salt`.
    pub fn section_key(&self, salt: &[u8; 32], frame: u64, section: u32) -> SectionKey {
        let (frame, section) = (frame.to_le_bytes(), section.to_le_bytes());
        let prk = prk(self.secret.expose());
        match &self.salt {
            EpochSalt::V2(_) => SectionKey::expand(&prk, &[SECTION_V2, &frame, &section]),
            EpochSalt::V3(_) => {
                let fresh = halves(salt).1;
                SectionKey::expand(&prk, &[b"probity/section/v3", &fresh, &frame, &section])
            }
        }
    }
}

/// Domain separator of every section key of version 2.
const SECTION_V2: &[u8] = b"probity/section/v1";

/// The key of one subject; destroying it makes everything sealed under it unreadable.
pub struct SubjectKey(Secret);

impl SubjectKey {
    /// Creates a subject key from `secret`.
    pub const fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Returns the secret, to be wrapped.
    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    /// Derives the key of section `section` of frame `frame` of `stream`, which is about
    /// `subjects`.
    ///
    /// A section about several subjects needs all their keys: erasing one subject erases it.
    pub fn section_key(
        subjects: &[&Self],
        version: Version,
        stream: &StreamId,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> SectionKey {
        let mut joined = Zeroizing::new(Vec::with_capacity(subjects.len().saturating_mul(32)));
        for subject in subjects {
            joined.extend_from_slice(subject.0.expose());
        }
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&joined);
        let domain: &[u8] = match version {
            Version::V2 => SECTION_V2,
            Version::V3 => b"probity/subject-section/v3",
        };
        let (frame, section) = (frame.to_le_bytes(), section.to_le_bytes());
        SectionKey::expand(&prk, &[domain, stream.as_bytes(), &frame, &section])
    }
}

/// The key of one sealed section, which opens no other.
pub struct SectionKey {
    secrets: Box<SectionSecrets>,
    commitment: [u8; 32],
}

/// The section's key and salt key in one allocation on the heap.
#[derive(ZeroizeOnDrop)]
struct SectionSecrets {
    key: [u8; SECRET_BYTES],
    salt_key: [u8; SECRET_BYTES],
}

impl SectionKey {
    fn zeros() -> Self {
        Self {
            secrets: Box::new(SectionSecrets {
                key: [0; SECRET_BYTES],
                salt_key: [0; SECRET_BYTES],
            }),
            commitment: [0; 32],
        }
    }

    fn expand(prk: &hkdf::Prk, info: &[&[u8]]) -> Self {
        let mut out = Self::zeros();
        expand(prk, info, &mut out.secrets.key);
        out.derive_rest();
        out
    }

    /// Creates a section key from `bytes` of a section proof.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        let mut out = Self::zeros();
        out.secrets.key.copy_from_slice(bytes);
        out.derive_rest();
        out
    }

    /// Creates a section key from `bytes`, with a salt key derived from `salts`. See
    /// [`share::section_key`](crate::share::section_key).
    pub(crate) fn with_salts(bytes: &[u8; SECRET_BYTES], salts: &hkdf::Prk) -> Self {
        let mut out = Self::from_bytes(bytes);
        expand(
            salts,
            &[b"probity/entry-salt/v3"],
            &mut out.secrets.salt_key,
        );
        out
    }

    /// Derives commitment and salt key from the key, so that disclosing the key is enough.
    fn derive_rest(&mut self) {
        let prk = prk(&self.secrets.key);
        expand(
            &prk,
            &[b"probity/section-commitment/v1"],
            &mut self.commitment,
        );
        expand(
            &prk,
            &[b"probity/entry-salt/v1"],
            &mut self.secrets.salt_key,
        );
    }

    /// Returns the key's bytes, for a proof that shows this section.
    pub const fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.secrets.key
    }

    /// Returns the commitment to the key, as it stands in the frame's directory.
    pub const fn commitment(&self) -> &[u8; 32] {
        &self.commitment
    }

    /// Checks in constant time that `commitment` is the commitment to this key.
    pub fn matches(&self, commitment: &[u8; 32]) -> bool {
        self.commitment.ct_eq(commitment).into()
    }

    /// Returns the salt key, from which the entry salts of this section are derived.
    pub const fn salt_key(&self) -> &[u8; SECRET_BYTES] {
        &self.secrets.salt_key
    }

    pub(crate) fn aead(&self) -> Result<LessSafeKey, DecodeError> {
        aead_key(&self.secrets.key)
    }
}

pub(crate) fn aead_key(bytes: &[u8; 32]) -> Result<LessSafeKey, DecodeError> {
    UnboundKey::new(&AES_256_GCM, bytes)
        .map(LessSafeKey::new)
        .map_err(|_refused| DecodeError::new("key", 0, "is refused by the provider"))
}

fn prk(secret: &[u8; 32]) -> hkdf::Prk {
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
}

pub(crate) fn expand(prk: &hkdf::Prk, info: &[&[u8]], out: &mut [u8; 32]) {
    let filled = prk
        .expand(info, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(out));
    // HKDF-SHA256 refuses only outputs longer than 8,160 bytes. Whatever the reason, the key that is
    // left then is known to everybody.
    assert!(filled.is_ok(), "the provider derives no key of 32 bytes");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{StreamConfig, StreamName};

    fn stream() -> StreamId {
        StreamId::new(&[7; 32], &StreamName::default(), &StreamConfig::default())
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
        let certified = |salt, key| {
            let epoch = master.epoch_key(&stream(), 1, &EpochSalt::V3([salt; 16]));
            epoch.certified_by(&[key; 32])
        };
        let (epoch, same, salted) = (certified(1, 9), certified(1, 9), certified(2, 9));
        let other = certified(1, 8);
        assert_ne!(epoch.authenticator(&[b"x"]), other.authenticator(&[b"x"]));
        let older = master.epoch_key(&stream(), 1, &EpochSalt::V2([1; 32]));
        assert_eq!(epoch.authenticator(&[b"x"]), same.authenticator(&[b"x"]));
        assert_ne!(epoch.authenticator(&[b"x"]), salted.authenticator(&[b"x"]));
        assert_ne!(epoch.authenticator(&[b"x"]), same.authenticator(&[b"y"]));
        let fresh = epoch.frame_salt(&[3; 16]);
        let keys = [
            epoch.section_key(&fresh, 0, 0),
            epoch.section_key(&fresh, 0, 1),
            epoch.section_key(&fresh, 1, 0),
            epoch.section_key(&epoch.frame_salt(&[4; 16]), 0, 0),
            salted.section_key(&salted.frame_salt(&[3; 16]), 0, 0),
            older.section_key(&older.frame_salt(&[3; 16]), 0, 0),
        ];
        for (index, key) in keys.iter().enumerate() {
            for other in &keys[index + 1..] {
                assert_ne!(key.expose(), other.expose());
                assert!(!key.matches(other.commitment()));
            }
            assert!(SectionKey::from_bytes(key.expose()).matches(key.commitment()));
        }
    }
}
