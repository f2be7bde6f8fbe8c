//! Bags and their locators: sealed and stored, found and opened, removed.

use std::collections::{BTreeMap, BTreeSet};

use crate::crypto::record_key::RecordKey;
use crate::crypto::suite::PublicKey;
use crate::crypto::{SecretKey, open_part, random, seal_part, seal_to};
use crate::database::placeholders;
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::day::Day;
use crate::records::deadline::{self, Record};
use crate::records::forgotten::{self, ANY_MAILBOX};
use crate::records::locator::{Locator, PARTS_MAX};
use crate::records::section::Section;
use crate::records::shape;
use crate::records::stored::{Found, Stage, Stored, mailbox, owner_tag, part_id};
use crate::records::tables::FORGOTTEN;
use crate::records::tables::{BAGS, LOCATORS, bytes, uninstalled};
use crate::statements::deletion::destroy_keys;
use crate::statements::table::{insert_all, lists, runs, select_keys};

/// Bytes of a sealed part of a bag.
const PART_BYTES: usize = 256 * 1024;
/// Bytes of a sealed part of a short bag: several parts fit into a page of a database, while a
/// longer one would take pages of its own.
const SHORT_PART_BYTES: usize = 944;
/// The longest bag that is short.
const SHORT_BYTES_MAX: usize = 8 * 1024;
/// Parts read by one statement.
const PARTS_READ: u32 = 64;

/// Returns the context that a locator is bound to: its mailbox, and the tenant, so that no key
/// opens it for another.
fn bound(tenancy: &TenantScope, mailbox: &[u8]) -> Vec<u8> {
    [mailbox, tenancy.tag()].concat()
}

/// Encrypts and stores bags and their locators.
pub(crate) fn put_bags(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    stored: &[Stored<'_>],
) -> Result<(), Error> {
    shape::put(database, stored.iter().map(|it| it.bag))?;
    let mut locators = Vec::with_capacity(stored.len());
    let mut deadlines = Vec::new();
    for run in runs(stored, 16) {
        let mut parts = Vec::new();
        for it in run {
            let key = RecordKey::generate()?;
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
            if count > PARTS_MAX {
                return Err(Error::Value {
                    what: "what is hidden of one person in one transaction is more than 4 GiB: apply in chunks".to_owned(),
                });
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
        // The ids are random and sorted, so that the tables do not show which bags were written
        // together.
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

/// The contents of mailboxes for some keys.
#[derive(Default)]
pub(crate) struct Located {
    /// The locators, each with the place of its key.
    pub(crate) found: Vec<(usize, Found)>,
    /// Names of forgotten records, among them those of others.
    pub(crate) forgotten: BTreeSet<Vec<u8>>,
}

/// A key whose mailbox is read.
pub(crate) struct MailboxKey<'k> {
    pub(crate) secret: &'k SecretKey,
    pub(crate) public: PublicKey,
    /// Set for a person's key, not for a placeholder's.
    pub(crate) is_person: bool,
}

/// Opens every locator in the mailboxes that belongs to one of `keys`. Forgotten ones that were put
/// back are left out, and of several that lead to one record all but one.
pub(crate) fn locators(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    keys: &[MailboxKey<'_>],
) -> Result<Located, Error> {
    let mut owners: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        owners.insert(mailbox(salt, &key.public, key.is_person), index);
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
    let mut met = BTreeSet::new();
    for (row, mailbox, sealed) in sealed {
        let owner = owners.get(&mailbox);
        let Some((index, key)) = owner.and_then(|at| Some((*at, keys.get(*at)?))) else {
            continue;
        };
        let Some(content) = key
            .secret
            .open(&sealed, &bound(database.tenancy(), &mailbox))
        else {
            continue;
        };
        // Anybody can seal to a public key; what is no locator says nothing.
        let Ok(locator) = Locator::decode(&content) else {
            continue;
        };
        let name = forgotten::bag_name(salt, &locator.key)?;
        let is_forgotten = located.forgotten.contains(&name);
        // A row that somebody doubled leads to the same record.
        if !is_forgotten && met.insert((index, name)) {
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

/// Reads and decrypts a bag. Returns nothing if a part of it is missing or damaged.
pub(crate) fn read_bag(
    database: &mut dyn TenantConnection,
    locator: &Locator,
) -> Result<Option<Bag>, Error> {
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
            let Some(mut sealed) = found.remove(id.as_slice()) else {
                return Ok(None);
            };
            if open_part(&locator.key, part, &mut sealed).is_err() {
                return Ok(None);
            }
            body.append(&mut sealed);
        }
        next = end;
    }
    Ok(Bag::decode(&body).ok())
}

/// Returns those of the bags of which a part is stored that comes before all others.
pub(crate) fn beginning<'f>(
    database: &mut dyn TenantConnection,
    found: &[&'f Found],
) -> Result<Vec<&'f Found>, Error> {
    let mut first = BTreeMap::new();
    for it in found {
        first.insert(part_id(&it.locator.key, 0)?.to_vec(), *it);
    }
    let keys: Vec<Vec<Value>> = first.keys().map(|id| vec![bytes(id)]).collect();
    let id = ["id".to_owned()];
    let there = select_keys(database, BAGS, &id, &id, &keys)?;
    let there = there.into_iter().flatten();
    Ok(there
        .filter_map(|id| match id {
            Value::Bytes(id) => first.get(&id).copied(),
            _ => None,
        })
        .collect())
}

/// Returns the ids of the parts of a bag. Of many, those that are stored: a locator alone shows not
/// that it is genuine.
fn parts(database: &mut dyn TenantConnection, locator: &Locator) -> Result<Vec<[u8; 16]>, Error> {
    let mut all = Vec::new();
    let mut next = 0;
    while next < locator.parts {
        let end = next.saturating_add(PARTS_READ).min(locator.parts);
        let ids = (next..end).map(|part| part_id(&locator.key, part));
        let mut ids: Vec<[u8; 16]> = ids.collect::<Result<_, _>>()?;
        if locator.parts > PARTS_READ {
            let keys: Vec<Vec<Value>> = ids.iter().map(|id| vec![bytes(id)]).collect();
            let id = ["id".to_owned()];
            let there = select_keys(database, BAGS, &id, &id, &keys)?.concat();
            ids.retain(|id| there.contains(&bytes(id)));
        }
        all.append(&mut ids);
        next = end;
    }
    Ok(all)
}

/// Returns the ids of the first parts of bags, then those of their locators, and then those of all
/// other parts. A first part is found under this name even if the locator to it is renamed, and
/// without it nothing is read.
pub(crate) fn record_ids(
    database: &mut dyn TenantConnection,
    found: &[&Found],
) -> Result<Vec<Vec<u8>>, Error> {
    let first = found.iter().map(|it| part_id(&it.locator.key, 0));
    let first: Vec<[u8; 16]> = first.collect::<Result<_, _>>()?;
    let mut ids: Vec<Vec<u8>> = first.iter().map(|id| id.to_vec()).collect();
    ids.extend(found.iter().map(|it| it.row.clone()));
    for (it, first) in found.iter().zip(&first) {
        let others = parts(database, &it.locator)?.into_iter();
        ids.extend(others.filter(|id| id != first).map(|id| id.to_vec()));
    }
    Ok(ids)
}

/// Removes bags and their locators, also when others replace them, and notes that they are void:
/// nothing opens them again when somebody puts them back.
pub(crate) fn remove_bags(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    found: &[&Found],
) -> Result<(), Error> {
    forgotten::put_bags(database, salt, found)?;
    let (mut gone, mut ending) = (Vec::new(), Vec::new());
    for it in found {
        let ends = it.locator.origin.expires != Day::NEVER;
        for id in parts(database, &it.locator)? {
            if ends {
                ending.push((Record::Part, id.to_vec()));
            }
            gone.push(vec![bytes(&id)]);
        }
        if ends {
            ending.push((Record::Locator, it.row.clone()));
        }
    }
    deadline::remove(database, &ending)?;
    destroy_keys(database, BAGS, &["id".to_owned()], &gone)?;
    let rows: Vec<Vec<Value>> = found.iter().map(|it| vec![bytes(&it.row)]).collect();
    destroy_keys(database, LOCATORS, &["id".to_owned()], &rows)
}
