//! Values and their encoding in rows, which preserves their order.

use core::cmp::Ordering;

use crate::error::{Error, Result};
use crate::pager::bytes::{put, take};
use crate::tables::catalogue::Kind;
use crate::tables::index::trimmed;

/// Length of an encoded number in bytes.
pub(crate) const NUMBER_BYTES: usize = 8;
/// The sign bit of an encoded integer.
const SIGN: u64 = 1 << 63;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Value<'a> {
    /// No value; only aggregates over no rows return it.
    #[default]
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(&'a str),
}

impl Value<'_> {
    /// Returns the name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Integer(_) => "an integer",
            Self::Real(_) => "a real number",
            Self::Text(_) => "a text",
        }
    }

    /// Compares two values of one type; `None` for different types.
    pub(crate) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
            (Self::Real(a), Value::Real(b)) => a.partial_cmp(b),
            (Self::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            _ => None,
        }
    }
}

impl core::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The type of a stored or shown column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueType {
    /// An integer, including row ids and references.
    #[default]
    Integer,
    /// A floating-point number.
    Real,
    /// A text.
    Text,
}

impl ValueType {
    /// Returns the type of a stored column.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Position | Kind::Integer | Kind::Reference => Self::Integer,
            Kind::Real => Self::Real,
            Kind::Text(_) => Self::Text,
        }
    }

    /// Returns the name of the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Integer => "an integer",
            Self::Real => "a real number",
            Self::Text => "a text",
        }
    }

    /// Converts `value` to this type, if possible.
    pub(crate) fn accept(self, value: Value<'_>) -> Option<Value<'_>> {
        match (self, value) {
            (Self::Integer, Value::Integer(_))
            | (Self::Real, Value::Real(_))
            | (Self::Text, Value::Text(_)) => Some(value),
            #[expect(
                clippy::cast_precision_loss,
                reason = "a real column holds whole numbers as reals"
            )]
            (Self::Real, Value::Integer(number)) => Some(Value::Real(number as f64)),
            _ => None,
        }
    }
}

/// Returns the greatest real number that is not above `number`, and the smallest that is not below it: one
/// and the same where there is a real number of this value.
pub(crate) fn reals_around(number: i64) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "the loss is what is looked at")]
    let near = number as f64;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and at most 2^63 away from zero"
    )]
    match (near as i128).cmp(&i128::from(number)) {
        Ordering::Less => (near, near.next_up()),
        Ordering::Equal => (near, near),
        Ordering::Greater => (near.next_down(), near),
    }
}

/// Encodes an integer so that the order is preserved.
pub(crate) fn encode_integer(number: i64) -> [u8; NUMBER_BYTES] {
    (number.cast_unsigned() ^ SIGN).to_be_bytes()
}

/// Decodes an integer encoded by [`encode_integer`].
pub(crate) fn decode_integer(bytes: &[u8]) -> i64 {
    (u64::from_be_bytes(take(bytes, 0)) ^ SIGN).cast_signed()
}

/// Encodes a real number so that the order is preserved; both zeros have one encoding.
pub(crate) fn encode_real(number: f64) -> [u8; NUMBER_BYTES] {
    let bits = (number + 0.0).to_bits();
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    ordered.to_be_bytes()
}

/// Decodes a number encoded by [`encode_real`].
pub(crate) fn decode_real(bytes: &[u8]) -> f64 {
    let ordered = u64::from_be_bytes(take(bytes, 0));
    let bits = if ordered & SIGN == 0 {
        !ordered
    } else {
        ordered & !SIGN
    };
    f64::from_bits(bits)
}

/// Encodes `value`, which must have the right type, into the whole of `out`.
pub(crate) fn encode(value: &Value<'_>, out: &mut [u8]) -> Result<()> {
    out.fill(0);
    match value {
        Value::Integer(number) => put(out, 0, &encode_integer(*number)),
        Value::Real(number) if !number.is_finite() => {
            let message = alloc::format!("{number} is no finite number and cannot be stored");
            return Err(Error::Value(message));
        }
        Value::Real(number) => put(out, 0, &encode_real(*number)),
        Value::Text(text) if text.len() > out.len() => {
            let (length, room) = (text.len(), out.len());
            let message = alloc::format!("a text of {length} bytes exceeds the column's {room}");
            return Err(Error::Value(message));
        }
        Value::Text(text) if text.contains('\0') => {
            return Err(Error::Value("a text with a zero cannot be stored".into()));
        }
        Value::Text(text) => put(out, 0, text.as_bytes()),
        Value::Null => return Err(Error::Value("NULL cannot be stored".into())),
    }
    Ok(())
}

/// Decodes a stored value.
pub(crate) fn decode(kind: ValueType, bytes: &[u8]) -> Value<'_> {
    match kind {
        ValueType::Integer => Value::Integer(decode_integer(bytes)),
        ValueType::Real => Value::Real(decode_real(bytes)),
        // Only `encode` writes texts, and a page that is not as it was written does not open.
        ValueType::Text => Value::Text(core::str::from_utf8(trimmed(bytes)).unwrap_or("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_numbers_have_the_order_of_the_numbers() {
        let integers = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX];
        let encoded = integers.map(encode_integer);
        assert!(encoded.is_sorted());
        assert_eq!(encoded.map(|bytes| decode_integer(&bytes)), integers);
        let reals = [
            f64::NEG_INFINITY,
            -2.5,
            -1e-300,
            0.0,
            1e-300,
            3.25,
            f64::INFINITY,
        ];
        let encoded = reals.map(encode_real);
        assert!(encoded.is_sorted());
        let decoded = encoded.map(|bytes| decode_real(&bytes).to_bits());
        assert_eq!(decoded, reals.map(f64::to_bits));
        assert_eq!(encode_real(-0.0), encode_real(0.0));
    }

    #[test]
    fn the_reals_around_an_integer_enclose_it() {
        let two_53 = 9_007_199_254_740_992.0;
        assert_eq!(reals_around(5), (5.0, 5.0));
        assert_eq!(reals_around((1 << 53) + 1), (two_53, two_53 + 2.0));
        assert_eq!(reals_around(-(1 << 53) - 1), (-two_53 - 2.0, -two_53));
        let two_63 = f64::from_bits(0x43E0_0000_0000_0000);
        assert_eq!(reals_around(i64::MAX), (two_63 - 1024.0, two_63));
        assert_eq!(reals_around(i64::MIN), (-two_63, -two_63));
    }

    #[test]
    fn what_cannot_come_back_unchanged_is_refused() {
        let mut room = [0; 4];
        assert!(encode(&Value::Text("abcde"), &mut room).is_err());
        assert!(encode(&Value::Text("a\0b"), &mut room).is_err());
        assert!(encode(&Value::Null, &mut room).is_err());
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(encode(&Value::Real(number), &mut [0; 8]).is_err());
        }
        encode(&Value::Text("ab"), &mut room).unwrap();
        assert_eq!(decode(ValueType::Text, &room), Value::Text("ab"));
    }
}
