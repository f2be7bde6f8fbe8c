//! A row as a JSON object.

use probity_pocketdb::{Row, Value};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

/// A row as a JSON object of columns and values, with NULL as null.
///
/// A number that is infinite, which early versions let in, is an error: JSON has none.
pub struct RowForm<'a> {
    names: &'a [String],
    row: &'a Row<'a>,
}

impl<'a> RowForm<'a> {
    /// Names the values of `row` by `names`, in order.
    pub const fn new(names: &'a [String], row: &'a Row<'a>) -> Self {
        Self { names, row }
    }
}

impl Serialize for RowForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cells = self.names.iter().enumerate();
        serializer.collect_map(cells.map(|(number, name)| (name, Cell(self.row.value(number)))))
    }
}

struct Cell<'a>(Value<'a>);

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_none(),
            Value::Integer(number) => serializer.serialize_i64(number),
            // Earlier versions let infinities in, and JSON has none.
            Value::Real(number) if !number.is_finite() => {
                Err(S::Error::custom(format!("{number} is no number of JSON")))
            }
            Value::Real(number) => serializer.serialize_f64(number),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Returns a name that two columns have, and an object can have once; `None` if there is none.
pub fn repeated(names: &[String]) -> Option<&String> {
    let mut names = names.iter().enumerate();
    let all = names.clone();
    names
        .find(|(number, name)| all.clone().take(*number).any(|(_, other)| other == *name))
        .map(|(_, name)| name)
}
