//! The progress of a disguise that is taken in parts.

use super::step::Step;
use crate::database::value::Value;

/// The progress of a disguise in chunks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// The step at hand.
    pub(crate) step: u32,
    /// The part of it at hand, where a step is taken in several: see `apply/chunk.rs`.
    pub(crate) part: u32,
    /// The identity of the last row that the part has seen; empty before the first.
    pub(crate) seen: Vec<Value>,
}

impl Place {
    /// Before anything is done.
    pub(crate) const START: Self = Self {
        step: 0,
        part: 0,
        seen: Vec::new(),
    };

    /// Returns the current step among all of a disguise.
    pub(crate) fn of<'s>(&self, steps: &'s [Step]) -> Option<&'s Step> {
        steps.get(usize::try_from(self.step).ok()?)
    }

    /// Goes on to a part of the step at hand.
    pub(crate) fn enter(&mut self, part: u32) {
        self.part = part;
        self.seen.clear();
    }

    /// Goes on to the next step.
    pub(crate) fn next(&mut self) {
        self.step = self.step.saturating_add(1);
        self.enter(0);
    }
}
