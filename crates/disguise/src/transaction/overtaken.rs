//! Operations that the database does not have and went on without.

use std::collections::BTreeSet;

use super::lineage::Lineage;
use super::operation::{LoggedOperation, REPLAY};
use crate::records::name::digits;

/// The actions that change what is hidden. Others may be needed before a replay, or do no harm to
/// what it does: people take up their keys again, updates are recorded, holds are placed.
const GOING_ON: [&str; 8] = [
    "disguise.apply",
    "disguise.begin",
    "disguise.cancel",
    "disguise.decay",
    "disguise.forget",
    "disguise.reveal",
    "disguise.schedule",
    "disguise.unregister",
];

const HOLDS: [&str; 2] = ["disguise.hold", "disguise.lift"];

/// The operations after the one at hand that the database has, from the last one on.
#[derive(Default)]
pub(super) struct Since<'a> {
    replayed: Replayed<'a>,
    actions: BTreeSet<&'a str>,
    /// Records may have been sealed to anybody.
    for_all: bool,
    /// The lineages of the keys with which something was done.
    keys: BTreeSet<&'a str>,
    subjects: BTreeSet<&'a str>,
    /// Those whose key an entry does not name.
    keyless: BTreeSet<&'a str>,
}

impl<'a> Since<'a> {
    /// Takes up the operation before, and returns whether it was done here. What a replay did is no
    /// sign that anything went on.
    pub(super) fn add(
        &mut self,
        it: &'a LoggedOperation,
        is_known: bool,
        lineage: &Lineage<'a>,
    ) -> bool {
        if it.action == REPLAY {
            // One of another life of the database did nothing here, unless it was done again.
            let is_own = is_known && !self.replayed.may_have(it);
            if is_known {
                self.replayed.add(it);
            }
            return is_own;
        }
        if !is_known || self.replayed.may_have(it) {
            return false;
        }
        let goes_on = GOING_ON.contains(&&*it.action);
        self.actions.insert(&it.action);
        self.for_all |= goes_on && it.subject.is_none() && it.action != "disguise.cancel";
        let key = lineage.of_operation(it);
        if key.is_none() && goes_on {
            self.keyless.extend(it.subject.as_deref());
        }
        self.keys.extend(key);
        self.subjects.extend(it.subject.as_deref());
        true
    }

    /// Returns whether the database went on without `it`, so that doing it now would meet what was
    /// done since. What was to be forgotten is, unless something was done under its key, or one
    /// that took its place or that it had taken the place of: nothing else can have been hidden
    /// under it, or written anew.
    pub(super) fn overtakes(&self, it: &'a LoggedOperation, lineage: &Lineage<'a>) -> bool {
        match it.action.as_str() {
            "disguise.forget" => {
                let has = |among: &BTreeSet<&str>| {
                    it.subject.as_deref().is_some_and(|it| among.contains(it))
                };
                let is_met = match (lineage.of_operation(it), &it.subject) {
                    (Some(key), _) => self.keys.contains(key) || has(&self.keyless),
                    (None, Some(_)) => has(&self.subjects),
                    (None, None) => self.went_on(),
                };
                self.for_all || is_met
            }
            action if HOLDS.contains(&action) => self.went_on() || self.has(&HOLDS),
            _ => self.went_on(),
        }
    }

    fn went_on(&self) -> bool {
        self.has(&GOING_ON)
    }

    fn has(&self, actions: &[&str]) -> bool {
        actions.iter().any(|it| self.actions.contains(it))
    }
}

/// The operations that replays did again.
#[derive(Default)]
pub(super) struct Replayed<'a> {
    /// Operations.
    ids: BTreeSet<&'a str>,
    /// Disguises, holds and people of replays that do not name the operation.
    about: BTreeSet<(&'a str, Option<&'a str>)>,
}

impl<'a> Replayed<'a> {
    pub(super) fn add(&mut self, replay: &'a LoggedOperation) {
        let about = (replay.key.as_str(), replay.subject.as_deref());
        match &replay.facts.again {
            Some(id) => drop(self.ids.insert(id)),
            None => drop(self.about.insert(about)),
        }
    }

    /// Returns whether the database may have `it` by a replay alone.
    pub(super) fn may_have(&self, it: &LoggedOperation) -> bool {
        let about = |subject| self.about.contains(&(it.key.as_str(), subject));
        self.ids.contains(&*digits(&it.id)) || about(None) || about(it.subject.as_deref())
    }
}
