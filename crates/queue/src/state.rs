//! The atomic word of a chunk: its committed length and record count, and the flags that control
//! access to its memory.

use std::fmt;

const LEN_BITS: u32 = 32;
const RECORDS_BITS: u32 = 29;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;
const RECORDS_ONE: u64 = 1 << LEN_BITS;

/// Greatest number of records in a chunk.
pub(crate) const RECORDS_MAX: u32 = (1 << RECORDS_BITS) - 1;

/// Set once the chunk is closed: nothing more is committed.
pub(crate) const CLOSED: u64 = 1 << (LEN_BITS + RECORDS_BITS);
/// Set while the producer may write beyond the committed bytes.
pub(crate) const WRITING: u64 = CLOSED << 1;
/// Set once the reader is done.
pub(crate) const READ: u64 = CLOSED << 2;

const _: () = assert!(
    LEN_BITS + RECORDS_BITS + 3 == u64::BITS,
    "the word is used up"
);

/// A value of the word: committed bytes in the low 32 bits, committed records in the next 29, then
/// three flags.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// Returns the number of committed bytes.
    pub(crate) const fn len(self) -> u32 {
        (self.0 & LEN_MASK) as u32
    }

    /// Returns the number of committed records.
    pub(crate) const fn records(self) -> u32 {
        (self.0 >> LEN_BITS) as u32 & RECORDS_MAX
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(crate) const fn is_writing(self) -> bool {
        self.0 & WRITING != 0
    }

    pub(crate) const fn is_read(self) -> bool {
        self.0 & READ != 0
    }

    /// Returns this state with one more record of `bytes` bytes; `None` if that exceeds `bytes_max`
    /// bytes or [`RECORDS_MAX`].
    pub(crate) fn with_record(self, bytes: usize, bytes_max: usize) -> Option<Self> {
        let len = u64::from(self.len()).checked_add(u64::try_from(bytes).ok()?)?;
        if len > u64::try_from(bytes_max).ok()? || self.records() == RECORDS_MAX {
            return None;
        }
        debug_assert!(len <= LEN_MASK, "a chunk's size fits the word");
        Some(Self((self.0 & !LEN_MASK | len) + RECORDS_ONE))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("len", &self.len())
            .field("records", &self.records())
            .field("closed", &self.is_closed())
            .field("writing", &self.is_writing())
            .field("read", &self.is_read())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_changes_only_length_and_count() {
        let state = State(WRITING).with_record(10, 64).unwrap();
        assert_eq!((state.len(), state.records()), (10, 1));
        assert!(state.is_writing() && !state.is_closed() && !state.is_read());
        assert_eq!(state.with_record(55, 64), None);
        assert_eq!(state.with_record(54, 64).unwrap().len(), 64);
        assert_eq!(state.with_record(usize::MAX, 64), None);
    }

    #[test]
    fn the_record_count_stops_at_its_limit() {
        let last = State(RECORDS_ONE * u64::from(RECORDS_MAX - 1))
            .with_record(0, 1)
            .unwrap();
        assert_eq!(last.records(), RECORDS_MAX);
        assert!(!last.is_closed());
        assert_eq!(last.with_record(0, 1), None);
    }
}
