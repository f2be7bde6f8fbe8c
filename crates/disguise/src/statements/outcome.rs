//! Effects of a statement: triggers and rules may skip rows without an error.

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{DatabaseError, DatabaseErrorKind};
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::row::picked;
use crate::statements::table::{Inserted, select_keys};

/// The outcome of an insertion of several rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// All rows were inserted.
    All,
    /// No row was inserted.
    Refused,
    /// The database silently skipped this number of rows.
    Passed(usize),
}

impl Done {
    /// Returns the outcome if a skipped row counts as refused.
    pub(crate) const fn outcome(self) -> Inserted {
        match self {
            Self::All => Inserted::All,
            Self::Refused | Self::Passed(_) => Inserted::Refused,
        }
    }
}

/// Returns the outcome of an insertion of `rows` rows.
pub(crate) fn inserted(done: Result<u64, DatabaseError>, rows: usize) -> Result<Done, Error> {
    match done {
        Ok(count) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let left = rows.saturating_sub(count);
            Ok(if left == 0 {
                Done::All
            } else {
                Done::Passed(left)
            })
        }
        Err(error) if error.kind == DatabaseErrorKind::Unique => Ok(Done::Refused),
        Err(error) if error.kind == DatabaseErrorKind::Constraint => Ok(Done::Refused),
        Err(source) => Err(Error::Database {
            doing: "inserting rows",
            source,
        }),
    }
}

/// Returns whether a table has a row as it is, which a trigger may have put there itself.
pub(crate) fn is_there(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[String],
    row: &[Value],
) -> Result<bool, Error> {
    let keys = [picked(columns, row, &table.identity)];
    let now = select_keys(database, &table.name, columns, &table.identity, &keys)?;
    Ok(now.iter().any(|now| are_same(now, row)))
}

/// Returns whether two rows have the same values.
pub(crate) fn are_same(one: &[Value], other: &[Value]) -> bool {
    let mut both = one.iter().zip(other);
    one.len() == other.len() && both.all(|(one, other)| one.same(other))
}
