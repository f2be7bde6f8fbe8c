//! The subject of a key, and the keys under which the values of one subject are sealed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_lc_rs::aead::{
    AES_256_GCM, AES_256_GCM_SIV, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::{hkdf, rand};
use probity_format::keys::Secret;
use zeroize::Zeroizing;

use crate::fail::Fail;
use crate::record::number;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const NAMES_INFO: &[u8] = b"probity/store/names/v1";
const VALUES_INFO: &[u8] = b"probity/store/values/v1";
const PLACES_INFO: &[u8] = b"probity/store/places/v1";
const CHECK_INFO: &[u8] = b"probity/store/check/v1";
/// Bytes by which the data knows the key of a subject.
pub(crate) const CHECK_BYTES: usize = 16;
const NAME_LABEL: &[u8; 16] = b"probity/store/n1";
const VALUE_LABEL: &[u8; 16] = b"probity/store/v1";

type Named = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// Tells whom a key is about. It is asked when a key comes to be; while the key is there, its subject stays.
#[derive(Clone, Default)]
pub struct SubjectOf(Option<Arc<Named>>);

impl SubjectOf {
    /// Takes a function that names a key's subject, or none for a key about nobody.
    pub fn new(named: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(named)))
    }

    pub(crate) fn ask(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.as_ref().and_then(|named| named(key))
    }
}

impl fmt::Debug for SubjectOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectOf")
    }
}

/// The number of a subject's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    /// The owner of keys about nobody.
    pub(crate) const NOBODY: Self = Self(0);
}

/// The beginning of a value's rows, and their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) number: u64,
    pub(crate) owner: Slot,
}

/// The keys that follow from the key of one subject.
pub(crate) struct SubjectKeys {
    names: LessSafeKey,
    values: LessSafeKey,
    /// Under which names are placed.
    pub(crate) places: [u64; 2],
    /// By which the data knows this key: a key of another time under the same number is not taken for it.
    pub(crate) check: [u8; CHECK_BYTES],
    /// True once the data has said that this is the key of its subject.
    pub(crate) is_proven: AtomicBool,
}

impl SubjectKeys {
    pub(crate) fn new(secret: &Secret) -> Result<Self, Fail> {
        let places = derived(secret, PLACES_INFO)?;
        let (low, high) = places.split_at(16);
        let (first, second) = low.split_at(8);
        debug_assert_eq!(high.len(), 16, "half of it is used");
        let check = derived(secret, CHECK_INFO)?;
        Ok(Self {
            check: *check.first_chunk().ok_or_else(refused)?,
            is_proven: AtomicBool::new(false),
            names: key(&AES_256_GCM_SIV, &*derived(secret, NAMES_INFO)?)?,
            values: key(&AES_256_GCM, &*derived(secret, VALUES_INFO)?)?,
            places: [
                number(first).ok_or_else(refused)?,
                number(second).ok_or_else(refused)?,
            ],
        })
    }

    /// A name sealed so that the same name in the same value gives the same bytes: it is found by them.
    pub(crate) fn seal_name(&self, id: u64, name: &[u8]) -> Result<Vec<u8>, Fail> {
        let mut sealed = Vec::with_capacity(name.len() + TAG_BYTES);
        sealed.extend_from_slice(name);
        let nonce = Nonce::assume_unique_for_key([0; NONCE_BYTES]);
        let done = self
            .names
            .seal_in_place_append_tag(nonce, place(NAME_LABEL, id), &mut sealed);
        done.map_err(|_refused| refused())?;
        Ok(sealed)
    }

    pub(crate) fn open_name(&self, id: u64, sealed: &[u8]) -> Result<Vec<u8>, Fail> {
        let nonce = Nonce::assume_unique_for_key([0; NONCE_BYTES]);
        open(&self.names, nonce, place(NAME_LABEL, id), sealed)
    }

    /// A value sealed under a random nonce; nothing stays nothing.
    pub(crate) fn seal_value(&self, id: u64, value: &[u8]) -> Result<Vec<u8>, Fail> {
        if value.is_empty() {
            return Ok(Vec::new());
        }
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce).map_err(|_none| refused())?;
        let mut sealed = Vec::with_capacity(NONCE_BYTES + value.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(value);
        let body = sealed.get_mut(NONCE_BYTES..).ok_or_else(refused)?;
        let tag = self.values.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            place(VALUE_LABEL, id),
            body,
        );
        sealed.extend_from_slice(tag.map_err(|_refused| refused())?.as_ref());
        Ok(sealed)
    }

    pub(crate) fn open_value(&self, id: u64, sealed: &[u8]) -> Result<Vec<u8>, Fail> {
        if sealed.is_empty() {
            return Ok(Vec::new());
        }
        let split = sealed.split_first_chunk::<NONCE_BYTES>();
        let (nonce, body) = split.ok_or_else(damaged)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        open(&self.values, nonce, place(VALUE_LABEL, id), body)
    }
}

impl fmt::Debug for SubjectKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectKeys")
    }
}

fn open(
    key: &LessSafeKey,
    nonce: Nonce,
    place: Aad<[u8; 24]>,
    sealed: &[u8],
) -> Result<Vec<u8>, Fail> {
    let mut bytes = sealed.to_vec();
    let length = key
        .open_in_place(nonce, place, &mut bytes)
        .map_err(|_damaged| damaged())?
        .len();
    bytes.truncate(length);
    Ok(bytes)
}

fn derived(secret: &Secret, info: &[u8]) -> Result<Zeroizing<[u8; 32]>, Fail> {
    let mut bytes = Zeroizing::new([0; 32]);
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.expose());
    extracted
        .expand(&[info], &AES_256_GCM)
        .and_then(|expanded| expanded.fill(&mut *bytes))
        .map_err(|_refused| refused())?;
    Ok(bytes)
}

fn key(algorithm: &'static Algorithm, bytes: &[u8; 32]) -> Result<LessSafeKey, Fail> {
    let key = UnboundKey::new(algorithm, bytes);
    key.map(LessSafeKey::new).map_err(|_refused| refused())
}

fn place(label: &[u8; 16], id: u64) -> Aad<[u8; 24]> {
    let mut bytes = [0; 24];
    let (first, rest) = bytes.split_at_mut(label.len());
    first.copy_from_slice(label);
    rest.copy_from_slice(&id.to_be_bytes());
    Aad::from(bytes)
}

fn refused() -> Fail {
    Fail::broken("a key of a subject")
}

fn damaged() -> Fail {
    Fail::Damaged("what is sealed under the key of a subject was changed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_for_one_subject_and_value_opens_there_alone() {
        let keys = |byte| SubjectKeys::new(&Secret::new([byte; 32])).unwrap();
        let (one, other) = (keys(1), keys(2));
        let name = one.seal_name(5, b"name").unwrap();
        assert_eq!(one.seal_name(5, b"name").unwrap(), name);
        assert_ne!(one.seal_name(6, b"name").unwrap(), name);
        assert_eq!(one.open_name(5, &name).unwrap(), b"name");
        assert!(one.open_name(6, &name).is_err() && other.open_name(5, &name).is_err());
        let value = one.seal_value(5, b"value").unwrap();
        assert_ne!(one.seal_value(5, b"value").unwrap(), value);
        assert_eq!(one.open_value(5, &value).unwrap(), b"value");
        assert!(one.open_value(6, &value).is_err() && other.open_value(5, &value).is_err());
        assert!(one.open_value(5, b"short").is_err() && one.open_name(5, b"short").is_err());
        assert_eq!(
            one.open_value(5, &one.seal_value(5, b"").unwrap()).unwrap(),
            b""
        );
        assert_ne!(one.places, other.places);
    }
}
