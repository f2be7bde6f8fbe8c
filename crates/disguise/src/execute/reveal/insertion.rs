//! Rows that are inserted as far as the database takes them, and taken out again if its commit would
//! refuse them.

use std::collections::BTreeSet;

use super::late_keys::checked_at_once;
use super::put_back::Ready;
use super::report::KeptReason;
use super::stored_rows::{identities, moved_away};
use super::unseen_keys::has_own_unseen;
use super::write_back::WriteBack;
use crate::database::Property;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedTable};
use crate::statements::lax;
use crate::statements::row::{encoded, picked, whole_key};
use crate::statements::table::{Inserted, delete_keys, insertions, present, try_insert};

impl WriteBack<'_> {
    /// Inserts rows, without those whose parents among them the database refuses. Returns their number.
    pub(super) fn insert_whole(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let mut refused = Vec::new();
        // Nothing else looks at keys to tables of other schemas before the commit.
        let is_late = table.catalog.has(Property::RefersElsewhereLate);
        let done = checked_at_once(self.database, is_late, |database| {
            let mut checked = WriteBack {
                database,
                live: self.live,
                report: &mut *self.report,
            };
            checked.insert_ready(table, columns, ready, &mut refused)
        })?;
        if done.is_none() {
            let rows = ready.iter().map(|(row, _)| row.clone());
            refused.extend(rows.map(|row| (row, KeptReason::Refused)));
        }
        let done = done.unwrap_or(0);
        let unseen = self.take_back_unseen(table, columns, ready, &mut refused)?;
        let what = "more rows were taken back than went back";
        let done = done.checked_sub(unseen).ok_or(Error::Defect { what })?;
        if refused.is_empty() {
            return Ok(done);
        }
        let back = self.take_back_orphans(table, columns, (ready, &refused))?;
        let done = done.checked_sub(back.len());
        let done = done.ok_or(Error::Defect { what })?;
        kept.append(&mut refused);
        kept.extend(back.into_iter().map(|row| (row, KeptReason::ParentMissing)));
        Ok(done)
    }

    /// Check C1 by the database's own keys: a run that is refused is tried row by row.
    fn insert_ready(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &[(Vec<Value>, Vec<Value>)],
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let mut originals = ready.iter();
        let mut done: usize = 0;
        let dialect = self.database.dialect();
        for run in insertions(dialect, table, &rows, columns.len()) {
            let run_of: Vec<&(Vec<Value>, Vec<Value>)> =
                originals.by_ref().take(run.len()).collect();
            if try_insert(self.database, table, columns, run)? == Inserted::All {
                done = done.saturating_add(run.len());
                continue;
            }
            for (original, row) in run_of {
                let one = std::slice::from_ref(row);
                let mut put = try_insert(self.database, table, columns, one)?;
                if put == Inserted::Refused {
                    put = lax::insert(self.database, table, columns, row)?;
                }
                if put == Inserted::All {
                    done = done.saturating_add(1);
                    continue;
                }
                let key = picked(columns, row, &table.identity);
                let keys = [key];
                let reason = if !identities(self.database, table, &keys)?.is_empty() {
                    KeptReason::RowExists
                } else if !moved_away(self.database, table, &keys)?.is_empty() {
                    KeptReason::OtherTenant
                } else {
                    let identity = picked(columns, original, &table.identity);
                    self.report
                        .note_refusal(self.database.refusal(), &table.name, &identity, None);
                    KeptReason::Refused
                };
                kept.push((original.clone(), reason));
            }
        }
        Ok(done)
    }

    /// Takes out again those of the inserted rows that refer to nothing by such a key, and moves
    /// them to `kept`. Returns their number.
    fn take_back_unseen(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        inserted: &Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        if !has_own_unseen(table) {
            return Ok(0);
        }
        let refused: BTreeSet<Vec<u8>> = kept.iter().map(|(row, _)| encoded(row)).collect();
        let mut left: Vec<&(Vec<Value>, Vec<Value>)> = inserted.iter().collect();
        left.retain(|(original, _)| !refused.contains(&encoded(original)));
        let key = |row: &[Value]| picked(columns, row, &table.identity);
        let mut taken: usize = 0;
        // One of them may be the row to which another refers.
        loop {
            let keys: Vec<Vec<Value>> = left.iter().map(|(_, row)| key(row)).collect();
            let nowhere = self.late_keys().leading_nowhere(table, &keys)?;
            if nowhere.is_empty() {
                return Ok(taken);
            }
            let is_lost = |row: &[Value]| nowhere.contains(&encoded(&key(row)));
            let (lost, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|it| is_lost(&it.1));
            let keys: Vec<Vec<Value>> = lost.iter().map(|(_, row)| key(row)).collect();
            delete_keys(self.database, &table.name, &table.identity, &keys)?;
            taken = taken.saturating_add(lost.len());
            let lost = lost.into_iter().map(|(original, _)| original.clone());
            kept.extend(lost.map(|row| (row, KeptReason::ParentMissing)));
            left = rest;
        }
    }

    /// Takes out again the inserted rows whose parents among them the database refused: it may look
    /// at keys only when the reveal is committed, and would refuse the whole of it. Returns them as
    /// recorded.
    fn take_back_orphans(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        (inserted, refused): (&Ready, &[(Vec<Value>, KeptReason)]),
    ) -> Result<Vec<Vec<Value>>, Error> {
        let own = table.references.iter();
        let own: Vec<&Reference> = own.filter(|it| it.to_table == table.name).collect();
        let refused: BTreeSet<Vec<u8>> = refused.iter().map(|(row, _)| encoded(row)).collect();
        let is_refused = |original: &[Value]| refused.contains(&encoded(original));
        let (mut lost, mut there): (Ready, Ready) =
            (inserted.iter().cloned()).partition(|(original, _)| is_refused(original));
        let mut levels: Vec<Ready> = Vec::new();
        while !lost.is_empty() {
            let mut next = Vec::new();
            for reference in &own {
                let by = &reference.to_columns;
                let keys = lost.iter().map(|(_, row)| picked(columns, row, by));
                let keys: Vec<Vec<Value>> = keys.collect();
                // In place of a refused row somebody else's may have the key.
                let others = if levels.is_empty() {
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
                let (more, rest): (Vec<_>, Vec<_>) =
                    there.into_iter().partition(|(_, row)| is_orphan(row));
                there = rest;
                next.extend(more);
            }
            levels.push(next.clone());
            lost = next;
        }
        // A parent goes after its children.
        for rows in levels.iter().rev() {
            let keys = rows.iter();
            let keys = keys.map(|(_, row)| picked(columns, row, &table.identity));
            let keys: Vec<Vec<Value>> = keys.collect();
            delete_keys(self.database, &table.name, &table.identity, &keys)?;
        }
        let orphans = levels.into_iter().flatten();
        Ok(orphans.map(|(original, _)| original).collect())
    }
}
