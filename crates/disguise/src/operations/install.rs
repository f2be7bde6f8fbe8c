//! The installation: the tables of the engine, and the stored description of the application.

use std::sync::Arc;

use super::engine::{Engine, stored_description};
use crate::database::{CatalogTable, Database};
use crate::error::Error;
use crate::records::installation::{self, Installation};
use crate::records::{settings, shape};
use crate::schema::{Pseudo, Schema};
use crate::transaction::transactions::Transactions;

impl<D: Database> Engine<D> {
    /// Creates missing tables of the engine and stores the description of the application, so that
    /// a reveal needs no file. Nothing of the application is changed.
    ///
    /// # Errors
    /// [`Error::Spec`] when the description does not fit the database, [`Error::Database`],
    /// [`Error::RecordsLost`].
    pub fn install(&mut self) -> Result<(), Error> {
        install(&mut self.transactions)
    }
}

/// Prepares the database for the description that is in force, unless it is.
pub(super) fn install<D: Database>(transactions: &mut Transactions<D>) -> Result<(), Error> {
    transactions.refresh()?;
    let text = transactions.application.description()?;
    let database = &mut transactions.database;
    installation::refuse_lost(database)?;
    let installation = Installation::new(database.dialect(), &text);
    if installation.is_done(database)? {
        return Ok(());
    }
    installation::lock(database)?;
    let outcome = prepare(transactions, &installation);
    installation::unlock(&mut transactions.database);
    outcome
}

/// Prepares the database under the installation lock. The tables come first, because `MariaDB`
/// ends the transaction with each of them; without a salt they do not count as installed.
fn prepare<D: Database>(
    transactions: &mut Transactions<D>,
    installation: &Installation<'_>,
) -> Result<(), Error> {
    if !installation.has_tables(&mut transactions.database)? {
        transactions.transaction_of_all(|open| installation::create(&mut open.database))?;
    }
    let work = |open: &mut Transactions<D>| {
        installation.note_tables(&mut open.database)?;
        refuse_other_people(open)?;
        put_shapes(open)?;
        if installation.is_described(&mut open.database)? {
            return Ok(());
        }
        settings::put_description(&mut open.database, installation.description)
    };
    transactions.tried_of_all(work)
}

/// Stores the shapes of all tables beforehand: operations that were the first to use one would wait
/// for each other.
fn put_shapes<D: Database>(open: &mut Transactions<D>) -> Result<(), Error> {
    let (_, live) = open.application.described()?;
    let shapes: Vec<_> = live
        .tables
        .values()
        .map(|it| Arc::clone(it.shape()))
        .collect();
    let database = &mut open.database;
    shape::find_stored(database)?;
    shape::put_new(database, shapes.iter())
}

/// Refuses a description of other people than the stored one's, while anybody of theirs is
/// registered or anything is hidden.
fn refuse_other_people<D: Database>(open: &mut Transactions<D>) -> Result<(), Error> {
    match stored_description(&mut open.database) {
        Ok((schema, pseudo)) => {
            refuse_other_tenancy(open, &schema)?;
            refuse_other_users(open, &pseudo)
        }
        Err(Error::NotInstalled) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses another users table beside the one whose people are registered: they are known by their
/// ids, which would be taken for those of the other table.
fn refuse_other_users<D: Database>(
    open: &mut Transactions<D>,
    before: &Pseudo,
) -> Result<(), Error> {
    let now = open.application.pseudo().clone();
    let (catalog, _) = open.application.described()?;
    // A table that is gone has another name since.
    let is_there = |it: &CatalogTable| it.column(&before.id).is_some();
    let is_same = (&before.table, &before.id) == (&now.table, &now.id);
    if is_same || !catalog.get(&before.table).is_some_and(is_there) {
        return Ok(());
    }
    if settings::is_in_use(&mut open.database)? {
        return Err(Error::Value {
            what: format!(
                "people are registered by {} of {}, and their ids would be taken for those by {} of {}; keep to the users table of before, or reveal what is hidden and forget everybody first",
                before.id, before.table, now.id, now.table
            ),
        });
    }
    Ok(())
}

/// Refuses to introduce tenants, or to give them up.
fn refuse_other_tenancy<D: Database>(
    open: &mut Transactions<D>,
    before: &Schema,
) -> Result<(), Error> {
    let what = match (before.has_tenants(), open.application.has_tenants()) {
        (false, true) => "people are registered without a tenant",
        (true, false) => "people are registered as those of tenants",
        _ => return Ok(()),
    };
    if settings::is_in_use(&mut open.database)? {
        return Err(Error::Tenant {
            what: format!(
                "{what}; reveal what is hidden and forget everybody before the description changes"
            ),
        });
    }
    Ok(())
}
