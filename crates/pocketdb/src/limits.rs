//! The fixed bounds of the store; `docs/pocketdb.md` gives the reasons.

/// Reorganised parts that queries read beside each other.
pub const PARTS_MAX: usize = 3;
/// Tables of one store, the two hidden ones for deletes and updates included.
pub const TABLES_MAX: usize = 18;
/// Columns of one table.
pub const COLUMNS_MAX: usize = 32;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 48;
/// Bytes of an indexed value.
pub const KEY_BYTES_MAX: usize = 128;
/// Rows of one unit: they move from the commit buffer to their place together.
pub const UNIT_ROWS: u32 = 192;
/// Blocks of the commit buffer at which the waiting rows are written again, densely.
pub const BUFFER_BLOCKS_MAX: usize = 24;
/// Failed blocks that the engine keeps count of.
pub const BAD_BLOCKS_MAX: usize = 128;
/// Records in the ring of the secure store.
pub const RECORD_SLOTS: usize = 64;
/// Bytes of one record of the secure store.
pub const ROOT_RECORD_BYTES: usize = 384;
/// Indexes of one store, the three of the hidden tables included.
pub const INDEXES_MAX: usize = 160;
/// Units whose filters and pointers one filter page holds: its own and those before it.
pub const FILTER_UNITS: u32 = 3;
/// Bytes of the catalogue: the names, types and references of all tables.
pub const CATALOGUE_BYTES_MAX: usize = 8 * 1024;
/// Least memory an engine can be given.
pub const MEMORY_BYTES_MIN: usize = 24 * 1024;
/// Tests in the condition of a statement.
pub const TESTS_MAX: usize = 24;
/// Values in the conditions, rows and changes of a statement.
pub const VALUES_MAX: usize = 96;
/// Lists of ids that a statement merges.
pub const STREAMS_MAX: usize = 24;
/// Columns that a query reads, and that it shows, the hidden ones for ordering included.
pub const OUTPUTS_MAX: usize = 40;
/// Columns to group or order by.
pub const KEYS_MAX: usize = 8;
/// Bytes of a statement's text.
pub const STATEMENT_BYTES_MAX: usize = 4 * 1024;
/// Depth of parentheses in a condition.
pub const DEPTH_MAX: u32 = 12;
