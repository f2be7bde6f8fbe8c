//! Values that a column would store as others: its type holds fewer digits than they have, since it
//! was narrowed. The database rounds such values or cuts them off without an error.

use super::{Column, Dialect};
use crate::database::value::Value;

/// The digits behind the point of a second that `PostgreSQL` stores without a precision.
const MICROSECONDS: u32 = 6;

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
        Some(match digits.as_str() {
            "" => Self {
                is_negative: false,
                digits,
                power: 0,
            },
            _ => Self {
                is_negative,
                digits,
                power: exponent.checked_sub(places)?.checked_add(dropped)?,
            },
        })
    }

    /// Returns whether the number has digits below this power of ten.
    const fn needs(&self, power: i64) -> bool {
        !self.digits.is_empty() && self.power < power
    }

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Self::read(&number.to_string()),
            Value::UInt(number) => Self::read(&number.to_string()),
            Value::Real(number) => Self::read(&format!("{number}")),
            Value::Text(text) => Self::read(text),
            Value::Null | Value::Bytes(_) => None,
        }
    }
}

impl Column {
    /// Returns whether the column would store another amount or another time than `value`. Of a
    /// value that is neither it is false: the database refuses what it cannot store.
    pub(crate) fn would_change(&self, dialect: Dialect, value: &Value) -> bool {
        if dialect == Dialect::Sqlite || matches!(value, Value::Null | Value::Bytes(_)) {
            return false;
        }
        let kind = self.kind().to_ascii_lowercase();
        if kind.ends_with("[]") || !self.members.is_empty() {
            return false;
        }
        let base = kind.split('(').next().unwrap_or(&kind).trim();
        match base {
            "numeric" | "decimal" => scale(&kind)
                .is_some_and(|scale| Decimal::of(value).is_some_and(|it| it.needs(-scale))),
            "real" | "float" if base == kind => changes(value, |it| {
                // Widened again, or in the fewest digits.
                #[expect(clippy::cast_possible_truncation, reason = "the column does the same")]
                let stored = it as f32;
                [f64::from(stored).to_string(), stored.to_string()]
            }),
            "double precision" | "double" if base == kind => {
                changes(value, |it| [it.to_string(), it.to_string()])
            }
            "date" => {
                matches!(value, Value::Text(text) if is_clock(text) || time_of(text).is_some_and(is_not_zero))
            }
            // Bytes of another character set, which the text does not tell.
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
                matches!(value, Value::Text(text) if !text.is_ascii())
            }
            "bytea" => matches!(value, Value::Text(text) if text.contains('\\')),
            _ if kind.starts_with("time") || kind.starts_with("datetime") => {
                matches!(value, Value::Text(text) if loses_time(dialect, &kind, text))
            }
            _ if self.is_integer() => Decimal::of(value).is_some_and(|it| it.needs(0)),
            _ => false,
        }
    }
}

/// Returns the digits behind the point of a type of decimal numbers; none where it has no bound.
fn scale(kind: &str) -> Option<i64> {
    let (_, rest) = kind.split_once('(')?;
    let (inside, _) = rest.split_once(')')?;
    match inside.split_once(',') {
        Some((_, scale)) => scale.trim().parse().ok(),
        None => Some(0),
    }
}

/// Returns whether a number differs from both forms in which it would be read back.
fn changes(value: &Value, stored: impl Fn(f64) -> [String; 2]) -> bool {
    let number = match value {
        Value::Real(number) => Some(*number),
        other => other.to_string().parse().ok(),
    };
    let (Some(number), Some(given)) = (number, Decimal::of(value)) else {
        return false;
    };
    let forms = stored(number);
    !forms
        .iter()
        .any(|it| Decimal::read(it).as_ref() == Some(&given))
}

/// Returns what follows the day in a text that begins with one.
fn time_of(text: &str) -> Option<&str> {
    let (day, time) = text.split_once([' ', 'T'])?;
    let is_day = day.contains('-') && day.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    is_day.then_some(time)
}

/// Returns whether a text is a time without a day.
fn is_clock(text: &str) -> bool {
    text.contains(':') && time_of(text).is_none()
}

/// Returns whether a time ends with its distance from UTC.
fn has_zone(text: &str) -> bool {
    let clock = time_of(text).unwrap_or(text);
    clock.contains(':') && clock.get(1..).is_some_and(|it| it.contains(['+', '-']))
}

/// Returns whether a time is another than midnight.
fn is_not_zero(time: &str) -> bool {
    let clock = time.split(['+', '-', 'B']).next().unwrap_or(time);
    clock.bytes().any(|it| matches!(it, b'1'..=b'9'))
}

/// Returns whether a column of times keeps less than `text` says.
fn loses_time(dialect: Dialect, kind: &str, text: &str) -> bool {
    let is_of_day = kind.starts_with("time") && !kind.starts_with("timestamp");
    if is_of_day && time_of(text).is_some() || !is_of_day && is_clock(text) {
        return true;
    }
    // Without a zone a time is of the session, and with one it is not.
    let is_infinite = text.ends_with("infinity");
    if dialect == Dialect::Postgres
        && !is_infinite
        && has_zone(text) != kind.contains("with time zone")
    {
        return true;
    }
    let without = match dialect {
        Dialect::Mysql => 0,
        _ => MICROSECONDS,
    };
    let kept = kind
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let kept = kept.map_or(Ok(without), |(digits, _)| digits.trim().parse());
    let Some((_, fraction)) = text.rsplit_once('.') else {
        return false;
    };
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0').len();
    kept.is_ok_and(|kept: u32| usize::try_from(kept).is_ok_and(|kept| digits > kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIA: Dialect = Dialect::Mysql;
    const POSTGRES: Dialect = Dialect::Postgres;

    fn assert_kept(dialect: Dialect, declared: &str, whole: &[Value], lost: &[Value]) {
        let column = Column {
            declared: declared.to_owned(),
            ..Column::default()
        };
        let changes = |value: &Value| column.would_change(dialect, value);
        for value in whole {
            assert!(!changes(value), "{declared} {value:?}");
        }
        for value in lost {
            assert!(changes(value), "{declared} {value:?}");
        }
    }

    fn assert_texts(dialect: Dialect, declared: &str, whole: &[&str], lost: &[&str]) {
        let values = |all: &[&str]| all.iter().map(|it| Value::from(*it)).collect::<Vec<_>>();
        assert_kept(dialect, declared, &values(whole), &values(lost));
    }

    #[test]
    fn decimal_numbers_that_a_type_holds_whole_stay() {
        let whole = ["12.50", "-7", "3", "NaN", "1e3"];
        assert_texts(POSTGRES, "numeric(8,1)", &whole, &["12.55", "0.01"]);
        assert_texts(POSTGRES, "numeric(8,-3)", &["100000", "0"], &["100001"]);
        assert_texts(POSTGRES, "numeric", &["0.00000000000000000001"], &[]);
        assert_texts(MARIA, "decimal(5,0)", &["12.0", "7"], &["12.4"]);
        assert_texts(MARIA, "int(11)", &["12.0"], &["0.2"]);
        assert_texts(MARIA, "double", &["0.1"], &["0.12345678901234567890"]);
        assert_texts(POSTGRES, "text", &["12.555"], &[]);
    }

    #[test]
    fn rounded_numbers_that_a_type_holds_whole_stay() {
        let single = f64::from(0.1_f32);
        let whole = [Value::Real(0.1), Value::Real(single), Value::Int(7)];
        let lost = [Value::Real(0.123_456_789_01), Value::Int(16_777_217)];
        assert_kept(POSTGRES, "real", &whole, &lost);
        let whole = [Value::Real(single), Value::Real(1e30)];
        assert_kept(MARIA, "float", &whole, &[Value::Real(1.0 / 3.0)]);
        let whole = [Value::Real(1.0 / 3.0), Value::Real(5e-324)];
        let lost = [Value::Int(9_007_199_254_740_993)];
        assert_kept(MARIA, "double", &whole, &lost);
        assert_kept(MARIA, "int(11)", &[Value::Real(3.0)], &[Value::Real(3.5)]);
    }

    #[test]
    fn times_that_a_type_holds_whole_stay() {
        let day = "2026-01-20";
        let midnight = "2026-01-20 00:00:00";
        let time = "2026-01-20 10:00:00";
        let half = "2026-01-20 10:00:00.5";
        let whole = [day, "0044-03-15 BC", midnight, "infinity"];
        assert_texts(POSTGRES, "date", &whole, &[time, "30:00:00"]);
        let kind = "timestamp(0) without time zone";
        let zoned = "2026-01-20 10:00:00.123456+00";
        assert_texts(POSTGRES, kind, &[time], &[half, zoned]);
        let kind = "timestamp with time zone";
        assert_texts(POSTGRES, kind, &[zoned, "-infinity"], &[time, day]);
        let kind = "time without time zone";
        assert_texts(POSTGRES, kind, &["10:00:00.5"], &["10:00:00+02", time]);
        assert_texts(MARIA, "datetime", &[time], &[half, "30:00:00"]);
        let finest = "2026-01-20 10:00:00.1234";
        assert_texts(MARIA, "datetime(3)", &[half], &[finest]);
        assert_texts(MARIA, "time(6)", &["-838:59:58.000001"], &[time]);
    }

    #[test]
    fn texts_become_no_bytes_of_another_meaning() {
        assert_texts(POSTGRES, "bytea", &["plain"], &["a\\101b"]);
        assert_texts(MARIA, "varbinary(20)", &["plain"], &["\u{e9}"]);
    }
}
