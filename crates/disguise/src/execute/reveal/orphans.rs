//! Rows whose parents are not there wait with them (check C3).

use std::collections::BTreeSet;

use super::Revealer;
use super::put_back::{Ready, names_one_of};
use super::report::KeptReason;
use super::unawaited::Without;
use crate::database::Property;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedTable};
use crate::statements::row::{encoded, picked, put, whole_key};
use crate::statements::table::{delete_keys, present};

/// A reference of the rows that go back.
struct Parents<'t> {
    reference: &'t Reference,
    /// The keys of parents that are in the database.
    there: BTreeSet<Vec<u8>>,
    may_dangle: bool,
}

impl Revealer<'_> {
    /// Moves rows whose parents are missing to `kept`; parents may be among the rows themselves.
    pub(super) fn drop_orphans(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        ready: &mut Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<(), Error> {
        let mut parents = Vec::with_capacity(table.references.len());
        for reference in &table.references {
            let mut seen = BTreeSet::new();
            let keys = ready
                .iter()
                .filter_map(|(_, row)| whole_key(columns, row, &reference.columns));
            let keys: Vec<Vec<Value>> = keys.filter(|key| seen.insert(encoded(key))).collect();
            let by = &reference.to_columns;
            parents.push(Parents {
                reference,
                there: present(self.database, &reference.to_table, by, &keys)?,
                may_dangle: self.live.may_dangle(table, reference),
            });
        }
        let nobody = self.nobody.get(index);
        // A row that goes, or whose column is emptied, may be the parent of others by another
        // reference.
        loop {
            let mut is_settled = true;
            for of in &parents {
                let by = &of.reference.to_columns;
                let own: BTreeSet<Vec<u8>> = if of.reference.to_table == table.name {
                    let rows = ready.iter();
                    rows.map(|(_, row)| encoded(&picked(columns, row, by)))
                        .collect()
                } else {
                    BTreeSet::new()
                };
                let missing = |row: &[Value]| {
                    whole_key(columns, row, &of.reference.columns).filter(|key| {
                        let name = encoded(key);
                        let is_nobody = of.may_dangle && names_one_of(nobody, key);
                        !is_nobody && !of.there.contains(&name) && !own.contains(&name)
                    })
                };
                for (original, mut row) in std::mem::take(ready) {
                    let without =
                        missing(&row).map(|key| self.without((table, index), of.reference, &key));
                    match without {
                        Some(Without::Waits) => {
                            kept.push((original, KeptReason::ParentMissing));
                            is_settled = false;
                            continue;
                        }
                        Some(Without::Empty(column)) => {
                            put(columns, &mut row, column, Value::Null);
                            is_settled = false;
                        }
                        Some(Without::Dangles) | None => {}
                    }
                    ready.push((original, row));
                }
            }
            if is_settled {
                return Ok(());
            }
        }
    }

    /// Inserts rows, without those whose parents among them the database refuses. Returns their number.
    pub(super) fn insert_whole(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &Ready,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let mut refused = Vec::new();
        let done = if table.catalog.has(Property::RefersElsewhereLate) {
            self.insert_at_once(table, columns, ready, &mut refused)?
        } else {
            self.insert_ready(table, columns, ready, &mut refused)?
        };
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

    /// Inserts rows while the database checks keys that it could look at when the reveal is committed:
    /// those to tables of other schemas are nowhere else looked at.
    fn insert_at_once(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &Ready,
        refused: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        if !self.check_at_once()? {
            let rows = ready.iter().map(|(row, _)| row.clone());
            refused.extend(rows.map(|row| (row, KeptReason::Refused)));
            return Ok(0);
        }
        let done = self.insert_ready(table, columns, ready, refused)?;
        self.check_late()?;
        Ok(done)
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
