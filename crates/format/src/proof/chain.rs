//! The chain file: every certificate of a log, for a recipient whose key is older than the first
//! key of a proof.
//!
//! `docs/format.md`, "Chain file".

use alloc::string::String;
use alloc::vec::Vec;

use super::links::{decode_links, encode_links};
use crate::certificate::Link;
use crate::error::DecodeError;
use crate::geometry::ORIGIN_BYTES_MAX;
use crate::limits::CHAIN_LINKS_MAX;
use crate::note::{PUBLIC_KEY_BYTES, VerifierKey};
use crate::version::Version;
use crate::width::to_usize;
use crate::wire::Reader;

const MAGIC: &[u8; 4] = b"PBKC";
const VERSION: u16 = 1;

/// The certificates of a log from its first key on, none of them verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChain {
    log: String,
    first: [u8; PUBLIC_KEY_BYTES],
    links: Vec<Link>,
}

impl KeyChain {
    /// Creates the chain of the log named as the key `first`.
    ///
    /// # Errors
    /// When there are more than [`CHAIN_LINKS_MAX`] links, or the name is too long.
    pub fn new(first: &VerifierKey, links: Vec<Link>) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("chain of keys", 0, reason);
        if links.len() > CHAIN_LINKS_MAX || first.name().len() > ORIGIN_BYTES_MAX {
            return Err(error("has more key certificates than the limit"));
        }
        if links.iter().any(|link| link.heads.is_none()) {
            return Err(error(
                "is of a log of version 2, whose proofs list every key",
            ));
        }
        Ok(Self {
            log: first.name().into(),
            first: *first.key(),
            links,
        })
    }

    /// Returns the content of a chain file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let name = u16::try_from(self.log.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&name.to_le_bytes());
        out.extend_from_slice(self.log.as_bytes());
        out.extend_from_slice(&self.first);
        let links = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&links.to_le_bytes());
        encode_links(&self.links, &mut out);
        out
    }

    /// Reads the content of a chain file.
    ///
    /// # Errors
    /// If `content` is not exactly what [`KeyChain::encode`] writes.
    pub fn parse(content: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content, "chain of keys");
        if &reader.array::<4>()? != MAGIC || reader.u16()? != VERSION {
            return Err(reader.error("is no chain file of a known version"));
        }
        let name = usize::from(reader.u16()?);
        let name = str::from_utf8(reader.take(name)?).ok();
        let name = name.filter(|name| name.len() <= ORIGIN_BYTES_MAX);
        let log = name.ok_or_else(|| reader.error("has no name of a log"))?;
        let first = reader.array()?;
        let count = to_usize(reader.u32()?);
        if count > CHAIN_LINKS_MAX {
            return Err(reader.error("has more key certificates than the limit"));
        }
        let links = decode_links(count, Version::V3, &mut reader)?;
        reader.finish()?;
        Self::new(&VerifierKey::new(log, first)?, links)
    }

    /// Returns the log's name.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Returns the number of certificates.
    pub const fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns whether the log has only its first key.
    pub const fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns whether `key` is one of its keys, none of them verified.
    pub(super) fn holds(&self, key: &VerifierKey) -> bool {
        let mut later = self.links.iter();
        self.first == *key.key() || later.any(|link| link.successor == *key.key())
    }

    /// Returns the public key that it ends with, not verified.
    pub fn newest(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        let last = self.links.last();
        last.map_or(&self.first, |link| &link.successor)
    }

    /// Verifies the certificates after `known`, and returns its public key and those of all later
    /// keys.
    ///
    /// Takes one signature verification per certificate after `known`.
    ///
    /// # Errors
    /// When the chain does not contain `known`, or a certificate is not signed by the key before.
    pub fn follow(&self, known: &VerifierKey) -> Result<Vec<[u8; PUBLIC_KEY_BYTES]>, DecodeError> {
        let error = |reason| DecodeError::new("chain of keys", 0, reason);
        let successors = self.links.iter().map(|link| link.successor);
        let mut keys = core::iter::once(self.first).chain(successors);
        let place = keys.position(|key| key == *known.key());
        let place = place.ok_or_else(|| error("does not hold the key given"))?;
        let mut key = VerifierKey::new(&self.log, *known.key())?;
        let mut met = Vec::from([*key.key()]);
        for link in self.links.get(place..).unwrap_or_default() {
            key = link.follow(&key)?;
            met.push(*key.key());
        }
        Ok(met)
    }
}
