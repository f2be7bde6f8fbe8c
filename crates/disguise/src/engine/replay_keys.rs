//! Keys of people while a replay goes on: what is hidden under one that nobody can open is lost.

use std::collections::BTreeMap;

use super::deed::{Deed, Leaver};
use crate::error::Error;
use crate::store;
use crate::suite::PublicKey;
use crate::tenant::Session;
use crate::value::Value;

const UNREGISTERED: &str = "the key that its person had then is not registered here, and a password or token of it is not either: apply it again once its person is registered, or has a new key";
const TAKEN: &str =
    "another key is registered under this id by now, and stays: whoever has it goes on with it";

/// The keys with which people are registered.
pub(super) struct Keys(BTreeMap<Vec<u8>, PublicKey>);

impl Keys {
    /// The keys of `people`, as far as they are registered.
    pub(super) fn of<'a>(
        database: &mut dyn Session,
        people: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Self, Error> {
        let names: Vec<_> = people.into_iter().map(Value::principal).collect();
        let known = store::principals(database, &names)?.into_iter();
        Ok(Self(known.map(|(name, (key, _))| (name, key)).collect()))
    }

    /// What is registered once `deed` is done, or why it may not be done.
    ///
    /// A key that is registered has its passwords and tokens beside it, or had none. One that is not may have had some, and
    /// they went with the database: nothing is sealed to it.
    pub(super) fn follow(&mut self, deed: &Deed<'_>) -> Result<(), String> {
        match deed {
            Deed::Apply {
                request,
                key: Some(key),
                ..
            } => {
                let name = request.user.as_ref().map(Value::principal);
                if name.is_some_and(|name| self.0.get(&name) != Some(key)) {
                    return Err(UNREGISTERED.to_owned());
                }
            }
            Deed::Register(user, key) => {
                let registered = self
                    .0
                    .entry(user.principal())
                    .or_insert_with(|| key.clone());
                if registered != key {
                    return Err(TAKEN.to_owned());
                }
            }
            Deed::Forget {
                leaver: Some(Leaver { user, key }),
                ..
            } => {
                let name = user.principal();
                let is_theirs = |it: &PublicKey| key.as_ref().is_none_or(|key| key == it);
                if self.0.get(&name).is_some_and(is_theirs) {
                    self.0.remove(&name);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
