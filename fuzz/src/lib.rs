//! Hostile bytes for everything that parses: the targets, and what feeds them without a fuzzer.
//!
//! A target takes any bytes, must not panic, and asserts what the parser promises about what it
//! accepts, first of all that encoding gives the same bytes again. libFuzzer feeds the targets
//! through `fuzz_targets/target.rs`; the binary `smoke` feeds them changed seeds on any toolchain.

pub mod mutate;
mod targets;

/// One parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also its folder under `corpus/`.
    pub name: &'static str,
    /// Inputs that the parser accepts, from the product's own encoder.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds the parser; says whether it accepted, and panics when it broke a promise.
    pub check: fn(&[u8]) -> bool,
}

/// Every target.
pub fn targets() -> impl Iterator<Item = Target> {
    targets::ALL.iter().flat_map(|group| group.iter().copied())
}

/// The target `name`, if there is one.
pub fn target(name: &str) -> Option<Target> {
    targets().find(|target| target.name == name)
}
