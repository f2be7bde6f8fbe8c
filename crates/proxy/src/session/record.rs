//! Entries of a command, from its reply or from the lack of one; a few at a time where there are many.

use std::sync::Arc;

use probity_format::Outcome;

use super::effect::Effect;
use super::mark::is_script;
use super::pending::Pending;
use super::{Session, name_of};
use crate::audit::{Actor, Deed, EntryBatch};
use crate::command::{Access, Rule};
use crate::resp::Kind;

/// Bytes of entries that are made at once.
const BATCH_BYTES: usize = 512 << 10;

/// Why a reply is not there to tell the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Reply,
    Lost,
    Aborted,
}

/// What is to be done in order before the next reply is looked at.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of the large one, and none is kept"
)]
pub(super) enum Work {
    Record(Recording),
    Apply(Effect),
}

/// A command of which the entries up to `next` are made.
#[derive(Debug)]
pub(super) struct Recording {
    pending: Pending,
    known: Known,
    next: usize,
    /// Who is named in place of the session's actor.
    actor: Option<Box<Actor>>,
    /// What was lost before it, as members of the payload.
    perhaps: Option<Arc<str>>,
}

impl Session {
    pub(super) fn record(&mut self, pending: Pending, known: Known) {
        self.record_as(pending, known, None, None);
    }

    pub(super) fn record_as(
        &mut self,
        pending: Pending,
        known: Known,
        actor: Option<Box<Actor>>,
        perhaps: Option<Arc<str>>,
    ) {
        if !pending.own {
            self.work.push_back(Work::Record(Recording {
                pending,
                known,
                next: 0,
                actor,
                perhaps,
            }));
        }
    }

    /// Whether entries are still to be made before anything else is looked at.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Makes entries until none is left to make or the batch is full.
    pub fn work(&mut self, entries: &mut EntryBatch) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Apply(effect) => self.apply(&effect),
                Work::Record(mut recording) => {
                    if !self.record_some(&mut recording, entries) {
                        self.work.push_front(Work::Record(recording));
                        return;
                    }
                }
            }
        }
        self.settled = self.received;
    }

    /// Makes entries of one command; whether all of them are made now.
    fn record_some(&self, recording: &mut Recording, entries: &mut EntryBatch) -> bool {
        let pending = &recording.pending;
        let actor = recording.actor.as_deref().unwrap_or(&self.actor);
        let (overall, why) = self.overall(&pending.name, recording.known);
        let perhaps = recording.perhaps.as_deref().unwrap_or_default();
        let mut facts = String::new();
        if !(why.is_empty() && perhaps.is_empty() && pending.facts.is_empty()) {
            facts = [why, perhaps, &pending.facts].concat();
        }
        if let Some(count) = self.found_of_count(pending, recording.known) {
            facts.push_str(&count);
        }
        // A script writes its own reply: nothing there says that there was nothing.
        let tells = recording.known == Known::Reply && overall == Outcome::Ok;
        let plain = tells && !is_script(&pending.name);
        let deed = |action, outcome| Deed {
            action,
            outcome,
            command: &pending.name,
            facts: &facts,
        };
        let marks = pending.marks.len();
        while recording.next < marks + pending.keys.len() {
            if entries.bytes() > BATCH_BYTES {
                return false;
            }
            if let Some(mark) = pending.marks.get(recording.next) {
                let deed = deed(mark.action, overall);
                entries.record_place(mark.place(), self.db, actor, deed);
            } else if let Some(key) = pending.keys.at(recording.next - marks) {
                let index = recording.next - marks;
                let outcome = if plain {
                    self.outcome_of(pending, index)
                } else {
                    overall
                };
                let action = self.action_of(pending, key.access, plain);
                let db = key.db.unwrap_or(self.db);
                entries.record_key(key.key, db, actor, deed(action, outcome));
            }
            recording.next += 1;
        }
        true
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Auth { user } => self.principal = Some(name_of(user)),
            Effect::Hello { user, name } => {
                if let Some(user) = user {
                    self.principal = Some(name_of(user));
                }
                if let Some(name) = name {
                    self.name = Some(name_of(name)).filter(|name| !name.is_empty());
                }
            }
            Effect::SetName { name } => {
                self.name = Some(name_of(name)).filter(|name| !name.is_empty());
            }
            Effect::Select { db } => self.db = *db,
            Effect::Reset => {
                (self.principal, self.name, self.db) = (None, None, 0);
            }
            _ => return,
        }
        self.refresh_actor();
    }

    fn found_of_count(&self, pending: &Pending, known: Known) -> Option<String> {
        let found = self.capture.head.integer?;
        let partly =
            found > 0 && usize::try_from(found).is_ok_and(|found| found < pending.keys.len());
        (known == Known::Reply && pending.rule == Rule::Count && partly)
            .then(|| format!(",\"found\":{found},\"of\":{}", pending.keys.len()))
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self.capture.head.kind, Some(Kind::Error | Kind::BlobError))
    }

    /// Whether the reply is an error that begins with one of `words`.
    pub(super) fn is_error_of(&self, words: &[&[u8]]) -> bool {
        let text = &self.capture.head.text;
        self.is_error() && words.iter().any(|word| text.starts_with(word))
    }

    /// The outcome as far as the kind of the reply tells it.
    fn overall(&self, name: &str, known: Known) -> (Outcome, &'static str) {
        match known {
            // Whether the server refused it or the script says so cannot be told.
            Known::Reply if is_script(name) && self.is_error() => {
                (Outcome::Failed, ",\"ran\":\"perhaps\"")
            }
            Known::Lost => (Outcome::Failed, ",\"reply\":\"lost\""),
            Known::Aborted => (Outcome::Failed, ",\"exec\":\"aborted\""),
            Known::Reply if self.is_error_of(&[b"NOPERM", b"NOAUTH", b"WRONGPASS"]) => {
                (Outcome::Denied, "")
            }
            Known::Reply if self.is_error() => (Outcome::Failed, ""),
            Known::Reply => (Outcome::Ok, ""),
        }
    }

    fn outcome_of(&self, pending: &Pending, index: usize) -> Outcome {
        let head = &self.capture.head;
        let element = |index: usize| self.capture.elements.get(index);
        let (bad, outcome) = match pending.rule {
            Rule::ZeroAbsent | Rule::Count => {
                (head.integer == Some(0) || head.null, Outcome::Absent)
            }
            Rule::CreatesOrFails | Rule::ZeroFailed => (head.integer == Some(0), Outcome::Failed),
            Rule::NilFailed => (head.null, Outcome::Failed),
            Rule::MinusTwoAbsent => (head.integer == Some(-2), Outcome::Absent),
            Rule::NoneAbsent => (head.text == b"none", Outcome::Absent),
            Rule::EmptyAbsent => (head.length == Some(0) || head.null, Outcome::Absent),
            Rule::PreviousTells | Rule::PreviousStays => (false, Outcome::Ok),
            Rule::PerKey => (
                element(index).is_some_and(|element| element.null),
                Outcome::Absent,
            ),
            Rule::Members(_) => {
                let none =
                    |element: &super::capture::Value| element.null || element.integer == Some(0);
                (self.capture.elements.iter().all(none), Outcome::Absent)
            }
            Rule::Named | Rule::NamedEach => (!self.is_named(pending, index), Outcome::Absent),
            Rule::Plain | Rule::LengthTells(_) => (head.null, Outcome::Absent),
        };
        if bad { outcome } else { Outcome::Ok }
    }

    fn is_named(&self, pending: &Pending, index: usize) -> bool {
        let Some(pending_key) = pending.keys.at(index) else {
            return false;
        };
        let wanted = if pending.rule == Rule::Named {
            1
        } else {
            usize::MAX
        };
        let kept = pending_key.key.kept;
        let mut names = self.capture.elements.iter().take(wanted);
        // Of a long name only a prefix is remembered.
        names.any(|name| match name.length {
            Some(length) if name.text.len() as u64 == length => *kept == *name.text,
            _ => kept.starts_with(&name.text) && !name.text.is_empty(),
        })
    }

    /// The word for what was done: the strongest of delete, create or update, read, look.
    fn action_of(&self, pending: &Pending, access: Access, plain: bool) -> &'static str {
        let writes = access.contains(Access::UPDATE) || access.contains(Access::INSERT);
        let stays = plain && pending.rule == Rule::PreviousStays && !self.capture.head.null;
        if access.contains(Access::DELETE) {
            "delete"
        } else if writes && plain && self.creates(pending.rule) {
            "create"
        } else if writes && !stays {
            "update"
        } else if access.contains(Access::ACCESS) {
            "read"
        } else {
            "look"
        }
    }

    fn creates(&self, rule: Rule) -> bool {
        let head = &self.capture.head;
        match rule {
            Rule::CreatesOrFails => head.integer == Some(1),
            Rule::NilFailed => !head.null,
            Rule::PreviousTells | Rule::PreviousStays => head.null,
            Rule::LengthTells(length) => {
                head.integer.and_then(|reply| u64::try_from(reply).ok()) == Some(length)
            }
            _ => false,
        }
    }
}
