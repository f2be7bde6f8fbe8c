//! What is wrong with a specification.

/// What is wrong with a specification, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SpecError {
    /// Where: table and number of the transformation, or line and column of the file.
    pub place: String,
    /// What is wrong, one clause.
    pub what: String,
}

impl SpecError {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}
