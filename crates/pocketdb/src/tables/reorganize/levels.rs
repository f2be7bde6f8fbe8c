//! The extent of a reorganisation: the choice of parts to merge.
//!
//! Parts are merged according to the combinatorial number system. The rows are counted in pieces of
//! equal size. With at most three parts their number is `C(c, 3) + C(b, 2) + a` with `c > b > a`.
//! Each term is a part. So no row is rewritten more than `c` times, which grows with the cube root
//! of the number of pieces.

use crate::limits::PARTS_MAX;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::tables::base::Base;
use crate::tables::part::Part;

/// The rows that a reorganisation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All rows: one part remains, and everything deleted or replaced before can no longer be
    /// decrypted.
    Whole,
    /// The rows that are in no part, merged with as many of the newest parts as keep the amortised
    /// cost low. Deleted rows can be read by a holder of the keys until a whole reorganisation.
    Levels,
}

/// Returns how many parts of `sizes` pieces, the oldest first, are not merged when one piece is
/// added.
fn kept_of(sizes: impl Iterator<Item = u64> + Clone) -> usize {
    let mut left = sizes.clone().sum::<u64>() + 1;
    let mut kept = 0;
    for (size, rank) in sizes.zip((1..=PARTS_MAX as u64).rev()) {
        if size < largest_term(left, rank) {
            break;
        }
        left -= size;
        kept += 1;
    }
    kept
}

/// Returns the largest `C(b, rank)` that does not exceed `number`, which is not zero.
fn largest_term(number: u64, rank: u64) -> u64 {
    let (mut term, mut base) = (1u64, rank);
    loop {
        // C(b + 1, k) = C(b, k) (b + 1) / (b + 1 - k).
        let next = term.saturating_mul(base + 1) / (base + 1 - rank);
        if next > number {
            return term;
        }
        (term, base) = (next, base + 1);
    }
}

/// Returns the number of rows that are in no part.
pub(super) fn new_rows<F: Nand, S: SecureStore>(base: &Base<F, S>) -> u64 {
    let tables = base.catalogue.table_ids();
    let new = |table| u64::from(base.count(table).saturating_sub(base.part_rows(table)));
    tables.map(new).sum()
}

/// Returns the number of oldest parts that are not merged.
pub(super) fn parts_to_keep<F: Nand, S: SecureStore>(base: &Base<F, S>) -> usize {
    let tables = base.catalogue.table_ids();
    let piece = new_rows(base).max(1);
    let size = |part: &Part| {
        let rows: u64 = tables.clone().map(|table| u64::from(part.own(table))).sum();
        (rows + piece / 2) / piece
    };
    let mut sizes = [0; PARTS_MAX];
    for (place, part) in sizes.iter_mut().zip(base.parts.iter()) {
        *place = size(part).max(1);
    }
    let live = sizes.iter().take(base.parts.len());
    kept_of(live.copied())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Adds `pieces` pieces one by one; returns the parts, and the number of pieces written in
    /// total.
    fn grown(mut sizes: Vec<u64>, pieces: u64) -> (Vec<u64>, u64) {
        let mut written = 0;
        for _ in 0..pieces {
            let kept = kept_of(sizes.iter().copied());
            let merged = sizes.split_off(kept).iter().sum::<u64>() + 1;
            sizes.push(merged);
            written += merged;
            assert!(sizes.len() <= PARTS_MAX, "{sizes:?}");
        }
        (sizes, written)
    }

    #[test]
    fn a_hundred_pieces_are_written_less_than_six_times_each() {
        for pieces in 1..=120 {
            let (sizes, _) = grown(Vec::new(), pieces);
            assert_eq!(sizes.iter().sum::<u64>(), pieces);
        }
        let (_, written) = grown(Vec::new(), 100);
        assert!(written < 600, "{written}");
        let (_, written) = grown(Vec::new(), 1_000);
        assert!(written <= 13_000, "{written}");
    }

    #[test]
    fn a_large_part_is_left_until_a_good_share_of_it_was_added() {
        let (sizes, written) = grown(vec![100], 15);
        assert_eq!(sizes.first(), Some(&100));
        assert!(written < 60, "{written}");
        let (sizes, _) = grown(vec![100], 40);
        assert!(sizes.first() > Some(&100));
    }
}
