//! One value of a database, typed, and its form in records.

use std::fmt;

use probity_format::DecodeError;
use probity_format::wire::{Reader, put_varint, unzigzag, zigzag};

/// The most bytes that one stored value may have.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// One value as a driver returns it, without loss.
///
/// The values of `PostgreSQL` arrive as their canonical text and go back through the column's own input function.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer above `i64::MAX`.
    UInt(u64),
    /// A floating-point number, with its exact bits.
    Real(f64),
    /// Text, and on the servers also dates, decimals, JSON and UUIDs.
    Text(String),
    /// Binary.
    Bytes(Vec<u8>),
}

impl Value {
    /// Returns whether this is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns whether an owner column with this value names nobody: NULL, and by convention 0 and
    /// the empty text.
    pub fn is_nobody(&self) -> bool {
        match self {
            Self::Null | Self::Int(0) | Self::UInt(0) => true,
            Self::Text(text) => text.is_empty() || text == "0",
            _ => false,
        }
    }

    /// Returns whether the database may treat another value as equal: other case or accents, spaces
    /// at the end, digits after the point.
    pub(crate) const fn has_spellings(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Real(_))
    }

    /// Returns the number that bits make, the first byte being the highest. There are 64 of them at
    /// most.
    pub(crate) fn of_bits(bytes: &[u8]) -> Self {
        let bytes = bytes.iter();
        let number = bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        i64::try_from(number).map_or(Self::UInt(number), Self::Int)
    }

    /// Returns the bytes that identify a principal with this id, the same for every driver.
    pub(crate) fn principal(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            other => other.to_string().into_bytes(),
        }
    }

    /// Returns the values of every type that identify the same principal, this one among them.
    pub(crate) fn namesakes(&self) -> Vec<Self> {
        let name = self.principal();
        let mut all = vec![Self::Bytes(name.clone())];
        let Ok(text) = String::from_utf8(name) else {
            return all;
        };
        let integer = text.parse().map(Self::Int);
        let real = text.parse().map(Self::Real);
        let numbers = integer.into_iter().chain(real);
        all.extend(numbers.filter(|it| it.to_string() == text));
        all.push(Self::Text(text));
        all
    }

    /// Returns 1 for a text, 2 for bytes and 0 for a number: values of two of these are never equal
    /// where nothing converts them.
    pub(crate) const fn storage(&self) -> u8 {
        match self {
            Self::Null | Self::Int(_) | Self::UInt(_) | Self::Real(_) => 0,
            Self::Text(_) => 1,
            Self::Bytes(_) => 2,
        }
    }

    /// Exactly the same value, bit by bit.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real(left), Self::Real(right)) => left.to_bits() == right.to_bits(),
            (left, right) => left == right,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0),
            Self::Int(value) => {
                out.push(1);
                put_varint(out, zigzag(*value));
            }
            Self::UInt(value) => {
                out.push(2);
                put_varint(out, *value);
            }
            Self::Real(value) => {
                out.push(3);
                out.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            Self::Text(text) => {
                out.push(4);
                put_bytes(out, text.as_bytes());
            }
            Self::Bytes(bytes) => {
                out.push(5);
                put_bytes(out, bytes);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Null,
            1 => Self::Int(unzigzag(reader.varint()?)),
            2 => Self::UInt(reader.varint()?),
            3 => Self::Real(f64::from_bits(reader.u64()?)),
            4 => Self::Text(take_text(reader)?),
            5 => Self::Bytes(take_bytes(reader)?.to_vec()),
            _ => return Err(reader.error("has an unknown type of value")),
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Appends the number of what follows.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, u64::try_from(count).unwrap_or(u64::MAX));
}

/// Appends length and bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Reads what [`put_bytes`] wrote.
pub(crate) fn take_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = reader.length(VALUE_BYTES_MAX)?;
    reader.take(length)
}

/// Reads a text that [`put_bytes`] wrote.
pub(crate) fn take_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let bytes = take_bytes(reader)?;
    String::from_utf8(bytes.to_vec()).map_err(|_invalid| reader.error("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_numbers() {
        assert_eq!(Value::of_bits(b"1"), Value::Int(0x31));
        assert_eq!(Value::of_bits(&[1, 0, 5]), Value::Int(0x1_0005));
        assert_eq!(Value::of_bits(&[0xff; 8]), Value::UInt(u64::MAX));
    }

    #[test]
    fn every_value_comes_back_bit_by_bit() {
        let values = [
            Value::Null,
            Value::Int(i64::MIN),
            Value::UInt(u64::MAX),
            Value::Real(-0.0),
            Value::Real(f64::NAN),
            Value::from("NULL"),
            Value::from("a'b\"\u{0}"),
            Value::Bytes(vec![0, 255]),
        ];
        for value in values {
            let mut out = Vec::new();
            value.encode(&mut out);
            let mut reader = Reader::new(&out, "value");
            assert!(Value::decode(&mut reader).unwrap().same(&value));
            reader.finish().unwrap();
            for cut in 0..out.len() {
                assert!(Value::decode(&mut Reader::new(&out[..cut], "value")).is_err());
            }
        }
    }
}
