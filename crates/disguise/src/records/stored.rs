//! A bag about to be stored and a locator that a key opened, with the names under which both lie.

use sha2::{Digest as _, Sha256};

use crate::crypto::suite::PublicKey;
use crate::crypto::{KEY_BYTES, derive};
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::locator::{Locator, OWNER_BYTES};
use crate::records::section::Origin;

/// A bag about to be stored for a principal.
pub(crate) struct Stored<'a> {
    pub(crate) bag: &'a Bag,
    pub(crate) public: PublicKey,
    /// The principal.
    pub(crate) owner: Vec<u8>,
    /// True if the principal is a person, not a placeholder.
    pub(crate) person: bool,
    pub(crate) origin: Origin,
    /// The bytes by which a hold on whoever the bag concerns keeps it from ending.
    pub(crate) cohorts: Vec<u8>,
    pub(crate) stage: Stage,
}

/// The progress of a bag on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No reveal was asked for.
    Disguised,
    /// A reveal left something.
    Pending,
    /// A reveal left a placeholder that could not go, so the bag counts even without changes.
    Waiting,
}

/// A locator that a key opened.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) row: Vec<u8>,
    pub(crate) mailbox: Vec<u8>,
    pub(crate) locator: Locator,
}

/// Returns the mailbox of locators for a key. Persons share one mailbox among many;
/// pseudoprincipals have their own.
pub(crate) fn mailbox(salt: &[u8], public: &PublicKey, person: bool) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise mailbox\0");
    hash.update(salt);
    hash.update(public.as_bytes());
    let digest = hash.finalize();
    digest
        .iter()
        .copied()
        .take(if person { 1 } else { 16 })
        .collect()
}

/// Returns whether a mailbox is one of people.
pub(crate) const fn is_of_person(mailbox: &[u8]) -> bool {
    mailbox.len() == 1
}

/// Returns the tag in a locator that identifies its owner.
pub(crate) fn owner_tag(salt: &[u8], principal: &[u8]) -> [u8; OWNER_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise owner\0");
    hash.update(salt);
    hash.update(principal);
    let mut tag = [0; OWNER_BYTES];
    tag.iter_mut()
        .zip(hash.finalize())
        .for_each(|(to, from)| *to = from);
    tag
}

pub(crate) fn part_id(key: &[u8; KEY_BYTES], part: u32) -> Result<[u8; 16], Error> {
    derive(key, b"part", &part.to_le_bytes())
}
