//! The fixed limits of the store; `docs/pocketdb.md` gives the reasons.

/// Greatest number of reorganised parts.
pub const PARTS_MAX: usize = 3;
/// Greatest number of tables of a store, including the two hidden ones for deletes and updates.
pub const TABLES_MAX: usize = 18;
/// Greatest number of columns of a table.
pub const COLUMNS_MAX: usize = 32;
/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 48;
/// Greatest width of a row, in bytes: 8 for each number, 4 for each table that it leads to, and the
/// length of each text column.
pub const ROW_BYTES_MAX: usize = 1_997;
/// Longest indexed value, in bytes.
pub const KEY_BYTES_MAX: usize = 128;
/// Number of rows of a unit: they are moved from the commit buffer together.
pub const UNIT_ROWS: u32 = 192;
/// Number of commit buffer blocks at which the waiting rows are rewritten densely.
pub const BUFFER_BLOCKS_MAX: usize = 24;
/// Greatest number of failed blocks.
pub const BAD_BLOCKS_MAX: usize = 128;
/// Number of records in the ring of the secure store.
pub const RECORD_SLOTS: usize = 64;
/// Length of a record in the secure store, in bytes.
pub const ROOT_RECORD_BYTES: usize = 384;
/// Greatest number of indexes of a store, including the three of the hidden tables.
pub const INDEXES_MAX: usize = 160;
/// Number of units whose filters and pointers one filter page contains: its own and those before
/// it.
pub const FILTER_UNITS: u32 = 3;
/// Longest encoded catalogue, in bytes: the names, types and references of all tables.
pub const CATALOGUE_BYTES_MAX: usize = 8 * 1024;
/// Least memory of an engine, in bytes.
pub const MEMORY_BYTES_MIN: usize = 24 * 1024;
/// Greatest number of tests in the condition of a statement.
pub const TESTS_MAX: usize = 24;
/// Greatest number of values in the conditions, rows and changes of a statement.
pub const VALUES_MAX: usize = 96;
/// Greatest number of lists of ids that a statement merges.
pub const STREAMS_MAX: usize = 24;
/// Greatest number of columns that a query reads, and of columns that it shows, including hidden
/// ones for ordering.
pub const OUTPUTS_MAX: usize = 40;
/// Greatest number of columns to group or order by.
pub const KEYS_MAX: usize = 8;
/// Longest text of a statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 4 * 1024;
/// Greatest depth of parentheses in a condition.
pub const DEPTH_MAX: u32 = 12;
