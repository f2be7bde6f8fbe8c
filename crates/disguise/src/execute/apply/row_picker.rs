//! The rows that a step takes: whose they are, and which of them go.

use super::principals::Principals;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::row::at;

/// Rows and the people whom they name, as the database has them before a change.
pub(super) struct RowPicker<'w, 'a> {
    pub(super) database: &'w mut dyn TenantConnection,
    pub(super) principals: &'w mut Principals<'a>,
    /// The tables that lose rows when everybody leaves, each with the rows that are meant.
    pub(super) removals: &'w [(String, Fragment)],
}

impl RowPicker<'_, '_> {
    /// Returns those of the rows that a removal takes: neither rows that the user only reads nor
    /// those with an owner who stays.
    pub(super) fn going(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.principals.has_no_other_say(table) {
            return Ok(rows);
        }
        let people = rows.iter();
        let people = people.flat_map(|row| table.people().filter_map(|it| at(columns, row, it)));
        self.principals
            .meet(self.database, &people.collect::<Vec<_>>())?;
        let parted = self.parted(table, columns, rows)?;
        self.going_of_own(table, columns, [parted.owned, parted.shared].concat())
    }

    /// As [`Self::going`], of rows with an owner who leaves and whose people are known.
    pub(super) fn going_of_own(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        if table.name == self.principals.live.pseudo.table {
            rows.retain(|row| self.principals.may_go(columns, row));
        }
        let (shared, mut going) = self.principals.split(table, columns, rows);
        going.append(&mut self.left_by_all(table, columns, shared)?);
        Ok(going)
    }
}

impl Principals<'_> {
    /// Returns whether the user alone decides about the rows of a removal. In the users table only
    /// a person does, because the account of a placeholder may have to stay.
    pub(super) fn has_no_other_say(&self, table: &ResolvedTable) -> bool {
        let Some(user) = self.user else {
            return false;
        };
        if table.name == self.live.pseudo.table {
            let name = user.principal();
            let known = self.known.get(&name);
            let is_person = known.is_some_and(|(_, standing)| standing.is_person());
            return is_person && self.own.len() == 1 && self.own.contains(&name);
        }
        (table.owners.len() < 2 || table.goes_whole()) && table.readers.is_empty()
    }

    /// Returns whether a row of the users table may be removed: neither a placeholder made by this disguise, nor one
    /// that shared rows and the copies of their other owners name.
    pub(super) fn may_go(&self, columns: &[String], row: &[Value]) -> bool {
        at(columns, row, &self.live.pseudo.id)
            .is_none_or(|id| !self.made.contains(&id.principal()) && !self.is_departed(id))
    }
}
