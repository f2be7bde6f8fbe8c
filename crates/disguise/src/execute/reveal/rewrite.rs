//! Overwritten values and owners go back while the disguised value is still there (check C2).

use std::collections::{BTreeMap, BTreeSet};

use super::co_owned::Copies;
use super::current_owner::Now;
use super::late_keys::is_late_elsewhere;
use super::meanwhile::Placeholders;
use super::put_back::may_lack;
use super::report::{KeptReason, cell_name};
use super::{Revealer, fits, row_name};
use crate::database::DatabaseErrorKind;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::cascade::{emptied, may_empty};
use crate::records::section::{Change, Modified, Section};
use crate::schema::ResolvedTable;
use crate::statements::lax;
use crate::statements::overwrite::{Write, try_update_keys};
use crate::statements::row::{at, encoded};
use crate::statements::table::select_keys;

/// The outcome for a record.
enum RecordOutcome {
    /// The value goes into the row.
    Ready(Value),
    /// Nothing is left to do.
    Done,
    /// Another record has to go first.
    Later,
    /// Another disguise has to be revealed first; only a spelling is then missing.
    Waits,
    /// The person who left the row is back behind a newer placeholder.
    Returned,
    /// The record stays.
    Kept(KeptReason),
}

impl Revealer<'_> {
    /// Returns the present values of rows, by identity.
    pub(super) fn current(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        rows: &[Modified],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let mut columns = table.identity.clone();
        columns.push(column.to_owned());
        let found = select_keys(self.database, &table.name, &columns, &table.identity, &keys)?;
        let mut current = BTreeMap::new();
        for mut row in found {
            if let Some(value) = row.pop() {
                current.insert(encoded(&row), value);
            }
        }
        Ok(current)
    }

    /// Returns the rows of which some column can no longer come back (for whole rows).
    pub(super) fn barred(
        &mut self,
        sections: &[(usize, Section)],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut barred = BTreeSet::new();
        let live = self.live;
        for (_, section) in sections {
            let (Change::Modified { column, rows, .. } | Change::Decorrelated { column, rows, .. }) =
                &section.change
            else {
                continue;
            };
            let Some(table) = live
                .table(&section.table)
                .filter(|it| fits(it, &section.change))
            else {
                continue;
            };
            let current = self.current(table, column, rows)?;
            let names = matches!(section.change, Change::Decorrelated { .. });
            if names {
                let after = rows.iter().map(|row| &row.after);
                self.people
                    .meet(self.database, current.values().chain(after))?;
            }
            for row in rows {
                let now = current.get(&encoded(&row.identity));
                let is_one = |now| names && self.is_one_person(now, &row.after);
                let safe = now
                    .is_none_or(|now| now.same(&row.after) || now.same(&row.before) || is_one(now));
                if !safe {
                    barred.insert(row_name(table, &row.identity));
                }
            }
        }
        Ok(barred)
    }

    /// Check C2: writes values back where the disguised value still stands. Returns the records
    /// that stay.
    pub(super) fn rewrite(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        column: &str,
        mut rows: Vec<Modified>,
        barred: &BTreeSet<Vec<u8>>,
        owner: bool,
    ) -> Result<Vec<Modified>, Error> {
        self.moved_keys().follow(table, &mut rows)?;
        let current = self.rows_now(table, &[column], &rows)?;
        let names_people = owner || table.people().any(|it| it == column);
        let nearest = if names_people {
            self.nearest_owners(index, &current, &rows)?
        } else {
            BTreeMap::new()
        };
        let absent = rows.iter().map(|row| &row.identity);
        let absent = absent.filter(|it| !current.contains_key(&encoded(it)));
        let moved = self.moved_away(table, &absent.cloned().collect::<Vec<_>>())?;
        let may_lack = owner && may_lack(table, column);
        let others = self.rows_of_others((table, index), (column, owner), &rows, &current)?;
        let mut kept: Vec<(Modified, KeptReason)> = Vec::new();
        let mut ready: Vec<(Modified, Value)> = Vec::new();
        let mut later = Vec::new();
        for row in rows {
            // For a reader who went missing, the records have only the id.
            let is_left = owner && !row.after.is_null();
            let target = if is_left && self.people.means_another(&row.before) {
                None
            } else if owner || (names_people && self.is_known(index, &row.before)) {
                nearest.get(&row.before.principal()).cloned()
            } else {
                Some(row.before.clone())
            };
            let now = current.get(&encoded(&row.identity));
            let is_emptied = may_lack && !row.after.is_null() && now.is_some_and(Now::is_empty);
            // An unlinked reference stands in a row of somebody else, and leads to the returning
            // person.
            let is_let_go = owner && table.unlinks(column) && self.people.means_own(&row.before);
            let is_others = others.contains(&encoded(&row.identity));
            let is_covered = !owner && now.is_some_and(|now| is_covered(now, 0, &row));
            let counts = (0, is_left || is_let_go);
            let now = within_reach(now, (table, &row), counts, &moved, barred);
            let fate = match (now, target) {
                _ if is_others => RecordOutcome::Kept(KeptReason::OwnerReplaced),
                _ if is_emptied => RecordOutcome::Kept(KeptReason::Emptied),
                (Ok(_), _) if is_covered => RecordOutcome::Kept(KeptReason::Covered),
                (Err(KeptReason::Absent), _) if self.is_of_gone_account(table, &row) => {
                    RecordOutcome::Done
                }
                (Err(reason), _) => RecordOutcome::Kept(reason),
                (Ok(_), None) => RecordOutcome::Kept(self.ownerless(index, &row.before)),
                (Ok(now), Some(target)) => self.fate((&row, owner), now, target),
            };
            match fate {
                RecordOutcome::Ready(target) => ready.push((row, target)),
                RecordOutcome::Done => {}
                RecordOutcome::Later | RecordOutcome::Waits => later.push(row),
                RecordOutcome::Returned => {
                    let placeholder = self.people.meant(&row.after.principal());
                    self.returned.insert(placeholder);
                }
                RecordOutcome::Kept(reason) => kept.push((row, reason)),
            }
        }
        if table.name == self.live.pseudo.table && column == self.live.pseudo.id {
            // The accounts are no longer where they were found.
            for (row, _) in &ready {
                self.people.rightful.remove(&row.after.principal());
            }
        }
        let done = self.write(table, (column, owner), ready, &mut kept)?;
        self.report.count_values(&table.name, done);
        self.keep_values(table, (column, owner), &kept)?;
        if owner {
            Copies { work: self }.keep_departed(table, &kept)?;
            Copies { work: self }.keep_taken_along(table, column, &kept)?;
        }
        later.extend(kept.into_iter().map(|(row, _)| row));
        Ok(later)
    }

    /// Returns for each owner of the records who stands for them now.
    fn nearest_owners(
        &mut self,
        index: usize,
        current: &BTreeMap<Vec<u8>, Now>,
        rows: &[Modified],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let owners: Vec<Value> = rows.iter().map(|row| row.before.clone()).collect();
        let now = current.values().flat_map(|now| &now.values);
        let all = now.chain(rows.iter().map(|row| &row.after));
        self.people.meet(self.database, all)?;
        self.nearest(index, &owners)
    }

    /// Reports records that stay, and notes the placeholders that they need.
    fn keep_values(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        kept: &[(Modified, KeptReason)],
    ) -> Result<(), Error> {
        let moved_on = self.moved_on(table, (column, owner), kept)?;
        for (row, reason) in kept {
            self.report
                .keep(&table.name, &row.identity, Some(column), *reason);
            let placeholder = self.people.meant(&row.after.principal());
            // The row still names the placeholder, as does one that its owner took away from its
            // readers. If it names nobody now, its owner may have the placeholder in a record,
            // because the account was away when the row came back.
            let named = match reason {
                KeptReason::Changed => false,
                KeptReason::Absent => {
                    let is_read = table.readers.iter().any(|it| it == column);
                    is_read || moved_on.contains(&placeholder)
                }
                _ => true,
            };
            if owner && *reason == KeptReason::Absent {
                self.doubtful.insert(placeholder.clone());
            }
            if owner && named {
                let is_away = matches!(
                    reason,
                    KeptReason::Absent | KeptReason::Emptied | KeptReason::OwnerReplaced
                );
                if is_away {
                    self.taken.insert(placeholder.clone());
                }
                self.needed.insert(placeholder);
            }
        }
        Ok(())
    }

    /// Returns whether a record concerns the account of a placeholder that is gone because its own
    /// disguise was revealed: nothing is left to bring back.
    pub(super) fn is_of_gone_account(&self, table: &ResolvedTable, row: &Modified) -> bool {
        let pseudo = &self.live.pseudo;
        let id = at(&table.identity, &row.identity, &pseudo.id);
        table.name == pseudo.table && id.is_some_and(|id| self.people.is_gone(id))
    }

    /// Returns the placeholders that rows still name in a part of their key, though none has the
    /// key of the record any more. Another person in the key left since, and their return restores
    /// it.
    fn moved_on(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        kept: &[(Modified, KeptReason)],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        if !owner || !table.identity.iter().any(|it| it == column) {
            return Ok(BTreeSet::new());
        }
        let absent = kept
            .iter()
            .filter(|(_, reason)| *reason == KeptReason::Absent);
        let keys: Vec<Vec<Value>> = absent.map(|(row, _)| vec![row.after.clone()]).collect();
        let by = [column.to_owned()];
        let named = select_keys(self.database, &table.name, &by, &by, &keys)?.concat();
        let named: Vec<&Value> = named.iter().collect();
        Ok(Placeholders { work: self }
            .meant_of(&named)?
            .into_iter()
            .collect())
    }

    /// Returns the outcome of a record whose row holds `now` and is to hold `target` again. An
    /// owner counts as one of the returning people only while nobody else has the id.
    fn fate(&self, (row, owner): (&Modified, bool), now: &Value, target: Value) -> RecordOutcome {
        let strange = || {
            let named = (owner && !now.is_null()).then(|| std::slice::from_ref(now));
            named.and_then(|named| self.people.stranger(named))
        };
        let is_one = |one: &Value, other: &Value| {
            one.same(other) || (owner && self.is_one_person(one, other))
        };
        if now.same(&row.after) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        if now.same(&target) {
            return RecordOutcome::Done;
        }
        if is_one(now, &row.after) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        if owner && is_one(now, &target) && target.same(&row.before) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        // An older decorrelation was undone first, so that the row is further back already.
        if owner && self.behind(&row.before).iter().any(|it| is_one(it, now)) {
            return strange().map_or(RecordOutcome::Done, RecordOutcome::Kept);
        }
        // A later decorrelation holds; its own reveal finds the way back along the chain.
        if owner && self.behind(now).iter().any(|it| is_one(it, &row.after)) {
            return match strange() {
                Some(reason) => RecordOutcome::Kept(reason),
                None if !self.settle => RecordOutcome::Later,
                None if self.people.is_left(&row.after) => RecordOutcome::Returned,
                // The chain leads back to the person, in the spelling of the users table.
                None if self.people.meant(&row.before.principal()) != row.before.principal() => {
                    RecordOutcome::Waits
                }
                None => RecordOutcome::Done,
            };
        }
        // The row had this value before, so nothing is hidden: another owner of it had put the same
        // value there.
        if !owner && row.before.same(&row.after) {
            return RecordOutcome::Done;
        }
        RecordOutcome::Kept(KeptReason::Changed)
    }

    /// Returns whether two values of a column of people mean the same person: the column may hold
    /// an id in another form than the users table.
    fn is_one_person(&self, one: &Value, other: &Value) -> bool {
        let is_null = one.is_null() || other.is_null();
        !is_null && self.people.meant(&one.principal()) == self.people.meant(&other.principal())
    }

    /// Returns the principals behind the one that `id` means, nearest first.
    pub(super) fn behind(&self, id: &Value) -> Vec<&Value> {
        let spelled = self.people.spellings.get(&id.principal());
        self.reach.behind(spelled.unwrap_or(id)).collect()
    }

    /// Writes values back; the others go to `kept`. Returns the number written.
    pub(super) fn write(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        mut ready: Vec<(Modified, Value)>,
        kept: &mut Vec<(Modified, KeptReason)>,
    ) -> Result<usize, Error> {
        if !self.must_look(table, (&[column], owner)) {
            return self.write_free(table, column, ready, kept);
        }
        let mut reasons = self.in_the_way(table, (column, owner), &ready)?;
        if self.has_unseen_keys(table) {
            reasons.extend(self.tried_unseen(table, column, &ready)?);
        }
        let mut free = Vec::with_capacity(ready.len());
        for (row, target) in ready {
            let Some((reason, said)) = reasons.get(&encoded(&row.identity)) else {
                free.push((row, target));
                continue;
            };
            if let Some(said) = said {
                let cell = cell_name(&table.name, &row.identity, Some(column));
                self.report.refusals.insert(cell, said.clone());
            }
            kept.push((row, *reason));
        }
        ready = free;
        let is_late = is_late_elsewhere(table, column) && !ready.is_empty();
        if is_late && !self.check_at_once()? {
            for (row, _) in ready {
                self.report.note_refusal(
                    self.database.refusal(),
                    &table.name,
                    &row.identity,
                    Some(column),
                );
                kept.push((row, KeptReason::Refused));
            }
            return Ok(0);
        }
        let done = self.write_free(table, column, ready, kept)?;
        if is_late {
            self.check_late()?;
        }
        Ok(done)
    }

    /// Writes values of rows, unless a reference to them could fail at the commit alone.
    fn write_free(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        ready: Vec<(Modified, Value)>,
        kept: &mut Vec<(Modified, KeptReason)>,
    ) -> Result<usize, Error> {
        let all: Vec<&Modified> = ready.iter().map(|(row, _)| row).collect();
        if !self.would_empty(table, column, &all)? {
            let all: Vec<Write<'_>> = ready
                .iter()
                .map(|(row, target)| write(row, target))
                .collect();
            match try_update_keys(self.database, table, &[column], &all) {
                Ok(()) => return Ok(all.len()),
                Err(error) if is_constraint(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // Some rows of the set may have been written by earlier runs; writing them again changes nothing.
        let mut done: usize = 0;
        for (row, target) in ready {
            if self.would_empty(table, column, &[&row])? {
                kept.push((row, KeptReason::Refused));
                continue;
            }
            match try_update_keys(self.database, table, &[column], &[write(&row, &target)]) {
                Ok(()) => done = done.saturating_add(1),
                Err(error) if is_constraint(&error) => {
                    let (place, change) = ((column, &*row.identity), (&target, &row.after));
                    if lax::write(self.database, table, place, change)? {
                        done = done.saturating_add(1);
                    } else {
                        self.report.note_refusal(
                            self.database.refusal(),
                            &table.name,
                            &row.identity,
                            Some(column),
                        );
                        kept.push((row, KeptReason::Refused));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Returns whether the database would empty references to one of `rows` when `column` changes
    /// there, and notes its report.
    fn would_empty(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        rows: &[&Modified],
    ) -> Result<bool, Error> {
        if !may_empty(self.live, table, &[column]) {
            return Ok(false);
        }
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let of = (table.identity.as_slice(), keys.as_slice());
        let referring = emptied(self.database, self.live, (table, &[column]), of)?;
        if let (Some(referring), [row]) = (&referring, rows) {
            let name = cell_name(&table.name, &row.identity, Some(column));
            self.report.refusals.insert(name, referring.said());
        }
        Ok(referring.is_some())
    }
}

/// Returns the present value of a row in the column at `place` of those asked for, or why nothing
/// of it can go back. A placeholder that it names identifies the owner.
pub(super) fn within_reach<'v>(
    now: Option<&'v Now>,
    (table, row): (&ResolvedTable, &Modified),
    (place, names_placeholder): (usize, bool),
    moved: &BTreeSet<Vec<u8>>,
    barred: &BTreeSet<Vec<u8>>,
) -> Result<&'v Value, KeptReason> {
    let Some(now) = now else {
        let is_moved = moved.contains(&encoded(&row.identity));
        return Err(if is_moved {
            KeptReason::OtherTenant
        } else {
            KeptReason::Absent
        });
    };
    if now.is_double {
        return Err(KeptReason::RowExists);
    }
    match now.strange {
        Some(reason) if !names_placeholder => Err(reason),
        _ if barred.contains(&row_name(table, &row.identity)) => Err(KeptReason::PartOfRow),
        _ => now.values.get(place).ok_or(KeptReason::Absent),
    }
}

/// Returns whether the row has the value that a record hid, but perhaps not for good: a later
/// disguise of somebody else whom the row names may have put it there by chance, over the value that
/// the record tells of. Its reveal uncovers that value, and the record is needed then.
pub(super) fn is_covered(now: &Now, place: usize, row: &Modified) -> bool {
    let is_back = now
        .values
        .get(place)
        .is_some_and(|now| now.same(&row.before));
    now.is_shared && is_back && !row.before.same(&row.after)
}

fn write<'r>(row: &'r Modified, target: &'r Value) -> Write<'r> {
    Write {
        identity: &row.identity,
        values: std::slice::from_ref(target),
    }
}

pub(super) fn is_constraint(error: &Error) -> bool {
    matches!(
        error,
        Error::Database { source, .. }
            if matches!(source.kind, DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint)
    )
}
