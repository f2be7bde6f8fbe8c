//! The operations of a log that were done in a database, and which of them it has.

use std::collections::{BTreeMap, BTreeSet};

use super::line::Order;
use super::lineage::Lineage;
use super::operation::{CommitOutcome, DISMISS, LoggedOperation, OperationId, REPLAY};
use super::overtaken::{Replayed, Since};
use super::settled::{Own, Settled, Settling};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::name::undigits;
use crate::records::tables::OPERATIONS;
use crate::statements::table::select_keys;

/// The state of an operation in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Done here.
    Here,
    /// Done again by a replay.
    Replayed,
    /// The database does not remember it, and has the next operation with the key that it gave.
    Followed,
    Missing,
}

/// The operations of a log that were done in this database, or may have been, for the current
/// tenant or for all.
#[derive(Default)]
pub(crate) struct History<'a> {
    /// All of them in the order of the log.
    pub(crate) done: Vec<(&'a LoggedOperation, Presence)>,
    pub(crate) missing: Vec<LoggedOperation>,
    /// Those that leave nothing to do; they are in neither list.
    pub(crate) settled: Vec<Settled<'a>>,
    /// Those that this database has from another life, see [`Settling::strayed`].
    pub(crate) strayed: BTreeSet<OperationId>,
    /// Those of the missing ones of which this database has a dismissal.
    pub(crate) dismissed: BTreeSet<OperationId>,
}

/// Returns those of `told` that were done in this database. Missing are those that it does not
/// have, in the same order; operations that their person repeated since are not missing any more.
/// Forgotten or replaced records are missing, too, when some of them are among those `there`,
/// whatever was done since: the same id may have been somebody else's. Operations erased from the
/// log may have been missed. [`Since`] says which are overtaken.
pub(crate) fn history<'a>(
    database: &mut dyn TenantConnection,
    [whole, own]: &[String; 2],
    told: &'a [LoggedOperation],
    there: &BTreeSet<String>,
    shared: &BTreeSet<String>,
) -> Result<History<'a>, Error> {
    let key = |it: &LoggedOperation| {
        let of_all = it.is_of(whole).then(|| it.id.to_vec());
        let key = || database.tenancy().key(&it.id).principal();
        of_all.or_else(|| it.is_of(own).then(key))
    };
    let own: Vec<(Committed<'a>, Option<Vec<u8>>)> = committed(told)
        .map(|it| {
            let key = key(it.it).filter(|_| it.it.unread.is_none());
            (it, key)
        })
        .filter(|(it, key)| it.it.may_be_of([whole, own]) || key.is_some())
        .collect();
    let keys = own.iter().filter_map(|(_, key)| key.clone());
    let keys: Vec<Vec<Value>> = keys.map(|key| vec![Value::Bytes(key)]).collect();
    let by = ["id".to_owned()];
    let rows = select_keys(database, OPERATIONS, &by, &by, &keys)?;
    let known: BTreeSet<Vec<u8>> = rows.iter().flatten().map(Value::principal).collect();
    let own = own
        .into_iter()
        .map(|(it, key)| (it, key.map(|key| known.contains(&key))));
    let mut own: Vec<_> = own.collect();
    let (settled, strayed) = take_settled(&mut own, &Order::of(told), shared);
    let history = compared(&own, there);
    Ok(History {
        settled,
        strayed,
        ..history
    })
}

/// Takes those away that leave nothing to do, and returns them, with the disguises that strayed from another life.
fn take_settled<'a>(
    own: &mut Vec<Own<'a>>,
    order: &Order<'a>,
    shared: &BTreeSet<String>,
) -> (Vec<Settled<'a>>, BTreeSet<OperationId>) {
    let line = order.line(own.iter().map(|(it, _)| it.it));
    for (it, _) in own.iter_mut() {
        if it.fate == CommitOutcome::Unknown && line.was_committed(it.it) {
            it.fate = CommitOutcome::Done;
        }
    }
    let settling = Settling::new(own, &line, shared);
    let settled = settling.all();
    let strayed = settling.strayed(&settled);
    let ids: BTreeSet<OperationId> = settled.iter().map(|it| it.told.id).collect();
    own.retain(|(it, _)| it.it.unread.is_some() || !ids.contains(&it.it.id));
    (settled, strayed)
}

/// Returns the number of operations that the database lacks of those `meant`, which are of tenants; `had`
/// are the operations that it has.
pub(crate) fn lacked_by_tenants<'a>(
    told: &'a [LoggedOperation],
    meant: impl Fn(&LoggedOperation) -> bool,
    had: &BTreeSet<OperationId>,
    shared: &BTreeSet<String>,
) -> usize {
    let order = Order::of(told);
    let mut tenants: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for it in committed(told).filter(|it| it.it.unread.is_none() && meant(it.it)) {
        let is_known = had.contains(&it.it.id);
        let own = tenants.entry(it.it.tag()).or_default();
        own.push((it, Some(is_known)));
    }
    let lacks = |mut own: Vec<Own<'a>>| {
        take_settled(&mut own, &order, shared);
        let History {
            missing, dismissed, ..
        } = compared(&own, &BTreeSet::new());
        let listed = missing.iter().filter(|it| !dismissed.contains(&it.id));
        listed.filter(|it| it.leaves_to_do()).count()
    };
    tenants.into_values().map(lacks).sum()
}

/// An operation that was told of as done and not taken back.
#[derive(Clone, Copy)]
pub(super) struct Committed<'a> {
    pub(super) it: &'a LoggedOperation,
    pub(super) fate: CommitOutcome,
}

/// Returns those of `told` whose commit did not fail, by their last entries.
fn committed(told: &[LoggedOperation]) -> impl Iterator<Item = Committed<'_>> {
    let known = told.iter().filter(|it| it.unread.is_none());
    let fates: BTreeMap<OperationId, CommitOutcome> = known.map(|it| (it.id, it.fate)).collect();
    let promised = told.iter().filter(|it| it.fate == CommitOutcome::Done);
    let with_fate = promised.map(move |it| Committed {
        it,
        fate: match it.unread {
            Some(_) => it.fate,
            // Each that can be read has its own fate among them.
            None => fates.get(&it.id).copied().unwrap_or(it.fate),
        },
    });
    with_fate.filter(|it| it.fate != CommitOutcome::Undone)
}

/// Compares operations with what the database has; of those that cannot be read, nothing is known.
fn compared<'a>(own: &[Own<'a>], there: &BTreeSet<String>) -> History<'a> {
    let readable = own
        .iter()
        .filter_map(|(it, known)| Some((it.it, (*known)?)));
    let lineage = Lineage::of(readable);
    let mut repeated = Repeated::default();
    let mut since = Since::default();
    // Keys with which their people went on in this database.
    let mut begun = BTreeSet::new();
    let mut applied = BTreeSet::new();
    let lives = Lives::of(own);
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for (Committed { it, fate }, known) in own.iter().rev() {
        let Some(is_known) = *known else {
            missing.push((*it).clone());
            continue;
        };
        if it.found_nothing() {
            // Of one before that was missed nothing is left to do.
            if is_known && !lives.precedes_its_rows(it) {
                repeated.found_nothing(it, &lineage, &lives);
            }
            continue;
        }
        let destroyed = it.facts.destroyed.iter().flatten();
        let is_there_again = destroyed.into_iter().any(|it| there.contains(it));
        if is_known {
            begun.extend(it.begun_with());
        }
        let went_on = it.ended_with().is_some_and(|key| begun.contains(key));
        let is_overtaken = !is_known && since.overtakes(it, &lineage);
        let is_own = since.add(it, is_known, &lineage);
        done.push((
            *it,
            match (is_known, is_own) {
                (true, true) => Presence::Here,
                (true, false) => Presence::Replayed,
                (false, _) if went_on => Presence::Followed,
                (false, _) => Presence::Missing,
            },
        ));
        // A disguise is applied once under its id: what was told of it before was not committed.
        let is_apply = matches!(&*it.action, "disguise.apply" | "disguise.decay");
        let is_told_again = is_apply && !applied.insert(&it.key);
        if !is_known && (is_told_again || is_apply && lives.has_whole(it)) {
            continue;
        }
        let is_carried = !is_known && lives.was_carried_through(it) && applied.insert(&it.key);
        if is_known && !is_there_again && it.reveals_in_part() {
            repeated.reveal_part(it, &lineage, is_own && !lives.ending.contains(&*it.key));
        } else if is_known && !is_there_again {
            repeated.add(it, &lineage, is_own);
        } else if is_known || is_there_again || !repeated.has(it, &lineage) {
            missing.push(LoggedOperation {
                fate: *fate,
                is_put_back: is_known || is_there_again && went_on,
                is_overtaken,
                action: if is_carried {
                    "disguise.apply".to_owned()
                } else {
                    it.action.clone()
                },
                ..(*it).clone()
            });
        }
    }
    done.reverse();
    missing.reverse();
    History {
        done,
        missing,
        dismissed: dismissed(own),
        ..History::default()
    }
}

/// Returns the operations of which the database has a dismissal.
fn dismissed(own: &[Own<'_>]) -> BTreeSet<OperationId> {
    let known = own.iter().filter(|(_, known)| *known == Some(true));
    let dismissals = known.filter(|(it, _)| it.it.action == DISMISS);
    dismissals
        .filter_map(|(it, _)| undigits(&it.it.key))
        .collect()
}

/// The disguises that this database has, and those that others carried through, by their ids.
#[derive(Default)]
struct Lives<'a> {
    /// Those that were begun in chunks here.
    begun: BTreeSet<&'a str>,
    /// Those that were done here, or done again.
    whole: BTreeSet<&'a str>,
    /// Those of which somebody here revealed something.
    revealed: BTreeSet<&'a str>,
    /// Those that an operation in some life of the database applied.
    applied: BTreeSet<&'a str>,
    /// Reveals that found nothing because their disguise was not here yet.
    too_early: BTreeSet<OperationId>,
    /// Those that a replay made again.
    remade: BTreeSet<&'a str>,
    /// The disguises of each person.
    of_people: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Those that have an end: what a reveal left hidden is lost then.
    ending: BTreeSet<&'a str>,
    /// Those that somebody cancelled in the middle, with rows hidden.
    cancelled: BTreeSet<&'a str>,
}

impl<'a> Lives<'a> {
    fn of(own: &[(Committed<'a>, Option<bool>)]) -> Self {
        let replayed = replayed(own);
        let mut lives = Self {
            too_early: too_early(own, &replayed),
            ..Self::default()
        };
        for (Committed { it, .. }, known) in own {
            let key = it.key.as_str();
            let is_here = *known == Some(true) && !it.found_nothing();
            match it.action.as_str() {
                // A replay hides nothing where it ends what was begun elsewhere.
                "disguise.begin" if is_here && !replayed.may_have(it) => {
                    lives.begun.insert(key);
                }
                "disguise.reveal" if is_here => drop(lives.revealed.insert(key)),
                "disguise.apply" | "disguise.decay" => drop(lives.applied.insert(key)),
                _ => {}
            }
            if is_here && it.action == REPLAY && it.makes_whole() {
                lives.remade.insert(key);
            }
            if it.makes_part() && it.facts.expires.is_some() {
                lives.ending.insert(key);
            }
            if let Some(subject) = it.subject.as_deref().filter(|_| it.makes_part()) {
                lives.of_people.entry(subject).or_default().insert(key);
            }
            if it.action == "disguise.cancel" && it.facts.hidden.is_some_and(|rows| rows > 0) {
                lives.cancelled.insert(key);
            }
            if is_here && it.makes_whole() {
                lives.whole.insert(key);
            }
        }
        lives
    }

    /// Returns whether a replay made a disguise again here of which nobody revealed anything, and its person has
    /// others: these may have the rows.
    fn may_lie_elsewhere(&self, it: &LoggedOperation) -> bool {
        let key = it.key.as_str();
        let others = it.subject.as_deref().and_then(|it| self.of_people.get(it));
        let has_others = others.is_some_and(|others| others.iter().any(|it| *it != key));
        has_others && self.remade.contains(key) && !self.revealed.contains(key)
    }

    /// Returns whether `it` was asked for before a disguise that others applied was made again here: what
    /// it is to reveal is still to be hidden.
    fn precedes_its_rows(&self, it: &LoggedOperation) -> bool {
        self.too_early.contains(&it.id)
    }

    /// Returns whether the database has a disguise whole, which was applied elsewhere once more.
    fn has_whole(&self, it: &LoggedOperation) -> bool {
        let key = it.key.as_str();
        self.whole.contains(key) && !self.revealed.contains(key)
    }

    /// Returns whether a replay elsewhere carried through, from its beginning, a disguise of which this
    /// database has some chunks. No other operation tells of it.
    fn was_carried_through(&self, it: &LoggedOperation) -> bool {
        let key = it.key.as_str();
        let is_told_of = self.applied.contains(key) || self.whole.contains(key);
        // One that was cancelled in the middle was not carried through in that life.
        let is_whole = it.makes_whole() && !self.cancelled.contains(key);
        it.action == REPLAY && is_whole && self.begun.contains(key) && !is_told_of
    }
}

/// Returns what replays did in this database.
fn replayed<'a>(own: &[(Committed<'a>, Option<bool>)]) -> Replayed<'a> {
    let mut replayed = Replayed::default();
    let known = own.iter().filter(|(_, known)| *known == Some(true));
    for (Committed { it, .. }, _) in known.filter(|(it, _)| it.it.action == REPLAY) {
        replayed.add(it);
    }
    replayed
}

/// Returns the reveals that found nothing because their disguise had been applied elsewhere, and not been
/// made here again so far.
fn too_early(
    own: &[(Committed<'_>, Option<bool>)],
    replayed: &Replayed<'_>,
) -> BTreeSet<OperationId> {
    let (mut missed, mut made) = (BTreeSet::new(), BTreeSet::new());
    let mut too_early = BTreeSet::new();
    for (Committed { it, .. }, known) in own {
        let key = it.key.as_str();
        let is_here = *known == Some(true);
        // A replay did it later.
        let is_by_replay = it.action != REPLAY && replayed.may_have(it);
        if it.makes_part() && known.is_some() && (!is_here || is_by_replay) {
            // What others made once more was here already.
            if !made.contains(key) {
                missed.insert(key);
            }
        } else if is_here && it.makes_whole() {
            missed.remove(key);
            made.insert(key);
        } else if is_here && it.found_nothing() && missed.contains(key) {
            too_early.insert(it.id);
        }
    }
    too_early
}

/// The lineages of people under which an action was done.
type Keys<'a> = BTreeSet<Option<&'a str>>;

/// A hold, by the person or the disguise, and by who placed it and by what right.
type Placed<'a> = (Option<&'a str>, Option<&'a str>, &'a str, &'a str);

/// A disguise by its specification, the values of its parameters and its person.
pub(super) type Asked<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// The operations after the one at hand that the database has, from the last one on.
#[derive(Default)]
struct Repeated<'a> {
    same: BTreeMap<(&'a str, &'a str, Option<&'a str>), Keys<'a>>,
    /// Reveals that left something hidden.
    in_part: BTreeMap<(&'a str, Option<&'a str>), Keys<'a>>,
    /// Those with which nothing came back.
    tried: BTreeSet<(&'a str, Option<&'a str>)>,
    /// Those that were placed here.
    holds: BTreeSet<Placed<'a>>,
    /// Those who had everything forgotten here, with their credential.
    forgot: BTreeSet<&'a str>,
    /// Those whose credentials went with everything else, perhaps by a replay.
    closed: BTreeSet<&'a str>,
    /// Those to whom a reveal here brought something back.
    back: BTreeSet<Option<&'a str>>,
    /// Disguises that were applied here.
    applied: BTreeMap<Asked<'a>, Keys<'a>>,
    /// Those that were scheduled here, or applied.
    scheduled: BTreeMap<Asked<'a>, Keys<'a>>,
}

impl<'a> Repeated<'a> {
    fn add(&mut self, it: &'a LoggedOperation, lineage: &Lineage<'a>, is_own: bool) {
        let name = (&*it.action, &*it.key, it.subject.as_deref());
        let key = lineage.of_operation(it);
        self.same.entry(name).or_default().insert(key);
        if it.brings_back() {
            self.back.insert(it.subject.as_deref());
        }
        if it.action == "disguise.hold" && is_own {
            self.holds.insert(placed(it));
        }
        if let Some(asked) = asked(it).filter(|_| is_own) {
            if it.action == "disguise.apply" {
                self.applied.entry(asked).or_default().insert(key);
            }
            if matches!(&*it.action, "disguise.apply" | "disguise.schedule") {
                self.scheduled.entry(asked).or_default().insert(key);
            }
        }
        if it.action == "disguise.forget" && it.key.is_empty() {
            self.closed.extend(key);
            self.forgot.extend(key.filter(|_| is_own));
        }
    }

    /// Takes up a reveal that found nothing: where another disguise may have the rows, its person is to find them.
    fn found_nothing(&mut self, it: &'a LoggedOperation, lineage: &Lineage<'a>, lives: &Lives<'a>) {
        if !lives.may_lie_elsewhere(it) || self.back.contains(&it.subject.as_deref()) {
            self.add(it, lineage, true);
        }
    }

    /// Takes up a reveal that left something hidden: it is not the same as one that left nothing. If `is_last`, one
    /// with which nothing came back is, where another one was before it: nothing more can be done.
    fn reveal_part(&mut self, it: &'a LoggedOperation, lineage: &Lineage<'a>, is_last: bool) {
        let name = (&*it.key, it.subject.as_deref());
        let key = lineage.of_operation(it);
        if self.tried.contains(&name) {
            self.add(it, lineage, true);
        } else if is_last && !it.brings_back() {
            self.tried.insert(name);
        }
        self.in_part.entry(name).or_default().insert(key);
    }

    /// Returns whether the person of `it` did the same again, or had everything forgotten since; of a disguise,
    /// whether the same was asked for again. By the id alone it may have been somebody else's; so their keys must be of one lineage, where
    /// the entry names one. Whoever registers again has another key. A hold is placed again by the same
    /// authority for the same reason.
    fn has(&self, it: &'a LoggedOperation, lineage: &Lineage<'a>) -> bool {
        let name = (&*it.action, &*it.key, it.subject.as_deref());
        let own = lineage.of_operation(it);
        let is_same = |keys: &Keys<'_>| {
            own.is_none() || it.action == "disguise.register" || keys.contains(&own)
        };
        let ended = match it.action.as_str() {
            "disguise.forget" | "disguise.key" => &self.forgot,
            "disguise.password" => &self.closed,
            "disguise.hold" => return self.holds.contains(&placed(it)),
            "disguise.apply" | "disguise.begin" => {
                return asked(it).is_some_and(|it| self.applied.get(&it).is_some_and(is_same));
            }
            "disguise.reveal" if it.facts.kept != Some(0) => {
                let part = self.in_part.get(&(&*it.key, it.subject.as_deref()));
                return part.is_some_and(is_same) || self.same.get(&name).is_some_and(is_same);
            }
            "disguise.schedule" => {
                return asked(it).is_some_and(|it| self.scheduled.get(&it).is_some_and(is_same));
            }
            _ => return it.may_be_repeated() && self.same.get(&name).is_some_and(is_same),
        };
        self.same.get(&name).is_some_and(is_same) || own.is_some_and(|key| ended.contains(key))
    }
}

/// Returns what is asked for by an operation that makes a disguise, or schedules one.
pub(super) fn asked(it: &LoggedOperation) -> Option<Asked<'_>> {
    let (specification, parameters) = (&it.facts.specification, &it.facts.parameters);
    let specification = specification.as_deref()?;
    Some((specification, parameters.as_deref(), it.subject.as_deref()))
}

fn placed(hold: &LoggedOperation) -> Placed<'_> {
    let disguise = hold.facts.disguise.as_deref();
    (hold.subject.as_deref(), disguise, &hold.actor, &hold.basis)
}
