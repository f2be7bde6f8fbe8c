//! The mapping of input lines to entries, for resuming after a failure.

use std::collections::VecDeque;

/// The most steps that are remembered; each blank or refused line may add one.
const STEPS_MAX: usize = 65_536;

/// The lines of the appended entries, in the order of their indices.
#[derive(Debug)]
pub(super) struct Lines {
    /// Index of the first entry.
    first_index: u64,
    /// The first line of the input.
    first_line: u64,
    /// Entries so far.
    count: u64,
    /// Each entry whose line does not follow that of the entry before: its number, and its line.
    steps: VecDeque<(u64, u64)>,
}

impl Lines {
    pub(super) const fn new(first_index: u64, first_line: u64) -> Self {
        Self {
            first_index,
            first_line,
            count: 0,
            steps: VecDeque::new(),
        }
    }

    /// Counts the entry on `line`.
    pub(super) fn push(&mut self, line: u64) {
        let follows = self.steps.back().is_some_and(|(number, at)| {
            at.saturating_add(self.count.saturating_sub(*number)) == line
        });
        if !follows {
            self.steps.push_back((self.count, line));
        }
        self.count = self.count.saturating_add(1);
    }

    /// Returns whether the bound is reached and [`Lines::forget`] must be called.
    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= STEPS_MAX
    }

    /// Forgets all steps but the last; every entry so far must be durable.
    pub(super) fn forget(&mut self) {
        let last = self.steps.pop_back();
        self.steps.clear();
        self.steps.extend(last);
    }

    /// Returns the number of entries.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many of them the stream holds if its next entry has `index`.
    pub(super) fn kept(&self, index: u64) -> u64 {
        index.saturating_sub(self.first_index).min(self.count)
    }

    /// Returns the line to resume at when the first `kept` entries are recorded, and the index that
    /// its entry gets.
    pub(super) fn after(&self, kept: u64) -> (u64, u64) {
        let index = self.first_index.saturating_add(kept);
        let Some(last) = kept.checked_sub(1) else {
            return (self.first_line, index);
        };
        let step = self.steps.partition_point(|(number, _)| *number <= last);
        let known = step.checked_sub(1).and_then(|step| self.steps.get(step));
        let line = known.map_or(self.first_line, |(number, line)| {
            line.saturating_add(last.saturating_sub(*number))
                .saturating_add(1)
        });
        (line, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_behind_the_last_entry_kept_is_known() {
        let mut lines = Lines::new(100, 1);
        let taken = [1, 2, 3, 7, 8, 20];
        for line in taken {
            lines.push(line);
        }
        assert_eq!(lines.after(0), (1, 100));
        for (kept, line) in (1..).zip(taken) {
            assert_eq!(lines.after(kept), (line + 1, 100 + kept));
        }
        assert_eq!(
            (lines.kept(99), lines.kept(103), lines.kept(900)),
            (0, 3, 6)
        );
        lines.forget();
        assert_eq!(lines.after(6), (21, 106));
    }
}
