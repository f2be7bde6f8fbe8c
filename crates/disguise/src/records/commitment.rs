//! Commitments to a person in documents that leave the database: a hash with a nonce of its own.
//!
//! A finder of the document cannot tell whom it is about without guessing the id; a reader who knows
//! the id can check it.

use sha2::{Digest as _, Sha256};

use crate::crypto::random;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::name::{digits, undigits};

/// Bytes of the nonce that keeps finders of several documents from comparing them.
pub(crate) const NONCE_BYTES: usize = 16;
pub(crate) const HASH_BYTES: usize = 32;

/// The label of the person of an export.
const EXPORT: &[u8] = b"probity disguise export\0";

/// The person of an export of hidden rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersonCommitment {
    nonce: [u8; NONCE_BYTES],
    hash: [u8; HASH_BYTES],
}

impl PersonCommitment {
    pub(crate) fn new(tenant: Option<&Value>, user: &Value) -> Result<Self, Error> {
        let nonce = random()?;
        let hash = hashed(EXPORT, &nonce, tenant, user);
        Ok(Self { nonce, hash })
    }

    /// Returns whether it is to the person with this id, of `tenant` if the database has tenants.
    pub fn is_of(&self, tenant: Option<&Value>, user: &Value) -> bool {
        hashed(EXPORT, &self.nonce, tenant, user) == self.hash
    }

    /// Returns the nonce in hexadecimal digits.
    pub fn nonce(&self) -> String {
        digits(&self.nonce)
    }

    /// Returns the hash in hexadecimal digits.
    pub fn hash(&self) -> String {
        digits(&self.hash)
    }

    /// Parses nonce and hash from the digits that [`Self::nonce`] and [`Self::hash`] give; nothing
    /// where they are written otherwise.
    pub fn parse(nonce: &str, hash: &str) -> Option<Self> {
        let parsed = Self {
            nonce: undigits(nonce)?,
            hash: undigits(hash)?,
        };
        (parsed.nonce() == nonce && parsed.hash() == hash).then_some(parsed)
    }
}

/// Returns the hash of a person under a label of the document.
pub(crate) fn hashed(
    label: &[u8],
    nonce: &[u8; NONCE_BYTES],
    tenant: Option<&Value>,
    user: &Value,
) -> [u8; HASH_BYTES] {
    let mut hash = Sha256::new();
    hash.update(label);
    hash.update(nonce);
    if let Some(tenant) = tenant {
        hash.update(b"tenant\0");
        hash.update(Sha256::digest(tenant.principal()));
    }
    hash.update(user.principal());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commitment_is_to_one_person_of_one_tenant() {
        let (user, tenant) = (Value::Int(19), Value::Int(1));
        let alone = PersonCommitment::new(None, &user).unwrap();
        let tenanted = PersonCommitment::new(Some(&tenant), &user).unwrap();
        // The id is the same whatever type it is read as.
        assert!(alone.is_of(None, &Value::from("19")));
        assert!(tenanted.is_of(Some(&Value::from("1")), &user));
        assert!(!alone.is_of(None, &Value::Int(20)) && !alone.is_of(Some(&tenant), &user));
        assert!(!tenanted.is_of(None, &user) && !tenanted.is_of(Some(&user), &user));
        let (nonce, hash) = (alone.nonce(), alone.hash());
        assert_eq!(PersonCommitment::parse(&nonce, &hash), Some(alone));
        for (nonce, hash) in [
            ("AB".repeat(NONCE_BYTES), hash.clone()),
            (format!("{nonce}0"), hash.clone()),
            (hash.clone(), nonce.clone()),
            (nonce, hash.replace(|letter: char| letter.is_ascii(), "x")),
        ] {
            assert_eq!(PersonCommitment::parse(&nonce, &hash), None);
        }
    }
}
