//! The rows and values that a disguise of everybody leaves as they are, because they name nobody.

use super::applier::Loss;
use super::chunk::Chunk;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::place::Place;
use crate::spec::Kind;
use crate::statements::row::at;

impl Chunk<'_, '_> {
    /// Counts those of the next rows of `steps` that would stay as they are, without a change.
    /// Returns whether there are more.
    pub(crate) fn count_of_nobody(
        &mut self,
        place: &mut Place,
        rows: usize,
    ) -> Result<bool, Error> {
        let Some(step) = place.of(self.steps) else {
            return Ok(false);
        };
        let table = self.work.table_of(step)?;
        let (columns, found) = self.next_named(table, step, place, rows)?;
        if found.is_empty() {
            place.next();
            return Ok(true);
        }
        let count = match &step.kind {
            Kind::Modify { .. } => {
                self.work
                    .picker()
                    .looked_at(table, &columns, found, Loss::Values)?
                    .of_nobody
            }
            Kind::Remove => {
                let people = found.iter();
                let people =
                    people.flat_map(|row| table.people().filter_map(|it| at(&columns, row, it)));
                let people: Vec<&Value> = people.collect();
                self.work.principals.meet(self.work.database, &people)?;
                let (_, plain) = self.work.principals.split(table, &columns, found);
                self.work
                    .picker()
                    .looked_at(table, &columns, plain, Loss::Row)?
                    .of_nobody
            }
            Kind::Decorrelate { owners, .. } => self.values((&columns, &found), owners)?,
            Kind::Unlink { column } => {
                let column = std::slice::from_ref(column);
                self.values((&columns, &found), column)?
            }
        };
        self.work.applied.count_of_nobody(table, count);
        Ok(true)
    }

    /// Returns how many values in the columns `owners` name nobody who is registered or has an
    /// account.
    fn values(
        &mut self,
        (columns, rows): (&[String], &[Vec<Value>]),
        owners: &[String],
    ) -> Result<usize, Error> {
        let named = rows
            .iter()
            .flat_map(|row| owners.iter().filter_map(|it| at(columns, row, it)));
        let named: Vec<&Value> = named.filter(|it| !it.is_nobody()).collect();
        self.work.principals.meet(self.work.database, &named)?;
        let strangers = self.work.picker().strangers(named.iter().copied())?;
        let is_nobody = |it: &&&Value| strangers.contains(&it.principal());
        Ok(named.iter().filter(is_nobody).count())
    }
}
