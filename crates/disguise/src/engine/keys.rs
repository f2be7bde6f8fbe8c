//! Registration, and changes of passwords and keys.

use probity_format::Timestamp;

use super::Engine;
use crate::audit::Asked;
use crate::credential::{self, Credential, Protection};
use crate::crypto::SecretKey;
use crate::database::Database;
use crate::error::Error;
use crate::principal::{self, Reach, Registration, rekey};
use crate::receipt::digits;
use crate::store;
use crate::tenant::Session;
use crate::value::Value;

impl<D: Database> Engine<D> {
    /// Registers `user`, who gets a private key, and with a protection also a recovery token.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`], [`Error::NotInstalled`], [`Error::Database`], [`Error::Crypto`],
    /// [`Error::Audit`].
    pub fn register(
        &mut self,
        user: &Value,
        protection: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = Asked::new("disguise.register", String::new(), Some(user), time);
        self.operation(&asked, |engine| {
            let how = (engine.cost, engine.suite.unwrap_or_default());
            let made = principal::register(&mut engine.database, user, protection, how)?;
            let public = digits(&made.key.public()?.encode());
            engine.done(&asked, &format!("{{\"public_key\":\"{public}\"}}"))?;
            Ok(made)
        })
    }

    /// Replaces every password and token of `user` by what `new` says and a new token; the private key stays, and
    /// nothing that is disguised is touched.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`Engine::register`].
    pub fn change_password(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        new: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = Asked::new("disguise.password", String::new(), Some(user), time);
        self.operation(&asked, |engine| {
            let cost = engine.cost;
            let (salt, key, reach) = engine.reached(user, current)?;
            let database = &mut engine.database;
            check_holder(database, user, &key, &reach)?;
            credential::remove_all(database, &key)?;
            let token = principal::protect(database, &salt, (user, &key), new, cost)?;
            engine.done(&asked, "{}")?;
            Ok(Registration { key, token })
        })
    }

    /// Gives `user` a new private key, and with a protection a new token too. Everything that the old key opens is
    /// encrypted anew, so that whoever learned the old one learns nothing more from the database.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`Engine::register`].
    pub fn change_key(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        protection: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = Asked::new("disguise.key", String::new(), Some(user), time);
        self.operation(&asked, |engine| {
            let (cost, suite) = (engine.cost, engine.suite);
            let (salt, old, reach) = engine.reached(user, current)?;
            let database = &mut engine.database;
            check_holder(database, user, &old, &reach)?;
            let key = SecretKey::generate_of(suite.unwrap_or_else(|| old.suite()))?;
            rekey(database, &salt, (user, key.public()?), &reach)?;
            credential::remove_all(database, &old)?;
            let token = principal::protect(database, &salt, (user, &key), protection, cost)?;
            engine.done(&asked, &format!("{{\"bags\":{}}}", reach.bags.len()))?;
            Ok(Registration { key, token })
        })
    }
}

/// Refuses a key that is not the one of `user`, with an account or with the account disguised.
pub(super) fn check_holder(
    database: &mut dyn Session,
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
