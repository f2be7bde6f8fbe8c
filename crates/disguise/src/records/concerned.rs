//! Whom records concern beside the person whose they are: people whose rows, or values of rows, would be lost with them.

use std::collections::BTreeSet;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::hold::cohort;
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::at;
use crate::statements::table::{found, select_keys};

/// The most bytes that stand beside a record for the people whom it concerns.
const COHORTS_MAX: usize = 32;

/// The principals whom a bag concerns: the owners of rows that went or lost a value, and of rows that went whoever reads them.
pub(crate) fn people(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    bag: &Bag,
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut named = Vec::new();
    for section in &bag.sections {
        if let Some(table) = live.table(&section.table) {
            named.append(&mut of_section(database, live, (table, section))?);
        }
    }
    named.retain(|it| !it.is_nobody());
    let mut principals: BTreeSet<Vec<u8>> = named.iter().map(Value::principal).collect();
    // A hold is on the id as the users table spells it.
    named.retain(|it| it.has_spellings() && principals.contains(&it.principal()));
    let pseudo = &live.pseudo;
    let spelled = found(database, &pseudo.table, &pseudo.id, &named)?;
    principals.extend(spelled.values().map(Value::principal));
    Ok(principals)
}

/// A byte of a salted hash for each of `principals`, in order, so that a record can be kept from ending for them without a key;
/// none where these are very many, which stands for everybody.
pub(crate) fn cohorts(salt: &[u8], principals: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let bytes: BTreeSet<u8> = principals.iter().map(|it| cohort(salt, it)).collect();
    if bytes.len() > COHORTS_MAX {
        return Vec::new();
    }
    bytes.into_iter().collect()
}

fn of_section(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (table, section): (&ResolvedTable, &Section),
) -> Result<Vec<Value>, Error> {
    let is_users = table.name == live.pseudo.table;
    let of_row = |columns: &[String], row: &[Value]| -> Vec<Value> {
        let readers = (!is_users).then_some(&table.readers);
        let people = table.owners.iter().chain(readers.into_iter().flatten());
        people
            .filter_map(|it| at(columns, row, it).cloned())
            .collect()
    };
    match &section.change {
        Change::Removed { columns, rows } => {
            Ok(rows.iter().flat_map(|row| of_row(columns, row)).collect())
        }
        Change::Copied { columns, rows, .. } => {
            let rows = rows.iter().map(|it| it.row.as_slice());
            Ok(rows.flat_map(|row| of_row(columns, row)).collect())
        }
        Change::Modified { identity, rows, .. } => {
            owners_now(database, table, (identity, rows), |_| true)
        }
        // Whoever is replaced keeps nothing from others; a reference that was emptied is part of their row.
        Change::Decorrelated { identity, rows, .. } => {
            owners_now(database, table, (identity, rows), |row| row.after.is_null())
        }
    }
}

/// The owners of the rows that lost values, as they are now.
fn owners_now(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    (identity, rows): (&[String], &[Modified]),
    is_meant: impl Fn(&&Modified) -> bool,
) -> Result<Vec<Value>, Error> {
    if identity != table.identity || table.owners.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Vec<Value>> = rows
        .iter()
        .filter(is_meant)
        .map(|row| row.identity.clone())
        .collect();
    let named = select_keys(database, &table.name, &table.owners, identity, &keys)?;
    Ok(named.into_iter().flatten().collect())
}
