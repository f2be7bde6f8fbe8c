//! Sentences about rows whose owner the database and the users' ids do not agree on.

use super::likeness::Naming;
use crate::database::Dialect;

impl Naming<'_> {
    /// Returns the refusal of rows that are two people's.
    pub(crate) fn of_two_people(&self) -> String {
        format!(
            "rows of {} belong to two people: column {} holds a value that the database takes for the ids of both, since its type or collation is not that of {} of {}; give it the same, or correct these rows",
            self.table.name, self.column.name, self.id.name, self.users
        )
    }

    /// Returns the refusal of rows that name somebody by what is no id as the users table has it.
    pub(crate) fn of_form(&self, dialect: Dialect) -> String {
        if self.is_converted(dialect) {
            self.of_conversion()
        } else {
            self.of_collation()
        }
    }

    /// Returns the refusal of rows that name somebody by a conversion alone.
    fn of_conversion(&self) -> String {
        format!(
            "rows of {} name somebody in column {} by a value that is an id only after a conversion, so that nothing says whose they are; give it the type and collation of {} of {}, declare the foreign key, or correct these rows",
            self.table.name, self.column.name, self.id.name, self.users
        )
    }

    /// Returns the refusal of rows whose value is stored otherwise than the id that it names.
    pub(crate) fn of_storage(&self) -> String {
        format!(
            "rows of {} name somebody in column {} by a value of another type than the id, as the number 7 for the text 7, so that no reveal would find whose they are; give {} of {} the type of the column, and write each id in it",
            self.table.name, self.column.name, self.id.name, self.users
        )
    }

    /// Returns the refusal of rows that name somebody by what the column alone takes for an id.
    fn of_collation(&self) -> String {
        format!(
            "rows of {} name nobody in column {} by a value that is no id of {} and that the column takes for one, since its type or collation is another; give it the type and collation of {} of {}, or correct these rows",
            self.table.name, self.column.name, self.users, self.id.name, self.users
        )
    }

    /// Returns the caution about the column, whatever it holds now.
    pub(crate) fn caution(&self) -> String {
        format!(
            "column {} of {} compares otherwise than {} of {}, by its type or collation: a disguise is refused where a value there is the id of two people, or is one by a conversion that no foreign key declares; give the column the same type and collation",
            self.column.name, self.table.name, self.id.name, self.users
        )
    }
}
