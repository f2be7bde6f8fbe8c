//! Sorting of records in memory, in place: frames have no room for a second copy.

use crate::pager::bytes::{part, part_mut};

/// Sorts records of `width` bytes by their bytes.
pub(super) fn sort_records(bytes: &mut [u8], width: usize) {
    macro_rules! sort_widths {
        ($($width:literal)*) => {
            match width {
                $($width => bytes.as_chunks_mut::<$width>().0.sort_unstable(),)*
                _ => sort_any(bytes, width),
            }
        };
    }
    // Arrays of a known length are compared and moved in registers; these widths are those of ids,
    // pairs and the usual entries of indexes.
    sort_widths!(4 8 12 14 16 18 20 22 24 28 32 36 40 48 56 64);
}

/// Sorts records of any width with a heap sort.
fn sort_any(bytes: &mut [u8], width: usize) {
    let count = bytes.len() / width.max(1);
    // Not a quicksort: its recursion needs stack that a token does not have.
    for start in (0..count / 2).rev() {
        sift_down(bytes, width, start, count);
    }
    for end in (1..count).rev() {
        swap(bytes, width, 0, end);
        sift_down(bytes, width, 0, end);
    }
}

fn sift_down(bytes: &mut [u8], width: usize, mut root: usize, end: usize) {
    let less = |bytes: &[u8], a: usize, b: usize| {
        part(bytes, a * width, width) < part(bytes, b * width, width)
    };
    loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && less(bytes, child, child + 1) {
            child += 1;
        }
        if !less(bytes, root, child) {
            return;
        }
        swap(bytes, width, root, child);
        root = child;
    }
}

fn swap(bytes: &mut [u8], width: usize, a: usize, b: usize) {
    let (low, high) = (a.min(b) * width, a.max(b) * width);
    if low < high {
        let (front, back) = bytes.split_at_mut(high);
        part_mut(front, low, width).swap_with_slice(part_mut(back, 0, width));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn records_of_any_width_are_sorted_by_their_bytes() {
        for width in [1, 4, 5, 12, 13] {
            let bytes = |n: usize| u8::try_from(n * 7_919 % 251).unwrap();
            let mut records: Vec<u8> = (0..40 * width).map(bytes).collect();
            let mut sorted: Vec<Vec<u8>> = records.chunks(width).map(<[u8]>::to_vec).collect();
            sorted.sort_unstable();
            sort_records(&mut records, width);
            assert_eq!(records, sorted.concat(), "{width}");
        }
    }
}
