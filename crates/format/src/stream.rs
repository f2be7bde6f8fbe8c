//! What is fixed for a stream when it is created, and the identity that binds it to its log.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt;

use sha2::{Digest as _, Sha256};

use crate::limits::STREAM_NAME_BYTES_MAX;
use crate::version::Version;

/// What the leaves of the tree inside a frame are; decides what can be proved and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proofs {
    /// One more tree over the entries: a single entry can be proved alone.
    Entry,
    /// One leaf a sealed section: a subject's section of a frame can be proved alone.
    #[default]
    Section,
    /// The sealed frame is one leaf.
    Frame,
}

impl Proofs {
    /// Every mode, in the order of its code on disk.
    pub const ALL: [Self; 3] = [Self::Entry, Self::Section, Self::Frame];

    /// The word used on the command line, in the configuration and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Section => "section",
            Self::Frame => "frame",
        }
    }

    /// The byte that stands for it on disk.
    pub const fn code(self) -> u8 {
        match self {
            Self::Entry => 0,
            Self::Section => 1,
            Self::Frame => 2,
        }
    }

    /// The mode that `code` stands for, if any.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|proofs| proofs.code() == code)
    }

    /// The mode named `word`, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proofs| proofs.as_str() == word)
    }
}

/// The cipher of a stream's sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256-GCM under a key derived for each section.
    #[default]
    Aes256Gcm,
    /// No encryption: for measurements and for the journal, which holds no personal data.
    DangerNone,
}

impl Cipher {
    /// Every cipher.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::DangerNone];

    /// The word used on the command line, in the configuration and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::DangerNone => "danger-none",
        }
    }

    /// The byte that stands for it on disk.
    pub const fn code(self) -> u8 {
        match self {
            Self::DangerNone => 0,
            Self::Aes256Gcm => 1,
        }
    }

    /// The cipher that `code` stands for, if any.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.code() == code)
    }

    /// The cipher named `word`, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.as_str() == word)
    }
}

/// The compressor of a stream's sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Zstandard at this level, 1..=19.
    Zstd(u8),
    /// LZ4, for the lowest latency.
    Lz4,
    /// None.
    None,
}

impl Compression {
    /// The default: Zstandard level 1.
    pub const DEFAULT: Self = Self::Zstd(1);
    /// The highest Zstandard level.
    pub const ZSTD_LEVEL_MAX: u8 = 19;

    /// The compressor named `word`: `zstd:N`, `lz4` or `none`; a bare level 0..=19 means Zstandard, 0 none.
    pub fn from_word(word: &str) -> Option<Self> {
        let level = |digits: &str| {
            digits
                .parse()
                .ok()
                .filter(|l| (0..=Self::ZSTD_LEVEL_MAX).contains(l))
        };
        match word {
            "lz4" => Some(Self::Lz4),
            "none" => Some(Self::None),
            _ => match level(word.strip_prefix("zstd:").unwrap_or(word))? {
                0 => Some(Self::None),
                level => Some(Self::Zstd(level)),
            },
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Lz4 => f.write_str("lz4"),
            Self::None => f.write_str("none"),
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What is fixed for a stream when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct StreamConfig {
    /// What can be proved.
    pub proofs: Proofs,
    /// How sections are sealed.
    pub cipher: Cipher,
    /// How sections are compressed.
    pub compression: Compression,
    /// Whether keys and payloads are sealed under keys of their subjects, so that one can be erased.
    pub erasable: bool,
}

impl StreamConfig {
    /// The configuration of the built-in streams: in clear, because everybody must be able to check them.
    pub const JOURNAL: Self = Self {
        proofs: Proofs::Section,
        cipher: Cipher::DangerNone,
        compression: Compression::None,
        erasable: false,
    };

    /// The configuration written as [`fmt::Display`] writes it, if `text` is that.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut value = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
        let config = Self {
            proofs: Proofs::from_word(value("proofs")?)?,
            cipher: Cipher::from_word(value("cipher")?)?,
            compression: Compression::from_word(value("compression")?)?,
            erasable: value("erasable")? == "yes",
        };
        (format!("{config}") == text).then_some(config)
    }
}

impl fmt::Display for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "proofs={} cipher={} compression={} erasable={}",
            self.proofs.as_str(),
            self.cipher.as_str(),
            self.compression,
            if self.erasable { "yes" } else { "no" }
        )
    }
}

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

    #[test]
    fn configurations_have_one_text_each() {
        for proofs in Proofs::ALL {
            for cipher in Cipher::ALL {
                for compression in [Compression::Zstd(19), Compression::Lz4, Compression::None] {
                    for erasable in [false, true] {
                        let config = StreamConfig {
                            proofs,
                            cipher,
                            compression,
                            erasable,
                        };
                        let text = format!("{config}");
                        assert_eq!(StreamConfig::from_text(&text), Some(config));
                        assert_eq!(StreamConfig::from_text(&format!("{text} ")), None);
                    }
                }
            }
        }
        assert_eq!(Compression::from_word("0"), Some(Compression::None));
        assert_eq!(Compression::from_word("zstd:20"), None);
    }
}
