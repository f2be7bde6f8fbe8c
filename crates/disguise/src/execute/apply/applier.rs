//! The state of a disguise in progress: its inputs and the records noted so far.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::{Forgotten, Notes};
use super::principals::Principals;
use super::request::Applied;
use super::row_picker::RowPicker;
use super::unawaited::note_unawaited;
use super::under_placeholders::under;
use crate::database::Catalog;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::plan::step::Step;
use crate::records::bag::Bag;
use crate::records::day::Day;
use crate::records::hold::cohort;
use crate::records::section::Origin;
use crate::records::stored::{Stage, Stored};
use crate::records::{concerned, deadline, placeholder_succession, store};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::Kind;
use crate::spec::redact::Redactors;
use crate::statements::path_end::RemovedRows;

/// The part of a step that is left after it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// No rows are left.
    None,
    /// Rows that the same step takes when it is repeated.
    Same,
    /// All rows: there are more than the limit, so the step must be taken in pages.
    Pages,
}

/// The loss of rows or values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The rows go whole.
    Row,
    /// Some of their values are lost.
    Values,
}

/// The inputs of a disguise.
pub(crate) struct Inputs<'a> {
    pub(crate) id: DisguiseId,
    pub(crate) database: &'a mut dyn TenantConnection,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) catalog: &'a Catalog,
    pub(crate) salt: &'a [u8],
    /// The number of updates recorded.
    pub(crate) updates: u32,
    pub(crate) now: &'a str,
    pub(crate) redactors: &'a Redactors,
    /// The person meant, if one is.
    pub(crate) user: Option<&'a Value>,
    pub(crate) principals: Principals<'a>,
    /// The approximate limit of rows held in memory by a disguise in one go, if there is one.
    pub(crate) most: Option<u32>,
    /// True if somebody is held, so that it matters whose rows go or change with those of the user.
    pub(crate) has_holds: bool,
}

/// One disguise in progress: it takes the steps, and writes the records of what they change.
pub(crate) struct Applier<'a> {
    pub(super) database: &'a mut dyn TenantConnection,
    pub(super) live: &'a ResolvedSchema,
    pub(super) catalog: &'a Catalog,
    pub(super) salt: &'a [u8],
    /// The number of updates recorded.
    updates: u32,
    pub(super) now: &'a str,
    pub(super) redactors: &'a Redactors,
    /// The person meant, if one is.
    pub(super) user: Option<&'a Value>,
    pub(super) principals: Principals<'a>,
    pub(super) notes: Notes,
    pub(super) applied: Applied,
    /// The approximate limit of rows held in memory by a disguise in one go, if there is one.
    pub(super) most: Option<u32>,
    /// The tables that lose rows when everybody leaves, each with the rows that are meant.
    removals: Vec<(String, Fragment)>,
    /// The people whose rows go or change with those of the user; absent if no hold needs them.
    pub(super) at_stake: Option<BTreeSet<Vec<u8>>>,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(inputs: Inputs<'a>) -> Self {
        Self {
            database: inputs.database,
            live: inputs.live,
            catalog: inputs.catalog,
            salt: inputs.salt,
            updates: inputs.updates,
            now: inputs.now,
            redactors: inputs.redactors,
            user: inputs.user,
            principals: inputs.principals,
            notes: Notes::default(),
            applied: Applied::none(inputs.id),
            most: inputs.most,
            removals: Vec::new(),
            at_stake: inputs.has_holds.then(BTreeSet::new),
        }
    }

    /// The principals met so far.
    pub(crate) fn met(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.principals.known.keys()
    }

    /// The people whose rows go or change with those of the user, if a hold needs them.
    pub(crate) fn at_stake(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.at_stake.iter().flatten()
    }

    /// Begins to pick rows, before anything is changed in them.
    pub(super) fn picker(&mut self) -> RowPicker<'_, 'a> {
        RowPicker {
            database: &mut *self.database,
            principals: &mut self.principals,
            removals: &self.removals,
        }
    }

    /// Notes the removals of a disguise of everybody.
    pub(super) fn note_removals(&mut self, steps: &[Step]) {
        if self.user.is_none() {
            let removals = steps.iter().filter(|it| it.kind == Kind::Remove);
            let removals = removals.map(|it| (it.table.clone(), it.chosen.clone()));
            self.removals = removals.collect();
        }
    }

    /// Returns the table of a step. The plan comes from the same schema: a missing table is an
    /// error, because its rows would stay as they are and count as hidden.
    pub(super) fn table_of(&self, step: &Step) -> Result<&'a ResolvedTable, Error> {
        let what = "the table of a step is not in the schema";
        let table = self.live.table(&step.table);
        table.ok_or(Error::Defect { what })
    }

    /// Stores all bags, without the records that `forgotten` names as destroyed since, and returns
    /// the report.
    pub(crate) fn finish(
        mut self,
        (time, end): (i64, Day),
        forgotten: &Forgotten,
    ) -> Result<Applied, Error> {
        self.notes.forget(forgotten, &self.principals)?;
        note_unawaited(self.database, self.live, &mut self.notes)?;
        let named = self.placeholders_named();
        placeholder_succession::mark(self.database, &named)?;
        let is_placeholder = |owner: &&Vec<u8>| matches!(self.principals.known.get(*owner), Some((_, it)) if !it.is_person());
        let placeholders: Vec<&Vec<u8>> = self.notes.bags.keys().filter(is_placeholder).collect();
        let fleeting = deadline::fleeting(self.database, &placeholders)?;
        let mut made = BTreeMap::new();
        let mut stored = Vec::new();
        let mut removed = RemovedRows::default();
        self.notes
            .bags
            .values()
            .for_each(|bag| concerned::note_removed(&mut removed, bag));
        if self.user.is_none() {
            self.applied.under_placeholders = under(self.live, &self.notes.bags, &placeholders)?;
        }
        for (owner, bag) in &self.notes.bags {
            let end = fleeting.get(owner).copied().unwrap_or(Day::NEVER).min(end);
            made.extend(bag.speaks_for.iter().map(|it| (it.new.principal(), end)));
            let Some((public, standing)) = self.principals.known.get(owner).cloned() else {
                return Err(Error::Unregistered {
                    table: self.live.pseudo.table.clone(),
                    rows: 1,
                });
            };
            let origin = Origin {
                disguise: self.applied.id.0,
                time,
                updates: self.updates,
                expires: end,
                cohort: cohort(self.salt, owner),
            };
            let cohorts = if end == Day::NEVER {
                Vec::new()
            } else {
                let people = concerned::people(self.database, self.live, (bag, &removed))?;
                people.cohorts(self.salt, owner)
            };
            stored.push(Stored {
                bag,
                public,
                owner: owner.clone(),
                person: standing.is_person(),
                origin,
                cohorts,
                stage: Stage::Disguised,
            });
        }
        store::put_bags(self.database, self.salt, &stored)?;
        deadline::put_fleeting(self.database, &made)?;
        Ok(self.applied)
    }

    /// Returns the bag for rows of `owner`: the user's own if a user is meant, else the owner's.
    pub(super) fn bag(&mut self, owner: &Value) -> Result<&mut Bag, Error> {
        self.notes.bag_of(self.user.unwrap_or(owner).principal())
    }
}

/// Returns the step of this number, with its index.
pub(super) fn step_at(steps: &[Step], number: u32) -> Result<(usize, &Step), Error> {
    let what = "a step that was to be taken is not in the plan";
    let at = usize::try_from(number).map_err(|_large| Error::Defect { what })?;
    let step = steps.get(at).ok_or(Error::Defect { what })?;
    Ok((at, step))
}

/// Returns the number of a step's sections; the next number is for the copies of its shared rows.
pub(super) const fn numbered(step: u32) -> u32 {
    step.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing step ended as if nothing had been to do: its rows stayed in clear and counted as
    /// hidden.
    #[test]
    fn a_step_that_is_not_there_is_a_defect() {
        for number in [0, 7, u32::MAX] {
            let refused = step_at(&[], number).map(drop);
            assert!(matches!(refused, Err(Error::Defect { .. })), "{number}");
        }
    }
}
