//! Overwritten values and owners go back while the disguised value is still there (check C2).

use std::collections::{BTreeMap, BTreeSet};

use super::current_owner::Now;
use super::owners::Owners;
use super::placeholder_notes::PlaceholderNotes;
use super::report::{KeptReason, Report};
use super::stored_rows::{current, moved_away};
use super::write_back::WriteBack;
use super::{fits, row_name};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified, Section};
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;
use crate::statements::stored::is_same;
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

/// Overwritten values and owners on their way back.
pub(super) struct Values<'w, 'a> {
    pub(super) owners: Owners<'w, 'a>,
    pub(super) report: &'w mut Report,
    pub(super) notes: &'w mut PlaceholderNotes,
    /// True if owners that newer placeholders hold count as done.
    pub(super) settle: bool,
}

impl Values<'_, '_> {
    /// Begins to write to the database.
    pub(super) fn write_back(&mut self) -> WriteBack<'_> {
        WriteBack {
            database: &mut *self.owners.database,
            live: self.owners.people.live,
            report: &mut *self.report,
        }
    }

    /// Returns the rows of which some column can no longer come back (for whole rows).
    pub(super) fn barred(
        &mut self,
        sections: &[(usize, Section)],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut barred = BTreeSet::new();
        let live = self.owners.people.live;
        for (_, section) in sections {
            let (Change::Modified { column, rows, .. } | Change::Decorrelated { column, rows, .. }) =
                &section.change
            else {
                continue;
            };
            let Some(table) = live.table(&section.table).filter(|it| fits(it, section)) else {
                continue;
            };
            let current = current(self.owners.database, table, column, rows)?;
            let names = matches!(section.change, Change::Decorrelated { .. });
            if names {
                let after = rows.iter().map(|row| &row.after);
                self.owners
                    .people
                    .meet(self.owners.database, current.values().chain(after))?;
            }
            for row in rows {
                let now = current.get(&encoded(&row.identity));
                let is_one = |now| names && self.owners.people.is_one_person(now, &row.after);
                let is = |now, it| is_same(table, column, now, it);
                let safe = now
                    .is_none_or(|now| is(now, &row.after) || is(now, &row.before) || is_one(now));
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
        self.owners.moved_keys().follow(table, &mut rows)?;
        let current = self.owners.rows_now(table, &[column], &rows)?;
        let names_people = owner || table.people().any(|it| it == column);
        let nearest = if names_people {
            self.owners.nearest_owners(index, &current, &rows)?
        } else {
            BTreeMap::new()
        };
        let absent = rows.iter().map(|row| &row.identity);
        let absent = absent.filter(|it| !current.contains_key(&encoded(it)));
        let moved = moved_away(
            self.owners.database,
            table,
            &absent.cloned().collect::<Vec<_>>(),
        )?;
        let may_lack = owner && table.may_lack(column);
        let others =
            self.owners
                .rows_of_others((table, index), (column, owner), &rows, &current)?;
        let mut kept: Vec<(Modified, KeptReason)> = Vec::new();
        let mut ready: Vec<(Modified, Value)> = Vec::new();
        let mut later = Vec::new();
        let of = (table, column);
        for row in rows {
            let target = self.target(index, (&row, owner), names_people, &nearest);
            let now = current.get(&encoded(&row.identity));
            let is_emptied = may_lack && !row.after.is_null() && now.is_some_and(Now::is_empty);
            // An unlinked reference stands in a row of somebody else, and leads to the returning
            // person.
            let is_let_go =
                owner && table.unlinks(column) && self.owners.people.means_own(&row.before);
            let is_others = others.contains(&encoded(&row.identity));
            let is_covered = !owner && now.is_some_and(|now| is_covered(now, 0, of, &row));
            let counts = (0, is_left(&row, owner) || is_let_go);
            let now = within_reach(now, (table, &row), counts, &moved, barred);
            let fate = match (now, target) {
                _ if is_others => RecordOutcome::Kept(KeptReason::OwnerReplaced),
                _ if is_emptied => RecordOutcome::Kept(KeptReason::Emptied),
                (Ok(_), _) if is_covered => RecordOutcome::Kept(KeptReason::Covered),
                (Err(KeptReason::Absent), _)
                    if self.owners.people.is_of_gone_account(table, &row) =>
                {
                    RecordOutcome::Done
                }
                (Err(reason), _) => RecordOutcome::Kept(reason),
                (Ok(_), None) => RecordOutcome::Kept(self.owners.ownerless(index, &row.before)),
                (Ok(now), Some(target)) => self.fate((table, column), (&row, owner), now, target),
            };
            match fate {
                RecordOutcome::Ready(target) => ready.push((row, target)),
                RecordOutcome::Done => {}
                RecordOutcome::Later | RecordOutcome::Waits => later.push(row),
                RecordOutcome::Returned => {
                    let placeholder = self.owners.people.meant(&row.after.principal());
                    self.notes.returned.insert(placeholder);
                }
                RecordOutcome::Kept(reason) => kept.push((row, reason)),
            }
        }
        self.forget_accounts(table, column, &ready);
        let done = self
            .write_back()
            .write(table, (column, owner), ready, &mut kept)?;
        self.report.count_values(&table.name, done);
        self.keep_values(table, (column, owner), &kept)?;
        if owner {
            self.keep_departed(table, &kept)?;
            self.keep_taken_along(table, column, &kept)?;
        }
        later.extend(kept.into_iter().map(|(row, _)| row));
        Ok(later)
    }

    /// Returns the value that a record puts back. In a column that names people it is whoever stands
    /// for the one of the record now, if anybody does.
    fn target(
        &self,
        index: usize,
        (row, owner): (&Modified, bool),
        names_people: bool,
        nearest: &BTreeMap<Vec<u8>, Value>,
    ) -> Option<Value> {
        if is_left(row, owner) && self.owners.people.means_another(&row.before) {
            None
        } else if owner || (names_people && self.owners.is_known(index, &row.before)) {
            nearest.get(&row.before.principal()).cloned()
        } else {
            Some(row.before.clone())
        }
    }

    /// Forgets the accounts whose ids are about to change: they are no longer where they were found.
    fn forget_accounts(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        ready: &[(Modified, Value)],
    ) {
        let pseudo = &self.owners.people.live.pseudo;
        if table.name == pseudo.table && column == pseudo.id {
            for (row, _) in ready {
                self.owners.people.rightful.remove(&row.after.principal());
            }
        }
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
            let placeholder = self.owners.people.meant(&row.after.principal());
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
                self.notes.doubtful.insert(placeholder.clone());
            }
            if owner && named {
                let is_away = matches!(
                    reason,
                    KeptReason::Absent | KeptReason::Emptied | KeptReason::OwnerReplaced
                );
                if is_away {
                    self.notes.taken.insert(placeholder.clone());
                }
                self.notes.needed.insert(placeholder);
            }
        }
        Ok(())
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
        let named = select_keys(self.owners.database, &table.name, &by, &by, &keys)?.concat();
        let named: Vec<&Value> = named.iter().collect();
        Ok(self
            .owners
            .people
            .meant_of(self.owners.database, &named)?
            .into_iter()
            .collect())
    }

    /// Returns the outcome of a record whose row holds `now` and is to hold `target` again. An
    /// owner counts as one of the returning people only while nobody else has the id.
    fn fate(
        &self,
        (table, column): (&ResolvedTable, &str),
        (row, owner): (&Modified, bool),
        now: &Value,
        target: Value,
    ) -> RecordOutcome {
        let is = |one: &Value, other: &Value| is_same(table, column, one, other);
        let strange = || {
            let named = (owner && !now.is_null()).then(|| std::slice::from_ref(now));
            named.and_then(|named| self.owners.people.stranger(named))
        };
        let is_one = |one: &Value, other: &Value| {
            is(one, other) || (owner && self.owners.people.is_one_person(one, other))
        };
        if is(now, &row.after) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        if is(now, &target) {
            return RecordOutcome::Done;
        }
        if is_one(now, &row.after) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        if owner && is_one(now, &target) && is(&target, &row.before) {
            return strange().map_or(RecordOutcome::Ready(target), RecordOutcome::Kept);
        }
        // An older decorrelation was undone first, so that the row is further back already.
        if owner
            && self
                .owners
                .people
                .behind(&row.before)
                .iter()
                .any(|it| is_one(it, now))
        {
            return strange().map_or(RecordOutcome::Done, RecordOutcome::Kept);
        }
        // A later decorrelation holds; its own reveal finds the way back along the chain.
        if owner
            && self
                .owners
                .people
                .behind(now)
                .iter()
                .any(|it| is_one(it, &row.after))
        {
            return match strange() {
                Some(reason) => RecordOutcome::Kept(reason),
                None if !self.settle => RecordOutcome::Later,
                None if self.owners.people.is_left(&row.after) => RecordOutcome::Returned,
                // The chain leads back to the person, in the spelling of the users table.
                None if self.owners.people.meant(&row.before.principal())
                    != row.before.principal() =>
                {
                    RecordOutcome::Waits
                }
                None => RecordOutcome::Done,
            };
        }
        // The row had this value before, so nothing is hidden: another owner of it had put the same
        // value there.
        if !owner && is(&row.before, &row.after) {
            return RecordOutcome::Done;
        }
        RecordOutcome::Kept(KeptReason::Changed)
    }
}

/// Returns whether the record is of somebody who was replaced in the row. Of a reader who went
/// missing it has only the id.
fn is_left(row: &Modified, owner: bool) -> bool {
    owner && !row.after.is_null()
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
pub(super) fn is_covered(
    now: &Now,
    place: usize,
    (table, column): (&ResolvedTable, &str),
    row: &Modified,
) -> bool {
    let is = |one, other| is_same(table, column, one, other);
    let is_back = now
        .values
        .get(place)
        .is_some_and(|now| is(now, &row.before));
    now.is_shared && is_back && !is(&row.before, &row.after)
}
