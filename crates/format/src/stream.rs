//! The name of a stream, and the identity that binds it and its configuration to its log.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt;

use sha2::{Digest as _, Sha256};

pub use crate::config::{Cipher, Label, Proofs, RETENTION_DAYS_MAX, StreamConfig};
use crate::limits::STREAM_NAME_BYTES_MAX;
use crate::version::Version;

/// The name of a stream: path-safe, and therefore also its folder's name.
///
/// 1 to [`STREAM_NAME_BYTES_MAX`] bytes of lower-case ASCII letters, digits, `-`, `_` and `.`,
/// beginning with a letter or digit; tenant, module, retention and tag are by convention joined with `.`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(String);

impl StreamName {
    /// The stream that entries go to when none is named.
    pub const DEFAULT: &'static str = "default";
    /// The log about the log; only the log itself appends to it.
    pub const JOURNAL: &'static str = "journal";
    /// The heads of all other streams as they were published; only the log itself appends to it.
    pub const HEADS: &'static str = "heads";

    /// The name `text`, if it is one.
    ///
    /// # Errors
    /// [`StreamNameError`] when it is empty, too long, or holds anything else than the letters allowed.
    pub fn new(text: &str) -> Result<Self, StreamNameError> {
        let error = || StreamNameError(text.chars().take(STREAM_NAME_BYTES_MAX).collect());
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let first = text.bytes().next().ok_or_else(error)?;
        let starts_well = first.is_ascii_lowercase() || first.is_ascii_digit();
        if !starts_well || text.len() > STREAM_NAME_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(error());
        }
        Ok(Self(text.to_owned()))
    }

    /// The name [`StreamName::JOURNAL`].
    pub fn journal() -> Self {
        Self(Self::JOURNAL.to_owned())
    }

    /// The name [`StreamName::HEADS`].
    pub fn heads() -> Self {
        Self(Self::HEADS.to_owned())
    }

    /// Whether only the log itself appends to the stream of this name; a log of version 2 has no `heads` of its own.
    pub fn is_built_in(&self, version: Version) -> bool {
        self.0 == Self::JOURNAL || self.0 == Self::HEADS && version != Version::V2
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for StreamName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no stream name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamNameError(String);

impl fmt::Display for StreamNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no stream name: use 1 to {STREAM_NAME_BYTES_MAX} of a-z, 0-9, '-', '_' and '.', \
             beginning with a letter or digit",
            self.0
        )
    }
}

impl core::error::Error for StreamNameError {}

/// A stream's identity: 32 bytes that bind its name and configuration to its log's geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId([u8; 32]);

impl StreamId {
    /// The identity of stream `name` with `config` in the log with `fingerprint`.
    ///
    /// `docs/format.md`, "Stream identity".
    pub fn new(fingerprint: &[u8; 32], name: &StreamName, config: &StreamConfig) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"probity stream v1\n");
        hash.update(fingerprint);
        hash.update(format!("{config}\n{name}\n"));
        Self(hash.finalize().into())
    }

    /// The identity stored in a header.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        let long = "x".repeat(129);
        for bad in [
            "", ".", "..", "../x", "a/b", "A", "-x", "_x", "a b", "a\0", &long,
        ] {
            assert!(StreamName::new(bad).is_err(), "{bad:?}");
        }
        for good in ["default", "acme.crm.365.login", "0", "a-b_c", &long[1..]] {
            assert_eq!(StreamName::new(good).unwrap().as_str(), good);
        }
    }
}
