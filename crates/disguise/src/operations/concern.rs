//! Holds on people whom the records of somebody else concern.

use std::collections::BTreeSet;

use super::engine::Engine;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::execute::update::{self, Updates};
use crate::records::concerned;
use crate::records::hold::Held;
use crate::records::principal::Reached;

/// Where everything is again once the records were read.
const SAVEPOINT: &str = "SAVEPOINT probity_concern";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_concern";
const RELEASE: &str = "RELEASE SAVEPOINT probity_concern";

impl<D: Database> Engine<D> {
    /// Refuses where rows, or values of rows, of somebody who is held are among records, in the form that updates since give
    /// these.
    pub(super) fn refuse_concerned<'r>(
        &mut self,
        (salt, held): (&[u8], &Held),
        records: impl Iterator<Item = &'r Reached>,
    ) -> Result<(), Error> {
        if !held.has_people() {
            return Ok(());
        }
        self.refresh()?;
        let recorded = update::recorded(&mut self.database)?;
        let Some((_, catalog, live)) = &self.live else {
            return Err(Error::NotInstalled);
        };
        let updates = Updates {
            recorded: &recorded,
            code: &self.updates,
            catalog,
            live,
            salt,
            gone: BTreeSet::new(),
        };
        let database = &mut self.database;
        let doing = "reading without a change";
        // Updates note where shared rows are found from now on, for a reveal and not for this.
        database.execute(SAVEPOINT, &[]).doing(doing)?;
        let mut outcome = Ok(());
        for it in records {
            let mut bag = it.read(database)?;
            updates.apply(database, &mut bag, it.found.locator.origin.updates)?;
            let people = concerned::people(database, live, &bag)?;
            outcome = held.refuse_any(salt, people.iter());
            if outcome.is_err() {
                break;
            }
        }
        database.execute(BACK, &[]).doing(doing)?;
        database.execute(RELEASE, &[]).doing(doing)?;
        outcome
    }

    /// Returns whether a hold keeps a record whose end is over: on its person, its disguise or somebody whom it concerns.
    pub(super) fn is_kept(
        &mut self,
        (salt, held): (&[u8], &Held),
        user: &Value,
        record: &Reached,
    ) -> Result<bool, Error> {
        let id = DisguiseId(record.found.locator.origin.disguise);
        if held.keeps(salt, user, id) {
            return Ok(true);
        }
        match self.refuse_concerned((salt, held), std::iter::once(record)) {
            Ok(()) => Ok(false),
            Err(Error::Held { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
