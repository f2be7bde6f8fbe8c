//! Every bound of the store, in one place.

/// Databases, as a Redis server has by default.
pub const DATABASES: usize = 16;
/// Longest value, key, field or member, in bytes; what Redis itself accepts.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;
/// Longest value kept beside its key instead of in chunks, in bytes.
pub const SHORT_BYTES_MAX: usize = 2 << 10;
/// Bytes of one chunk of a long value: with its key it just fits eight pages.
pub const CHUNK_BYTES: u64 = (32 << 10) - 512;
/// Rows of a removed value that are removed at once; the sweep removes those of larger ones.
pub const ROWS_AT_ONCE_MAX: u64 = 512;
/// Expired keys, and rows of removed values, that one sweep removes.
pub const SWEEP_ROWS_MAX: usize = 4096;
/// Time between two sweeps, in milliseconds.
pub const SWEEP_MILLISECONDS: u64 = 100;
/// Least time between two wipings of free blocks, in milliseconds.
pub const WIPE_MILLISECONDS: u64 = 200;
/// The pause after a wiping, as a multiple of its duration.
pub const WIPE_PAUSE_FACTOR: u32 = 20;
/// Milliseconds until free blocks are wiped again after the disk had no room for it.
pub const WIPE_RETRY_MILLISECONDS: u64 = 5000;
/// Blocks that are looked at while the file is locked for a wiping.
pub const WIPED_AT_ONCE: u64 = 64;
/// Longest time in milliseconds that a change waits for the disk where commands do not wait for it.
pub const SYNC_MILLISECONDS: u64 = 1000;
/// Requests that are executed before their changes are made durable together.
pub const GROUP_REQUESTS_MAX: usize = 1024;
/// Longest time in milliseconds that requests are executed before their changes are made durable
/// together.
pub const GROUP_MILLISECONDS: u64 = 50;
/// Longest turn of one request, in milliseconds. A command that began before its end is carried out
/// whole.
pub const TURN_MILLISECONDS: u64 = 10;
/// Bytes of replies after which the rest of a request's commands wait for their next turn.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of one reply after which nothing more is put into it; a value that begins before is returned whole. It is also what
/// a command may gather in memory before it answers or writes.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// Bytes of memory that an element takes beside its own bytes.
pub(crate) const ELEMENT_BYTES: usize = 32;
/// Commands of one transaction.
pub const QUEUED_COMMANDS_MAX: usize = 1 << 20;
/// Bytes of one transaction's commands.
pub const QUEUED_BYTES_MAX: usize = 1 << 30;
/// Default bytes of all clients' transactions, long commands, watched keys and unread replies together.
pub const WAITING_BYTES_MAX: usize = 1 << 30;
/// Bytes up to which a command outside transactions, the keys that a client watches, or replies do not count there.
pub const FREE_BYTES: usize = 64 << 10;
/// Bytes of memory that a watched key takes beside its own bytes. They are its places in the
/// client's list and in the list of all watched keys, and an allocation; the lists are up to half
/// empty.
pub(crate) const WATCHED_KEY_BYTES: usize = 256;
/// Keys that one client watches.
pub const WATCHED_KEYS_MAX: usize = 1 << 16;
/// Default memory for pages of the file, in bytes.
pub const CACHE_BYTES: usize = 256 << 20;
/// Elements up to which a random one is drawn by counting; of more, by a random place and steps.
pub const COUNTED_DRAW_MAX: u64 = 256;
/// Steps from a random place, so that gaps between places even out.
pub const DRAW_STEPS: u64 = 64;
/// Default elements that one SCAN looks at.
pub const SCAN_COUNT: u64 = 10;
/// The store's format version.
pub const FORMAT_VERSION: u32 = 5;
/// Keys of subjects that are made at once.
pub const SLOTS_AT_ONCE: u64 = 256;
/// Keys of subjects that are kept at hand.
pub const SUBJECTS_OPEN_MAX: usize = 4096;
/// Sizes of collections up to which OBJECT ENCODING answers as a Redis server.
pub const LISTPACK_ENTRIES_MAX: u64 = 128;
/// The longest element of a collection in Redis' compact form, in bytes.
pub const LISTPACK_VALUE_BYTES_MAX: usize = 64;
/// Most members of a set of integers in Redis' compact form.
pub const INTSET_ENTRIES_MAX: u64 = 512;
/// Most elements drawn by one command that may draw the same element again.
pub const DRAWN_MAX: u64 = 1 << 20;
