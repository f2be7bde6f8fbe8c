//! What is fixed when a log is created (`Geometry`, `StreamConfig`) and what each start may choose (`Options`).

use std::fmt;
use std::time::Duration;

use probity_format::limits::{ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX, STREAM_NAME_BYTES_MAX};

/// When an append counts as done, and so what a crash can take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Every append is followed by a sync at once; replies wait for it. Nothing acknowledged is lost.
    Strict,
    /// Syncs happen at most [`Options::group_interval`] apart; at most that much is lost.
    #[default]
    Group,
    /// The operating system decides; only explicit flushes and closing sync.
    Relaxed,
}

impl Durability {
    /// The word used on the command line and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Group => "group",
            Self::Relaxed => "relaxed",
        }
    }
}

/// What the leaves of the tree inside a frame are; decides what can be proved and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proofs {
    /// One leaf an entry: a single entry can be proved alone.
    Entry,
    /// One leaf a sealed section: a subject's section of a frame can be proved alone.
    #[default]
    Section,
    /// The sealed frame is one leaf.
    Frame,
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
}

impl Default for Compression {
    fn default() -> Self {
        Self::DEFAULT
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

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no stream name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no stream name: use 1 to {STREAM_NAME_BYTES_MAX} of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit"
)]
pub struct StreamNameError(String);

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

/// What each start may choose; never changes bytes already written.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Options {
    /// When an append counts as done.
    pub durability: Durability,
    /// Longest time between a group-durable append and its sync.
    pub group_interval: Duration,
    /// Threads that compress, encrypt and hash.
    pub sealers: usize,
    /// Most entries cut into one frame.
    pub frame_entries_max: u32,
    /// Bytes of rows at which a frame is cut.
    pub frame_rows_bytes: usize,
    /// Age at which entries are cut into a frame even when it is small.
    pub batch_age_max: Duration,
    /// Bytes of memory for entries that are not sealed yet; full means that appends wait.
    pub queue_bytes: usize,
    /// How long an append waits for room before it fails.
    pub append_timeout: Duration,
    /// Size at which a segment is closed and the next begun.
    pub segment_bytes_max: u64,
    /// Most segment files kept open at once.
    pub open_files_max: usize,
    /// Time between checkpoints while entries arrive.
    pub checkpoint_interval: Duration,
    /// Frames after which a stream begins a new key epoch.
    pub epoch_frames_max: u64,
    /// Times a transient I/O error is retried, with doubled waits from [`Options::retry_wait`].
    pub retries: u32,
    /// First wait before a retry.
    pub retry_wait: Duration,
    /// Where the last signed heads are kept a second time; default: `DIR.heads` beside the log.
    pub heads: Option<std::path::PathBuf>,
}

impl Options {
    /// Default number of sealers.
    pub const SEALERS: usize = 2;
    /// Default bytes for entries not sealed yet.
    pub const QUEUE_BYTES: usize = 64 * ENTRY_BYTES_MAX;
    /// Default bytes of rows in a frame.
    pub const FRAME_ROWS_BYTES: usize = 4 * ENTRY_BYTES_MAX;
    /// Default segment size.
    pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Group,
            group_interval: Duration::from_millis(10),
            sealers: Self::SEALERS,
            frame_entries_max: FRAME_ENTRIES_MAX,
            frame_rows_bytes: Self::FRAME_ROWS_BYTES,
            batch_age_max: Duration::from_millis(5),
            queue_bytes: Self::QUEUE_BYTES,
            append_timeout: Duration::from_secs(10),
            segment_bytes_max: Self::SEGMENT_BYTES_MAX,
            open_files_max: 128,
            checkpoint_interval: Duration::from_secs(1),
            epoch_frames_max: 1 << 20,
            retries: 5,
            retry_wait: Duration::from_millis(1),
            heads: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "A",
            "-x",
            "_x",
            "a b",
            "a\0",
            &"x".repeat(129),
        ] {
            assert!(StreamName::new(bad).is_err(), "{bad:?}");
        }
        for good in [
            "default",
            "acme.crm.365.login",
            "0",
            "a-b_c",
            &"x".repeat(128),
        ] {
            assert_eq!(StreamName::new(good).unwrap().as_str(), good);
        }
    }
}
