//! The rows and values that a disguise of everybody gives to placeholders of other disguises alone.

use std::collections::{BTreeMap, BTreeSet};

use super::unawaited::Bags;
use crate::error::Error;
use crate::records::section::{Change, Section};
use crate::schema::ResolvedSchema;
use crate::statements::row::{encoded, picked};

/// Rows and values of records.
#[derive(Default)]
struct Recorded<'a> {
    /// Table and identity of each removed row.
    rows: BTreeSet<(&'a str, Vec<u8>)>,
    /// Table, column and identity of each overwritten value.
    values: BTreeSet<(&'a str, &'a str, Vec<u8>)>,
}

/// Returns the number of rows and values of each table whose records `placeholders` alone have.
/// Whatever these had left before counts with the others who owned it.
pub(super) fn under(
    live: &ResolvedSchema,
    bags: &Bags,
    placeholders: &[&Vec<u8>],
) -> Result<BTreeMap<String, u64>, Error> {
    let behind: BTreeSet<&Vec<u8>> = placeholders.iter().copied().collect();
    let (mut theirs, mut of_others) = (Recorded::default(), Recorded::default());
    for (owner, bag) in bags {
        let recorded = if behind.contains(owner) {
            &mut theirs
        } else {
            &mut of_others
        };
        for section in bag.sections.iter().filter(|it| !it.is_for_departed()) {
            record(live, recorded, section)?;
        }
    }
    let mut under = BTreeMap::new();
    let rows = theirs.rows.difference(&of_others.rows);
    // A value of a row that goes, too, is part of it.
    let values = theirs.values.difference(&of_others.values);
    let values = values.filter(|(table, _, identity)| {
        let row = (*table, identity.clone());
        !theirs.rows.contains(&row) && !of_others.rows.contains(&row)
    });
    let tables = rows.map(|(table, _)| *table);
    for table in tables.chain(values.map(|(table, _, _)| *table)) {
        let all: &mut u64 = under.entry(table.to_owned()).or_default();
        *all = all.saturating_add(1);
    }
    Ok(under)
}

/// Adds what `section` records.
fn record<'s>(
    live: &ResolvedSchema,
    recorded: &mut Recorded<'s>,
    section: &'s Section,
) -> Result<(), Error> {
    let what = "the table of a record is not in the schema";
    let table = live.table(&section.table);
    let key = &table.ok_or(Error::Defect { what })?.identity;
    let named = section.table.as_str();
    if let Some((columns, rows)) = section.whole_rows() {
        let keys = rows.map(|row| encoded(&picked(columns, row, key)));
        recorded.rows.extend(keys.map(|key| (named, key)));
    }
    match &section.change {
        Change::Removed { .. } | Change::Copied { .. } => {}
        Change::Modified { column, rows, .. } | Change::Decorrelated { column, rows, .. } => {
            let keys = rows.iter().map(|it| encoded(&it.identity));
            let values = keys.map(|key| (named, column.as_str(), key));
            recorded.values.extend(values);
        }
    }
    Ok(())
}
