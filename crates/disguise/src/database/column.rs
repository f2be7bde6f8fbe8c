//! One column of a table, and the values that it holds.

use std::ops::RangeInclusive;

use super::Dialect;
use super::declaration::words_of_set;
use crate::database::value::Value;

/// The digits of a UUID.
const UUID_DIGITS: usize = 32;

/// The greatest number up to which a floating-point number has all digits of a whole one.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The greatest length of a value of the type `name` of `PostgreSQL`.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// One column as the catalog describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its declared type in the database's words.
    pub declared: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// True if the database fills it in when an insertion leaves it out.
    pub has_default: bool,
    /// The type under a domain, in the database's words.
    pub base: Option<String>,
    /// The values of an enumeration.
    pub members: Vec<String>,
    /// The collation by which its texts are compared, in the database's words. On `SQLite` absent
    /// where texts are equal only byte by byte.
    pub collation: Option<String>,
    /// The way in which it keeps times, where the text of one does not tell: of `DATETIME` and
    /// `TIMESTAMP` of `MariaDB`.
    pub times: Option<Times>,
    /// The parts of its values.
    pub structure: Structure,
}

/// Types of `PostgreSQL` that name objects of the database, of which a statement takes a number.
const OF_OBJECTS: [&str; 11] = [
    "regclass",
    "regcollation",
    "regconfig",
    "regdictionary",
    "regnamespace",
    "regoper",
    "regoperator",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
];

/// The parts of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Structure {
    /// They have none.
    #[default]
    Single,
    /// They have some, as of a composed type of `PostgreSQL`.
    Composed,
}

/// The way in which a column keeps times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// In UTC: a session writes and reads them in a zone of its own.
    Utc,
    /// As they are written.
    AsWritten,
}

impl Times {
    /// Returns how a type of `MariaDB` keeps times.
    pub(crate) fn of_mariadb(declared: &str) -> Option<Self> {
        match declared.split('(').next() {
            Some("timestamp") => Some(Self::Utc),
            Some("datetime") => Some(Self::AsWritten),
            _ => None,
        }
    }
}

impl Column {
    /// Returns whether a statement can find rows by values of the type.
    pub(crate) fn finds_rows(&self) -> bool {
        self.structure == Structure::Single && !OF_OBJECTS.contains(&self.kind())
    }

    /// Returns whether values are integers.
    pub fn is_integer(&self) -> bool {
        // The members of an enumeration are words of its declaration.
        let kind = self.unbounded_kind().to_ascii_uppercase();
        let others = ["INTERVAL", "POINT", "RANGE", "[]"];
        self.members.is_empty()
            && kind.contains("INT")
            && !others.iter().any(|other| kind.contains(other))
    }

    /// Returns whether a column of `MariaDB` holds bits, which are numbers there.
    pub(crate) fn is_bits(&self) -> bool {
        self.kind().starts_with("bit")
    }

    /// Returns whether a column of `MariaDB` shows numbers with other digits than they have: with
    /// zeros in front, or with the few that are sure.
    pub(crate) fn shows_other_digits(&self) -> bool {
        let kind = self.kind().to_ascii_lowercase();
        let others = ["float", "double(", "year"];
        others.iter().any(|it| kind.starts_with(it)) || kind.ends_with("zerofill")
    }

    /// Returns whether a column of `MariaDB` holds decimal numbers, which the server sends as texts.
    pub(crate) fn is_decimal(&self) -> bool {
        self.unbounded_kind().eq_ignore_ascii_case("decimal")
    }

    /// Returns how many digits a decimal number has in all, and behind the point.
    pub(crate) fn digits(&self) -> Option<(u32, u32)> {
        if !self.is_decimal() {
            return None;
        }
        let (_, rest) = self.kind().split_once('(')?;
        let (digits, rest) = rest.split_once(',')?;
        let (decimals, _) = rest.split_once(')')?;
        Some((digits.trim().parse().ok()?, decimals.trim().parse().ok()?))
    }

    /// Returns how many digits a rounded number of `MariaDB` has behind the point, if that is bounded.
    pub(crate) fn decimals(&self) -> Option<&str> {
        let (_, rest) = self.kind().split_once(',')?;
        rest.split_once(')').map(|(decimals, _)| decimals.trim())
    }

    /// Returns how a statement has `value` where it is compared with the column. `MariaDB` compares
    /// a text with decimal numbers as a floating-point number, for which many of them are one.
    pub(crate) fn mark(&self, dialect: Dialect, value: &Value) -> &'static str {
        match value {
            Value::Text(text)
                if dialect == Dialect::Mysql
                    && self.is_decimal()
                    && text.parse().is_ok_and(|it: f64| it.is_finite()) =>
            {
                "CAST(? AS DECIMAL(65,30))"
            }
            _ => "?",
        }
    }

    /// Returns whether values are whole numbers for the database.
    pub(crate) fn is_number(&self, dialect: Dialect) -> bool {
        self.is_integer() || (dialect == Dialect::Mysql && self.is_bits())
    }

    /// Returns the type of its values, in the database's words; for a domain its base type.
    pub fn kind(&self) -> &str {
        self.base.as_deref().unwrap_or(&self.declared)
    }

    /// Returns the integers that the database can compare with the column; it fails on others.
    pub(crate) fn integers(&self, dialect: Dialect) -> RangeInclusive<i128> {
        match (dialect, self.kind()) {
            (Dialect::Mysql, _) => i64::MIN.into()..=u64::MAX.into(),
            (Dialect::Postgres, "smallint") => i16::MIN.into()..=i16::MAX.into(),
            (Dialect::Postgres, "integer") => i32::MIN.into()..=i32::MAX.into(),
            (Dialect::Postgres, "oid") => u32::MIN.into()..=u32::MAX.into(),
            (Dialect::Sqlite | Dialect::Postgres, _) => i64::MIN.into()..=i64::MAX.into(),
        }
    }

    /// Returns `value` as a statement compares it with the column, or NULL, which equals nothing, where
    /// the column cannot hold it. `PostgreSQL` gives a parameter the type of the column, and ends
    /// the statement or cuts the value off where it does not fit. `SQLite` applies the affinity of
    /// the column.
    pub(crate) fn compared(&self, dialect: Dialect, value: &Value) -> Value {
        match (dialect, value) {
            (Dialect::Mysql, Value::Text(text)) if self.is_number(dialect) || self.is_decimal() => {
                whole_number(text).unwrap_or_else(|| value.clone())
            }
            (_, Value::Null | Value::Bytes(_)) | (Dialect::Mysql, _) => value.clone(),
            (Dialect::Sqlite, _) => self.with_affinity(value),
            (Dialect::Postgres, _) if self.can_hold(value.to_string().trim()) => value.clone(),
            (Dialect::Postgres, _) => Value::Null,
        }
    }

    /// Returns a value as `SQLite` converts it where it is compared with the column, see
    /// <https://www.sqlite.org/datatype3.html#type_conversions_prior_to_comparison>.
    fn with_affinity(&self, value: &Value) -> Value {
        match (Affinity::of(self.kind()), value) {
            (Affinity::Text, Value::Int(_) | Value::UInt(_)) => Value::Text(value.to_string()),
            (Affinity::Text, Value::Real(number)) => Value::Text(format!("{number:?}")),
            (Affinity::Number, Value::Text(text)) => {
                let text = text.trim_ascii();
                let is_number = text.bytes().any(|it| it.is_ascii_digit())
                    && text.bytes().all(|it| b"+-.eE0123456789".contains(&it));
                let whole = text.parse().ok().map(Value::Int);
                let real = || text.parse().ok().map(Value::Real);
                let number = whole.or_else(real).filter(|_| is_number);
                number.unwrap_or_else(|| value.clone())
            }
            _ => value.clone(),
        }
    }

    /// Returns whether a type of `PostgreSQL` has a value of this spelling; true for types that are
    /// not known.
    fn can_hold(&self, text: &str) -> bool {
        if !self.members.is_empty() {
            return self.members.iter().any(|it| it == text);
        }
        let kind = self.kind().split('(').next().unwrap_or_default().trim();
        match kind {
            "smallint" | "integer" | "bigint" | "oid" => {
                let number = whole(text).and_then(|it| it.parse().ok());
                number.is_some_and(|it: i128| self.integers(Dialect::Postgres).contains(&it))
            }
            "numeric" => text.parse().is_ok_and(|it: f64| it.is_finite()),
            "double precision" => {
                let number = text.parse().ok();
                number.is_some_and(|it: f64| it.is_finite() && (it != 0.0 || is_zero(text)))
            }
            "real" => {
                let number = text.parse().ok();
                number.is_some_and(|it: f32| it.is_finite() && (it != 0.0 || is_zero(text)))
            }
            "uuid" => is_uuid(text),
            "bytea" => !text.contains('\\'),
            "\"char\"" => text.len() <= 1,
            "name" => text.len() <= NAME_BYTES_MAX,
            _ => true,
        }
    }

    /// Returns the type for which the database compares no id of the users' column `id` with this
    /// one; nothing where ids are.
    pub(crate) fn unfit_for(&self, dialect: Dialect, id: &Self) -> Option<&str> {
        let is_unfit = match dialect {
            Dialect::Sqlite => false,
            Dialect::Mysql => self.is_alien_to(id) || id.is_alien_to(self),
            Dialect::Postgres => self.is_unread_for(id),
        };
        is_unfit.then(|| self.kind())
    }

    /// Returns whether `PostgreSQL`, which gives a parameter the type of the column, ends the
    /// statement because it reads no id of the column `id` as a value of that type.
    fn is_unread_for(&self, id: &Self) -> bool {
        let (kind, of_id) = (self.unbounded_kind(), id.unbounded_kind());
        if kind == of_id {
            return false;
        }
        if of_id == "bytea" {
            return true;
        }
        let is_text = self.collation.is_some() && !kind.ends_with("[]");
        let others = [
            "smallint",
            "integer",
            "bigint",
            "oid",
            "numeric",
            "double precision",
            "real",
            "uuid",
            "bytea",
            "name",
        ];
        self.members.is_empty() && !is_text && !others.contains(&kind)
    }

    /// Returns whether the type is one of those that `MariaDB` compares with their like and with
    /// texts and bytes alone, and `other` is none of these.
    fn is_alien_to(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| it.unbounded_kind().to_ascii_uppercase());
        let is_read = ["ENUM", "SET"].contains(&others.as_str());
        let is_read = is_read || other.is_text() || other.is_binary();
        ["UUID", "INET4", "INET6"].contains(&own.as_str()) && own != others && !is_read
    }

    /// Returns the type of `PostgreSQL` without a bound: a cast to the declared one cuts off what is too
    /// long, where the column refuses it.
    pub(crate) fn unbounded(&self) -> String {
        let declared = &self.declared;
        let bounded = [
            ("character varying(", "character varying"),
            ("character(", "bpchar"),
            ("bit varying(", "bit varying"),
            ("bit(", "bit varying"),
            ("numeric(", "numeric"),
        ];
        let bounded = bounded
            .iter()
            .find(|(start, _)| declared.starts_with(start));
        match (bounded, declared.split_once(')')) {
            (Some((_, kind)), Some((_, rest))) => format!("{kind}{rest}"),
            _ if declared == "bit" => "bit varying".to_owned(),
            _ => declared.clone(),
        }
    }

    /// Returns the type without a length.
    pub(crate) fn unbounded_kind(&self) -> &str {
        let kind = self.kind();
        kind.split('(').next().unwrap_or(kind).trim()
    }

    /// Returns whether an expression finds the same in a value of this column as in one of `other`: a text or bytes of
    /// any length, integers of any width, and a word of an enumeration that has others since.
    pub(crate) fn reads_as(&self, dialect: Dialect, other: &Self) -> bool {
        let of_values = |it: &Self| (it.collation.clone(), it.times, it.structure);
        let is_wider = || {
            let width = self.width(dialect);
            width.is_some() && width == other.width(dialect)
        };
        let is_alike = self.kind() == other.kind() || is_wider();
        of_values(self) == of_values(other) && is_alike && self.has_words_in(dialect, other)
    }

    /// Returns whether the words of an enumeration are those of `other`, or some of them in the same order. `MariaDB`
    /// takes them for their numbers, too.
    fn has_words_in(&self, dialect: Dialect, other: &Self) -> bool {
        let mut others = other.members.iter();
        match dialect {
            // The place of a word is its bit.
            Dialect::Mysql if self.unbounded_kind().eq_ignore_ascii_case("set") => {
                let [own, others] = [self, other].map(|it| words_of_set(it.kind()));
                others.starts_with(&own)
            }
            _ if self.members.is_empty() => other.members.is_empty(),
            Dialect::Mysql => other.members.starts_with(&self.members),
            _ => self
                .members
                .iter()
                .all(|it| others.any(|other| it == other)),
        }
    }

    /// Returns a word for all types that differ from this one in the room for values alone; nothing where there are no others.
    fn width(&self, dialect: Dialect) -> Option<&'static str> {
        let kind = self.unbounded_kind().to_ascii_lowercase();
        let has = |words: &[&str]| words.contains(&kind.as_str());
        let whole = || {
            let declared = self.kind().to_ascii_lowercase();
            let is_shown_otherwise = declared.contains("zerofill");
            let is_whole = self.is_integer() && !is_shown_otherwise;
            is_whole.then_some(if declared.contains("unsigned") {
                "unsigned"
            } else {
                "integer"
            })
        };
        match dialect {
            Dialect::Mysql if has(&["enum"]) => Some("enumeration"),
            Dialect::Mysql if has(&["set"]) => Some("set"),
            Dialect::Postgres if has(&["character varying", "text"]) => Some("text"),
            Dialect::Mysql if has(&["varchar", "tinytext", "text", "mediumtext", "longtext"]) => {
                Some("text")
            }
            Dialect::Mysql if has(&["varbinary", "tinyblob", "blob", "mediumblob", "longblob"]) => {
                Some("bytes")
            }
            Dialect::Postgres | Dialect::Mysql => whole(),
            Dialect::Sqlite => Some(match Affinity::of(self.kind()) {
                Affinity::Text => "text",
                Affinity::Blob => "any",
                Affinity::Number if self.is_integer() => "integer",
                Affinity::Number if is_real(&kind) => "real",
                Affinity::Number => "numeric",
            }),
        }
    }

    /// Returns whether values are bytes: an id is spelled there as `0x` and its digits.
    pub(crate) fn is_binary(&self) -> bool {
        let kind = self.kind().to_ascii_uppercase();
        ["BLOB", "BINARY", "BYTEA"]
            .iter()
            .any(|word| kind.contains(word))
    }

    /// Returns the number in `VARCHAR(30)`.
    pub(crate) fn length_max(&self) -> Option<usize> {
        let (_, rest) = self.kind().split_once('(')?;
        rest.split([',', ')']).next()?.trim().parse().ok()
    }

    /// Returns whether values are arbitrary texts; a column without a type may hold some.
    pub(crate) fn is_text(&self) -> bool {
        let kind = self.kind().to_ascii_uppercase();
        let words = ["CHAR", "TEXT", "CLOB"];
        kind.is_empty() || words.iter().any(|word| kind.contains(word))
    }
}

/// The way in which `SQLite` converts values for a column, see
/// <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affinity {
    Number,
    Text,
    /// Nothing is converted.
    Blob,
}

impl Affinity {
    /// Returns the affinity of a column with this type.
    pub(crate) fn of(kind: &str) -> Self {
        let kind = kind.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        if has(&["INT"]) {
            Self::Number
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if kind.is_empty() || has(&["BLOB"]) {
            Self::Blob
        } else {
            Self::Number
        }
    }
}

/// Returns whether `SQLite` keeps whole numbers with a point in a column of this type.
fn is_real(kind: &str) -> bool {
    ["real", "floa", "doub"].iter().any(|it| kind.contains(it))
}

/// Returns the whole number that a text is the shortest spelling of.
pub(crate) fn whole_number(text: &str) -> Option<Value> {
    let signed = text.parse().ok().map(Value::Int);
    let number = signed.or_else(|| text.parse().ok().map(Value::UInt))?;
    (number.to_string() == text).then_some(number)
}

/// Returns the digits of a whole number that another type writes with a point or an exponent; the
/// types of whole numbers of `PostgreSQL` take neither.
pub(super) fn whole(text: &str) -> Option<String> {
    if text.parse::<i128>().is_ok() {
        return Some(text.to_owned());
    }
    if let Some((digits, fraction)) = text.split_once('.')
        && fraction.bytes().all(|it| it == b'0')
    {
        return digits.parse::<i128>().is_ok().then(|| digits.to_owned());
    }
    let (_, _) = text.split_once(['e', 'E'])?;
    let number: f64 = text.parse().ok()?;
    // Beyond, the text has fewer digits than the number.
    (number.fract() == 0.0 && number.abs() <= WHOLE_MAX).then(|| format!("{number:.0}"))
}

/// Returns whether the number in `text` is written as zero, and not as one too small to be held.
fn is_zero(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    !mantissa.bytes().any(|it| matches!(it, b'1'..=b'9'))
}

/// Returns whether `PostgreSQL` reads a UUID: groups of four digits, with or without a hyphen
/// between them.
fn is_uuid(text: &str) -> bool {
    let mut digits: usize = 0;
    let mut may_part = false;
    for byte in text.bytes() {
        match byte {
            b'-' if may_part => may_part = false,
            it if it.is_ascii_hexdigit() => {
                digits = digits.saturating_add(1);
                may_part = digits.is_multiple_of(4) && digits < UUID_DIGITS;
            }
            _ => return false,
        }
    }
    digits == UUID_DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_reads_as_one_that_differs_in_room_alone() {
        let column = |declared: &str, members: &[&str]| Column {
            declared: declared.to_owned(),
            members: members.iter().map(|&it| it.to_owned()).collect(),
            ..Column::default()
        };
        let reads = |dialect, one: &str, other: &str| {
            column(one, &[]).reads_as(dialect, &column(other, &[]))
        };
        for (dialect, one, other, is_alike) in [
            (Dialect::Postgres, "character varying(10)", "text", true),
            (Dialect::Postgres, "character(5)", "text", false),
            (Dialect::Postgres, "integer", "bigint", true),
            (Dialect::Postgres, "integer", "numeric", false),
            (Dialect::Postgres, "numeric(10,2)", "numeric(10,4)", false),
            (Dialect::Postgres, "real", "double precision", false),
            (Dialect::Mysql, "varchar(10)", "longtext", true),
            (Dialect::Mysql, "char(5)", "varchar(5)", false),
            (Dialect::Mysql, "int(11)", "bigint(20)", true),
            (Dialect::Mysql, "int(11)", "int(11) unsigned", false),
            (
                Dialect::Mysql,
                "int(11)",
                "int(11) unsigned zerofill",
                false,
            ),
            (Dialect::Mysql, "decimal(10,2)", "decimal(12,2)", false),
            (Dialect::Sqlite, "VARCHAR(10)", "TEXT", true),
            (Dialect::Sqlite, "INT", "BIGINT", true),
            (Dialect::Sqlite, "INTEGER", "REAL", false),
        ] {
            assert_eq!(reads(dialect, one, other), is_alike, "{one} {other}");
            assert_eq!(reads(dialect, other, one), is_alike, "{other} {one}");
        }
        let (few, many) = (
            column("mood", &["a", "c"]),
            column("mood", &["a", "b", "c"]),
        );
        assert!(few.reads_as(Dialect::Postgres, &many));
        assert!(!many.reads_as(Dialect::Postgres, &few));
        let (few, many) = (
            column("enum('a')", &["a"]),
            column("enum('a','b')", &["a", "b"]),
        );
        assert!(few.reads_as(Dialect::Mysql, &many));
        let front = column("enum('b','a')", &["b", "a"]);
        assert!(!few.reads_as(Dialect::Mysql, &front));
    }

    fn held(kind: &str, text: &str) -> bool {
        let column = Column {
            declared: kind.to_owned(),
            ..Column::default()
        };
        column.can_hold(text)
    }

    #[test]
    fn a_column_holds_what_is_sent_to_it_and_no_more() {
        for (kind, text) in [
            ("bigint", "7"),
            ("bigint", "7.000"),
            ("bigint", "1e15"),
            ("smallint", "32767"),
            ("oid", "4294967295"),
            ("uuid", "00000000-0000-0000-0000-000000000007"),
            ("uuid", "00000000000000000000000000000007"),
            ("real", "0.00"),
            ("bytea", "ada"),
        ] {
            assert!(held(kind, text), "{kind} {text}");
        }
        for (kind, text) in [
            ("bigint", "1e17"),
            ("bigint", "7.5"),
            ("bigint", "ada"),
            ("bigint", "inf"),
            ("smallint", "32768"),
            ("oid", "-1"),
            ("uuid", "0-0000000-0000-0000-0000-000000000007"),
            ("uuid", "00000000-0000-0000-0000-000000000007-"),
            ("real", "1e-60"),
            ("double precision", "1e-400"),
            ("bytea", "a\\da"),
        ] {
            assert!(!held(kind, text), "{kind} {text}");
        }
    }

    /// Words in the values of an enumeration were taken for its type.
    #[test]
    fn an_enumeration_of_words_like_types_is_no_integer() {
        let column = |declared: &str, members: &[&str]| Column {
            declared: declared.to_owned(),
            members: members.iter().map(|&it| it.to_owned()).collect(),
            ..Column::default()
        };
        assert!(!column("enum('int','007')", &["int", "007"]).is_integer());
        assert!(!column("set('printed')", &[]).is_integer());
        assert!(!column("printing", &["draft"]).is_integer());
        for declared in ["int(11) unsigned", "INTEGER", "UNSIGNED BIG INT"] {
            assert!(column(declared, &[]).is_integer(), "{declared}");
        }
    }

    #[test]
    fn a_value_is_compared_as_the_affinity_of_the_column_makes_it() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (kind, value, compared) in [
            ("INTEGER", text("6"), Value::Int(6)),
            ("NUMERIC", text(" 6.5 "), Value::Real(6.5)),
            ("REAL", text("nan"), text("nan")),
            ("INTEGER", text("six"), text("six")),
            ("TEXT", Value::Int(6), text("6")),
            ("VARCHAR(9)", Value::Real(6.0), text("6.0")),
            ("", Value::Int(6), Value::Int(6)),
            ("BLOB", text("6"), text("6")),
        ] {
            let column = Column {
                declared: kind.to_owned(),
                ..Column::default()
            };
            let found = column.compared(Dialect::Sqlite, &value);
            assert!(found.same(&compared), "{kind} {value:?} {found:?}");
        }
    }

    #[test]
    fn what_is_sent_of_a_whole_number_is_whole() {
        assert_eq!(whole("1e3").as_deref(), Some("1000"));
        assert_eq!(whole("7.00").as_deref(), Some("7"));
        for text in ["1e17", "7.5", "ada", "a.0", ""] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
