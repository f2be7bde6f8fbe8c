//! `SipHash` 2-4: places rows in an order that nobody without the store's secret can predict.

/// The hash of `bytes` under `secret`; the same for ever, because it is stored.
pub(crate) fn siphash(secret: [u64; 2], bytes: &[u8]) -> u64 {
    let [k0, k1] = secret;
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut state, u64::from_le_bytes(*word));
    }
    // The last word holds the rest, and the length in its highest byte.
    let mut last = (bytes.len() as u64) << 56;
    for (place, byte) in rest.iter().enumerate() {
        last |= u64::from(*byte) << (8 * place);
    }
    absorb(&mut state, last);
    let [_, _, v2, _] = &mut state;
    *v2 ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state.iter().fold(0, |hash, word| hash ^ word)
}

fn absorb(state: &mut [u64; 4], word: u64) {
    let [_, _, _, v3] = state;
    *v3 ^= word;
    round(state);
    round(state);
    let [v0, ..] = state;
    *v0 ^= word;
}

const fn round(state: &mut [u64; 4]) {
    let [v0, v1, v2, v3] = state;
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_come_out() {
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(secret, &bytes), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(secret, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(secret, &bytes[..8]), 0x93f5_f579_9a93_2462);
    }
}
