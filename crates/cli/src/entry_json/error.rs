//! The fault in one line of entry JSON: its place, its reason and the remedy.

use std::fmt;

/// A line that is no entry.
///
/// Names the place and the rule, never the contents: they may be personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The byte in the line, from 1, at or just after which the fault was noticed.
    pub column: usize,
    /// The field concerned, if any; escaped and cut, because the line chose it.
    pub field: Option<String>,
    /// The reason, as one lower-case clause.
    pub reason: String,
    /// The remedy, as one sentence without a full stop.
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
