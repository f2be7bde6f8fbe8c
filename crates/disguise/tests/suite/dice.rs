//! Chance that can be repeated: a generator, and the seeds to run.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests stop at the first surprise"
)]

/// A small generator of test schedules (xorshift), so that a failing seed can be run again.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.throw(of.len())].clone())
    }
}

/// Names the seed when a schedule ends in a panic.
pub(super) struct SeedOnPanic(pub(super) u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}: set PROBITY_SEED={0} to run it alone", self.0);
        }
    }
}

/// The seeds to run: one from the environment, or `count`, beginning where the environment says.
pub(super) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| -> Option<u64> { Some(std::env::var(name).ok()?.parse().unwrap()) };
    if let Some(seed) = number("PROBITY_SEED") {
        return seed..seed + 1;
    }
    let first = number("PROBITY_SEED_FIRST").unwrap_or(0);
    let count = number("PROBITY_SCHEDULES").unwrap_or(count);
    assert!(count > 0, "no schedules");
    first..first + count
}
