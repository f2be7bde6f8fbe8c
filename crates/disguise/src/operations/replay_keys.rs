//! Keys of people while a replay goes on: what is hidden under one that nobody can open is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::replay_action::{Leaver, ReplayAction};
use super::replay_decision::Replay;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::chunk_note;
use crate::records::registry;
use crate::statements::table::existing;
use crate::transaction::operation::LoggedOperation;

const UNREGISTERED: &str = "the key that its person had then is not registered here, and a password or token of it is not either: apply it again once it is certain that the account here is its person's, and they are registered or have a new key";
const ANYBODYS: &str = "the id may be somebody else's row: this database has an account under it, and nothing shows that it is the one that was registered. Once it is certain that it is, its person registers anew and applies anew";
const TAKEN: &str = "another key is registered under this id by now, and stays: the person who has it goes on with it";
const CHANGED: &str = "this database has missed that its person changed the key or the password, so that they may have nothing left that opens what would be hidden: apply it again once they have changed it again";
const CHANGED_BY_SOMEBODY: &str = "this database has missed that somebody changed their key or password, who may have nothing left that opens what would be hidden: apply it again once they have changed it again";
const CHANGED_SINCE: &str = "its person changed the key or the password since, and this database does not have what opens it now: register the person again";
const REKEYED: &str = "the key of the registration that it ended took the place of another one, which may be registered here: unregister the account again, if it is deleted";

/// Keys of which the database has missed that their people replaced them, or what wraps them.
#[derive(Default)]
pub(super) struct Changed {
    keys: Vec<PublicKey>,
    /// People whose entries of that time do not name the key.
    people: BTreeSet<Vec<u8>>,
}

impl Changed {
    /// Returns the keys that `missing` changed; the commits of some of these operations are
    /// unknown.
    pub(super) fn of(missing: &[LoggedOperation], people: &BTreeMap<String, Value>) -> Self {
        let mut changed = Self::default();
        let changes = |it: &&LoggedOperation| {
            let is_change = matches!(&*it.action, "disguise.key" | "disguise.password");
            is_change && !it.is_put_back && it.unread.is_none()
        };
        for it in missing.iter().filter(changes) {
            let before = match it.action.as_str() {
                "disguise.key" => it.old_key(),
                _ => it.public_key(),
            };
            let person = || it.subject.as_ref().and_then(|it| people.get(it));
            if before.is_none() {
                changed.people.extend(person().map(Value::principal));
            }
            changed.keys.extend(before);
            changed.keys.extend(it.public_key());
        }
        changed
    }

    fn has(&self, name: &[u8], key: Option<&PublicKey>) -> bool {
        self.people.contains(name) || key.is_some_and(|key| self.keys.contains(key))
    }
}

/// The keys with which people are registered.
pub(super) struct Keys<'a> {
    registered: BTreeMap<Vec<u8>, PublicKey>,
    /// People who have a row in the users table.
    with_row: BTreeSet<Vec<u8>>,
    changed: &'a Changed,
    /// Somebody is registered with a key that was changed since.
    is_behind: bool,
}

impl<'a> Keys<'a> {
    /// The keys of `people`, as far as they are registered. `users` is the table of accounts and
    /// its column with the ids.
    pub(super) fn of<'p>(
        database: &mut dyn TenantConnection,
        people: impl IntoIterator<Item = &'p Value>,
        changed: &'a Changed,
        users: (&str, &str),
    ) -> Result<Self, Error> {
        let ids: Vec<Value> = people.into_iter().cloned().collect();
        let with_row = existing(database, users.0, users.1, &ids)?;
        let names: Vec<_> = ids.iter().map(Value::principal).collect();
        let known = registry::principals(database, &names)?.into_iter();
        let of_entries: Vec<Vec<u8>> = changed.people.iter().cloned().collect();
        let mut is_behind = !registry::principals(database, &of_entries)?.is_empty();
        for key in &changed.keys {
            is_behind |= !chunk_note::registered(database, key)?.is_empty();
        }
        Ok(Self {
            registered: known.map(|(name, (key, _))| (name, key)).collect(),
            with_row,
            changed,
            is_behind,
        })
    }

    /// Updates the registered keys as `deed` would, or returns why it may not be done.
    ///
    /// A registered key has its passwords and tokens stored with it, or never had any. A key that
    /// is no longer registered may have had some that were lost with the database: nothing is
    /// sealed to it. Nothing is sealed either to a key that, by the log, was replaced or got
    /// another password since this database was written: its person may have thrown away what opens
    /// it.
    ///
    /// A key is registered for no row that stands: entries name an id alone, and the row may be of
    /// whoever had the id before the person of the entry.
    pub(super) fn follow(&mut self, deed: &ReplayAction<'_>) -> Result<(), String> {
        match deed {
            ReplayAction::Apply { request, key, .. }
            | ReplayAction::Schedule { request, key, .. } => {
                let user = request.user.as_ref();
                return self.seals(user, key.as_ref());
            }
            ReplayAction::Register(user, key) => {
                let name = user.principal();
                if self.changed.has(&name, Some(key)) {
                    return Err(CHANGED_SINCE.to_owned());
                }
                match self.registered.get(&name) {
                    Some(known) if known != key => return Err(TAKEN.to_owned()),
                    None if self.with_row.contains(&name) => return Err(ANYBODYS.to_owned()),
                    _ => {}
                }
                self.registered.insert(name, key.clone());
            }
            ReplayAction::Unregister(key, _) => self.registered.retain(|_, known| known != key),
            ReplayAction::Forget {
                leaver: Some(Leaver { user, key }),
                ..
            } => {
                let name = user.principal();
                let is_theirs = |it: &PublicKey| key.as_ref().is_none_or(|key| key == it);
                if self.registered.get(&name).is_some_and(is_theirs) {
                    self.registered.remove(&name);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes away the account of `user`, and its registration.
    pub(super) fn leaves(&mut self, user: &Value) {
        let name = user.principal();
        self.registered.remove(&name);
        self.with_row.remove(&name);
    }

    /// Checks that the person can open what is sealed to `user`, or to everybody who is registered.
    /// `key` is the key at the time of the operation.
    fn seals(&self, user: Option<&Value>, key: Option<&PublicKey>) -> Result<(), String> {
        let Some(name) = user.map(Value::principal) else {
            let behind = self.is_behind.then_some(CHANGED_BY_SOMEBODY);
            return behind.map_or(Ok(()), |why| Err(why.to_owned()));
        };
        let registered = self.registered.get(&name);
        if key.is_some() && registered != key {
            return Err(UNREGISTERED.to_owned());
        }
        if self.changed.has(&name, registered) {
            return Err(CHANGED.to_owned());
        }
        Ok(())
    }
}

impl<'a> Replay<'a> {
    /// Finds by the key whose registration ends: the account is there again, or was not in the users
    /// table at all. An entry without a key ended no registration, but marks of disguises in
    /// chunks: they count for no newcomer, here or there.
    pub(super) fn unregister(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        let Some(key) = told.public_key() else {
            return Ok(ReplayAction::Nothing);
        };
        let gave = |it: &LoggedOperation| {
            it.action == "disguise.key" && it.facts.public_key == told.facts.public_key
        };
        if self.lacks_before(told, gave) {
            return Err(REKEYED.to_owned());
        }
        Ok(ReplayAction::Unregister(key, self.ends(told, None)?))
    }
}
