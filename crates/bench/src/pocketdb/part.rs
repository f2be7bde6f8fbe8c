//! The parts of the series, each of which can be run alone.

use clap::ValueEnum;

use super::Figure;

/// A part of the series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Rows of every table, 64 in a transaction and one by one
    Insertion,
    /// The 18 queries in six states of the database
    Queries,
    /// Reorganisations of all rows, of a hundredth and of a tenth new
    Reorganisation,
    /// A row's life, with a reorganisation by levels after every so many rows
    Lifetimes,
    /// B+-trees, `SQLite` and, where it was named, `SQLCipher` for the same rows
    Others,
    /// The paper's four indexes in a log
    Indexes,
    /// Reorganisations of nine tenths of the rows with a hundredth, and with a tenth, added; only where it is named
    Growth,
    /// The queries beside `SQLite`, row for row, in six states; only where it is named
    Answers,
}

impl Part {
    /// The parts that run by default.
    const USUAL: [Self; 6] = [
        Self::Insertion,
        Self::Queries,
        Self::Reorganisation,
        Self::Lifetimes,
        Self::Others,
        Self::Indexes,
    ];
}

/// The selected parts.
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// Returns the parts in `named`, or the default ones.
    pub(super) fn of(named: &[Part]) -> Self {
        let parts = if named.is_empty() {
            &Part::USUAL
        } else {
            named
        };
        Self(parts.to_vec())
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// Returns whether one of `parts` is selected.
    pub(super) fn has_any(&self, parts: &[Part]) -> bool {
        parts.iter().any(|&part| self.has(part))
    }

    /// Returns whether a figure of the database that goes through all states belongs to a selected
    /// part.
    pub(super) fn shows(&self, figure: &Figure) -> bool {
        match figure.kind {
            "insertion" => self.has(Part::Insertion),
            "query" => self.has(Part::Queries),
            "reorganisation" => self.has(Part::Reorganisation),
            _ => self.has_any(&[Part::Queries, Part::Reorganisation]),
        }
    }
}
