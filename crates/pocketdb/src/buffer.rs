//! Pages of the commit buffer: rows of all tables in the order of their arrival.
//!
//! Each page names the committed page before it and carries that page's code, so that the last
//! code in the secure store vouches for the whole window.

use crate::bytes::{part, put, take, u16_at, u32_at, u64_at};
use crate::seal::{MAC_BYTES, PAYLOAD_BYTES};

/// Bytes before the first row: sequence and code of the page before, number of rows.
const HEAD_BYTES: usize = 8 + MAC_BYTES + 2;
/// Bytes before each row: its table and id.
const ROW_HEAD_BYTES: usize = 5;

/// The end of the committed chain that a new page continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    /// Sequence number of the last page.
    pub(crate) sequence: u64,
    /// Its code.
    pub(crate) code: [u8; MAC_BYTES],
}

/// One row found in a page: its table, its id and where its bytes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) table: u8,
    pub(crate) id: u32,
    pub(crate) at: usize,
}

/// How many bytes `page` has in use; the caller keeps the number while it fills the page.
pub(crate) fn begin(page: &mut [u8], previous: &ChainEnd) -> usize {
    page.fill(0);
    put(page, 0, &previous.sequence.to_le_bytes());
    put(page, 8, &previous.code);
    HEAD_BYTES
}

/// Changes the link of a page that is being filled.
pub(crate) fn link(page: &mut [u8], previous: &ChainEnd) {
    put(page, 0, &previous.sequence.to_le_bytes());
    put(page, 8, &previous.code);
}

/// Appends a row at `used`; returns the new number of bytes in use, or nothing when it is full.
pub(crate) fn append(
    page: &mut [u8],
    used: usize,
    table: u8,
    id: u32,
    row: &[u8],
) -> Option<usize> {
    let end = used + ROW_HEAD_BYTES + row.len();
    if end > PAYLOAD_BYTES {
        return None;
    }
    let count = count(page) + 1;
    put(page, 24, &count.to_le_bytes());
    put(page, used, &[table]);
    put(page, used + 1, &id.to_le_bytes());
    put(page, used + ROW_HEAD_BYTES, row);
    Some(end)
}

/// Number of rows in `page`.
pub(crate) fn count(page: &[u8]) -> u16 {
    u16_at(page, 24)
}

/// The link of `page`.
pub(crate) fn previous(page: &[u8]) -> ChainEnd {
    ChainEnd {
        sequence: u64_at(page, 0),
        code: take(page, 8),
    }
}

/// The rows of `page`, given the row width of every table.
pub(crate) fn rows<'a>(page: &'a [u8], widths: &'a [u16]) -> impl Iterator<Item = Located> + 'a {
    let mut at = HEAD_BYTES;
    (0..count(page)).map_while(move |_| {
        let table = *part(page, at, 1).first()?;
        let located = Located {
            table,
            id: u32_at(page, at + 1),
            at: at + ROW_HEAD_BYTES,
        };
        at = located.at + usize::from(*widths.get(usize::from(table))?);
        Some(located)
    })
}

/// Rows of `width` bytes that one page holds.
pub(crate) fn rows_per_page(width: u16) -> u32 {
    let row = ROW_HEAD_BYTES + usize::from(width);
    crate::bytes::narrow(((PAYLOAD_BYTES - HEAD_BYTES) / row).max(1))
}

/// The largest row that a page holds.
pub(crate) const ROW_FIT_BYTES: usize = PAYLOAD_BYTES - HEAD_BYTES - ROW_HEAD_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::PAGE_BYTES;

    #[test]
    fn rows_come_back_in_order_and_a_full_page_takes_no_more() {
        let mut page = [0u8; PAGE_BYTES];
        let end = ChainEnd {
            sequence: 7,
            code: [3; 16],
        };
        let mut used = begin(&mut page, &end);
        let mut accepted = 0u32;
        while let Some(next) = append(&mut page, used, 1, accepted + 1, &[9; 100]) {
            used = next;
            accepted += 1;
        }
        let found: std::vec::Vec<_> = rows(&page, &[50, 100]).collect();
        assert_eq!(found.len(), accepted as usize);
        assert!(
            found
                .iter()
                .zip(1..)
                .all(|(row, id)| row.id == id && row.table == 1)
        );
        assert_eq!(previous(&page), end);
    }
}
