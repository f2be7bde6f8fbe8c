//! Settings of the session that ran a migration, under which its expressions are asked; and others,
//! under which an answer must be the same where the update does not say them.

use std::ops::RangeInclusive;

use super::mapping::Mapping;
use crate::database::value::Value;
use crate::database::{Database, DatabaseError, Dialect};
use crate::error::SpecError;

/// The most letters of a time zone or a date style.
const LETTERS_MAX: usize = 64;

/// The zone of all connections of the engine.
const OWN_ZONE: &str = "UTC";
/// The order of days that connections of the engine read.
const OWN_ORDER: &str = "YMD";
/// The forms in which they write days, intervals and bytes.
const OWN_FORMS: [&str; 3] = ["ISO", "postgres", "hex"];

const INTERVAL_STYLES: [&str; 4] = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
const BYTES_OUTPUTS: [&str; 2] = ["hex", "escape"];
const DIGITS: RangeInclusive<i8> = -15..=3;
const OWN_DIGITS: i8 = 3;

/// Makes settings of `PostgreSQL` until the end of the transaction.
const SETTINGS: &str = "SELECT set_config('TimeZone', ?, true), set_config('DateStyle', ?, true), \
     set_config('IntervalStyle', ?, true), set_config('bytea_output', ?, true), \
     set_config('extra_float_digits', ?, true)";

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

/// Settings by which texts are made of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Day,
    Interval,
    Bytes,
}

/// Settings of one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    zone: String,
    /// The form in which days are written as texts.
    form: String,
    /// The order in which texts are read as days.
    order: String,
    /// The forms in which intervals and bytes are written as texts.
    interval: String,
    bytes: String,
    /// The digits with which rounded numbers are written as texts, beside those that are sure.
    digits: i8,
    /// False if a clock shows another time; on `PostgreSQL` it cannot.
    is_now: bool,
}

/// Questions whose answers must be alike.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) main: Setting,
    /// Others, each with whether texts alone are compared.
    pub(super) others: Vec<(Setting, bool)>,
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

    pub(super) const fn says_zone(self) -> bool {
        self.zone.is_some()
    }

    /// Returns whether it says how texts are made of such values.
    pub(super) fn says(self, form: Form) -> bool {
        match form {
            Form::Day => self.form_and_order().0.is_some(),
            Form::Interval => self.interval.is_some(),
            Form::Bytes => self.bytes.is_some(),
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
        let (form, order) = self.form_and_order();
        let own = |said: Option<&str>, own: &str| said.unwrap_or(own).to_owned();
        let said = |[zone, order_of, day, interval, bytes]: [&str; 5], digits| Setting {
            zone: own(self.zone, zone),
            order: own(order, order_of),
            form: own(form, day),
            interval: own(self.interval, interval),
            bytes: own(self.bytes, bytes),
            digits: self.digits.unwrap_or(digits),
            is_now: true,
        };
        let [day, interval, bytes] = OWN_FORMS;
        let main = said([OWN_ZONE, OWN_ORDER, day, interval, bytes], OWN_DIGITS);
        let is_postgres = dialect == Dialect::Postgres;
        let [east, west] = match dialect {
            // The signs of such zones are those of POSIX.
            Dialect::Postgres => ["<+1345>-13:45", "<-1115>+11:15"],
            Dialect::Mysql | Dialect::Sqlite => ["+12:45", "-11:15"],
        };
        let other = |zone: &str, order: &str, interval: &str| Setting {
            is_now: is_postgres,
            ..said([zone, order, day, interval, bytes], OWN_DIGITS)
        };
        let mut others = vec![
            (other(east, "MDY", interval), false),
            (other(west, "DMY", "sql_standard"), false),
        ];
        if is_postgres {
            let forms = [OWN_ZONE, OWN_ORDER, "German", "iso_8601", "escape"];
            others.push((said(forms, 0), true));
        }
        others.retain(|(other, _)| *other != main);
        Settings { main, others }
    }
}

impl Setting {
    /// Makes the settings for the statements that follow.
    pub(super) fn make(&self, database: &mut dyn Database) -> Result<(), DatabaseError> {
        let Self {
            zone,
            form,
            order,
            interval,
            bytes,
            digits,
            is_now,
        } = self;
        let dialect = database.dialect();
        match dialect {
            Dialect::Sqlite => Ok(()),
            Dialect::Mysql => {
                // A clock of another day, for what takes its day from it.
                let clock = if *is_now { "DEFAULT" } else { "86400000" };
                let zone = if zone == OWN_ZONE { "+00:00" } else { zone };
                let sql = format!("SET SESSION time_zone = '{zone}', timestamp = {clock}");
                database.execute(&sql, &[]).map(drop)
            }
            Dialect::Postgres => {
                let all = [
                    zone.clone(),
                    format!("{form}, {order}"),
                    interval.clone(),
                    bytes.clone(),
                    digits.to_string(),
                ];
                database.query(SETTINGS, &all.map(Value::Text))?;
                Ok(())
            }
        }
    }

    /// Returns the settings of every connection of the engine.
    pub(super) fn own() -> Self {
        let [form, interval, bytes] = OWN_FORMS.map(str::to_owned);
        Self {
            zone: OWN_ZONE.to_owned(),
            form,
            order: OWN_ORDER.to_owned(),
            interval,
            bytes,
            digits: OWN_DIGITS,
            is_now: true,
        }
    }
}
