//! The share of a claim's cases that is tried.

/// Passes over most cases of a claim where trying all takes long: a server tries one of
/// [`crate::ONE_OF`], which divides no number of ways that a case has, and memory tries all.
pub(super) struct Sample(usize);

impl Sample {
    pub(super) const fn new() -> Self {
        Self(0)
    }

    /// Returns whether the next case is passed over. The first is tried.
    pub(super) const fn passes_over(&mut self) -> bool {
        let number = self.0;
        self.0 += 1;
        !number.is_multiple_of(crate::ONE_OF)
    }
}
