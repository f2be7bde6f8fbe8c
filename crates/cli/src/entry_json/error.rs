//! What is wrong with one line of entry JSON, where in it, and what to do.

use std::fmt;

/// A line that is no entry.
///
/// Says the place and the rule, never the contents: they may be personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The byte in the line, from 1, at or just behind which the fault was noticed.
    pub column: usize,
    /// The field concerned, if one is; escaped and cut, because the line chose it.
    pub field: Option<String>,
    /// What is wrong, one lower-case clause.
    pub reason: String,
    /// What to do about it, one sentence without a full stop.
    pub remedy: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}", self.column)?;
        if let Some(field) = &self.field {
            write!(f, ", field {field}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for LineError {}
