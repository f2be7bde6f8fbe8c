//! Authenticates data that a process keeps beside a log for the next one that opens it.

use std::fmt;

use probity_format::keys::NoteKey;

/// Tells data that holders of a log's keys wrote for one purpose from everything else.
///
/// Older content stays authentic: content that must not be put back needs a rule of its own.
pub struct Authenticator {
    key: NoteKey,
    /// Stands before the content, so that a tag for another purpose never fits.
    domain: &'static str,
}

impl Authenticator {
    pub(crate) const fn new(key: NoteKey, domain: &'static str) -> Self {
        Self { key, domain }
    }

    /// HMAC-SHA-256 of `content`.
    pub fn tag(&self, content: &[u8]) -> [u8; 32] {
        self.key.tag(&self.tagged(content))
    }

    /// Returns whether `tag` is the tag of `content`, in constant time.
    pub fn matches(&self, content: &[u8], tag: &[u8]) -> bool {
        self.key.matches(&self.tagged(content), tag)
    }

    fn tagged(&self, content: &[u8]) -> Vec<u8> {
        [self.domain.as_bytes(), b"\n", content].concat()
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}
