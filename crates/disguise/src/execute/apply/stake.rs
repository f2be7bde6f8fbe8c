//! People other than the user whose rows a disguise takes or changes; holds on them refuse it.

use super::applier::{Applier, Loss};
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::spec::Kind;
use crate::statements::row::at;

impl Applier<'_> {
    /// Notes the people with a stake in rows: their owners, by their own columns or along the path
    /// to them. For rows that go whole, readers count, too. An account belongs to its person alone,
    /// whomever it refers to.
    pub(super) fn stake(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
        loss: Loss,
    ) -> Result<(), Error> {
        if self.at_stake.is_none() {
            return Ok(());
        }
        let reads = loss == Loss::Row && table.name != self.live.pseudo.table;
        let readers = reads.then_some(&table.readers).into_iter().flatten();
        let readers: Vec<&String> = readers.collect();
        let owners = self.picker().owners(table, columns, rows)?;
        let read = rows.iter().flat_map(|row| {
            let readers = readers.iter();
            readers.filter_map(|column| at(columns, row, column))
        });
        let named = owners.iter().flatten().chain(read);
        let named: Vec<&Value> = named.filter(|it| !it.is_nobody()).collect();
        self.principals.meet(self.database, &named)?;
        let names: Vec<Vec<u8>> = named
            .into_iter()
            .map(|it| self.principals.name(it))
            .collect();
        self.at_stake.get_or_insert_default().extend(names);
        Ok(())
    }

    /// Notes the owners whom a disguise of everybody replaces. Registrations do not tell of all of
    /// them: somebody who had everything forgotten may be held since.
    pub(super) fn stake_owners(&mut self, owners: &[Value]) {
        if let (Some(at_stake), None) = (&mut self.at_stake, self.user) {
            at_stake.extend(owners.iter().map(|it| self.principals.name(it)));
        }
    }

    /// Notes the people with a stake in rows that `step` chooses, before anything is changed.
    pub(super) fn foresee(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Error> {
        if self.at_stake.is_none() {
            return Ok(());
        }
        match &step.kind {
            Kind::Modify { .. } => self.stake(table, columns, &rows, Loss::Values),
            Kind::Unlink { column } => self.foresee_unlinked(table, columns, &rows, column),
            Kind::Remove => self.foresee_removed(table, columns, rows),
            // A person named beside somebody who gets a placeholder keeps the row.
            Kind::Decorrelate { .. } => Ok(()),
        }
    }

    fn foresee_removed(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Error> {
        let people = rows.iter();
        let people = people.flat_map(|row| table.people().filter_map(|it| at(columns, row, it)));
        self.principals
            .meet(self.database, &people.collect::<Vec<_>>())?;
        let parted = self.picker().parted(table, columns, rows)?;
        for column in table.readers.iter().filter(|it| table.unlinks(it)) {
            self.foresee_unlinked(table, columns, &parted.read, column)?;
            self.foresee_unlinked(table, columns, &parted.shared, column)?;
        }
        let own = [parted.owned, parted.shared].concat();
        let going = self.picker().going_of_own(table, columns, own)?;
        self.stake(table, columns, &going, Loss::Row)
    }

    fn foresee_unlinked(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
        column: &str,
    ) -> Result<(), Error> {
        let named = rows.iter().filter_map(|row| at(columns, row, column));
        self.principals
            .meet_owners(self.database, &named.collect::<Vec<_>>())?;
        let meant = rows
            .iter()
            .filter(|row| at(columns, row, column).is_some_and(|it| self.principals.is_meant(it)));
        let meant: Vec<Vec<Value>> = meant.cloned().collect();
        self.stake(table, columns, &meant, Loss::Values)
    }
}
