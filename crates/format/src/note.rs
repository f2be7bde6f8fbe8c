//! Signed notes (C2SP signed-note 1.0.0): text, signature lines, verifier keys, signing keys.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::error::DecodeError;
use crate::limits::{CHECKPOINT_BYTES_MAX, NOTE_SIGNATURES_MAX};

/// Signature type Ed25519 (signed-note, signature types).
const TYPE_ED25519: u8 = 0x01;
/// Beginning of a signature line: em dash and space.
const SIGNATURE_PREFIX: &str = "\u{2014} ";
/// Length of an Ed25519 public key in bytes.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of the seed of an Ed25519 private key in bytes.
pub const SEED_BYTES: usize = 32;

/// The reason why a note is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteError {
    /// The bytes are not a signed note.
    Decode(DecodeError),
    /// None of the keys given has signed the note.
    NoKnownSignature,
    /// A signature under the name and id of a known key does not verify.
    BadSignature {
        /// The name of the key.
        name: String,
    },
    /// Two different keys given have the same name and id.
    AmbiguousKey {
        /// The name of both keys.
        name: String,
    },
    /// The note is validly signed, but not by a key named as its origin.
    WrongSigner {
        /// The origin in the text.
        origin: String,
    },
    /// The key could not sign.
    SigningFailed {
        /// The name of the key.
        name: String,
    },
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(_) => f.write_str("the note is malformed"),
            Self::NoKnownSignature => f.write_str("the note is not signed by a known key"),
            Self::BadSignature { name } => {
                write!(f, "the signature of {name:?} on the note is wrong")
            }
            Self::AmbiguousKey { name } => {
                write!(f, "two different keys {name:?} have the same id")
            }
            Self::WrongSigner { origin } => {
                write!(
                    f,
                    "no known key named {origin:?} has signed the checkpoint of that origin"
                )
            }
            Self::SigningFailed { name } => write!(f, "the key {name:?} could not sign"),
        }
    }
}

impl core::error::Error for NoteError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DecodeError> for NoteError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// A named public key, which verifies the signatures of one signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: u32,
    key: [u8; PUBLIC_KEY_BYTES],
}

impl VerifierKey {
    /// Creates the key of the signer `name` from the Ed25519 key `key`.
    ///
    /// # Errors
    /// When `name` is empty or holds a space, a control character or a plus sign.
    pub fn new(name: &str, key: [u8; PUBLIC_KEY_BYTES]) -> Result<Self, DecodeError> {
        check_name(name).map_err(|reason| DecodeError::new("verifier key", 0, reason))?;
        Ok(Self {
            name: name.into(),
            id: key_id(name, TYPE_ED25519, &key),
            key,
        })
    }

    /// Reads the key's text form: name, `+`, id as 8 hexadecimal digits, `+`, base64 of type and
    /// key.
    ///
    /// # Errors
    /// When `text` has another form or type than Ed25519, or its id is not that of the key.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let wrong_type = "is of another type than Ed25519";
        let text = KeyText::parse("verifier key", text, TYPE_ED25519, wrong_type)?;
        let parsed = Self::new(text.name, text.key)?;
        text.check_id(parsed.id)?;
        Ok(parsed)
    }

    /// Returns the text form of the key.
    pub fn encode(&self) -> String {
        KeyText::encode(&self.name, self.id, TYPE_ED25519, &self.key)
    }

    /// Returns the signer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key id: the first four bytes of a hash over name, type and key.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the public key.
    pub const fn key(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.key
    }

    /// Checks that `signature` is this key's signature over `message` (RFC 8032).
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.key)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.encode())
    }
}

/// The text form of a public key: name, `+`, id as 8 hexadecimal digits, `+`, base64 of type and
/// key.
pub(crate) struct KeyText<'a> {
    /// The noun that names the key in errors.
    what: &'static str,
    pub(crate) name: &'a str,
    id: &'a str,
    pub(crate) key: [u8; PUBLIC_KEY_BYTES],
}

impl<'a> KeyText<'a> {
    /// Reads a key of the signature type `kind`. The error for another type is `wrong_type`.
    ///
    /// # Errors
    /// When `text` has another form. The id is checked by [`KeyText::check_id`].
    pub(crate) fn parse(
        what: &'static str,
        text: &'a str,
        kind: u8,
        wrong_type: &'static str,
    ) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new(what, 0, reason);
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(encoded)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(error("has not three parts joined by +"));
        };
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_detail| error("is not canonical base64"))?;
        let (found, key) = bytes.split_first().ok_or_else(|| error("holds no key"))?;
        if *found != kind {
            return Err(error(wrong_type));
        }
        let key = <[u8; PUBLIC_KEY_BYTES]>::try_from(key)
            .map_err(|_wrong_length| error("is not a key of 32 bytes"))?;
        Ok(Self {
            what,
            name,
            id,
            key,
        })
    }

    /// Returns an error unless the id in the text is `id`, computed from name, type and key.
    pub(crate) fn check_id(&self, id: u32) -> Result<(), DecodeError> {
        if self.id == format!("{id:08x}") {
            return Ok(());
        }
        let reason = "has an id that does not fit its name and key";
        Err(DecodeError::new(self.what, 0, reason))
    }

    /// Returns the text form of the key `key` of `name`.
    pub(crate) fn encode(name: &str, id: u32, kind: u8, key: &[u8; PUBLIC_KEY_BYTES]) -> String {
        let typed: Vec<u8> = [kind].into_iter().chain(*key).collect();
        format!("{name}+{id:08x}+{}", STANDARD.encode(typed))
    }
}

/// Returns the id of the key `key` of `name` for signatures of type `kind` (signed-note).
pub(crate) fn key_id(name: &str, kind: u8, key: &[u8; PUBLIC_KEY_BYTES]) -> u32 {
    let digest = Sha256::new_with_prefix(name)
        .chain_update([b'\n', kind])
        .chain_update(key);
    let [first, second, third, fourth, ..]: [u8; 32] = digest.finalize().into();
    u32::from_be_bytes([first, second, third, fourth])
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("has an empty key name");
    }
    if name
        .chars()
        .any(|letter| letter.is_whitespace() || letter < ' ' || letter == '+')
    {
        return Err("has a key name with a space, a control character or a plus sign");
    }
    Ok(())
}

/// A signer of notes, with a name and a key.
///
/// An implementer must sign exactly the bytes given and must not keep them. A caller may not
/// assume that signing succeeds or is fast: the key may be in another machine.
pub trait Signer {
    /// Returns the verifier key of this signer.
    fn verifier_key(&self) -> &VerifierKey;

    /// Signs `text`; returns the signature without the key id.
    ///
    /// # Errors
    /// [`NoteError::SigningFailed`].
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, NoteError>;
}

/// A private Ed25519 key with its name. It must never be written to the log's directory in clear.
///
/// The key lies in memory of the cryptographic library, which overwrites it when it is dropped.
/// The type implements neither `Debug` nor `Clone`.
pub struct SigningKey {
    verifier: VerifierKey,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Creates the key of the signer `name` from `seed` (RFC 8032 section 5.1.5).
    ///
    /// The caller keeps `seed` and must zeroize it.
    ///
    /// # Errors
    /// When `name` is no key name.
    pub fn from_seed(name: &str, seed: &[u8; SEED_BYTES]) -> Result<Self, DecodeError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed)
            .map_err(|_rejected| DecodeError::new("signing key", 0, "is not a usable seed"))?;
        let key = <[u8; PUBLIC_KEY_BYTES]>::try_from(pair.public_key().as_ref())
            .map_err(|_wrong_length| DecodeError::new("signing key", 0, "has no public key"))?;
        Ok(Self {
            verifier: VerifierKey::new(name, key)?,
            pair,
        })
    }
}

impl Signer for SigningKey {
    fn verifier_key(&self) -> &VerifierKey {
        &self.verifier
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, NoteError> {
        let signature =
            self.pair
                .try_sign(text)
                .map_err(|_unspecified| NoteError::SigningFailed {
                    name: self.verifier.name.clone(),
                })?;
        Ok(signature.as_ref().to_vec())
    }
}

/// One signature line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    name: String,
    id: u32,
    bytes: Vec<u8>,
}

impl Signature {
    /// Returns the name of the key, as stated in the line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the key, as stated in the line.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the signature's bytes; their form depends on the key's type.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Creates the signature line of the key `name` with this id; it is not verified.
    pub fn new(name: &str, id: u32, bytes: Vec<u8>) -> Self {
        let name = name.into();
        Self { name, id, bytes }
    }

    fn parse(line: &str) -> Result<Self, &'static str> {
        let rest = line
            .strip_prefix(SIGNATURE_PREFIX)
            .ok_or("has a signature line that does not begin with an em dash and a space")?;
        let (name, encoded) = rest
            .split_once(' ')
            .ok_or("has a signature line without a signature")?;
        check_name(name)?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_detail| "has a signature that is not canonical base64")?;
        let Some((id, bytes)) = bytes
            .split_first_chunk::<4>()
            .filter(|(_, rest)| !rest.is_empty())
        else {
            return Err("has a signature too short for a key id");
        };
        Ok(Self {
            name: name.into(),
            id: u32::from_be_bytes(*id),
            bytes: bytes.into(),
        })
    }

    fn encode(&self) -> String {
        let bytes: Vec<u8> = self
            .id
            .to_be_bytes()
            .iter()
            .chain(&self.bytes)
            .copied()
            .collect();
        format!(
            "{SIGNATURE_PREFIX}{} {}\n",
            self.name,
            STANDARD.encode(bytes)
        )
    }
}

/// A text and its signatures, which are unverified until [`SignedNote::verify`] succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    text: String,
    signatures: Vec<Signature>,
}

impl SignedNote {
    /// Creates a note with `text` and without signatures.
    ///
    /// # Errors
    /// When `text` does not end in a line feed, holds another control character, or is too long.
    pub fn new(text: String) -> Result<Self, DecodeError> {
        check_text(&text)?;
        Ok(Self {
            text,
            signatures: Vec::new(),
        })
    }

    /// Creates a note from `text` and these signature lines; none of them is verified.
    ///
    /// # Errors
    /// The errors of [`SignedNote::parse`], which the encoded note must satisfy.
    pub fn with_signatures(text: String, signatures: Vec<Signature>) -> Result<Self, DecodeError> {
        let built = Self { text, signatures };
        let parsed = Self::parse(built.encode().as_bytes())?;
        if parsed == built {
            Ok(parsed)
        } else {
            Err(DecodeError::new("signed note", 0, "is not in its one form"))
        }
    }

    /// Reads the note in `bytes`, which must have at most [`CHECKPOINT_BYTES_MAX`] bytes. It must
    /// have 1 to [`NOTE_SIGNATURES_MAX`] signature lines (signed-note, format).
    ///
    /// # Errors
    /// If `bytes` are not exactly what [`SignedNote::encode`] writes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let error = |offset, reason| DecodeError::new("signed note", offset, reason);
        if bytes.len() > CHECKPOINT_BYTES_MAX {
            return Err(error(CHECKPOINT_BYTES_MAX, "is above the size limit"));
        }
        let whole = core::str::from_utf8(bytes)
            .map_err(|utf8| error(utf8.valid_up_to(), "is not UTF-8"))?;
        check_text(whole)?;
        // The last empty line separates the text, with its final line feed, from the signatures.
        let (before, after) = whole
            .rsplit_once("\n\n")
            .ok_or_else(|| error(0, "has no empty line before its signatures"))?;
        let mut offset = before.len().saturating_add(2);
        let mut signatures = Vec::new();
        let lines = after
            .strip_suffix('\n')
            .ok_or_else(|| error(bytes.len(), "ends without a signature line"))?;
        for line in lines.split('\n') {
            if signatures.len() == NOTE_SIGNATURES_MAX {
                return Err(error(offset, "has more signatures than the limit"));
            }
            signatures.push(Signature::parse(line).map_err(|reason| error(offset, reason))?);
            offset = offset.saturating_add(line.len()).saturating_add(1);
        }
        Ok(Self {
            text: format!("{before}\n"),
            signatures,
        })
    }

    /// Returns the encoded note: text, empty line, signature lines.
    pub fn encode(&self) -> String {
        let mut whole = format!("{}\n", self.text);
        for signature in &self.signatures {
            whole.push_str(&signature.encode());
        }
        whole
    }

    /// Adds the signature of `signer`; replaces an earlier one of the same key.
    ///
    /// # Errors
    /// When the signer fails or a limit of notes would be exceeded; the note is then unchanged.
    pub fn sign(&mut self, signer: &dyn Signer) -> Result<(), NoteError> {
        let key = signer.verifier_key();
        let bytes = signer.sign(self.text.as_bytes())?;
        let added = Signature {
            name: key.name.clone(),
            id: key.id,
            bytes,
        };
        let mut signatures = self.signatures.clone();
        signatures.retain(|signature| (signature.id, &signature.name) != (key.id, &key.name));
        signatures.push(added);
        let signed = Self {
            text: self.text.clone(),
            signatures,
        };
        // The parser applies its limits, so that every note written can be read.
        *self = Self::parse(signed.encode().as_bytes())?;
        Ok(())
    }

    /// Verifies the signatures made by `keys` and returns those keys. Signatures of other keys are
    /// ignored (signed-note, signatures).
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] when a signature with a known name and id is invalid,
    /// [`NoteError::NoKnownSignature`] when there is none, [`NoteError::AmbiguousKey`].
    pub fn verify<'a>(&self, keys: &'a [VerifierKey]) -> Result<Vec<&'a VerifierKey>, NoteError> {
        let mut verified: Vec<&VerifierKey> = Vec::new();
        for signature in &self.signatures {
            let Some(key) = find_key(keys, signature)? else {
                continue;
            };
            if !key.verifies(self.text.as_bytes(), &signature.bytes) {
                return Err(NoteError::BadSignature {
                    name: key.name.clone(),
                });
            }
            if !verified.contains(&key) {
                verified.push(key);
            }
        }
        if verified.is_empty() {
            Err(NoteError::NoKnownSignature)
        } else {
            Ok(verified)
        }
    }

    /// Returns the signed text with its final line feed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the signature lines in order; none of them is verified.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }
}

fn find_key<'a>(
    keys: &'a [VerifierKey],
    signature: &Signature,
) -> Result<Option<&'a VerifierKey>, NoteError> {
    let mut matching = keys
        .iter()
        .filter(|key| key.id == signature.id && key.name == signature.name);
    let first = matching.next();
    if let Some(other) = matching.find(|other| Some(*other) != first) {
        return Err(NoteError::AmbiguousKey {
            name: other.name.clone(),
        });
    }
    Ok(first)
}

fn check_text(text: &str) -> Result<(), DecodeError> {
    let control = text.bytes().position(|byte| byte < b' ' && byte != b'\n');
    if let Some(offset) = control {
        return Err(DecodeError::new(
            "signed note",
            offset,
            "holds a control character",
        ));
    }
    if text.len() > CHECKPOINT_BYTES_MAX {
        return Err(DecodeError::new(
            "signed note",
            text.len(),
            "is above the size limit",
        ));
    }
    if !text.ends_with('\n') {
        return Err(DecodeError::new(
            "signed note",
            text.len(),
            "does not end in a line feed",
        ));
    }
    Ok(())
}
