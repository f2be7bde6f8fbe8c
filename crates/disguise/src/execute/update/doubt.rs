//! Expressions of which nobody can say what the migration made by them: they depend on a setting that
//! the update does not say, on the moment, or have two meanings.

use super::question::{Asked, Question};
use super::session::Form;
use super::typed::{Kind, Use};
use crate::database::column::Structure;
use crate::database::value::Value;
use crate::database::{Column, Dialect, Family};
use crate::error::UpdateError;

/// The settings on which forms of texts depend, as an update says them.
const FORMS: [(Form, &str); 3] = [
    (Form::Day, "date_style = \"ISO, MDY\""),
    (Form::Interval, "interval_style = \"postgres\""),
    (Form::Bytes, "bytea_output = \"hex\""),
];

const UNSAID_ZONE: &str = "reads or gives times in the zone of a session, so that it may find something else than the migration did: say the zone of the migration, as time_zone = \"Europe/Berlin\"";
const OF_THE_CLOCK: &str = "makes a time with a zone of one without a day, so that the day of the reading decides its offset: do the update by code";
const OF_PARTS: &str = "makes a value of several parts, of which any may depend on a setting of the session: do the update by code";
const ELSEWHERE: &str = "compares values of a type whose schema is not on the search path, so that it may find something else than the migration did: set the path with ALTER DATABASE ... SET search_path, or do the update by code";
const OF_OBJECTS: &str = "makes a text of the name of a table or a type, which the search path of the session shortens: do the update by code";

/// The words that mean a moment where `PostgreSQL` reads a day or a time.
const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
/// The type of times with a zone and without a day, without its precision.
const TIMETZ: &str = "time with time zone";
/// Names of zones without a slash are not longer.
const ZONE_LETTERS_MAX: usize = 5;
/// No text of a day or a time has more letters, blanks not counted.
const TIME_LETTERS_MAX: usize = 128;

impl Question<'_> {
    /// Refuses the name of a column alone where `MariaDB` has two texts for a number: `ALTER TABLE`
    /// makes what the column shows, an assignment what the amount is.
    pub(super) fn refuse_two_texts(
        &self,
        into: Option<&Column>,
        expression: &str,
    ) -> Result<(), UpdateError> {
        let mut used = Use::default();
        used.add(expression);
        if self.dialect == Dialect::Mysql && used.names("length") {
            return Err(UpdateError::Wrong(
                "length alone may mean two numbers, of bytes in a statement of MariaDB and of letters in a condition here: say octet_length for bytes, or char_length for letters"
                    .to_owned(),
            ));
        }
        let family = into.map(|it| it.family(self.dialect));
        let is_written = matches!(family, Some(Family::Text | Family::Bytes));
        if self.dialect != Dialect::Mysql || !is_written {
            return Ok(());
        }
        // A name in quotes is the name.
        let named = expression.trim().trim_matches(['"', '`']);
        let mut kinds = self.row.kinds.iter();
        let is_shown_otherwise = kinds.any(|(name, kind)| match kind {
            Kind::Recorded(it) => name.eq_ignore_ascii_case(named) && it.shows_other_digits(),
            Kind::Made => false,
        });
        if !is_shown_otherwise {
            return Ok(());
        }
        Err(UpdateError::Wrong(format!(
            "{named} alone may mean two texts, since such a column shows other digits than those of its number: say \"lower({named})\" for the text that ALTER TABLE made of it, or \"({named})\" for that of UPDATE ... SET"
        )))
    }

    /// Refuses expressions that depend on a setting of the session which the update does not say, or
    /// which none can say.
    pub(super) fn refuse_unsaid(&self) -> Result<(), UpdateError> {
        for it in &self.asked {
            if let Some(what) = self.doubt(it) {
                let place = it.place();
                return Err(UpdateError::Wrong(format!("{place} {what}")));
            }
        }
        Ok(())
    }

    /// Returns the reason why nobody can say what the migration made by an expression.
    fn doubt(&self, it: &Asked<'_>) -> Option<String> {
        let families = self.families(&it.used);
        let is_zoned = families.iter().any(|(it, _)| it.has_zone());
        let meets_zone = families.iter().any(|(it, meets)| *meets && it.has_zone());
        let becomes = it.into.map(|it| it.family(self.dialect));
        let crosses = becomes.as_ref().is_some_and(|it| it.has_zone() != is_zoned);
        if (crosses || meets_zone && it.used.is_looked_at()) && !self.session.says_zone() {
            return Some(UNSAID_ZONE.to_owned());
        }
        if self.dialect != Dialect::Postgres {
            return None;
        }
        if takes_the_day_of_the_clock(becomes.as_ref(), &families) {
            return Some(OF_THE_CLOCK.to_owned());
        }
        let of_parts = |it: &&Column| it.structure == Structure::Composed;
        let is_of_parts = it.into.as_ref().is_some_and(of_parts);
        if is_of_parts && families.iter().any(|(it, _)| Some(it) != becomes.as_ref()) {
            return Some(OF_PARTS.to_owned());
        }
        if self.compares_elsewhere(&it.used) {
            return Some(ELSEWHERE.to_owned());
        }
        if !becomes.as_ref().is_some_and(Family::holds_texts) {
            return None;
        }
        if families.iter().any(|(it, _)| names_objects(it)) {
            return Some(OF_OBJECTS.to_owned());
        }
        let has = |form| families.iter().any(|(it, _)| form_of(it) == Some(form));
        let mut unsaid = FORMS
            .iter()
            .filter(|(form, _)| has(*form) && !self.session.says(*form));
        unsaid.next().map(|(_, key)| {
            format!(
                "makes a text of values, whose form a setting of the session decides: say that of the migration, as {key}"
            )
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

    /// Returns the families of the columns that an expression names, as they were recorded, or, of
    /// what an update made, as the table has them now; each with whether more than for NULL is asked.
    fn families(&self, used: &Use) -> Vec<(Family, bool)> {
        let table = &self.row.row.table;
        let named = self.row.kinds.iter().filter(|(name, _)| used.names(name));
        let columns = named.filter_map(|(name, kind)| {
            let column = match kind {
                Kind::Recorded(it) => it,
                Kind::Made => self.now.column(table, name)?,
            };
            Some((column.family(self.dialect), used.meets(name)))
        });
        columns.collect()
    }

    /// Refuses values of which the database makes something else at another moment, or by another
    /// version of it.
    pub(super) fn refuse_fleeting(&self, columns: &[(Column, Value)]) -> Result<(), UpdateError> {
        for asked in &self.asked {
            let named = columns.iter().filter(|(it, _)| asked.used.names(&it.name));
            let (named, values): (Vec<&Column>, Vec<&Value>) =
                named.map(|(column, value)| (column, value)).unzip();
            let into = asked.into.map(|it| it.family(self.dialect));
            // Of types that are not known here, parts may be times.
            let becomes_time = into
                .as_ref()
                .is_some_and(|it| !it.holds_texts() && !it.is_plain());
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

/// Returns whether a time with a zone is made of values that have no day.
fn takes_the_day_of_the_clock(into: Option<&Family>, from: &[(Family, bool)]) -> bool {
    let is_timetz = |it: &Family| match it {
        Family::Array(of) => **of == Family::Own(TIMETZ.to_owned()),
        it => *it == Family::Own(TIMETZ.to_owned()),
    };
    let has_day = |it: &Family| is_timetz(it) || *it == Family::Zoned;
    into.is_some_and(is_timetz) && (from.is_empty() || !from.iter().all(|(it, _)| has_day(it)))
}

/// Returns whether values are names of objects of the database, which the search path shortens.
fn names_objects(family: &Family) -> bool {
    match family {
        Family::Array(of) => names_objects(of),
        Family::Own(kind) => kind.starts_with("reg"),
        _ => false,
    }
}

/// Returns the setting by which a value of the family is written as a text.
fn form_of(family: &Family) -> Option<Form> {
    match family {
        Family::Array(of) => form_of(of),
        Family::Bytes => Some(Form::Bytes),
        Family::Own(kind) if kind == "interval" => Some(Form::Interval),
        // Times of a day have one form alone.
        Family::Own(kind) if kind.starts_with("time") => None,
        family => family.tells_time().then_some(Form::Day),
    }
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
    let letters = text.bytes().filter(|it| !it.is_ascii_whitespace()).count();
    letters <= TIME_LETTERS_MAX && words.any(|word| MOMENTS.contains(&word))
}
