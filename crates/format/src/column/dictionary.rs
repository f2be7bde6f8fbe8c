//! The distinct words of one column of a frame, in order of first appearance.

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "numbers and lengths are bounded by limits.rs, places by the table's mask"
)]

use alloc::vec::Vec;

use crate::short::{ENDS_MAX, ends, same, wide_ends};

/// Numbers words: the first distinct word is 0, the next 1, and so on. It is reused from frame to
/// frame.
///
/// The hash is seeded for each frame, so that nobody who chooses words can cause collisions.
#[derive(Default)]
pub(super) struct Dictionary {
    slots: Vec<Slot>,
    words: Vec<u8>,
    /// End of word i in `words`; its start is the end of the one before.
    ends: Vec<u32>,
    seeds: Seeds,
}

/// A slot of the hash table. A lookup needs only the slot and the word's bytes, so it touches one
/// cache line of the table.
#[derive(Clone, Copy, Default)]
struct Slot {
    tag: u32,
    /// The word's number plus one; 0 marks a free slot.
    number: u32,
    start: u32,
    length: u32,
}

const SLOTS_MIN: usize = 64;
/// Slots for each word, at least: more would miss the cache, fewer would lengthen the search.
const SLOTS_PER_WORD: usize = 2;
/// An odd constant with well-mixed bits (the fractional part of the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

impl Dictionary {
    /// Removes all words. The table is sized for as many words as the last frame had.
    pub(super) fn reset(&mut self, seed: u64) {
        let slots = (self.ends.len() * SLOTS_PER_WORD).next_power_of_two();
        self.words.clear();
        self.ends.clear();
        self.seeds = Seeds::new(seed);
        self.slots.clear();
        self.slots.resize(slots.max(SLOTS_MIN), Slot::default());
    }

    /// Appends the number of each of `words` to `numbers`; adds new words.
    #[inline]
    pub(super) fn number_all<'a>(
        &mut self,
        words: impl Iterator<Item = &'a [u8]> + Clone,
        numbers: &mut Vec<u32>,
    ) {
        // Columns with one value, mostly the empty one, are common: they need no hash.
        if self.ends.len() == 1 && words.clone().all(|word| same(word, &self.words)) {
            numbers.extend(words.map(|_| 0));
        } else {
            numbers.extend(words.map(|word| self.number(word)));
        }
    }

    /// Returns the number of `word`; adds it if it is new.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8]) -> u32 {
        let hash = self.seeds.hash(word);
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot.number == 0 {
                return self.insert(word, tag, place);
            }
            if slot.tag == tag && same(self.word(slot), word) {
                return slot.number - 1;
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn word(&self, slot: Slot) -> &[u8] {
        let start = slot.start as usize;
        &self.words[start..start + slot.length as usize]
    }

    /// Returns the number of distinct words.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of all words, concatenated.
    pub(super) fn words(&self) -> &[u8] {
        &self.words
    }

    /// Returns the length of each word.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        self.ends.iter().zip(starts).map(|(end, start)| end - start)
    }

    #[cold]
    fn insert(&mut self, word: &[u8], tag: u32, place: usize) -> u32 {
        let number = self.ends.len() as u32;
        self.slots[place] = Slot {
            tag,
            number: number + 1,
            start: self.words.len() as u32,
            length: word.len() as u32,
        };
        self.words.extend_from_slice(word);
        self.ends.push(self.words.len() as u32);
        if self.ends.len() * SLOTS_PER_WORD > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(slots, Slot::default());
        let mask = slots - 1;
        let mut start = 0;
        for (number, end) in self.ends.iter().enumerate() {
            let hash = self.seeds.hash(&self.words[start as usize..*end as usize]);
            let mut place = hash as usize & mask;
            while self.slots[place].number != 0 {
                place = (place + 1) & mask;
            }
            self.slots[place] = Slot {
                tag: (hash >> 32) as u32,
                number: number as u32 + 1,
                start,
                length: end - start,
            };
            start = *end;
        }
    }
}

/// The random keys of the hash.
///
/// Both factors of every multiplication are keyed. With one known, a word that makes that factor 0
/// would hash to 0 whatever its other bytes.
#[derive(Clone, Copy, Default)]
struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    fn new(seed: u64) -> Self {
        Self {
            first: seed,
            last: fold(seed ^ MIX, seed.rotate_left(32) | 1),
        }
    }

    /// Hashes short words fast: folded 64-bit multiplications over sixteen bytes at a time.
    #[inline]
    fn hash(self, word: &[u8]) -> u64 {
        let state = (word.len() as u64).wrapping_mul(MIX);
        if word.len() <= ENDS_MAX {
            let (first, last) = ends(word);
            return fold(first ^ self.first ^ state, last ^ self.last);
        }
        // Hashes the first and last 16 bytes, then any between them.
        let (first, last) = wide_ends(word).unwrap_or_default();
        let mut state = self.fold_wide(self.fold_wide(state, first), last);
        let (chunks, _) = word.as_chunks::<16>();
        for chunk in chunks.iter().take((word.len() - 1) / 16).skip(1) {
            state = self.fold_wide(state, u128::from_le_bytes(*chunk));
        }
        state
    }

    #[inline]
    fn fold_wide(self, state: u64, bytes: u128) -> u64 {
        fold(
            bytes as u64 ^ self.first ^ state,
            (bytes >> 64) as u64 ^ self.last,
        )
    }
}

/// Multiplies to 128 bits and returns the XOR of the two halves.
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
            assert!(dictionary.words().ends_with(b"word4998word4999"));
        }
    }

    #[test]
    fn words_that_differ_in_one_byte_spread_over_the_table() {
        for length in [1, 3, 4, 7, 8, 12, 16, 17, 31, 32, 33, 48, 49, 100] {
            let mut dictionary = Dictionary::default();
            dictionary.reset(0x0123_4567_89AB_CDEF);
            let mut hashes: Vec<u32> = Vec::new();
            for place in 0..length {
                for byte in 0..=255_u8 {
                    let mut word = std::vec![b'x'; length];
                    word[place] = byte;
                    hashes.push(dictionary.seeds.hash(&word) as u32);
                    dictionary.number(&word);
                }
            }
            // One word is equal at every place; the others are distinct, and so are nearly all
            // their hashes.
            let distinct = length * 255 + 1;
            assert_eq!(dictionary.len(), distinct);
            hashes.sort_unstable();
            hashes.dedup();
            assert!(hashes.len() + 8 > distinct, "{length}: {}", hashes.len());
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
