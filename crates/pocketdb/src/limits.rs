//! The fixed bounds of the store; `docs/pocketdb.md` gives the reasons.

/// Tables of one store.
pub const TABLES_MAX: usize = 18;
/// Rows of one unit: they move from the commit buffer to their place together.
pub const UNIT_ROWS: u32 = 192;
/// Blocks of the commit buffer, used in a ring.
pub const BUFFER_BLOCKS: u32 = 32;
/// Records in the ring of the secure store.
pub const RECORD_SLOTS: usize = 64;
/// Bytes of one record of the secure store.
pub const ROOT_RECORD_BYTES: usize = 256;
/// Indexes of one store.
pub const INDEXES_MAX: usize = 64;
/// Units whose filters and pointers one filter page holds: its own and those before it.
pub const FILTER_UNITS: u32 = 3;
