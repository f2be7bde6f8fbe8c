//! Values that the database cannot change when it stores them, and those that are still the same when
//! they are read back.

use super::amount::is_same_amount;
use super::family::Family;
use super::{Column, Dialect};
use crate::database::value::Value;

/// The beginnings of the collations of `MariaDB` whose character sets keep a text or refuse it.
const KEPT_LETTERS: [&str; 5] = ["utf8", "latin1", "utf16", "utf32", "ucs2"];

impl Column {
    /// Returns whether the database stores `value` as it is, or refuses it. When in doubt it returns
    /// false, and the value is read back.
    pub(crate) fn cannot_change(&self, dialect: Dialect, value: &Value) -> bool {
        match dialect {
            Dialect::Sqlite => self.is_stored_in_sqlite(value),
            Dialect::Mysql => self.is_stored_in_mariadb(value),
            Dialect::Postgres => self.is_stored_in_postgres(value),
        }
    }

    fn is_stored_in_sqlite(&self, value: &Value) -> bool {
        match (value, self.family(Dialect::Sqlite)) {
            // A column INTEGER PRIMARY KEY fills it in.
            (Value::Null, _) => !self.declared.eq_ignore_ascii_case("INTEGER"),
            (Value::Bytes(_), _) | (_, Family::Own(_)) | (Value::Text(_), Family::Text) => true,
            // A number may end before U+0000.
            (Value::Text(text), _) => {
                let number = text.split('\0').next().unwrap_or_default();
                number.trim().parse::<f64>().is_err()
            }
            (Value::Int(_), Family::Exact) | (Value::Real(_), Family::Double) => true,
            (Value::Real(number), Family::Exact) => number.fract() != 0.0,
            _ => false,
        }
    }

    fn is_stored_in_mariadb(&self, value: &Value) -> bool {
        let kind = self.kind().to_ascii_lowercase();
        match (value, self.family(Dialect::Mysql)) {
            // Some types take NULL for a value to fill in.
            (Value::Null, _) => self.nullable,
            (Value::Int(_) | Value::UInt(_), Family::Exact) => true,
            (Value::Real(_), Family::Double) => kind == "double",
            (Value::Bytes(_), Family::Bytes) => !kind.starts_with("binary"),
            (Value::Text(text), Family::Text) if !self.members.is_empty() => {
                self.members.contains(text)
            }
            // Spaces at the end are cut off where there is no room for them.
            (Value::Text(text), Family::Text) => {
                let collation = self.collation.as_deref().unwrap_or_default();
                let is_kept = KEPT_LETTERS.iter().any(|it| collation.starts_with(it));
                is_kept && !kind.starts_with("set(") && !text.ends_with(' ')
            }
            // A time of a finer type has more digits.
            (Value::Text(text), Family::DateTime | Family::Zoned) => !text.contains('.'),
            (Value::Text(text), Family::Date) => !text.contains([' ', ':']),
            _ => false,
        }
    }

    fn is_stored_in_postgres(&self, value: &Value) -> bool {
        let kind = self.kind();
        match (value, self.family(Dialect::Postgres)) {
            (Value::Null, _) => true,
            (Value::Int(_), Family::Exact) => !kind.starts_with("numeric"),
            (Value::Bytes(_), Family::Bytes) => true,
            // A word that is none of its members is an error.
            (Value::Text(_), Family::Text) if !self.members.is_empty() => true,
            // Too long a text is an error, unless the rest are spaces. A name is cut off.
            (Value::Text(text), Family::Text) => {
                matches!(kind, "text" | "character varying")
                    || kind.starts_with("character") && !text.ends_with(' ')
            }
            (Value::Text(_), Family::DateTime | Family::Zoned) => !kind.contains('('),
            (Value::Text(text), Family::Date) => !text.contains(':'),
            (Value::Text(text), Family::Own(_)) => match kind {
                "boolean" => text == "true" || text == "false",
                "json" | "bpchar" => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns whether a column gives back `given`, which was written into it: exactly, and of
    /// exact numbers the amount.
    pub(crate) fn is_same(&self, dialect: Dialect, given: &Value, stored: &Value) -> bool {
        let is_text = |it: &Value| matches!(it, Value::Text(_));
        let is_number = match dialect {
            // There a text is no number, wherever it is stored.
            Dialect::Sqlite => !is_text(given) && !is_text(stored),
            Dialect::Mysql | Dialect::Postgres => self.family(dialect) == Family::Exact,
        };
        given.same(stored)
            || is_number && is_same_amount(given, stored)
            || self.pads_bytes(dialect)
                && unpadded(given).is_some_and(|it| Some(it) == unpadded(stored))
    }

    /// Returns whether a column fills bytes up with zeros, which are no part of the value.
    fn pads_bytes(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Mysql && self.unbounded_kind().eq_ignore_ascii_case("binary")
    }
}

/// Returns bytes without the zeros at their end.
fn unpadded(value: &Value) -> Option<&[u8]> {
    let Value::Bytes(bytes) = value else {
        return None;
    };
    let end = bytes.iter().rposition(|it| *it != 0);
    bytes.get(..end.map_or(0, |it| it.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(declared: &str) -> Column {
        Column {
            declared: declared.to_owned(),
            collation: Some("utf8mb4_general_ci".to_owned()),
            nullable: true,
            ..Column::default()
        }
    }

    fn assert_kept(dialect: Dialect, declared: &str, sure: &[Value], doubtful: &[Value]) {
        let column = column(declared);
        for value in sure {
            assert!(column.cannot_change(dialect, value), "{declared} {value:?}");
        }
        for value in doubtful {
            assert!(
                !column.cannot_change(dialect, value),
                "{declared} {value:?}"
            );
        }
    }

    #[test]
    fn ordinary_values_need_not_be_read_back() {
        let texts = |all: &[&str]| all.iter().map(|it| Value::from(*it)).collect::<Vec<_>>();
        let text = texts(&["a", ""]);
        let number = [Value::Int(7), Value::Null];
        for dialect in [Dialect::Sqlite, Dialect::Mysql, Dialect::Postgres] {
            assert_kept(dialect, "bigint", &number, &texts(&["7 "]));
            assert_kept(dialect, "text", &text, &number[..1]);
        }
        let spaces = texts(&["a "]);
        assert_kept(Dialect::Mysql, "varchar(9)", &text, &spaces);
        assert_kept(Dialect::Postgres, "character varying(9)", &text, &spaces);
        assert_kept(Dialect::Postgres, "name", &[], &text);
        assert_kept(Dialect::Postgres, "numeric(9,2)[]", &[], &texts(&["{1}"]));
        assert_kept(Dialect::Mysql, "set('a')", &[], &text);
        let days = texts(&["2026-01-20 10:00:00"]);
        assert_kept(Dialect::Mysql, "datetime", &days, &text[..0]);
        assert_kept(
            Dialect::Sqlite,
            "datetime",
            &days,
            &texts(&["7", "12\0secret"]),
        );
        assert_kept(Dialect::Sqlite, "INTEGER", &number[..1], &number[1..]);
        assert_kept(Dialect::Sqlite, "real", &[Value::Real(3.0)], &number[..1]);
    }

    #[test]
    fn the_amount_of_a_number_is_the_same_in_any_form_and_nothing_else_is() {
        let (fifty, five) = (Value::from("12.50"), Value::from("12.5"));
        for (dialect, declared, same) in [
            (Dialect::Postgres, "numeric", true),
            (Dialect::Postgres, "text", false),
            (Dialect::Mysql, "decimal(8,2)", true),
            (Dialect::Sqlite, "NUMERIC", false),
        ] {
            assert_eq!(column(declared).is_same(dialect, &fifty, &five), same);
        }
        let [short, padded] = [b"ab".to_vec(), b"ab\0\0".to_vec()].map(Value::Bytes);
        assert!(column("binary(4)").is_same(Dialect::Mysql, &short, &padded));
        assert!(!column("varbinary(4)").is_same(Dialect::Mysql, &short, &padded));
        assert!(!column("binary(4)").is_same(Dialect::Mysql, &short, &Value::Null));
        let (whole, real) = (Value::Int(3), Value::Real(3.0));
        assert!(column("REAL").is_same(Dialect::Sqlite, &whole, &real));
        let time = Value::from("2026-01-20 00:00:00");
        let day = Value::from("2026-01-20");
        assert!(!column("date").is_same(Dialect::Postgres, &time, &day));
    }
}
