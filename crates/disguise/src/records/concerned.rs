//! Other people whom a record concerns: their rows, or values of rows, would be lost with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::hold::{Held, cohort};
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::path_end::{RemovedRows, ends_over};
use crate::statements::row::{at, encoded, picked, put};
use crate::statements::table::{found, select_keys};

/// The most bytes that stand beside a record for the people whom it concerns.
const COHORTS_MAX: usize = 32;

/// The people whom a record concerns.
pub(crate) enum Concerned {
    /// These principals.
    People(BTreeSet<Vec<u8>>),
    /// These people, and unknown ones, because a row or column is not where it was: a hold on
    /// anybody counts.
    Anybody,
}

impl Concerned {
    /// Returns a byte of a salted hash for `owner` and each person concerned, in order. With it a
    /// record can be kept from ending for them without a key. It is empty, which stands for
    /// everybody, if these are very many or unknown.
    pub(crate) fn cohorts(self, salt: &[u8], owner: &[u8]) -> Vec<u8> {
        let Self::People(mut principals) = self else {
            return Vec::new();
        };
        principals.insert(owner.to_vec());
        let bytes: BTreeSet<u8> = principals.iter().map(|it| cohort(salt, it)).collect();
        if bytes.len() > COHORTS_MAX {
            return Vec::new();
        }
        bytes.into_iter().collect()
    }

    /// Refuses if a person is held who is concerned, or may be.
    pub(crate) fn refuse_held(&self, salt: &[u8], held: &Held) -> Result<(), Error> {
        match self {
            Self::People(people) => held.refuse_any(salt, people.iter()),
            Self::Anybody if held.has_people() => Err(Error::Held { held: UNTOLD }),
            Self::Anybody => Ok(()),
        }
    }
}

/// The reason to report for a hold that may be on anybody.
const UNTOLD: &str = "a person, whose rows may be among them because a table, an owner column or a row is not where it was,";

/// Notes the rows that a bag holds whole.
pub(crate) fn note_removed<'b>(removed: &mut RemovedRows<'b>, bag: &'b Bag) {
    for section in &bag.sections {
        if let Some((columns, rows)) = section.whole_rows() {
            removed.add(&section.table, columns, rows);
        }
    }
}

/// Returns the people whom a bag concerns: the owners of rows that were removed or lost a value,
/// and for removed rows their readers. `removed` are rows that are used if the database does not
/// have them any more.
pub(crate) fn people(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (bag, removed): (&Bag, &RemovedRows<'_>),
) -> Result<Concerned, Error> {
    let mut named = Vec::new();
    for section in &bag.sections {
        let of_section = match live.table(&section.table) {
            Some(table) => of_section(database, live, (table, section), removed)?,
            None => None,
        };
        let Some(mut people) = of_section else {
            return Ok(Concerned::Anybody);
        };
        named.append(&mut people);
    }
    named.retain(|it| !it.is_nobody());
    let mut principals: BTreeSet<Vec<u8>> = named.iter().map(Value::principal).collect();
    // A hold is on the id as the users table spells it.
    named.retain(|it| it.has_spellings() && principals.contains(&it.principal()));
    let pseudo = &live.pseudo;
    let spelled = found(database, &pseudo.table, &pseudo.id, &named)?;
    principals.extend(spelled.values().map(Value::principal));
    Ok(Concerned::People(principals))
}

/// Returns the people of a section; nothing if they are unknown.
fn of_section(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (table, section): (&ResolvedTable, &Section),
    removed: &RemovedRows<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    let is_users = table.name == live.pseudo.table;
    let readers = (!is_users).then_some(&table.readers);
    let people: Vec<&String> = table
        .owners
        .iter()
        .chain(readers.into_iter().flatten())
        .collect();
    match &section.change {
        Change::Removed { columns, rows } => {
            let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
            named_by(database, (table, &people), (columns, &rows), removed)
        }
        Change::Copied { columns, rows, .. } => {
            let rows: Vec<&[Value]> = rows.iter().map(|it| it.row.as_slice()).collect();
            named_by(database, (table, &people), (columns, &rows), removed)
        }
        Change::Modified {
            identity,
            column,
            rows,
        } => {
            let rows: Vec<&Modified> = rows.iter().collect();
            owners_now(database, table, (identity, column, &rows), removed)
        }
        // A replaced person keeps nothing from others; an emptied reference is part of their row.
        Change::Decorrelated {
            identity,
            column,
            rows,
        } => {
            let rows: Vec<&Modified> = rows.iter().filter(|row| row.after.is_null()).collect();
            owners_now(database, table, (identity, column, &rows), removed)
        }
    }
}

/// Returns the people whom rows name in the columns `people`, and the owners to whom the path of
/// the table leads.
fn named_by(
    database: &mut dyn TenantConnection,
    (table, people): (&ResolvedTable, &[&String]),
    (columns, rows): (&[String], &[&[Value]]),
    removed: &RemovedRows<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    if rows.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if !people.iter().all(|it| columns.contains(it)) {
        return Ok(None);
    }
    let named = rows.iter();
    let named = named.flat_map(|row| people.iter().filter_map(|it| at(columns, row, it).cloned()));
    let mut named: Vec<Value> = named.collect();
    if let Some(path) = &table.path {
        for end in ends_over(database, path, (columns, rows), removed)? {
            if end.is_lost {
                return Ok(None);
            }
            named.extend(end.owners);
        }
    }
    Ok(Some(named))
}

/// Returns the owners of the rows that lost values of `column`, at present and with the value
/// restored.
fn owners_now(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    (identity, column, lost): (&[String], &str, &[&Modified]),
    removed: &RemovedRows<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    let is_nobodys = table.owners.is_empty() && table.path.is_none();
    if lost.is_empty() || is_nobodys && table.readers.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if identity != table.identity {
        return Ok(None);
    }
    let first = table.path.as_ref().and_then(|path| path.steps.first());
    let through = first.into_iter().flat_map(|step| &step.columns);
    let mut columns = identity.to_vec();
    for extra in table.owners.iter().chain(through) {
        if !columns.contains(extra) {
            columns.push(extra.clone());
        }
    }
    let mut before = BTreeMap::new();
    for row in lost {
        before.insert(encoded(&row.identity), *row);
    }
    let keys: Vec<Vec<Value>> = before.values().map(|row| row.identity.clone()).collect();
    let mut rows = select_keys(database, &table.name, &columns, identity, &keys)?;
    let there: BTreeSet<Vec<u8>> = rows
        .iter()
        .map(|row| encoded(&picked(&columns, row, identity)))
        .collect();
    if there.len() < before.len() {
        let gone = before.keys().filter(|key| !there.contains(*key));
        let gone: BTreeSet<Vec<u8>> = gone.cloned().collect();
        let found = removed.by_key(&table.name, identity, &gone);
        if there.len().saturating_add(found.len()) < before.len() {
            return Ok(None);
        }
        for (of, row) in found.into_values().flatten() {
            let row = picked(of, row, &columns);
            if row.len() < columns.len() {
                return Ok(None);
            }
            rows.push(row);
        }
    }
    let mut restored = rows.clone();
    for row in &mut restored {
        if let Some(it) = before.get(&encoded(&picked(&columns, row, identity))) {
            put(&columns, row, column, it.before.clone());
        }
    }
    rows.append(&mut restored);
    let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
    let owners: Vec<&String> = table.owners.iter().collect();
    named_by(database, (table, &owners), (&columns, &rows), removed)
}
