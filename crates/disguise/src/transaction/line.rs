//! The line of operations that led to the last one of a log. Each entry names those that it came after (`after`); what no
//! later operation came after was cut off before its commit, or was done in another life of the database.

use std::collections::{BTreeMap, BTreeSet};

use super::operation::{LoggedOperation, OperationId, REPLAY};
use super::settled::SettledBy;
use crate::records::name::undigits;

/// The operations of a log, of all its databases and tenants.
pub(super) struct Order<'a> {
    /// Each with its place in the log.
    by_id: BTreeMap<OperationId, (usize, &'a LoggedOperation)>,
    /// Operations that some other one came after, in whichever life.
    followed: BTreeSet<OperationId>,
}

/// The operations of a database that were committed in the life of its last one.
pub(super) struct Line<'o> {
    order: &'o Order<'o>,
    all: BTreeSet<OperationId>,
}

impl<'a> Order<'a> {
    pub(super) fn of(told: &'a [LoggedOperation]) -> Self {
        let mut by_id: BTreeMap<OperationId, (usize, &LoggedOperation)> = BTreeMap::new();
        let mut followed = BTreeSet::new();
        for (place, it) in told
            .iter()
            .enumerate()
            .filter(|(_, it)| it.unread.is_none())
        {
            followed.extend(it.after.iter().flatten().copied());
            // A later entry says that its commit failed, or that nobody knows.
            by_id.entry(it.id).or_insert((place, it));
        }
        Self { by_id, followed }
    }

    /// Follows the entries back from the last one `of_own`, in the order of the log. Replays do again what was done
    /// in other lives, so that none of them is the last one. The line is empty where the log has an operation before
    /// one that it came after, as by clocks of several machines.
    pub(super) fn line<'o>(
        &'o self,
        of_own: impl DoubleEndedIterator<Item = &'a LoggedOperation>,
    ) -> Line<'o> {
        let last = of_own
            .rev()
            .find(|it| it.unread.is_none() && it.action != REPLAY);
        let last = last.filter(|it| it.after.is_some()).map(|it| it.id);
        let (mut all, mut next) = (BTreeSet::new(), Vec::from_iter(last));
        while let Some(id) = next.pop() {
            let Some((place, it)) = self.by_id.get(&id).filter(|_| all.insert(id)) else {
                continue;
            };
            for before in it.after.iter().flatten() {
                let is_before = self
                    .by_id
                    .get(before)
                    .is_none_or(|(other, _)| other < place);
                if !is_before {
                    return Line {
                        order: self,
                        all: BTreeSet::new(),
                    };
                }
                next.push(*before);
            }
            // An operation that a replay did again has the place of the replay, but for one that was never done.
            let again = it.facts.again.as_deref().filter(|_| !was_never_done(it));
            all.extend(again.and_then(undigits::<8>));
        }
        Line { order: self, all }
    }
}

/// Returns whether it is the note of a replay that an operation was cut off, and asked for again.
fn was_never_done(note: &LoggedOperation) -> bool {
    note.facts.settled.as_deref() == Some(SettledBy::Repetition.as_str())
}

impl Line<'_> {
    /// Returns whether an operation was committed in the life of the last one.
    pub(super) fn has(&self, it: &LoggedOperation) -> bool {
        it.unread.is_none() && self.all.contains(&it.id)
    }

    /// Returns whether the entries say anything of the life of the last one.
    pub(super) fn is_known(&self) -> bool {
        !self.all.is_empty()
    }

    /// Returns whether the database had an operation when it went on, in whichever life.
    pub(super) fn was_committed(&self, it: &LoggedOperation) -> bool {
        it.unread.is_none() && self.order.followed.contains(&it.id)
    }

    /// Returns whether nothing came after an operation, although others were done later: it was cut off before its
    /// commit, or the database was lost at once.
    pub(super) fn is_cut_off(&self, it: &LoggedOperation) -> bool {
        it.after.is_some() && !self.has(it) && !self.was_committed(it)
    }
}
