//! Numbers that need not be secret, only evenly spread: for SPOP and its like.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A generator of evenly spread numbers.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(unguessable(0))
    }
}

impl Random {
    pub(crate) const fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, or zero.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        match self.next().checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }
}

/// A number that another process cannot guess: the standard library seeds its hashers from the
/// system's random source.
pub(crate) fn unguessable(number: u64) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(number);
    hasher.finish()
}
