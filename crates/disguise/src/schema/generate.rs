//! Replacement values: constant, random, or derived from the old value, drawn separately for every
//! row.

use serde::{Deserialize, Serialize};

use crate::crypto::random;
use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::error::Error;

/// The longest random text.
const TEXT_BYTES_MAX: usize = 4_096;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A generator of replacement values; the names up to `Null` are Edna's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Generator {
    /// This number.
    ConstNum(i64),
    /// This text.
    ConstStr(String),
    /// A random number in `lb..=ub`.
    RandNum {
        /// The least.
        lb: i64,
        /// The greatest.
        ub: i64,
    },
    /// A random text of lower-case letters and digits.
    RandStr {
        /// Its length.
        len: usize,
    },
    /// A random address in a domain that never exists (RFC 2606).
    RandEmail,
    /// Nine random digits.
    RandPhone,
    /// A random UUID (RFC 9562, version 4).
    RandUuid,
    /// The time of the disguise, as the database writes it.
    Timestamp,
    /// This truth value.
    Bool(bool),
    /// NULL.
    Null,
    /// The first characters of the old text.
    Prefix {
        /// The number of characters kept.
        keep: usize,
    },
    /// The old number, rounded down to a multiple.
    RoundDown {
        /// The factor; at least 1.
        to: i64,
    },
}

impl Generator {
    /// Returns a value for a row whose column held `old`; `now` is the time as the database writes
    /// it.
    pub(crate) fn draw(&self, old: &Value, now: &str) -> Result<Value, Error> {
        Ok(match self {
            Self::ConstNum(number) => Value::Int(*number),
            Self::ConstStr(text) => Value::Text(text.clone()),
            Self::RandNum { lb, ub } => Value::Int(number(*lb, *ub)?),
            Self::RandStr { len } => Value::Text(letters(*len)?),
            Self::RandEmail => Value::Text(format!("{}@anonymous.invalid", letters(24)?)),
            Self::RandPhone => Value::Text(format!("{:09}", number(0, 999_999_999)?)),
            Self::RandUuid => Value::Text(uuid()?),
            Self::Timestamp => Value::Text(now.to_owned()),
            Self::Bool(truth) => Value::Int(i64::from(*truth)),
            Self::Null => Value::Null,
            Self::Prefix { keep } => match old {
                Value::Null => Value::Null,
                other => Value::Text(other.to_string().chars().take(*keep).collect()),
            },
            Self::RoundDown { to } => match old {
                Value::Int(number) => {
                    let rest = number.checked_rem_euclid(*to).unwrap_or(0);
                    Value::Int(number.saturating_sub(rest))
                }
                _ => Value::Null,
            },
        })
    }

    /// Returns a replacement in the form in which the database returns values of `column`, for
    /// types that ids may have. In another form it would be taken for another value.
    pub(crate) fn draw_into(
        &self,
        (dialect, column): (Dialect, Option<&Column>),
        old: &Value,
        now: &str,
    ) -> Result<Value, Error> {
        let drawn = self.draw(old, now)?;
        Ok(match column {
            Some(column) => held(dialect, &column.kind().to_ascii_uppercase(), drawn),
            None => drawn,
        })
    }

    /// Returns the number of values that it draws for a row without an old value, if these may run
    /// out.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::RandNum { lb, ub } => Some(ub.abs_diff(*lb).saturating_add(1)),
            Self::RandStr { len } => {
                let len = u32::try_from(*len).unwrap_or(u32::MAX);
                32_u64.checked_pow(len)
            }
            Self::RandPhone => Some(1_000_000_000),
            Self::RandEmail | Self::RandUuid => None,
            Self::ConstNum(_)
            | Self::ConstStr(_)
            | Self::Timestamp
            | Self::Bool(_)
            | Self::Null
            | Self::Prefix { .. }
            | Self::RoundDown { .. } => Some(1),
        }
    }

    /// Returns the fault in it, if any.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::RandNum { lb, ub } if lb > ub => Some("the lower bound exceeds the upper"),
            Self::RandStr { len } if *len > TEXT_BYTES_MAX => Some("the random text is too long"),
            Self::RoundDown { to } if *to < 1 => {
                Some("numbers are rounded to multiples of 1 or more")
            }
            _ => None,
        }
    }
}

/// The beginnings of the types of texts of `MariaDB`.
const MARIADB_TEXTS: [&str; 6] = [
    "CHAR",
    "VARCHAR",
    "TINYTEXT",
    "TEXT",
    "MEDIUMTEXT",
    "LONGTEXT",
];

/// Returns the value that a column of this type holds after `drawn` was written into it.
fn held(dialect: Dialect, kind: &str, drawn: Value) -> Value {
    let is = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
    let length = || -> Option<usize> { kind.split_once('(')?.1.split(')').next()?.parse().ok() };
    match (dialect, drawn) {
        (Dialect::Sqlite, Value::Text(text)) if kind == "BLOB" => Value::Bytes(text.into_bytes()),
        (Dialect::Postgres, Value::Text(text)) if kind == "BYTEA" => {
            Value::Bytes(text.into_bytes())
        }
        (Dialect::Postgres, Value::Text(text)) if is(&["CHARACTER("]) => {
            Value::Text(format!("{text:0$}", length().unwrap_or_default()))
        }
        (Dialect::Mysql, Value::Text(text)) if is(&["BINARY", "VARBINARY"]) => {
            let mut bytes = text.into_bytes();
            if is(&["BINARY"]) {
                bytes.resize(length().unwrap_or_default().max(bytes.len()), 0);
            }
            Value::Bytes(bytes)
        }
        (Dialect::Postgres | Dialect::Mysql, Value::Int(number)) if is(&["NUMERIC", "DECIMAL"]) => {
            let scale = kind.split_once(',').and_then(|(_, rest)| {
                let digits = rest.split(')').next()?;
                digits.trim().parse::<usize>().ok()
            });
            Value::Text(match scale {
                None | Some(0) => number.to_string(),
                Some(scale) => format!("{number}.{}", "0".repeat(scale)),
            })
        }
        // As a number it would be compared with each text of the column, and no index would be used.
        (Dialect::Mysql, Value::Int(number)) if is(&MARIADB_TEXTS) => {
            Value::Text(number.to_string())
        }
        (_, drawn) => drawn,
    }
}

fn number(least: i64, greatest: i64) -> Result<i64, Error> {
    let width = greatest.abs_diff(least);
    let raw = u128::from_le_bytes(random()?);
    // 128 random bits over at most 2^64 values leave a bias below 2^-64.
    let offset = raw
        .checked_rem(u128::from(width).saturating_add(1))
        .unwrap_or(0);
    Ok(least.saturating_add_unsigned(u64::try_from(offset).unwrap_or(width)))
}

fn uuid() -> Result<String, Error> {
    let mut bits = u128::from_be_bytes(random()?);
    bits = bits & !(0xF << 76) | 4 << 76;
    bits = bits & !(0x3 << 62) | 2 << 62;
    let text = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter_map(|part| text.get(part))
        .collect();
    Ok(parts.join("-"))
}

fn letters(length: usize) -> Result<String, Error> {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        for byte in random::<32>()? {
            if text.len() < length
                && let Some(letter) = LETTERS.get(usize::from(byte & 31))
            {
                text.push(char::from(*letter));
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of a placeholder was bound as a number beside a column of texts. Each statement that
    /// looked for one read the users table whole: 3,000 placeholders took minutes.
    #[test]
    fn a_number_for_a_text_of_mariadb_is_drawn_as_the_text_that_is_stored() {
        for (dialect, kind, is_text) in [
            (Dialect::Mysql, "VARCHAR(20)", true),
            (Dialect::Mysql, "CHAR(20)", true),
            (Dialect::Mysql, "TEXT", true),
            (Dialect::Mysql, "BIGINT(20)", false),
            (Dialect::Mysql, "DOUBLE", false),
            (Dialect::Sqlite, "BLOB", false),
        ] {
            let value = held(dialect, kind, Value::Int(7));
            let expected = if is_text {
                Value::from("7")
            } else {
                Value::Int(7)
            };
            assert!(value.same(&expected), "{dialect:?} {kind} {value:?}");
        }
    }
}
