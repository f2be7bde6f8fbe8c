//! Registration, and changes of passwords and keys.

use super::Engine;
use crate::credential::{self, Credential};
use crate::crypto::SecretKey;
use crate::database::Database;
use crate::error::Error;
use crate::principal::{self, Reach, Registration, rekey};
use crate::store;
use crate::value::Value;

impl<D: Database> Engine<D> {
    /// Registers `user`, who gets a private key, and with a password also a recovery token.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`], [`Error::NotInstalled`], [`Error::Database`], [`Error::Crypto`].
    pub fn register(
        &mut self,
        user: &Value,
        password: Option<&str>,
    ) -> Result<Registration, Error> {
        self.transaction(|engine| {
            principal::register(&mut engine.database, user, password, engine.cost)
        })
    }

    /// Replaces every password and token of `user` by a new password and a new token; the private key stays, and
    /// nothing that is disguised is touched.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`Engine::register`].
    pub fn change_password(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        new: &str,
    ) -> Result<Registration, Error> {
        self.transaction(|engine| {
            let cost = engine.cost;
            let (salt, key, reach) = engine.reached(user, current)?;
            let database = &mut engine.database;
            check_holder(database, user, &key, &reach)?;
            credential::remove_all(database, &key)?;
            let token = principal::protect(database, &salt, user, &key, new, cost)?;
            Ok(Registration {
                key,
                token: Some(token),
            })
        })
    }

    /// Gives `user` a new private key, and with a password a new token too. Everything that the old key opens is
    /// encrypted anew, so that whoever learned the old one learns nothing more from the database.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`Engine::register`].
    pub fn change_key(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        password: Option<&str>,
    ) -> Result<Registration, Error> {
        self.transaction(|engine| {
            let cost = engine.cost;
            let (salt, old, reach) = engine.reached(user, current)?;
            let database = &mut engine.database;
            check_holder(database, user, &old, &reach)?;
            let key = SecretKey::generate()?;
            rekey(database, &salt, (user, key.public()?), &reach)?;
            credential::remove_all(database, &old)?;
            let token = match password {
                Some(password) => Some(principal::protect(
                    database, &salt, user, &key, password, cost,
                )?),
                None => None,
            };
            Ok(Registration { key, token })
        })
    }
}

/// Refuses a key that is not the one of `user`, with an account or with the account disguised.
fn check_holder(
    database: &mut dyn Database,
    user: &Value,
    key: &SecretKey,
    reach: &Reach,
) -> Result<(), Error> {
    let public = key.public()?;
    let registered = store::principals(database, &[user.principal()])?;
    let own = registered.values().any(|(known, _)| *known == public);
    if own || (registered.is_empty() && reach.holds(database, user, &public)?) {
        return Ok(());
    }
    Err(Error::WrongCredential)
}
