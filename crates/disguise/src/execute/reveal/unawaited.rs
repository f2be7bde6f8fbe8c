//! Rows for which a removed row does not wait: it comes back without them.

use std::collections::{BTreeMap, BTreeSet};

use super::spilled_bags::Closed;
use super::{Open, Sections};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::Section;
use crate::records::unawaited::Unawaited;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::row::{encoded, whole_key};

/// Keys of rows, by table and columns.
pub(super) type Keys = BTreeMap<(String, Vec<String>), BTreeSet<Vec<u8>>>;

/// The rows for which removed rows do not wait.
#[derive(Default)]
pub(super) struct Waits {
    /// The keys that each open bag notes.
    noted: Vec<Keys>,
    /// The keys of rows that are about to come back as well.
    coming: Keys,
    /// True once nothing else helps: rows begin without those that are about to come back, and
    /// accounts without any row.
    pub(super) begins: bool,
}

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

impl Waits {
    /// Finds out for which rows those of the open bags do not wait, and which of these rows the
    /// returning person holds: they are about to come back as well.
    pub(super) fn meet(
        &mut self,
        database: &mut dyn TenantConnection,
        live: &ResolvedSchema,
        opened: &[Open<'_>],
        (due, closed): (&Sections, &Closed<'_>),
    ) -> Result<(), Error> {
        let unawaited = opened.iter().map(|it| &it.bag.unawaited);
        self.noted = unawaited.map(|it| keys(live, it)).collect();
        let all = self.noted.iter().flat_map(BTreeMap::keys);
        let all: BTreeSet<(String, Vec<String>)> = all.cloned().collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut own = Keys::new();
        let mut note = |section: &Section| {
            for (table, by) in all.iter().filter(|(table, _)| *table == section.table) {
                let names = own.entry((table.clone(), by.clone())).or_default();
                if let Some((columns, rows)) = section.whole_rows() {
                    let keys = rows.filter_map(|row| whole_key(columns, row, by));
                    names.extend(keys.map(|key| encoded(&key)));
                }
            }
        };
        for (_, section) in due {
            note(section);
        }
        closed.each(database, &mut note)?;
        self.coming = own;
        Ok(())
    }

    /// Returns how a row of the bag with number `index` comes back while the row with this key, to
    /// which it refers, is not there. Rows wait for their owners, who may have left with another
    /// disguise: were an account to wait for rows as well, circles would close that no record shows.
    pub(super) fn without<'r>(
        &self,
        live: &ResolvedSchema,
        (table, index): (&ResolvedTable, usize),
        reference: &'r Reference,
        key: &[Value],
    ) -> Without<'r> {
        let to = (reference.to_table.clone(), reference.to_columns.clone());
        let name = encoded(key);
        let has = |keys: &Keys| keys.get(&to).is_some_and(|keys| keys.contains(&name));
        let is_noted = self.noted.get(index).is_some_and(has);
        let may_begin = if self.begins {
            is_noted || table.name == live.pseudo.table
        } else {
            is_noted && !has(&self.coming)
        };
        if !may_begin {
            return Without::Waits;
        }
        if !table.declares(reference) {
            return Without::Dangles;
        }
        let column = live.emptiable(table, reference);
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
            let names = rows.keys.iter();
            let names = names.filter_map(|key| whole_key(&rows.columns, key, by));
            all.extend(names.map(|key| encoded(&key)));
        }
    }
    keys
}
