//! The one place where a credential becomes a key, bound to the person who is said to present it.
//! Nothing else opens a credential or follows a key, so no operation can leave the binding out.

use std::collections::BTreeMap;

use crate::crypto::SecretKey;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::chunk_note::{Marked, Rekeyed};
use crate::records::credential::{self, Credential, KeyCost, Opened, Stretched};
use crate::records::name::record_name;
use crate::records::principal::{Reach, Reached, pseudo_key};
use crate::records::registry::Registered;
use crate::records::store::MailboxKey;
use crate::records::{chunk_note, forgotten, registry, store, stored};
use crate::statements::table::existing;

/// A claim of a caller to be this user, with this credential.
pub(crate) struct Claim<'a> {
    pub(crate) user: &'a Value,
    pub(crate) credential: &'a Credential<'a>,
    pub(crate) cost: KeyCost,
    /// The key with which somebody is registered under the id of the user, if anybody is.
    pub(crate) registered: Option<PublicKey>,
}

/// The state of a person's account.
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
    /// Every failure is [`Error::WrongCredential`]: the credential opens nothing, belongs to
    /// somebody else, or its person had everything forgotten.
    pub(crate) fn find(
        database: &mut dyn TenantConnection,
        salt: &[u8],
        claim: &Claim<'_>,
    ) -> Result<Self, Error> {
        let (key, reach) = match claim.credential {
            Credential::Key(key) => (key.again(), reach(database, salt, key, None)?),
            _ => unwrapped(database, salt, claim)?,
        };
        let public = key.public()?;
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

    /// Refuses a person whose id somebody else is registered under now.
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

    /// Returns the disguise that took the account of the person away, if one did.
    pub(crate) fn taken_by(
        &self,
        database: &mut dyn TenantConnection,
    ) -> Result<Option<DisguiseId>, Error> {
        let name = self.user.principal();
        let own = self.reach.bags.iter().filter(|it| it.placeholder.is_none());
        for it in own {
            let bag = it.read(database)?;
            let mut away = bag.iter().flat_map(|bag| &bag.principals);
            if away.any(|(id, _, _)| id.principal() == name) {
                return Ok(Some(it.disguise()));
            }
        }
        Ok(None)
    }

    /// Returns the person and the placeholders that they speak for, each with its key. An id that
    /// belongs to somebody else now is left out.
    pub(crate) fn marked(&self, database: &mut dyn TenantConnection) -> Result<Vec<Marked>, Error> {
        let mut names = chunk_note::registered(database, &self.public)?;
        let links = self.reach.links.values().map(|link| link.new.clone());
        let (own, _) = self.unreplaced(database, links.collect())?;
        let named = |id: &Value| registry::named(database.tenancy(), &id.principal()).principal();
        if self.seat == Seat::Away {
            names.push(named(&self.user));
        }
        let people = names.into_iter().map(|name| Marked {
            name,
            public: Some(self.public.clone()),
        });
        let placeholders = own.iter().map(|id| Marked {
            name: named(id),
            public: self.reach.publics.get(&id.principal()).cloned(),
        });
        Ok(people.chain(placeholders).collect())
    }

    /// Returns the person and their placeholders with the keys of before and the new ones.
    pub(crate) fn rekeyed(
        &self,
        database: &dyn TenantConnection,
        keys: &BTreeMap<Vec<u8>, PublicKey>,
    ) -> Vec<Rekeyed> {
        let person = self.user.principal();
        let changed = keys.iter().filter_map(|(name, new)| {
            let former = match self.reach.publics.get(name) {
                _ if *name == person => &self.public,
                former => former?,
            };
            Some(Rekeyed {
                name: registry::named(database.tenancy(), name).principal(),
                former: former.clone(),
                new: new.clone(),
            })
        });
        changed.collect()
    }

    /// Returns the placeholders that the person may act as, except those whose ids somebody else
    /// has now. `users` is the table of accounts and its column with the ids.
    pub(crate) fn acts_as(
        &self,
        database: &mut dyn TenantConnection,
        placeholders: Vec<Value>,
        users: (&str, &str),
    ) -> Result<Vec<Value>, Error> {
        let (mut own, registered) = self.unreplaced(database, placeholders)?;
        let unknown = own
            .iter()
            .filter(|it| !registered.contains_key(&it.principal()));
        let unknown: Vec<Value> = unknown.cloned().collect();
        let others = existing(database, users.0, users.1, &unknown)?;
        own.retain(|it| !others.contains(&it.principal()));
        Ok(own)
    }

    /// Returns those of `placeholders` whose ids nobody else is registered under, and the other
    /// people.
    fn unreplaced(
        &self,
        database: &mut dyn TenantConnection,
        mut placeholders: Vec<Value>,
    ) -> Result<(Vec<Value>, Registered), Error> {
        let names: Vec<Vec<u8>> = placeholders.iter().map(Value::principal).collect();
        let registered = registry::principals(database, &names)?;
        placeholders.retain(|it| {
            let name = it.principal();
            let known = registered.get(&name).map(|(public, _)| public);
            known.is_none_or(|public| self.reach.publics.get(&name) == Some(public))
        });
        Ok((placeholders, registered))
    }
}

/// A clue to the owner of a private key.
pub(crate) enum Clue {
    /// The id.
    Id(Value),
    /// The name that stands for the id in the table of registrations.
    Name(Vec<u8>),
}

/// Returns the owner of `key`, as far as registrations and records show it. [`Holder::find`] still
/// verifies it.
pub(crate) fn clue(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    key: &SecretKey,
) -> Result<Option<Clue>, Error> {
    let public = key.public()?;
    if let [name] = chunk_note::registered(database, &public)?.as_slice() {
        return Ok(Some(Clue::Name(name.clone())));
    }
    let reach = reach(database, salt, key, None)?;
    for it in reach.bags.iter().filter(|it| it.placeholder.is_none()) {
        let bag = it.read(database)?;
        let mut away = bag.into_iter().flat_map(|bag| bag.principals);
        if let Some((id, _, _)) = away.find(|(_, known, _)| *known == public) {
            return Ok(Some(Clue::Id(id)));
        }
    }
    Ok(None)
}

/// Returns whether the records that a key reaches belong to `user`: the locators identify the
/// owner. Older ones do not; for these, the records must contain the removed registration of the
/// user, or a placeholder that acts for the user.
fn is_of(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    reach: &Reach,
    (user, public): (&Value, &PublicKey),
) -> Result<bool, Error> {
    let name = user.principal();
    let tag = stored::owner_tag(salt, &name);
    let own = || reach.bags.iter().filter(|it| it.placeholder.is_none());
    if own().any(|it| it.found.locator.owner == Some(tag)) {
        return Ok(true);
    }
    for it in own().filter(|it| it.found.locator.owner.is_none()) {
        let Some(bag) = it.read(database)? else {
            continue;
        };
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

/// Returns the private key that a password or a token wraps, and everything it reaches. Of several
/// keys, that of a registered person is preferred to that of one who is away.
fn unwrapped(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    claim: &Claim<'_>,
) -> Result<(SecretKey, Reach), Error> {
    let stretched = Stretched::new(salt, claim.user, claim.credential, claim.cost)?;
    let mut away = Vec::new();
    let mut opened = Vec::new();
    for it in stretched.open(database)? {
        let is_registered = claim.registered.as_ref() == Some(&it.key.public()?);
        if is_registered {
            &mut opened
        } else {
            &mut away
        }
        .push(it);
    }
    opened.append(&mut away);
    for it in opened {
        match reach(database, salt, &it.key, Some(&it.row)) {
            Ok(reach) => {
                renewed(database, salt, &stretched, &it)?;
                return Ok((it.key, reach));
            }
            Err(Error::WrongCredential) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::WrongCredential)
}

/// Seals a row of the older form again, whose key wraps everything that the password does, and
/// notes that the old row is void.
fn renewed(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    stretched: &Stretched,
    opened: &Opened,
) -> Result<(), Error> {
    let Some(id) = &opened.older else {
        return Ok(());
    };
    credential::remove(database, id.clone())?;
    let gone = forgotten::credential(salt, &opened.key, &opened.row)?;
    forgotten::put(database, &[gone])?;
    stretched.put(database, &opened.key)
}

/// Opens everything that `key` reaches, placeholder by placeholder, level by level, except
/// forgotten records. Refuses if the key itself was forgotten, or the row that contained it.
fn reach(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    key: &SecretKey,
    row: Option<&[u8]>,
) -> Result<Reach, Error> {
    let mut names = vec![forgotten::key_name(salt, key)?];
    names.extend(row.map(|row| record_name(salt, row).to_vec()));
    let mut reach = Reach {
        bags: Vec::new(),
        links: BTreeMap::new(),
        publics: BTreeMap::new(),
    };
    let mut level = vec![(key.again(), key.public()?, None)];
    while !level.is_empty() {
        let keys = level
            .iter()
            .map(|(secret, public, placeholder)| MailboxKey {
                secret,
                public: public.clone(),
                is_person: placeholder.is_none(),
            });
        let keys: Vec<MailboxKey<'_>> = keys.collect();
        let mut next = Vec::new();
        let located = store::locators(database, salt, &keys)?;
        let is_gone = |name: &Vec<u8>| located.forgotten.contains(name);
        if reach.bags.is_empty() && names.iter().any(is_gone) {
            return Err(Error::WrongCredential);
        }
        for (index, found) in located.found {
            let Some((opener, public, placeholder)) = level.get(index) else {
                continue;
            };
            let bag = if found.locator.speaks_for {
                store::read_bag(database, &found.locator)?
            } else {
                None
            };
            let links = bag
                .iter()
                .flat_map(|bag| bag.speaks_for.iter().map(move |it| (bag, it)));
            for (bag, link) in links {
                let name = link.new.principal();
                if reach.links.insert(name.clone(), link.clone()).is_none() {
                    let secret = pseudo_key(opener.suite(), &bag.seed, link.index)?;
                    let public = secret.public()?;
                    reach.publics.insert(name, public.clone());
                    next.push((secret, public, Some(link.new.clone())));
                }
            }
            reach.bags.push(Reached {
                is_damaged: found.locator.speaks_for && bag.is_none(),
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
