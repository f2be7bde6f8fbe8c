//! Reading and writing fixed-endian integers, length-prefixed bytes and varints, with bounds.

use alloc::vec::Vec;

use crate::error::DecodeError;

/// A cursor over untrusted bytes; every read is bounds-checked.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`; errors name `what`.
    pub const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self {
            bytes,
            offset: 0,
            what,
        }
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    /// When fewer remain.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self
            .offset
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.error("ends too early"));
        };
        let taken = self.bytes.get(self.offset..end).unwrap_or_default();
        self.offset = end;
        Ok(taken)
    }

    /// Reads the next `N` bytes as an array.
    ///
    /// # Errors
    /// When fewer remain.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let at = self.offset;
        let taken = self.take(N)?;
        <[u8; N]>::try_from(taken)
            .map_err(|_wrong_length| DecodeError::new(self.what, at, "ends too early"))
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// At the end.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian 16-bit integer.
    ///
    /// # Errors
    /// At the end.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian 32-bit integer.
    ///
    /// # Errors
    /// At the end.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian 64-bit integer.
    ///
    /// # Errors
    /// At the end.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian signed 64-bit integer.
    ///
    /// # Errors
    /// At the end.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a LEB128 unsigned integer of at most ten bytes, in its shortest form.
    ///
    /// # Errors
    /// At the end, past 64 bits, or when a shorter form exists.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value: u64 = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return Err(self.error("exceeds 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(self.error("is not in its shortest form"));
                }
                return Ok(value);
            }
        }
        Err(self.error("exceeds 64 bits"))
    }

    /// Reads a length as a varint; it must not exceed `max`.
    ///
    /// # Errors
    /// The errors of [`Reader::varint`], or when the length exceeds `max`.
    pub fn length(&mut self, max: usize) -> Result<usize, DecodeError> {
        let value = self.varint()?;
        usize::try_from(value)
            .ok()
            .filter(|length| *length <= max)
            .ok_or_else(|| self.error("exceeds its limit"))
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    /// When bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.offset == self.bytes.len() {
            Ok(())
        } else {
            Err(self.error("has bytes left over"))
        }
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset..).unwrap_or_default()
    }

    /// Returns the number of bytes read.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Creates an error at the current offset.
    pub const fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError::new(self.what, self.offset, reason)
    }
}

/// Appends `value` as LEB128.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Maps signed to unsigned so that small magnitudes give small numbers.
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Inverts [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_have_one_form() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out, "varint");
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
        }
        for bad in [&[0x80, 0x00][..], &[0xFF; 10], &[0x80]] {
            assert!(Reader::new(bad, "varint").varint().is_err());
        }
    }

    #[test]
    fn zigzag_is_its_own_inverse() {
        for value in [0, 1, -1, i64::MAX, i64::MIN, 42, -4_000_000_000] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(zigzag(-1), 1);
    }
}
