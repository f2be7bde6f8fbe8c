//! Disguises in one go of people with very many rows, which are not all held at once.

use super::applier::{Applier, StepOutcome, numbered, step_at};
use super::chunk::Chunk;
use super::modify::{Modification, Overwriting, alike};
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::spec::Kind;
use crate::statements::deletion::takes;
use crate::statements::table::select;

/// The progress of a disguise in one go.
///
/// Its records are stored whenever the limit of held rows is about reached, and it goes on with
/// none. A person then has records of several parts, as after a disguise in chunks.
pub(crate) struct StepCursor {
    place: Place,
    /// The approximate limit of held rows; absent for no limit.
    most: Option<u32>,
    /// True if the current step is taken in pages.
    in_pages: bool,
    /// True if an earlier step was.
    was_in_pages: bool,
}

impl StepCursor {
    pub(crate) const fn new(most: Option<u32>) -> Self {
        Self {
            place: Place::START,
            most,
            in_pages: false,
            was_in_pages: false,
        }
    }

    pub(crate) fn is_done(&self, steps: &[Step]) -> bool {
        self.place.of(steps).is_none()
    }

    /// Returns the limit of rows for the next part; a page is cut before it is read.
    pub(crate) fn most(&self) -> Option<u32> {
        self.most.filter(|_| !self.in_pages)
    }

    /// Returns whether the current step is taken in pages, as the chunks of a disguise are.
    pub(crate) const fn is_in_pages(&self) -> bool {
        self.in_pages
    }

    /// Returns whether pages may have left marks for each other.
    pub(crate) const fn was_in_pages(&self) -> bool {
        self.was_in_pages
    }

    fn skip(&mut self, steps: usize) {
        for _ in 0..steps {
            self.place.next();
        }
    }
}

impl Applier<'_> {
    /// Takes a step, or the part of it that fits into the limit.
    pub(crate) fn run(&mut self, number: u32, step: &Step) -> Result<StepOutcome, Error> {
        let table = self.table_of(step)?;
        let number = numbered(number);
        match &step.kind {
            Kind::Remove => self.remove(number, table, step),
            Kind::Modify { .. } => {
                let steps: Vec<_> = Overwriting::of(number, step).into_iter().collect();
                Modification {
                    work: self,
                    table,
                    steps: &steps,
                }
                .run(&step.chosen)
            }
            Kind::Decorrelate { group_by, owners } => {
                self.decorrelate(number, table, step, group_by, owners)
            }
            Kind::Unlink { column } => self.unlink(number, table, step, column),
        }
    }

    /// Takes steps until all are done, or until as many rows are noted as the limit allows.
    pub(crate) fn go_on(&mut self, steps: &[Step], course: &mut StepCursor) -> Result<(), Error> {
        self.note_removals(steps);
        if course.in_pages {
            return self.next_page(steps, course);
        }
        while let Some(step) = course.place.of(steps) {
            let left = usize::try_from(course.place.step).ok();
            let left = left.and_then(|at| steps.get(at..)).unwrap_or_default();
            let together =
                alike(self.database.dialect(), self.live, left).clamp(1, left.len().max(1));
            let rest = match left.get(..together) {
                Some(several) if together > 1 => self.run_alike(course.place.step, several)?,
                _ => self.run(course.place.step, step)?,
            };
            match rest {
                StepOutcome::None => course.skip(together),
                StepOutcome::Same => {}
                StepOutcome::Pages => {
                    course.in_pages = true;
                    course.was_in_pages = true;
                }
            }
            if rest != StepOutcome::None || self.is_most(self.notes.noted) {
                break;
            }
        }
        Ok(())
    }

    /// Takes steps that overwrite columns of the same rows together.
    fn run_alike(&mut self, number: u32, steps: &[Step]) -> Result<StepOutcome, Error> {
        let (_, first) = step_at(steps, 0)?;
        let table = self.table_of(first)?;
        let together = (number..).zip(steps);
        let together = together.filter_map(|(number, it)| Overwriting::of(numbered(number), it));
        Modification {
            work: self,
            table,
            steps: &together.collect::<Vec<_>>(),
        }
        .run(&first.chosen)
    }

    /// Takes the next rows of the current step, as a chunk of a disguise that ends with it would.
    fn next_page(&mut self, steps: &[Step], course: &mut StepCursor) -> Result<(), Error> {
        let step = course.place.step;
        let (last, _) = step_at(steps, step)?;
        let until = steps.get(..=last).unwrap_or(steps);
        let most = course.most.unwrap_or(u32::MAX);
        Chunk::new(self, until).advance(&mut course.place, most)?;
        course.in_pages = course.place.step == step;
        Ok(())
    }

    /// Returns the rows that `chosen` selects, if they fit into the limit.
    pub(super) fn held(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        chosen: &Fragment,
    ) -> Result<Option<Vec<Vec<Value>>>, Error> {
        let found = select(self.database, &table.name, columns, chosen, self.most)?;
        Ok(Some(found).filter(|found| !self.is_most(found.len())))
    }

    /// Returns whether `count` rows reach the limit.
    pub(super) fn is_most(&self, count: usize) -> bool {
        self.most.is_some_and(|most| count >= rows(most))
    }

    /// Returns whether some rows of a table can be deleted before others and returned by one
    /// statement. If rows refer to each other, the database may refuse that, or change some before
    /// it returns them.
    pub(super) fn takes(&self, table: &ResolvedTable) -> bool {
        takes(self.database, table) && !table.refers_to_itself()
    }
}

fn rows(most: u32) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}
