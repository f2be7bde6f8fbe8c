//! Rows for which a removed row does not wait: it comes back without them.

use std::collections::{BTreeMap, BTreeSet};

use super::spilled_bags::Closed;
use super::{Open, Revealer, Sections};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Section};
use crate::records::unawaited::Unawaited;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::row::{encoded, picked};

/// Keys of rows, by table and columns.
pub(super) type Keys = BTreeMap<(String, Vec<String>), BTreeSet<Vec<u8>>>;

/// The way in which a row comes back whose reference leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Without<'r> {
    /// Not at all: it waits for the other row.
    Waits,
    /// As it was; the database does not enforce the reference.
    Dangles,
    /// With NULL in this column, until the other row is there.
    Empty(&'r String),
}

impl Revealer<'_> {
    /// Finds out for which rows those of the open bags do not wait. Rows that the returning person
    /// holds are waited for: they are about to come back as well.
    pub(super) fn meet_unawaited(
        &mut self,
        opened: &[Open<'_>],
        (due, closed): (&Sections, &Closed<'_>),
    ) -> Result<(), Error> {
        let unawaited = opened.iter().map(|it| &it.bag.unawaited);
        self.unawaited = unawaited.map(|it| keys(self.live, it)).collect();
        let all = self.unawaited.iter().flat_map(BTreeMap::keys);
        let all: BTreeSet<(String, Vec<String>)> = all.cloned().collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut own = Keys::new();
        let mut note = |section: &Section| {
            for (table, by) in all.iter().filter(|(table, _)| *table == section.table) {
                let names = own.entry((table.clone(), by.clone())).or_default();
                let mut note = |columns: &[String], row: &[Value]| {
                    names.insert(encoded(&picked(columns, row, by)));
                };
                match &section.change {
                    Change::Removed { columns, rows } => {
                        for row in rows {
                            note(columns, row);
                        }
                    }
                    Change::Copied { columns, rows, .. } => {
                        for it in rows {
                            note(columns, &it.row);
                        }
                    }
                    Change::Modified { .. } | Change::Decorrelated { .. } => {}
                }
            }
        };
        for (_, section) in due {
            note(section);
        }
        closed.each(self.database, &mut note)?;
        for keys in &mut self.unawaited {
            for (to, keys) in keys {
                if let Some(own) = own.get(to) {
                    keys.retain(|key| !own.contains(key));
                }
            }
        }
        Ok(())
    }

    /// Returns how a row of the bag with number `index` comes back while the row with this key, to
    /// which it refers, is not there.
    pub(super) fn without<'r>(
        &self,
        (table, index): (&ResolvedTable, usize),
        reference: &'r Reference,
        key: &[Value],
    ) -> Without<'r> {
        let to = (reference.to_table.clone(), reference.to_columns.clone());
        let keys = self.unawaited.get(index).and_then(|keys| keys.get(&to));
        if !keys.is_some_and(|keys| keys.contains(&encoded(key))) {
            return Without::Waits;
        }
        if !table.declares(reference) {
            return Without::Dangles;
        }
        let column = self.live.emptiable(table, reference);
        column.map_or(Without::Waits, Without::Empty)
    }
}

/// Returns the keys of a bag for which rows do not wait, by the columns by which references lead to
/// them.
fn keys(live: &ResolvedSchema, unawaited: &[Unawaited]) -> Keys {
    let mut keys = Keys::new();
    for rows in unawaited {
        let references = live.tables.values().flat_map(|it| &it.references);
        let references = references.filter(|it| {
            let mut columns = it.to_columns.iter();
            it.to_table == rows.table && columns.all(|column| rows.columns.contains(column))
        });
        let by: BTreeSet<&Vec<String>> = references.map(|it| &it.to_columns).collect();
        for by in by {
            let all = keys.entry((rows.table.clone(), by.clone())).or_default();
            let names = rows.keys.iter().map(|key| picked(&rows.columns, key, by));
            all.extend(names.map(|key| encoded(&key)));
        }
    }
    keys
}
