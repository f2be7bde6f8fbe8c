//! Registration, and changes of passwords and keys.

use probity_format::Timestamp;

use super::engine::{Engine, HandOver};
use crate::crypto::SecretKey;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::credential::{self, Credential, Protection};
use crate::records::holder::{self, Claim, Clue, Holder};
use crate::records::name::digits;
use crate::records::principal::{self, Registration, rekey};
use crate::records::{forgotten, name, registry, settings, store, succession};
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::{intent, scheduled};

impl<D: Database> Engine<D> {
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
        self.operation(&asked, |engine| {
            engine.refresh()?;
            engine.refuse_without_row(user)?;
            let (cost, suite) = (engine.cost, engine.suite.unwrap_or_default());
            let made = given.made(|| SecretKey::generate_of(suite), protection)?;
            principal::register(&mut engine.database, (user, made), protection, cost)?;
            let public = digits(&made.key.public()?.encode());
            let mut payload = Payload::new().with("public_key", public);
            // After a backup is restored, nothing else opens what would be sealed to this key.
            if matches!(protection, Protection::KeyAlone) {
                payload.put("key_alone", true);
            }
            given.hand_over(&mut engine.hand_over)?;
            engine.done(&asked, payload)
        })?;
        given.taken()
    }

    /// Replaces every password and token of `user` by what `new` says and a new token; the private key stays, and
    /// nothing that is disguised is touched. Whoever has an old copy of the database and an old password or token still has the
    /// private key: where one was learned by others, it takes [`Engine::change_key`]. Somebody else who has the id by now
    /// keeps theirs.
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
        let asked = OperationRequest::new("disguise.password", String::new(), Some(user), time);
        let mut given = Given::default();
        self.operation(&asked, |engine| {
            let cost = engine.cost;
            let (salt, holder) = engine.changing_holder(user, current)?;
            let database = &mut engine.database;
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
            given.hand_over(&mut engine.hand_over)?;
            engine.done(&asked, payload)
        })?;
        given.taken()
    }

    /// Gives `user` a new private key, and with a protection a new token too. Everything that the old key opens is
    /// encrypted anew, so that whoever learned the old one learns nothing more from the database. Somebody else who is
    /// registered under the id by now stays so.
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
        let asked = OperationRequest::new("disguise.key", String::new(), Some(user), time);
        let mut given = Given::default();
        self.operation(&asked, |engine| {
            let (cost, suite) = (engine.cost, engine.suite);
            let (salt, holder) = engine.changing_holder(user, current)?;
            let database = &mut engine.database;
            let (old, reach) = (holder.key(), holder.reach());
            let suite = suite.unwrap_or_else(|| old.suite());
            let made = given.made(|| SecretKey::generate_of(suite), protection)?;
            let public = made.key.public()?;
            let records: Vec<_> = reach.bags.iter().map(|it| &it.found).collect();
            let records = name::records(&salt, &store::record_ids(&records)?);
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
            given.hand_over(&mut engine.hand_over)?;
            engine.done(&asked, payload)
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
        self.operation(&asked, |engine| {
            if let Some(credential) = credential {
                engine.former_holder(user, credential)?;
            }
            let salt = settings::salt(&mut engine.database)?;
            engine.naming.all(&salt, &user.principal())
        })
    }

    /// The salt, and the person `user`, to whom the credential is bound; refused when somebody else has the id by now.
    pub(super) fn holder(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
    ) -> Result<(Vec<u8>, Holder), Error> {
        let (salt, holder) = self.former_holder(user, credential)?;
        Ok((salt, holder.undisplaced()?))
    }

    /// Returns the holder of a credential that is to be changed. Where another key is registered, a
    /// record must have taken the account away: else somebody put the key in the place of theirs.
    fn changing_holder(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
    ) -> Result<(Vec<u8>, Holder), Error> {
        let (salt, holder) = self.former_holder(user, current)?;
        if !holder.is_registered() && holder.taken_by(&mut self.database)?.is_some() {
            return Ok((salt, holder));
        }
        Ok((salt, holder.undisplaced()?))
    }

    /// Returns the holder even if somebody else has the id of the person by now. For operations
    /// that concern only the person's own records.
    pub(super) fn former_holder(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
    ) -> Result<(Vec<u8>, Holder), Error> {
        let database = &mut self.database;
        let salt = settings::salt(database)?;
        let name = user.principal();
        let mut registered = registry::principals(database, std::slice::from_ref(&name))?;
        let claim = Claim {
            user,
            credential,
            cost: self.cost,
            registered: registered.remove(&name).map(|(public, _)| public),
        };
        let holder = Holder::find(database, &salt, &claim)?;
        Ok((salt, holder))
    }

    /// Returns the owner of a private key.
    pub(super) fn whose(&mut self, credential: &Credential<'_>) -> Result<Value, Error> {
        let Credential::Key(key) = credential else {
            return Err(Error::Value {
                what: "a password or a token needs its user".to_owned(),
            });
        };
        let salt = settings::salt(&mut self.database)?;
        match holder::clue(&mut self.database, &salt, key)? {
            Some(Clue::Id(id)) => Ok(id),
            Some(Clue::Name(name)) => {
                let mut ids = self.user_ids()?.into_iter();
                let tenancy = &self.database.tenancy;
                let meant =
                    |id: &Value| registry::named(tenancy, &id.principal()).principal() == name;
                ids.find(meant).ok_or(Error::WrongCredential)
            }
            None => Err(Error::WrongCredential),
        }
    }

    /// The ids of everybody in the users table.
    pub(super) fn user_ids(&mut self) -> Result<Vec<Value>, Error> {
        let dialect = self.database.dialect();
        let (table, id) = (&self.pseudo.table, &self.pseudo.id);
        let own = self.database.tenancy.and(dialect, table, table);
        let (column, from) = (dialect.quote(id), dialect.quote(table));
        let query = format!("SELECT {column} FROM {from} WHERE 1=1{}", own.sql);
        let rows = self.database.query(&query, &own.parameters);
        let rows = rows.doing("reading who there is")?;
        Ok(rows.into_iter().flatten().collect())
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
