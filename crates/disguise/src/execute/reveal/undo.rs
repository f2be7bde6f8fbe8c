//! Undoing sections: in the opposite order of the steps, and again as long as that helps.

use std::collections::{BTreeSet, VecDeque};
use std::mem::take;

use super::circle::Circles;
use super::co_owned::Copies;
use super::joint_values::alike;
use super::layers::{Layers, names};
use super::others::Others;
use super::owners::Owners;
use super::put_back::WholeRows;
use super::report::KeptReason;
use super::rewrite::Values;
use super::spilled_bags::{Age, Closed, Turn, age};
use super::{Due, Open, Revealer, Rows, Sections, unfit};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Section};
use crate::schema::ResolvedTable;

impl<'a> Revealer<'a> {
    /// Undoes all changes in the opposite order of the steps, repeatedly while that helps; the rest
    /// stays in the bags.
    pub(super) fn undo(
        &mut self,
        opened: &mut [Open<'_>],
        mut closed: Closed<'_>,
    ) -> Result<(), Error> {
        let mut due = Sections::new();
        let mut disguises = BTreeSet::new();
        for (index, open) in opened.iter_mut().enumerate() {
            let (now, later): (Vec<_>, Vec<_>) = take(&mut open.bag.sections)
                .into_iter()
                .partition(|it| open.due.holds(it));
            open.bag.sections = later;
            due.extend(now.into_iter().map(|it| (index, it)));
            disguises.insert(open.reached.found.locator.origin.disguise);
        }
        self.waits
            .meet(self.database, self.live, opened, (&due, &closed))?;
        let covered = self.layers().merge(opened, &mut due)?;
        self.others = Others::meet(self.reach, opened);
        let mut barred = match self.rows {
            Rows::PerColumn => BTreeSet::new(),
            Rows::Whole => self.values().barred(&due)?,
        };
        if self.rows == Rows::Whole {
            barred.extend(names(self.live, &covered));
        }
        // The newest disguise comes first: of rows with one key, removed one after the other, the last comes back.
        let ages: Vec<Age> = opened.iter().map(|it| age(it.reached)).collect();
        let turn = |(index, section): &(usize, Section)| (ages.get(*index).copied(), section.step);
        closed.sort();
        // With several disguises the newer one may still be undone, and then the older one must be tried again.
        self.settle = disguises.len() == 1;
        loop {
            // Records of readers whom rows still lack may be those of an older disguise.
            due.sort_by_cached_key(|it| std::cmp::Reverse(turn(it)));
            let before = count(&due).saturating_add(closed.rows());
            let mut helped = false;
            due = self.pass((due, &mut closed), turn, &barred, &mut helped)?;
            helped |= count(&due) < before;
            if !helped && self.circles().put_back(&mut due)? {
                continue;
            }
            if !helped && !due.is_empty() && !self.waits.begins {
                self.waits.begins = true;
                continue;
            }
            if due.is_empty() || (!helped && self.settle) {
                break;
            }
            self.settle |= !helped;
        }
        for (_, section) in &covered {
            if let Some((column, rows)) = section.values() {
                let all = rows.iter().map(|row| row.identity.as_slice());
                for identity in all {
                    self.report
                        .keep(&section.table, identity, Some(column), KeptReason::Changed);
                }
            }
        }
        due.extend(covered);
        self.others.leave(opened);
        // The first of a bag's sections to be undone is its last.
        for (index, section) in due.into_iter().rev() {
            if let Some(open) = opened.get_mut(index) {
                open.bag.sections.push(section);
            }
        }
        Ok(())
    }

    /// Tries each section once, and those of closed bags in their turn. A row that went back in
    /// part counts as progress.
    fn pass(
        &mut self,
        (due, closed): (Sections, &mut Closed<'_>),
        turn: impl Fn(&(usize, Section)) -> Turn,
        barred: &BTreeSet<Vec<u8>>,
        helped: &mut bool,
    ) -> Result<Sections, Error> {
        self.report.revealed.kept.clear();
        self.notes.forget_kept();
        let mut left = Sections::new();
        let mut due = VecDeque::from(due);
        loop {
            let next = closed.turn();
            let before = next.map_or(due.len(), |next| due.partition_point(|it| turn(it) >= next));
            let sections = due.make_contiguous().get(..before).unwrap_or_default();
            let alike = alike(self.live, sections);
            if alike > 1 {
                let together = due.drain(..alike).collect();
                left.extend(self.values().rewrite_together(together, barred)?);
                continue;
            }
            let at_hand = if before == 0 {
                closed.open(self.database)?
            } else {
                due.pop_front()
            };
            let Some((index, section)) = at_hand else {
                return Ok(left);
            };
            let (step, table) = (section.step, self.live.table(&section.table));
            left.extend(
                self.section((index, section), barred)?
                    .map(|it| (index, it)),
            );
            for change in take(&mut self.missing) {
                *helped = true;
                let table = table.ok_or(Error::Defect {
                    what: "a row went back into a table that is not there",
                })?;
                let home = self.others.home(self.database, index, &change)?;
                left.push((home, Section::new(step, table, change)));
            }
        }
    }

    /// Tries one section of the bag with number `index`. Returns the part that is left of it.
    fn section(
        &mut self,
        (index, mut section): (usize, Section),
        barred: &BTreeSet<Vec<u8>>,
    ) -> Result<Option<Section>, Error> {
        let live = self.live;
        let known = live.table(&section.table);
        let reason = unfit(known, &section);
        let (Some(table), None) = (known, reason) else {
            let reason = reason.unwrap_or(KeptReason::SchemaChanged);
            self.keep_all(known, &section, reason)?;
            return Ok((section.change.rows() > 0).then_some(section));
        };
        let is_of_user = section.is_of_user();
        match &mut section.change {
            Change::Removed { columns, rows } => {
                if is_of_user {
                    rows.retain(|row| !self.people.is_of_gone(table, columns, row));
                }
                *rows = self
                    .whole_rows()
                    .put_back((table, index), columns, take(rows))?;
            }
            Change::Copied { columns, rows, .. } => {
                *rows = Copies { work: self }.put_back((table, index), columns, take(rows))?;
            }
            Change::Modified { column, rows, .. } => {
                *rows = self
                    .values()
                    .rewrite((table, index), column, take(rows), barred, false)?;
            }
            Change::Decorrelated { column, rows, .. } => {
                *rows = self
                    .values()
                    .rewrite((table, index), column, take(rows), barred, true)?;
            }
        }
        Ok((section.change.rows() > 0).then_some(section))
    }

    /// Opens the other bags with values when values are about to be undone, including waiting ones.
    pub(super) fn open_values(
        &mut self,
        opened: &mut Vec<Open<'a>>,
        some_wait: bool,
    ) -> Result<(), Error> {
        let values = |it: &Open<'_>| it.bag.sections.iter().any(|it| it.values().is_some());
        if !some_wait && !opened.iter().any(values) {
            return Ok(());
        }
        for reached in self.reach.bags.iter().filter(|it| it.found.locator.values) {
            let row = &reached.found.row;
            if !opened.iter().any(|it| it.reached.found.row == *row) {
                opened.extend(self.open(reached, Due::Nothing)?);
            }
        }
        Ok(())
    }

    /// Begins to put whole rows back.
    pub(super) fn whole_rows(&mut self) -> WholeRows<'_, 'a> {
        WholeRows {
            owners: Owners {
                database: &mut *self.database,
                people: &mut self.people,
                others: &mut self.others,
                salt: self.salt,
            },
            waits: &self.waits,
            report: &mut self.report,
            missing: &mut self.missing,
        }
    }

    /// Begins to put back rows that wait for each other.
    fn circles(&mut self) -> Circles<'_, 'a> {
        Circles {
            work: self.whole_rows(),
        }
    }

    /// Begins to put values back.
    fn values(&mut self) -> Values<'_, 'a> {
        Values {
            owners: Owners {
                database: &mut *self.database,
                people: &mut self.people,
                others: &mut self.others,
                salt: self.salt,
            },
            report: &mut self.report,
            notes: &mut self.notes,
            settle: self.settle,
        }
    }

    /// Begins to look at values that lie over each other.
    fn layers(&mut self) -> Layers<'_> {
        Layers {
            database: &mut *self.database,
            live: self.live,
        }
    }

    fn keep_all(
        &mut self,
        known: Option<&ResolvedTable>,
        section: &Section,
        reason: KeptReason,
    ) -> Result<(), Error> {
        if let Change::Decorrelated { rows, .. } = &section.change {
            let placeholders: Vec<&Value> = rows.iter().map(|row| &row.after).collect();
            let placeholders = self.people.meant_of(self.database, &placeholders)?;
            self.notes.doubtful.extend(placeholders);
        }
        let by = match reason {
            KeptReason::KindChanged => known.and_then(|it| section.waits_by(it)),
            KeptReason::Undecided => section.overwritten().map(str::to_owned),
            _ => None,
        };
        let key = known.map_or(&[][..], |it| it.identity.as_slice());
        for identity in section.change.identities(key) {
            self.report
                .keep(&section.table, &identity, by.as_deref(), reason);
        }
        Ok(())
    }
}

fn count(sections: &Sections) -> usize {
    sections
        .iter()
        .map(|(_, section)| section.change.rows())
        .sum()
}
