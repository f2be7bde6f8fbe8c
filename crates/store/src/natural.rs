//! Natural numbers of any length: exact where floats are read, added and written.

use std::cmp::Ordering;
use std::fmt::Write as _;

const WORD_BITS: usize = 32;
/// The largest power of ten in a word, and its digits.
const DECIMAL_WORD: (u32, usize) = (1_000_000_000, 9);

/// A natural number, its least word first, without zeros at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Natural {
    words: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(value: u64) -> Self {
        Self::of(vec![low_word(value), low_word(value >> WORD_BITS)])
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = self.words.len().cmp(&other.words.len());
        lengths.then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }
}

impl Natural {
    /// The number that two runs of decimal digits, one after the other, stand for.
    pub(crate) fn from_decimal(whole: &str, fraction: &str) -> Self {
        let mut number = Self::default();
        for digit in whole.bytes().chain(fraction.bytes()) {
            number.times_word_plus(10, u32::from(digit.wrapping_sub(b'0')));
        }
        number
    }

    /// Ten to the power of `exponent`.
    pub(crate) fn power_of_ten(exponent: u32) -> Self {
        let mut number = Self::from(1);
        for _ in 0..exponent {
            number.times_word_plus(10, 0);
        }
        number
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the number of bits, without zeros in front.
    pub(crate) fn bits(&self) -> usize {
        self.words.last().map_or(0, |last| {
            self.words.len() * WORD_BITS - last.leading_zeros() as usize
        })
    }

    /// Its lowest 64 bits.
    pub(crate) fn low(&self) -> u64 {
        u64::from(self.word(0)) | u64::from(self.word(1)) << WORD_BITS
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let length = self.words.len().max(other.words.len()) + 1;
        let words = (0..length).map(|place| {
            let sum = u64::from(self.word(place)) + u64::from(other.word(place)) + carry;
            carry = sum >> WORD_BITS;
            low_word(sum)
        });
        Self::of(words.collect())
    }

    /// The difference; zero where `other` is larger.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        if *self < *other {
            return Self::default();
        }
        let mut borrow = 0;
        let words = (0..self.words.len()).map(|place| {
            let base = (1 << WORD_BITS) + u64::from(self.word(place));
            let difference = base - u64::from(other.word(place)) - borrow;
            borrow = u64::from(difference >> WORD_BITS == 0);
            low_word(difference)
        });
        Self::of(words.collect())
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut words = vec![0_u32; self.words.len() + other.words.len() + 1];
        for (start, left) in self.words.iter().enumerate() {
            let mut carry = 0;
            for (place, word) in words.iter_mut().enumerate().skip(start) {
                let right = other.word(place - start);
                let sum = u64::from(*left) * u64::from(right) + u64::from(*word) + carry;
                *word = low_word(sum);
                carry = sum >> WORD_BITS;
            }
        }
        Self::of(words)
    }

    pub(crate) fn shifted_left(&self, bits: usize) -> Self {
        let (whole, part) = (bits / WORD_BITS, bits % WORD_BITS);
        let mut words = vec![0; whole];
        let mut carry = 0;
        for word in &self.words {
            let shifted = u64::from(*word) << part | carry;
            words.push(low_word(shifted));
            carry = shifted >> WORD_BITS;
        }
        words.push(low_word(carry));
        Self::of(words)
    }

    /// Divides by two to the power of `bits` and rounds to even. `inexact` means that a part below
    /// the lowest bit was cut off before.
    pub(crate) fn shifted_right_to_even(&self, bits: usize, inexact: bool) -> Self {
        let quotient = self.shifted_right(bits);
        if bits == 0 {
            return quotient;
        }
        let half = self.bit(bits - 1);
        let below = inexact || (0..bits - 1).any(|bit| self.bit(bit));
        if half && (below || quotient.bit(0)) {
            quotient.plus(&Self::from(1))
        } else {
            quotient
        }
    }

    /// The quotient, and whether something is left.
    pub(crate) fn divided_by(&self, divisor: &Self) -> (Self, bool) {
        let mut rest = self.clone();
        let mut quotient = Self::default();
        let steps = self.bits().saturating_sub(divisor.bits());
        for shift in (0..=steps).rev() {
            let shifted = divisor.shifted_left(shift);
            quotient = quotient.shifted_left(1);
            if rest >= shifted && !divisor.is_zero() {
                rest = rest.minus(&shifted);
                quotient = quotient.plus(&Self::from(1));
            }
        }
        (quotient, !rest.is_zero())
    }

    pub(crate) fn to_decimal(&self) -> String {
        let (base, width) = DECIMAL_WORD;
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.is_zero() {
            groups.push(rest.divide_by_word(base));
        }
        let mut text = groups.pop().unwrap_or_default().to_string();
        for group in groups.iter().rev() {
            // Writing to a string cannot fail.
            let _infallible = write!(text, "{group:0width$}");
        }
        text
    }

    fn of(mut words: Vec<u32>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }

    fn word(&self, place: usize) -> u32 {
        self.words.get(place).copied().unwrap_or_default()
    }

    fn bit(&self, bit: usize) -> bool {
        self.word(bit / WORD_BITS) >> (bit % WORD_BITS) & 1 == 1
    }

    fn shifted_right(&self, bits: usize) -> Self {
        let (whole, part) = (bits / WORD_BITS, bits % WORD_BITS);
        let words = (whole..self.words.len()).map(|place| {
            let wide = u64::from(self.word(place + 1)) << WORD_BITS | u64::from(self.word(place));
            low_word(wide >> part)
        });
        Self::of(words.collect())
    }

    fn times_word_plus(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for word in &mut self.words {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = low_word(product);
            carry = product >> WORD_BITS;
        }
        if carry > 0 {
            self.words.push(low_word(carry));
        }
    }

    /// Leaves the quotient and gives the rest.
    fn divide_by_word(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for word in self.words.iter_mut().rev() {
            let wide = rest << WORD_BITS | u64::from(*word);
            *word = low_word(wide / u64::from(divisor));
            rest = wide % u64::from(divisor);
        }
        *self = Self::of(std::mem::take(&mut self.words));
        low_word(rest)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the higher half is taken apart by the caller"
)]
const fn low_word(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn natural(text: &str) -> Natural {
        Natural::from_decimal(text, "")
    }

    #[test]
    fn arithmetic_agrees_with_numbers_of_128_bits() {
        let samples = [
            0_u128,
            1,
            7,
            1 << 31,
            1 << 32,
            (1 << 64) - 1,
            1 << 90,
            (1 << 96) - 5,
        ];
        for left in samples {
            for right in samples {
                let (a, b) = (natural(&left.to_string()), natural(&right.to_string()));
                assert_eq!(a.plus(&b).to_decimal(), (left + right).to_string());
                assert_eq!(a.cmp(&b), left.cmp(&right));
                if let Some(difference) = left.checked_sub(right) {
                    assert_eq!(a.minus(&b).to_decimal(), difference.to_string());
                }
                if let Some(product) = left.checked_mul(right) {
                    assert_eq!(a.times(&b).to_decimal(), product.to_string());
                }
                if let Some(quotient) = left.checked_div(right) {
                    let (found, left_over) = a.divided_by(&b);
                    assert_eq!(found.to_decimal(), quotient.to_string());
                    assert_eq!(left_over, quotient * right != left);
                }
            }
        }
    }

    #[test]
    fn shifts_to_the_right_round_to_even() {
        for (value, bits, expected) in [
            (5, 1, "2"),
            (7, 1, "4"),
            (6, 2, "2"),
            (2, 2, "0"),
            (1, 70, "0"),
        ] {
            assert_eq!(
                Natural::from(value)
                    .shifted_right_to_even(bits, false)
                    .to_decimal(),
                expected
            );
        }
        assert_eq!(
            Natural::from(5).shifted_right_to_even(1, true).to_decimal(),
            "3"
        );
        assert_eq!(
            Natural::from(3).shifted_left(70).to_decimal(),
            "3541774862152233910272"
        );
    }
}
