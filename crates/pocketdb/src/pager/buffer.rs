//! Pages of the commit buffer: rows of all tables in the order of insertion.
//!
//! Each page contains the sequence number, authentication code and page number of the page before.
//! Thus the last code, in the secure store, authenticates the whole window.

use crate::pager::bytes::{narrow, part, put, take, u16_at, u32_at, u64_at};
use crate::pager::root::Link;
use crate::pager::seal::{MAC_BYTES, PAYLOAD_BYTES};

/// Bytes before the first row: sequence number, code and page number of the page before, number of
/// rows.
pub(crate) const HEAD_BYTES: usize = 8 + MAC_BYTES + 4 + 2;
/// Offset of the number of rows.
const COUNT_AT: usize = HEAD_BYTES - 2;
/// Bytes before each row: its owner and id.
const ROW_HEAD_BYTES: usize = 5;
/// The largest row that fits into a page, in bytes.
pub(crate) const ROW_FIT_BYTES: usize = PAYLOAD_BYTES - HEAD_BYTES - ROW_HEAD_BYTES;

/// One row of a page: its owner, its id and the offset of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) owner: u8,
    pub(crate) id: u32,
    pub(crate) at: usize,
}

/// Initialises an empty `page`; returns the number of bytes in use.
pub(crate) fn begin(page: &mut [u8], previous: &Link) -> usize {
    page.fill(0);
    put(page, 0, &previous.sequence.to_le_bytes());
    put(page, 8, &previous.code);
    put(page, 24, &previous.page.to_le_bytes());
    HEAD_BYTES
}

/// Appends a row at offset `used`; returns the new number of bytes in use, or `None` if the page is
/// full.
pub(crate) fn append(
    page: &mut [u8],
    used: usize,
    owner: u8,
    id: u32,
    row: &[u8],
) -> Option<usize> {
    let end = used + ROW_HEAD_BYTES + row.len();
    if end > PAYLOAD_BYTES {
        return None;
    }
    let count = count(page) + 1;
    put(page, COUNT_AT, &count.to_le_bytes());
    put(page, used, &[owner]);
    put(page, used + 1, &id.to_le_bytes());
    put(page, used + ROW_HEAD_BYTES, row);
    Some(end)
}

/// Returns the number of rows in `page`.
pub(crate) fn count(page: &[u8]) -> u16 {
    u16_at(page, COUNT_AT)
}

/// Returns the link to the page before `page`.
pub(crate) fn previous(page: &[u8]) -> Link {
    Link {
        sequence: u64_at(page, 0),
        code: take(page, 8),
        page: u32_at(page, 24),
    }
}

/// Returns an iterator over the rows of `page`; `width` returns the width of an owner's rows.
pub(crate) fn rows(page: &[u8], width: impl Fn(u8) -> usize) -> impl Iterator<Item = Located> {
    let mut at = HEAD_BYTES;
    (0..count(page)).map_while(move |_| {
        let owner = *part(page, at, 1).first()?;
        let located = Located {
            owner,
            id: u32_at(page, at + 1),
            at: at + ROW_HEAD_BYTES,
        };
        at = located.at + width(owner);
        Some(located)
    })
}

/// Returns how many rows of `width` bytes fit into a page.
pub(crate) fn rows_per_page(width: usize) -> u32 {
    narrow(((PAYLOAD_BYTES - HEAD_BYTES) / (ROW_HEAD_BYTES + width)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::flash::PAGE_BYTES;

    #[test]
    fn rows_come_back_in_order_and_a_full_page_takes_no_more() {
        let mut page = [0u8; PAGE_BYTES];
        let end = Link {
            sequence: 7,
            page: 9,
            code: [3; 16],
        };
        let mut used = begin(&mut page, &end);
        let mut accepted = 0u32;
        while let Some(next) = append(&mut page, used, 1, accepted + 1, &[9; 100]) {
            used = next;
            accepted += 1;
        }
        assert_eq!(accepted, rows_per_page(100));
        let found: std::vec::Vec<_> = rows(&page, |owner| 50 * (usize::from(owner) + 1)).collect();
        assert_eq!(found.len(), accepted as usize);
        assert!(
            found
                .iter()
                .zip(1..)
                .all(|(row, id)| row.id == id && row.owner == 1)
        );
        assert_eq!(previous(&page), end);
    }
}
