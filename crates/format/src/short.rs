//! Operations on short byte strings in registers: words have a few bytes each, and a call to
//! `memcpy` or `memcmp` would dominate.

/// Longest strings for which [`ends`] holds every byte.
pub(crate) const ENDS_MAX: usize = 16;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns the first and the last bytes of `bytes`, which may overlap. Different strings of equal
/// length up to [`ENDS_MAX`] give different results.
#[inline]
pub(crate) const fn ends(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some([a, b, c, d]), Some([e, f, g, h])) =
        (bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
    {
        return (u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 0);
    }
    match bytes {
        [a] => (u64::from_le_bytes([*a, 0, 0, 0, 0, 0, 0, 0]), 0),
        [a, b] => (u64::from_le_bytes([*a, *b, 0, 0, 0, 0, 0, 0]), 0),
        [a, b, c] => (u64::from_le_bytes([*a, *b, *c, 0, 0, 0, 0, 0]), 0),
        _ => (0, 0),
    }
}

/// Returns the first and last 16 bytes of `bytes`; `None` if it is shorter than 16 bytes.
#[inline]
pub(crate) const fn wide_ends(bytes: &[u8]) -> Option<(u128, u128)> {
    match (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        (Some(first), Some(last)) => {
            Some((u128::from_le_bytes(*first), u128::from_le_bytes(*last)))
        }
        _ => None,
    }
}

/// Returns whether `a` and `b` are equal.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (wide_ends(a), wide_ends(b)) {
        (Some(ends_a), Some(ends_b)) => ends_a == ends_b && (a.len() <= 32 || a == b),
        _ => ends(a) == ends(b),
    }
}

/// Copies `from` into `to`, which must have the same length.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        0 => {}
        1..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        4..8 => copy_ends::<4>(to, from),
        8..16 => copy_ends::<8>(to, from),
        16..=32 => copy_ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn copy_ends<const BYTES: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<BYTES>(), from.first_chunk::<BYTES>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<BYTES>(), from.last_chunk::<BYTES>()) {
        *to = *from;
    }
}

/// Returns whether `text` holds an ASCII control character.
///
/// In UTF-8, bytes below 0x20 and 0x7F occur only as these characters.
#[inline]
pub(crate) fn has_control(text: &[u8]) -> bool {
    if let Some(last) = text.last_chunk::<8>() {
        let (chunks, _) = text.as_chunks::<8>();
        return controls(u64::from_le_bytes(*last)) != 0
            || chunks
                .iter()
                .any(|chunk| controls(u64::from_le_bytes(*chunk)) != 0);
    }
    // Texts shorter than eight bytes are padded with blanks.
    let (bytes, _) = ends(text);
    let blanks = match text.len() {
        0 => return false,
        1 => 0x2020_2020_2020_2000,
        2 => 0x2020_2020_2020_0000,
        3 => 0x2020_2020_2000_0000,
        _ => 0,
    };
    controls(bytes | blanks) != 0
}

/// Returns a non-zero value if a byte of `word` is below 0x20 or is 0x7F, else 0.
#[inline]
const fn controls(word: u64) -> u64 {
    // A borrow can mark a wrong byte only above a byte that is marked correctly, so the result is
    // right as a whole.
    let below = word.wrapping_sub(ONES.wrapping_mul(0x20)) & !word;
    let deletes = word ^ ONES.wrapping_mul(0x7F);
    let delete = deletes.wrapping_sub(ONES) & !deletes;
    (below | delete) & HIGHS
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn samples() -> Vec<Vec<u8>> {
        let mut samples: Vec<Vec<u8>> = (0..70_u8)
            .map(|length| (0..length).map(|byte| byte.wrapping_mul(37)).collect())
            .collect();
        for length in 1..70 {
            for place in [0, length / 2, length - 1] {
                let mut sample = samples[length].clone();
                sample[place] ^= 1;
                samples.push(sample);
            }
        }
        samples
    }

    #[test]
    fn strings_are_the_same_exactly_when_their_bytes_are() {
        let samples = samples();
        for a in &samples {
            for b in &samples {
                assert_eq!(same(a, b), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn copies_are_whole() {
        for sample in samples() {
            let mut to = vec![0xEE; sample.len()];
            copy(&mut to, &sample);
            assert_eq!(to, sample);
        }
    }

    #[test]
    fn control_characters_are_found_at_every_place_and_nothing_else_is() {
        for length in 0..40 {
            assert!(!has_control(&vec![b'x'; length]));
            for place in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = vec![b' '; length];
                    text[place] = byte;
                    let expected = byte < 0x20 || byte == 0x7F;
                    assert_eq!(
                        has_control(&text),
                        expected,
                        "{byte} at {place} of {length}"
                    );
                }
            }
        }
    }
}
