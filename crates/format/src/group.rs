//! Rows grouped by their set of subjects, as the sections of an erasable stream hold them.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use crate::column::SUBJECTS;
use crate::content::{PSEUDONYM_BYTES, referred};
use crate::error::DecodeError;
use crate::frame::{BODY_HEAD_BYTES, DIRECTORY_ENTRY_BYTES, TAG_BYTES};
use crate::row::{Row, Rows};
use crate::share::share_bytes;

/// Bytes of a section without shares and values: directory entry, body head, tag and column
/// descriptors.
const SECTION_BYTES: usize = DIRECTORY_ENTRY_BYTES + BODY_HEAD_BYTES + TAG_BYTES + COLUMNS_BYTES;
/// Upper bound for the column descriptors of a section with one entry, in bytes.
const COLUMNS_BYTES: usize = 64;

/// Rows and their groups.
pub(crate) struct Groups<'a> {
    /// Each row and the number of its group.
    pub(crate) rows: Vec<(Row<'a>, usize)>,
    /// The groups in order of first appearance.
    pub(crate) in_order: Vec<Group<'a>>,
}

/// The rows about one set of subjects.
pub(crate) struct Group<'a> {
    pub(crate) subjects: &'a str,
    /// Indices of the rows.
    pub(crate) rows: Vec<usize>,
}

/// Groups rows by their set of subjects; groups are in order of first appearance.
pub(crate) fn group_by_subjects<'a>(chunks: &[&'a [u8]]) -> Result<Groups<'a>, DecodeError> {
    let mut groups = Groups {
        rows: Vec::new(),
        in_order: Vec::new(),
    };
    let mut known = BTreeMap::new();
    for chunk in chunks {
        let mut rows = Rows::new(chunk);
        for row in rows.by_ref() {
            let subjects = row.texts.get(SUBJECTS).copied().unwrap_or_default();
            let group = match known.entry(subjects) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let subjects = core::str::from_utf8(subjects).map_err(|_not_utf8| {
                        DecodeError::new("row", 0, "has a subject that is not UTF-8")
                    })?;
                    let rows = Vec::new();
                    groups.in_order.push(Group { subjects, rows });
                    *unknown.insert(groups.in_order.len().saturating_sub(1))
                }
            };
            if let Some(members) = groups.in_order.get_mut(group) {
                members.rows.push(groups.rows.len());
            }
            groups.rows.push((row, group));
        }
        check_end(&rows)?;
    }
    Ok(groups)
}

/// Returns an error if bytes follow the last row.
pub(crate) fn check_end(rows: &Rows<'_>) -> Result<(), DecodeError> {
    if rows.rest().is_empty() {
        Ok(())
    } else {
        Err(DecodeError::new("row", 0, "is malformed"))
    }
}

/// Returns the row as the shared section holds it: pseudonyms for subjects, and references for
/// actor and submitter who are subjects.
pub(crate) fn shared_row<'a>(row: &Row<'a>, pseudonyms: &'a [u8]) -> Row<'a> {
    let mut shared = *row;
    let [_, _, subjects, _, _, actor, _, _, submitter, ..] = &mut shared.texts;
    *actor = referred(actor, subjects);
    *submitter = referred(submitter, subjects);
    *subjects = pseudonyms;
    shared
}

/// Returns an upper bound for the bytes of `rows` in an erasable stream's frame, if each row has
/// its own set of subjects.
///
/// A share is longer than a short name, so many entries about many people take more bytes than
/// their rows.
pub fn sealed_bytes_max(rows: &[u8]) -> usize {
    let bytes = |row: Row<'_>| {
        let subjects = row.texts.get(SUBJECTS).copied().unwrap_or_default();
        let names = subjects.split(|byte| *byte == b'\n');
        let people = names.fold(0_usize, |sum, name| {
            sum.saturating_add(share_bytes(name.len()))
                .saturating_add(PSEUDONYM_BYTES)
        });
        row.bytes
            .len()
            .saturating_add(people)
            .saturating_add(SECTION_BYTES)
    };
    Rows::new(rows).map(bytes).fold(0, usize::saturating_add)
}
