//! Decides how records that were destroyed are destroyed again, by their names and without a key.

use super::replay_action::{Bound, Leaver, ReplayAction};
use super::replay_decision::{Replay, disguise, disguises};
use crate::database::value::Value;
use crate::transaction::history::Presence;
use crate::transaction::operation::{self, LoggedOperation};

const TOO_MANY: &str = "its records were too many for an entry, which takes the person's credential of that time: forget it again with it";

const KEYLESS: &str = "its entry does not name the key, so that the records of a disguise before it are made again, which may be somebody else's by the same id: forget it again with the person's credential";

const RENAMED: &str = "records may have been written anew before by a reveal or a new key, which takes the person's credential of that time to follow: when what is listed before it is done, and not earlier, forget it again with it";

const NOT_FOUND: &str = "what it destroyed is not here under its names, and may be under others: see with the person's credential what `list` opens, and forget it again; where it opens nothing of it, nothing is left to forget";

const HIDES_MORE: &str = "this database hides something of its person, or does so with this replay, that was not hidden there when it was done, and that would be lost with the credential: see with it what `list` opens, reveal what its person wants back or has back by the log, and then forget everything again";

const LEFT: &str = "something that was forgotten before takes the person's credential to be forgotten again, and it would destroy that: forget everything again with it";

impl<'a> Replay<'a> {
    /// Returns the action for destroyed records, by their names. A reveal or a new key since the
    /// backup gave them other names, which only their owner can follow.
    pub(super) fn forget(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        // Credentials are under names that no reveal changes.
        let has_none = told.facts.bags == Some(0);
        let renames = |it: &LoggedOperation| {
            // What another person does leaves the names of these records alone.
            let is_of_another = it.subject.is_some() && told.subject.is_some();
            let is_of_another = is_of_another && it.subject != told.subject;
            let is_reveal = it.reveals_rows();
            let renames = it.action == "disguise.key"
                || is_reveal && !(has_none && self.needs_no_reveal(it))
                || it.action == "disguise.forget" && it.facts.links_kept;
            renames && !is_of_another
        };
        if self.lacks_before(told, renames) {
            return Err(RENAMED.to_owned());
        }
        if told.facts.links_kept {
            return Err(
                "other disguises need links of its records, which takes the person's credential of that time: forget it again with it"
                    .to_owned(),
            );
        }
        if told.facts.destroyed_cut {
            return Err(TOO_MANY.to_owned());
        }
        if told.key.is_empty() && self.leaves_forgotten(told) {
            return Err(LEFT.to_owned());
        }
        if told.public_key().is_none() && self.is_made_again(told) {
            return Err(KEYLESS.to_owned());
        }
        if self.finds_nothing(told) || self.went_on_alone(told) {
            return Err(NOT_FOUND.to_owned());
        }
        if self.hides_more(told) {
            return Err(HIDES_MORE.to_owned());
        }
        match self.forget_again(told)? {
            ReplayAction::Forget {
                person,
                leaver,
                records,
                bound,
                ..
            } => Ok(ReplayAction::Forget {
                person,
                leaver,
                records,
                bound,
                ends: Some(self.ends(told, None)?),
            }),
            other => Ok(other),
        }
    }

    /// Returns whether something was forgotten before with the same key that only a credential can
    /// forget again, which would go with everything else.
    fn leaves_forgotten(&self, told: &LoggedOperation) -> bool {
        let before = self.missing.iter().take_while(|it| it.id != told.id);
        let mut of_key = before.filter(|it| {
            it.action == "disguise.forget" && it.facts.public_key == told.facts.public_key
        });
        of_key.any(|it| self.deed(it).is_err())
    }

    /// Returns whether `told` is a change of a password of which nothing is left to do once another
    /// operation that is `done` took all credentials of its key away.
    pub(super) fn is_settled(told: &LoggedOperation, done: &LoggedOperation) -> bool {
        let is_last = done.action == "disguise.forget" && done.key.is_empty();
        let key = told.facts.public_key.as_ref();
        told.action == "disguise.password"
            && is_last
            && key.is_some_and(|key| done.facts.public_key.as_ref() == Some(key))
    }

    /// Returns how many of the records that were destroyed are here.
    fn found(&self, told: &LoggedOperation) -> usize {
        let names = told.facts.destroyed.iter().flatten();
        names.filter(|it| self.there.records.contains(*it)).count()
    }

    /// Returns whether all records that were destroyed are here.
    pub(super) fn finds_all(&self, told: &LoggedOperation) -> bool {
        // Each bag has a record of where it is. An entry that does not count them had one at least.
        let bags = usize::try_from(told.facts.bags.unwrap_or(1)).unwrap_or(usize::MAX);
        self.found(told) >= bags.saturating_mul(2)
    }

    /// Returns whether fewer records that were destroyed are here than there were, although a disguise that it is about may
    /// be: the log does not say that this database has missed that one, too, and it has not ended.
    fn finds_nothing(&self, told: &LoggedOperation) -> bool {
        let (found, bags) = (self.found(told), told.facts.bags.unwrap_or(1));
        if bags == 0 || !told.key.is_empty() && self.finds_all(told) {
            return false;
        }
        let now = self.request.time.nanoseconds();
        let before = || self.done.iter().take_while(|(it, _)| it.id != told.id);
        let may_be_here = |id: &String| {
            let made = || before().filter(|(it, _)| it.key == *id && is_making(it));
            let is_over = |it: &LoggedOperation| it.facts.expires.is_some_and(|end| end <= now);
            // Of one in chunks that goes on here the records may have come later. A replay made
            // records, unless it knew of the forgetting.
            let is_here = |(it, presence): &(&LoggedOperation, Presence)| match presence {
                Presence::Here => it.action != "disguise.begin",
                Presence::Replayed => before().any(|(replay, _)| replay.did_again(it)),
                Presence::Followed | Presence::Missing => false,
            };
            !made().any(|(it, _)| is_over(it)) && (made().next().is_none() || made().any(is_here))
        };
        match told.facts.disguises() {
            _ if !told.key.is_empty() => may_be_here(&told.key),
            Some(disguises) => {
                // Each that is here has a record and the way to it.
                let here = disguises.iter().filter(|id| may_be_here(id)).count();
                found < here.saturating_mul(2)
            }
            // An entry of a program before does not say which they were.
            None => found == 0 && !self.is_made_again(told),
        }
    }

    /// Returns whether a disguise that `told` is about, or may be, is made again by this replay or was by one before.
    fn is_made_again(&self, told: &LoggedOperation) -> bool {
        let covers = |it: &LoggedOperation| {
            let is_theirs = it.subject.is_none()
                || it.subject == told.subject
                || self
                    .whose(it)
                    .is_some_and(|whose| self.whose(told) == Some(whose));
            is_making(it) && is_theirs && (told.key.is_empty() || told.key == it.key)
        };
        let is_missing =
            |it: &LoggedOperation| self.missing.iter().any(|missing| missing.id == it.id);
        let is_replayed = |it: &LoggedOperation| {
            let mut replays = self.all().filter(|it| it.action == operation::REPLAY);
            replays.any(|replay| replay.key == it.key)
        };
        let mut before = self.all().take_while(|it| it.id != told.id);
        before.any(|it| covers(it) && (is_missing(it) || is_replayed(it)))
    }

    /// Destroys what an entry names, whatever the operation.
    pub(super) fn forget_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        let Some(records) = &told.facts.destroyed else {
            return Err(TOO_MANY.to_owned());
        };
        let person = self.whose(told);
        Ok(ReplayAction::Forget {
            person: person.cloned(),
            leaver: self.leaver(told, person),
            records: records.iter().cloned().collect(),
            bound: bound(told)?,
            ends: None,
        })
    }

    /// Returns the person whose registration ended when everything of theirs was forgotten. Older
    /// entries do not name the key: they count for nobody who registered later.
    fn leaver(&self, told: &LoggedOperation, person: Option<&Value>) -> Option<Leaver> {
        if told.action != "disguise.forget" || !told.key.is_empty() {
            return None;
        }
        let key = told.public_key();
        let later = self.request.told.iter().skip_while(|it| it.id != told.id);
        let mut later = later.filter(|it| it.action == "disguise.register");
        if key.is_none() && later.any(|it| self.whose(it) == person) {
            return None;
        }
        person.cloned().map(|user| Leaver { user, key })
    }
}

/// Returns whether an operation makes records of a disguise.
pub(super) fn is_making(it: &LoggedOperation) -> bool {
    matches!(
        &*it.action,
        "disguise.apply" | "disguise.decay" | "disguise.begin"
    )
}

/// Returns the holds that may refuse to destroy the records again: after a reveal or a new key,
/// others are in the place of these records.
fn bound(told: &LoggedOperation) -> Result<Bound, String> {
    Ok(match (told.action.as_str(), told.facts.disguises()) {
        ("disguise.forget", _) if !told.key.is_empty() => Bound::Disguises(vec![disguise(told)?]),
        ("disguise.forget", Some(ids)) => Bound::Disguises(disguises(ids)?),
        ("disguise.reveal" | "disguise.key" | "disguise.password", _) => Bound::Free,
        _ => Bound::AnyDisguise,
    })
}
