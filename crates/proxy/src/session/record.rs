//! Entries of a command, from its reply or from the lack of one; a few at a time where there are many.

use std::sync::Arc;

use probity_format::Outcome;

use super::capture::Capture;
use super::effect::Effect;
use super::exchange::Exchange;
use super::mark::names_databases;
use super::pending::{Pending, Words};
use super::verdict::{Verdict, action_of, depends_on_time, place_outcome, verdict};
use crate::audit::{Actor, Deed, EntryBatch};
use crate::command::Rule;

/// The error does not say that nothing was done.
const PERHAPS: &str = ",\"ran\":\"perhaps\"";

/// The keys may be those of another database.
const PERHAPS_ELSEWHERE: &str = ",\"database\":\"perhaps\"";

/// Why a reply is not there to tell the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Reply,
    Lost,
    Aborted,
    /// The reply was another one, and this is what it came to.
    Told(Outcome),
}

/// The server's time in milliseconds since 1970, if it was asked and answered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Time {
    #[default]
    NotAsked,
    Asked(Option<i64>),
}

impl Time {
    pub(super) const fn shown(self) -> Option<i64> {
        match self {
            Self::NotAsked => None,
            Self::Asked(time) => time,
        }
    }
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

impl Exchange {
    pub(super) fn record(&mut self, pending: Pending, known: Known) {
        self.record_as(pending, known, None, None);
    }

    pub(super) fn record_as(
        &mut self,
        mut pending: Pending,
        known: Known,
        actor: Option<Box<Actor>>,
        perhaps: Option<Arc<str>>,
    ) {
        let failed = known == Known::Reply && self.capture.is_error();
        let ran = !failed && known != Known::Aborted;
        if ran && &*pending.name == "unknown" {
            pending.ran_unknown();
        }
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

    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Makes entries until none is left to make or the batch is full.
    pub(super) fn work(&mut self, entries: &mut EntryBatch) {
        entries.begin_turn();
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Apply(effect) => self.identity.apply(&effect),
                Work::Record(mut recording) => {
                    if self.needs_time(&recording) || !recording.record_some(self, entries) {
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

    pub(super) fn wants_time(&self) -> bool {
        let next = self.work.front();
        next.is_some_and(
            |work| matches!(work, Work::Record(recording) if self.needs_time(recording)),
        )
    }

    fn needs_time(&self, recording: &Recording) -> bool {
        let told = recording.known == Known::Reply && !self.capture.is_error();
        // Decided before the first of its entries, not again for each portion of them.
        let begins = recording.next == 0;
        told && begins
            && matches!(self.time_after, Time::NotAsked)
            && depends_on_time(&recording.pending, &self.capture)
    }
}

impl Recording {
    /// Makes entries; whether all of them are made now.
    fn record_some(&mut self, exchange: &Exchange, entries: &mut EntryBatch) -> bool {
        let (pending, capture) = (&self.pending, &exchange.capture);
        let actor = self.actor.as_deref();
        let actor = actor.unwrap_or_else(|| exchange.identity.actor());
        let (overall, why) = self.overall(capture);
        let facts = self.facts(why, capture);
        // A script writes its own reply, which tells nothing of its effect.
        let tells = self.known == Known::Reply && overall == Outcome::Ok;
        let plain = tells && pending.words == Words::Servers;
        let deed = |verdict: Verdict| Deed {
            action: verdict.action,
            outcome: verdict.outcome,
            command: &pending.name,
            facts: &facts,
            note: verdict.note,
        };
        let marks = pending.marks.len();
        while self.next < marks + pending.keys.len() {
            if entries.is_full() {
                return false;
            }
            if let Some(mark) = pending.marks.get(self.next) {
                let lists = plain && matches!(mark.action, "list" | "read");
                let outcome = if lists {
                    place_outcome(pending.rule, capture)
                } else {
                    overall
                };
                let deed = deed(Verdict::of(mark.action, outcome));
                let db = if names_databases(&pending.name) {
                    0
                } else {
                    exchange.identity.db()
                };
                entries.record_place(mark.place(), db, actor, deed);
            } else {
                let index = self.next - marks;
                // A key without an entry would be wrong evidence.
                let key = pending.keys.at(index);
                assert!(key.is_some(), "each key of a command is where it was put");
                let Some(key) = key else { continue };
                let verdict = if plain {
                    verdict(pending, index, capture, exchange.time_after.shown())
                } else {
                    let verdict = Verdict::of(action_of(key.access), overall);
                    if tells { verdict.untold() } else { verdict }
                };
                let db = key.db.unwrap_or_else(|| exchange.identity.db());
                entries.record_key(key.key, db, actor, deed(verdict));
            }
            self.next += 1;
        }
        true
    }

    /// Returns the members of the payload that all its entries have.
    fn facts(&self, why: &str, capture: &Capture) -> String {
        let perhaps = self.perhaps.as_deref().unwrap_or_default();
        let known = &self.pending.facts;
        // A script may choose another database for itself.
        let is_script = self.pending.words == Words::Scripts && self.pending.keys.len() > 0;
        let database = if is_script { PERHAPS_ELSEWHERE } else { "" };
        let mut facts = String::new();
        if !(why.is_empty() && perhaps.is_empty() && known.is_empty() && database.is_empty()) {
            facts = [why, perhaps, database, known].concat();
        }
        if let Some(count) = self.found_of_count(capture) {
            facts.push_str(&count);
        }
        facts
    }

    fn found_of_count(&self, capture: &Capture) -> Option<String> {
        let (found, keys) = (capture.head.integer?, self.pending.keys.len());
        let partly = found > 0 && usize::try_from(found).is_ok_and(|found| found < keys);
        (self.known == Known::Reply && self.pending.rule == Rule::Count && partly)
            .then(|| format!(",\"found\":{found},\"of\":{keys}"))
    }

    /// Returns the outcome as far as the kind of the reply tells it.
    fn overall(&self, reply: &Capture) -> (Outcome, &'static str) {
        let pending = &self.pending;
        match self.known {
            // A refusal by the server and one by the client's script cannot be told apart.
            Known::Reply if pending.words == Words::Scripts && reply.is_error() => {
                (Outcome::Failed, PERHAPS)
            }
            Known::Reply if pending.words == Words::Clients && reply.is_error() => {
                (Outcome::Failed, "")
            }
            Known::Lost => (Outcome::Failed, ",\"reply\":\"lost\""),
            Known::Told(outcome) => (outcome, ""),
            Known::Aborted => (Outcome::Failed, ",\"exec\":\"aborted\""),
            Known::Reply if reply.is_denial() => (Outcome::Denied, ""),
            // Some keys may have reached the other server before the error.
            Known::Reply if &*pending.name == "migrate" && reply.is_error() => {
                (Outcome::Failed, PERHAPS)
            }
            Known::Reply if reply.is_error() => (Outcome::Failed, ""),
            Known::Reply => (Outcome::Ok, ""),
        }
    }
}
