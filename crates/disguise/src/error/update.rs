//! Reasons for which a recorded update does not fit what is hidden.

use crate::database::DatabaseError;

/// The reason why an update could not be applied to a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The update is code, and the program has no code of this name.
    #[error("it is code that this program does not have")]
    NoCode,
    /// The update does not fit the rows.
    #[error("{0}")]
    Wrong(String),
    /// The database refused an expression.
    #[error(
        "the database refused an expression; where a column had another type when the migration found it than it was hidden with, say that (was) and put the update in its place (--replace)"
    )]
    Database(#[from] DatabaseError),
}
