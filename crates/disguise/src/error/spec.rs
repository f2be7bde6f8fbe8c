//! The fault of a specification.

/// The fault of a specification, and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SpecError {
    /// The place: table and number of the transformation, or line and column of the file.
    pub place: String,
    /// The fault, one clause.
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
