//! Amounts of numbers, whatever their form.

use crate::database::value::Value;

/// A decimal number: its digits without zeros at either end, and the power of ten of the last.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    power: i64,
}

impl Decimal {
    /// Reads digits with a point and an exponent.
    fn read(text: &str) -> Option<Self> {
        let (text, is_negative) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let exponent: i64 = exponent.parse().ok()?;
        let kept = digits.trim_end_matches('0');
        let places = i64::try_from(fraction.len()).ok()?;
        let dropped = i64::try_from(digits.len() - kept.len()).ok()?;
        let digits = kept.trim_start_matches('0').to_owned();
        let is_zero = digits.is_empty();
        let power = exponent.checked_sub(places)?.checked_add(dropped)?;
        Some(Self {
            is_negative: is_negative && !is_zero,
            digits,
            power: if is_zero { 0 } else { power },
        })
    }

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null | Value::Bytes(_) => None,
            other => Self::read(&other.to_string()),
        }
    }
}

/// Returns whether both values are numbers, and of the same amount.
pub(super) fn is_same_amount(one: &Value, other: &Value) -> bool {
    let one = Decimal::of(one);
    one.is_some() && one == Decimal::of(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_amount_are_alike() {
        for (one, other) in [
            (Value::from("12.50"), Value::from("12.5")),
            (Value::Int(7), Value::from("7.000")),
            (Value::Int(-1000), Value::from("-1e3")),
            (Value::from("-0.00"), Value::Int(0)),
        ] {
            assert!(is_same_amount(&one, &other), "{one:?} {other:?}");
        }
        for (one, other) in [
            (Value::from("12.55"), Value::from("12.5")),
            (
                Value::Int(9_007_199_254_740_993),
                Value::Real(9_007_199_254_740_992.0),
            ),
            (Value::from("12\0"), Value::Int(12)),
            (Value::from("a"), Value::from("a")),
            (Value::Null, Value::Int(0)),
        ] {
            assert!(!is_same_amount(&one, &other), "{one:?} {other:?}");
        }
    }
}
