//! Overwritten values of several columns of the same rows, which one disguise wrote together, go back together.

use std::collections::{BTreeMap, BTreeSet};

use super::current_owner::tells;
use super::late_keys::must_look;
use super::report::KeptReason;
use super::rewrite::{Values, is_covered, within_reach};
use super::stored_rows::moved_away;
use super::write_back::is_constraint;
use super::{Sections, fits};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::overwrite::{Write, try_update_keys};
use crate::statements::row::encoded;
use crate::statements::stored::is_same;

/// The values of a column on their way back.
struct Column {
    name: String,
    /// Values by the number of their row.
    ready: BTreeMap<usize, Modified>,
    kept: Vec<(Modified, KeptReason)>,
}

impl Values<'_, '_> {
    /// Check C2 for such sections: writes values back where the disguised value still stands.
    /// Returns the sections that stay.
    pub(super) fn rewrite_together(
        &mut self,
        mut sections: Sections,
        barred: &BTreeSet<Vec<u8>>,
    ) -> Result<Sections, Error> {
        let live = self.owners.people.live;
        let known = sections.first().map(|(_, section)| section.table.as_str());
        let Some(table) = known.and_then(|name| live.table(name)) else {
            return Ok(sections);
        };
        for (_, section) in &mut sections {
            if let Change::Modified { rows, .. } = &mut section.change {
                self.owners.moved_keys().follow(table, rows)?;
            }
        }
        let mut columns = self.judged(table, &sections, barred)?;
        self.write_whole(table, &mut columns)?;
        for column in &mut columns {
            let ready = std::mem::take(&mut column.ready).into_values();
            let ready = ready.map(|row| {
                let before = row.before.clone();
                (row, before)
            });
            let done = self.write_back().write(
                table,
                (&column.name, false),
                ready.collect(),
                &mut column.kept,
            )?;
            self.report.count_values(&table.name, done);
            for (row, reason) in &column.kept {
                self.report
                    .keep(&table.name, &row.identity, Some(&column.name), *reason);
            }
        }
        let left = sections.into_iter().zip(columns);
        let left = left.filter(|(_, column)| !column.kept.is_empty());
        Ok(left
            .map(|((index, section), column)| {
                let rows = column.kept.into_iter().map(|(row, _)| row).collect();
                let change = Change::Modified {
                    identity: table.identity.clone(),
                    column: column.name,
                    rows,
                };
                (index, Section { change, ..section })
            })
            .collect())
    }

    /// Returns the values that may go back, and the reasons for the others.
    fn judged(
        &mut self,
        table: &ResolvedTable,
        sections: &Sections,
        barred: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Column>, Error> {
        let values = || sections.iter().filter_map(|(_, section)| section.values());
        let rows = values().next().map_or(&[][..], |(_, rows)| rows);
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let asked: Vec<&str> = values().map(|(column, _)| column).collect();
        let current = self.owners.rows_now(table, &asked, rows)?;
        let absent = |key: &&Vec<Value>| !current.contains_key(&encoded(key));
        let absent: Vec<Vec<Value>> = keys.iter().filter(absent).cloned().collect();
        let moved = moved_away(self.owners.database, table, &absent)?;
        let mut columns = Vec::with_capacity(sections.len());
        for (place, (name, rows)) in values().enumerate() {
            let mut column = Column {
                name: name.to_owned(),
                ready: BTreeMap::new(),
                kept: Vec::new(),
            };
            for (index, row) in rows.iter().enumerate() {
                let now = current.get(&encoded(&row.identity));
                let is_covered = now.is_some_and(|now| is_covered(now, place, (table, name), row));
                let is = |one, other| is_same(table, name, one, other);
                match within_reach(now, (table, row), (place, false), &moved, barred) {
                    Err(KeptReason::Absent)
                        if self.owners.people.is_of_gone_account(table, row) => {}
                    Err(reason) => column.kept.push((row.clone(), reason)),
                    Ok(_) if is_covered => column.kept.push((row.clone(), KeptReason::Covered)),
                    Ok(now) if is(now, &row.after) => {
                        column.ready.insert(index, row.clone());
                    }
                    Ok(now) if is(now, &row.before) || is(&row.before, &row.after) => {}
                    Ok(_) => column.kept.push((row.clone(), KeptReason::Changed)),
                }
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Writes rows all of whose values may go back. Rows that the database refuses are tried column
    /// by column later.
    fn write_whole(&mut self, table: &ResolvedTable, columns: &mut [Column]) -> Result<(), Error> {
        let Some((first, others)) = columns.split_first() else {
            return Ok(());
        };
        let is_whole = |index: &usize| others.iter().all(|it| it.ready.contains_key(index));
        let whole: Vec<usize> = first.ready.keys().copied().filter(is_whole).collect();
        let of = |index: &usize| -> Option<(Vec<Value>, Vec<Value>)> {
            let identity = first.ready.get(index)?.identity.clone();
            let values = columns.iter().filter_map(|it| it.ready.get(index));
            Some((identity, values.map(|row| row.before.clone()).collect()))
        };
        let rows: Vec<(Vec<Value>, Vec<Value>)> = whole.iter().filter_map(of).collect();
        let writes: Vec<Write<'_>> = rows
            .iter()
            .map(|(identity, values)| Write { identity, values })
            .collect();
        let names: Vec<&str> = columns.iter().map(|it| it.name.as_str()).collect();
        if must_look(self.owners.people.live, table, (&names, false)) {
            return Ok(());
        }
        match try_update_keys(self.owners.database, table, &names, &writes) {
            Ok(()) => {}
            Err(error) if is_constraint(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        for column in columns {
            column
                .ready
                .retain(|index, _| whole.binary_search(index).is_err());
            self.report.count_values(&table.name, whole.len());
        }
        Ok(())
    }
}

/// Returns the number of leading `sections` with values of the same rows, each in a column of
/// its own that names neither the row nor its owner.
pub(super) fn alike(live: &ResolvedSchema, sections: &[(usize, Section)]) -> usize {
    let mut columns = BTreeSet::new();
    let first = sections.first().map(|(_, section)| section);
    let rows = first.and_then(Section::values).map(|(_, rows)| rows);
    let (Some(first), Some(rows)) = (first, rows) else {
        return 1;
    };
    let Some(table) = live.table(&first.table) else {
        return 1;
    };
    let pseudo = &live.pseudo;
    let alike = sections.iter().take_while(|(_, section)| {
        let Some((column, of)) = section.values() else {
            return false;
        };
        let names_row = table.identity.iter().any(|it| it == column)
            || tells(table, column)
            || (table.name == pseudo.table && column == pseudo.id);
        let mut both = of.iter().zip(rows);
        section.table == first.table
            && fits(table, section)
            && !names_row
            && of.len() == rows.len()
            && both.all(|(one, other)| one.identity == other.identity)
            && columns.insert(column)
    });
    alike.count().max(1)
}
