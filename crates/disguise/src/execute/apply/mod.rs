//! Runs a plan in the caller's transaction and writes the records that a reveal needs.

mod chunk;
mod co_owned;
mod dependent_rows;
mod group;
mod modify;
mod order;
mod placeholder;
mod previous_chunks;
mod record_owner;
mod self_reference;
mod spelling;
mod stake;
mod step_cursor;
mod unlink;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use self::modify::Overwriting;
pub(crate) use self::previous_chunks::PreviousChunks;
use self::stake::Loss;
pub(crate) use self::step_cursor::StepCursor;
use self::step_cursor::StepOutcome;
use crate::crypto::random;
use crate::crypto::suite::PublicKey;
use crate::database::Catalog;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::plan::cascade::refuse_cascade;
use crate::plan::step::Step;
use crate::records::bag::Bag;
use crate::records::credential::Credential;
use crate::records::day::Day;
use crate::records::hold::cohort;
use crate::records::section::{Change, Origin, PrincipalKind, Section};
use crate::records::stored::{Stage, Stored};
use crate::records::subject::Naming;
use crate::records::{concerned, deadline, registry, store};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::redact::Redactors;
use crate::spec::{Kind, Spec};
use crate::statements::path_end::RemovedRows;
use crate::statements::row::{at, picked};
use crate::statements::table::{among, delete, lists, take};

/// How often ids are drawn anew when they are in use already.
const TRIES_MAX: u32 = 16;

/// How many of the last sections may belong to the step that is being written.
const SECTIONS_A_STEP_MAX: usize = 16;

/// What is asked of [`Engine::apply`](crate::Engine::apply).
pub struct ApplyRequest<'a> {
    /// The specification.
    pub spec: &'a Spec,
    /// Whose rows; everybody's when absent.
    pub user: Option<Value>,
    /// Reaches also the rows of the user's pseudoprincipals; needs a user.
    pub over: Option<Credential<'a>>,
    /// Values of the specification's parameters.
    pub parameters: BTreeMap<String, Value>,
    /// Until when it can be revealed, to the next beginning of a day in UTC; for good when absent. What other disguises
    /// hide behind its placeholders ends with it.
    pub expires: Option<Timestamp>,
    /// The time of the entry and of generated timestamps.
    pub time: Timestamp,
}

impl ApplyRequest<'_> {
    /// The day at which its records end.
    pub(crate) fn end(&self) -> Result<Day, Error> {
        match self.expires {
            None => Ok(Day::NEVER),
            Some(end) if end > self.time => Ok(Day::not_before(end)),
            Some(_) => Err(Error::Value {
                what: "a disguise cannot end before it begins".to_owned(),
            }),
        }
    }
}

/// What a disguise did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its handle, needed to reveal it.
    pub id: DisguiseId,
    /// Rows touched in each table.
    pub rows: BTreeMap<String, u64>,
    /// Placeholder users made.
    pub pseudoprincipals: u64,
}

impl Applied {
    pub(crate) const fn none(id: DisguiseId) -> Self {
        Self {
            id,
            rows: BTreeMap::new(),
            pseudoprincipals: 0,
        }
    }

    /// Counts in what another part of the same disguise did.
    pub(crate) fn add(&mut self, part: &Self) {
        for (table, count) in &part.rows {
            let all = self.rows.entry(table.clone()).or_default();
            *all = all.saturating_add(*count);
        }
        self.pseudoprincipals = self.pseudoprincipals.saturating_add(part.pseudoprincipals);
    }
}

/// Whose records of a disguise that is applied anew were destroyed since, as entries name people, each with the key that it was done
/// with: under one id there may have been several people.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// Those of this disguise.
    pub(crate) disguise: Vec<(String, PublicKey)>,
    /// All that they had.
    pub(crate) everything: Vec<(String, PublicKey)>,
    /// How those entries name people.
    pub(crate) naming: Naming,
}

impl Forgotten {
    pub(crate) const fn is_empty(&self) -> bool {
        self.disguise.is_empty() && self.everything.is_empty()
    }
}

/// One disguise in progress.
pub(crate) struct Applier<'a> {
    pub(crate) database: &'a mut dyn TenantConnection,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) catalog: &'a Catalog,
    pub(crate) salt: &'a [u8],
    /// How many updates are recorded.
    pub(crate) updates: u32,
    pub(crate) now: &'a str,
    pub(crate) redactors: &'a Redactors,
    /// The user and the pseudoprincipals reached, when a user is meant.
    pub(crate) user: Option<&'a Value>,
    pub(crate) own: BTreeSet<Vec<u8>>,
    pub(crate) bags: BTreeMap<Vec<u8>, Bag>,
    /// Registered principals met so far.
    pub(crate) known: BTreeMap<Vec<u8>, (PublicKey, PrincipalKind)>,
    /// Placeholders made by this disguise, which it must not touch again.
    pub(crate) made: BTreeSet<Vec<u8>>,
    /// Ids in the spelling of the users table, by their names in the spelling of rows.
    pub(crate) spellings: BTreeMap<Vec<u8>, Value>,
    pub(crate) applied: Applied,
    /// What the chunks before left, where the disguise comes in several.
    pub(crate) earlier: Option<PreviousChunks>,
    /// About how many rows may be held, where not all of a disguise in one go may be.
    pub(crate) most: Option<u32>,
    /// How many were noted.
    pub(crate) noted: usize,
    /// The people whose rows go or change with those of the user, as far as holds ask.
    pub(crate) at_stake: Option<BTreeSet<Vec<u8>>>,
}

impl<'a> Applier<'a> {
    /// Takes a step, or as much of it as may be held.
    pub(crate) fn run(&mut self, number: u32, step: &Step) -> Result<StepOutcome, Error> {
        let table = self.table_of(step)?;
        let number = numbered(number);
        match &step.kind {
            Kind::Remove => self.remove(number, table, step),
            Kind::Modify { .. } => {
                let steps: Vec<_> = Overwriting::of(number, step).into_iter().collect();
                self.modify(table, &step.chosen, &steps)
            }
            Kind::Decorrelate { group_by, owners } => {
                self.decorrelate(number, table, step, group_by, owners)
            }
            Kind::Unlink { column } => self.unlink(number, table, step, column),
        }
    }

    /// The table of a step. The plan took it from the same schema: without it rows would stay as they are and count as hidden.
    fn table_of(&self, step: &Step) -> Result<&'a ResolvedTable, Error> {
        let what = "the table of a step is not in the schema";
        let table = self.live.table(&step.table);
        table.ok_or(Error::Defect { what })
    }

    /// Drops the records that were destroyed since with the key that they would be sealed to, but for what other disguises
    /// need. What belongs to anybody else stays, copies of shared rows too.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) -> Result<(), Error> {
        self.forget_marked();
        if forgotten.is_empty() {
            return Ok(());
        }
        let salt = self.salt;
        for (owner, mut bag) in std::mem::take(&mut self.bags) {
            let names = forgotten.naming.all(salt, &owner)?;
            let key = self.known.get(&owner).map(|(public, _)| public);
            let is_among = |some: &[(String, PublicKey)]| {
                let mut some = some.iter();
                some.any(|(name, with)| names.contains(name) && key == Some(with))
            };
            if is_among(&forgotten.everything) {
                continue;
            }
            if is_among(&forgotten.disguise) {
                bag.sections.retain(Section::is_for_departed);
                bag.principals.clear();
            }
            if !bag.is_empty() {
                self.bags.insert(owner, bag);
            }
        }
        Ok(())
    }

    /// Stores all bags and gives the report.
    pub(crate) fn finish(self, time: i64, end: Day) -> Result<Applied, Error> {
        let is_placeholder =
            |owner: &&Vec<u8>| matches!(self.known.get(*owner), Some((_, it)) if !it.is_person());
        let placeholders: Vec<&Vec<u8>> = self.bags.keys().filter(is_placeholder).collect();
        let fleeting = deadline::fleeting(self.database, &placeholders)?;
        let mut made = BTreeMap::new();
        let mut stored = Vec::new();
        let mut removed = RemovedRows::default();
        self.bags
            .values()
            .for_each(|bag| concerned::note_removed(&mut removed, bag));
        for (owner, bag) in &self.bags {
            let end = fleeting.get(owner).copied().unwrap_or(Day::NEVER).min(end);
            made.extend(bag.speaks_for.iter().map(|it| (it.new.principal(), end)));
            let Some((public, standing)) = self.known.get(owner).cloned() else {
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

    fn count(&mut self, table: &ResolvedTable, rows: usize) {
        let count = self.applied.rows.entry(table.name.clone()).or_default();
        *count = count.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
    }

    /// Looks up the registrations of `ids` that were not met yet.
    fn meet(&mut self, ids: &[&Value]) -> Result<(), Error> {
        self.meet_named(ids.iter().map(|id| id.principal()))?;
        let spelled = self.spell(ids)?;
        self.meet_named(spelled)?;
        self.recall(ids)
    }

    fn meet_named(&mut self, names: impl IntoIterator<Item = Vec<u8>>) -> Result<(), Error> {
        let unmet: BTreeSet<Vec<u8>> = names
            .into_iter()
            .filter(|id| !self.known.contains_key(id))
            .collect();
        let unmet: Vec<Vec<u8>> = unmet.into_iter().collect();
        let mut met = registry::principals(self.database, &unmet)?;
        self.known.append(&mut met);
        Ok(())
    }

    /// The bag for rows of `owner`: the user's own when there is one, else the owner's.
    fn bag(&mut self, owner: &Value) -> Result<&mut Bag, Error> {
        self.bag_of(self.user.unwrap_or(owner).principal())
    }

    fn bag_of(&mut self, principal: Vec<u8>) -> Result<&mut Bag, Error> {
        Ok(match self.bags.entry(principal) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(Bag::empty(random()?)),
        })
    }

    fn note_for(
        &mut self,
        principal: Vec<u8>,
        number: u32,
        table: &ResolvedTable,
        mut change: Change,
    ) -> Result<(), Error> {
        self.noted = self.noted.saturating_add(change.rows());
        let table = table.name.clone();
        let bag = self.bag_of(principal)?;
        let same = |section: &&mut Section| section.step == number && section.table == table;
        // A step writes at most a few kinds of sections: for each column and for whole rows.
        let mut candidates = bag
            .sections
            .iter_mut()
            .rev()
            .take(SECTIONS_A_STEP_MAX)
            .filter(same);
        if !candidates.any(|section| joins(&mut section.change, &mut change)) {
            bag.sections.push(Section {
                step: number,
                table,
                change,
            });
        }
        Ok(())
    }

    fn remove(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        step: &Step,
    ) -> Result<StepOutcome, Error> {
        let columns: Vec<String> = table
            .catalog
            .columns
            .iter()
            .map(|it| it.name.clone())
            .collect();
        let users = table.name == self.live.pseudo.table;
        if self.has_no_other_say(table) && self.takes(table) {
            refuse_cascade(self.database, self.catalog, (table, &step.chosen), &[])?;
            // All of these rows go, and need not be looked up twice.
            let rows = take(self.database, table, &columns, &step.chosen, self.most)?;
            let rest = if self.is_most(rows.len()) {
                StepOutcome::Same
            } else {
                StepOutcome::None
            };
            self.count(table, rows.len());
            if users {
                // Known already, unless the database takes another form of an id for the same.
                let ids = rows.iter();
                let ids: Vec<&Value> = ids
                    .filter_map(|row| at(&columns, row, &self.live.pseudo.id))
                    .collect();
                self.meet(&ids)?;
            }
            self.note_removed(number, table, &columns, rows)?;
            return Ok(rest);
        }
        let Some(rows) = self.held(table, &columns, &step.chosen)? else {
            return Ok(StepOutcome::Pages);
        };
        let selected = rows.len();
        if self.user.is_none() || users || table.people().count() > 1 {
            let people: Vec<&Value> = rows
                .iter()
                .flat_map(|row| table.people().filter_map(|it| at(&columns, row, it)))
                .collect();
            self.meet(&people)?;
        }
        let mut rows = self.leave_as_reader(number, table, &columns, rows)?;
        if users {
            rows.retain(|row| self.may_go(&columns, row));
        }
        let (shared, plain) = self.split(table, &columns, rows);
        let plain = self.without_returned(table, &columns, plain)?;
        let whole = shared.is_empty() && plain.len() == selected && !table.refers_to_itself();
        self.count(table, plain.len());
        let keys: Vec<Vec<Value>> = plain
            .iter()
            .map(|row| picked(&columns, row, &table.identity))
            .collect();
        if users {
            self.refuse_cascade_of(table, &keys)?;
        } else {
            refuse_cascade(self.database, self.catalog, (table, &step.chosen), &keys)?;
        }
        self.note_removed(number, table, &columns, plain)?;
        if whole {
            let gone = delete(self.database, &table.name, &step.chosen)?;
            self.refuse_left(table, &keys, gone)?;
        } else {
            self.delete_in_order(table, &keys)?;
        }
        self.remove_shared(number, table, &columns, shared)?;
        Ok(StepOutcome::None)
    }

    /// Refuses when rows that refer to those with these keys would silently change: what a step chose of the
    /// users are also the placeholders of the disguise itself, which stay.
    fn refuse_cascade_of(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        let dialect = self.database.dialect();
        for some in lists(keys, table.identity.len()) {
            let chosen = Fragment {
                sql: among(dialect, &table.identity, some.len()),
                parameters: some.concat(),
            };
            refuse_cascade(self.database, self.catalog, (table, &chosen), keys)?;
        }
        Ok(())
    }

    /// Notes rows about to be removed, each for its keeper, and the registrations that go with rows of users.
    fn note_removed(
        &mut self,
        number: u32,
        table: &ResolvedTable,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Error> {
        let users = table.name == self.live.pseudo.table;
        self.stake(table, columns, &rows, Loss::Row)?;
        let mut kept: BTreeMap<Vec<u8>, Vec<Vec<Value>>> = BTreeMap::new();
        let mut accounts: Vec<Vec<u8>> = Vec::new();
        let keepers = self.keepers(table, columns, &rows)?;
        for (row, keeper) in rows.into_iter().zip(keepers) {
            if users && let Some(id) = at(columns, &row, &self.live.pseudo.id) {
                let name = id.principal();
                if let Some((public, standing)) = self.known.get(&name).cloned() {
                    let bag = self.bag_of(keeper.clone())?;
                    bag.principals.push((id.clone(), public, standing));
                    accounts.push(name);
                }
            }
            kept.entry(keeper).or_default().push(row);
        }
        registry::unregister(self.database, &accounts)?;
        for (keeper, rows) in kept {
            let columns = columns.to_vec();
            self.note_for(keeper, number, table, Change::Removed { columns, rows })?;
        }
        Ok(())
    }

    /// Whether nobody but the user has a word in the rows of a removal. In the users table it is so for a person alone: an
    /// account of a placeholder may have to stay.
    fn has_no_other_say(&self, table: &ResolvedTable) -> bool {
        let Some(user) = self.user else {
            return false;
        };
        if table.name == self.live.pseudo.table {
            let name = user.principal();
            let known = self.known.get(&name);
            let is_person = known.is_some_and(|(_, standing)| standing.is_person());
            return is_person && self.own.len() == 1 && self.own.contains(&name);
        }
        (table.owners.len() < 2 || table.goes_whole()) && table.readers.is_empty()
    }

    /// Whether a row of the users table may be removed: neither a placeholder made by this disguise, nor one
    /// that shared rows and the copies of their other owners name.
    fn may_go(&self, columns: &[String], row: &[Value]) -> bool {
        at(columns, row, &self.live.pseudo.id)
            .is_none_or(|id| !self.made.contains(&id.principal()) && !self.is_departed(id))
    }
}

/// The step that was said to be taken, with its place among all.
fn step_at(steps: &[Step], number: u32) -> Result<(usize, &Step), Error> {
    let what = "a step that was to be taken is not in the plan";
    let at = usize::try_from(number).map_err(|_large| Error::Defect { what })?;
    let step = steps.get(at).ok_or(Error::Defect { what })?;
    Ok((at, step))
}

/// The number of a step's sections; that of the copies of its shared rows comes after it.
const fn numbered(step: u32) -> u32 {
    step.saturating_mul(2)
}

/// Moves the rows of `more` into `last` when both are of one kind and about the same columns.
fn joins(last: &mut Change, more: &mut Change) -> bool {
    match (last, more) {
        (Change::Removed { rows, .. }, Change::Removed { rows: more, .. }) => {
            rows.append(more);
            true
        }
        (
            Change::Copied { departed, rows, .. },
            Change::Copied {
                departed: also,
                rows: more,
                ..
            },
        ) if departed == also => {
            rows.append(more);
            true
        }
        (
            Change::Modified { column, rows, .. },
            Change::Modified {
                column: also,
                rows: more,
                ..
            },
        )
        | (
            Change::Decorrelated { column, rows, .. },
            Change::Decorrelated {
                column: also,
                rows: more,
                ..
            },
        ) if column == also => {
            rows.append(more);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that was not there ended as if nothing had been to do: its rows stayed in clear and counted as hidden.
    #[test]
    fn a_step_that_is_not_there_is_a_defect() {
        for number in [0, 7, u32::MAX] {
            let refused = step_at(&[], number).map(drop);
            assert!(matches!(refused, Err(Error::Defect { .. })), "{number}");
        }
    }
}
