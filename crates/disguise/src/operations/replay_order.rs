//! Disguises and reveals of one person whose order a replay cannot keep: a reveal takes the credential, and a disguise
//! that was taken back may not be made again.

use std::collections::{BTreeMap, BTreeSet};

use super::missing_operation::Replayability;
use super::replay_decision::Replay;
use super::replay_forget::is_making;
use crate::records::name::digits;
use crate::transaction::history::Presence;
use crate::transaction::operation::{LoggedOperation, OperationId, REPLAY};

/// The operations done in the database, by the log.
pub(super) type Done<'a> = [(&'a LoggedOperation, Presence)];

const SHOWN_SINCE: &str = "a replay made it again, and its person revealed after that what the log had revealed before it: those rows are in clear here. Apply the same specification anew, and it is not listed any more";

const ENDED_EARLY: &str = "it was due after a reveal of the log, and ended with the one that its person made here instead, later. Schedule the same again, or apply it, and it is not listed any more";

const MEETS_MORE: &str = "a disguise before it is not made again, which was taken back after it or may be still: made now, it would hide the rows of that one, too. Do it again with the same specification where it is wanted, and it is not listed any more";

const MEETS_FORGOTTEN: &str = "a disguise before it is not made again, which was taken back after it or may be still: made now, it would hide the rows of that one, too, and they would be forgotten with what it hid. Remove by hand what it hid then, for it was forgotten since, and do not apply it anew";

/// Disguises that replays made again here, by the operation or, in entries of earlier programs, by the disguise.
#[derive(Default)]
pub(super) struct Remade<'a>(BTreeSet<&'a str>);

impl<'a> Remade<'a> {
    pub(super) fn of(done: &Done<'a>) -> Self {
        let own = done
            .iter()
            .filter(|(_, presence)| *presence == Presence::Here);
        let made = own.filter(|(it, _)| it.action == REPLAY && it.makes_whole());
        Self(
            made.map(|(it, _)| it.facts.again.as_deref().unwrap_or(&it.key))
                .collect(),
        )
    }

    fn has(&self, it: &LoggedOperation) -> bool {
        self.0.contains(&*digits(&it.id)) || self.0.contains(&*it.key)
    }
}

/// Returns those among `done` that were done again as the log has them, and went another way than in the log, because
/// a reveal between them came later: until the same is asked for anew.
pub(super) fn out_of_order(done: &Done<'_>) -> BTreeSet<OperationId> {
    let mut found = BTreeSet::new();
    for (place, (it, presence)) in done.iter().enumerate() {
        let is_repeated = *presence == Presence::Here && it.action == "disguise.reveal";
        if !is_repeated {
            continue;
        }
        let before = done.get(..place).unwrap_or_default();
        let same = |other: &LoggedOperation| {
            other.reveals_rows() && other.key == it.key && other.subject == it.subject
        };
        let first = before
            .iter()
            .position(|(other, presence)| *presence == Presence::Missing && same(other));
        if let Some(first) = first {
            let asked = Repeated { done, first, place };
            found.extend(asked.made_too_early().chain(asked.ended_early()));
        }
    }
    found
}

/// Returns the reason for which an operation that was done again is listed.
pub(super) fn why_listed(told: &LoggedOperation) -> &'static str {
    if told.action == "disguise.schedule" {
        ENDED_EARLY
    } else {
        SHOWN_SINCE
    }
}

/// A reveal that is missing at `first`, and was repeated at `place`.
struct Repeated<'d, 'a> {
    done: &'d Done<'a>,
    first: usize,
    place: usize,
}

impl<'a> Repeated<'_, 'a> {
    fn missed(&self) -> Option<&'a LoggedOperation> {
        self.done.get(self.first).map(|it| it.0)
    }

    fn here(&self) -> Option<&'a LoggedOperation> {
        self.done.get(self.place).map(|it| it.0)
    }

    /// Returns the disguises that the log has after the reveal, and that a replay made before it.
    fn made_too_early(&self) -> impl Iterator<Item = OperationId> {
        let between = self.done.get(self.first..self.place).unwrap_or_default();
        let brings_back = self.here().is_some_and(LoggedOperation::brings_back);
        let made = between.iter().filter(move |(it, presence)| {
            let is_made = it.makes_part() && it.action != REPLAY;
            let mut replays = between.iter();
            brings_back
                && *presence == Presence::Replayed
                && is_made
                && self.missed().is_some_and(|missed| concern_one(it, missed))
                && replays.any(|(replay, presence)| {
                    let is_own = *presence == Presence::Here;
                    is_own && replay.did_again(it) && replay.makes_whole()
                })
        });
        let made = made.filter(|(it, _)| !self.is_asked_anew(it) && !self.is_taken_back(it));
        made.map(|(it, _)| it.id)
    }

    /// Returns the scheduled disguises that were due after the reveal of the log, and ended with this one.
    fn ended_early(&self) -> impl Iterator<Item = OperationId> {
        let before = self.done.get(..self.place).unwrap_or_default();
        let ended = before.iter().filter(|(it, _)| {
            let is_ended = self.here().is_some_and(|here| here.ends_scheduled(&it.key));
            let is_later = |missed: &LoggedOperation| {
                let revealed = missed.time.nanoseconds();
                it.facts.due.is_some_and(|due| due > revealed) && !missed.ends_scheduled(&it.key)
            };
            it.action == "disguise.schedule" && is_ended && self.missed().is_some_and(is_later)
        });
        let ended = ended.filter(|(it, _)| !self.is_asked_anew(it) && !self.is_taken_back(it));
        ended.map(|(it, _)| it.id)
    }

    /// Returns whether the person of the reveal took a disguise back whole, too, in the log or here.
    fn is_taken_back(&self, made: &LoggedOperation) -> bool {
        let subject = self.missed().and_then(|missed| missed.subject.as_ref());
        self.done.iter().any(|(it, _)| {
            let is_whole = it.action == "disguise.reveal" && it.facts.kept == Some(0);
            is_whole && it.key == made.key && it.subject.as_ref() == subject
        })
    }

    /// Returns whether the same specification was applied or scheduled since, for the same person.
    fn is_asked_anew(&self, it: &LoggedOperation) -> bool {
        let mut since = self.done.iter().skip(self.place);
        let subject = self.missed().and_then(|missed| missed.subject.as_deref());
        since.any(|(anew, presence)| {
            let is_asked = matches!(&*anew.action, "disguise.apply" | "disguise.schedule");
            let is_like = anew.facts.specification == it.facts.specification
                && anew.facts.parameters == it.facts.parameters;
            let is_theirs = anew.subject.is_none() || anew.subject.as_deref() == subject;
            let key = it.facts.public_key.as_ref();
            let has_key = key.is_none() || anew.facts.public_key.as_ref() == key;
            *presence == Presence::Here && is_asked && is_like && is_theirs && has_key
        })
    }
}

/// Returns whether two operations are about one person, or one of them about everybody.
fn concern_one(one: &LoggedOperation, other: &LoggedOperation) -> bool {
    one.subject.is_none() || other.subject.is_none() || one.subject == other.subject
}

impl Replay<'_> {
    /// Returns the missing disguises that would hide rows which another one held then: that one is not here,
    /// nor made again, and was taken back after them.
    pub(super) fn meeting_more(&self) -> BTreeSet<OperationId> {
        let missing: BTreeSet<_> = self.missing.iter().map(|it| it.id).collect();
        let mut more = BTreeSet::new();
        let mut unmade: Vec<&LoggedOperation> = Vec::new();
        for (told, presence) in self.done.iter().filter(|(it, _)| is_making(it)) {
            if self.is_here(told, *presence) {
                unmade.retain(|it| it.key != told.key);
                continue;
            }
            // One in chunks is made at its end, after what was done in the middle.
            if self.is_told_whole(told) {
                unmade.push(told);
                continue;
            }
            unmade.retain(|it| it.key != told.key);
            // One with an end would take with it what the other one may bring back still.
            let is_met = |it: &&LoggedOperation| {
                let is_kept = told.facts.expires.is_some() && !self.is_revealed_before(it, told);
                let is_met = is_kept || self.is_revealed_after(it, told);
                it.key != told.key && concern_one(it, told) && is_met
            };
            let is_missing = missing.contains(&told.id);
            if is_missing && unmade.iter().any(is_met) {
                more.insert(told.id);
            } else if is_missing && !self.is_not_to_be_made(told) {
                continue;
            }
            unmade.push(told);
        }
        more
    }

    /// Returns whether this database hid rows by a disguise when it was made, or when a replay made it again: of one
    /// that was taken back, a replay may have done nothing.
    pub(super) fn is_here(&self, made: &LoggedOperation, presence: Presence) -> bool {
        match presence {
            Presence::Here => true,
            Presence::Replayed => self.remade.has(made),
            Presence::Followed | Presence::Missing => false,
        }
    }

    /// Returns whether the person of `told` took rows of the disguise `made` back after it; for one of everybody,
    /// whether anybody did.
    fn is_revealed_after(&self, made: &LoggedOperation, told: &LoggedOperation) -> bool {
        let mut since = self.all().skip_while(|it| it.id != told.id);
        since.any(|it| it.reveals_rows() && it.key == made.key && concern_one(it, told))
    }

    /// Returns whether a disguise that began in chunks was done whole, which another operation tells of.
    fn is_told_whole(&self, told: &LoggedOperation) -> bool {
        let is_whole =
            |it: &LoggedOperation| it.key == told.key && it.makes_whole() && it.action != REPLAY;
        told.action == "disguise.begin" && self.all().any(is_whole)
    }

    /// Returns whether the person of the disguise `made` took it back whole before `told`.
    fn is_revealed_before(&self, made: &LoggedOperation, told: &LoggedOperation) -> bool {
        let mut before = self.all().take_while(|it| it.id != told.id);
        before.any(|it| {
            let is_whole = it.action == "disguise.reveal" && it.facts.kept == Some(0);
            is_whole && it.key == made.key && it.subject == made.subject
        })
    }

    /// Returns whether what is scheduled ended with an operation that is missing, too.
    pub(super) fn ends_later(&self, told: &LoggedOperation) -> bool {
        self.missing.iter().any(|it| {
            let ends = matches!(&*it.action, "disguise.apply" | "disguise.cancel");
            ends && it.key == told.key || it.ends_scheduled(&told.key)
        })
    }

    /// Returns the reason for which a disguise is not made that would hide rows of another one.
    pub(super) fn meets_more(&self, told: &LoggedOperation) -> Option<&'static str> {
        if !self.meeting_more.contains(&told.id) {
            return None;
        }
        let mut since = self.all().skip_while(|it| it.id != told.id);
        let is_forgotten = since.any(|it| {
            let is_meant = it.key.is_empty() || it.key == told.key;
            it.action == "disguise.forget" && it.subject == told.subject && is_meant
        });
        Some(if is_forgotten {
            MEETS_FORGOTTEN
        } else {
            MEETS_MORE
        })
    }

    /// Returns whether a disguise must be made again before another one, which would hide its rows: they would come
    /// back, and end, with that one. One of everybody and one of one person wait for each other only where the second
    /// has an end, or as long as the caller may give what is lacking.
    pub(super) fn precedes(&self, made: &LoggedOperation, told: &LoggedOperation) -> bool {
        let is_of_one = made.subject.is_some() && made.subject == told.subject;
        let is_lacking = || {
            let ends = told.facts.expires.is_some();
            ends || !self.is_given(made) || self.is_after_update(made)
        };
        made.key != told.key && concern_one(made, told) && (is_of_one || is_lacking())
    }

    /// Returns the outcome of a disguise that was made again with these rows, by the table. Where its person has
    /// others, different numbers may be due to them.
    pub(super) fn compared(
        &self,
        told: &LoggedOperation,
        hidden: Option<&BTreeMap<String, u64>>,
    ) -> Replayability {
        let is_other = |it: &LoggedOperation| {
            it.makes_part() && it.key != told.key && it.subject == told.subject
        };
        let is_counted = matches!(&*told.action, "disguise.apply" | "disguise.decay");
        let has_others = told.subject.is_some() && is_counted && self.all().any(is_other);
        let Some(hidden) = hidden.filter(|_| has_others) else {
            return Replayability::Done;
        };
        let then = &told.facts.rows;
        let tables: BTreeSet<&String> = hidden.keys().chain(then.keys()).collect();
        let count = |rows: &BTreeMap<String, u64>, table| rows.get(table).copied().unwrap_or(0);
        let different = tables.into_iter().filter_map(|table| {
            let (now, then) = (count(hidden, table), count(then, table));
            (now != then).then(|| format!("{table} {now}, then {then}"))
        });
        let different: Vec<String> = different.collect();
        if different.is_empty() {
            return Replayability::Done;
        }
        Replayability::Otherwise(format!(
            "it hid other numbers of rows than then ({}): another disguise of its person may hold them, or have held them then. See with the person's \
             credential what `list` opens",
            different.join("; ")
        ))
    }
}
