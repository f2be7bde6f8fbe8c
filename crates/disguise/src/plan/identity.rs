//! Refusals of tables whose rows, or users, cannot be distinguished.

use super::step::PlanContext;
use crate::error::SpecError;
use crate::schema::ResolvedTable;

impl PlanContext<'_> {
    /// Refuses a description by which people are named in a column that holds no ids.
    pub(super) fn refuse_unfit(&self) -> Result<(), SpecError> {
        let (users, id) = (&self.live.pseudo.table, &self.live.pseudo.id);
        let of_id = self.live.table(users).and_then(|it| it.catalog.column(id));
        let Some(of_id) = of_id else {
            return Ok(());
        };
        for (table, column) in self.live.people_columns() {
            let own = table.catalog.column(column);
            if let Some(kind) = own.and_then(|it| it.unfit_for(self.dialect, of_id)) {
                let what = format!(
                    "column {column} has the type {kind}, which holds no id of {users}; give it the type of {id}, or name it neither as an owner nor as a reader"
                );
                return Err(SpecError::new(format!("table {}", table.name), what));
            }
        }
        Ok(())
    }

    /// Refuses a change in a table whose rows cannot be distinguished, or whose users cannot.
    pub(super) fn check_identity(&self, table: &ResolvedTable) -> Result<(), String> {
        let name = &table.name;
        if !table.unsure.is_empty() {
            return Err(format!(
                "several rows of {name} may have one identity ({}), since no key holds over these columns as they compare themselves; give them a primary or a unique key, or name under identity the columns of one",
                table.unsure.join(", ")
            ));
        }
        if table.identity.is_empty() {
            return Err(format!("table {name} has no identifying columns"));
        }
        let is_unfindable = |name: &&String| {
            let column = table.catalog.column(name);
            column.is_some_and(|it| !it.finds_rows())
        };
        if let Some(column) = table.identity.iter().find(is_unfindable) {
            return Err(format!(
                "the rows of {name} are identified by {column}, by whose type no statement finds them; give them a key of another type, or name another under identity"
            ));
        }
        if table.catalog.has_heirs {
            return Err(format!(
                "other tables inherit from {name}, and a row of theirs may have the key of one of its own; detach them (ALTER TABLE ... NO INHERIT), or make them partitions"
            ));
        }
        let (users, id) = (&self.live.pseudo.table, &self.live.pseudo.id);
        let is_key = |it: &ResolvedTable| it.is_key(std::slice::from_ref(id));
        if !self.live.table(users).is_some_and(is_key) {
            return Err(format!(
                "several rows of {users} may have one {id}, since no key holds over this column as it compares itself; give it a primary or a unique key"
            ));
        }
        self.live
            .loose_step(self.dialect, table)
            .map_or(Ok(()), Err)
    }
}
