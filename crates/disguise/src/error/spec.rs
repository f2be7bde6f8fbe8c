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

/// The place of faults of a condition of inactivity.
const INACTIVITY: &str = "the condition of inactivity";

/// The beginning of the place of faults of a parameter.
const PARAMETER: &str = "parameter ";

impl SpecError {
    /// Returns the fault of a condition of inactivity, which may stand beside the specification.
    pub(crate) fn of_inactivity(what: impl Into<String>) -> Self {
        Self::new(INACTIVITY, what)
    }

    /// Returns whether the condition of inactivity has the fault.
    pub fn is_of_inactivity(&self) -> bool {
        self.place == INACTIVITY
    }

    /// Returns whether a parameter that the caller names has the fault, and not the specification.
    pub fn is_of_parameter(&self) -> bool {
        self.place.starts_with(PARAMETER)
    }

    /// Returns the fault of a parameter that the caller names, or does not name.
    pub(crate) fn of_parameter(name: &str, what: impl Into<String>) -> Self {
        Self::new(format!("{PARAMETER}{name}"), what)
    }

    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}
