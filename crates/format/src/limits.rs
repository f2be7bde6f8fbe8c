//! Every bound of the format, with the relations between them asserted at compile time.

use crate::version::Version;

/// The version of every header and record that this build writes.
pub const FORMAT_VERSION: u16 = Version::NEWEST.number();

/// Longest action word, in bytes.
pub const ACTION_BYTES_MAX: usize = 64;
/// Longest key (the location of the data in its store), in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Longest subject, controller, processor, actor, purpose, basis, submitter, rule or idempotency
/// key, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Greatest number of subjects of an entry.
pub const SUBJECTS_MAX: usize = 64;
/// Longest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 524_288;
/// Longest entry as a row (see `row`), in bytes.
pub const ENTRY_BYTES_MAX: usize = 1_048_576;
/// Greatest number of entries in a frame.
pub const FRAME_ENTRIES_MAX: u32 = 65_536;
/// Greatest number of bytes of rows in a frame.
pub const FRAME_ROWS_BYTES_MAX: usize = 8_388_608;
/// Longest sealed frame, in bytes; bounds what a reader allocates.
pub const FRAME_BYTES_MAX: usize = 33_554_432;
/// Greatest number of sections in a frame.
pub const FRAME_SECTIONS_MAX: usize = 65_537;
/// Longest stream name, in bytes.
pub const STREAM_NAME_BYTES_MAX: usize = 128;
/// Longest checkpoint text accepted, in bytes.
pub const CHECKPOINT_BYTES_MAX: usize = 65_536;
/// Greatest number of signature lines in a signed note.
pub const NOTE_SIGNATURES_MAX: usize = 64;
/// Longest leaf of a stream's tree (tlog-tiles stores its length in two bytes).
pub const LEAF_BYTES_MAX: usize = 65_535;
/// Longest extra data of a stand-alone proof, in bytes.
pub const PROOF_EXTRA_BYTES_MAX: usize = 50_331_648;
/// Greatest number of key certificates in an entry proof.
pub const PROOF_LINKS_MAX: usize = 16;
/// Number of them for a recipient whose key is not known: a proof stays within 4 KB after ten years of
/// hourly keys.
pub const PROOF_LINKS_DEFAULT: usize = 6;
/// Greatest number of key certificates in an entry proof of a log of version 2.
pub const PROOF_V1_LINKS_MAX: usize = 65_536;
/// Greatest number of key certificates in a chain file: one an hour for more than a hundred years.
pub const CHAIN_LINKS_MAX: usize = 1_048_576;
/// Longest chain file, in bytes.
pub const CHAIN_BYTES_MAX: usize = 268_435_456;
/// Longest entry proof as text, in bytes: its extra data in base64, its path and its checkpoint.
pub const ENTRY_PROOF_BYTES_MAX: usize = PROOF_EXTRA_BYTES_MAX / 3 * 4 + 2 * CHECKPOINT_BYTES_MAX;
/// Width of a full tile, in hashes.
pub const TILE_WIDTH: u64 = 256;
/// Earliest time accepted, in nanoseconds since 1970-01-01T00:00:00Z.
pub const TIME_MIN: i64 = 0;
/// Latest time accepted (2200-01-01T00:00:00Z), in nanoseconds since 1970-01-01T00:00:00Z.
pub const TIME_MAX: i64 = 7_258_118_400_000_000_000;

const _: () = assert!(
    KEY_BYTES_MAX + PAYLOAD_BYTES_MAX + SUBJECTS_MAX * (NAME_BYTES_MAX + 1) + 10 * NAME_BYTES_MAX
        < ENTRY_BYTES_MAX,
    "an entry with every field at its limit fits a row"
);
const _: () = assert!(
    ENTRY_BYTES_MAX <= FRAME_ROWS_BYTES_MAX,
    "the largest entry fits a frame"
);
const _: () = assert!(
    FRAME_ROWS_BYTES_MAX * 2 < FRAME_BYTES_MAX,
    "incompressible rows with their columns and tags fit a sealed frame"
);
const _: () = assert!(
    FRAME_BYTES_MAX + PROOF_V1_LINKS_MAX * 136 + 2 * STREAM_NAME_BYTES_MAX + 65_536
        < PROOF_EXTRA_BYTES_MAX,
    "a proof that shows a whole frame, behind the longest chain of keys, fits its bound"
);
