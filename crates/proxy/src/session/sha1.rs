//! SHA-1, by which Redis names scripts: the name of a script in an entry is the one that `EVALSHA` takes.
//!
//! Nothing here rests on its being hard to collide.

/// The digest of `text`.
pub(super) fn sha1(text: &[u8]) -> [u8; 20] {
    let mut state = [
        0x6745_2301_u32,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let mut padded = text.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(text.len() as u64).wrapping_mul(8).to_be_bytes());
    for block in padded.as_chunks::<64>().0 {
        take_block(&mut state, block);
    }
    let mut digest = [0; 20];
    for (place, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    digest
}

#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
fn take_block(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut recent = std::collections::VecDeque::with_capacity(16);
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    let mut words = block.as_chunks::<4>().0.iter();
    for round in 0..80 {
        let word = match words.next() {
            Some(bytes) => u32::from_be_bytes(*bytes),
            None => next_word(&recent),
        };
        if recent.len() == 16 {
            recent.pop_front();
        }
        recent.push_back(word);
        let (mixed, constant) = match round {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999_u32),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
        let sum = sum.wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
    }
    for (place, word) in state.iter_mut().zip([a, b, c, d, e]) {
        *place = place.wrapping_add(word);
    }
}

/// The word after the sixteen `recent` ones.
fn next_word(recent: &std::collections::VecDeque<u32>) -> u32 {
    let back = |places: usize| recent.get(16 - places).copied().unwrap_or_default();
    (back(3) ^ back(8) ^ back(14) ^ back(16)).rotate_left(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::hex;

    #[test]
    fn digests_are_those_of_the_standard() {
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (text, digest) in [
            (&b""[..], "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (long, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
            (&[b'a'; 1000], "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
        ] {
            assert_eq!(hex(&sha1(text)), digest);
        }
    }
}
