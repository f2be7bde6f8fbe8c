//! Stream names, and the identity that binds a stream's name and configuration to its log.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt;

use sha2::{Digest as _, Sha256};

pub use crate::config::{Cipher, Label, Proofs, RETENTION_DAYS_MAX, StreamConfig};
use crate::limits::STREAM_NAME_BYTES_MAX;
use crate::version::Version;

/// The name of a stream. It is path-safe, and also the name of the stream's folder.
///
/// The name has 1 to [`STREAM_NAME_BYTES_MAX`] bytes of lower-case ASCII letters, digits, `-`, `_`
/// and `.`, and begins with a letter or digit. By convention, tenant, module, retention and tag are
/// joined with `.`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(String);

impl StreamName {
    /// The stream for entries that name none.
    pub const DEFAULT: &'static str = "default";
    /// The stream of the log's own events; only the log itself appends to it.
    pub const JOURNAL: &'static str = "journal";
    /// The published heads of all other streams; only the log itself appends to it.
    pub const HEADS: &'static str = "heads";

    /// Checks `text` and creates the name.
    ///
    /// # Errors
    /// [`StreamNameError`] when it is empty, too long, or holds a character that is not allowed.
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

    /// Returns the name [`StreamName::JOURNAL`].
    pub fn journal() -> Self {
        Self(Self::JOURNAL.to_owned())
    }

    /// Returns the name [`StreamName::HEADS`].
    pub fn heads() -> Self {
        Self(Self::HEADS.to_owned())
    }

    /// Returns whether only the log itself appends to this stream. In version 2 `heads` is not
    /// built in.
    pub fn is_built_in(&self, version: Version) -> bool {
        self.0 == Self::JOURNAL || self.0 == Self::HEADS && version != Version::V2
    }

    /// Returns the name as text.
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
    /// Computes the identity of stream `name` with `config` in the log with `fingerprint`.
    ///
    /// `docs/format.md`, "Stream identity".
    pub fn new(fingerprint: &[u8; 32], name: &StreamName, config: &StreamConfig) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"probity stream v1\n");
        hash.update(fingerprint);
        hash.update(format!("{config}\n{name}\n"));
        Self(hash.finalize().into())
    }

    /// Creates an identity from the bytes in a header.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the identity's bytes.
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
