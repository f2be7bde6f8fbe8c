//! People: their registrations, passwords and keys.

use probity_format::Timestamp;

use super::options::Options;
use super::{accounts, holders};
use crate::crypto::SecretKey;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::credential::{self, Credential, Protection};
use crate::records::name::digits;
use crate::records::principal::{self, Registration, rekey};
use crate::records::{forgotten, name, settings, store, succession};
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;
use crate::transaction::{intent, scheduled};

/// A function that delivers a new credential to its person.
pub type HandOver =
    Box<dyn FnMut(&Registration) -> Result<(), Box<dyn std::error::Error + Send + Sync>>>;

/// The people who have keys, from [`Engine::people`](crate::Engine::people).
pub struct People<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
    pub(super) hand_over: &'e mut Option<HandOver>,
}

impl<D: Database> People<'_, D> {
    /// Registers `user`, who gets a private key, and with a protection also a recovery token.
    ///
    /// # Errors
    /// [`Error::NoSuchUser`] where the users table has no row of `user`, [`Error::AlreadyRegistered`],
    /// [`Error::NotInstalled`], [`Error::Database`], [`Error::Crypto`], [`Error::Audit`].
    pub fn register(
        &mut self,
        user: &Value,
        protection: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = OperationRequest::new("disguise.register", String::new(), Some(user), time);
        let mut given = Given::default();
        let (options, hand_over) = (self.options, &mut *self.hand_over);
        self.transactions.operation(&asked, |open| {
            open.refresh()?;
            accounts::refuse_without(open, user)?;
            let (cost, suite) = (options.key_cost, options.suite.unwrap_or_default());
            let made = given.made(|| SecretKey::generate_of(suite), protection)?;
            principal::register(&mut open.database, (user, made), protection, cost)?;
            let public = digits(&made.key.public()?.encode());
            let mut payload = Payload::new().with("public_key", public);
            // After a backup is restored, nothing else opens what would be sealed to this key.
            if matches!(protection, Protection::KeyAlone) {
                payload.put("key_alone", true);
            }
            given.hand_over(hand_over)?;
            open.done(&asked, payload)
        })?;
        given.taken()
    }

    /// Replaces every password and token of `user` by what `new` says and a new token; the private key stays, and
    /// nothing that is disguised is touched. Whoever has an old copy of the database and an old password or token still has the
    /// private key: where one was learned by others, it takes [`People::change_key`]. Somebody else who has the id by now
    /// keeps theirs.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`People::register`].
    pub fn change_password(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        new: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = OperationRequest::new("disguise.password", String::new(), Some(user), time);
        let mut given = Given::default();
        let (options, hand_over) = (self.options, &mut *self.hand_over);
        self.transactions.operation(&asked, |open| {
            let cost = options.key_cost;
            let (salt, holder) = holders::changing(open, user, current, cost)?;
            let database = &mut open.database;
            let key = holder.key();
            let made = given.made(|| Ok(key.again()), new)?;
            // A row that somebody puts back is none that the old password opens.
            let gone = forgotten::credentials(database, &salt, key)?;
            forgotten::put(database, &gone)?;
            credential::remove_all(database, key)?;
            principal::protect(database, &salt, (user, made), new, cost)?;
            let public = digits(&holder.public().encode());
            let payload = Payload::new().with("public_key", public);
            let payload = payload.destroying(&forgotten::telling(&gone));
            given.hand_over(hand_over)?;
            open.done(&asked, payload)
        })?;
        given.taken()
    }

    /// Gives `user` a new private key, and with a protection a new token too. Everything that the old key opens is
    /// encrypted anew, so that whoever learned the old one learns nothing more from the database. Somebody else who is
    /// registered under the id by now stays so.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`People::register`].
    pub fn change_key(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        protection: Protection<'_>,
        time: Timestamp,
    ) -> Result<Registration, Error> {
        let asked = OperationRequest::new("disguise.key", String::new(), Some(user), time);
        let mut given = Given::default();
        let (options, hand_over) = (self.options, &mut *self.hand_over);
        self.transactions.operation(&asked, |open| {
            let (cost, suite) = (options.key_cost, options.suite);
            let (salt, holder) = holders::changing(open, user, current, cost)?;
            let database = &mut open.database;
            let (old, reach) = (holder.key(), holder.reach());
            let suite = suite.unwrap_or_else(|| old.suite());
            let made = given.made(|| SecretKey::generate_of(suite), protection)?;
            let public = made.key.public()?;
            let records: Vec<_> = reach.bags.iter().map(|it| &it.found).collect();
            let records = name::records(&salt, &store::record_ids(database, &records)?);
            let keys = (holder.public(), &public);
            let changed = rekey(database, &salt, (user, keys), reach)?;
            let changed = holder.rekeyed(database, &changed);
            let successions = changed.iter().map(|it| (&it.former, &it.new));
            succession::put(database, &salt, successions)?;
            scheduled::change_key(database, keys)?;
            intent::change_key(database, &salt, keys, &changed)?;
            let mut gone = forgotten::credentials(database, &salt, old)?;
            credential::remove_all(database, old)?;
            // Old records that somebody puts back are none that the old key opens.
            gone.push(forgotten::key(&salt, old)?);
            forgotten::put(database, &gone)?;
            principal::protect(database, &salt, (user, made), protection, cost)?;
            let payload = Payload::new()
                .with("bags", reach.bags.len())
                .with("public_key", digits(&public.encode()))
                .with("old_key", digits(&holder.public().encode()));
            let destroyed = [forgotten::telling(&gone), records].concat();
            let payload = payload.destroying(&destroyed);
            given.hand_over(hand_over)?;
            open.done(&asked, payload)
        })?;
        given.taken()
    }

    /// The names that the log at hand has for `user`: that of entries made from now on, and then the one in older entries, if it
    /// is another. With a credential it must be that of the user, and a refusal is told of.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`], [`Error::Audit`].
    pub fn subject_names(
        &mut self,
        user: &Value,
        credential: Option<&Credential<'_>>,
        time: Timestamp,
    ) -> Result<Vec<String>, Error> {
        let asked = OperationRequest::new("disguise.subject-name", String::new(), Some(user), time);
        let cost = self.options.key_cost;
        self.transactions.operation(&asked, |open| {
            if let Some(credential) = credential {
                holders::former(open, user, credential, cost)?;
            }
            let salt = settings::salt(&mut open.database)?;
            open.naming().all(&salt, &user.principal())
        })
    }
}

/// A credential that is made once, however often its operation is tried, and handed over before anything is committed under it.
#[derive(Default)]
struct Given {
    made: Option<Registration>,
    is_handed_over: bool,
}

impl Given {
    fn made(
        &mut self,
        key: impl FnOnce() -> Result<SecretKey, Error>,
        protection: Protection<'_>,
    ) -> Result<&Registration, Error> {
        let made = match self.made.take() {
            Some(made) => made,
            None => Registration::of(key()?, protection)?,
        };
        Ok(self.made.insert(made))
    }

    fn hand_over(&mut self, to: &mut Option<HandOver>) -> Result<(), Error> {
        if let (Some(to), Some(made), false) = (to, &self.made, self.is_handed_over) {
            to(made).map_err(Error::HandOver)?;
            self.is_handed_over = true;
        }
        Ok(())
    }

    fn taken(self) -> Result<Registration, Error> {
        self.made.ok_or(Error::Crypto {
            doing: "making a credential",
        })
    }
}
