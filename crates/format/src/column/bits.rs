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

/// Returns the bits that values up to `max` need.
pub(super) const fn width_of(max: u64) -> u32 {
    64 - max.leading_zeros()
}

/// Returns the bytes that `count` values of `width` bits take.
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

/// Reads the output of [`put_packed`]; unused bits of the last byte must be zeros.
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
    if pending != 0 {
        return Err(reader.error("has bits behind its last value"));
    }
    Ok(values)
}

/// Writes values of two bits each: one byte if all are equal, else the byte 2 and then each value.
pub(super) fn put_pairs(out: &mut Vec<u8>, values: &[u8]) {
    let first = values.first().copied().unwrap_or_default();
    if values.iter().all(|value| *value == first) {
        out.extend_from_slice(&[0, first]);
    } else {
        out.push(2);
        put_packed(out, values.iter().map(|value| u32::from(*value)), 2);
    }
}

/// Reads `count` values written by [`put_pairs`].
pub(super) fn pairs(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u8>, DecodeError> {
    match reader.u8()? {
        0 => {
            let value = reader.u8()?;
            if value > 3 {
                return Err(reader.error("has a value of more than two bits"));
            }
            Ok(alloc::vec![value; count])
        }
        2 => {
            let values = packed(reader, count, 2)?;
            if values.iter().all(|value| Some(value) == values.first()) {
                return Err(reader.error("stores equal values one by one"));
            }
            Ok(values.iter().map(|value| *value as u8).collect())
        }
        _ => Err(reader.error("has values of two bits in an unknown form")),
    }
}

/// Returns the least value of a block, and the bits that the differences from it need.
fn shape(block: &[i64]) -> (i64, u32) {
    let least = block.iter().copied().min().unwrap_or_default();
    let most = block.iter().copied().max().unwrap_or_default();
    (least, width_of(most.wrapping_sub(least).cast_unsigned()))
}

/// Writes `values` in blocks: the least value of each, the width of the differences, the
/// differences.
pub(super) fn put_blocks(out: &mut Vec<u8>, values: &[i64]) {
    for block in values.chunks(BLOCK) {
        let (least, width) = shape(block);
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

/// Reads `count` values written by [`put_blocks`]; refuses any other encoding of them.
pub(super) fn blocks(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, DecodeError> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let start = values.len();
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
        if shape(&values[start..]) != (least, width) {
            return Err(reader.error("has a block with another least value or width than it needs"));
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

    /// A second encoding of the same values would allow two bodies for one frame.
    #[test]
    fn only_the_form_that_is_written_is_read() {
        let block = |bytes: &[u8]| blocks(&mut Reader::new(bytes, "blocks"), 2).is_err();
        // 5 and 6: least 5, width 1, bits 0 and 1.
        assert!(!block(&[10, 1, 0b10]));
        assert!(block(&[8, 2, 0b1001]), "a least value that is none");
        assert!(block(&[10, 2, 0b0100]), "a width that is not needed");
        assert!(block(&[10, 1, 0b110]), "a bit behind the last");
        let pair = |bytes: &[u8]| pairs(&mut Reader::new(bytes, "pairs"), 3);
        assert_eq!(pair(&[0, 3]).unwrap(), [3, 3, 3]);
        assert_eq!(pair(&[2, 0b0001_1011]).unwrap(), [3, 2, 1]);
        for bad in [&[0, 4][..], &[1, 0], &[2, 0b0001_0101], &[2, 0b1101_1011]] {
            assert!(pair(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn pairs_round_trip() {
        for values in [&[][..], &[2], &[1, 1, 1], &[0, 1, 2, 3, 3]] {
            let mut out = Vec::new();
            put_pairs(&mut out, values);
            let mut reader = Reader::new(&out, "pairs");
            assert_eq!(pairs(&mut reader, values.len()).unwrap(), values);
            assert_eq!(reader.finish(), Ok(()));
        }
    }
}
