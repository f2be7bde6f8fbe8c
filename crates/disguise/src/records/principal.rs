//! Principals and pseudoprincipals: registration, and the walk along the speaks-for chain.

use std::collections::{BTreeMap, BTreeSet};

use crate::crypto::record_key::RecordKey;
use crate::crypto::suite::{PublicKey, Suite};
use crate::crypto::{KEY_BYTES, SecretKey, derive};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::bag::Bag;
use crate::records::credential::{Credential, KeyCost, Protection, RecoveryToken, Stretched};
use crate::records::deadline::Cohorts;
use crate::records::registry::KeyedPrincipal;
use crate::records::section::{PrincipalKind, Section, SpeaksFor};
use crate::records::stored::{Found, Stage, Stored};
use crate::records::{registry, settings, store};

/// The most parts of bags that a change of the key holds in memory at a time; a single bag may have
/// more.
const PARTS_AT_ONCE: u32 = 8;

/// The secrets of a new user; the engine keeps none of them.
#[non_exhaustive]
pub struct Registration {
    /// The private key, to keep in a safe place.
    pub key: SecretKey,
    /// The recovery token, which opens the same, where the key is protected by one.
    pub token: Option<RecoveryToken>,
}

impl Registration {
    /// Creates a registration with this key, and a new token if `protection` asks for one.
    pub(crate) fn of(key: SecretKey, protection: Protection<'_>) -> Result<Self, Error> {
        let token = match protection {
            Protection::KeyAlone => None,
            Protection::Token | Protection::Password(_) => Some(RecoveryToken::generate()?),
        };
        Ok(Self { key, token })
    }
}

pub(crate) fn register(
    database: &mut dyn TenantConnection,
    (user, made): (&Value, &Registration),
    protection: Protection<'_>,
    cost: KeyCost,
) -> Result<(), Error> {
    let salt = settings::salt(database)?;
    let id = user.principal();
    if !registry::principals(database, std::slice::from_ref(&id))?.is_empty() {
        return Err(Error::AlreadyRegistered);
    }
    let row = KeyedPrincipal {
        name: id,
        public: made.key.public()?,
        standing: PrincipalKind::Person,
    };
    registry::register(database, &[row])?;
    protect(database, &salt, (user, made), protection, cost)
}

/// Wraps the key of a user under the password of `protection` and the new recovery token.
pub(crate) fn protect(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    (user, made): (&Value, &Registration),
    protection: Protection<'_>,
    cost: KeyCost,
) -> Result<(), Error> {
    let password = match protection {
        Protection::Password(password) => Some(Credential::Password(password)),
        Protection::KeyAlone | Protection::Token => None,
    };
    let token = made.token.as_ref().map(Credential::Token);
    for credential in password.into_iter().chain(token) {
        Stretched::new(salt, user, &credential, cost)?.put(database, &made.key)?;
    }
    Ok(())
}

/// Returns the key of the pseudoprincipal with this index in a bag with this seed. Its suite is
/// that of the bag's owner, so that records behind a placeholder are sealed no weaker than the link
/// to it.
pub(crate) fn pseudo_key(
    suite: Suite,
    seed: &[u8; KEY_BYTES],
    index: u32,
) -> Result<SecretKey, Error> {
    let label: &[u8] = match suite {
        Suite::X25519 => b"pseudoprincipal",
        Suite::XWing => b"pseudoprincipal x-wing",
    };
    let bytes = derive(seed, label, &index.to_le_bytes())?;
    Ok(SecretKey::of(suite, bytes))
}

/// A bag that a credential reaches.
pub(crate) struct Reached {
    pub(crate) found: Found,
    /// The bag, if it was read already because it holds speaks-for records.
    pub(crate) bag: Option<Bag>,
    /// True if that was tried, and a part of it is missing or damaged.
    pub(crate) is_damaged: bool,
    /// The principal of the bag: a public key, and the placeholder unless it is the person.
    pub(crate) public: PublicKey,
    pub(crate) placeholder: Option<Value>,
}

impl Reached {
    /// Returns the bag, read from the database if it was not read before; nothing if a part of it is
    /// missing or damaged.
    pub(crate) fn read(&self, database: &mut dyn TenantConnection) -> Result<Option<Bag>, Error> {
        match &self.bag {
            Some(bag) => Ok(Some(bag.clone())),
            None if self.is_damaged => Ok(None),
            None => store::read_bag(database, &self.found.locator),
        }
    }

    pub(crate) const fn disguise(&self) -> DisguiseId {
        DisguiseId(self.found.locator.origin.disguise)
    }

    /// Returns the error of an operation that needs the bag and cannot read it.
    pub(crate) const fn unreadable(&self) -> Error {
        Error::Unreadable {
            disguise: self.disguise(),
        }
    }
}

/// Everything that a credential reaches.
pub(crate) struct Reach {
    pub(crate) bags: Vec<Reached>,
    /// Pseudoprincipal to its record.
    pub(crate) links: BTreeMap<Vec<u8>, SpeaksFor>,
    /// Pseudoprincipal to its public key.
    pub(crate) publics: BTreeMap<Vec<u8>, PublicKey>,
}

impl Reach {
    /// Returns the pseudoprincipals whose rows still exist as far as the records know.
    pub(crate) fn present(&self) -> Vec<Value> {
        self.links
            .values()
            .filter(|link| !link.gone)
            .map(|link| link.new.clone())
            .collect()
    }

    /// Returns the names of those whose own disguise was revealed.
    pub(crate) fn gone(&self) -> BTreeSet<Vec<u8>> {
        let gone = self.links.iter().filter(|(_, link)| link.gone);
        gone.map(|(name, _)| name.clone()).collect()
    }

    /// Returns whether a disguise hides something of the person.
    pub(crate) fn hides_by(&self, id: DisguiseId) -> bool {
        let mut locators = self.bags.iter().map(|it| &it.found.locator);
        locators.any(|it| it.changes && it.origin.disguise == id.0)
    }

    /// Returns whether anything else than this disguise hides something of the person.
    pub(crate) fn hides_beside(&self, id: DisguiseId) -> bool {
        let mut others = self.bags.iter();
        others.any(|it| {
            let locator = &it.found.locator;
            (locator.changes || it.is_damaged) && locator.origin.disguise != id.0
        })
    }

    /// Returns those that existed before a disguise, of which chunks may have made some.
    pub(crate) fn present_before(&self, id: DisguiseId) -> Vec<Value> {
        let mut made = BTreeSet::new();
        let own = |it: &&Reached| it.found.locator.origin.disguise == id.0;
        for bag in self
            .bags
            .iter()
            .filter(own)
            .filter_map(|it| it.bag.as_ref())
        {
            made.extend(bag.speaks_for.iter().map(|link| link.new.principal()));
        }
        let mut present = self.present();
        present.retain(|it| !made.contains(&it.principal()));
        present
    }

    /// Returns the placeholders from `id` towards its person, `id` first, each with its record.
    pub(crate) fn chain<'a>(&'a self, id: &Value) -> impl Iterator<Item = &'a SpeaksFor> {
        let mut at = id.principal();
        let mut left = self.links.len();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let link = self.links.get(&at)?;
            at = link.old.principal();
            Some(link)
        })
    }

    /// Returns the placeholder nearest to `id`, or itself, that was made for somebody who left a
    /// shared row.
    pub(crate) fn left(&self, id: &Value) -> Option<Vec<u8>> {
        let left = self.chain(id).find(|link| link.left)?;
        Some(left.new.principal())
    }

    /// Returns the principals behind `id`, nearest first.
    pub(crate) fn behind<'a>(&'a self, id: &Value) -> impl Iterator<Item = &'a Value> {
        self.chain(id).map(|link| &link.old)
    }
}

/// Returns the parts of forgotten bags that other disguises need: the speaks-for records, and
/// copies of rows that the principal had left before.
pub(crate) fn needed_by_others<'a>(
    database: &mut dyn TenantConnection,
    meant: &[&'a Reached],
) -> Result<Vec<(Bag, &'a Reached)>, Error> {
    let mut out = Vec::new();
    for it in meant {
        let locator = &it.found.locator;
        let mut bag = match &it.bag {
            Some(bag) => bag.clone(),
            None if locator.copies => match it.read(database)? {
                Some(bag) => bag,
                None => continue,
            },
            None => continue,
        };
        bag.sections.retain(Section::is_for_departed);
        bag.principals.clear();
        bag.drop_notes();
        out.push((bag, *it));
    }
    Ok(out)
}

/// Returns the bag in the form that is stored for other disguises.
pub(crate) fn stored_for_others<'a>(
    bag: &'a Bag,
    it: &Reached,
    person: &Value,
    cohorts: Vec<u8>,
) -> Stored<'a> {
    Stored {
        bag,
        public: it.public.clone(),
        owner: it.placeholder.as_ref().unwrap_or(person).principal(),
        person: it.placeholder.is_none(),
        origin: it.found.locator.origin,
        cohorts,
        stage: Stage::Pending,
    }
}

/// Encrypts everything of `reach` again: under a new key of the person and new keys of all
/// placeholders. Returns these keys by their principals.
pub(crate) fn rekey(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    (person, (old, public)): (&Value, (&PublicKey, &PublicKey)),
    reach: &Reach,
) -> Result<BTreeMap<Vec<u8>, PublicKey>, Error> {
    let suite = public.suite();
    let mut keys = BTreeMap::from([(person.principal(), public.clone())]);
    let mut seeded = Vec::with_capacity(reach.bags.len());
    for it in &reach.bags {
        let seed = RecordKey::generate()?;
        // The links to placeholders were read already.
        for link in it.bag.iter().flat_map(|bag| &bag.speaks_for) {
            let public = pseudo_key(suite, &seed, link.index)?.public()?;
            keys.insert(link.new.principal(), public);
        }
        seeded.push((it, seed));
    }
    let mut left = seeded.as_slice();
    while !left.is_empty() {
        let (some, rest) = left.split_at(held_at_once(left));
        reseal(database, salt, (person, &keys), some)?;
        left = rest;
    }
    let found: Vec<&Found> = reach.bags.iter().map(|it| &it.found).collect();
    store::remove_bags(database, salt, &found)?;
    // Somebody else may be registered under the id of the person by now.
    let mut former = reach.publics.clone();
    former.insert(person.principal(), old.clone());
    registry::change_keys(database, &keys, &former)?;
    Ok(keys)
}

/// Returns the number of leading bags, one at least, whose parts fit into the limit.
fn held_at_once<T>(bags: &[(&Reached, T)]) -> usize {
    let mut parts: u32 = 0;
    let fits = bags.iter().take_while(|(it, _)| {
        parts = parts.saturating_add(it.found.locator.parts);
        parts <= PARTS_AT_ONCE
    });
    fits.count().clamp(1, bags.len().max(1))
}

/// Stores bags once more, each with a seed of its own and under the new key of its owner.
fn reseal(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    (person, keys): (&Value, &BTreeMap<Vec<u8>, PublicKey>),
    some: &[(&Reached, RecordKey)],
) -> Result<(), Error> {
    let mut bags = Vec::with_capacity(some.len());
    for (it, seed) in some {
        let mut bag = it.read(database)?.ok_or_else(|| it.unreadable())?;
        bag.seed.clone_from(seed);
        for (id, known, _) in &mut bag.principals {
            if let Some(public) = keys.get(&id.principal()) {
                known.clone_from(public);
            }
        }
        bags.push(bag);
    }
    let found: Vec<&Found> = some.iter().map(|(it, _)| &it.found).collect();
    let cohorts = Cohorts::of(database, &found)?;
    let mut stored = Vec::with_capacity(bags.len());
    for ((it, _), bag) in some.iter().zip(&bags) {
        let locator = &it.found.locator;
        let owner = it.placeholder.as_ref().unwrap_or(person);
        stored.push(Stored {
            bag,
            public: keys.get(&owner.principal()).cloned().ok_or(Error::Forged)?,
            owner: owner.principal(),
            person: it.placeholder.is_none(),
            origin: locator.origin,
            cohorts: cohorts.beside(&it.found),
            stage: match (locator.pending, bag.has_changes()) {
                (false, _) => Stage::Disguised,
                (true, false) if locator.changes => Stage::Waiting,
                (true, _) => Stage::Pending,
            },
        });
    }
    store::put_bags(database, salt, &stored)
}
