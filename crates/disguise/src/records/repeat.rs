//! The values of a bag: a repeated value is written as its number, and one equal to that in the row
//! above as a single byte.

use std::collections::HashMap;

use probity_format::DecodeError;
use probity_format::wire::{Reader, put_varint};

use crate::database::value::Value;

/// Shorter values are as short as a reference to them.
const BYTES_MIN: usize = 4;
/// Longer values seldom come twice.
const BYTES_MAX: usize = 64;
/// The most values kept in memory for this.
const VALUES_MAX: usize = 1 << 16;
/// The type of value that is a reference.
const REPEATED: u8 = 6;
/// The type of value that stands for the one in the same column of the row above.
const ABOVE: u8 = 7;

fn counts(bytes: usize, known: usize) -> bool {
    (BYTES_MIN..=BYTES_MAX).contains(&bytes) && known < VALUES_MAX
}

/// Writes values.
#[derive(Default)]
pub(super) struct Writer<'v> {
    numbers: HashMap<Vec<u8>, u64>,
    above: Vec<&'v Value>,
}

impl<'v> Writer<'v> {
    /// Begins a section, whose first row has none above it.
    pub(super) fn begin(&mut self) {
        self.above.clear();
    }

    /// Appends a row.
    pub(super) fn row(&mut self, row: impl Iterator<Item = &'v Value>, out: &mut Vec<u8>) {
        for (place, value) in row.enumerate() {
            let above = self.above.get_mut(place);
            match above {
                Some(above) if !value.is_null() && above.same(value) => out.push(ABOVE),
                Some(above) => {
                    *above = value;
                    self.put(value, out);
                }
                None => {
                    self.above.push(value);
                    self.put(value, out);
                }
            }
        }
    }

    /// Appends `value` to `out`, or the number that it has already.
    pub(super) fn put(&mut self, value: &Value, out: &mut Vec<u8>) {
        let start = out.len();
        value.encode(out);
        let bytes = out.get(start..).unwrap_or_default();
        if let Some(number) = self.numbers.get(bytes).copied() {
            out.truncate(start);
            out.push(REPEATED);
            put_varint(out, number);
        } else if counts(bytes.len(), self.numbers.len()) {
            let number = u64::try_from(self.numbers.len()).unwrap_or(u64::MAX);
            self.numbers.insert(bytes.to_vec(), number);
        }
    }
}

/// Reads what [`Writer`] wrote.
#[derive(Default)]
pub(super) struct Values {
    known: Vec<Value>,
    above: Vec<Value>,
}

impl Values {
    /// Begins a section, whose first row has none above it.
    pub(super) fn begin(&mut self) {
        self.above.clear();
    }

    /// Reads a row of `width` values.
    ///
    /// # Errors
    /// For a row that is not well-formed, and for one without values: it takes no bytes, and a
    /// count of such rows would be bounded by nothing.
    pub(super) fn row(
        &mut self,
        reader: &mut Reader<'_>,
        width: usize,
    ) -> Result<Vec<Value>, DecodeError> {
        if width == 0 {
            return Err(reader.error("has a row without columns"));
        }
        let mut row = Vec::with_capacity(width.min(self.above.len()));
        for place in 0..width {
            if reader.rest().first() == Some(&ABOVE) {
                reader.u8()?;
                let above = self.above.get(place).cloned();
                row.push(above.ok_or_else(|| reader.error("repeats a row that was not there"))?);
            } else {
                row.push(self.take(reader)?);
            }
        }
        self.above.clone_from(&row);
        Ok(row)
    }

    pub(super) fn take(&mut self, reader: &mut Reader<'_>) -> Result<Value, DecodeError> {
        let start = reader.offset();
        if reader.rest().first() == Some(&REPEATED) {
            reader.u8()?;
            let number = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
            let known = self.known.get(number).cloned();
            return known.ok_or_else(|| reader.error("repeats a value that was not there"));
        }
        let value = Value::decode(reader)?;
        let bytes = reader.offset().saturating_sub(start);
        if counts(bytes, self.known.len()) {
            self.known.push(value.clone());
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_repeated_ones_take_two_bytes() {
        let long = Value::Text("x".repeat(BYTES_MAX));
        let values = [
            Value::from("somebody@example.org"),
            Value::Null,
            Value::Int(1 << 40),
            Value::from("somebody@example.org"),
            long.clone(),
            Value::Int(1 << 40),
            long,
            Value::Int(1),
        ];
        let (mut out, mut writer, mut lengths) = (Vec::new(), Writer::default(), Vec::new());
        for value in &values {
            let before = out.len();
            writer.put(value, &mut out);
            lengths.push(out.len() - before);
        }
        assert_eq!(lengths[3], 2);
        assert_eq!(lengths[5], 2);
        assert_eq!(lengths[6], lengths[4]);
        let (mut reader, mut known) = (Reader::new(&out, "values"), Values::default());
        for value in &values {
            assert!(known.take(&mut reader).unwrap().same(value));
        }
        reader.finish().unwrap();
        let rows = [[&values[0], &values[1]], [&values[0], &values[1]]];
        let (mut out, mut writer) = (Vec::new(), Writer::default());
        for row in rows {
            writer.row(row.into_iter(), &mut out);
        }
        assert_eq!(out[out.len() - 2..], [ABOVE, 0]);
        let (mut reader, mut known) = (Reader::new(&out, "values"), Values::default());
        for row in rows {
            assert_eq!(known.row(&mut reader, 2).unwrap(), row.map(Clone::clone));
        }
        reader.finish().unwrap();
        known.begin();
        assert!(known.row(&mut Reader::new(&[ABOVE], "values"), 1).is_err());
        assert!(known.row(&mut Reader::new(&[0], "values"), 0).is_err());
        let mut reader = Reader::new(&[REPEATED, 0], "values");
        assert!(Values::default().take(&mut reader).is_err());
    }
}
