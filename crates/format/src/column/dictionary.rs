//! The distinct words of one column of a frame, in order of first appearance.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "numbers and lengths are bounded by limits.rs, places by the table's mask"
)]

use alloc::vec::Vec;

/// Numbers words: the first distinct word is 0, the next 1, and so on. Reused from frame to frame.
///
/// The hash is seeded for each frame, so that nobody who chooses words can make them collide.
#[derive(Default)]
pub(super) struct Dictionary {
    slots: Vec<Slot>,
    words: Vec<u8>,
    /// End of word i in `words`; its start is the end of the one before.
    ends: Vec<u32>,
    counts: Vec<u32>,
    seed: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    tag: u32,
    /// The word's number plus one; 0 marks a free slot.
    number: u32,
}

const SLOTS_MIN: usize = 64;
/// An odd constant with well-mixed bits (the fractional part of the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

impl Dictionary {
    pub(super) fn reset(&mut self, seed: u64) {
        self.words.clear();
        self.ends.clear();
        self.counts.clear();
        self.seed = seed;
        if self.slots.is_empty() {
            self.slots.resize(SLOTS_MIN, Slot::default());
        } else {
            self.slots.fill(Slot::default());
        }
    }

    /// The number of `word`, which becomes known.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> u32 {
        // Columns with one value are common (and empty ones more so): no hash for them.
        if self.ends.len() == 1 && word == self.words.as_slice() {
            self.counts[0] += 1;
            return 0;
        }
        let hash = hash(self.seed, word);
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot.number == 0 {
                return self.insert(word, tag, place);
            }
            let number = slot.number - 1;
            if slot.tag == tag && self.word(number) == word {
                self.counts[number as usize] += 1;
                return number;
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    pub(super) fn word(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 {
            0
        } else {
            self.ends[number - 1] as usize
        };
        &self.words[start..self.ends[number] as usize]
    }

    /// Number of distinct words.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The words, one after another.
    pub(super) fn words(&self) -> &[u8] {
        &self.words
    }

    /// The length of each word.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        self.ends.iter().zip(starts).map(|(end, start)| end - start)
    }

    /// How often each word was asked for.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    #[cold]
    fn insert(&mut self, word: &[u8], tag: u32, place: usize) -> u32 {
        let number = self.ends.len() as u32;
        self.words.extend_from_slice(word);
        self.ends.push(self.words.len() as u32);
        self.counts.push(1);
        self.slots[place] = Slot {
            tag,
            number: number + 1,
        };
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let slots = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(slots, Slot::default());
        let mask = slots - 1;
        for number in 0..self.ends.len() as u32 {
            let hash = hash(self.seed, self.word(number));
            let mut place = hash as usize & mask;
            while self.slots[place].number != 0 {
                place = (place + 1) & mask;
            }
            self.slots[place] = Slot {
                tag: (hash >> 32) as u32,
                number: number + 1,
            };
        }
    }
}

/// A fast keyed hash of short words: folded 64-bit multiplications over eight bytes at a time.
#[inline]
fn hash(seed: u64, word: &[u8]) -> u64 {
    let (chunks, tail) = word.as_chunks::<8>();
    let mut state = seed ^ (word.len() as u64).wrapping_mul(MIX);
    for chunk in chunks {
        state = fold(state ^ u64::from_le_bytes(*chunk), MIX);
    }
    if !tail.is_empty() {
        let last = if let Some(end) = word.last_chunk::<8>() {
            u64::from_le_bytes(*end)
        } else if let (Some(first), Some(end)) = (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*end))
        } else {
            let middle = tail[tail.len() / 2];
            u64::from(tail[0]) << 16 | u64::from(middle) << 8 | u64::from(tail[tail.len() - 1])
        };
        state = fold(state ^ last, MIX);
    }
    fold(state, seed | 1)
}

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use super::*;

    #[test]
    fn numbers_follow_first_appearance_through_growth() {
        let mut dictionary = Dictionary::default();
        for seed in [1, 77] {
            dictionary.reset(seed);
            let words: Vec<String> = (0..5000).map(|i| format!("word{i}")).collect();
            for round in 0..3 {
                for (number, word) in words.iter().enumerate() {
                    assert_eq!(
                        dictionary.number(word.as_bytes()) as usize,
                        number,
                        "{round}"
                    );
                }
            }
            assert_eq!(dictionary.len(), 5000);
            assert!(dictionary.counts().iter().all(|count| *count == 3));
            assert_eq!(dictionary.word(4999), b"word4999");
        }
    }

    #[test]
    fn words_that_share_tails_and_lengths_stay_apart() {
        let mut dictionary = Dictionary::default();
        dictionary.reset(9);
        let words: [&[u8]; 8] = [
            b"",
            b"a",
            b"ab",
            b"abc",
            b"abcd",
            b"abcde",
            b"abcdefgh",
            b"\0",
        ];
        for (number, word) in words.iter().enumerate() {
            assert_eq!(dictionary.number(word) as usize, number);
        }
        assert_eq!(
            dictionary.lengths().sum::<u32>() as usize,
            dictionary.words().len()
        );
    }
}
