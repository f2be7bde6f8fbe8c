//! Disguises in chunks that a database has missed, and what became of them by the log.

use super::replay_action::ReplayAction;
use super::replay_decision::Replay;
use super::replay_obstacles::in_clear;
use crate::transaction::operation::LoggedOperation;

/// The fate of a disguise in chunks, by the log.
pub(super) enum FateOfBegun {
    /// Done, which another operation says, or taken back whole.
    Done,
    /// Not ended, or carried through by a replay elsewhere.
    GoesOn,
    /// Ended in the middle, with so many rows hidden.
    Ended(Option<u64>),
}

impl<'a> Replay<'a> {
    /// Returns the action for a disguise in chunks.
    pub(super) fn begin_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        match self.fate_of_begun(told) {
            FateOfBegun::Done => self.unscheduled(told, None),
            FateOfBegun::GoesOn => self.apply_again(told),
            FateOfBegun::Ended(hidden) => self.unscheduled(told, Some(in_clear(hidden))),
        }
    }

    /// Returns what became of a disguise in chunks, by the log.
    pub(super) fn fate_of_begun(&self, told: &LoggedOperation) -> FateOfBegun {
        let since = || self.all().skip_while(|it| it.id != told.id);
        let own = || since().filter(|it| it.key == told.key);
        // Somebody else may name any disguise, and finds nothing of it.
        let is_of_other = |it: &LoggedOperation| it.reveals_no_row() && it.subject != told.subject;
        let reveals = |it: &LoggedOperation| it.action == "disguise.reveal" && !is_of_other(it);
        let is_back = |it: &LoggedOperation| reveals(it) && it.facts.kept == Some(0);
        let is_over = |it: &LoggedOperation| {
            it.action == "disguise.apply" || told.subject.is_some() && is_back(it)
        };
        if own().any(is_over) {
            return FateOfBegun::Done;
        }
        // Where it was whole, nobody could cancel it.
        let is_cut = |it: &&LoggedOperation| {
            it.action == "disguise.cancel" && it.facts.hidden.is_some_and(|rows| rows > 0)
        };
        if let Some(end) = own().find(is_cut) {
            return FateOfBegun::Ended(end.facts.hidden);
        }
        let is_ended = |it: &LoggedOperation| match it.action.as_str() {
            "disguise.cancel" => it.key == told.key,
            // It goes on without whoever reveals or forgets it, where everybody is meant.
            "disguise.reveal" => told.subject.is_some() && it.key == told.key && reveals(it),
            "disguise.forget" => {
                let is_meant = it.key.is_empty() || it.key == told.key;
                told.subject.is_some() && it.subject == told.subject && is_meant
            }
            _ => false,
        };
        // What a replay carried through elsewhere was ended whole.
        let is_whole = |it: &LoggedOperation| it.key == told.key && it.makes_whole();
        match since().find(|it| is_ended(it) || is_whole(it)) {
            None => FateOfBegun::GoesOn,
            Some(it) if is_whole(it) => FateOfBegun::GoesOn,
            Some(end) if end.facts.hidden == Some(0) => FateOfBegun::Done,
            Some(end) => FateOfBegun::Ended(end.facts.hidden),
        }
    }
}
