//! Watching a work of many rows.

/// Watches a work of many rows or entries, and may end one that reads a file.
pub trait Observer {
    /// Takes note of a row or an entry that was taken; `number` is its number within its table, its
    /// file or its log, from 1.
    fn took(&mut self, number: u64);

    /// Returns whether to stop before the next row. Only [`Import::read`](crate::Import::read) asks:
    /// half of another database or of a log is of no use.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Watches nothing.
impl Observer for () {
    fn took(&mut self, _number: u64) {}
}
