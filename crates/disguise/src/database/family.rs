//! Families of declared types. Within one a value is the same whatever the type; into another family
//! only the database can say what a value became.

use super::column::Affinity;
use super::{Column, Dialect};
use crate::database::value::Value;

/// The beginnings of the names of types of `PostgreSQL` that have times or days as parts.
const TIMES: [&str; 5] = ["time", "date", "tsr", "tsm", "tstz"];

/// A family of types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Family {
    /// Texts, letter by letter, and members of enumerations and sets.
    Text,
    Bytes,
    /// Whole and decimal numbers, by their amounts.
    Exact,
    Single,
    Double,
    Date,
    /// Times of a day, as they are written.
    DateTime,
    /// Times of a day in a zone: `timestamptz` of `PostgreSQL`, `TIMESTAMP` of `MariaDB`.
    Zoned,
    /// Lists of values of one family.
    Array(Box<Self>),
    /// Any other type, by its name without a length.
    Own(String),
}

impl Family {
    /// Returns whether its values are days or times, or are made of them.
    pub(crate) fn tells_time(&self) -> bool {
        match self {
            Self::Date | Self::DateTime | Self::Zoned => true,
            Self::Array(of) => of.tells_time(),
            Self::Own(kind) => TIMES.iter().any(|it| kind.starts_with(it)),
            _ => false,
        }
    }
}

impl Column {
    /// Returns the family of its type.
    pub(crate) fn family(&self, dialect: Dialect) -> Family {
        match dialect {
            Dialect::Sqlite => self.sqlite_family(),
            Dialect::Mysql => self.mariadb_family(),
            Dialect::Postgres => self.postgres_family(),
        }
    }

    fn sqlite_family(&self) -> Family {
        match Affinity::of(self.kind()) {
            Affinity::Text => Family::Text,
            Affinity::Blob => Family::Own("any".to_owned()),
            Affinity::Number if self.is_rounded() => Family::Double,
            Affinity::Number => Family::Exact,
        }
    }

    /// Returns whether the affinity of a column of `SQLite` makes every number a rounded one.
    pub(super) fn is_rounded(&self) -> bool {
        let kind = self.kind().to_ascii_uppercase();
        let words = ["REAL", "FLOA", "DOUB"];
        !kind.contains("INT") && words.iter().any(|word| kind.contains(word))
    }

    fn mariadb_family(&self) -> Family {
        let kind = self.unbounded_kind().to_ascii_lowercase();
        let base = kind.split(' ').next().unwrap_or(&kind);
        match base {
            "enum" | "set" => Family::Text,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Family::Text,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
                Family::Bytes
            }
            // Zeros in front are part of what a column shows, and so of what becomes of it as a text.
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" => Family::Exact,
            "float" => Family::Single,
            "double" => Family::Double,
            "date" => Family::Date,
            "datetime" => Family::DateTime,
            "timestamp" => Family::Zoned,
            _ => Family::Own(base.to_owned()),
        }
    }

    fn postgres_family(&self) -> Family {
        let bare = bare(self.kind());
        match bare.strip_suffix("[]") {
            // In a list they keep the spaces that fill them up.
            Some("character") => Family::Own(bare),
            Some(element) if self.members.is_empty() => Family::Array(Box::new(of_bare(element))),
            Some(_) => Family::Array(Box::new(Family::Text)),
            None if !self.members.is_empty() => Family::Text,
            None => of_bare(&bare),
        }
    }
    /// Returns whether a value that was recorded of a column waits: it was of another family, or,
    /// where nothing tells the type of then, it may have been. No column of `SQLite` makes anything else
    /// of bytes, one of texts none of a text, and one without a type none of any value.
    pub(crate) fn awaits_update(
        &self,
        dialect: Dialect,
        was: Option<&Self>,
        value: &Value,
    ) -> bool {
        if value.is_null() {
            return false;
        }
        if self.lacks_word(dialect, value) {
            return true;
        }
        match was {
            Some(was) => {
                let (was, is) = (was.family(dialect), self.family(dialect));
                let is_kept = match (&was, &is, value) {
                    (_, _, Value::Bytes(_)) | (_, Family::Own(_), _) => true,
                    (_, Family::Text, Value::Text(_)) => true,
                    (Family::Own(_), _, value) => self.cannot_change(dialect, value),
                    _ => false,
                };
                was != is && !(is_kept && dialect == Dialect::Sqlite)
            }
            None => !self.surely_had(dialect, value),
        }
    }

    /// Returns whether it is an enumeration of `PostgreSQL` that does not have this word: it has another
    /// name, or went.
    fn lacks_word(&self, dialect: Dialect, value: &Value) -> bool {
        let is_word = dialect == Dialect::Postgres && !self.members.is_empty();
        matches!(value, Value::Text(text) if is_word && !self.members.contains(text))
    }

    /// Returns whether the form alone of a recorded value tells that it was of this family.
    fn surely_had(&self, dialect: Dialect, value: &Value) -> bool {
        let family = self.family(dialect);
        match (value, family) {
            (Value::Null, _) => true,
            // Values of `SQLite` have types of their own, and so do the rows of a migration.
            _ if dialect == Dialect::Sqlite => true,
            (Value::Int(_) | Value::UInt(_), family) => match family {
                Family::Exact => true,
                Family::Own(kind) => kind == "bit" || kind == "year",
                _ => false,
            },
            (Value::Real(_), Family::Single | Family::Double) => true,
            (Value::Bytes(_), Family::Bytes | Family::Array(_) | Family::Own(_)) => true,
            (Value::Text(text), Family::Text) => !tells_time(text),
            // Digits of bits look like a number.
            (Value::Text(text), Family::Exact | Family::Single | Family::Double) => {
                text.bytes().any(|it| !matches!(it, b'0' | b'1'))
            }
            (Value::Text(text), Family::Date) => tells_time(text) && !text.contains(':'),
            (Value::Text(text), Family::DateTime | Family::Zoned) => {
                // Only `PostgreSQL` writes the zone.
                let is_zoned = self.family(dialect) == Family::Zoned;
                dialect == Dialect::Postgres
                    && tells_time(text)
                    && text.contains(':')
                    && has_zone(text) == is_zoned
            }
            (Value::Text(_), Family::Array(_) | Family::Own(_)) => true,
            _ => false,
        }
    }
}

/// Returns the family of a type of `PostgreSQL`, without its length.
fn of_bare(kind: &str) -> Family {
    match kind {
        "text" | "character varying" | "character" | "name" => Family::Text,
        // Its letters are those of a text; it is compared otherwise.
        _ if kind == "citext" || kind.ends_with(".citext") => Family::Text,
        "bytea" => Family::Bytes,
        "smallint" | "integer" | "bigint" | "numeric" => Family::Exact,
        "real" => Family::Single,
        "double precision" => Family::Double,
        "date" => Family::Date,
        "timestamp without time zone" => Family::DateTime,
        "timestamp with time zone" => Family::Zoned,
        "bit varying" => Family::Own("bit".to_owned()),
        _ if kind.starts_with("interval ") => Family::Own("interval".to_owned()),
        _ => Family::Own(kind.to_owned()),
    }
}

/// Returns a type without its length or precision.
fn bare(kind: &str) -> String {
    match (kind.split_once('('), kind.split_once(')')) {
        (Some((start, _)), Some((_, end))) if !kind.contains('"') => format!("{start}{end}"),
        _ => kind.to_owned(),
    }
}

/// Returns whether a value is written as `PostgreSQL` writes those of a type of days or times.
pub(crate) fn is_time(value: &Value) -> bool {
    matches!(value, Value::Text(text) if tells_time(text))
}

/// Returns whether a text is of the form in which both servers write days and times.
fn tells_time(text: &str) -> bool {
    let has_mark = text.get(1..).is_some_and(|it| it.contains(['-', ':']));
    let is_time = text
        .bytes()
        .all(|it| it.is_ascii_digit() || b"-+:. BC".contains(&it));
    has_mark && is_time || text.ends_with("infinity")
}

/// Returns whether a time ends with its distance from UTC.
fn has_zone(text: &str) -> bool {
    let clock = text.split_once(' ').map_or(text, |(_, clock)| clock);
    clock.contains(['+', '-']) || text.ends_with("infinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(declared: &str) -> Column {
        let member = declared.strip_prefix("enum(");
        Column {
            declared: declared.to_owned(),
            members: member.map(str::to_owned).into_iter().collect(),
            ..Column::default()
        }
    }

    #[test]
    fn types_of_one_family_hold_one_value_alike() {
        for (dialect, alike) in [
            (
                Dialect::Mysql,
                &["varchar(9)", "longtext", "enum('a')", "set('a')"][..],
            ),
            (
                Dialect::Mysql,
                &["int(11)", "bigint(20) unsigned", "decimal(5,2)"],
            ),
            (Dialect::Mysql, &["float", "float(7,2) unsigned"]),
            (Dialect::Mysql, &["datetime", "datetime(6)"]),
            (Dialect::Mysql, &["timestamp", "timestamp(3)"]),
            (Dialect::Mysql, &["blob", "binary(4)"]),
            (
                Dialect::Postgres,
                &["text", "character(3)", "name", "enum('a')"],
            ),
            (Dialect::Postgres, &["bigint", "numeric(8,-3)"]),
            (
                Dialect::Postgres,
                &[
                    "timestamp without time zone",
                    "timestamp(0) without time zone",
                ],
            ),
            (
                Dialect::Postgres,
                &["interval", "interval(0)", "interval year to month"],
            ),
            (
                Dialect::Postgres,
                &["numeric[]", "numeric(4,1)[]", "integer[]"],
            ),
            (
                Dialect::Postgres,
                &["text[]", "character varying(9)[]", "citext[]"],
            ),
            (Dialect::Postgres, &["public.citext", "text"]),
            (Dialect::Postgres, &["bit(3)", "bit varying(9)"]),
            (Dialect::Sqlite, &["TEXT", "VARCHAR(9)"]),
            (Dialect::Sqlite, &["INTEGER", "NUMERIC", "DATETIME"]),
        ] {
            let families = alike.iter().map(|it| column(it).family(dialect));
            let families: Vec<Family> = families.collect();
            assert!(families.windows(2).all(|it| it[0] == it[1]), "{alike:?}");
        }
    }

    #[test]
    fn types_of_two_families_are_told_apart() {
        for (dialect, one, other) in [
            (Dialect::Mysql, "bit(17)", "longtext"),
            (Dialect::Mysql, "varchar(9)", "date"),
            (Dialect::Mysql, "date", "timestamp"),
            (Dialect::Mysql, "datetime", "timestamp"),
            (Dialect::Mysql, "int(5) zerofill", "char(5)"),
            (Dialect::Mysql, "float", "double"),
            (Dialect::Mysql, "set('1')", "int(11)"),
            (Dialect::Mysql, "inet6", "varbinary(16)"),
            (Dialect::Postgres, "text", "date"),
            (Dialect::Postgres, "text[]", "text"),
            (Dialect::Postgres, "text[]", "character(5)[]"),
            (Dialect::Postgres, "text[]", "date[]"),
            (Dialect::Postgres, "text", "bytea"),
            (Dialect::Postgres, "real", "double precision"),
            (Dialect::Postgres, "json", "jsonb"),
            (
                Dialect::Postgres,
                "timestamp without time zone",
                "timestamp with time zone",
            ),
            (Dialect::Sqlite, "TEXT", "INTEGER"),
            (Dialect::Sqlite, "INTEGER", "REAL"),
            (Dialect::Sqlite, "", "TEXT"),
        ] {
            let [one, other] = [one, other].map(|it| column(it).family(dialect));
            assert_ne!(one, other);
        }
    }

    #[test]
    fn without_a_type_of_then_the_form_of_a_value_tells_or_it_waits() {
        for (dialect, now, value, waits) in [
            (Dialect::Postgres, "text", Value::from("hello"), false),
            (Dialect::Postgres, "text", Value::from("2026-01-05"), true),
            (Dialect::Postgres, "text", Value::Int(7), true),
            (Dialect::Postgres, "bigint", Value::Int(7), false),
            (Dialect::Postgres, "numeric", Value::from("12.50"), false),
            (Dialect::Postgres, "integer", Value::from("101"), true),
            (Dialect::Postgres, "date", Value::from("2026-01-05"), false),
            (Dialect::Postgres, "date", Value::from("01/02/03"), true),
            (Dialect::Postgres, "bytea", Value::from("a"), true),
            (
                Dialect::Mysql,
                "timestamp",
                Value::from("2026-01-05 10:00:00"),
                true,
            ),
            (
                Dialect::Mysql,
                "datetime",
                Value::from("2026-01-05 10:00:00"),
                true,
            ),
            (Dialect::Mysql, "date", Value::from("2026-01-05"), false),
            (Dialect::Mysql, "datetime", Value::Null, false),
            (Dialect::Sqlite, "INTEGER", Value::from("a"), false),
        ] {
            let found = column(now).awaits_update(dialect, None, &value);
            assert_eq!(found, waits, "{now} {value:?}");
        }
    }
}
