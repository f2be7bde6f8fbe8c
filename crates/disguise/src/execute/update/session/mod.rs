//! Settings of the session that ran a migration, under which its expressions are asked; and others,
//! under which an answer must be the same where the update does not say them.
//!
//! Each setting of a session is one of these:
//!
//! - said or tried: those below;
//! - refused, since its values are no list: `transform_null_equals` and `search_path` of `PostgreSQL`,
//!   and `quote_all_identifiers`, which the names of objects alone have; `character_set_connection` and
//!   `collation_connection` of `MariaDB` (`doubt`);
//! - refused where the server has it: modes of `MariaDB` by which a statement is read, and
//!   `standard_conforming_strings` and `lc_monetary` of `PostgreSQL` (`reading`);
//! - one that has no part in any expression or assignment. The tests beside this file ask servers
//!   under each of the others that is a switch or a choice.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::conversion::Need;
use super::mapping::Mapping;
use crate::database::value::Value;
use crate::database::{Database, DatabaseError, Dialect, MARIADB_MODE};
use crate::error::{SpecError, UpdateError};

/// The most letters of a time zone or a date style.
const LETTERS_MAX: usize = 64;

/// The settings of all connections of the engine, as far as values depend on them. The first two of
/// `PostgreSQL` are one there: the form in which days are written, and the order in which they are
/// read.
const OF_POSTGRES: [(&str, &str); 9] = [
    ("form", "ISO"),
    ("order", "YMD"),
    ("TimeZone", "UTC"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
    ("array_nulls", "on"),
    ("xmloption", "content"),
    ("timezone_abbreviations", "Default"),
];
const OF_MARIADB: [(&str, &str); 4] = [
    ("time_zone", "+00:00"),
    ("sql_mode", MARIADB_MODE),
    ("timestamp", "DEFAULT"),
    (OLD_MODE, "DEFAULT"),
];
/// A setting of `MariaDB` that `MySQL` lacks.
const OLD_MODE: &str = "old_mode";
/// The setting of `SQLite` by which `LIKE` tells letters of another case apart. It is asked by the
/// expression, since nothing says what it was.
const EXACT_LIKE: &str = "case_sensitive_like";
const OTHERS_OF_SQLITE: [&[(&str, &str)]; 1] = [&[(EXACT_LIKE, "on")]];

/// Others, so that each setting is another one in one of them. The signs of such zones are those of
/// POSIX.
const OTHERS_OF_POSTGRES: [&[(&str, &str)]; 3] = [
    &[
        ("order", "MDY"),
        ("TimeZone", "<+1345>-13:45"),
        ("array_nulls", "off"),
        ("xmloption", "document"),
        ("extra_float_digits", "0"),
        ("timezone_abbreviations", "India"),
    ],
    &[
        ("order", "DMY"),
        ("TimeZone", "<-1115>+11:15"),
        ("IntervalStyle", "sql_standard"),
        ("timezone_abbreviations", "Australia"),
    ],
    &[
        ("form", "German"),
        ("IntervalStyle", "iso_8601"),
        ("bytea_output", "escape"),
        ("extra_float_digits", "-15"),
    ],
];
/// Neither is strict: a value that does not fit becomes another. The clock is that of another day.
const OTHERS_OF_MARIADB: [&[(&str, &str)]; 2] = [
    &[
        ("time_zone", "+12:45"),
        (
            "sql_mode",
            "NO_ZERO_DATE,NO_ZERO_IN_DATE,TIME_ROUND_FRACTIONAL,PAD_CHAR_TO_FULL_LENGTH",
        ),
        ("timestamp", "86400000"),
        (OLD_MODE, "ZERO_DATE_TIME_CAST"),
    ],
    &[
        ("time_zone", "-11:15"),
        ("sql_mode", ""),
        ("timestamp", "86400000"),
        (OLD_MODE, ""),
    ],
];

const INTERVAL_STYLES: [&str; 4] = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
const BYTES_OUTPUTS: [&str; 2] = ["hex", "escape"];
const DIGITS: RangeInclusive<i8> = -15..=3;

/// The settings that an update says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Session<'m> {
    zone: Option<&'m str>,
    /// As `DateStyle` of `PostgreSQL` has it: a form for output, an order for input, or both.
    style: Option<&'m str>,
    /// Its `IntervalStyle`.
    interval: Option<&'m str>,
    /// Its `bytea_output`.
    bytes: Option<&'m str>,
    /// Its `extra_float_digits`.
    digits: Option<i8>,
}

/// Settings of one question, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting(BTreeMap<&'static str, String>);

/// Questions whose answers must be alike.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) main: Setting,
    pub(super) others: Vec<Setting>,
}

impl<'m> Session<'m> {
    pub(super) fn of(mapping: &'m Mapping) -> Self {
        Self {
            zone: mapping.time_zone.as_deref(),
            style: mapping.date_style.as_deref(),
            interval: mapping.interval_style.as_deref(),
            bytes: mapping.bytea_output.as_deref(),
            digits: mapping.extra_float_digits,
        }
    }

    /// Returns whether it says what a conversion needs.
    pub(super) fn says(self, need: Need) -> bool {
        match need {
            Need::Trial => true,
            Need::Zone => self.zone.is_some(),
            Need::Day => self.form_and_order().0.is_some(),
            Need::Interval => self.interval.is_some(),
            Need::Bytes => self.bytes.is_some(),
        }
    }

    /// Refuses what can be no name of a zone or a style.
    pub(super) fn check(self) -> Result<(), SpecError> {
        let is_name = |it: &str| {
            let mut letters = it.bytes();
            let known = |it: u8| it.is_ascii_alphanumeric() || b"_+-/:<>, ".contains(&it);
            !it.is_empty() && it.len() <= LETTERS_MAX && letters.all(known)
        };
        for (key, said) in [("time_zone", self.zone), ("date_style", self.style)] {
            if said.is_some_and(|it| !is_name(it)) {
                let what = "is no name of a setting, such as \"Europe/Berlin\" or \"ISO, MDY\"";
                return Err(SpecError::new(key, what));
            }
        }
        let listed = |key, said: Option<&str>, all: &[&str]| match said {
            Some(said) if !all.contains(&said) => {
                let what = format!("is none of {}", all.join(", "));
                Err(SpecError::new(key, what))
            }
            _ => Ok(()),
        };
        listed("interval_style", self.interval, &INTERVAL_STYLES)?;
        listed("bytea_output", self.bytes, &BYTES_OUTPUTS)?;
        if self.digits.is_some_and(|it| !DIGITS.contains(&it)) {
            let what = "is not between -15 and 3";
            return Err(SpecError::new("extra_float_digits", what));
        }
        Ok(())
    }

    /// Refuses a distance from UTC that `PostgreSQL` reads with the sign of POSIX, by which hours ahead
    /// are behind.
    pub(super) fn refuse_turned(self, dialect: Dialect) -> Result<(), UpdateError> {
        let zone = self.zone.unwrap_or_default();
        let distance = zone.strip_prefix(['+', '-']).unwrap_or(zone);
        let is_distance =
            distance.contains(':') && distance.bytes().all(|it| it.is_ascii_digit() || it == b':');
        let is_some = distance.bytes().any(|it| (b'1'..=b'9').contains(&it));
        if dialect != Dialect::Postgres || !is_distance || !is_some {
            return Ok(());
        }
        Err(UpdateError::Wrong(format!(
            "time_zone = \"{zone}\" has the sign of POSIX on PostgreSQL, by which +05:00 is behind UTC: say \"<-05>+05\" for five hours behind and \"<+05>-05\" for five ahead, or the name of the zone"
        )))
    }

    /// Returns the form and the order of days that are said.
    fn form_and_order(self) -> (Option<&'m str>, Option<&'m str>) {
        let words = self.style.unwrap_or_default().split(',').map(str::trim);
        let is_order = |it: &&str| {
            ["MDY", "DMY", "YMD"]
                .iter()
                .any(|order| it.eq_ignore_ascii_case(order))
        };
        let (orders, forms): (Vec<&str>, Vec<&str>) =
            words.filter(|it| !it.is_empty()).partition(is_order);
        (forms.first().copied(), orders.first().copied())
    }

    /// Returns the settings under which an expression is asked that may depend on them.
    pub(super) fn settings(self, dialect: Dialect) -> Settings {
        let others: &[&[(&str, &str)]] = match dialect {
            Dialect::Sqlite => &OTHERS_OF_SQLITE,
            Dialect::Mysql => &OTHERS_OF_MARIADB,
            Dialect::Postgres => &OTHERS_OF_POSTGRES,
        };
        let main = self.said(dialect, &[]);
        let others = others.iter().map(|it| self.said(dialect, it));
        let others = others.filter(|it| *it != main).collect();
        Settings { main, others }
    }

    /// Returns the settings of the engine with these others, and with those that it says.
    fn said(self, dialect: Dialect, others: &[(&'static str, &str)]) -> Setting {
        let mut setting = Setting::own(dialect);
        for (name, value) in others {
            setting.0.insert(name, (*value).to_owned());
        }
        let (form, order) = self.form_and_order();
        let digits = self.digits.map(|it| it.to_string());
        let said = match dialect {
            Dialect::Sqlite => Vec::new(),
            Dialect::Mysql => vec![("time_zone", self.zone)],
            Dialect::Postgres => vec![
                ("form", form),
                ("order", order),
                ("TimeZone", self.zone),
                ("IntervalStyle", self.interval),
                ("bytea_output", self.bytes),
                ("extra_float_digits", digits.as_deref()),
            ],
        };
        for (name, value) in said {
            if let Some(value) = value {
                setting.0.insert(name, value.to_owned());
            }
        }
        setting
    }
}

impl Setting {
    /// Returns the settings of every connection of the engine.
    pub(super) fn own(dialect: Dialect) -> Self {
        let all: &[(&'static str, &str)] = match dialect {
            Dialect::Sqlite => &[],
            Dialect::Mysql => &OF_MARIADB,
            Dialect::Postgres => &OF_POSTGRES,
        };
        let all = all.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Self(all.collect())
    }

    /// Returns whether `LIKE` tells letters of another case apart, on `SQLite`.
    pub(super) fn likes_exactly(&self) -> bool {
        self.0.contains_key(EXACT_LIKE)
    }

    /// Makes the settings for the statements that follow, on `PostgreSQL` until the end of the
    /// transaction.
    pub(super) fn make(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let all = self.0.iter();
        match database.dialect() {
            Dialect::Sqlite => Ok(()),
            Dialect::Mysql => {
                let set = |name: &str, value: &str| match (name, value) {
                    ("timestamp", _) | (_, "DEFAULT") => format!("{name} = {value}"),
                    _ => format!("{name} = '{value}'"),
                };
                let (old, all): (Vec<_>, Vec<_>) = all.partition(|(name, _)| **name == OLD_MODE);
                let all = all.iter().map(|(name, value)| set(name, value));
                let old = old.iter().map(|(name, value)| set(name, value));
                let old = old.map(|it| format!(" /*M! , {it} */"));
                let old = old.collect::<Vec<_>>().concat();
                let all = all.collect::<Vec<_>>().join(", ");
                let sql = format!("SET SESSION {all}{old}");
                database.execute(&sql, &[]).map(drop)
            }
            Dialect::Postgres => {
                let style = ["form", "order"].map(|it| self.0.get(it).cloned().unwrap_or_default());
                let others = all.filter(|(name, _)| !["form", "order"].contains(name));
                let others = others.map(|(name, value)| (*name, value.clone()));
                let (names, values): (Vec<&str>, Vec<String>) =
                    others.chain([("DateStyle", style.join(", "))]).unzip();
                let all = names
                    .iter()
                    .map(|it| format!("set_config('{it}', ?, true)"));
                let sql = format!("SELECT {}", all.collect::<Vec<_>>().join(", "));
                let values: Vec<Value> = values.into_iter().map(Value::Text).collect();
                database.query(&sql, &values).map(drop)
            }
        }
    }
}
