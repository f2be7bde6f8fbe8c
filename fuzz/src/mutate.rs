//! Changes to an input, drawn from a seed: the same seed always gives the same inputs.

/// Numbers that parsers are most often wrong about.
const EDGES: [u64; 10] = [
    0,
    1,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// The most bytes an input grows to.
const INPUT_BYTES_MAX: usize = 1 << 16;

/// Random numbers (`SplitMix64`) that depend on their seed alone.
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0 when there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }
}

/// `input` with one to six changes; `other` is where foreign parts come from.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(6) {
        change(&mut bytes, other, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0 => bytes.truncate(at),
        1 => flip(bytes, at, random),
        2 => overwrite(bytes, at, &random.next().to_le_bytes()[..=random.below(8)]),
        3 => overwrite(bytes, at, &edge(random)),
        4 => splice(bytes, at, 0, &edge(random)),
        5 => splice(bytes, at, 1 + random.below(16), &[]),
        6 => {
            let part = part_of(&bytes.clone(), random);
            splice(bytes, at, 0, &part);
        }
        7 => splice(bytes, at, 0, &part_of(other, random)),
        _ => {
            let part = part_of(other, random);
            splice(bytes, at, part.len(), &part);
        }
    }
}

fn flip(bytes: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// One of the edge numbers, in 1, 2, 4 or 8 bytes of either order, or in decimal.
fn edge(random: &mut Random) -> Vec<u8> {
    let number = EDGES[random.below(EDGES.len())];
    let length = 1 << random.below(4);
    match random.below(3) {
        0 => number.to_le_bytes()[..length].to_vec(),
        1 => number.to_be_bytes()[8 - length..].to_vec(),
        _ => number.to_string().into_bytes(),
    }
}

fn part_of(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let start = random.below(bytes.len());
    let length = random.below(bytes.len() - start + 1).min(64);
    bytes[start..start + length].to_vec()
}

fn overwrite(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    splice(bytes, at, with.len(), with);
}

fn splice(bytes: &mut Vec<u8>, at: usize, removed: usize, with: &[u8]) {
    let at = at.min(bytes.len());
    let end = at.saturating_add(removed).min(bytes.len());
    bytes.splice(at..end, with.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..100)
                .map(|_| mutated(b"seed", b"other", &mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|input| input != b"seed"));
    }

    #[test]
    fn an_empty_input_can_be_changed() {
        let mut random = Random::new(7);
        assert!((0..100).any(|_| !mutated(&[], &[], &mut random).is_empty()));
    }
}
