//! Integers packed in as few bits as their range needs.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "numbers and lengths are bounded by limits.rs, places by the table's mask"
)]

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::wire::{Reader, put_varint, unzigzag, zigzag};

/// Values in one block of [`put_blocks`]; an outlier widens only its block.
pub(super) const BLOCK: usize = 128;

/// Bits needed for values up to `max`.
pub(super) const fn width_of(max: u64) -> u32 {
    64 - max.leading_zeros()
}

/// Bytes that `count` values of `width` bits take.
pub(super) const fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Packs `values`, each below 2^`width` with `width` <= 32, least significant bit first.
pub(super) fn put_packed(out: &mut Vec<u8>, values: impl Iterator<Item = u32>, width: u32) {
    let mut pending: u64 = 0;
    let mut bits = 0;
    for value in values {
        pending |= u64::from(value) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(pending as u32).to_le_bytes());
            pending >>= 32;
            bits -= 32;
        }
    }
    let rest = pending.to_le_bytes();
    out.extend_from_slice(&rest[..bits.div_ceil(8) as usize]);
}

/// Reads what [`put_packed`] wrote.
pub(super) fn packed(
    reader: &mut Reader<'_>,
    count: usize,
    width: u32,
) -> Result<Vec<u32>, DecodeError> {
    if width > 32 {
        return Err(reader.error("has values wider than 32 bits"));
    }
    let bytes = reader.take(packed_bytes(count, width))?;
    let mut values = Vec::with_capacity(count);
    let mask = if width == 32 {
        u32::MAX
    } else {
        (1 << width) - 1
    };
    let mut bytes = bytes.iter();
    let mut pending: u64 = 0;
    let mut bits = 0;
    for _ in 0..count {
        while bits < width {
            pending |= u64::from(bytes.next().copied().unwrap_or_default()) << bits;
            bits += 8;
        }
        values.push(pending as u32 & mask);
        pending >>= width;
        bits -= width;
    }
    Ok(values)
}

/// Writes `values` in blocks: each block's smallest value, the width of the differences, the differences.
pub(super) fn put_blocks(out: &mut Vec<u8>, values: &[i64]) {
    for block in values.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or_default();
        let most = block.iter().copied().max().unwrap_or_default();
        let width = width_of(most.wrapping_sub(least).cast_unsigned());
        put_varint(out, zigzag(least));
        out.push(width as u8);
        let differences = block
            .iter()
            .map(|value| value.wrapping_sub(least).cast_unsigned());
        if width <= 32 {
            put_packed(out, differences.map(|difference| difference as u32), width);
        } else {
            for difference in differences {
                out.extend_from_slice(&difference.to_le_bytes());
            }
        }
    }
}

/// Reads `count` values that [`put_blocks`] wrote.
pub(super) fn blocks(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, DecodeError> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let in_block = BLOCK.min(count - values.len());
        let least = unzigzag(reader.varint()?);
        let width = u32::from(reader.u8()?);
        if width <= 32 {
            for difference in packed(reader, in_block, width)? {
                values.push(least.wrapping_add(i64::from(difference)));
            }
        } else if width <= 64 {
            for _ in 0..in_block {
                values.push(least.wrapping_add(reader.i64()?));
            }
        } else {
            return Err(reader.error("has a block wider than 64 bits"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn packing_round_trips_at_every_width() {
        for width in 0..=32 {
            let max = if width == 32 {
                u32::MAX
            } else {
                (1u32 << width) - 1
            };
            let values: Vec<u32> = (0..77u32)
                .map(|i| i.wrapping_mul(2_654_435_761) & max)
                .collect();
            let mut out = Vec::new();
            put_packed(&mut out, values.iter().copied(), width);
            assert_eq!(out.len(), packed_bytes(values.len(), width));
            let mut reader = Reader::new(&out, "packed");
            assert_eq!(packed(&mut reader, values.len(), width).unwrap(), values);
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn blocks_round_trip_with_outliers() {
        let mut values: Vec<i64> = (0..1000).map(|i| i * i - 300).collect();
        values[500] = i64::MAX;
        values[501] = i64::MIN;
        for count in [0, 1, 127, 128, 129, 1000] {
            let mut out = Vec::new();
            put_blocks(&mut out, &values[..count]);
            let mut reader = Reader::new(&out, "blocks");
            assert_eq!(blocks(&mut reader, count).unwrap(), &values[..count]);
            assert_eq!(reader.finish(), Ok(()));
        }
        assert!(blocks(&mut Reader::new(&vec![0xFF; 40], "blocks"), 5).is_err());
    }
}
