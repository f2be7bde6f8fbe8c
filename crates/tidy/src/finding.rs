//! A violation of a rule: position, problem and remedy.

use std::fmt;

/// A place in the repository that breaks a rule, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The problem, one lower-case clause.
    pub problem: String,
    /// The remedy, one lower-case clause.
    pub remedy: String,
}

impl Finding {
    /// Creates a finding at `line` of `path`.
    pub fn new(
        path: &str,
        line: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            line,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.path, self.line, self.problem, self.remedy
        )
    }
}
