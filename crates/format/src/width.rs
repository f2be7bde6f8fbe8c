//! Conversions of integers into wider ones, which the language does not offer because `usize` has
//! another width on other machines.

const _: () = assert!(
    usize::BITS >= u32::BITS && usize::BITS <= u64::BITS,
    "a frame's lengths have 32 bits, a file's have 64"
);

/// Returns `number`, which every address space of a supported machine holds.
#[expect(
    clippy::as_conversions,
    reason = "the assertion above: no bits are lost"
)]
pub const fn to_usize(number: u32) -> usize {
    number as usize
}

/// Returns the length or place `number` of something in memory, as files hold it.
#[expect(
    clippy::as_conversions,
    reason = "the assertion above: no bits are lost"
)]
pub const fn to_u64(number: usize) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_keep_their_value() {
        for number in [0, 1, u32::MAX] {
            assert_eq!(usize::try_from(number).unwrap(), to_usize(number));
        }
        for number in [0, 1, usize::MAX] {
            assert_eq!(u64::try_from(number).unwrap(), to_u64(number));
        }
    }
}
