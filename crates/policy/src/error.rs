//! Errors of a policy: position, reason and remedy.

/// The error of a policy that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy line {line}, column {column}: {reason}")]
#[non_exhaustive]
pub struct PolicyError {
    /// Line of the offending text, from 1.
    pub line: usize,
    /// Column of the offending text in characters, from 1.
    pub column: usize,
    /// The reason, one clause.
    pub reason: String,
    /// The remedy, one clause.
    pub remedy: String,
}

impl PolicyError {
    /// Creates an error at byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize, reason: String, remedy: &str) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            reason,
            remedy: remedy.to_owned(),
        }
    }
}
