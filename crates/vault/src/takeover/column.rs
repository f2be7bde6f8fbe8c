//! Columns of another database: the type that their values get here, and their measures.

use probity_disguise::{Column, Dialect, Value as Found};
use probity_pocketdb::Value;

use crate::number::is_lost;

/// The type of an imported column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Integer,
    /// An integer, of the words `true` and `false` of `PostgreSQL`.
    Boolean,
    Real,
    /// A decimal number of a server, kept as its text.
    Decimal,
    Text,
}

/// A value that has no form here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    Null,
    OtherType,
    NotFinite,
    TooSmall,
}

impl Form {
    /// Returns the form of a column, by the type that its database gives it.
    pub(super) fn of(dialect: Dialect, column: &Column) -> Self {
        match dialect {
            Dialect::Sqlite => Self::of_affinity(&column.declared.to_ascii_uppercase()),
            _ => Self::of_type(column),
        }
    }

    /// The rules of `SQLite` (Datatypes, 3.1) are about words in a declaration, in this order.
    fn of_affinity(declared: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        if has(&["INT"]) {
            Self::Integer
        } else if has(&["CHAR", "CLOB", "TEXT", "BLOB"]) || declared.is_empty() {
            Self::Text
        } else if has(&["REAL", "FLOA", "DOUB"]) {
            Self::Real
        } else if ["BOOL", "BOOLEAN"].contains(&declared) {
            Self::Integer
        } else {
            Self::Text
        }
    }

    fn of_type(column: &Column) -> Self {
        match type_of(column).as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => Self::Integer,
            "boolean" => Self::Boolean,
            "real" | "float" | "double" | "double precision" => Self::Real,
            "numeric" => Self::Decimal,
            _ => Self::Text,
        }
    }

    /// Returns the text of a value, as a column of texts keeps it. A real number has a point or an
    /// exponent, so that 1.0 is not 1.
    pub(super) fn text(found: &Found) -> String {
        match found {
            Found::Real(number) => format!("{number:?}"),
            other => other.to_string(),
        }
    }

    /// Returns a value as this form has it; `text` is its text.
    pub(super) fn value<'t>(self, found: &Found, text: &'t str) -> Result<Value<'t>, Unfit> {
        let is_number = matches!(found, Found::Int(_) | Found::Real(_) | Found::Text(_));
        match (found, self) {
            (Found::Null, _) => return Err(Unfit::Null),
            (Found::Real(number), _) if number.is_infinite() => return Err(Unfit::NotFinite),
            (_, Self::Decimal) if text.ends_with("Infinity") => return Err(Unfit::NotFinite),
            (Found::Int(number), Self::Integer) => return Ok(Value::Integer(*number)),
            _ if !is_number => return Err(Unfit::OtherType),
            _ => {}
        }
        let value = match self {
            Self::Integer => text.parse().ok().map(Value::Integer),
            Self::Boolean if text == "true" => Some(Value::Integer(1)),
            Self::Boolean if text == "false" => Some(Value::Integer(0)),
            Self::Boolean => None,
            Self::Real => text.parse().ok().map(Value::Real),
            Self::Decimal | Self::Text => Some(Value::Text(text)),
        };
        match value {
            Some(Value::Real(number)) if !number.is_finite() => Err(Unfit::NotFinite),
            // A text of a number is read here, and a number was read before.
            Some(Value::Real(0.0)) if matches!(found, Found::Text(_)) && is_lost(text) => {
                Err(Unfit::TooSmall)
            }
            Some(value) => Ok(value),
            None => Err(Unfit::OtherType),
        }
    }

    /// Returns the value in the place of NULL.
    pub(super) fn empty(self) -> Value<'static> {
        match self {
            Self::Integer | Self::Boolean => Value::Integer(0),
            Self::Real => Value::Real(0.0),
            Self::Decimal | Self::Text => Value::Text(""),
        }
    }
}

/// Returns whether values of a column are equal there if and only if they are equal here, where the
/// column's texts are compared byte by byte. A number or a time that is a text here has many texts.
pub(super) fn compares_by_bytes(dialect: Dialect, column: &Column) -> bool {
    let kind = match dialect {
        Dialect::Sqlite => column.declared.to_ascii_lowercase(),
        _ => type_of(column),
    };
    match (Form::of(dialect, column), dialect) {
        (Form::Integer | Form::Boolean, _) => true,
        (Form::Decimal, _) => false,
        // A shorter number there rounds what is inserted.
        (Form::Real, Dialect::Sqlite) => true,
        (Form::Real, _) => kind.starts_with("double"),
        (Form::Text, Dialect::Sqlite) => {
            ["char", "clob", "text"].iter().any(|it| kind.contains(it))
        }
        (Form::Text, Dialect::Mysql) => {
            // Other collations for bytes take spaces at the end for nothing.
            let collation = column.collation.as_deref().unwrap_or_default();
            (kind == "varchar" || kind.ends_with("text"))
                && (collation.ends_with("nopad_bin") || collation.ends_with("0900_bin"))
        }
        (Form::Text, _) => kind == "text" || kind == "character varying",
    }
}

/// Returns the name of a column's type: `int(11) unsigned` and `double precision` are told with
/// length and sign, which are no part of it.
fn type_of(column: &Column) -> String {
    let kind = column.kind().to_ascii_lowercase();
    let kind = kind.split('(').next().unwrap_or_default().trim();
    let kind = kind.trim_end_matches(" zerofill");
    kind.trim_end_matches(" unsigned").to_owned()
}

/// Measures of the rows of a table.
#[derive(Default)]
pub(super) struct Measure {
    pub(super) rows: u64,
    columns: Vec<Extent>,
}

#[derive(Clone, Copy, Default)]
struct Extent {
    /// Bytes of the longest text.
    longest: usize,
    /// Number of the first row with it.
    longest_row: u64,
    /// True if each value was the number of its row, from 1 on.
    is_position: bool,
}

impl Measure {
    pub(super) fn new(columns: usize) -> Self {
        let extent = Extent {
            longest: 1,
            longest_row: 1,
            is_position: true,
        };
        Self {
            rows: 0,
            columns: vec![extent; columns],
        }
    }

    pub(super) fn take(&mut self, row: &[Found]) {
        self.rows += 1;
        for (found, extent) in row.iter().zip(&mut self.columns) {
            let here =
                matches!(found, Found::Int(number) if u64::try_from(*number) == Ok(self.rows));
            extent.is_position &= here;
            let length = if found.is_null() {
                0
            } else {
                Form::text(found).len()
            };
            if length > extent.longest {
                extent.longest = length;
                extent.longest_row = self.rows;
            }
        }
    }

    /// Returns the bytes of the longest text of a column, 1 at least.
    pub(super) fn longest(&self, column: usize) -> usize {
        self.columns.get(column).map_or(1, |extent| extent.longest)
    }

    /// Returns the number of the row with the longest text of a column.
    pub(super) fn longest_row(&self, column: usize) -> u64 {
        self.columns
            .get(column)
            .map_or(1, |extent| extent.longest_row)
    }

    /// Returns whether the values of a column were 1, 2, 3 and so on, as the ids of rows will be.
    pub(super) fn is_position(&self, column: usize) -> bool {
        self.columns
            .get(column)
            .is_some_and(|extent| extent.is_position)
    }
}
