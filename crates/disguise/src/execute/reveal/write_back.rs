//! Values and rows that are written back as far as the database takes them, with its report of the
//! others.

use std::mem::take;

use super::late_keys::{LateKeys, checked_at_once, is_late_elsewhere, must_look};
use super::report::{KeptReason, Report, cell_name};
use super::unseen_keys::has_unseen_keys;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::cascade::{emptied, may_empty};
use crate::records::section::Modified;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::lax;
pub(super) use crate::statements::overwrite::is_constraint;
use crate::statements::overwrite::{Write, try_update_keys};
use crate::statements::row::encoded;

/// The database as it takes rows and values back, whoever owns them.
pub(super) struct WriteBack<'d> {
    pub(super) database: &'d mut dyn TenantConnection,
    pub(super) live: &'d ResolvedSchema,
    pub(super) report: &'d mut Report,
}

impl WriteBack<'_> {
    /// Begins to look at keys that are checked at the commit.
    pub(super) fn late_keys(&mut self) -> LateKeys<'_> {
        LateKeys {
            database: &mut *self.database,
            live: self.live,
        }
    }

    /// Writes values back; the others go to `kept`. Returns the number written.
    pub(super) fn write(
        &mut self,
        table: &ResolvedTable,
        (column, owner): (&str, bool),
        mut ready: Vec<(Modified, Value)>,
        kept: &mut Vec<(Modified, KeptReason)>,
    ) -> Result<usize, Error> {
        if !must_look(self.live, table, (&[column], owner)) {
            return self.write_free(table, column, ready, kept);
        }
        let mut reasons = self
            .late_keys()
            .in_the_way(table, (column, owner), &ready)?;
        if has_unseen_keys(self.live, table) {
            reasons.extend(self.late_keys().tried_unseen(table, column, &ready)?);
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
        let done = checked_at_once(self.database, is_late, |database| {
            let mut free = WriteBack {
                database,
                live: self.live,
                report: &mut *self.report,
            };
            free.write_free(table, column, take(&mut ready), kept)
        })?;
        for (row, _) in ready {
            self.report.note_refusal(
                self.database.refusal(),
                &table.name,
                &row.identity,
                Some(column),
            );
            kept.push((row, KeptReason::Refused));
        }
        Ok(done.unwrap_or(0))
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

fn write<'r>(row: &'r Modified, target: &'r Value) -> Write<'r> {
    Write {
        identity: &row.identity,
        values: std::slice::from_ref(target),
    }
}
