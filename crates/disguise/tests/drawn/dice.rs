//! A small generator of random choices (xorshift), so that a seed that fails can be run again.

#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn of(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `sides`.
    pub(crate) fn throw(&mut self, sides: usize) -> usize {
        let sides = u64::try_from(sides).unwrap();
        usize::try_from((self.number() >> 11) % sides).unwrap()
    }

    pub(crate) fn in_a_hundred(&mut self, share: usize) -> bool {
        self.throw(100) < share
    }

    pub(crate) fn of_all<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.throw(all.len())]
    }

    /// One of these texts, as it is.
    pub(crate) fn word(&mut self, all: &[&str]) -> String {
        (*self.of_all(all)).to_owned()
    }

    /// Returns the numbers below `count` in random order.
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            all.swap(at, self.throw(at + 1));
        }
        all
    }
}
