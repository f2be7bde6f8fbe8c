//! One schema: some of its people leave and come back, and everything is as it was, or it was refused before.

use std::collections::BTreeSet;

use probity_disguise::{Database, Dialect, DisguiseId, SpecFile, draft};

use super::ddl;
use super::dice::Dice;
use super::dump::{self, Dump};
use super::kinds::Shown;
use super::layout::{self, Column, Layout, Values};
use super::mix;
use super::person::{People, told};
use super::rows;
use super::wish::{self, Style};

/// The number of rounds in which everybody may try to come back before missing rows count as lost.
const ROUNDS: usize = 5;

/// The outcome for a schema.
pub(crate) enum Outcome {
    /// All that was to be done in it was done.
    Returned,
    /// The reason for a refusal before anything was done.
    Refused(String),
    /// A limit of the tests, before anything was done.
    LeftOut,
}

/// A schema that is made and filled, before anybody leaves.
pub(crate) struct Course {
    pub(crate) layout: Layout,
    pub(crate) file: SpecFile,
    pub(crate) style: Style,
    /// Another specification for the same people.
    pub(crate) other: (SpecFile, Style),
    /// The tables that one of the two decorrelates.
    decorrelated: BTreeSet<String>,
    place: String,
    pub(crate) people: People,
    pub(crate) before: Dump,
    pub(crate) dice: Dice,
    /// The ids of the people as a dump has them, in one spelling.
    pub(crate) ids: Vec<String>,
    /// The rows kept at the last try.
    stays: String,
}

/// Begins a course, or returns the reason for a refusal. `made` receives the statements to do the
/// same by hand.
pub(crate) fn begun(
    mut database: Box<dyn Database>,
    place: &str,
    seed: u64,
    made: &mut String,
) -> Result<Result<Course, String>, String> {
    let dialect = database.dialect();
    let mut dice = Dice::of(seed);
    let layout = layout::drawn(dialect, &mut dice);
    let rows = rows::drawn(&layout, &mut dice);
    let mut statements = ddl::made(&layout, place);
    statements.extend(ddl::filled(&layout, &rows));
    for sql in &statements {
        made.push_str(sql);
        made.push_str(";\n");
        if let Err(error) = database.execute(sql, &[]) {
            return Err(format!("the generator: {error} {:?} in {sql}", error.said));
        }
    }
    let before = dump::of(&mut database, &layout);
    let drafted = match draft(&mut database, Some(&layout.tables[0].name)) {
        Ok(drafted) => drafted,
        Err(error) => return Ok(Err(told(&error))),
    };
    let style = wish::style(&mut dice);
    let text = wish::wished(&layout, &drafted.text, style, &mut dice);
    made.push_str(&format!("-- {style:?}, own {}\n{text}", layout.is_own));
    let file = SpecFile::parse(&text).map_err(|error| format!("parsing: {error:?}"))?;
    let mut decorrelated = wish::decorrelated(&text);
    let mut others = Dice::of(seed ^ 0xFFFF);
    let style_of_other = *others.of_all(&[Style::Keeping, Style::Staying, Style::Mixed]);
    let text = wish::wished(&layout, &drafted.text, style_of_other, &mut others);
    decorrelated.extend(wish::decorrelated(&text));
    let other = SpecFile::parse(&text).map_err(|error| format!("parsing: {error:?}"))?;
    let people = match People::of(database, &layout, &file, &mut dice) {
        Ok(people) => people,
        Err(reason) if reason.starts_with("FAILED") => return Err(reason),
        Err(reason) => return Ok(Err(reason)),
    };
    let mut people = people;
    let ids = ids(&mut people, &layout);
    Ok(Ok(Course {
        ids,
        stays: String::new(),
        other: (other, style_of_other),
        place: place.to_owned(),
        decorrelated,
        layout,
        file,
        style,
        people,
        before,
        dice,
    }))
}

/// Takes the schema away, so that a server does not fill.
pub(crate) fn gone(course: &mut Course) {
    let place = &course.place;
    let statements = match course.layout.dialect {
        Dialect::Sqlite => Vec::new(),
        Dialect::Mysql => vec![format!("DROP DATABASE IF EXISTS {place}")],
        _ => vec![
            format!("DROP SCHEMA IF EXISTS {place}_b CASCADE"),
            format!("DROP SCHEMA {place} CASCADE"),
        ],
    };
    for sql in statements {
        course.people.engine.database().execute(&sql, &[]).unwrap();
    }
}

fn ids(people: &mut People, layout: &Layout) -> Vec<String> {
    let users = &layout.tables[0];
    let id = &users.columns[users.key[0]];
    let quote = |name: &str| layout.dialect.quote(name);
    let table = quote(&users.name);
    let sql = format!(
        "SELECT {} FROM {table} ORDER BY {table}.{}",
        dump::shown(layout.dialect, id),
        quote(&id.name)
    );
    let ids = people.engine.database().query(&sql, &[]).unwrap();
    let ids = ids.into_iter().flatten().map(dump::text);
    ids.map(|it| spelled(id, &it.unwrap())).collect()
}

/// Leaves and returns in the schema of a seed.
pub(crate) fn run(
    database: Box<dyn Database>,
    place: &str,
    seed: u64,
    made: &mut String,
) -> Result<Outcome, String> {
    let mut course = match begun(database, place, seed, made)? {
        Ok(course) => course,
        Err(reason) => return Ok(Outcome::Refused(reason)),
    };
    let mut left: Vec<(usize, DisguiseId)> = Vec::new();
    let mut refused = None;
    if course.dice.in_a_hundred(mix::EVERYBODY) {
        let foretold = course.people.foretold(&course.file, None);
        if let Some(reason) = foretold.into_iter().next() {
            return Ok(Outcome::Refused(reason));
        }
        let id = course.people.apply(&course.file, None, false);
        let id = id.map_err(|it| format!("everybody: {it}"))?;
        left.extend((0..course.people.all.len()).map(|who| (who, id)));
    } else {
        let count = 1 + course.dice.throw(course.people.all.len());
        for who in course
            .dice
            .shuffled(course.people.all.len())
            .into_iter()
            .take(count)
        {
            let foretold = course.people.foretold(&course.file, Some(who));
            if let Some(reason) = foretold.into_iter().next() {
                refused = Some(reason);
                break;
            }
            let id = course.people.apply(&course.file, Some(who), false);
            left.push((who, id.map_err(|it| format!("person {who}: {it}"))?));
        }
    }
    made.push_str(&format!("-- left: {left:?}\n"));
    if course.style != Style::Staying {
        course.nobody_is_found(&left)?;
    }
    course.all_return(left)?;
    course.as_before()?;
    gone(&mut course);
    Ok(refused.map_or(Outcome::Returned, Outcome::Refused))
}

impl Course {
    /// Returns whether a specification puts placeholders into a key of two people.
    pub(crate) fn decorrelates_two(&self) -> bool {
        let two = self.layout.tables.iter();
        let mut two = two.filter(|it| it.class == layout::Class::Follows);
        two.any(|table| self.decorrelated.contains(&table.name))
    }

    /// Checks that nobody who left is named anywhere.
    pub(crate) fn nobody_is_found(&mut self, left: &[(usize, DisguiseId)]) -> Result<(), String> {
        let now = dump::of(self.people.engine.database(), &self.layout);
        let ids: Vec<String> = left.iter().map(|(who, _)| self.ids[*who].clone()).collect();
        for (table, rows) in self.layout.tables.iter().zip(&now.0) {
            let columns = table.columns.iter();
            let columns = columns.filter(|it| !matches!(it.values, Values::Stamp));
            for (at, column) in columns.enumerate() {
                let is_id = table.class == layout::Class::Users && table.key == [at];
                if !is_id && !matches!(column.values, Values::Link(0)) {
                    continue;
                }
                for row in rows {
                    let found = row[at].as_ref().map(|it| spelled(column, it));
                    if let Some(found) = found.filter(|it| ids.contains(it)) {
                        return Err(format!(
                            "{found} is found in {}.{}: {row:?}",
                            table.name, column.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Everybody comes back, in any order, as often as it takes.
    pub(crate) fn all_return(&mut self, left: Vec<(usize, DisguiseId)>) -> Result<(), String> {
        let mut away = left;
        for _ in 0..ROUNDS {
            let order = self.dice.shuffled(away.len());
            let mut kept = Vec::new();
            for at in order {
                let (who, id) = away[at];
                let back = self.people.reveal(who, id);
                let back = back.map_err(|it| format!("person {who} returns: {it}"))?;
                if !back.is_complete() {
                    kept.push((who, id, back.kept));
                }
            }
            if kept.is_empty() {
                return Ok(());
            }
            away = kept.iter().map(|(who, id, _)| (*who, *id)).collect();
            self.stays = format!("{kept:?}");
        }
        Err(format!("stays: {}", self.stays))
    }

    pub(crate) fn as_before(&mut self) -> Result<(), String> {
        let now = dump::of(self.people.engine.database(), &self.layout);
        for (at, (now, before)) in now.0.iter().zip(&self.before.0).enumerate() {
            if now != before {
                let name = self.layout.tables.get(at).map_or("an heir", |it| &it.name);
                let lost: Vec<_> = before.iter().filter(|it| !now.contains(it)).collect();
                let new: Vec<_> = now.iter().filter(|it| !before.contains(it)).collect();
                return Err(format!("{name} differs: lost {lost:?}, new {new:?}"));
            }
        }
        self.people.left_over()
    }
}

/// A cell in one of its spellings.
pub(crate) fn spelled(column: &Column, cell: &str) -> String {
    let hex = match column.shown {
        Shown::Bytes => cell,
        _ => cell.strip_prefix("text ").unwrap_or_default(),
    };
    let bytes: Option<Vec<u8>> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect();
    let text = bytes
        .filter(|it| !it.is_empty())
        .and_then(|it| String::from_utf8(it).ok())
        .unwrap_or_else(|| cell.to_owned());
    text.to_lowercase().trim_end().replace('\u{e9}', "e")
}
