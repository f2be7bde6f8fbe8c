//! Random schedules over a drawn schema: several people, two disguises, any order of leaving and return.
//!
//! The model says that every row which names nobody of those who did anything is there as it was, that whoever is away is named
//! nowhere, and that in the end every table holds what it held at the beginning, but for what was forgotten.

use std::cell::Cell;
use std::collections::BTreeSet;

use probity_disguise::{Credential, DisguiseId, SpecFile};

use super::course::{self, Course, Outcome, spelled};
use super::dice::Dice;
use super::dump::{self, Cells};
use super::layout::{Class, Column, Table, Values};
use super::mix;
use super::person::{time, told};
use super::wish::Style;

/// A disguise that hides something.
#[derive(Debug, Clone)]
struct Hiding {
    who: usize,
    id: DisguiseId,
    takes_account: bool,
}

/// The number of each that schedules have done.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Done {
    /// Schedules that ran to their end.
    pub(crate) schedules: u64,
    /// Disguises applied.
    pub(crate) applied: u64,
    /// Refusals that the preview foretold.
    foretold: u64,
    /// Refusals of disguises with the credential, of which nothing is foretold.
    over: u64,
}

pub(crate) struct Schedule<'c> {
    course: &'c mut Course,
    hidden: Vec<Hiding>,
    /// The people who did anything since everybody was there.
    touched: BTreeSet<usize>,
    pub(crate) trace: Vec<String>,
    done: &'c Cell<Done>,
}

impl<'c> Schedule<'c> {
    pub(crate) fn new(course: &'c mut Course, seed: u64, done: &'c Cell<Done>) -> Self {
        course.dice = Dice::of(!seed);
        Self {
            course,
            done,
            hidden: Vec::new(),
            touched: BTreeSet::new(),
            trace: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), String> {
        for _ in 0..mix::STEPS {
            let drawn = self.course.dice.throw(100);
            let [leave, back, _] = mix::STEP;
            if drawn < leave {
                self.leave()?;
            } else if drawn < leave + back {
                self.come_back()?;
            } else if self.hidden.is_empty() && self.course.people.present().len() > 2 {
                self.forget()?;
            }
            self.check()?;
        }
        let left = self.hidden.iter().map(|it| (it.who, it.id)).collect();
        self.trace.push("everybody returns".to_owned());
        self.course.all_return(left)?;
        self.course.as_before()?;
        self.count(|done| &mut done.schedules);
        Ok(())
    }

    fn count(&self, of: fn(&mut Done) -> &mut u64) {
        let mut done = self.done.get();
        *of(&mut done) += 1;
        self.done.set(done);
    }

    fn away(&self) -> BTreeSet<usize> {
        let away = self.hidden.iter().filter(|it| it.takes_account);
        away.map(|it| it.who).collect()
    }

    /// Somebody who is there, if anybody is.
    fn somebody(&mut self) -> Option<usize> {
        let away = self.away();
        let mut there = self.course.people.present();
        there.retain(|it| !away.contains(it));
        (!there.is_empty()).then(|| *self.course.dice.of_all(&there))
    }

    fn spec(&mut self) -> (SpecFile, Style) {
        match self.course.dice.throw(2) {
            0 => (self.course.file.clone(), self.course.style),
            _ => self.course.other.clone(),
        }
    }

    fn leave(&mut self) -> Result<(), String> {
        let Some(who) = self.somebody() else {
            return Ok(());
        };
        let (file, style) = self.spec();
        let is_over = self.course.dice.in_a_hundred(mix::OVER);
        self.trace
            .push(format!("person {who} leaves, {style:?}, over {is_over}"));
        let foretold = self.course.people.foretold(&file, Some(who));
        if let Some(reason) = foretold.into_iter().next() {
            self.trace.push(format!("refused: {reason}"));
            self.count(|done| &mut done.foretold);
            return Ok(());
        }
        let before = dump::of(self.course.people.engine.database(), &self.course.layout);
        match self.course.people.apply(&file, Some(who), is_over) {
            Ok(id) => {
                self.count(|done| &mut done.applied);
                self.touched.insert(who);
                self.hidden.push(Hiding {
                    who,
                    id,
                    takes_account: style != Style::Staying,
                });
            }
            // Of rows behind placeholders nothing is foretold.
            Err(reason) if is_over => {
                self.trace.push(format!("refused: {reason}"));
                self.count(|done| &mut done.over);
                let now = dump::of(self.course.people.engine.database(), &self.course.layout);
                if now != before {
                    return Err(format!("was refused and changed something: {reason}"));
                }
            }
            Err(reason) => return Err(format!("person {who}: {reason}")),
        }
        Ok(())
    }

    fn come_back(&mut self) -> Result<(), String> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        let at = self.course.dice.throw(self.hidden.len());
        let Hiding { who, id, .. } = self.hidden[at];
        self.trace.push(format!("person {who} returns from {at}"));
        let back = self.course.people.reveal(who, id);
        let back = back.map_err(|it| format!("person {who} returns: {it}"))?;
        if back.is_complete() {
            self.hidden.remove(at);
        } else {
            self.trace.push(format!("stays: {:?}", back.kept));
            // The account may be back, and the rest waits for somebody.
            self.hidden[at].takes_account &= back
                .kept
                .iter()
                .any(|it| it.table == self.course.layout.tables[0].name && it.column.is_none());
        }
        Ok(())
    }

    /// Somebody leaves while nobody else is away, and has the records destroyed: what is there then is there for good.
    fn forget(&mut self) -> Result<(), String> {
        let Some(who) = self.somebody() else {
            return Ok(());
        };
        let (file, style) = self.spec();
        if !self.course.people.foretold(&file, Some(who)).is_empty() {
            return Ok(());
        }
        self.trace
            .push(format!("person {who} leaves for good, {style:?}"));
        self.touched.insert(who);
        let id = self.course.people.apply(&file, Some(who), false)?;
        match self.course.people.forget(who, id) {
            // It found nothing of theirs.
            Err(reason) if reason.contains("no such disguise") => return Ok(()),
            forgotten => forgotten?,
        }
        self.check()?;
        if style != Style::Staying {
            self.course.people.gone.insert(who);
            self.course.nobody_is_found(&[(who, id)])?;
        }
        self.course.before = dump::of(self.course.people.engine.database(), &self.course.layout);
        self.course.people.note_principals();
        self.touched.clear();
        Ok(())
    }

    /// Compares the present state with the model.
    fn check(&mut self) -> Result<(), String> {
        let away: Vec<(usize, DisguiseId)> = self
            .hidden
            .iter()
            .filter(|it| it.takes_account)
            .map(|it| (it.who, it.id))
            .collect();
        self.course.nobody_is_found(&away)?;
        let touched: Vec<String> = self
            .touched
            .iter()
            .map(|it| self.course.ids[*it].clone())
            .collect();
        let now = dump::of(self.course.people.engine.database(), &self.course.layout);
        let tables = self.course.layout.tables.iter();
        for ((table, before), now) in tables.zip(&self.course.before.0).zip(&now.0) {
            if table.class == Class::Through {
                continue;
            }
            let now: BTreeSet<&Cells> = now.iter().collect();
            for row in before {
                if !names_any(table, row, &touched) && !now.contains(row) {
                    return Err(format!(
                        "a row of somebody else of {} is lost: {row:?}",
                        table.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a row names one of these people, in any spelling.
fn names_any(table: &Table, row: &Cells, ids: &[String]) -> bool {
    let columns = table.columns.iter();
    let columns = columns.filter(|it| !matches!(it.values, Values::Stamp));
    let is_named = |(at, column): (usize, &Column)| {
        let is_id = table.class == Class::Users && table.key == [at];
        let names = is_id || matches!(column.values, Values::Link(0));
        let value = row[at].as_ref().filter(|_| names);
        value.is_some_and(|it| ids.contains(&spelled(column, it)))
    };
    columns.enumerate().any(is_named)
}

/// Runs the schedules of a schema and counts in `done`, or returns which failed and why.
pub(crate) fn over(
    mut course: Course,
    seeds: std::ops::Range<u64>,
    made: &mut String,
    done: &Cell<Done>,
) -> Result<Outcome, String> {
    // By a key that changed with each of two people, the records of neither know the row again once there are several.
    if course.decorrelates_two() {
        course::gone(&mut course);
        return Ok(Outcome::LeftOut);
    }
    for seed in seeds {
        let mut schedule = Schedule::new(&mut course, seed, done);
        if let Err(reason) = schedule.run() {
            made.push_str(&format!(
                "-- schedule {seed}\n-- {}\n",
                schedule.trace.join("\n-- ")
            ));
            return Err(format!("schedule {seed}: {reason}"));
        }
    }
    course::gone(&mut course);
    Ok(Outcome::Returned)
}

impl super::person::People {
    /// Destroys what a disguise hid.
    fn forget(&mut self, who: usize, id: DisguiseId) -> Result<(), String> {
        let person = &self.all[who];
        let credential = Credential::Key(&person.key);
        let forgotten = self.engine.forget(&person.id, &credential, id, time());
        forgotten.map(drop).map_err(|it| told(&it))
    }
}
