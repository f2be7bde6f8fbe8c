//! Rows that are inserted as far as the database takes them, without those with which its commit would
//! be refused.

use std::collections::BTreeSet;

use super::late_keys::{Elsewhere, check_elsewhere, checked_at_once};
use super::own_circles::{Left, in_order};
use super::put_back::Ready;
use super::report::KeptReason;
use super::savepoint::Savepoint;
use super::stored_rows::{identities, moved_away};
use super::unseen_keys::has_own_unseen;
use super::write_back::WriteBack;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::schema::{Reference, ResolvedTable};
use crate::statements::lax;
use crate::statements::row::{encoded, picked, whole_key};
use crate::statements::table::{Inserted, insertions, present, try_insert};

impl WriteBack<'_> {
    /// Inserts rows, without those whose parents among them the database refuses. Returns their number.
    pub(super) fn insert_whole(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let may_be_orphans = table.refers_to_itself() || has_own_unseen(table);
        // A database that checks keys with each row takes children after their parents alone.
        let mut ready = in_order(table, columns, ready);
        loop {
            let mut refused = Vec::new();
            if !may_be_orphans {
                let done = self.insert_at_once(table, columns, &ready, &mut refused)?;
                kept.append(&mut refused);
                return Ok(done);
            }
            let doing = "putting back rows of a table that refers to itself";
            let point = Savepoint::set(self.database, "probity_whole", doing)?;
            let done = self.insert_at_once(table, columns, &ready, &mut refused)?;
            let lost = self.lost(table, columns, (&ready, &refused))?;
            // Not taken out again one by one: rows may refer to them by a key that is checked with
            // each row.
            point.end(self.database, lost.is_empty())?;
            kept.append(&mut refused);
            if lost.is_empty() {
                return Ok(done);
            }
            kept.extend(lost.into_iter().map(|row| (row, KeptReason::ParentMissing)));
            let stays: BTreeSet<Vec<u8>> = kept.iter().map(|(row, _)| encoded(row)).collect();
            ready.retain(|(original, _)| !stays.contains(&encoded(original)));
        }
    }

    /// Inserts rows as far as the database takes them. Returns their number.
    fn insert_at_once(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &Ready,
        refused: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        // Nothing else looks at keys to tables of other schemas before the commit.
        let elsewhere = check_elsewhere(self.database, std::iter::once(table))?;
        if elsewhere == Elsewhere::AtOnce {
            let done = self.insert_ready(table, columns, ready, refused)?;
            let late = self.database.defer_foreign_keys();
            late.doing("deferring foreign keys")?;
            return Ok(done);
        }
        // All keys together are no more than a second choice: constraint triggers wait for rows of
        // other tables.
        let is_late = elsewhere != Elsewhere::Nothing;
        let done = checked_at_once(self.database, is_late, |database| {
            let mut checked = WriteBack {
                database,
                live: self.live,
                report: &mut *self.report,
            };
            checked.insert_ready(table, columns, ready, refused)
        })?;
        if done.is_none() {
            let rows = ready.iter().map(|(row, _)| row.clone());
            refused.extend(rows.map(|row| (row, KeptReason::Refused)));
        }
        Ok(done.unwrap_or(0))
    }

    /// Returns the inserted rows, as recorded, with which the commit would be refused: those that
    /// refer to nothing by a column which the database works out, and those whose parents among the
    /// rows are not in.
    fn lost(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        (ready, refused): (&Ready, &[(Vec<Value>, KeptReason)]),
    ) -> Result<Vec<Vec<Value>>, Error> {
        let stays: BTreeSet<Vec<u8>> = refused.iter().map(|(row, _)| encoded(row)).collect();
        let is_refused = |original: &[Value]| stays.contains(&encoded(original));
        let (gone, mut there): (Ready, Ready) =
            (ready.iter().cloned()).partition(|(original, _)| is_refused(original));
        let mut lead_nowhere = Ready::new();
        if has_own_unseen(table) {
            let key = |row: &[Value]| picked(columns, row, &table.identity);
            let keys: Vec<Vec<Value>> = there.iter().map(|(_, row)| key(row)).collect();
            let nowhere = self.late_keys().leading_nowhere(table, &keys)?;
            (lead_nowhere, there) = there
                .into_iter()
                .partition(|(_, row)| nowhere.contains(&encoded(&key(row))));
        }
        let mut lost: Vec<Vec<Value>> = Vec::new();
        lost.extend(lead_nowhere.iter().map(|(original, _)| original.clone()));
        // Only in place of a refused row, somebody else's may have the key.
        for (gone, may_be_others) in [(gone, true), (lead_nowhere, false)] {
            let orphans = self.orphans((table, columns), gone, &mut there, may_be_others)?;
            lost.extend(orphans);
        }
        Ok(lost)
    }

    /// Check C1 by the database's own keys: a run that is refused is tried row by row, and then circle by
    /// circle.
    fn insert_ready(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &[(Vec<Value>, Vec<Value>)],
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let mut originals = ready.iter();
        let dialect = self.database.dialect();
        let mut left: Vec<Left<'_>> = Vec::new();
        for run in insertions(dialect, table, &rows, columns.len()) {
            let run_of: Vec<&(Vec<Value>, Vec<Value>)> =
                originals.by_ref().take(run.len()).collect();
            if try_insert(self.database, table, columns, run)? == Inserted::All {
                continue;
            }
            for (original, row) in run_of {
                left.extend(self.insert_one(table, columns, (original, row))?);
            }
        }
        self.insert_circles(table, columns, &mut left)?;
        let done = ready.len().saturating_sub(left.len());
        for it in left {
            let identity = picked(columns, it.original, &table.identity);
            self.report
                .note_refusal(it.said.as_deref(), &table.name, &identity, None);
            kept.push((it.original.to_vec(), it.reason));
        }
        Ok(done)
    }

    /// Inserts one row. Returns it if the database does not take it.
    fn insert_one<'r>(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        (original, row): (&'r [Value], &'r [Value]),
    ) -> Result<Option<Left<'r>>, Error> {
        let one = [row.to_vec()];
        let mut put = try_insert(self.database, table, columns, &one)?;
        if put == Inserted::Refused {
            put = lax::insert(self.database, table, columns, row)?;
        }
        if put == Inserted::All {
            return Ok(None);
        }
        let said = self.database.refusal().map(str::to_owned);
        let keys = [picked(columns, row, &table.identity)];
        let (reason, said) = if !identities(self.database, table, &keys)?.is_empty() {
            (KeptReason::RowExists, None)
        } else if !moved_away(self.database, table, &keys)?.is_empty() {
            (KeptReason::OtherTenant, None)
        } else {
            (KeptReason::Refused, said)
        };
        Ok(Some(Left {
            original,
            row,
            reason,
            said,
        }))
    }

    /// Takes those of the rows `there`, as recorded, that refer to one of the `lost` rows, however many
    /// steps away, unless another row may have the key and has it. The database may look at keys only
    /// when the reveal is committed, and would refuse the whole of it.
    fn orphans(
        &mut self,
        (table, columns): (&ResolvedTable, &[String]),
        mut lost: Ready,
        there: &mut Ready,
        mut may_be_others: bool,
    ) -> Result<Vec<Vec<Value>>, Error> {
        // The others lead to columns that no record has.
        let own = table.references.iter();
        let own = own.filter(|it| it.to_table == table.name && !table.works_out(&it.to_columns));
        let own: Vec<&Reference> = own.collect();
        let mut orphans = Vec::new();
        while !lost.is_empty() {
            let mut next = Vec::new();
            for reference in &own {
                let by = &reference.to_columns;
                let keys = lost.iter();
                let keys = keys.filter_map(|(_, row)| whole_key(columns, row, by));
                let keys: Vec<Vec<Value>> = keys.collect();
                let others = if may_be_others {
                    present(self.database, &table.name, by, &keys)?
                } else {
                    BTreeSet::new()
                };
                let gone: BTreeSet<Vec<u8>> = keys.iter().map(|it| encoded(it)).collect();
                let is_orphan = |row: &[Value]| {
                    whole_key(columns, row, &reference.columns).is_some_and(|key| {
                        let name = encoded(&key);
                        gone.contains(&name) && !others.contains(&name)
                    })
                };
                let (more, rest): (Vec<_>, Vec<_>) = std::mem::take(there)
                    .into_iter()
                    .partition(|(_, row)| is_orphan(row));
                *there = rest;
                next.extend(more);
            }
            may_be_others = false;
            orphans.extend(next.iter().map(|(original, _)| original.clone()));
            lost = next;
        }
        Ok(orphans)
    }
}
