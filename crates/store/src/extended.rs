//! Floats with a mantissa of 64 bits: Redis adds in these, and its replies show it.

use std::cmp::Ordering;

use crate::natural::Natural;

/// Longest text that is read as a number, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Digits after the point that are written before trailing zeros are cut.
const FRACTION_DIGITS: u32 = 17;
const MANTISSA_BITS: i64 = 64;
/// The smallest exponent of the mantissa's last bit.
const EXPONENT_MIN: i64 = -16_445;
/// The largest exponent of the mantissa's last bit.
const EXPONENT_MAX: i64 = 16_320;
/// Decimal exponents beyond this are out of range whatever the digits are.
const DECIMAL_EXPONENT_MAX: i64 = 12_000;

/// A number: finite, or an infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extended {
    /// `mantissa` times two to the power of `exponent`.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i64,
    },
    Infinite {
        negative: bool,
    },
}

impl Extended {
    pub(crate) const ZERO: Self = zero(false);

    /// Reads a number as the C library does, without spaces around it; no NaN, nothing out of range.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            return Some(Self::Infinite { negative });
        }
        let hexadecimal = unsigned
            .strip_prefix("0x")
            .or_else(|| unsigned.strip_prefix("0X"));
        let number = match hexadecimal {
            Some(digits) => hexadecimal_number(digits, negative)?,
            None => decimal_number(unsigned, negative)?,
        };
        Some(number)
    }

    /// The sum, rounded to even; none where it is infinite or no number.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let (
            Self::Finite {
                negative,
                mantissa,
                exponent,
            },
            Self::Finite {
                negative: other_negative,
                mantissa: other_mantissa,
                exponent: other_exponent,
            },
        ) = (self, other)
        else {
            return None;
        };
        let least = exponent.min(other_exponent);
        let left = Natural::from(mantissa).shifted_left(steps(exponent - least));
        let right = Natural::from(other_mantissa).shifted_left(steps(other_exponent - least));
        let (negative, sum) = if negative == other_negative {
            (negative, left.plus(&right))
        } else {
            match left.cmp(&right) {
                Ordering::Less => (other_negative, right.minus(&left)),
                Ordering::Equal => (false, Natural::default()),
                Ordering::Greater => (negative, left.minus(&right)),
            }
        };
        let sum = rounded(sum, false, least).signed(negative);
        matches!(sum, Self::Finite { .. }).then_some(sum)
    }

    /// Returns the number with this sign.
    const fn signed(self, negative: bool) -> Self {
        match self {
            Self::Finite {
                mantissa, exponent, ..
            } => Self::Finite {
                negative,
                mantissa,
                exponent,
            },
            Self::Infinite { .. } => Self::Infinite { negative },
        }
    }

    /// The number as `%.17Lf` writes it, without trailing zeros.
    pub(crate) fn format(self) -> String {
        let (negative, mantissa, exponent) = match self {
            Self::Infinite { negative: true } => return "-inf".to_owned(),
            Self::Infinite { negative: false } => return "inf".to_owned(),
            Self::Finite {
                negative,
                mantissa,
                exponent,
            } => (negative, mantissa, exponent),
        };
        let scaled = Natural::from(mantissa).times(&Natural::power_of_ten(FRACTION_DIGITS));
        let scaled = if exponent >= 0 {
            scaled.shifted_left(steps(exponent))
        } else {
            scaled.shifted_right_to_even(steps(-exponent), false)
        };
        let digits = scaled.to_decimal();
        let width = FRACTION_DIGITS as usize + 1;
        let digits = format!("{digits:0>width$}");
        let (whole, fraction) = digits
            .split_at_checked(digits.len() - FRACTION_DIGITS as usize)
            .unwrap_or((&digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let mut text = String::new();
        if negative && !scaled.is_zero() {
            text.push('-');
        }
        text.push_str(whole);
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(fraction);
        }
        text
    }
}

/// A shift that is never negative, as the counts of bits are.
fn steps(difference: i64) -> usize {
    usize::try_from(difference).unwrap_or_default()
}

fn decimal_number(text: &str, negative: bool) -> Option<Extended> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let digits = Natural::from_decimal(whole, fraction);
    if digits.is_zero() {
        return Some(zero(negative));
    }
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    if exponent.abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    let power = Natural::power_of_ten(u32::try_from(exponent.unsigned_abs()).ok()?);
    let number = if exponent >= 0 {
        rounded(digits.times(&power), false, 0)
    } else {
        // Two bits more than the mantissa has, so that the rounding sees what was cut.
        let wanted = i64::try_from(power.bits()).ok()? - i64::try_from(digits.bits()).ok()?;
        let shift = (wanted + MANTISSA_BITS + 2).max(0);
        let (quotient, inexact) = digits.shifted_left(steps(shift)).divided_by(&power);
        rounded(quotient, inexact, -shift)
    };
    is_in_range(number).then(|| number.signed(negative))
}

/// An exponent that is too long to be read is out of range anyway.
fn parse_exponent(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = unsigned
        .parse::<i64>()
        .unwrap_or(i64::MAX)
        .min(DECIMAL_EXPONENT_MAX * 2);
    Some(if text.starts_with('-') { -value } else { value })
}

fn hexadecimal_number(text: &str, negative: bool) -> Option<Extended> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = Natural::default();
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = Natural::from(u64::from(digit.to_digit(16)?));
        value = value.shifted_left(4).plus(&digit);
    }
    if value.is_zero() {
        return Some(zero(negative));
    }
    let shift = i64::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let number = rounded(value, false, exponent.checked_sub(shift)?);
    is_in_range(number).then(|| number.signed(negative))
}

const fn zero(negative: bool) -> Extended {
    Extended::Finite {
        negative,
        mantissa: 0,
        exponent: 0,
    }
}

/// A number that is not zero must not have become zero, nor infinite.
const fn is_in_range(number: Extended) -> bool {
    matches!(number, Extended::Finite { mantissa, .. } if mantissa != 0)
}

/// `value` times two to the power of `exponent`, rounded to even; `inexact` says that something
/// smaller was cut off before.
fn rounded(value: Natural, inexact: bool, exponent: i64) -> Extended {
    let bits = i64::try_from(value.bits()).unwrap_or(i64::MAX);
    let surplus = (bits - MANTISSA_BITS).max(EXPONENT_MIN - exponent);
    let (mut value, mut exponent) = if surplus > 0 {
        let value = value.shifted_right_to_even(steps(surplus), inexact);
        (value, exponent + surplus)
    } else {
        (value, exponent)
    };
    if i64::try_from(value.bits()).unwrap_or(i64::MAX) > MANTISSA_BITS {
        value = value.shifted_right_to_even(1, false);
        exponent += 1;
    }
    let missing = MANTISSA_BITS - i64::try_from(value.bits()).unwrap_or(MANTISSA_BITS);
    if exponent - missing > EXPONENT_MAX && !value.is_zero() {
        return Extended::Infinite { negative: false };
    }
    Extended::Finite {
        negative: false,
        mantissa: value.low(),
        exponent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> Option<String> {
        let left = Extended::parse(left.as_bytes())?;
        Some(left.add(Extended::parse(right.as_bytes())?)?.format())
    }

    #[test]
    fn sums_are_those_of_sixty_four_bits() {
        for (left, right, expected) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3", "-3", "0"),
            ("-0.0", "-0.0", "0"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1", "1e-18", "1"),
            ("9007199254740993", "1", "9007199254740994"),
            ("18446744073709551615", "0", "18446744073709551615"),
            ("36893488147419103233", "0", "36893488147419103232"),
            ("0x1p4", "0.5", "16.5"),
            ("-1.23456789012345678", "0", "-1.23456789012345678"),
        ] {
            assert_eq!(
                sum(left, right).as_deref(),
                Some(expected),
                "{left} {right}"
            );
        }
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("inf", "1"), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "abc",
            "nan",
            "1e5000",
            "1e-5000",
            "1e",
            "--1",
            "1.2.3",
            "0x",
            "e1",
            "1e99999999999999999999",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Extended::parse(b"0e99999999999999999999").is_some());
    }
}
