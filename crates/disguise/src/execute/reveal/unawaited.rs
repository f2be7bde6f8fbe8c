//! Rows for which a removed row does not wait: it comes back without them.

use std::collections::{BTreeMap, BTreeSet};

use super::Revealer;
use crate::database::value::Value;
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
pub(super) fn keys(live: &ResolvedSchema, unawaited: &[Unawaited]) -> Keys {
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
