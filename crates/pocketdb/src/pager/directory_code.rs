//! The code of the directory: each record has one over the entries that it counts.
//!
//! It is the exclusive or of a code for each entry, so that a commit adds one entry without reading
//! the others. Entries that a record counts are not written again while it is the newest one. What
//! stands in other entries was left by an attempt without a record, and nothing reads it.

use crate::limits::{INDEXES_MAX, TABLES_MAX};
use crate::pager::bytes::{has_bit, part, put, set_bit, take};
use crate::pager::commit::Root;
use crate::pager::directory::{CHUNK_ENTRIES, NOBODY, TEMPORARY};
use crate::pager::error::Result;
use crate::pager::flash::BLOCK_PAGES;
use crate::pager::generations::keys_code;
use crate::pager::root::{DIRECTORY_AT, DIRECTORY_ENTRY_BYTES, RootRecord, SecureStore};
use crate::pager::side::{Side, side_number};

/// Length of the code of a directory in bytes.
pub(crate) const DIRECTORY_CODE_BYTES: usize = 12;
/// The code of a directory or of one entry.
pub(crate) type DirectoryCode = [u8; DIRECTORY_CODE_BYTES];
/// The bytes of an entry.
pub(crate) type EntryBytes = [u8; DIRECTORY_ENTRY_BYTES];

/// Greatest number of sections of a table.
pub(crate) const SECTIONS_MAX: u32 = 35;
/// Greatest number of entries of a part: one for each index and each section.
const CONTENTS_MAX: usize = INDEXES_MAX + TABLES_MAX * SECTIONS_MAX as usize;
/// Offset and length of the number in an entry that counts before the entry is complete.
const EPOCH_AT: usize = 4;
const EPOCH_BYTES: usize = 8;
/// Number of bytes of a chunk that are read at once.
const PIECE_BYTES: usize = 256;
const PIECE_ENTRIES: u32 = 16;
const _: () = assert!(PIECE_ENTRIES as usize * DIRECTORY_ENTRY_BYTES == PIECE_BYTES);

/// As much of an entry as counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nothing,
    Epoch,
    All,
}

/// The entries of the part being built that its tasks have written, and those whose epoch was
/// written when it began.
pub(crate) struct Written {
    complete: [u8; CONTENTS_MAX.div_ceil(8)],
    begun: [u8; CONTENTS_MAX.div_ceil(8)],
}

impl Written {
    /// Returns the entries of a part without any.
    pub(crate) fn nothing() -> Self {
        Self {
            complete: [0; CONTENTS_MAX.div_ceil(8)],
            begun: [0; CONTENTS_MAX.div_ceil(8)],
        }
    }

    /// Adds an entry whose epoch was written when the part was begun.
    pub(crate) fn begin(&mut self, number: u32) {
        set_bit(&mut self.begun, number as usize);
    }

    /// Adds an entry that a task has written.
    pub(crate) fn complete(&mut self, number: u32) {
        set_bit(&mut self.complete, number as usize);
    }

    fn counted(&self, number: u32) -> Counted {
        let number = number as usize;
        if number >= CONTENTS_MAX {
            Counted::Nothing
        } else if has_bit(&self.complete, number) {
            Counted::All
        } else if has_bit(&self.begun, number) {
            Counted::Epoch
        } else {
            Counted::Nothing
        }
    }
}

/// Returns as much of the entry `number` of `owner` as `record` counts.
fn counted(record: &RootRecord, written: &Written, owner: u8, number: u32) -> Counted {
    let all_below = |count: u32| {
        if number < count {
            Counted::All
        } else {
            Counted::Nothing
        }
    };
    if usize::from(owner) < TABLES_MAX {
        return all_below(record.units(owner));
    }
    let (side, state) = (Side::new(side_number(owner)), &record.part);
    let is_of_side = |side_of_level: u8| Side::new(side_of_level) == side;
    let live = state.live().iter().find(|level| is_of_side(level.side));
    let next = (state.building && is_of_side(state.next.side)).then_some(&state.next);
    let Some(level) = live.or(next) else {
        return Counted::Nothing;
    };
    match owner {
        _ if owner == side.body => all_below(level.body.div_ceil(BLOCK_PAGES)),
        _ if owner == side.lists => all_below(level.lists.div_ceil(BLOCK_PAGES)),
        _ if live.is_some() => Counted::All,
        _ => written.counted(number),
    }
}

/// Returns an entry without what does not count.
fn reduced(bytes: &EntryBytes, counted: Counted) -> EntryBytes {
    let mut left = EntryBytes::default();
    match counted {
        Counted::Nothing => {}
        Counted::Epoch => put(&mut left, EPOCH_AT, part(bytes, EPOCH_AT, EPOCH_BYTES)),
        Counted::All => left = *bytes,
    }
    left
}

/// Adds the code of an entry to that of others, or takes it away.
pub(crate) fn toggle(sum: &mut DirectoryCode, code: DirectoryCode) {
    for (byte, other) in sum.iter_mut().zip(code) {
        *byte ^= other;
    }
}

impl<S: SecureStore> Root<S> {
    /// Computes the code of the directory and of the secrets of generations for `record`, which names the
    /// present structure.
    pub(crate) fn directory_code(
        &mut self,
        record: &RootRecord,
        written: &Written,
    ) -> Result<DirectoryCode> {
        let slot = if self.begins_generation(record) {
            self.chain.other()
        } else {
            self.chain
        };
        let mut sum = self.entries_code(record, written)?;
        let keys = keys_code(&mut self.secure, &mut self.seal, &record.part, slot)?;
        toggle(&mut sum, keys);
        Ok(sum)
    }

    /// Computes the code of the entries that `record` counts.
    pub(crate) fn entries_code(
        &mut self,
        record: &RootRecord,
        written: &Written,
    ) -> Result<DirectoryCode> {
        let mut sum = DirectoryCode::default();
        self.for_entries(|root, (owner, number), _, bytes| {
            let left = reduced(bytes, counted(record, written, owner, number));
            if left != EntryBytes::default() {
                toggle(&mut sum, root.seal.entry_code(owner, number, &left));
            }
            Ok(())
        })?;
        Ok(sum)
    }

    /// Overwrites with zeros what the newest record does not count. A loss of power in between
    /// changes nothing that counts.
    pub(crate) fn clear_uncounted(&mut self, written: &Written) -> Result<()> {
        let record = self.committed;
        self.for_entries(|root, (owner, number), at, bytes| {
            let left = reduced(bytes, counted(&record, written, owner, number));
            if left == *bytes {
                return Ok(());
            }
            Ok(root.secure.write(at, &left)?)
        })
    }

    /// Calls `each` with owner, number, place and bytes of every entry that is not zero, apart from
    /// those of temporary logs.
    fn for_entries(
        &mut self,
        mut each: impl FnMut(&mut Self, (u8, u32), usize, &EntryBytes) -> Result<()>,
    ) -> Result<()> {
        for chunk in 0..self.chunks() {
            let (owner, rank) = self.chunk_owner_at(chunk)?;
            if owner == NOBODY || owner == TEMPORARY {
                continue;
            }
            for first in (0..CHUNK_ENTRIES).step_by(PIECE_ENTRIES as usize) {
                let slot = chunk * CHUNK_ENTRIES as usize + first as usize;
                let at = DIRECTORY_AT + slot * DIRECTORY_ENTRY_BYTES;
                let mut piece = [0; PIECE_BYTES];
                self.secure.read(at, &mut piece)?;
                let entries = piece.chunks_exact(DIRECTORY_ENTRY_BYTES);
                for (place, bytes) in (0..PIECE_ENTRIES).zip(entries) {
                    let bytes: EntryBytes = take(bytes, 0);
                    if bytes != EntryBytes::default() {
                        let number = rank * CHUNK_ENTRIES + first + place;
                        let at = at + place as usize * DIRECTORY_ENTRY_BYTES;
                        each(self, (owner, number), at, &bytes)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::bytes::u64_at;

    #[test]
    fn of_an_entry_that_is_not_complete_its_epoch_counts_alone() {
        let bytes = core::array::from_fn(|at| u8::try_from(at + 1).unwrap());
        assert_eq!(reduced(&bytes, Counted::All), bytes);
        assert_eq!(reduced(&bytes, Counted::Nothing), [0; 16]);
        let left = reduced(&bytes, Counted::Epoch);
        assert_eq!(u64_at(&left, EPOCH_AT), u64_at(&bytes, EPOCH_AT));
        assert_eq!(
            (part(&left, 0, 4), part(&left, 12, 4)),
            (&[0; 4][..], &[0; 4][..])
        );
    }
}
