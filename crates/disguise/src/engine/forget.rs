//! Destroying records for good.

use probity_format::Timestamp;

use super::Engine;
use crate::credential::{self, Credential};
use crate::database::Database;
use crate::error::Error;
use crate::principal::{needed_by_others, stored_for_others};
use crate::store::{self, DisguiseId, Stored};
use crate::value::Value;

impl<D: Database> Engine<D> {
    /// Destroys the records of a disguise, so that nobody can ever reveal it; links that others need stay.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::NoSuchDisguise`], [`Error::Database`], [`Error::Audit`].
    pub fn forget(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        id: DisguiseId,
        time: Timestamp,
    ) -> Result<(), Error> {
        let outcome = self.transaction(|engine| {
            let (salt, _, reach) = engine.reached(user, credential)?;
            let database = &mut engine.database;
            let meant: Vec<_> = reach
                .bags
                .iter()
                .filter(|it| it.found.locator.origin.disguise == id.0)
                .collect();
            if !meant.iter().any(|it| it.found.locator.changes) {
                return Err(Error::NoSuchDisguise);
            }
            let others = reach
                .bags
                .iter()
                .any(|it| it.found.locator.origin.disguise != id.0);
            let kept = if others {
                needed_by_others(database, &meant)?
            } else {
                Vec::new()
            };
            let gone: Vec<_> = meant.iter().map(|it| &it.found).collect();
            store::remove_bags(database, &gone)?;
            let stored: Vec<Stored<'_>> = kept
                .iter()
                .map(|(bag, it)| stored_for_others(bag, it))
                .collect();
            store::put_bags(database, &salt, &stored)?;
            let bags = u64::try_from(gone.len()).unwrap_or(u64::MAX);
            engine.done(
                "disguise.forget",
                id,
                Some(user),
                time,
                format!("{{\"bags\":{bags}}}"),
            )
        });
        self.tell_refusal("disguise.forget", Some(user), time, &outcome)?;
        outcome
    }

    /// Destroys all records and credentials of a person, and the registration: nothing that was ever hidden comes
    /// back, and whatever key, password or token the person had opens nothing any more.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`], [`Error::Audit`].
    pub fn forget_everything(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        time: Timestamp,
    ) -> Result<(), Error> {
        let outcome = self.transaction(|engine| {
            let (_, key, reach) = engine.reached(user, credential)?;
            let database = &mut engine.database;
            let name = user.principal();
            let registered = store::principals(database, std::slice::from_ref(&name))?;
            let public = key.public()?;
            let own = registered.values().any(|(known, _)| *known == public);
            if !own && reach.bags.is_empty() {
                return Err(Error::WrongCredential);
            }
            let gone: Vec<_> = reach.bags.iter().map(|it| &it.found).collect();
            store::remove_bags(database, &gone)?;
            credential::remove_all(database, &key)?;
            if own {
                store::unregister(database, &[name])?;
            }
            let payload = format!("{{\"bags\":{},\"everything\":true}}", gone.len());
            engine.tell_done("disguise.forget", String::new(), Some(user), time, payload)
        });
        self.tell_refusal("disguise.forget", Some(user), time, &outcome)?;
        outcome
    }
}
