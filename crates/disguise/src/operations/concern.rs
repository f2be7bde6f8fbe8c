//! Holds on people whom the records of somebody else concern.

use std::collections::BTreeSet;

use super::options::Options;
use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::execute::update::{self, Updates};
use crate::records::bag::Bag;
use crate::records::concerned::{self, Concerned};
use crate::records::hold::Held;
use crate::records::principal::Reached;
use crate::statements::path_end::RemovedRows;
use crate::transaction::transactions::Transactions;

/// The savepoint that undoes the update of the records after they were read.
const SAVEPOINT: &str = "SAVEPOINT probity_concern";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_concern";
const RELEASE: &str = "RELEASE SAVEPOINT probity_concern";

/// Refuses if the records hold, or may hold, rows or values of a person who is held. The
/// records are read in the form that later updates give them. Rows that the database no longer
/// has are looked up in the other records that the credential reaches.
pub(super) fn refuse_concerned<'r, D: Database>(
    open: &mut Transactions<D>,
    options: &Options,
    (salt, held): (&[u8], &Held),
    records: impl Iterator<Item = &'r Reached>,
    reach: &[Reached],
) -> Result<(), Error> {
    if !held.has_people() {
        return Ok(());
    }
    open.refresh()?;
    let recorded = update::recorded(&mut open.database)?;
    let (catalog, live) = open.application.described()?;
    let updates = Updates {
        recorded: &recorded,
        code: &options.updates,
        catalog,
        live,
        salt,
        gone: BTreeSet::new(),
    };
    let database = &mut open.database;
    let doing = "reading without a change";
    // Updates note the new places of shared rows, for a reveal; here the notes are undone.
    database.execute(SAVEPOINT, &[]).doing(doing)?;
    let mut outcome = Ok(());
    let mut others = None;
    for it in records {
        // What cannot be read may concern anybody.
        let Some(bag) = read(database, &updates, it)? else {
            outcome = Concerned::Anybody.refuse_held(salt, held);
            break;
        };
        let mut removed = RemovedRows::default();
        concerned::note_removed(&mut removed, &bag);
        let mut people = concerned::people(database, live, (&bag, &removed))?;
        if matches!(people, Concerned::Anybody) {
            if others.is_none() {
                let all = reach.iter().map(|it| read(database, &updates, it));
                others = Some(all.collect::<Result<Vec<Option<Bag>>, Error>>()?);
            }
            for other in others.iter().flatten().flatten() {
                concerned::note_removed(&mut removed, other);
            }
            people = concerned::people(database, live, (&bag, &removed))?;
        }
        outcome = people.refuse_held(salt, held);
        if outcome.is_err() {
            break;
        }
    }
    database.execute(BACK, &[]).doing(doing)?;
    database.execute(RELEASE, &[]).doing(doing)?;
    outcome
}

/// Returns whether a hold keeps a record whose end is over: on its person, its disguise or a
/// person it concerns.
pub(super) fn is_kept<D: Database>(
    open: &mut Transactions<D>,
    options: &Options,
    (salt, held): (&[u8], &Held),
    user: &Value,
    (record, reach): (&Reached, &[Reached]),
) -> Result<bool, Error> {
    let id = DisguiseId(record.found.locator.origin.disguise);
    if held.keeps(salt, user, id) {
        return Ok(true);
    }
    match refuse_concerned(open, options, (salt, held), std::iter::once(record), reach) {
        Ok(()) => Ok(false),
        Err(Error::Held { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Reads a record in the form that later updates give it, if it can be read.
fn read(
    database: &mut dyn TenantConnection,
    updates: &Updates<'_>,
    record: &Reached,
) -> Result<Option<Bag>, Error> {
    let Some(mut bag) = record.read(database)? else {
        return Ok(None);
    };
    updates.apply(database, &mut bag, record.found.locator.origin.updates)?;
    Ok(Some(bag))
}
