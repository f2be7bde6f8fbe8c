//! Operations that leave nothing to do where a database lacks them, as the [`Line`] of the log shows: disguises that their
//! people took back whole, and those that were cut off before their commit and asked for again.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Committed, asked};
use super::line::Line;
use super::operation::{CommitOutcome, LoggedOperation, OperationId, REPLAY, Unread};
use crate::records::name::digits;

/// An operation of the log, with whether the database has it where that can be told.
pub(super) type Own<'a> = (Committed<'a>, Option<bool>);

/// An operation that leaves nothing to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled<'a> {
    pub(crate) told: &'a LoggedOperation,
    pub(crate) by: SettledBy,
    /// A replay here has settled it before.
    pub(crate) is_noted: bool,
}

/// The reason for which an operation leaves nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettledBy {
    /// Its person took everything back, and this database has neither.
    Reveal,
    /// The operation was cut off before its commit, and the same was asked for again.
    Repetition,
}

impl SettledBy {
    /// Returns the words for it, as a list and an entry have them.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Reveal => "taken back",
            Self::Repetition => "asked for again",
        }
    }
}

/// The actions between a disguise and its reveal that have no part in what either changes.
const APART: [&str; 10] = [
    "disguise.begin-log",
    "disguise.dismiss",
    "disguise.expire",
    "disguise.export",
    "disguise.hold",
    "disguise.key",
    "disguise.lift",
    "disguise.password",
    "disguise.schedule",
    "disguise.update",
];

/// The actions of others that have none, either.
const APART_OF_OTHERS: [&str; 2] = ["disguise.register", "disguise.unregister"];

/// Looks for what is settled among the operations of a database.
pub(super) struct Settling<'s, 'a> {
    own: &'s [Own<'a>],
    line: &'s Line<'s>,
    /// The tables whose rows name several people.
    shared: &'s BTreeSet<String>,
    /// Operations that replays here settled before, without doing anything.
    settled_here: BTreeSet<&'a str>,
    /// The places of all operations of a disguise, by its id.
    of_disguises: BTreeMap<&'a str, Vec<usize>>,
    /// The places of the operations of each person.
    of_people: BTreeMap<&'a str, Vec<usize>>,
    /// The places of those that may meet rows of anybody.
    of_all: Vec<usize>,
}

/// A disguise that was taken back whole.
struct TakenBack<'a> {
    subject: &'a str,
    /// The places of its first operation and of the reveal.
    from: usize,
    to: usize,
    /// The tables of which it changed rows.
    tables: BTreeSet<&'a str>,
}

impl<'s, 'a> Settling<'s, 'a> {
    pub(super) fn new(
        own: &'s [Own<'a>],
        line: &'s Line<'s>,
        shared: &'s BTreeSet<String>,
    ) -> Self {
        let mut of_disguises: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut of_people: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let (mut of_all, mut settled_here) = (Vec::new(), BTreeSet::new());
        for (place, (Committed { it, .. }, known)) in own.iter().enumerate() {
            if it.unread.is_none() && !it.key.is_empty() {
                of_disguises.entry(&it.key).or_default().push(place);
            }
            if *known == Some(true) && is_note(it) {
                settled_here.extend(it.facts.again.as_deref());
            }
            match it.subject.as_deref() {
                Some(subject) => of_people.entry(subject).or_default().push(place),
                None => of_all.push(place),
            }
            if it.subject.is_some() && (it.facts.over || !shared.is_empty()) {
                of_all.push(place);
            }
        }
        Self {
            own,
            line,
            shared,
            settled_here,
            of_disguises,
            of_people,
            of_all,
        }
    }

    /// Returns the settled operations in the order of the log, those that a replay here settled before included.
    pub(super) fn all(&'s self) -> Vec<Settled<'a>> {
        let mut found: BTreeMap<usize, SettledBy> = BTreeMap::new();
        for id in self.taken_back() {
            let places = self.of_disguises.get(id).into_iter().flatten();
            let is_own = |place: &&usize| {
                let is_replay = self.at(**place).is_none_or(|it| it.action == REPLAY);
                !is_replay && self.is_absent(**place)
            };
            let own = places.filter(is_own);
            found.extend(own.map(|place| (*place, SettledBy::Reveal)));
        }
        let cut_off = (0..self.own.len()).filter(|place| self.is_repeated(*place));
        found.extend(cut_off.map(|place| (place, SettledBy::Repetition)));
        let settled = found.into_iter().filter_map(|(place, by)| {
            self.at(place).map(|told| Settled {
                told,
                by,
                is_noted: self.settled_here.contains(&*digits(&told.id)),
            })
        });
        settled.collect()
    }

    /// Returns the disguises that this database has from another life than the one that the log ended with, where their
    /// people asked for the same again and took that back, if they have not taken these back here.
    pub(super) fn strayed(&'s self, settled: &[Settled<'a>]) -> BTreeSet<OperationId> {
        let taken_back = || {
            let settled = settled.iter().filter(|it| it.by == SettledBy::Reveal);
            settled.map(|it| it.told).filter(|it| it.makes_part())
        };
        let own = self.own.iter().filter(|(_, known)| *known == Some(true));
        let own = own.map(|(it, _)| it.it);
        let is_back = |made: &LoggedOperation| {
            let is_reveal = |it: &&LoggedOperation| it.action == "disguise.reveal";
            own.clone()
                .filter(is_reveal)
                .any(|it| it.key == made.key && it.facts.kept == Some(0) && !it.found_nothing())
        };
        let made = own.clone().filter(|it| {
            it.makes_part() && it.action != REPLAY && self.line.is_known() && !self.line.has(it)
        });
        let strayed = made.filter(|it| {
            let is_like = |other: &LoggedOperation| {
                let is_same = asked(it).is_some() && asked(other) == asked(it);
                is_same && other.key != it.key && other.facts.public_key == it.facts.public_key
            };
            taken_back().any(is_like) && !is_back(it)
        });
        strayed.map(|it| it.id).collect()
    }

    /// Returns the disguises that were taken back whole, and between whose beginning and reveal nothing was done that
    /// another state of their rows would have changed, but for disguises that are taken back in the same way.
    fn taken_back(&'s self) -> BTreeSet<&'a str> {
        let all = self.of_disguises.iter();
        let all = all.filter_map(|(id, places)| Some((*id, self.whole(id, places)?)));
        let mut all: BTreeMap<&str, TakenBack<'_>> = all.collect();
        loop {
            let met: Vec<&str> = all
                .iter()
                .filter(|(id, it)| self.meets(id, it, &all))
                .map(|(id, _)| *id)
                .collect();
            if met.is_empty() {
                return all.into_keys().collect();
            }
            for id in met {
                all.remove(id);
            }
        }
    }

    /// Returns a disguise of one person, if they took it back whole in the life of the last operation and this
    /// database has nothing of it.
    fn whole(&self, id: &'a str, places: &[usize]) -> Option<TakenBack<'a>> {
        let own = || {
            places
                .iter()
                .filter_map(|place| Some((*place, self.at(*place)?)))
        };
        let mut from_last = own().rev();
        let (to, reveal) = from_last.find(|(_, it)| it.action == "disguise.reveal")?;
        let subject = reveal.subject.as_deref()?;
        let is_whole = reveal.facts.kept == Some(0) && self.line.has(reveal);
        let mut tables = BTreeSet::new();
        let (mut from, mut hid, mut brought_back) = (None, false, false);
        for (place, it) in own() {
            // Somebody else may name any disguise, and finds nothing of it; a replay may have settled it.
            let is_of_another = it.subject.as_deref() != Some(subject);
            if is_note(it) || is_of_another && it.reveals_no_row() {
                continue;
            }
            let is_made = it.makes_part() && it.action != "disguise.decay";
            let is_kind = is_made || matches!(&*it.action, "disguise.schedule" | "disguise.reveal");
            let is_in_order = is_kind && place <= to && !it.facts.over && !ends_others(it, id);
            if is_of_another || !is_in_order || !self.is_absent(place) {
                return None;
            }
            tables.extend(tables_of(it));
            if is_made && from.is_none() {
                from = Some(place);
            }
            hid |= is_made && it.facts.rows.values().any(|rows| *rows > 0);
            brought_back |= it.reveals_rows();
        }
        let taken_back = TakenBack {
            subject,
            from: from?,
            to,
            tables,
        };
        (is_whole && hid == brought_back).then_some(taken_back)
    }

    /// Returns whether anything was done while a disguise hid its rows that would have been done otherwise without it.
    fn meets(&'s self, id: &str, it: &TakenBack<'a>, all: &BTreeMap<&str, TakenBack<'a>>) -> bool {
        let within = |places: &'s [usize]| {
            let from = places.partition_point(|place| *place < it.from);
            let upto = places.partition_point(|place| *place < it.to);
            places.get(from..upto).unwrap_or_default()
        };
        let own = self.of_people.get(it.subject).map(Vec::as_slice);
        let between = within(own.unwrap_or_default())
            .iter()
            .chain(within(&self.of_all));
        let mut between = between.filter_map(|place| self.at(*place));
        between.any(|other| {
            let is_of_another = other.key != id;
            let is_settled = all.contains_key(&*other.key);
            is_of_another && !is_settled && self.has_part(other, it)
        })
    }

    /// Returns whether an operation may have met the rows of a disguise.
    fn has_part(&self, other: &LoggedOperation, it: &TakenBack<'a>) -> bool {
        let is_shared = || it.tables.iter().any(|table| self.shared.contains(*table));
        if other.unread.is_some() {
            // An erased entry was about somebody else.
            return other.unread == Some(Unread::OtherForm) || is_shared();
        }
        // What waits hides nothing, and neither does its end.
        let waits = other.action == "disguise.cancel" && other.facts.hidden.unwrap_or(0) == 0;
        if APART.contains(&&*other.action) || waits {
            return false;
        }
        match other.subject.as_deref() {
            None => true,
            Some(subject) if subject == it.subject => true,
            Some(_) if other.facts.over => true,
            Some(_) if APART_OF_OTHERS.contains(&&*other.action) => false,
            Some(_) if other.makes_part() || other.action == "disguise.reveal" => {
                let tables = tables_of(other);
                let mut both = it.tables.intersection(&tables);
                both.any(|table| self.shared.contains(*table))
            }
            Some(_) => is_shared(),
        }
    }

    /// Returns whether the operation at `place` was cut off, and its person asked for the same again.
    fn is_repeated(&self, place: usize) -> bool {
        let Some(it) = self.at(place).filter(|_| self.is_absent(place)) else {
            return false;
        };
        let makes = ["disguise.apply", "disguise.begin", "disguise.schedule"];
        // What settled it, and reveals that found nothing of it, did nothing.
        let did_something = |place: &&usize| {
            let other = self.at(**place);
            other.is_some_and(|it| !is_note(it) && !it.found_nothing())
        };
        let all = self.of_disguises.get(&*it.key).into_iter().flatten();
        let is_alone = all.filter(did_something).count() == 1;
        if !makes.contains(&&*it.action) || !is_alone || !self.line.is_cut_off(it) {
            return false;
        }
        let mut since = self.own.iter().skip(place).map(|(it, _)| it.it);
        since.any(|again| {
            let is_waiting =
                again.action == "disguise.schedule" && it.action != "disguise.schedule";
            let is_like = asked(it).is_some() && asked(again) == asked(it);
            let is_theirs = it.facts.public_key == again.facts.public_key;
            let is_made = makes.contains(&&*again.action) && !is_waiting;
            is_made && is_like && is_theirs && again.key != it.key && self.line.has(again)
        })
    }

    /// Returns whether the database lacks the operation at `place`, or has it by a replay that settled it.
    fn is_absent(&self, place: usize) -> bool {
        match self.own.get(place) {
            Some((Committed { it, fate }, known)) => {
                let is_unknown = *fate == CommitOutcome::Done && *known == Some(false);
                is_unknown || is_note(it) || self.settled_here.contains(&*digits(&it.id))
            }
            None => false,
        }
    }

    fn at(&self, place: usize) -> Option<&'a LoggedOperation> {
        self.own.get(place).map(|(it, _)| it.it)
    }
}

/// Returns whether it is the note of a replay that did nothing else for an operation.
fn is_note(it: &LoggedOperation) -> bool {
    it.action == REPLAY && !it.makes_whole()
}

/// Returns whether an operation ended other disguises, which would wait or go on without it.
fn ends_others(it: &LoggedOperation, id: &str) -> bool {
    let ended = [&it.facts.scheduled, &it.facts.chunks];
    let mut ended = ended.into_iter().flatten().flatten();
    ended.any(|other| other != id)
}

/// Returns the tables of which an operation changed rows, by its entry.
fn tables_of(it: &LoggedOperation) -> BTreeSet<&str> {
    let all = it.facts.rows.iter().chain(&it.facts.values);
    let all = all.filter(|(_, rows)| **rows > 0);
    all.map(|(table, _)| table.as_str()).collect()
}
