//! The one place where a credential becomes a key: here it is bound to the person who is said to bring it, and nothing else opens a
//! credential or follows a key, so that no operation can leave the binding out.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::credential::{Credential, KeyCost, SUITE_KEY_BYTES, stretched};
use crate::crypto::{KEY_BYTES, SecretKey, open_part};
use crate::error::Error;
use crate::forgotten;
use crate::mark;
use crate::principal::{Reach, Reached, pseudo_key};
use crate::store::{self, CREDENTIALS, bytes};
use crate::suite::{PublicKey, Suite};
use crate::table::select_keys;
use crate::tenant::Session;
use crate::value::Value;

/// What a caller claims: to be this user, by this credential.
pub(crate) struct Claim<'a> {
    pub(crate) user: &'a Value,
    pub(crate) credential: &'a Credential<'a>,
    pub(crate) cost: KeyCost,
    /// The key with which somebody is registered under the id of the user, if anybody is.
    pub(crate) registered: Option<PublicKey>,
}

/// Where the account of a person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// The person is registered.
    Registered,
    /// The account was taken away by a disguise.
    Away,
    /// The account was taken away, and somebody else is registered under its id since.
    Displaced,
}

/// A person whose credential was found to be theirs.
pub(crate) struct Holder {
    user: Value,
    key: SecretKey,
    public: PublicKey,
    seat: Seat,
    reach: Reach,
}

impl Holder {
    /// Opens the credential and binds it to its person.
    ///
    /// Refused with [`Error::WrongCredential`], whatever is wrong: it opens nothing, it is somebody else's, or its person had
    /// everything forgotten.
    pub(crate) fn find(
        database: &mut dyn Session,
        salt: &[u8],
        claim: &Claim<'_>,
    ) -> Result<Self, Error> {
        let key = recover(database, salt, claim)?;
        let public = key.public()?;
        let reach = reach(database, salt, &key)?;
        let seat = if claim.registered.as_ref() == Some(&public) {
            Seat::Registered
        } else {
            let is_named = !matches!(claim.credential, Credential::Key(_));
            if !is_named && !is_of(database, salt, &reach, (claim.user, &public))? {
                return Err(Error::WrongCredential);
            }
            match claim.registered {
                None => Seat::Away,
                Some(_) => Seat::Displaced,
            }
        };
        Ok(Self {
            user: claim.user.clone(),
            key,
            public,
            seat,
            reach,
        })
    }

    /// Refuses a person under whose id somebody else is registered now.
    pub(crate) fn undisplaced(self) -> Result<Self, Error> {
        match self.seat {
            Seat::Registered | Seat::Away => Ok(self),
            Seat::Displaced => Err(Error::WrongCredential),
        }
    }

    pub(crate) const fn key(&self) -> &SecretKey {
        &self.key
    }

    pub(crate) const fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) const fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.seat == Seat::Registered
    }

    /// The stored names of the person and of the placeholders that they speak for. Under an id that is somebody else's now
    /// nothing is named.
    pub(crate) fn names(&self, database: &mut dyn Session) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = mark::registered(database, &self.public)?;
        let named = |id: &Value| store::named(database.tenancy(), &id.principal()).principal();
        if self.seat == Seat::Away {
            names.push(named(&self.user));
        }
        names.extend(self.reach.links.values().map(|link| named(&link.new)));
        Ok(names)
    }
}

/// What tells whose a private key is.
pub(crate) enum Clue {
    /// The id.
    Id(Value),
    /// What stands for the id in the table of registrations.
    Name(Vec<u8>),
}

/// Whose `key` is, as far as registrations and records tell; it is bound to them by [`Holder::find`] all the same.
pub(crate) fn clue(
    database: &mut dyn Session,
    salt: &[u8],
    key: &SecretKey,
) -> Result<Option<Clue>, Error> {
    let public = key.public()?;
    if let [name] = mark::registered(database, &public)?.as_slice() {
        return Ok(Some(Clue::Name(name.clone())));
    }
    let reach = reach(database, salt, key)?;
    for it in reach.bags.iter().filter(|it| it.placeholder.is_none()) {
        let mut away = it.read(database)?.principals.into_iter();
        if let Some((id, _, _)) = away.find(|(_, known, _)| *known == public) {
            return Ok(Some(Clue::Id(id)));
        }
    }
    Ok(None)
}

/// Whether the records that a key reaches are those of `user`: the locators say whose they are. For older ones, which do not,
/// the records are asked for the registration that they took away, and for what acts in the place of the user.
fn is_of(
    database: &mut dyn Session,
    salt: &[u8],
    reach: &Reach,
    (user, public): (&Value, &PublicKey),
) -> Result<bool, Error> {
    let name = user.principal();
    let tag = store::owner_tag(salt, &name);
    let own = || reach.bags.iter().filter(|it| it.placeholder.is_none());
    if own().any(|it| it.found.locator.owner == Some(tag)) {
        return Ok(true);
    }
    for it in own().filter(|it| it.found.locator.owner.is_none()) {
        let bag = it.read(database)?;
        let mut away = bag.principals.iter();
        let mut links = bag.speaks_for.iter();
        if away.any(|(id, known, _)| id.principal() == name && known == public)
            || links.any(|link| link.old.principal() == name)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The private key that `credential` stands for.
fn recover(database: &mut dyn Session, salt: &[u8], claim: &Claim<'_>) -> Result<SecretKey, Error> {
    let Claim {
        user,
        credential,
        cost,
        ..
    } = claim;
    if let Credential::Key(key) = credential {
        return Ok(key.again());
    }
    let (name, wrapping) = stretched(salt, user, credential, *cost)?;
    let (columns, by) = (["wrapped".to_owned()], ["id".to_owned()]);
    let rows = select_keys(database, CREDENTIALS, &columns, &by, &[vec![bytes(&name)]])?;
    let Some(Value::Bytes(wrapped)) = rows.into_iter().flatten().next() else {
        return Err(Error::WrongCredential);
    };
    let mut wrapped = Zeroizing::new(wrapped);
    open_part(&wrapping, 0, &mut wrapped).map_err(|_forged| Error::WrongCredential)?;
    // The suite is sealed with the key, so that nobody changes it in the database.
    let (suite, key) = match wrapped.split_first() {
        Some((code, key)) if wrapped.len() == SUITE_KEY_BYTES => (Suite::from_code(*code)?, key),
        _ => (Suite::X25519, wrapped.as_slice()),
    };
    <[u8; KEY_BYTES]>::try_from(key)
        .map(|bytes| SecretKey::of(suite, bytes))
        .map_err(|_length| Error::WrongCredential)
}

/// Opens all that `key` reaches, placeholder by placeholder, level by level, but for what was forgotten.
fn reach(database: &mut dyn Session, salt: &[u8], key: &SecretKey) -> Result<Reach, Error> {
    let mut reach = Reach {
        bags: Vec::new(),
        links: BTreeMap::new(),
        publics: BTreeMap::new(),
    };
    let mut level = vec![(key.again(), key.public()?, None)];
    while !level.is_empty() {
        let keys: Vec<(&SecretKey, PublicKey, bool)> = level
            .iter()
            .map(|(secret, public, placeholder)| (secret, public.clone(), placeholder.is_none()))
            .collect();
        let mut next = Vec::new();
        let located = store::locators(database, salt, &keys)?;
        if reach.bags.is_empty() && located.forgotten.contains(&forgotten::key_name(salt, key)?) {
            return Err(Error::WrongCredential);
        }
        for (index, found) in located.found {
            let Some((opener, public, placeholder)) = level.get(index) else {
                continue;
            };
            let bag = if found.locator.speaks_for {
                let bag = store::read_bag(database, &found.locator)?;
                for link in &bag.speaks_for {
                    let name = link.new.principal();
                    if reach.links.insert(name.clone(), link.clone()).is_none() {
                        let secret = pseudo_key(opener.suite(), &bag.seed, link.index)?;
                        let public = secret.public()?;
                        reach.publics.insert(name, public.clone());
                        next.push((secret, public, Some(link.new.clone())));
                    }
                }
                Some(bag)
            } else {
                None
            };
            reach.bags.push(Reached {
                found,
                bag,
                public: public.clone(),
                placeholder: placeholder.clone(),
            });
        }
        level = next;
    }
    Ok(reach)
}
