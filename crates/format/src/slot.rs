//! Slots of `subjects/slots`: key and name of one subject each, which an erasure overwrites in
//! place.
//!
//! `docs/format.md`, "Subject keys". A pseudonym is random: only the slot links a name to it.

use alloc::string::String;
use alloc::vec::Vec;
use core::borrow::Borrow;

use sha2::{Digest as _, Sha256};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::content::PSEUDONYM_BYTES;
use crate::error::DecodeError;
use crate::keys::{SECRET_BYTES, Secret, SubjectKey};
use crate::limits::NAME_BYTES_MAX;
use crate::version::Version;
use crate::wrap::{WRAPPED_BYTES, WRAPPED_OVERHEAD_BYTES, WrappedKind, WrappingKey};

/// Bytes of a slot's label.
pub const SLOT_LABEL_BYTES: usize = PSEUDONYM_BYTES + 8;
/// Length of a slot's wrapped plaintext: key, length of the name, and the longest name.
const BODY_BYTES: usize = SECRET_BYTES + 1 + NAME_BYTES_MAX;
/// Bytes of a slot of version 3: label and wrapped secret.
pub const SLOT_BYTES: usize = SLOT_LABEL_BYTES + WRAPPED_OVERHEAD_BYTES + BODY_BYTES;
/// Bytes of a slot of version 2: label, wrapped key, zeros.
pub const SLOT_BYTES_V2: usize = SLOT_LABEL_BYTES + WRAPPED_BYTES + 4;

/// Returns the bytes of a slot of `version`.
pub const fn slot_bytes(version: Version) -> usize {
    match version {
        Version::V2 => SLOT_BYTES_V2,
        Version::V3 => SLOT_BYTES,
    }
}

/// The clear label at the beginning of a slot, which stays when the subject is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "these are all its bytes")]
pub struct SlotLabel {
    /// The pseudonym of the subject in sealed frames.
    pub pseudonym: [u8; PSEUDONYM_BYTES],
    /// Number of slots that were durable before this one was written.
    pub durable: u64,
}

impl SlotLabel {
    /// Returns the encoded label.
    pub fn encode(&self) -> [u8; SLOT_LABEL_BYTES] {
        let mut bytes = [0; SLOT_LABEL_BYTES];
        let (first, rest) = bytes.split_at_mut(PSEUDONYM_BYTES);
        first.copy_from_slice(&self.pseudonym);
        rest.copy_from_slice(&self.durable.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SLOT_LABEL_BYTES]) -> Self {
        let (mut pseudonym, mut durable) = ([0; PSEUDONYM_BYTES], [0; 8]);
        let (first, rest) = bytes.split_at(PSEUDONYM_BYTES);
        pseudonym.copy_from_slice(first);
        durable.copy_from_slice(rest);
        Self {
            pseudonym,
            durable: u64::from_le_bytes(durable),
        }
    }
}

/// The name of a subject; overwritten when dropped.
#[derive(PartialEq, Eq, Hash, ZeroizeOnDrop)]
pub struct SubjectName(String);

impl SubjectName {
    /// Creates a subject's name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name, to be looked up.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SubjectName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The decrypted secret of a slot.
#[non_exhaustive]
pub struct SlotSecret {
    /// The key of the subject's sections.
    pub key: SubjectKey,
    /// The name; empty in logs of version 2, whose slots have none.
    pub name: SubjectName,
}

/// A slot in its stored form.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    version: Version,
    label: &'a [u8; SLOT_LABEL_BYTES],
    wrapped: &'a [u8],
}

impl<'a> Slot<'a> {
    /// Parses the bytes of one slot.
    ///
    /// # Errors
    /// When the length is not that of a slot of `version`.
    pub fn parse(version: Version, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let error = DecodeError::new("subject slot", bytes.len(), "has another length");
        if bytes.len() != slot_bytes(version) {
            return Err(error);
        }
        let (label, wrapped) = bytes.split_first_chunk().ok_or(error)?;
        Ok(Self {
            version,
            label,
            wrapped,
        })
    }

    /// Returns the slot's label.
    pub fn label(&self) -> SlotLabel {
        SlotLabel::decode(self.label)
    }

    /// Returns whether the key was overwritten with zeros. The label may remain.
    pub fn is_empty(&self) -> bool {
        self.wrapped.iter().all(|byte| *byte == 0)
    }

    /// Returns whether all bytes are zeros: no sealed section used the slot.
    pub fn is_void(&self) -> bool {
        self.is_empty() && self.label.iter().all(|byte| *byte == 0)
    }

    /// Unwraps key and name of the slot, whose number must be `number`.
    ///
    /// # Errors
    /// When it was wrapped for another number, label or key, or was changed.
    pub fn open(&self, wrapping: &WrappingKey, number: u64) -> Result<SlotSecret, DecodeError> {
        match self.version {
            Version::V2 => {
                let wrapped = self.wrapped.get(..WRAPPED_BYTES).unwrap_or_default();
                let secret = wrapping.unwrap(WrappedKind::Subject, self.label, wrapped)?;
                Ok(SlotSecret {
                    key: SubjectKey::new(secret),
                    name: SubjectName::new(""),
                })
            }
            Version::V3 => {
                let bound = bound_to(self.label, number);
                let body = wrapping.unwrap_body(WrappedKind::Slot, &bound, self.wrapped)?;
                secret_of(&body)
            }
        }
    }
}

/// Creates a slot of version 3 with the number `number`; `nonce` must be fresh and random.
///
/// # Errors
/// When the name is too long, or the cryptographic provider fails.
pub fn seal_slot(
    wrapping: &WrappingKey,
    number: u64,
    label: &SlotLabel,
    key: &SubjectKey,
    name: &str,
    nonce: [u8; 12],
) -> Result<Vec<u8>, DecodeError> {
    let error = DecodeError::new("subject slot", 0, "has no room for a name of this length");
    let length = u8::try_from(name.len()).map_err(|_too_long| error)?;
    let mut body = Zeroizing::new([0; BODY_BYTES]);
    let (secret, rest) = body.split_at_mut(SECRET_BYTES);
    let (counted, room) = rest.split_at_mut(1);
    secret.copy_from_slice(key.secret().expose());
    counted.fill(length);
    room.get_mut(..name.len())
        .ok_or(error)?
        .copy_from_slice(name.as_bytes());
    let label = label.encode();
    let bound = bound_to(&label, number);
    let wrapped = wrapping.wrap_body(WrappedKind::Slot, &bound, &*body, nonce)?;
    Ok([label.as_slice(), &wrapped].concat())
}

/// Returns the context of a slot's wrap: its label and its number.
fn bound_to(label: &[u8; SLOT_LABEL_BYTES], number: u64) -> [u8; SLOT_LABEL_BYTES + 8] {
    let mut bound = [0; SLOT_LABEL_BYTES + 8];
    let (first, rest) = bound.split_at_mut(SLOT_LABEL_BYTES);
    first.copy_from_slice(label);
    rest.copy_from_slice(&number.to_le_bytes());
    bound
}

fn secret_of(body: &[u8]) -> Result<SlotSecret, DecodeError> {
    let error = DecodeError::new("subject slot", 0, "holds no key and name");
    let (secret, rest) = body.split_first_chunk().ok_or(error)?;
    let (length, room) = rest.split_first().ok_or(error)?;
    let (name, padding) = room.split_at_checked(usize::from(*length)).ok_or(error)?;
    let name = core::str::from_utf8(name).map_err(|_not_utf8| error)?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err(error);
    }
    Ok(SlotSecret {
        key: SubjectKey::new(Secret::copy_of(secret)),
        name: SubjectName::new(name),
    })
}

/// The digest over the labels of the first slots, which the journal signs with their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotsDigest([u8; 32]);

impl SlotsDigest {
    /// Creates a digest from its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the digest's bytes; zeros for no slot.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest extended by the label of one more slot.
    #[must_use]
    pub fn then(&self, label: &SlotLabel) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"probity/slots/v3");
        hash.update(self.0);
        hash.update(label.encode());
        Self(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootKey;

    const LABEL: SlotLabel = SlotLabel {
        pseudonym: [5; 16],
        durable: 2,
    };

    fn wrapping() -> WrappingKey {
        RootKey::new(Secret::new([1; 32])).wrapping_key(&[2; 32])
    }

    fn slot(name: &str) -> Vec<u8> {
        let key = SubjectKey::new(Secret::new([9; 32]));
        seal_slot(&wrapping(), 3, &LABEL, &key, name, [4; 12]).unwrap()
    }

    fn open(bytes: &[u8], number: u64) -> Result<SlotSecret, DecodeError> {
        Slot::parse(Version::V3, bytes)?.open(&wrapping(), number)
    }

    #[test]
    fn a_slot_opens_in_its_own_place_alone_and_no_bit_of_it_can_change() {
        let bytes = slot("anna");
        let opened = open(&bytes, 3).unwrap();
        assert_eq!(opened.key.secret().expose(), &[9; 32]);
        assert_eq!(opened.name.expose(), "anna");
        assert!(open(&bytes, 4).is_err(), "moved to another slot");
        for place in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[place] ^= 1;
            assert!(open(&bad, 3).is_err(), "byte {place}");
        }
        let mut other = bytes;
        other[..SLOT_LABEL_BYTES].fill(0);
        assert!(open(&other, 3).is_err(), "moved to another subject");
    }

    #[test]
    fn the_length_of_a_name_does_not_show() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for name in ["", "a", "anna", &longest] {
            let bytes = slot(name);
            assert_eq!(bytes.len(), SLOT_BYTES);
            assert_eq!(open(&bytes, 3).unwrap().name.expose(), name);
        }
        let key = SubjectKey::new(Secret::new([9; 32]));
        let longer = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(seal_slot(&wrapping(), 3, &LABEL, &key, &longer, [4; 12]).is_err());
    }

    #[test]
    fn an_overwritten_slot_keeps_its_label_and_nothing_else() {
        let mut bytes = slot("anna");
        bytes[SLOT_LABEL_BYTES..].fill(0);
        let empty = Slot::parse(Version::V3, &bytes).unwrap();
        assert!(empty.is_empty() && !empty.is_void());
        assert_eq!(empty.label(), LABEL);
        bytes.fill(0);
        assert!(Slot::parse(Version::V3, &bytes).unwrap().is_void());
        assert!(Slot::parse(Version::V3, &bytes[1..]).is_err());
        assert!(Slot::parse(Version::V2, &bytes).is_err());
    }

    #[test]
    fn the_digest_depends_on_every_label_and_their_order() {
        let other = SlotLabel {
            durable: 3,
            ..LABEL
        };
        let none = SlotsDigest::default();
        let digests = [
            none,
            none.then(&LABEL),
            none.then(&other),
            none.then(&LABEL).then(&other),
            none.then(&other).then(&LABEL),
        ];
        for (place, digest) in digests.iter().enumerate() {
            assert!(!digests[place + 1..].contains(digest));
        }
    }
}
