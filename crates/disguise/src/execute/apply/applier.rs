//! The state of a disguise in progress: its inputs and the records noted so far.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::{Forgotten, Notes};
use super::principals::Principals;
use super::request::Applied;
use crate::database::Catalog;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::step::Step;
use crate::records::bag::Bag;
use crate::records::day::Day;
use crate::records::hold::cohort;
use crate::records::section::Origin;
use crate::records::stored::{Stage, Stored};
use crate::records::{concerned, deadline, store};
use crate::schema::{ResolvedSchema, ResolvedTable};
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

/// One disguise in progress.
pub(crate) struct Applier<'a> {
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
    pub(crate) notes: Notes,
    pub(crate) applied: Applied,
    /// The approximate limit of rows held in memory by a disguise in one go, if there is one.
    pub(crate) most: Option<u32>,
    /// The tables that lose rows when everybody leaves, each with the rows that are meant.
    pub(crate) removals: Vec<(String, Fragment)>,
    /// The people whose rows go or change with those of the user; absent if no hold needs them.
    pub(crate) at_stake: Option<BTreeSet<Vec<u8>>>,
}

impl<'a> Applier<'a> {
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
        self.note_unawaited()?;
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
            self.applied.under_placeholders = self.under(&placeholders)?;
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

    pub(super) fn count(&mut self, table: &ResolvedTable, rows: usize) {
        let count = self.applied.rows.entry(table.name.clone()).or_default();
        *count = count.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
    }

    /// Counts rows and values that stay as they are, because they name nobody.
    pub(super) fn count_of_nobody(&mut self, table: &ResolvedTable, rows: usize) {
        if rows > 0 {
            let rows = u64::try_from(rows).unwrap_or(u64::MAX);
            let count = self.applied.of_nobody.entry(table.name.clone());
            let count = count.or_default();
            *count = count.saturating_add(rows);
        }
    }

    /// Returns the bag for rows of `owner`: the user's own if a user is meant, else the owner's.
    pub(super) fn bag(&mut self, owner: &Value) -> Result<&mut Bag, Error> {
        self.notes.bag_of(self.user.unwrap_or(owner).principal())
    }

    /// Returns the number of rows of a table touched so far.
    pub(super) fn touched(&self, table: &ResolvedTable) -> u64 {
        self.applied.rows.get(&table.name).copied().unwrap_or(0)
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
