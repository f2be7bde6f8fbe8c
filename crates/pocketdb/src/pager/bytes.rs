//! Little-endian fields in byte slices, and lengths in the widths that are stored.
//!
//! Every page is authenticated before its fields are read. So a field out of bounds can only be a
//! defect of this engine, never an attack. It ends the program: zeros in its place would be rows
//! that nobody wrote.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a field out of bounds is a defect, which zeros in its place would hide"
)]

/// Copies `value` to offset `at`.
pub(crate) fn put(out: &mut [u8], at: usize, value: &[u8]) {
    out[at..at + value.len()].copy_from_slice(value);
}

/// Returns the `N` bytes at `at`.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Returns the unsigned 16-bit number at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(take(bytes, at))
}

/// Returns the unsigned 32-bit number at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(take(bytes, at))
}

/// Returns the unsigned 64-bit number at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(take(bytes, at))
}

/// Returns `count` bytes from offset `at`.
pub(crate) fn part(bytes: &[u8], at: usize, count: usize) -> &[u8] {
    &bytes[at..at + count]
}

/// Returns `count` bytes from offset `at`, mutable.
pub(crate) fn part_mut(bytes: &mut [u8], at: usize, count: usize) -> &mut [u8] {
    &mut bytes[at..at + count]
}

/// Sets bit `number` of a bit set.
pub(crate) fn set_bit(bits: &mut [u8], number: usize) {
    bits[number / 8] |= 1 << (number % 8);
}

/// Returns whether bit `number` of a bit set is set.
pub(crate) fn has_bit(bits: &[u8], number: usize) -> bool {
    bits[number / 8] >> (number % 8) & 1 == 1
}

/// Converts a length to the 32-bit number stored on flash.
pub(crate) fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("the device bounds a length to 32 bits")
}

/// Converts a length or a number that a limit bounds to 16 bits.
pub(crate) fn short(value: usize) -> u16 {
    u16::try_from(value).expect("a limit bounds this number to 16 bits")
}

/// Converts a number that a limit bounds to 8 bits.
pub(crate) fn small(value: usize) -> u8 {
    u8::try_from(value).expect("a limit bounds this number to 8 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put() {
        let mut bytes = [0; 16];
        put(&mut bytes, 2, &0x0102_0304_0506_0708u64.to_le_bytes());
        assert_eq!(u64_at(&bytes, 2), 0x0102_0304_0506_0708);
        assert_eq!(
            (u32_at(&bytes, 6), u16_at(&bytes, 8)),
            (0x0102_0304, 0x0102)
        );
        part_mut(&mut bytes, 14, 2).fill(9);
        assert_eq!(part(&bytes, 13, 3), [0, 9, 9]);
    }

    #[test]
    fn a_bit_is_set_by_its_number() {
        let mut bits = [0; 2];
        set_bit(&mut bits, 11);
        assert!(has_bit(&bits, 11) && !has_bit(&bits, 3));
        assert_eq!(bits, [0, 8]);
    }

    /// A read out of bounds gave zeros, which became values of rows, and a write vanished.
    #[test]
    #[should_panic(expected = "out of range")]
    fn a_field_that_is_not_there_is_not_zero() {
        u32_at(&[0; 6], 3);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_value_without_room_does_not_vanish() {
        put(&mut [0; 6], 3, &[1; 4]);
    }

    /// A number too large became the largest one, which names another table or row.
    #[test]
    #[should_panic(expected = "8 bits")]
    fn a_number_too_large_does_not_become_another() {
        small(256);
    }
}
