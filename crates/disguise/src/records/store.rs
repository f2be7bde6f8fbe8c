//! The engine's own tables: principals, locators, bags, credentials, shared placeholders and settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::crypto::suite::PublicKey;
use crate::crypto::{KEY_BYTES, SecretKey, derive, open_part, random, seal_part, seal_to};
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::Value;
use crate::database::{Database, DatabaseError, DatabaseErrorKind, placeholders};
use crate::error::{Doing as _, Error};
use crate::records::bag::{Bag, Locator, OWNER_BYTES};
use crate::records::deadline::{self, Day, Record};
use crate::records::forgotten::{self, ANY_MAILBOX, FORGOTTEN};
use crate::records::section::{Origin, PrincipalKind, Section};
use crate::statements::table::{delete_keys, insert_all, lists, runs, select_keys};

/// Bytes of a sealed part of a bag.
const PART_BYTES: usize = 256 * 1024;
/// The same for a short bag: several parts fit into a page of a database, where a longer one would take pages of its own.
const SHORT_PART_BYTES: usize = 944;
/// The longest bag that is short.
const SHORT_BYTES_MAX: usize = 8 * 1024;
/// Parts read by one statement.
const PARTS_READ: u32 = 64;
/// Names of the tables.
pub(crate) const PRINCIPALS: &str = "probity_principals";
pub(crate) const LOCATORS: &str = "probity_locators";
pub(crate) const BAGS: &str = "probity_bags";
pub(crate) const CREDENTIALS: &str = "probity_credentials";
pub(crate) const SHARED: &str = "probity_shared";
pub(crate) const SETTINGS: &str = "probity_settings";
pub(crate) const HOLDS: &str = "probity_holds";
pub(crate) const DEADLINES: &str = "probity_deadlines";
pub(crate) const FLEETING: &str = "probity_fleeting";
pub(crate) const SCHEDULED: &str = "probity_scheduled";
pub(crate) const DECAYED: &str = "probity_decayed";
pub(crate) const OPERATIONS: &str = "probity_operations";
pub(crate) const INTENTS: &str = "probity_intents";
/// The setting that is the random salt of this database.
pub(crate) const SALT: &[u8] = b"salt";
/// The setting that lists the updates.
pub(crate) const UPDATES: &[u8] = b"updates";

/// The handle of one disguise, random, shown as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DisguiseId(pub(crate) u64);

impl fmt::Display for DisguiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for DisguiseId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Value {
            what: "a disguise id has 16 hexadecimal digits".to_owned(),
        };
        if text.len() != 16 {
            return Err(wrong());
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_digits| wrong())
    }
}

/// Stores the description of the application.
pub(crate) fn put_description(
    database: &mut dyn TenantConnection,
    text: &str,
) -> Result<(), Error> {
    put_setting(database, b"description", text.as_bytes())
}

/// The description of the application that was stored last.
pub(crate) fn description(database: &mut dyn Database) -> Result<String, Error> {
    match setting(database, b"description")? {
        Some(text) => String::from_utf8(text).map_err(|_bytes| Error::Forged),
        None => Err(Error::NotInstalled),
    }
}

/// The list of updates as it was stored last.
pub(crate) fn updates(database: &mut dyn TenantConnection) -> Result<Option<Vec<u8>>, Error> {
    setting(database, UPDATES)
}

/// Stores the list of updates.
pub(crate) fn put_updates(database: &mut dyn TenantConnection, text: &[u8]) -> Result<(), Error> {
    put_setting(database, UPDATES, text)
}

pub(crate) fn put_setting(
    database: &mut dyn TenantConnection,
    name: &[u8],
    value: &[u8],
) -> Result<(), Error> {
    let by = ["name".to_owned()];
    delete_keys(database, SETTINGS, &by, &[vec![bytes(name)]])?;
    insert_all(
        database,
        SETTINGS,
        &["name", "value"],
        &[vec![bytes(name), bytes(value)]],
    )
}

pub(crate) fn setting(database: &mut dyn Database, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let sql = format!("SELECT value FROM {SETTINGS} WHERE name = ?");
    let rows = database.query(&sql, &[bytes(name)]).map_err(uninstalled)?;
    Ok(match rows.into_iter().flatten().next() {
        Some(Value::Bytes(value)) => Some(value),
        _ => None,
    })
}

/// Where a table of ours is not there, the database is not prepared for disguises.
pub(crate) fn uninstalled(error: DatabaseError) -> Error {
    match error.kind {
        DatabaseErrorKind::Absent => Error::NotInstalled,
        _ => Error::Database {
            doing: "reading what is stored of disguises",
            source: error,
        },
    }
}

/// The random salt of this database.
pub(crate) fn own_salt(database: &mut dyn Database) -> Result<Vec<u8>, Error> {
    setting(database, SALT)?.ok_or(Error::NotInstalled)
}

/// The salt of what is stored for the tenant at hand, or of this database where there are no tenants.
pub(crate) fn salt(database: &mut dyn TenantConnection) -> Result<Vec<u8>, Error> {
    let salt = own_salt(database)?;
    Ok(database.tenancy().salt(salt))
}

/// Whether anybody is registered or anything is hidden.
pub(crate) fn is_in_use(database: &mut dyn TenantConnection) -> Result<bool, Error> {
    for table in [PRINCIPALS, LOCATORS, SCHEDULED, INTENTS, HOLDS] {
        let rows = database.query(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]);
        if !rows.map_err(uninstalled)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec())
}

/// A principal, its public key and its standing.
pub(crate) type Keyed = (Vec<u8>, PublicKey, PrincipalKind);

/// Principal to public key and standing.
pub(crate) type Registered = BTreeMap<Vec<u8>, (PublicKey, PrincipalKind)>;

/// The longest id of a user that is stored as it is.
const ID_BYTES_MAX: usize = 15;
/// Bytes that stand for a longer one, so that no index grows with the ids; no shorter id has this length.
const ID_HASH_BYTES: usize = 16;

/// How a principal is named in the engine's tables. With tenants the name is always a hash, of the tenant and the id.
pub(crate) fn named(tenancy: &TenantScope, id: &[u8]) -> Value {
    if id.len() <= ID_BYTES_MAX && tenancy.tag().is_empty() {
        return bytes(id);
    }
    let mut hash = Sha256::new();
    hash.update(b"probity disguise principal\0");
    hash.update(tenancy.tag());
    hash.update(id);
    Value::Bytes(
        hash.finalize()
            .iter()
            .copied()
            .take(ID_HASH_BYTES)
            .collect(),
    )
}

/// Public keys and standing of those among `ids` who are registered.
pub(crate) fn principals(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<Registered, Error> {
    let mut meant: BTreeMap<Vec<u8>, &[u8]> = BTreeMap::new();
    let mut keys: Vec<Vec<Value>> = Vec::with_capacity(ids.len());
    for id in ids {
        let name = named(database.tenancy(), id);
        if meant.insert(name.principal(), id).is_none() {
            keys.push(vec![name]);
        }
    }
    let columns = ["id", "public_key", "standing"].map(str::to_owned);
    let mut out = BTreeMap::new();
    for row in select_keys(database, PRINCIPALS, &columns, &["id".to_owned()], &keys)? {
        if let [Value::Bytes(name), Value::Bytes(public), Value::Int(code)] = row.as_slice()
            && let Some(id) = meant.get(name)
        {
            out.insert(id.to_vec(), registration(public, *code)?);
        }
    }
    Ok(out)
}

/// A public key and a standing as they are stored.
pub(crate) fn registration(public: &[u8], code: i64) -> Result<(PublicKey, PrincipalKind), Error> {
    let standing = PrincipalKind::from_code(code).ok_or(Error::Forged)?;
    Ok((PublicKey::decode(public)?, standing))
}

/// Registers principals.
pub(crate) fn register(
    database: &mut dyn TenantConnection,
    principals: &[Keyed],
) -> Result<(), Error> {
    let rows: Vec<Vec<Value>> = principals
        .iter()
        .map(|(id, public, standing)| {
            let code = Value::Int(i64::from(standing.code()));
            vec![
                named(database.tenancy(), id),
                Value::Bytes(public.encode()),
                code,
            ]
        })
        .collect();
    insert_all(
        database,
        PRINCIPALS,
        &["id", "public_key", "standing"],
        &rows,
    )
}

/// Gives registered principals new public keys; whoever is not registered stays so, and whoever has the id of a placeholder, and
/// is registered under another key than `former` has for it, keeps theirs.
pub(crate) fn change_keys(
    database: &mut dyn TenantConnection,
    keys: &BTreeMap<Vec<u8>, PublicKey>,
    former: &BTreeMap<Vec<u8>, PublicKey>,
) -> Result<(), Error> {
    let names: Vec<Vec<u8>> = keys.keys().cloned().collect();
    let registered = principals(database, &names)?;
    let changed = keys.iter().filter_map(|(name, public)| {
        let (known, standing) = registered.get(name)?;
        if former.get(name).is_some_and(|former| former != known) {
            return None;
        }
        Some((name.clone(), public.clone(), *standing))
    });
    register_anew(database, &registered, changed.collect())
}

/// Notes that placeholders are no longer those of someone who left.
pub(crate) fn return_departed(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<(), Error> {
    let [standing, left] =
        [PrincipalKind::Placeholder, PrincipalKind::Departed].map(|it| i64::from(it.code()));
    let keys = ids.iter().map(|id| named(database.tenancy(), id));
    let keys: Vec<Value> = keys.collect();
    for list in lists(&keys, 1) {
        let marks = placeholders(list.len());
        let sql = format!(
            "UPDATE {PRINCIPALS} SET standing = {standing} WHERE standing = {left} AND id IN ({marks})"
        );
        database.execute(&sql, &list).doing("noting who returned")?;
    }
    Ok(())
}

/// Registers principals of whom `known`, the registrations so far, has another key or none.
pub(crate) fn register_anew(
    database: &mut dyn TenantConnection,
    known: &Registered,
    mut principals: Vec<Keyed>,
) -> Result<(), Error> {
    let public = |name: &[u8]| known.get(name).map(|(public, _)| public);
    principals.retain(|(name, new, _)| public(name) != Some(new));
    let names = principals.iter().map(|(name, _, _)| name.clone());
    let changed: Vec<Vec<u8>> = names.filter(|name| known.contains_key(name)).collect();
    unregister(database, &changed)?;
    register(database, &principals)
}

/// Removes registrations.
pub(crate) fn unregister(
    database: &mut dyn TenantConnection,
    ids: &[Vec<u8>],
) -> Result<(), Error> {
    let keys = ids.iter().map(|id| vec![named(database.tenancy(), id)]);
    let keys: Vec<Vec<Value>> = keys.collect();
    delete_keys(database, PRINCIPALS, &["id".to_owned()], &keys)?;
    Ok(())
}

/// Where locators for a key lie. Persons share one mailbox among many, pseudoprincipals have their own.
pub(crate) fn mailbox(salt: &[u8], public: &PublicKey, person: bool) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise mailbox\0");
    hash.update(salt);
    hash.update(public.as_bytes());
    let digest = hash.finalize();
    digest
        .iter()
        .copied()
        .take(if person { 1 } else { 16 })
        .collect()
}

/// Whether a mailbox is one of people.
pub(crate) const fn is_of_person(mailbox: &[u8]) -> bool {
    mailbox.len() == 1
}

/// What a locator is bound to: its mailbox, and the tenant, so that no key opens anything as another's.
fn bound(tenancy: &TenantScope, mailbox: &[u8]) -> Vec<u8> {
    [mailbox, tenancy.tag()].concat()
}

/// A bag about to be stored for a principal.
pub(crate) struct Stored<'a> {
    pub(crate) bag: &'a Bag,
    pub(crate) public: PublicKey,
    /// The principal.
    pub(crate) owner: Vec<u8>,
    /// Whether the principal is a person, not a placeholder.
    pub(crate) person: bool,
    pub(crate) origin: Origin,
    /// The bytes by which a hold on whoever the bag concerns keeps it from ending.
    pub(crate) cohorts: Vec<u8>,
    pub(crate) stage: Stage,
}

/// How far a bag is on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No reveal was asked for.
    Disguised,
    /// A reveal left something.
    Pending,
    /// A reveal left a placeholder that could not go, so the bag counts even without changes.
    Waiting,
}

/// Encrypts and stores bags and their locators.
pub(crate) fn put_bags(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    stored: &[Stored<'_>],
) -> Result<(), Error> {
    let mut locators = Vec::with_capacity(stored.len());
    let mut deadlines = Vec::new();
    for run in runs(stored, 16) {
        let mut parts = Vec::new();
        for it in run {
            let key = random()?;
            let body = it.bag.encode();
            let mut count: u32 = 0;
            let part_bytes = if body.len() > SHORT_BYTES_MAX {
                PART_BYTES
            } else {
                SHORT_PART_BYTES
            };
            for part in body.chunks(part_bytes) {
                let mut sealed = part.to_vec();
                seal_part(&key, count, &mut sealed)?;
                let id = part_id(&key, count)?;
                if it.origin.expires != Day::NEVER {
                    deadlines.push(deadline::row(Record::Part, &id, salt, it));
                }
                parts.push(vec![bytes(&id), Value::Bytes(sealed)]);
                count = count.saturating_add(1);
            }
            let locator = Locator {
                origin: it.origin,
                key,
                parts: count,
                speaks_for: !it.bag.speaks_for.is_empty(),
                changes: it.stage == Stage::Waiting || it.bag.has_changes(),
                copies: it.bag.sections.iter().any(Section::is_for_departed),
                values: it.bag.sections.iter().any(|it| it.values().is_some()),
                pending: it.stage != Stage::Disguised,
                owner: Some(owner_tag(salt, &it.owner)),
            };
            let mailbox = mailbox(salt, &it.public, it.person);
            let bound = bound(database.tenancy(), &mailbox);
            let sealed = seal_to(&it.public, &locator.encode(), &bound)?;
            let id = random::<16>()?;
            if it.origin.expires != Day::NEVER {
                deadlines.push(deadline::row(Record::Locator, &id, salt, it));
            }
            locators.push(vec![
                bytes(&id),
                Value::Bytes(mailbox),
                Value::Bytes(sealed),
            ]);
        }
        // Random ids in sorted order: nothing in the tables tells which bags were written together.
        parts.sort_by(|left, right| {
            left.first()
                .map(Value::principal)
                .cmp(&right.first().map(Value::principal))
        });
        insert_all(database, BAGS, &["id", "body"], &parts)?;
    }
    insert_all(database, LOCATORS, &["id", "mailbox", "sealed"], &locators)?;
    deadline::put(database, &deadlines)
}

/// What says in a locator whose it is.
pub(crate) fn owner_tag(salt: &[u8], principal: &[u8]) -> [u8; OWNER_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise owner\0");
    hash.update(salt);
    hash.update(principal);
    let mut tag = [0; OWNER_BYTES];
    tag.iter_mut()
        .zip(hash.finalize())
        .for_each(|(to, from)| *to = from);
    tag
}

pub(crate) fn part_id(key: &[u8; KEY_BYTES], part: u32) -> Result<[u8; 16], Error> {
    derive(key, b"part", &part.to_le_bytes())
}

/// A locator that a key opened.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) row: Vec<u8>,
    pub(crate) mailbox: Vec<u8>,
    pub(crate) locator: Locator,
}

/// What lies in mailboxes for some keys.
#[derive(Default)]
pub(crate) struct Located {
    /// The locators, each with the place of its key.
    pub(crate) found: Vec<(usize, Found)>,
    /// Names of what was forgotten, among them those of others.
    pub(crate) forgotten: BTreeSet<Vec<u8>>,
}

/// Opens every locator in the mailboxes that belongs to one of `keys`, which carry their public key and kind; what was
/// forgotten and is there again is left out.
pub(crate) fn locators(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    keys: &[(&SecretKey, PublicKey, bool)],
) -> Result<Located, Error> {
    let mut owners: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for (index, (_, public, person)) in keys.iter().enumerate() {
        owners.insert(mailbox(salt, public, *person), index);
    }
    let wanted: Vec<Value> = owners.keys().map(|mailbox| bytes(mailbox)).collect();
    let mut located = Located::default();
    let mut sealed = Vec::new();
    for asked in lists(&wanted, 2) {
        let marks = placeholders(asked.len());
        let sql = format!(
            "SELECT 0, id, mailbox, sealed FROM {LOCATORS} WHERE mailbox IN ({marks}) UNION ALL SELECT 1, id, mailbox, id FROM {FORGOTTEN} WHERE mailbox IN ({marks},?)"
        );
        let mut parameters = [asked.as_slice(), asked.as_slice()].concat();
        parameters.push(bytes(ANY_MAILBOX));
        for row in database.query(&sql, &parameters).map_err(uninstalled)? {
            match <[Value; 4]>::try_from(row) {
                Ok(
                    [
                        Value::Int(0),
                        Value::Bytes(id),
                        Value::Bytes(mailbox),
                        Value::Bytes(body),
                    ],
                ) => {
                    sealed.push((id, mailbox, body));
                }
                Ok([Value::Int(1), Value::Bytes(name), _, _]) => {
                    located.forgotten.insert(name);
                }
                _ => return Err(Error::Forged),
            }
        }
    }
    for (row, mailbox, sealed) in sealed {
        let owner = owners.get(&mailbox);
        let Some((index, (secret, _, _))) = owner.and_then(|at| Some((*at, keys.get(*at)?))) else {
            continue;
        };
        let Some(content) = secret.open(&sealed, &bound(database.tenancy(), &mailbox)) else {
            continue;
        };
        let locator = Locator::decode(&content)?;
        if !located
            .forgotten
            .contains(&forgotten::bag_name(salt, &locator.key)?)
        {
            let found = Found {
                row,
                mailbox,
                locator,
            };
            located.found.push((index, found));
        }
    }
    Ok(located)
}

/// Reads and decrypts a bag.
pub(crate) fn read_bag(
    database: &mut dyn TenantConnection,
    locator: &Locator,
) -> Result<Bag, Error> {
    let mut body = Vec::new();
    let columns = ["id", "body"].map(str::to_owned);
    let mut next = 0;
    while next < locator.parts {
        let end = next.saturating_add(PARTS_READ).min(locator.parts);
        let ids = (next..end).map(|part| part_id(&locator.key, part));
        let ids: Vec<[u8; 16]> = ids.collect::<Result<_, _>>()?;
        let keys: Vec<Vec<Value>> = ids.iter().map(|id| vec![bytes(id)]).collect();
        let rows = select_keys(database, BAGS, &columns, &["id".to_owned()], &keys)?;
        let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for row in rows {
            if let Ok([Value::Bytes(id), Value::Bytes(sealed)]) = <[Value; 2]>::try_from(row) {
                found.insert(id, sealed);
            }
        }
        for (id, part) in ids.iter().zip(next..end) {
            let mut sealed = found.remove(id.as_slice()).ok_or(Error::Forged)?;
            open_part(&locator.key, part, &mut sealed)?;
            body.append(&mut sealed);
        }
        next = end;
    }
    Ok(Bag::decode(&body)?)
}

/// The ids of the first parts of bags, then those of their locators, and then those of all other parts. A first part is found
/// under this name whatever somebody calls the locator that leads there, and without it nothing is read.
pub(crate) fn record_ids(found: &[&Found]) -> Result<Vec<Vec<u8>>, Error> {
    let part = |it: &Found, part| Ok::<_, Error>(part_id(&it.locator.key, part)?.to_vec());
    let first = found.iter().map(|it| part(it, 0));
    let mut ids: Vec<Vec<u8>> = first.collect::<Result<_, _>>()?;
    ids.extend(found.iter().map(|it| it.row.clone()));
    for it in found {
        for number in 1..it.locator.parts {
            ids.push(part(it, number)?);
        }
    }
    Ok(ids)
}

/// Removes bags and their locators, whatever they make room for, and notes that they are none any more: nothing opens them again when
/// somebody puts them back.
pub(crate) fn remove_bags(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    found: &[&Found],
) -> Result<(), Error> {
    forgotten::put_bags(database, salt, found)?;
    let (mut parts, mut ending) = (Vec::new(), Vec::new());
    for it in found {
        let ends = it.locator.origin.expires != Day::NEVER;
        for part in 0..it.locator.parts {
            let id = part_id(&it.locator.key, part)?;
            if ends {
                ending.push((Record::Part, id.to_vec()));
            }
            parts.push(vec![bytes(&id)]);
        }
        if ends {
            ending.push((Record::Locator, it.row.clone()));
        }
    }
    deadline::remove(database, &ending)?;
    delete_keys(database, BAGS, &["id".to_owned()], &parts)?;
    let rows: Vec<Vec<Value>> = found.iter().map(|it| vec![bytes(&it.row)]).collect();
    delete_keys(database, LOCATORS, &["id".to_owned()], &rows)?;
    Ok(())
}
