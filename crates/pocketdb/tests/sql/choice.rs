//! Choices that a seed decides.

/// A source of choices: the splitmix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Choice(u64);

impl Choice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of several.
    pub(crate) fn of<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// The seed of a test: the one in the environment, or a fixed one; it is printed.
#[expect(
    clippy::disallowed_methods,
    reason = "a test is repeated with the seed it printed"
)]
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("PROBITY_SEED").map_or(default, |seed| seed.parse().unwrap());
    println!("PROBITY_SEED={seed}");
    seed
}
