//! Entries of a command, from its reply or from the lack of one; a few at a time where there are many.

use std::sync::Arc;

use probity_format::Outcome;

use super::effect::Effect;
use super::pending::{Pending, Words};
use super::verdict::{Verdict, action_of, depends_on_time, place_outcome, verdict};
use super::{Session, Time, name_of};
use crate::audit::{Actor, Deed, EntryBatch};
use crate::command::Rule;
use crate::resp::Kind;

/// Bytes of entries that are made at once.
const BATCH_BYTES: usize = 512 << 10;

/// The error does not say that nothing was done.
const PERHAPS: &str = ",\"ran\":\"perhaps\"";

/// Why a reply is not there to tell the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Reply,
    Lost,
    Aborted,
    /// The reply was another one, and this is what it came to.
    Told(Outcome),
}

/// The steps to take in order before the next reply is looked at.
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
    /// The actor that replaces the session's.
    actor: Option<Box<Actor>>,
    /// The replies that were lost before it, as members of the payload.
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

    /// Returns whether entries are still to be made before anything else is looked at.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Makes entries until none is left to make or the batch is full.
    pub fn work(&mut self, entries: &mut EntryBatch) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Apply(effect) => self.apply(&effect),
                Work::Record(mut recording) => {
                    if self.needs_time(&recording) {
                        self.work.push_front(Work::Record(recording));
                        return;
                    }
                    if !self.record_some(&mut recording, entries) {
                        self.work.push_front(Work::Record(recording));
                        return;
                    }
                }
            }
        }
        self.settle();
    }

    /// Lets the client read what has come, unless the entry of a login waits for the server's
    /// answer.
    pub(super) const fn settle(&mut self) {
        if self.doubt.is_none() {
            self.settled = self.received;
        }
    }

    /// Returns whether the work waits for the server's time, which [`Session::tell_time`] gives.
    pub fn wants_time(&self) -> bool {
        let next = self.work.front();
        next.is_some_and(
            |work| matches!(work, Work::Record(recording) if self.needs_time(recording)),
        )
    }

    /// Takes what the server's clock shows, asked after all replies had come that were given so far: milliseconds since
    /// 1970, or that nobody knows.
    pub const fn tell_time(&mut self, time: Option<i64>) {
        self.time_after = Time::Asked(time);
    }

    /// Forgets what the clock showed, before more replies are given.
    pub const fn forget_time(&mut self) {
        self.time_after = Time::NotAsked;
    }

    fn needs_time(&self, recording: &Recording) -> bool {
        let told = recording.known == Known::Reply && !self.is_error();
        // Decided before the first of its entries, not again for each portion of them.
        let begins = recording.next == 0;
        told && begins
            && matches!(self.time_after, Time::NotAsked)
            && depends_on_time(&recording.pending, &self.capture)
    }

    /// Makes entries of one command; whether all of them are made now.
    fn record_some(&self, recording: &mut Recording, entries: &mut EntryBatch) -> bool {
        let pending = &recording.pending;
        let actor = recording.actor.as_deref().unwrap_or(&self.actor);
        let (overall, why) = self.overall(pending, recording.known);
        let perhaps = recording.perhaps.as_deref().unwrap_or_default();
        let mut facts = String::new();
        if !(why.is_empty() && perhaps.is_empty() && pending.facts.is_empty()) {
            facts = [why, perhaps, &pending.facts].concat();
        }
        if let Some(count) = self.found_of_count(pending, recording.known) {
            facts.push_str(&count);
        }
        // A script writes its own reply, which tells nothing of its effect.
        let tells = recording.known == Known::Reply && overall == Outcome::Ok;
        let plain = tells && pending.words == Words::Servers;
        let deed = |verdict: Verdict| Deed {
            action: verdict.action,
            outcome: verdict.outcome,
            command: &pending.name,
            facts: &facts,
            note: verdict.note,
        };
        let marks = pending.marks.len();
        while recording.next < marks + pending.keys.len() {
            if entries.bytes() > BATCH_BYTES {
                return false;
            }
            if let Some(mark) = pending.marks.get(recording.next) {
                let lists = plain && matches!(mark.action, "list" | "read");
                let outcome = if lists {
                    place_outcome(pending.rule, &self.capture)
                } else {
                    overall
                };
                let deed = deed(Verdict::of(mark.action, outcome));
                entries.record_place(mark.place(), self.db, actor, deed);
            } else if let Some(key) = pending.keys.at(recording.next - marks) {
                let index = recording.next - marks;
                let verdict = if plain {
                    verdict(pending, index, &self.capture, self.time_after.shown())
                } else {
                    let verdict = Verdict::of(action_of(key.access), overall);
                    if tells { verdict.untold() } else { verdict }
                };
                let db = key.db.unwrap_or(self.db);
                entries.record_key(key.key, db, actor, deed(verdict));
            }
            recording.next += 1;
        }
        true
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        // Without users a login proves nothing, so that nobody is logged in.
        if let Some(user) = effect.user().filter(|_| self.users) {
            self.principal = Some(name_of(user));
        }
        match effect {
            Effect::Auth { .. } => {}
            Effect::Hello { name, .. } => {
                if let Some(name) = name {
                    self.name = Some(name_of(name)).filter(|name| !name.is_empty());
                }
            }
            Effect::SetName { name } => {
                self.name = Some(name_of(name)).filter(|name| !name.is_empty());
            }
            Effect::Select { db } => self.db = *db,
            Effect::Reset => (self.principal, self.name, self.db) = (None, None, 0),
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

    /// Returns whether the reply is an error that begins with one of `words`.
    pub(super) fn is_error_of(&self, words: &[&[u8]]) -> bool {
        let text = &self.capture.head.text;
        self.is_error() && words.iter().any(|word| text.begins_with(word))
    }

    pub(super) fn is_denial(&self) -> bool {
        self.is_error_of(&[b"NOPERM", b"NOAUTH", b"WRONGPASS"])
    }

    /// The outcome as far as the kind of the reply tells it.
    fn overall(&self, pending: &Pending, known: Known) -> (Outcome, &'static str) {
        match known {
            // A refusal by the server and one by the client's script cannot be told apart.
            Known::Reply if pending.words == Words::Scripts && self.is_error() => {
                (Outcome::Failed, PERHAPS)
            }
            Known::Reply if pending.words == Words::Clients && self.is_error() => {
                (Outcome::Failed, "")
            }
            Known::Lost => (Outcome::Failed, ",\"reply\":\"lost\""),
            Known::Told(outcome) => (outcome, ""),
            Known::Aborted => (Outcome::Failed, ",\"exec\":\"aborted\""),
            Known::Reply if self.is_denial() => (Outcome::Denied, ""),
            // Some keys may have reached the other server before the error.
            Known::Reply if &*pending.name == "migrate" && self.is_error() => {
                (Outcome::Failed, PERHAPS)
            }
            Known::Reply if self.is_error() => (Outcome::Failed, ""),
            Known::Reply => (Outcome::Ok, ""),
        }
    }
}
