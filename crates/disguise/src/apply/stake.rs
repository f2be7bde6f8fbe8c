//! Whose rows a disguise of a user takes or changes beside the user's own: holds on these people stand in its way.

use super::{Work, at};
use crate::error::Error;
use crate::schema::Known;
use crate::value::Value;

/// What becomes of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// They go whole.
    Row,
    /// Some of their values do.
    Values,
}

impl Work<'_> {
    /// Notes who has a stake in rows: their owners, and of rows that go whole who reads them, too. An account is its person's alone,
    /// whomever it refers to.
    pub(super) fn stake(
        &mut self,
        table: &Known,
        columns: &[String],
        rows: &[Vec<Value>],
        loss: Loss,
    ) -> Result<(), Error> {
        if self.at_stake.is_none() {
            return Ok(());
        }
        let reads = loss == Loss::Row && table.name != self.live.pseudo.table;
        let readers = reads.then_some(&table.readers).into_iter().flatten();
        let people: Vec<&String> = table.owners.iter().chain(readers).collect();
        let named = rows.iter().flat_map(|row| {
            let people = people.iter();
            people.filter_map(|column| at(columns, row, column))
        });
        let named: Vec<&Value> = named.filter(|it| !it.is_nobody()).collect();
        self.meet(&named)?;
        let names: Vec<Vec<u8>> = named.into_iter().map(|it| self.name(it)).collect();
        self.at_stake.get_or_insert_default().extend(names);
        Ok(())
    }
}
