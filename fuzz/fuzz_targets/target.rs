//! The door for libFuzzer: feeds the target that the environment variable `TARGET` names.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
use std::sync::LazyLock;

#[cfg(fuzzing)]
static TARGET: LazyLock<probity_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").expect("TARGET names the fuzz target");
    probity_fuzz::target(&name).expect("a fuzz target has the name in TARGET")
});

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (TARGET.check)(data);
});

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("built without libFuzzer: run it through cargo-fuzz, or run the binary smoke");
    std::process::exit(2);
}
