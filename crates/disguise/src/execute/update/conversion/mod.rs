//! Conversions between classes of types, and what their results depend on beside the value. What is
//! not listed has no certain result, and an update that needs it is refused.
//!
//! The tests beside this file ask servers about each pair of the types that they know.

use crate::database::{Column, Dialect, Family};

#[cfg(test)]
mod tests;

/// Something beside the value on which the result of a conversion depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Settings that make another thing of some values alone: it is asked under several of them.
    Trial,
    /// The zone of the session, which the update must say.
    Zone,
    /// The form in which days become texts, which it must say.
    Day,
    /// The form in which intervals do.
    Interval,
    /// The form in which bytes do.
    Bytes,
}

use Need::{Bytes, Day, Interval, Trial, Zone};

/// Classes, those into which all of them are converted, and the needs.
type Rule = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [Need],
);

const TEXT: &[&str] = &["text"];
const NUMBERS: &[&str] = &["number", "single", "double"];

/// Types of `PostgreSQL` that are written and read in one way.
const ONE_FORM: &[&str] = &[
    "number",
    "boolean",
    "uuid",
    "inet",
    "cidr",
    "macaddr",
    "macaddr8",
    "bit",
    "json",
    "jsonb",
    "jsonpath",
    "int4range",
    "int8range",
    "numrange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsvector",
    "tsquery",
    "oid",
    "pg_lsn",
    "character",
];
const ROUNDED: &[&str] = &[
    "single", "double", "point", "line", "lseg", "box", "path", "polygon", "circle",
];
const DAYS: &[&str] = &[
    "date",
    "datetime",
    "daterange",
    "datemultirange",
    "tsrange",
    "tsmultirange",
];
const IN_ZONES: &[&str] = &["zoned", "tstzrange", "tstzmultirange"];
const TIME: &str = "time without time zone";
const TIMETZ: &str = "time with time zone";

const POSTGRES: &[Rule] = &[
    (ONE_FORM, TEXT, &[]),
    (ROUNDED, TEXT, &[Trial]),
    (DAYS, TEXT, &[Day]),
    (IN_ZONES, TEXT, &[Zone, Day]),
    (&[TIME, TIMETZ], TEXT, &[]),
    (&["interval"], TEXT, &[Interval]),
    (&["bytes"], TEXT, &[Bytes]),
    (TEXT, ONE_FORM, &[]),
    (TEXT, ROUNDED, &[]),
    (TEXT, DAYS, &[Trial]),
    (TEXT, IN_ZONES, &[Zone, Trial]),
    (TEXT, &[TIME, "interval", "xml", "money"], &[Trial]),
    (TEXT, &["bytes", "\"char\""], &[]),
    (NUMBERS, NUMBERS, &[]),
    (&["boolean", "oid", "bit"], &["number"], &[]),
    (&["number"], &["boolean", "oid"], &[]),
    (&["json"], &["jsonb"], &[]),
    (&["jsonb"], &["json"], &[]),
    (&["inet"], &["cidr"], &[]),
    (&["cidr"], &["inet"], &[]),
    (&["macaddr"], &["macaddr8"], &[]),
    (&["macaddr8"], &["macaddr"], &[]),
    (&["date"], &["datetime"], &[]),
    (&["datetime"], &["date", TIME], &[]),
    (&["date", "datetime"], &["zoned"], &[Zone]),
    (&["zoned"], &["date", "datetime", TIME, TIMETZ], &[Zone]),
    (&[TIMETZ, "interval"], &[TIME], &[]),
    (&[TIME], &["interval"], &[]),
];

const AMOUNTS: &[&str] = &["whole", "decimal", "single", "double"];
/// Texts but for those that a mode fills up with spaces.
const WORDS: &[&str] = &["text", "member"];
const LETTERS: &[&str] = &["text", "char", "member", "bytes"];
/// Letters but for the members of a type, which `ALTER TABLE` and an assignment count in two ways.
const STRINGS: &[&str] = &["text", "char", "bytes"];
const NETWORK: &[&str] = &["uuid", "inet4", "inet6"];
const CLOCKS: &[&str] = &["date", "datetime", "time"];
const PLAIN: &[&str] = &["text", "member", "bytes", "whole", "decimal", "bit", "year"];

/// A time of no day would get that of the clock, a text of bits is taken for them or for digits, and
/// bytes for a number are cut off where they are none.
const MARIADB: &[Rule] = &[
    (WORDS, LETTERS, &[]),
    (&["char"], LETTERS, &[Trial]),
    (&["bytes"], LETTERS, &[]),
    (AMOUNTS, AMOUNTS, &[]),
    (AMOUNTS, STRINGS, &[]),
    (&["whole"], &["member"], &[]),
    (&["whole", "decimal"], &["bit", "year"], &[]),
    (&["year", "member"], AMOUNTS, &[]),
    // Of 64 bits, ALTER TABLE makes a rounded number with a sign.
    (&["bit"], &["whole", "decimal"], &[]),
    (&["year", "bit"], STRINGS, &[]),
    (NETWORK, STRINGS, &[]),
    (LETTERS, NETWORK, &[]),
    (&["text", "char"], AMOUNTS, &[Trial]),
    (&["text", "char"], CLOCKS, &[Trial]),
    (&["text", "char"], &["year"], &[Trial]),
    (&["text", "char"], &["zoned"], &[Zone, Trial]),
    (CLOCKS, STRINGS, &[]),
    (CLOCKS, AMOUNTS, &[]),
    (&["whole"], CLOCKS, &[Trial]),
    (&["whole"], &["zoned"], &[Zone, Trial]),
    (&["zoned"], STRINGS, &[Zone]),
    (&["zoned"], AMOUNTS, &[Zone]),
    (&["date"], CLOCKS, &[]),
    (&["datetime"], CLOCKS, &[Trial]),
    (&["time"], &["time"], &[Trial]),
    (&["zoned"], CLOCKS, &[Zone, Trial]),
    (&["date", "datetime"], &["zoned"], &[Zone, Trial]),
    (&["zoned"], &["zoned"], &[Trial]),
];

/// Returns the class of a column. That of a list is that of its elements with `[]` behind it.
pub(super) fn class(dialect: Dialect, column: &Column) -> String {
    let family = column.family(dialect);
    if dialect != Dialect::Mysql {
        return of_family(&family);
    }
    let kind = column.unbounded_kind().to_ascii_lowercase();
    let of_kind = match kind.split(' ').next().unwrap_or(&kind) {
        "enum" | "set" => "member",
        "char" => "char",
        "decimal" => "decimal",
        _ if family == Family::Exact => "whole",
        _ => return of_family(&family),
    };
    of_kind.to_owned()
}

fn of_family(family: &Family) -> String {
    let name = match family {
        Family::Text => "text",
        Family::Bytes => "bytes",
        Family::Exact => "number",
        Family::Single => "single",
        Family::Double => "double",
        Family::Date => "date",
        Family::DateTime => "datetime",
        Family::Zoned => "zoned",
        Family::Array(of) => return format!("{}[]", of_family(of)),
        Family::Own(kind) => kind,
    };
    name.to_owned()
}

/// Returns the class of numbers as they are written, and of what is calculated of them.
pub(super) const fn numbers(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Mysql => "decimal",
        Dialect::Postgres | Dialect::Sqlite => "number",
    }
}

/// Returns the class of lengths.
pub(super) const fn lengths(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Mysql => "whole",
        Dialect::Postgres | Dialect::Sqlite => "number",
    }
}

/// Returns the class of truths.
pub(super) const fn truths(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "boolean",
        Dialect::Mysql => "whole",
        Dialect::Sqlite => "number",
    }
}

/// Returns whether values of a class are calculated with as they are.
pub(super) fn is_number(class: &str) -> bool {
    NUMBERS.contains(&class) || AMOUNTS.contains(&class)
}

/// Returns whether the database calculates a rounded number of values of a class.
pub(super) fn is_rounded(class: &str) -> bool {
    matches!(class, "single" | "double")
}

/// Returns whether values of a class are texts with a collation, or bytes.
pub(super) fn has_letters(class: &str) -> bool {
    LETTERS.contains(&class)
}

/// Returns whether a text that `MariaDB` makes of values of a class may have a letter of two cases, such
/// as the e of a number.
pub(super) fn has_cases(class: &str) -> bool {
    is_rounded(class) || NETWORK.contains(&class)
}

/// Returns the class that values of two classes have as one value.
pub(super) fn common<'c>(one: &'c str, other: &'c str) -> &'c str {
    let are_numbers = is_number(one) && is_number(other);
    let is_wider = are_numbers && is_rounded(other) || has_letters(other);
    if is_wider { other } else { one }
}

/// Returns whether no setting has a part in what the database finds of values of a class alone.
pub(super) fn is_plain(dialect: Dialect, class: &str) -> bool {
    let class = class.trim_end_matches("[]");
    match dialect {
        Dialect::Sqlite => true,
        Dialect::Postgres => class == "text" || ONE_FORM.contains(&class),
        Dialect::Mysql => PLAIN.contains(&class) || NETWORK.contains(&class),
    }
}

/// Returns whether values of a class are days or times, or are made of them.
pub(super) fn tells_time(class: &str) -> bool {
    let class = class.trim_end_matches("[]");
    let times = [DAYS, IN_ZONES, &[TIME, TIMETZ]];
    times.iter().any(|it| it.contains(&class))
}

/// Returns whether values of a class are read and written in the zone of the session.
pub(super) fn has_zone(class: &str) -> bool {
    IN_ZONES.contains(&class.trim_end_matches("[]"))
}

/// Returns what the conversion of one class into another depends on; nothing where it has no certain
/// result. A value that keeps its class is passed on. No setting of `SQLite` has a part in any.
pub(super) fn needs(dialect: Dialect, from: &str, into: &str) -> Option<Vec<Need>> {
    let rules = match dialect {
        Dialect::Sqlite => return Some(Vec::new()),
        Dialect::Mysql => MARIADB,
        Dialect::Postgres => POSTGRES,
    };
    let mut listed = rules.iter();
    let listed = listed.find(|(all, to, _)| all.contains(&from) && to.contains(&into));
    if let Some((_, _, needs)) = listed {
        return Some(needs.to_vec());
    }
    if from == into {
        return Some(Vec::new());
    }
    match (from.strip_suffix("[]"), into.strip_suffix("[]")) {
        (Some(from), Some(into)) => needs(dialect, from, into),
        (Some(from), None) if into == "text" => needs(dialect, from, into),
        (None, Some(into)) if from == "text" => {
            let of_elements = needs(dialect, from, into)?.into_iter();
            // A setting decides whether NULL is one.
            Some(of_elements.chain([Trial]).collect())
        }
        _ => None,
    }
}
