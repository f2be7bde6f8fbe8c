//! The options of each start (`Options`). Settings fixed at creation are `format`'s geometry and
//! stream configuration.

use std::time::Duration;

use probity_format::compress::Compression;
use probity_format::limits::{ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX};

/// The moment at which an append counts as done, which decides what a crash can take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Every append is followed by a sync at once, and its receipt comes after it. Nothing with a
    /// receipt is lost.
    Strict,
    /// A sync begins at most [`Options::group_interval`] after a frame was written, and receipts
    /// come after it. Nothing with a receipt is lost.
    #[default]
    Group,
    /// Receipts come when the frame is written. Flushes, checkpoints and closing sync. A power
    /// failure can take entries with receipts that were written since.
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

/// The options of one start; they never change bytes already written.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Options {
    /// The moment at which an append counts as done.
    pub durability: Durability,
    /// Longest time between a group-durable append and its sync.
    pub group_interval: Duration,
    /// The compression of sections of content.
    pub compression: Compression,
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
    /// True to open a log that has lost durable frames. The rest of them is set aside, and the
    /// journal records it.
    pub accept_loss: bool,
    /// True to accept a loss though the second copies of the heads are gone, too: a crash may have left
    /// a signed head there alone.
    pub accept_missing_copies: bool,
    /// The longest time an append waits for room before it fails.
    pub append_timeout: Duration,
    /// Size at which a segment is closed and the next begun.
    pub segment_bytes_max: u64,
    /// Most segment files kept open at once.
    pub open_files_max: usize,
    /// Time between checkpoints while entries arrive.
    pub checkpoint_interval: Duration,
    /// Longest time for which one key signs checkpoints; while nothing is signed, the next one
    /// waits.
    pub key_interval: Duration,
    /// Publications after which the next key signs, at any time; 0 means no limit.
    pub key_publications_max: u64,
    /// Entries with an idempotency key that each stream remembers, 200 bytes or so each; 0 turns
    /// the search for repeats off.
    pub idempotency_keys_max: usize,
    /// Bytes of frames, back from the end of a stream, that are read for its idempotency keys after
    /// an opening.
    pub idempotency_bytes_max: u64,
    /// Times a transient I/O error is retried, with doubled waits from [`Options::retry_wait`].
    pub retries: u32,
    /// First wait before a retry.
    pub retry_wait: Duration,
    /// The folder for the second copies of the last signed heads; default: `DIR.heads` beside the
    /// log.
    pub heads: Option<std::path::PathBuf>,
}

impl Options {
    /// Default number of sealers.
    pub const SEALERS: usize = 2;
    /// Default bytes for entries not sealed yet.
    pub const QUEUE_BYTES: usize = 64 * ENTRY_BYTES_MAX;
    /// Default bytes of rows in a frame.
    pub const FRAME_ROWS_BYTES: usize = 4 * ENTRY_BYTES_MAX;
    /// Default time for which one key signs.
    pub const KEY_INTERVAL: Duration = Duration::from_hours(1);
    /// Default number of keyed entries remembered.
    pub const IDEMPOTENCY_KEYS_MAX: usize = 1 << 16;
    /// Default bytes read for idempotency keys.
    pub const IDEMPOTENCY_BYTES_MAX: u64 = 64 << 20;
    /// Default segment size.
    pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Group,
            group_interval: Duration::from_millis(10),
            compression: Compression::DEFAULT,
            sealers: Self::SEALERS,
            frame_entries_max: FRAME_ENTRIES_MAX,
            frame_rows_bytes: Self::FRAME_ROWS_BYTES,
            batch_age_max: Duration::from_millis(3),
            queue_bytes: Self::QUEUE_BYTES,
            accept_loss: false,
            accept_missing_copies: false,
            append_timeout: Duration::from_secs(10),
            segment_bytes_max: Self::SEGMENT_BYTES_MAX,
            open_files_max: 128,
            checkpoint_interval: Duration::from_secs(1),
            key_interval: Self::KEY_INTERVAL,
            key_publications_max: 0,
            idempotency_keys_max: Self::IDEMPOTENCY_KEYS_MAX,
            idempotency_bytes_max: Self::IDEMPOTENCY_BYTES_MAX,
            retries: 5,
            retry_wait: Duration::from_millis(1),
            heads: None,
        }
    }
}
