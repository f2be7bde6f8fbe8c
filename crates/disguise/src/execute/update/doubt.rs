//! Expressions of which nobody can say what the migration made by them: they depend on a setting that
//! the update does not say, on the moment, or have two meanings.

use super::conversion::{Need, class, tells_time};
use super::question::{Asked, Question};
use super::typed::{Kind, Use};
use super::typing::Conversion;
use crate::database::column::Structure;
use crate::database::value::Value;
use crate::database::{Column, Dialect, Family};
use crate::error::UpdateError;

const UNSAID_ZONE: &str = "reads or gives times in the zone of a session, so that it may find something else than the migration did: say the zone of the migration, as time_zone = \"Europe/Berlin\"";
const OF_THE_CLOCK: &str = "makes a time with a zone of one without a day, so that the day of the reading decides its offset: do the update by code";
const OF_PARTS: &str = "makes a value of several parts, of which any may depend on a setting of the session: do the update by code";
const ADVICE: &str = "settings or other things beside the value may decide what that is: make a text of it by an update between, or do the update by code";
const ELSEWHERE: &str = "compares values of a type whose schema is not on the search path, so that it may find something else than the migration did: set the path with ALTER DATABASE ... SET search_path, or do the update by code";
const OF_CONNECTION: &str = "changes, measures or stores as bytes a text that is of no column of texts, so that the character set of the connection decides: do the update by code";
const OF_NULL: &str = "compares with NULL by =, which a session with transform_null_equals takes for IS NULL: say IS NULL, or leave that out";
const OF_NO_COLUMN: &str = "compares texts that are of no column of texts, so that the collation of the connection decides: do the update by code";
const OF_OBJECTS: &str = "makes a text of the name of a table or a type, which the search path of the session shortens: do the update by code";

/// The words that mean a moment where `PostgreSQL` reads a day or a time.
const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
/// No text of a rounded number has more letters on `MariaDB`.
const ROUNDED_LETTERS_MAX: usize = 23;
/// Names of zones without a slash are not longer.
const ZONE_LETTERS_MAX: usize = 5;

impl Question<'_> {
    /// Refuses what has one meaning in a statement of `MariaDB` and another one in an expression here, or
    /// two by the statements that may have done it.
    pub(super) fn refuse_two_meanings(
        &self,
        into: Option<&Column>,
        expression: &str,
    ) -> Result<(), UpdateError> {
        if self.dialect != Dialect::Mysql {
            return Ok(());
        }
        let mut used = Use::default();
        used.add(expression);
        let what = if used.has_double_quotes() {
            Some("a name in double quotes may mean two things, since a statement of MariaDB reads it as a text: write a text in single quotes, and a name in backticks".to_owned())
        } else if used.measures() {
            Some("length alone may mean two numbers, of bytes in a statement of MariaDB and of letters in a condition here: say octet_length for bytes, or char_length for letters".to_owned())
        } else if used.has_odd_backslash() {
            Some("a text with a backslash may mean two texts, since a statement of MariaDB takes it away or makes another letter of it and the next one, and a condition here takes both as they are: say a text that is all of a value under values, or do the update by code".to_owned())
        } else {
            into.and_then(|into| self.two_values(into, expression))
        };
        what.map_or(Ok(()), |what| Err(UpdateError::Wrong(what)))
    }

    /// Returns why the name of a column alone may mean two values for `into` on `MariaDB`: of a number,
    /// `ALTER TABLE` makes what the column shows, and an assignment what the amount is; and it leaves a
    /// rounded number as it is where an assignment rounds it.
    fn two_values(&self, into: &Column, expression: &str) -> Option<String> {
        // A name in quotes is the name.
        let named = expression.trim().trim_matches('`');
        let mut kinds = self.row.kinds.iter();
        let of = kinds.find_map(|(name, kind)| match kind {
            Kind::Recorded(it) => name.eq_ignore_ascii_case(named).then_some(it),
            Kind::Made => None,
        })?;
        let (was, is) = (of.family(self.dialect), into.family(self.dialect));
        if matches!(is, Family::Single | Family::Double) && was == is {
            let fewer = into.decimals().filter(|it| of.decimals() != Some(it));
            return fewer.map(|_| format!(
                "{named} alone may mean two numbers, since ALTER TABLE leaves all digits of it and UPDATE ... SET rounds it: say \"({named})\" for what UPDATE ... SET made of it; what ALTER TABLE left no statement writes"
            ));
        }
        if !matches!(is, Family::Text | Family::Bytes) {
            return None;
        }
        let has_room = into.length_max();
        let has_room = has_room.is_none_or(|it| it >= ROUNDED_LETTERS_MAX);
        if !of.shows_other_digits() && (has_room || was != Family::Double) {
            return None;
        }
        let altered = if is == Family::Bytes {
            "and do what ALTER TABLE made of it by code".to_owned()
        } else {
            format!("or \"lower({named})\" for the text that ALTER TABLE made of it")
        };
        Some(format!(
            "{named} alone may mean two texts, since such a column shows other digits than those of its number: say \"({named})\" for that of UPDATE ... SET, {altered}"
        ))
    }

    /// Refuses expressions that depend on a setting of the session which the update does not say, or
    /// on the search path.
    pub(super) fn refuse_unsaid(&self) -> Result<(), UpdateError> {
        self.refuse(|it| {
            if self.dialect == Dialect::Postgres && self.compares_elsewhere(&it.used) {
                return Some(ELSEWHERE.to_owned());
            }
            let conversions = it.typing.conversions.iter();
            let mut needs = conversions
                .filter_map(|it| it.needs(self.dialect))
                .flatten();
            let unsaid = needs.find(|need| !self.session.says(*need));
            unsaid.and_then(unsaid_setting)
        })
    }

    /// Refuses expressions that bring about a conversion of which nobody can say what it makes.
    pub(super) fn refuse_uncertain(&self) -> Result<(), UpdateError> {
        self.refuse(|it| {
            if it.typing.compares_made(self.dialect) {
                return Some(OF_NO_COLUMN.to_owned());
            }
            if it.typing.spells(self.dialect) {
                return Some(OF_CONNECTION.to_owned());
            }
            if it.typing.equals_null(self.dialect) {
                return Some(OF_NULL.to_owned());
            }
            let mut conversions = it.typing.conversions.iter();
            let unlisted = conversions.find(|it| it.needs(self.dialect).is_none());
            unlisted.map(|unlisted| uncertain(unlisted, it.into))
        })
    }

    fn refuse(&self, doubt: impl Fn(&Asked<'_>) -> Option<String>) -> Result<(), UpdateError> {
        let mut asked = self.asked.iter();
        let doubted = asked.find_map(|it| Some((it, doubt(it)?)));
        doubted.map_or(Ok(()), |(it, what)| {
            let place = it.place();
            Err(UpdateError::Wrong(format!("{place} {what}")))
        })
    }

    /// Returns whether an expression compares values of a type of `PostgreSQL` outside the search
    /// path: the operators of its schema are not found, and others are taken.
    fn compares_elsewhere(&self, used: &Use) -> bool {
        let mut named = self.row.kinds.iter().filter(|(name, _)| used.meets(name));
        let is_elsewhere = |kind: &Kind| match kind {
            Kind::Recorded(it) => it.members.is_empty() && it.kind().contains('.'),
            Kind::Made => false,
        };
        used.is_looked_at() && named.any(|(_, kind)| is_elsewhere(kind))
    }

    /// Refuses values of which the database makes something else at another moment, or by another
    /// version of it.
    pub(super) fn refuse_fleeting(&self, columns: &[(Column, Value)]) -> Result<(), UpdateError> {
        for asked in &self.asked {
            let named = columns.iter().filter(|(it, _)| asked.used.names(&it.name));
            let (named, values): (Vec<&Column>, Vec<&Value>) =
                named.map(|(column, value)| (column, value)).unzip();
            let becomes_time = asked
                .into
                .is_some_and(|it| tells_time(&class(self.dialect, it)));
            let into = asked.into.map(|it| it.family(self.dialect));
            let becomes_number = matches!(into, Some(Family::Exact | Family::Double));
            let meets_time = named.iter().any(|it| it.family(self.dialect).tells_time());
            let is = |value: &Value, wrong: fn(&str) -> bool| match value {
                Value::Text(text) => wrong(text),
                _ => false,
            };
            let mut written = asked.parameters.iter();
            let reads_moment = meets_time && written.any(|it| is(it, is_a_moment))
                || becomes_time
                    && values
                        .iter()
                        .copied()
                        .chain(&asked.parameters)
                        .any(|it| is(it, has_a_moment));
            let has_zero = values.iter().any(|it| is(it, |text| text.contains('\0')));
            let used = &asked.used;
            let becomes_number =
                becomes_number && (!used.calls() || used.names("coalesce")) || used.orders();
            let what = match self.dialect {
                Dialect::Postgres if reads_moment => {
                    "reads a text such as 'now' or 'today', which means another time at each reading"
                }
                Dialect::Sqlite if becomes_number && has_zero && asked.column.is_some() => {
                    "reads a text with U+0000, of which versions of SQLite make different numbers"
                }
                Dialect::Sqlite
                    if asked.typing.likes()
                        && values.iter().any(|it| matches!(it, Value::Bytes(_))) =>
                {
                    "looks for letters in bytes by LIKE, which some libraries of SQLite find there and others do not"
                }
                Dialect::Mysql
                    if becomes_whole(asked) && values.iter().any(|it| is(it, is_no_whole)) =>
                {
                    "reads a text that is no whole number, of which ALTER TABLE and UPDATE ... SET may make two"
                }
                _ => continue,
            };
            let place = asked.place();
            return Err(UpdateError::Wrong(format!(
                "{place} {what}: do the update by code"
            )));
        }
        Ok(())
    }
}

/// Returns whether a text becomes a whole number as it is.
fn becomes_whole(asked: &Asked<'_>) -> bool {
    let mut conversions = asked.typing.conversions.iter();
    !asked.used.is_looked_at()
        && conversions.any(|it| it.into == "whole" && matches!(&*it.from, "text" | "char"))
}

/// Returns whether a text is anything but digits, with a sign or without.
fn is_no_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit())
}

/// Returns why a conversion has no certain result.
fn uncertain(conversion: &Conversion, into: Option<&Column>) -> String {
    let Conversion {
        from,
        into: becomes,
        is_of_two,
    } = conversion;
    let [of, to] = [from, becomes].map(|it| it.trim_end_matches("[]"));
    if into.is_some_and(|it| it.structure == Structure::Composed) {
        OF_PARTS.to_owned()
    } else if to == "time with time zone" {
        OF_THE_CLOCK.to_owned()
    } else if of.starts_with("reg") {
        OF_OBJECTS.to_owned()
    } else if *is_of_two {
        format!("compares values of {from} with those of {becomes}, and {ADVICE}")
    } else {
        format!("makes {becomes} of {from}, and {ADVICE}")
    }
}

/// Returns what to say of a setting on which an expression depends; nothing where it is tried.
fn unsaid_setting(need: Need) -> Option<String> {
    let key = match need {
        Need::Trial => return None,
        Need::Zone => return Some(UNSAID_ZONE.to_owned()),
        Need::Day => "date_style = \"ISO, MDY\"",
        Need::Interval => "interval_style = \"postgres\"",
        Need::Bytes => "bytea_output = \"hex\"",
    };
    Some(format!(
        "makes a text of values, whose form a setting of the session decides: say that of the migration, as {key}"
    ))
}

/// Returns whether a text may mean a moment that is not the same at each reading: beside such a word
/// there is a time or a zone.
fn is_a_moment(text: &str) -> bool {
    let mut others = text.split_whitespace().filter(|word| {
        let letters = word.to_ascii_lowercase();
        !MOMENTS.iter().any(|moment| letters.contains(moment))
    });
    let is_of_time = |word: &str| word.len() <= ZONE_LETTERS_MAX || word.contains(['/', ':', '-']);
    others.all(is_of_time) && has_a_moment(text)
}

/// Returns whether a word in a text means another moment at each reading.
fn has_a_moment(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut words = text.split(|it: char| !it.is_ascii_alphabetic());
    words.any(|word| MOMENTS.contains(&word))
}
