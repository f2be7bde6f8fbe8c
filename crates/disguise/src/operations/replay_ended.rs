//! Disguises that were taken back, and that nobody could take back once more: they have ended by the time of a replay, or
//! their people had everything forgotten since. Made again, they would hide rows for good.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use super::replay_action::ReplayAction;
use super::replay_decision::{Replay, disguise};
use crate::error::Error;
use crate::records::day::Day;
use crate::transaction::history::Presence;
use crate::transaction::operation::LoggedOperation;

const OF_EVERYBODY: &str = "people had taken back what it hid of them, and could not do so again: it has ended, or they had everything forgotten since. The rows of the others are in clear here: apply it anew to each of them";

const ENDED_HERE: &str = "its disguise is here and has ended since: no reveal brings back what it hides, unless a hold keeps its records. A backup from before the disguise, or from after the reveal, has the rows";

const SWEPT: &str = "its person had taken back what it hid, and records that had ended were destroyed since, which may have been its records in another life of the database. Its rows are in clear here: apply it anew where it was to stay";

const KEPT_OF_OTHERS: &str = "it has ended, and another person took rows back after it which it may have held for both: made again, it would keep them for good. Once that person has revealed again what is listed below, apply the same specification anew, and it is not listed any more";

/// The advice for a reveal that is to be done again.
const REVEAL_AGAIN: &str = "it takes the person's credential: reveal it again. Where that finds nothing, another disguise has the rows: see what `list` opens";

/// The part that people had taken back of a disguise that has ended.
enum TakenBack {
    Nothing,
    /// All that it hid.
    Whole,
    /// All but what is still hidden, for this reason.
    Part(String),
}

impl<'a> Replay<'a> {
    /// Returns the action for a disguise that was taken back and could not be again, or why it is not
    /// made; nothing for another one.
    pub(super) fn taken_back(
        &self,
        told: &LoggedOperation,
    ) -> Option<Result<ReplayAction<'a>, String>> {
        match self.part_taken_back(told) {
            TakenBack::Nothing => None,
            TakenBack::Whole => Some(self.unscheduled(told, None)),
            TakenBack::Part(why) => Some(self.unscheduled(told, Some(why))),
        }
    }

    /// Returns the action for a disguise that is not made again: it waits no longer either, nor does what
    /// ended with it. With `rest` it stays missing.
    pub(super) fn unscheduled(
        &self,
        told: &LoggedOperation,
        rest: Option<String>,
    ) -> Result<ReplayAction<'a>, String> {
        let own = self.all().filter(|it| it.key == told.key);
        let ended = own.flat_map(|it| it.facts.scheduled.iter().flatten());
        let mut ids = BTreeSet::from([disguise(told)?]);
        for id in ended {
            ids.insert(id.parse().map_err(|error: Error| error.to_string())?);
        }
        Ok(ReplayAction::Unschedule { ids, rest })
    }

    /// Returns why a disguise is not made that has ended: another person took rows back after it, which it may have held
    /// for both, and would keep for good.
    pub(super) fn may_keep_of_others(&self, told: &LoggedOperation) -> Option<&'static str> {
        if told.subject.is_none() || !self.is_over(told) {
            return None;
        }
        let first = self
            .all()
            .take_while(|it| it.id != told.id)
            .filter(|it| it.makes_part());
        let before: BTreeSet<&str> = first.map(|it| &*it.key).collect();
        let tables = &told.facts.rows;
        let is_of_same_rows = |it: &LoggedOperation| {
            let mut rows = it.facts.rows.iter().chain(&it.facts.values);
            rows.any(|(table, rows)| {
                let is_shared = self.shared_tables.contains(table);
                is_shared && *rows > 0 && tables.get(table).is_some_and(|rows| *rows > 0)
            })
        };
        let mut since = self.done.iter().skip_while(|(it, _)| it.id != told.id);
        let is_kept = since.any(|(it, presence)| {
            let is_of_another = it.subject.is_some() && it.subject != told.subject;
            let is_missing = *presence == Presence::Missing && it.action == "disguise.reveal";
            let is_left = || {
                let mut missing = self.missing.iter();
                missing.any(|missing| missing.id == it.id) && !self.needs_no_reveal(it)
            };
            let is_meant = is_missing && is_of_another && before.contains(&*it.key);
            is_meant && is_of_same_rows(it) && is_left()
        });
        is_kept.then_some(KEPT_OF_OTHERS)
    }

    fn part_taken_back(&self, told: &LoggedOperation) -> TakenBack {
        if !told.makes_part() {
            return TakenBack::Nothing;
        }
        if told.is_overtaken && self.is_back_whole(told) {
            return TakenBack::Whole;
        }
        let (is_over, all) = (self.is_over(told), self.reveals_of(told));
        let mut last = all.filter(|it| is_over || self.forgot_since(it));
        if told.subject.is_none() {
            return match last.next() {
                None => TakenBack::Nothing,
                Some(_) => TakenBack::Part(OF_EVERYBODY.to_owned()),
            };
        }
        // Others may have taken back what they had a share in.
        let Some(last) = last.filter(|it| it.subject == told.subject).last() else {
            return TakenBack::Nothing;
        };
        if told.facts.expires.is_some() && self.may_be_swept_since(last) {
            return TakenBack::Part(SWEPT.to_owned());
        }
        let left = match last.facts.kept {
            Some(0) => return TakenBack::Whole,
            Some(kept) => format!("the {kept} rows and values that the reveal left hidden"),
            None => "what the reveal left hidden".to_owned(),
        };
        let why = if is_over {
            "it has ended"
        } else {
            "its person had everything forgotten since"
        };
        TakenBack::Part(format!(
            "{why}, after they had taken back what it hid: made again, it would hide that for good. In clear here is {left}: remove that by hand"
        ))
    }

    /// Returns whether its person took a disguise back whole that is not here: nothing is left to do of either.
    fn is_back_whole(&self, told: &LoggedOperation) -> bool {
        let own = self
            .reveals_of(told)
            .filter(|it| it.subject == told.subject);
        let is_whole = own.last().is_some_and(|it| it.facts.kept == Some(0));
        told.subject.is_some() && is_whole && !self.has_rows_of(&told.key)
    }

    /// Returns the reveals that took something back of a disguise.
    fn reveals_of(&self, made: &LoggedOperation) -> impl Iterator<Item = &'a LoggedOperation> {
        let own = self.all().filter(move |it| it.key == made.key);
        own.filter(|it| it.reveals_rows())
    }

    /// Returns whether no reveal brings back any more what a disguise would hide.
    fn is_over(&self, made: &LoggedOperation) -> bool {
        let end = made.facts.expires.map(Timestamp::from_nanoseconds);
        matches!(end, Some(Ok(end)) if Day::not_before(end).is_over(self.request.time))
    }

    /// Returns whether the person of a reveal had everything forgotten after it, and may have thrown away
    /// what opened it. A forgetting that destroyed records of the disguise is of a life of the database
    /// without the reveal.
    fn forgot_since(&self, reveal: &LoggedOperation) -> bool {
        let has_none = |it: &LoggedOperation| match it.facts.disguises() {
            Some(ids) => !ids.contains(&reveal.key),
            None => it.facts.bags == Some(0),
        };
        let mut since = self.all().skip_while(|it| it.id != reveal.id);
        since.any(|it| {
            let is_all = it.action == "disguise.forget" && it.key.is_empty();
            is_all && it.subject.is_some() && it.subject == reveal.subject && has_none(it)
        })
    }

    /// Returns whether a sweep destroyed records after a reveal. Its entry does not say whose: in a life of
    /// the database without the reveal they were its disguise's.
    fn may_be_swept_since(&self, reveal: &LoggedOperation) -> bool {
        let mut since = self.all().skip_while(|it| it.id != reveal.id);
        since.any(|it| it.action == "disguise.expire")
    }

    /// Returns the part of a reveal that this replay cannot do, if there is one.
    pub(super) fn rest_of_reveal(&self, told: &LoggedOperation) -> Option<&'static str> {
        let made = || {
            self.all()
                .filter(|it| it.key == told.key && it.makes_part())
        };
        let is_final = made().any(|it| self.taken_back(it).is_some());
        if is_final && !self.has_rows_of(&told.key) {
            return None;
        }
        let is_over = is_final && made().any(|it| self.is_over(it));
        Some(if is_over { ENDED_HERE } else { REVEAL_AGAIN })
    }

    /// Returns whether a missed reveal leaves nothing to do: its disguise is not here, and not made again.
    pub(super) fn needs_no_reveal(&self, told: &LoggedOperation) -> bool {
        told.action == "disguise.reveal" && self.rest_of_reveal(told).is_none()
    }

    /// Returns whether this database may have hidden rows by a disguise. One that was begun here counts,
    /// though it has ended since: how far it was is not known then.
    fn has_rows_of(&self, id: &str) -> bool {
        let mut done = self.done.iter();
        done.any(|(it, presence)| it.key == id && it.makes_part() && *presence == Presence::Here)
    }
}
