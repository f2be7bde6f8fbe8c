//! Legal holds: people and disguises that may be neither hidden nor destroyed until they are
//! lifted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use probity_format::Timestamp;
use probity_format::limits::NAME_BYTES_MAX;
use sha2::{Digest as _, Sha256};

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::records::tables::{HOLDS, bytes, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;

/// Bytes of the salted hash of the target of a hold, after its kind.
const HASH_BYTES: usize = 16;
const PERSON: u8 = 0;
const DISGUISE: u8 = 1;

/// The target of a hold.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Holding<'a> {
    /// Everything of a person, who has a row in the users table.
    Person(&'a Value),
    /// Everything of a person who is away, under the name that they had in the users table, letter
    /// by letter.
    Away(&'a Value),
    /// The records of a disguise.
    Disguise(DisguiseId),
}

impl Holding<'_> {
    /// Returns the salted hash of the target, so that the table of holds names nobody.
    pub(crate) fn name(&self, salt: &[u8]) -> Vec<u8> {
        match self {
            Self::Person(user) | Self::Away(user) => person(salt, &user.principal()),
            Self::Disguise(id) => hashed(salt, DISGUISE, &id.0.to_le_bytes()),
        }
    }
}

/// Returns one byte of the hash of a person: about one person in 256 shares it.
pub(crate) fn cohort(salt: &[u8], principal: &[u8]) -> u8 {
    person(salt, principal).get(1).copied().unwrap_or(0)
}

fn person(salt: &[u8], principal: &[u8]) -> Vec<u8> {
    hashed(salt, PERSON, principal)
}

fn hashed(salt: &[u8], kind: u8, what: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise hold\0");
    hash.update(salt);
    hash.update([kind]);
    hash.update(what);
    let hash = hash.finalize();
    let hash = hash.iter().copied().take(HASH_BYTES);
    std::iter::once(kind).chain(hash).collect()
}

/// The handle of one hold, random, shown as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId(pub(crate) u64);

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for HoldId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = u64::from_str_radix(text, 16);
        digits
            .ok()
            .filter(|_number| text.len() == 16)
            .map(Self)
            .ok_or_else(|| Error::Value {
                what: "the id of a hold has 16 hexadecimal digits".to_owned(),
            })
    }
}

/// The authority that places or lifts a hold, and its legal basis. Both go into the log as they
/// are, so neither may name the person whose data it is.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// The office or officer that decides.
    pub actor: &'a str,
    /// The legal basis or the file number.
    pub basis: &'a str,
    /// The time of the decision.
    pub time: Timestamp,
}

impl Authority<'_> {
    /// Refuses one that an entry could not record.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, text) in [("actor", self.actor), ("basis", self.basis)] {
            let fits = !text.is_empty()
                && text.len() <= NAME_BYTES_MAX
                && !text.chars().any(char::is_control);
            if !fits {
                return Err(Error::Value {
                    what: format!(
                        "the {name} of a hold has 1 to {NAME_BYTES_MAX} bytes and no control character"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// A hold in force.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// Its handle.
    pub id: HoldId,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The office or officer that placed it.
    pub actor: String,
    /// The legal basis.
    pub basis: String,
}

/// Places a hold.
pub(crate) fn place(
    database: &mut dyn TenantConnection,
    id: HoldId,
    name: Vec<u8>,
    authority: &Authority<'_>,
) -> Result<(), Error> {
    let row = vec![
        database.tenancy().key(&id.0.to_le_bytes()),
        Value::Bytes(name),
        Value::Int(authority.time.nanoseconds()),
        bytes(authority.actor.as_bytes()),
        bytes(authority.basis.as_bytes()),
    ];
    let columns = ["id", "held", "since", "actor", "basis"];
    insert_all(database, HOLDS, &columns, &[row])
}

/// Lifts a hold, if it exists.
pub(crate) fn lift(database: &mut dyn TenantConnection, id: HoldId) -> Result<(), Error> {
    let key = vec![vec![database.tenancy().key(&id.0.to_le_bytes())]];
    match delete_keys(database, HOLDS, &["id".to_owned()], &key)? {
        0 => Err(Error::NoSuchHold),
        _ => Ok(()),
    }
}

/// Returns all holds, or those on `name`, the oldest first.
pub(crate) fn list(
    database: &mut dyn TenantConnection,
    name: Option<&[u8]>,
) -> Result<Vec<Hold>, Error> {
    let own = database.tenancy().among_keys("WHERE");
    let sql = format!(
        "SELECT id, held, since, actor, basis FROM {HOLDS}{} ORDER BY since, id",
        own.sql
    );
    let rows = database
        .query(&sql, &own.parameters)
        .doing("reading the holds")?;
    let mut holds = Vec::new();
    for row in rows {
        let [
            Value::Bytes(id),
            Value::Bytes(held),
            Value::Int(since),
            Value::Bytes(actor),
            Value::Bytes(basis),
        ] = row.as_slice()
        else {
            return Err(Error::Forged);
        };
        if name.is_some_and(|name| name != held.as_slice()) {
            continue;
        }
        let id = <[u8; 8]>::try_from(database.tenancy().own(id));
        let id = id.map_err(|_length| Error::Forged)?;
        holds.push(Hold {
            id: HoldId(u64::from_le_bytes(id)),
            since: Timestamp::from_nanoseconds(*since).ok(),
            actor: String::from_utf8_lossy(actor).into_owned(),
            basis: String::from_utf8_lossy(basis).into_owned(),
        });
    }
    Ok(holds)
}

/// Returns the target of each hold, by the hold's id.
pub(crate) fn names(
    database: &mut dyn TenantConnection,
) -> Result<BTreeMap<HoldId, Vec<u8>>, Error> {
    let own = database.tenancy().among_keys("WHERE");
    let sql = format!("SELECT id, held FROM {HOLDS}{}", own.sql);
    let rows = database.query(&sql, &own.parameters).map_err(uninstalled)?;
    let named = |row: Vec<Value>| {
        let [Value::Bytes(id), Value::Bytes(held)] = row.as_slice() else {
            return Err(Error::Forged);
        };
        let id = <[u8; 8]>::try_from(database.tenancy().own(id));
        let id = id.map_err(|_length| Error::Forged)?;
        Ok((HoldId(u64::from_le_bytes(id)), held.clone()))
    };
    rows.into_iter().map(named).collect()
}

/// The names of everything held.
#[derive(PartialEq, Eq)]
pub(crate) struct Held(BTreeSet<Vec<u8>>);

impl Held {
    pub(crate) const fn of(names: BTreeSet<Vec<u8>>) -> Self {
        Self(names)
    }

    pub(crate) fn all(database: &mut dyn TenantConnection) -> Result<Self, Error> {
        let own = database.tenancy().among_keys("WHERE");
        let sql = format!("SELECT held FROM {HOLDS}{}", own.sql);
        let rows = database.query(&sql, &own.parameters).map_err(uninstalled)?;
        let names = rows.into_iter().flatten().filter_map(|value| match value {
            Value::Bytes(name) => Some(name),
            _ => None,
        });
        Ok(Self(names.collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether any disguise is held.
    pub(crate) fn has_disguises(&self) -> bool {
        self.0.iter().any(|name| name.first() == Some(&DISGUISE))
    }

    /// Returns whether a record of a person under a disguise is held.
    pub(crate) fn keeps(&self, salt: &[u8], user: &Value, id: DisguiseId) -> bool {
        self.refuse_person(salt, user).is_err() || self.refuse_disguise(salt, id).is_err()
    }

    /// Returns whether any person is held.
    pub(crate) fn has_people(&self) -> bool {
        self.0.iter().any(|name| name.first() == Some(&PERSON))
    }

    /// Returns the cohorts of the held people, whoever they are.
    pub(crate) fn cohorts(&self) -> BTreeSet<u8> {
        let person = |name: &&Vec<u8>| name.first() == Some(&PERSON);
        let people = self.0.iter().filter(person);
        people.filter_map(|name| name.get(1).copied()).collect()
    }

    pub(crate) fn refuse_person(&self, salt: &[u8], user: &Value) -> Result<(), Error> {
        self.refuse(salt, &Holding::Person(user), "the person")
    }

    pub(crate) fn refuse_disguise(&self, salt: &[u8], id: DisguiseId) -> Result<(), Error> {
        self.refuse(salt, &Holding::Disguise(id), "the disguise")
    }

    /// Refuses when any of `principals` is held, without saying which one.
    pub(crate) fn refuse_any<'a>(
        &self,
        salt: &[u8],
        mut principals: impl Iterator<Item = &'a Vec<u8>>,
    ) -> Result<(), Error> {
        if !self.is_empty() && principals.any(|it| self.0.contains(&person(salt, it))) {
            return Err(Error::Held {
                held: "a person among them",
            });
        }
        Ok(())
    }

    fn refuse(&self, salt: &[u8], what: &Holding<'_>, held: &'static str) -> Result<(), Error> {
        if self.0.contains(&what.name(salt)) {
            return Err(Error::Held { held });
        }
        Ok(())
    }
}
