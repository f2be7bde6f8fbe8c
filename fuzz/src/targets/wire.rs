//! The integers everything else is made of.

use probity_format::wire::{Reader, put_varint, unzigzag, zigzag};

use crate::Target;

pub(super) const TARGETS: &[Target] = &[Target {
    name: "varint",
    seeds,
    check,
}];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for number in [0, 127, 128, 16_384, u64::from(u32::MAX), u64::MAX] {
        let mut seed = Vec::new();
        put_varint(&mut seed, number);
        seeds.push(seed);
    }
    seeds.push(seeds.concat());
    seeds
}

/// A sequence of integers has one form, and reading stops at the first byte that is wrong.
fn check(data: &[u8]) -> bool {
    let mut reader = Reader::new(data, "integers");
    let mut encoded = Vec::new();
    while !reader.rest().is_empty() {
        let before = reader.offset();
        let Ok(number) = reader.varint() else {
            assert!(reader.offset() <= data.len());
            return false;
        };
        assert!(reader.offset() > before);
        assert_eq!(zigzag(unzigzag(number)), number);
        put_varint(&mut encoded, number);
    }
    assert_eq!(encoded, data);
    true
}
